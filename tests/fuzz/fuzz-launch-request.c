/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What processes of a pod send to the process that runs it. The first byte chooses: 'n', a message of
 * sd_notify(3); else how many descriptors come with the packet of a launcher that follows. */

#include "stage0/run/notice.h"
#include "stage0/run/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_notice(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1); /* of the exact size, so that a sanitizer sees a byte too many */
        Notice n = {};

        if (text)
                memcpy(text, data, size);
        if (text && notice_parse(text, size, &n) >= 0 && n.status &&
            (n.status < text || n.status > text + size || strlen(n.status) > NOTICE_SIZE_MAX ||
             strchr(n.status, '\n')))
                abort();
        free(text);
}

static void fuzz_request(size_t n_fds, const uint8_t *data, size_t size)
{
        LaunchRequest r;

        memset(&r, 0xff, sizeof(r));
        memcpy(&r, data, MIN(size, sizeof(r)));
        if (launch_request_check(&r, size, n_fds) < 0)
                return;
        if (r.phase >= _LAUNCH_PHASE_MAX || strlen(r.app) >= sizeof(r.app) || r.exit_status < -1 ||
            r.exit_status > 255 || n_fds > _LAUNCH_STREAM_MAX)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size > 0 && data[0] == 'n')
                fuzz_notice(data + 1, size - 1);
        else if (size > 0)
                fuzz_request(data[0], data + 1, size - 1);
        return 0;
}

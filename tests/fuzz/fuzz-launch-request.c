/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages from processes of a pod to the supervisor. The first byte selects the parser: 'n', a message of
 * sd_notify(3); else it is the number of descriptors that accompany the launcher's packet that follows. */

#include "stage0/supervisor/launchers/notice.h"
#include "stage0/supervisor/launchers/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_notice(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1); /* of the exact size, so that sanitizers detect reads beyond it */
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
        if (r.phase >= _LAUNCH_PHASE_MAX || strlen(r.app) >= sizeof(r.app) || n_fds > _LAUNCH_STREAM_MAX)
                abort();
}

static void fuzz_event(size_t n_fds, const uint8_t *data, size_t size)
{
        LaunchEvent e;

        memset(&e, 0xff, sizeof(e));
        memcpy(&e, data, MIN(size, sizeof(e)));
        if (launch_event_check(&e, size, n_fds) < 0)
                return;
        if (e.kind >= _LAUNCH_EVENT_MAX || e.cause >= _APP_CAUSE_MAX || n_fds > 0 || e.exit_status < -1 ||
            e.exit_status > 255 || e.signal < 0 || strlen(e.app) >= sizeof(e.app) ||
            strlen(e.result) >= sizeof(e.result) || strlen(e.identity) >= sizeof(e.identity) ||
            strlen(e.message) >= sizeof(e.message))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size > 0 && data[0] == 'n')
                fuzz_notice(data + 1, size - 1);
        else if (size > sizeof(LaunchRequest) + 1)
                fuzz_event(data[0], data + 1, size - 1);
        else if (size > 0)
                fuzz_request(data[0], data + 1, size - 1);
        return 0;
}

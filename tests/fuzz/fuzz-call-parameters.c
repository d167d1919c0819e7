/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parameters of calls of a pod's interface that have streams: Exec, Attach and Logs. The first byte says how many
 * descriptors come with the call, all of them pipes. */

#include "stage0/supervisor/exec/exec-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void push_pipes(FdList *fds, size_t n)
{
        int pair[2];

        for (size_t i = 0; i < n && pipe2(pair, O_CLOEXEC) >= 0; i++) {
                (void) fd_list_push(fds, pair[0]);
                safe_close(pair[1]);
        }
}

static void check_logs(json_object *parameters)
{
        const char *wrong = NULL;
        LogOptions o;

        int r = log_options_read(parameters, &o, &wrong);
        if (r < 0 ? !wrong : (o.app && json_object_object_length(parameters) == 0) || o.end_fd != 0)
                abort();
}

static void check_streams(json_object *parameters, size_t n)
{
        FdList fds = {};
        int taken[3] = {-EBADF, -EBADF, -EBADF};
        const char *wrong = NULL;
        struct winsize size = {};

        push_pipes(&fds, n);
        for (size_t i = 0; i < ELEMENTSOF(taken); i++)
                if (exec_read_stream(parameters, &fds, i, &taken[i], &wrong) >= 0 && taken[i] >= 0 && n == 0)
                        abort();
        if (exec_read_size(parameters, "rows", &size.ws_row) >= 0 && size.ws_row == 0 &&
            json_object_object_get(parameters, "rows"))
                abort();
        for (size_t i = 0; i < ELEMENTSOF(taken); i++)
                safe_close(taken[i]);
        fd_list_done(&fds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_json_ json_object *parameters = NULL;

        if (size == 0 || json_parse_strict((const char *) data + 1, size - 1, &parameters, NULL, NULL) < 0 ||
            !json_object_is_type(parameters, json_type_object))
                return 0;
        check_logs(parameters);
        check_streams(parameters, data[0] % 4U);
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes the output of the apps of a pod for a caller of the pod's interface.
 *
 *     /usr/lib/acnspawn/read-logs STORE UUID PARAMETERS
 *
 * Started by the pod's supervisor, one for each call of Logs: it does not share the supervisor's memory, and
 * the supervisor never waits for it. PARAMETERS are those of the call. Lines go to standard output and
 * standard error, which are pipes of the caller. Descriptor 3 is a socket: the supervisor shuts it down when
 * the pod has ended, and a message about a failure is written to it. */

#include <signal.h>
#include <sys/prctl.h>

#include "config.h"
#include "stage0/cli/options.h"
#include "stage0/report/report.h"

#define SOCKET 3

static int read_logs(const char *dir, const char *uuid, const char *text, Operation *operation, Error *e)
{
        _cleanup_json_ json_object *parameters = NULL;
        _cleanup_(store_unrefp) Store *s = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        const char *wrong = NULL;
        LogOptions o = {};

        int r = json_parse_strict(text, strlen(text), &parameters, NULL, e);
        if (r < 0)
                return r;
        r = log_options_read(parameters, &o, &wrong);
        if (r < 0)
                return error_set(e, r, "The parameter '%s' is not valid", wrong);
        o.end_fd = SOCKET;
        r = store_open(dir, operation, &s, e);
        if (r >= 0)
                r = pod_look(s, uuid, &p, e);
        if (r >= 0)
                r = pod_load(p, e);
        if (r >= 0 && !p->manifest)
                r = error_set(e, -ENODATA, "The manifest of the pod cannot be read");
        return r < 0 ? r : pod_logs(p, &o, e);
}

int main(int argc, char *argv[])
{
        _cleanup_error_ Error e = ERROR_NULL;
        Operation *operation = NULL;

        /* This process must not outlive its supervisor. */
        if (argc != 4 || program_start(false) < 0 || fcntl(SOCKET, F_SETFD, FD_CLOEXEC) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return EXIT_FAILURE;
        log_set_max_level(LOG_LEVEL_ERROR); /* standard error is for output of apps */
        int r = operation_new(&(OperationOptions){}, &operation);
        if (r < 0)
                (void) error_set_errno(&e, r, "Cannot start");
        else
                r = read_logs(argv[1], argv[2], argv[3], operation, &e);
        operation_free(operation);
        if (r >= 0 || r == -EPIPE) /* the caller has closed its pipe */
                return EXIT_SUCCESS;
        const char *message = e.message ?: strerror(-r);
        (void) loop_write(SOCKET, message, strlen(message));
        return EXIT_FAILURE;
}

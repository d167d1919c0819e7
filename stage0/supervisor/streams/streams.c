/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The standard streams of a process that is about to be an app, or one of its event handlers: pipes, whose
 * other ends are kept here, or for the app itself a terminal. */

#include "stage0/supervisor/streams/streams.h"

static void stream_ends_done(StreamEnds *ends)
{
        for (size_t i = 0; i < ELEMENTSOF(ends->fds); i++)
                ends->fds[i] = safe_close(ends->fds[i]);
}

static int open_pipes(Pod *p, Forwarders *forwarders, AppInstance *app, int *journal, StreamEnds *ends,
                      Error *e)
{
        uid_t owner = pod_root_uid(p);

        for (size_t i = 0; i < _LAUNCH_STREAM_MAX; i++) {
                int r = forwarders_add(forwarders, app, i == LAUNCH_STREAM_STDERR, journal[i], owner,
                                       &ends->fds[STDOUT_FILENO + i]);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot create the standard streams of app %s",
                                               app->name);
                (void) TAKE_FD(journal[i]);
        }
        return 0;
}

/* All three are the terminal. */
static int use_terminal(Forwarders *forwarders, AppInstance *app, int *journal, InputEnds *input,
                        StreamEnds *ends, Error *e)
{
        for (size_t i = STDOUT_FILENO; i < ELEMENTSOF(ends->fds); i++) {
                ends->fds[i] = fcntl(ends->fds[STDIN_FILENO], F_DUPFD_CLOEXEC, 3);
                if (ends->fds[i] < 0)
                        return error_set_errno(e, -errno, "Cannot copy a descriptor");
        }
        int r = forwarders_add_terminal(forwarders, app, journal[LAUNCH_STREAM_STDOUT], input->master_fd);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the terminal of app %s", app->name);
        (void) TAKE_FD(journal[LAUNCH_STREAM_STDOUT]);
        (void) TAKE_FD(input->master_fd);
        return 0;
}

int streams_open(Pod *p, Forwarders *forwarders, AppInstance *app, uint32_t phase, int pts_fd,
                 int journal[static _LAUNCH_STREAM_MAX], StreamEnds *ret, Error *e)
{
        StreamEnds ends = STREAM_ENDS_NULL;
        InputEnds input = INPUT_ENDS_NULL;
        int r = 0;

        if (phase == LAUNCH_MAIN)
                r = input_start(app->input, pts_fd, &input, e);
        ends.kind = input.kind;
        ends.fds[STDIN_FILENO] = TAKE_FD(input.stdin_fd);
        if (r >= 0)
                r = ends.kind == INPUT_TERMINAL ? use_terminal(forwarders, app, journal, &input, &ends, e)
                                                : open_pipes(p, forwarders, app, journal, &ends, e);
        input_ends_done(&input);
        if (r < 0) {
                stream_ends_done(&ends);
                return r;
        }
        *ret = ends;
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The launcher: the program that every process of an app starts as, inside the pod.
 *
 *     launch main APP         becomes the app (ExecStart=)
 *     launch pre-start APP    runs the pre-start handler and waits for it (ExecStartPre=)
 *     launch post-stop APP    reports how the app ended, and runs the post-stop handler (ExecStopPost=)
 *     launch delay APP …      waits before the app is started again (ExecStartPre=)
 *     launch ready APP …      waits until the app is ready, and reports it (ExecStartPost=)
 *     launch check APP …      checks whether the app is healthy (ExecStart= of a unit of its own)
 *     launch processes        is process 1 of the pid namespace that apps share; see processes.c
 *     launch manager          becomes the pod's systemd, where that is not PID 1; see manager.c
 *     launch bus              serves a client of the pod's bus; see bus.c
 *     launch enter            runs a command beside an app; this one is started by stage0, on the host
 *
 * It asks stage0 for the app's root and volumes, builds a mount namespace of them, takes the app's identity
 * and execs, so that the process that systemd watches is the app itself. It is linked statically, since the
 * pod has no base system, and gets the app's definition as a file of NUL-separated strings: no quoting rules
 * are involved between a manifest and execve().
 */

#include <signal.h>
#include <sys/prctl.h>

#include "stage1/launch/bus.h"
#include "stage1/launch/launch.h"

/* Freed explicitly for leak checkers, although the process ends here. */
static void launch_done(Launch *l)
{
        launch_config_done(&l->config);
        free(l->identity);
        free(l->metadata_url);
        free(l->terminal_type);
        for (size_t i = 0; i < l->n_volumes; i++)
                safe_close(l->volume_fds[i]);
        free(l->volume_fds);
        for (size_t i = 0; i < l->n_sockets; i++)
                safe_close(l->socket_fds[i]);
        free(l->socket_fds);
        strv_free(l->socket_names);
        safe_close(l->credentials_fd);
        safe_close(l->notify_fd);
        safe_close(l->root_fd);
        safe_close(l->maker_fd);
        safe_close(l->pts_fd);
        safe_close(l->dev_fd);
        safe_close(l->stdin_fd);
        safe_close(l->stdout_fd);
        safe_close(l->stderr_fd);
        safe_close(l->parent_fd);
        safe_close(l->link_fd);
}

/* Does not return but exits directly: the app's filter may be in force and kill for any call except exit. */
static _noreturn_ void run_main(Launch *l)
{
        Failure f = {};

        if (!l->pid || launch_fork_into_processes(l, &f) >= 0)
                (void) launch_become(l, report_running, &f);
        report_failed(l, &f);

        AppStatus s = {.cause = f.cause, .exit_status = -1};
        _exit(app_status_to_exit_code(&s));
}

/* -ECANCELED: the app was stopped during the delay before this, see launch_delay(). */
static int run_pre_start(Launch *l)
{
        HandlerStatus h = {.ran = true, .exit_status = -1};
        Failure f = {};

        int r = launch_run_handler(l, &h, &f);
        if (r == -ECANCELED) {
                error_done(&f.error);
                return 0;
        }
        int k = report_handler(l, LAUNCH_PRE_START_ENDED, &h, r < 0 ? &f : NULL);
        error_done(&f.error);
        return r < 0 || k < 0 ? 125 : h.exit_status >= 0 ? h.exit_status : 128 + h.signal;
}

/* The handler runs only for an app that did run (spec: aci.md, "post-stop"). */
static int run_post_stop(Launch *l)
{
        HandlerStatus h = {.ran = true, .exit_status = -1};
        Failure f = {};

        int r = report_main_ended(l);
        if (r < 0)
                return r == -ECANCELED ? 0 : 125;
        r = launch_run_handler(l, &h, &f);
        r = report_handler(l, LAUNCH_POST_STOP_ENDED, &h, r < 0 ? &f : NULL);
        error_done(&f.error);
        return r < 0 ? 125 : 0;
}

static int run_phase(const char *word, Launch *l, const LaunchNumbers *n)
{
        if (streq(word, "main")) {
                l->phase = LAUNCH_MAIN;
                run_main(l);
        }
        if (streq(word, "pre-start")) {
                l->phase = LAUNCH_PRE_START;
                return run_pre_start(l);
        }
        if (streq(word, "delay"))
                return launch_delay(l, n);
        if (streq(word, "ready"))
                return launch_ready(l, n);
        if (streq(word, "check"))
                return health_main(l, n);
        l->phase = LAUNCH_POST_STOP;
        return streq(word, "post-stop") ? run_post_stop(l) : 125;
}

int main(int argc, char *argv[])
{
        _cleanup_(launch_done) Launch l = LAUNCH_NULL;
        LaunchNumbers numbers = {};

        /* In the pod this program is also installed as systemd-shutdown, which systemd executes at the
         * end. */
        if (argc > 0 && endswith(argv[0], "/systemd-shutdown"))
                return shutdown_main(argv);
        if (argc == 2 && streq(argv[1], "enter"))
                return enter_main();
        if (argc == 2 && streq(argv[1], "bus"))
                return bus_main();
        if (argc == 2 && streq(argv[1], "processes"))
                return processes_main();
        if (argc == 2 && streq(argv[1], "manager"))
                return manager_main();
        if (argc < 3 || launch_numbers_parse(argv + 3, &numbers) < 0) {
                fprintf(stderr, "This program is run by the pod's systemd.\n");
                return 2;
        }
        /* Root of another app could inspect this process once its capabilities are reduced to those of its
         * app. The exec resets this flag. */
        (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        l.app = argv[2];
        l.pid = numbers.pid;
        return run_phase(argv[1], &l, &numbers);
}

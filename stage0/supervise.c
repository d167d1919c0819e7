/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The supervisor: the process that runs one pod, from the start of systemd-nspawn to the pod's result.
 *
 *     /usr/lib/acnspawn/supervise [OPTION…] POD
 *
 * `acnspawn run` starts it and hands it a request and descriptors (--request-fd=). Started otherwise,
 * usually by a unit of the host, it runs the pod in the foreground: signals end the pod, its exit status is
 * the pod's, and it supports sd_notify(3).
 */

#include <signal.h>
#include <sys/syscall.h>

#include "config.h"
#include "stage0/cli/conf.h"
#include "stage0/cli/interrupt.h"
#include "stage0/cli/options.h"
#include "stage0/supervisor/supervisor.h"

#define EXIT_STATUS_FAILURE 1
#define EXIT_STATUS_USAGE 2

typedef struct Arguments {
        const char *dir, *config_dirs[2];
        bool help, version;
        int request_fd; /* -EBADF: there is no client */
        RunOptions run;
        Operation *operation;
} Arguments;

static int option_quiet(const Option *o, const char *value, void *target, Error *e)
{
        log_set_max_level(LOG_LEVEL_ERROR);
        return option_true(o, value, target, e);
}

static int option_debug(const Option *o, const char *value, void *target, Error *e)
{
        log_set_max_level(LOG_LEVEL_DEBUG);
        return 0;
}

static int option_register(const Option *o, const char *value, void *target, Error *e)
{
        int mode = register_mode_from_string(value);

        if (mode < 0)
                return option_invalid(o, value, e, "must be yes, no or auto");
        *(RegisterMode *) target = (RegisterMode) mode;
        return 0;
}

static int option_fd(const Option *o, const char *value, void *target, Error *e)
{
        uint32_t fd;

        if (parse_u32(value, &fd) < 0 || fd <= STDERR_FILENO || fd > INT32_MAX)
                return option_invalid(o, value, e, "must be the number of a descriptor, 3 or more");
        *(int *) target = (int) fd;
        return 0;
}

static const Option options[] = {
                {NULL, "dir", 0, "PATH", false, "Use the store at PATH instead of " ACNSPAWN_STATEDIR, NULL,
                 option_word, offsetof(Arguments, dir)},
                {NULL, "config-dir", 0, "PATH", false, "Read configuration from PATH", NULL, option_word,
                 offsetof(Arguments, config_dirs)},
                {NULL, "keep-unit", 0, NULL, false,
                 "Run the pod in the unit that this is started in, not in a scope of its own", NULL,
                 option_true, offsetof(Arguments, run.keep_unit)},
                {NULL, "register", 0, "yes|no|auto", false, "Register the pod with systemd-machined", NULL,
                 option_register, offsetof(Arguments, run.registration)},
                {NULL, "ready-timeout", 0, "TIME", false, "Stop the pod unless it is ready within this time",
                 NULL, option_usec, offsetof(Arguments, run.ready_timeout_usec)},
                {NULL, "rm", 0, NULL, false, "Remove the pod when it has ended", NULL, option_true,
                 offsetof(Arguments, run.remove)},
                {NULL, "strict", 0, NULL, false, "Do not run unless all isolators are enforced", NULL,
                 option_true, offsetof(Arguments, run.strict)},
                {NULL, "raw", 0, NULL, false, "On a terminal, write control characters as they are", NULL,
                 option_true, offsetof(Arguments, run.raw)},
                {NULL, "quiet", 'q', NULL, false, "Show errors only, without the output of apps", NULL,
                 option_quiet, offsetof(Arguments, run.quiet)},
                {NULL, "debug", 0, NULL, false, "Show what is being done in detail", NULL, option_debug, 0},
                {NULL, "request-fd", 0, "FD", false,
                 "For acnspawn run: read the request from this descriptor", NULL, option_fd,
                 offsetof(Arguments, request_fd)},
                {NULL, "help", 'h', NULL, false, "Show this help", NULL, option_stop,
                 offsetof(Arguments, help)},
                {NULL, "version", 0, NULL, false, "Show the version", NULL, option_stop,
                 offsetof(Arguments, version)},
                OPTION_END,
};

static const char introduction[] = "supervise [OPTION...] POD\n\nRuns a prepared pod until it has ended. "
                                   "See acnspawn-run(1).\n\n";

static int refuse_usage(Error *e, int r)
{
        (void) error_hint(e, r, "%s%sTry 'supervise --help' for more information.", e->hint ?: "",
                          e->hint ? " " : "");
        error_print(e, r);
        return EXIT_STATUS_USAGE;
}

/* Called before anything is executed that would inherit them. A client has taken its own already. */
static int take_sockets(Arguments *a, PassedSockets *sockets, Error *e)
{
        if (a->request_fd >= 0)
                return 0;
        int r = passed_sockets_take(sockets, e);
        if (r >= 0)
                a->run.sockets = sockets;
        return r;
}

static int run_pod_named(Arguments *a, const char *reference, bool *reported, Error *e)
{
        _cleanup_passed_sockets_ PassedSockets sockets = {};

        int r = take_sockets(a, &sockets, e);
        if (r < 0)
                return r;
        if (geteuid() != 0) {
                r = error_set(e, -EPERM, "The supervisor needs root: it creates mounts and namespaces");
                return error_hint(e, r, "Run it as root, for example with sudo.");
        }
        a->run.config_dirs = a->config_dirs[0] ? a->config_dirs : NULL;
        return supervise(a->dir, reference, a->request_fd, &a->run, a->operation, reported, e);
}

/* posix_spawn(3) of some C libraries leaves their internal signals ignored, which would be inherited by
 * every process of the pod, and which sigaction(3) refuses to change. */
static void reset_internal_signals(void)
{
        static const unsigned char
                        kernel_default[64]; /* the kernel's structure for SIG_DFL, without flags */

        for (int sig = 32; sig < SIGRTMIN; sig++)
                (void) syscall(SYS_rt_sigaction, sig, kernel_default, NULL, (size_t) _NSIG / 8);
}

int main(int argc, char *argv[])
{
        const char *dir = getenv("ACNSPAWN_DIR"), *config_dir = getenv("ACNSPAWN_CONFIG_DIR");
        Arguments a = {
                        .dir = isempty(dir) ? NULL : dir,
                        .config_dirs = {isempty(config_dir) ? NULL : config_dir},
                        .request_fd = -EBADF,
                        .run = {.ready_timeout_usec = UINT64_MAX, .start_wait_usec = UINT64_MAX},
        };
        _cleanup_free_ const char **words = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        OptionSet set = {options, &a};
        OptionParser p = {.sets = &set, .n_sets = 1, .argc = argc - 1, .argv = argv + 1};
        bool reported = false;
        size_t n = 0;

        reset_internal_signals();
        if (program_start(true) < 0)
                return EXIT_STATUS_FAILURE;
        int r = options_words(&p, &words, &n, &e);
        if (r < 0)
                return refuse_usage(&e, r);
        if (a.version)
                return printf("acnspawn %s\n", ACNSPAWN_VERSION) < 0 || fflush(stdout) != 0;
        if (a.help)
                return program_show_help(introduction, options) < 0;
        if (n != 1)
                return refuse_usage(&e, error_set(&e, -EINVAL, "One pod is needed: its UUID or its name"));
        _cleanup_(conf_done) Conf conf = {};
        r = conf_find_store(a.config_dirs[0], &conf, &a.dir, &e);
        if (r < 0) {
                error_print(&e, r);
                return EXIT_STATUS_FAILURE;
        }
        r = operation_new(&(OperationOptions){.message = program_message}, &a.operation);
        if (r < 0)
                (void) error_set_errno(&e, r, "Cannot start");
        else
                r = run_pod_named(&a, words[0], &reported, &e);
        if (!reported && e.message)
                error_print(&e, r < 0 ? host_limits_hint(a.dir, &e, r) : r);
        interrupt_release();
        operation_free(a.operation);
        interrupt_raise();
        return r < 0 ? EXIT_STATUS_FAILURE : r;
}

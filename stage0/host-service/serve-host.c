/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The service of the host: org.acnspawn.Host on the socket that systemd passes to it (acnspawn.socket).
 *
 *     /usr/lib/acnspawn/serve-host [OPTION…]
 */

#include <sys/socket.h>

#include "config.h"
#include "library/libsystemd.h"
#include "stage0/cli/conf.h"
#include "stage0/host-service/host-service.h"

#define FIRST_SOCKET 3 /* sd_listen_fds(3) */
#define EXIT_IDLE_USEC (30 * UINT64_C(1000000))

typedef struct Arguments {
        HostServiceOptions service;
        const char *config_dirs[2];
        bool help, version;
} Arguments;

static const Option options[] = {
                {NULL, "dir", 0, "PATH", false, "Use the store at PATH instead of " ACNSPAWN_STATEDIR, NULL,
                 option_word, offsetof(Arguments, service.dir)},
                {NULL, "config-dir", 0, "PATH", false, "Read configuration from PATH", NULL, option_word,
                 offsetof(Arguments, config_dirs)},
                {NULL, "exit-idle-time", 0, "TIME", false,
                 "Exit after TIME without a connection (default: 30s)", NULL, option_usec,
                 offsetof(Arguments, service.exit_idle_usec)},
                {NULL, "help", 'h', NULL, false, "Show this help", NULL, option_stop,
                 offsetof(Arguments, help)},
                {NULL, "version", 0, NULL, false, "Show the version", NULL, option_stop,
                 offsetof(Arguments, version)},
                OPTION_END,
};

static const char introduction[] =
                "serve-host [OPTION...]\n\nServes org.acnspawn.Host on a passed socket. See "
                "acnspawn-host(7).\n\n";

/* Takes the one passed descriptor, which has to be a listening stream socket of this host. */
static int take_socket(Error *e)
{
        int domain = 0, type = 0, listens = 0;
        socklen_t size = sizeof(int);
        int n = library_load(&systemd_library, e);

        if (n < 0)
                return n;
        n = sd_listen_fds(true);
        if (n < 0)
                return error_set_errno(e, n, "Cannot take the socket that was passed");
        if (n != 1) {
                int r = error_set(e, -EINVAL, "%d sockets were passed, and one is needed", n);
                return error_hint(e, r, "It is started by its socket: 'systemctl start acnspawn.socket'.");
        }
        if (getsockopt(FIRST_SOCKET, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
            getsockopt(FIRST_SOCKET, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
            getsockopt(FIRST_SOCKET, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0)
                return error_set_errno(e, -errno, "The passed descriptor is not a socket");
        if (domain != AF_UNIX || type != SOCK_STREAM || !listens)
                return error_set(e, -EINVAL, "The passed socket is not a listening Unix stream socket");
        return fcntl(FIRST_SOCKET, F_SETFL, O_NONBLOCK) < 0
                               ? error_set_errno(e, -errno, "Cannot use the socket")
                               : FIRST_SOCKET;
}

/* Variables of the service manager are not for the pods that this process starts. */
static void on_ready(void)
{
        static const char *const variables[] = {
                        "NOTIFY_SOCKET",    "INVOCATION_ID",         "JOURNAL_STREAM",       "MAINPID",
                        "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"};

        (void) sd_pid_notify(0, 0, "READY=1");
        for (size_t i = 0; i < ELEMENTSOF(variables); i++)
                (void) unsetenv(variables[i]);
}

static int serve(Arguments *a, Error *e)
{
        int fd = take_socket(e);

        if (fd < 0)
                return fd;
        a->service.config_dirs = a->config_dirs[0] ? a->config_dirs : NULL;
        return host_service_run(fd, &a->service, on_ready, e);
}

int main(int argc, char *argv[])
{
        const char *dir = getenv("ACNSPAWN_DIR"), *config_dir = getenv("ACNSPAWN_CONFIG_DIR");
        Arguments a = {
                        .service = {.dir = isempty(dir) ? NULL : dir, .exit_idle_usec = EXIT_IDLE_USEC},
                        .config_dirs = {isempty(config_dir) ? NULL : config_dir},
        };
        _cleanup_free_ const char **words = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        OptionSet set = {options, &a};
        OptionParser p = {.sets = &set, .n_sets = 1, .argc = argc - 1, .argv = argv + 1};
        size_t n = 0;

        if (program_start(false) < 0)
                return EXIT_STATUS_FAILURE;
        int r = options_words(&p, &words, &n, &e);
        if (r >= 0 && a.version)
                return printf("acnspawn %s\n", ACNSPAWN_VERSION) < 0 || fflush(stdout) != 0;
        if (r >= 0 && a.help)
                return program_show_help(introduction, options) < 0;
        if (r >= 0 && n > 0)
                r = error_set(&e, -EINVAL, "Unexpected argument '%s'", words[0]);
        if (r < 0) {
                error_print(&e, r);
                return EXIT_STATUS_USAGE;
        }
        _cleanup_(conf_done) Conf conf = {};
        r = conf_find_store(a.config_dirs[0], &conf, &a.service.dir, &e);
        if (r < 0) {
                error_print(&e, r);
                return EXIT_STATUS_FAILURE;
        }
        r = serve(&a, &e);
        if (r < 0)
                error_print(&e, r);
        return r < 0 ? EXIT_STATUS_FAILURE : 0;
}

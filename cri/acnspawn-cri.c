/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The runtime of a Kubernetes node: the Container Runtime Interface on a Unix socket.
 *
 *     acnspawn-cri [OPTION…]
 */

#include "config.h"
#include "cri/cri.h"
#include "cri/exporter/exporter.h"
#include "library/libsystemd.h"
#include "stage0/cli/conf.h"
#include "stage0/host/device-filter.h"
#include "stage0/host/host.h"

#define EXIT_STATUS_FAILURE 1
#define EXIT_STATUS_USAGE 2
#define SOCKET "/run/acnspawn/cri.sock"

typedef struct Arguments {
        CriOptions service;
        const char *config_dirs[2];
        char **cni_conf_dirs, **cni_bin_dirs, **cdi_dirs, **pinned_images;
        bool systemd_driver, help, version;
} Arguments;

static int option_directories(const Option *o, const char *value, void *target, Error *e)
{
        if (value[0] != '/')
                return option_invalid(o, value, e, "it is not an absolute path");
        return strv_extend(target, value) < 0 ? error_oom(e) : 0;
}

static int option_image(const Option *o, const char *value, void *target, Error *e)
{
        if (isempty(value))
                return option_invalid(o, value, e, "it is empty");
        return strv_extend(target, value) < 0 ? error_oom(e) : 0;
}

static int option_path(const Option *o, const char *value, void *target, Error *e)
{
        if (value[0] != '/')
                return option_invalid(o, value, e, "it is not an absolute path");
        return option_word(o, value, target, e);
}

static int option_port(const Option *o, const char *value, void *target, Error *e)
{
        uint32_t port;

        if (parse_u32(value, &port) < 0 || port > UINT16_MAX)
                return option_invalid(o, value, e, "it is not a number of a port");
        *(uint16_t *) target = (uint16_t) port;
        return 0;
}

static int option_driver(const Option *o, const char *value, void *target, Error *e)
{
        Arguments *a = target;

        if (!streq(value, "systemd") && !streq(value, "cgroupfs"))
                return option_invalid(o, value, e, "it is neither systemd nor cgroupfs");
        a->systemd_driver = streq(value, "systemd");
        a->service.cgroupfs = !a->systemd_driver;
        return 0;
}

static int option_metrics(const Option *o, const char *value, void *target, Error *e)
{
        if (exporter_check(value) < 0)
                return option_invalid(o, value, e,
                                      "it is neither an absolute path nor the number of a port");
        return option_word(o, value, target, e);
}

static int option_trace(const Option *o, const char *value, void *target, Error *e)
{
        static const char *const words[] = {
                        [CRI_TRACE_NONE] = "none", [CRI_TRACE_CHANGES] = "changes", [CRI_TRACE_ALL] = "all"};

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(value, words[i])) {
                        *(CriTrace *) target = (CriTrace) i;
                        return 0;
                }
        return option_invalid(o, value, e, "it is none of none, changes and all");
}

static const Option options[] = {
                {NULL, "socket", 0, "PATH", false, "Listen on PATH (default: " SOCKET ")", NULL, option_path,
                 offsetof(Arguments, service.socket)},
                {NULL, "dir", 0, "PATH", false, "Use the store at PATH instead of " ACNSPAWN_STATEDIR, NULL,
                 option_word, offsetof(Arguments, service.dir)},
                {NULL, "config-dir", 0, "PATH", false, "Read configuration from PATH", NULL, option_word,
                 offsetof(Arguments, config_dirs)},
                {NULL, "cni-conf-dir", 0, "PATH", false,
                 "Read the network of pods from PATH (default: /etc/cni/net.d); can be repeated", NULL,
                 option_directories, offsetof(Arguments, cni_conf_dirs), OPTION_WORDS},
                {NULL, "cni-bin-dir", 0, "PATH", false,
                 "Look for network plugins in PATH (default: the usual directories); can be repeated", NULL,
                 option_directories, offsetof(Arguments, cni_bin_dirs), OPTION_WORDS},
                {NULL, "cdi-spec-dir", 0, "PATH", false,
                 "Read devices of CDI from PATH (default: /etc/cdi and /var/run/cdi); can be repeated", NULL,
                 option_directories, offsetof(Arguments, cdi_dirs), OPTION_WORDS},
                {NULL, "pinned-image", 0, "IMAGE", false,
                 "Tell clients not to remove IMAGE when they need space; can be repeated", NULL,
                 option_image, offsetof(Arguments, pinned_images), OPTION_WORDS},
                {NULL, "cgroup-driver", 0, "DRIVER", false,
                 "How clients make the cgroups of pods: systemd or cgroupfs (default: systemd where it is the init)",
                 NULL, option_driver, 0},
                {NULL, "stream-port", 0, "PORT", false,
                 "Serve the streams of exec and attach on PORT of 127.0.0.1 (default: any that is free)",
                 NULL, option_port, offsetof(Arguments, service.stream_port)},
                {NULL, "stream-tls-cert", 0, "FILE", false,
                 "Serve these streams by TLS, with the certificate in FILE", NULL, option_path,
                 offsetof(Arguments, service.stream_tls_cert)},
                {NULL, "stream-tls-key", 0, "FILE", false, "The key of that certificate", NULL, option_path,
                 offsetof(Arguments, service.stream_tls_key)},
                {NULL, "metrics", 0, "PATH|PORT", false,
                 "Serve metrics of this service by HTTP, on a socket or on PORT of 127.0.0.1 (default: not)",
                 NULL, option_metrics, offsetof(Arguments, service.metrics)},
                {NULL, "trace", 0, "WHICH", false,
                 "Log calls with their IDs: changes or all, and those that fail (default: none)", NULL,
                 option_trace, offsetof(Arguments, service.trace)},
                {NULL, "help", 'h', NULL, false, "Show this help", NULL, option_stop,
                 offsetof(Arguments, help)},
                {NULL, "version", 0, NULL, false, "Show the version", NULL, option_stop,
                 offsetof(Arguments, version)},
                OPTION_END,
};

static const char introduction[] =
                "acnspawn-cri [OPTION...]\n\nServes the Container Runtime Interface of Kubernetes.\n\n";

/* Variables of the service manager are not for the pods that this process starts; the event loop has read that of the
 * watchdog. NOTIFY_SOCKET stays for the watchdog. */
static void on_ready(void)
{
        static const char *const variables[] = {
                        "INVOCATION_ID",    "JOURNAL_STREAM",        "MAINPID",
                        "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"};

        (void) sd_pid_notify(0, 0, "READY=1");
        for (size_t i = 0; i < ELEMENTSOF(variables); i++)
                (void) unsetenv(variables[i]);
}

static void arguments_done(Arguments *a)
{
        strv_free(a->cni_conf_dirs);
        strv_free(a->cni_bin_dirs);
        strv_free(a->cdi_dirs);
        strv_free(a->pinned_images);
}

static int complete(Arguments *a, Error *e)
{
        int r = a->cni_conf_dirs ? 0 : strv_extend(&a->cni_conf_dirs, "/etc/cni/net.d");

        if (r >= 0 && !a->cni_bin_dirs)
                r = strv_split(ACNSPAWN_PLUGIN_PATH, ":", &a->cni_bin_dirs);
        if (r >= 0 && !a->cdi_dirs)
                r = strv_split("/etc/cdi:/var/run/cdi", ":", &a->cdi_dirs);
        if (r < 0)
                return error_oom(e);
        a->service.cdi_dirs = a->cdi_dirs;
        a->service.pinned_images = a->pinned_images;
        a->service.cni_conf_dirs = a->cni_conf_dirs;
        a->service.cni_bin_dirs = a->cni_bin_dirs;
        a->service.config_dirs = a->config_dirs[0] ? a->config_dirs : NULL;
        return 0;
}

static int check_tls(const CriOptions *o, Error *e)
{
        return !o->stream_tls_cert == !o->stream_tls_key
                               ? 0
                               : error_set(e, -EINVAL,
                                           "--stream-tls-cert and --stream-tls-key are needed together");
}

static int serve(Arguments *a, Error *e)
{
        _cleanup_(conf_done) Conf conf = {};
        int r = conf_find_store(a->config_dirs[0], &conf, &a->service.dir, e);

        if (r >= 0 && a->systemd_driver && !host_runs_systemd())
                r = error_set(e, -EINVAL,
                              "The cgroup driver cannot be systemd: systemd is not the init of this host");
        if (r >= 0)
                r = complete(a, e);
        return r < 0 ? r : cri_run(&a->service, on_ready, e);
}

int main(int argc, char *argv[])
{
        const char *dir = getenv("ACNSPAWN_DIR"), *config_dir = getenv("ACNSPAWN_CONFIG_DIR");
        _cleanup_(arguments_done) Arguments a = {
                        .service = {.dir = isempty(dir) ? NULL : dir, .socket = SOCKET},
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
        if (r >= 0)
                r = check_tls(&a.service, &e);
        if (r < 0) {
                error_print(&e, r);
                return EXIT_STATUS_USAGE;
        }
        (void) device_filter_available(); /* the processes of calls inherit the result */
        r = serve(&a, &e);
        if (r < 0)
                error_print(&e, host_limits_hint(a.service.dir ?: ACNSPAWN_STATEDIR, &e, r));
        return r < 0 ? EXIT_STATUS_FAILURE : 0;
}

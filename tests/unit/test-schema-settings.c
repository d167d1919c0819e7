/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* schema/settings.c: annotations of apps with settings for running them. */

#include <signal.h>

#include "schema/settings.h"
#include "tests/unit/test.h"

static PodApp app_with(const char *name, const char *value)
{
        PodApp app = {.name = (char *) "web"};

        if (name)
                (void) pair_list_set(&app.annotations, name, value);
        return app;
}

static void expect_error(const char *name, const char *value, const char *message)
{
        _cleanup_app_settings_ AppSettings s = {};
        _cleanup_error_ Error e = ERROR_NULL;
        PodApp app = app_with(name, value);

        ASSERT_ERR(app_settings_read(&app, &s, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, message);
        ASSERT_CONTAINS(e.message, "App web: ");
        pair_list_done(&app.annotations);
}

TEST(defaults)
{
        _cleanup_app_settings_ AppSettings s = {};
        PodApp app = app_with("example.com/other", "x");

        ASSERT_OK(app_settings_read(&app, &s, NULL));
        ASSERT_EQ(s.restart, RESTART_NO);
        ASSERT_EQ(s.restart_usec, 100000);
        ASSERT_EQ(s.stop_signal, 0);
        ASSERT_EQ(s.stop_timeout_usec, 0);
        ASSERT_EQ(s.input, INPUT_NULL);
        ASSERT_TRUE(!s.after);
        ASSERT_TRUE(!s.oom_group);
        ASSERT_TRUE(!s.transient && !s.fate_group);
        ASSERT_EQ(s.log_size, 0);
        ASSERT_TRUE(s.log_rate == LOG_RATE_DEFAULT);
        ASSERT_TRUE(s.log == LOG_TARGET_AUTO && !s.log_file.path);
        ASSERT_EQ(s.restart_limit, 10);
        ASSERT_TRUE(s.start_timeout_usec == UINT64_MAX);
        ASSERT_TRUE(!app_settings_readiness(&s));
        pair_list_done(&app.annotations);
}

TEST(values)
{
        _cleanup_app_settings_ AppSettings s = {};
        PodApp app = app_with("acnspawn/restart", "on-failure");

        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/restart-delay", "2s"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/stop-signal", "SIGQUIT"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/stop-timeout", "infinity"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/input", "terminal"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/oom-group", "yes"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/transient", "yes"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/fate-group", "one-2"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/log-size", "2Mi"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/log-rate", "infinity"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/after", "db,cache"));
        ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/socket-activated", "http,80,53/udp"));
        ASSERT_OK(app_settings_read(&app, &s, NULL));
        ASSERT_TRUE(strv_length(s.socket_activated) == 3 && streq(s.socket_activated[2], "53/udp"));
        ASSERT_EQ(s.restart, RESTART_ON_FAILURE);
        ASSERT_EQ(s.restart_usec, 2000000);
        ASSERT_EQ(s.stop_signal, SIGQUIT);
        ASSERT_TRUE(s.stop_timeout_usec == UINT64_MAX);
        ASSERT_EQ(s.input, INPUT_TERMINAL);
        ASSERT_TRUE(s.oom_group);
        ASSERT_TRUE(s.transient);
        ASSERT_STREQ(s.fate_group, "one-2");
        ASSERT_EQ(s.log_size, 2U << 20);
        ASSERT_TRUE(s.log_rate == UINT64_MAX);
        ASSERT_STREQ(s.after[0], "db");
        ASSERT_STREQ(s.after[1], "cache");
        ASSERT_TRUE(!s.after[2]);
        pair_list_done(&app.annotations);
}

TEST(pid_namespaces)
{
        static const struct {
                const char *value;
                PidMode mode;
                const char *app;
        } l[] = {{"pod", PID_POD, NULL},
                 {"private", PID_PRIVATE, NULL},
                 {"shared", PID_SHARED, NULL},
                 {"app:web-1", PID_APP, "web-1"}};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_app_settings_ AppSettings s = {};
                PodApp app = app_with("acnspawn/pid", l[i].value);

                ASSERT_OK(app_settings_read(&app, &s, NULL));
                ASSERT_EQ(s.pid.mode, l[i].mode);
                ASSERT_TRUE(streq_ptr(s.pid.app, l[i].app));
                ASSERT_EQ(app_settings_share_processes(&s), l[i].mode == PID_SHARED || l[i].mode == PID_APP);
                /* An app starts after the one whose namespace it joins. */
                ASSERT_EQ(strv_length(s.after), l[i].app ? 1U : 0U);
                pair_list_done(&app.annotations);
        }
}

TEST(paths)
{
        static const struct {
                const char *value;
                bool given;
                size_t n;
        } l[] = {{"default", false, 0},
                 {"none", true, 0},
                 {"/proc/kcore", true, 1},
                 {"/a,/proc/b c,/d:e", true, 3}};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_app_settings_ AppSettings s = {};
                PodApp app = app_with("acnspawn/masked-paths", l[i].value);

                ASSERT_OK(app_settings_read(&app, &s, NULL));
                ASSERT_EQ(s.masked.given, l[i].given);
                ASSERT_EQ(strv_length(s.masked.paths), l[i].n);
                ASSERT_TRUE(!s.read_only.given);
                pair_list_done(&app.annotations);
        }
}

TEST(devices)
{
        static const struct {
                const char *value;
                bool all;
                size_t n;
                const char *source, *target; /* of the last */
                unsigned access;
                bool filter;
        } l[] = {{"none", false, 0, NULL, NULL, 0, false},
                 {"all", true, 0, NULL, NULL, 0, false},
                 {"/dev/null", false, 1, "/dev/null", "/dev/null", 0, false},
                 {"all,/srv/a:b:/dev/c:d", true, 1, "/srv/a:b", "/dev/c:d", 0, false},
                 {"/dev/a:/dev/b,/x:/dev/net/c", false, 2, "/x", "/dev/net/c", 0, false},
                 {"/dev/a:r", false, 1, "/dev/a", "/dev/a", DEVICE_READ, true},
                 {"/dev/a:rr", false, 1, "/dev/a:rr", "/dev/a:rr", 0, false},
                 {"/dev/a:r:wr", false, 1, "/dev/a:r", "/dev/a:r", DEVICE_READ | DEVICE_WRITE, true},
                 {"/x:m:/dev/net/c:mwr", false, 1, "/x:m", "/dev/net/c", DEVICE_ACCESS_ALL, true},
                 {"/dev/a:w,/dev/b", false, 2, "/dev/b", "/dev/b", 0, true}};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_app_settings_ AppSettings s = {};
                PodApp app = app_with("acnspawn/device", l[i].value);

                ASSERT_OK(app_settings_read(&app, &s, NULL));
                ASSERT_EQ(s.devices.all, l[i].all);
                ASSERT_EQ(s.devices.n, l[i].n);
                if (l[i].n > 0) {
                        ASSERT_STREQ(s.devices.items[l[i].n - 1].source, l[i].source);
                        ASSERT_STREQ(s.devices.items[l[i].n - 1].target, l[i].target);
                        ASSERT_EQ(s.devices.items[l[i].n - 1].access, l[i].access);
                }
                ASSERT_EQ(app_settings_filter_devices(&s), l[i].filter);
                s.device_policy = DEVICE_POLICY_CLOSED;
                ASSERT_EQ(app_settings_filter_devices(&s), !l[i].all);
                pair_list_done(&app.annotations);
        }
}

TEST(groups_and_ambient_capabilities)
{
        static const char *const policies[_GROUP_POLICY_MAX] = {"auto", "merge", "strict"};

        for (size_t i = 0; i < ELEMENTSOF(policies); i++) {
                _cleanup_app_settings_ AppSettings s = {};
                PodApp app = app_with("acnspawn/group-policy", policies[i]);

                ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/caps-ambient",
                                        i == 0 ? "none" : "net_raw,CAP_chown"));
                ASSERT_OK(app_settings_read(&app, &s, NULL));
                ASSERT_EQ(s.group_policy, i);
                ASSERT_STREQ(group_policy_to_string(s.group_policy), policies[i]);
                ASSERT_EQ(strv_length(s.caps_ambient), i == 0 ? 0U : 2U);
                ASSERT_TRUE(i == 0 || (streq(s.caps_ambient[0], "CAP_NET_RAW") &&
                                       streq(s.caps_ambient[1], "CAP_CHOWN")));
                pair_list_done(&app.annotations);
        }
}

static void check_log_file(const char *value, const char *path, LogFormat format, uint64_t max_size)
{
        _cleanup_app_settings_ AppSettings s = {};
        PodApp app = app_with("acnspawn/log-file", value);

        ASSERT_OK(app_settings_read(&app, &s, NULL));
        ASSERT_STREQ(s.log_file.path, path);
        ASSERT_EQ(s.log_file.format, format);
        ASSERT_EQ(s.log_file.max_size, max_size);
        pair_list_done(&app.annotations);
}

TEST(log_files)
{
        static const char expected[] = "must be the absolute path of a file, which format=cri or "
                                       "format=plain, and max-size= of at least 64Ki may follow";
        static const char *const wrong[] = {"",
                                            "log",
                                            "./log",
                                            "/",
                                            "/.",
                                            "/var/log/",
                                            "/a/../b",
                                            ",format=cri",
                                            "format=cri",
                                            "/log,format=json",
                                            "/log,format=",
                                            "/log,max-size=1",
                                            "/log,max-size=",
                                            "/log,size=1Mi",
                                            "/log,/other"};

        check_log_file("/var/log/web.log", "/var/log/web.log", LOG_FORMAT_CRI, UINT64_MAX);
        check_log_file("/var//log/./web.log,format=plain", "/var/log/web.log", LOG_FORMAT_PLAIN, UINT64_MAX);
        check_log_file("/l,max-size=1Mi,format=cri", "/l", LOG_FORMAT_CRI, 1U << 20);
        check_log_file("/l,max-size=infinity", "/l", LOG_FORMAT_CRI, UINT64_MAX);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                expect_error("acnspawn/log-file", wrong[i], expected);
        expect_error("acnspawn/log", "never", "must be auto, pod, journal, both or none");
}

TEST(two_apps_do_not_share_a_log_file)
{
        _cleanup_error_ Error e = ERROR_NULL;
        PodApp apps[] = {app_with("acnspawn/log-file", "/log,format=plain"),
                         app_with("acnspawn/log-file", "//log"), app_with("acnspawn/log-file", "/log2")};
        PodApp *list[] = {&apps[0], &apps[1], &apps[2]};
        PodManifest m = {.apps = list, .n_apps = ELEMENTSOF(list)};

        apps[1].name = (char *) "db";
        apps[2].name = (char *) "other";
        ASSERT_ERR(pod_settings_check(&m, &e), -EEXIST);
        ASSERT_STREQ(e.message, "Apps web and db have the same log file, /log");
        ASSERT_OK(pair_list_set(&apps[1].annotations, "acnspawn/log-file", "/log3"));
        ASSERT_OK(pod_settings_check(&m, NULL));
        for (size_t i = 0; i < ELEMENTSOF(apps); i++)
                pair_list_done(&apps[i].annotations);
}

TEST(invalid_values_are_named_with_valid_ones)
{
        static const char *const no_ports[] = {"",    "0", "65536", "99999999999", "80/sctp",
                                               "80/", "A", "a b",   "/udp",        "80,A"};

        expect_error("acnspawn/restart", "sometimes",
                     "acnspawn/restart is 'sometimes', but must be no, on-failure or always");
        expect_error("acnspawn/restart-delay", "0", "must be a time of at least a millisecond");
        expect_error("acnspawn/restart-delay", "infinity", "must be a time");
        expect_error("acnspawn/stop-signal", "SIGFOO", "must be a signal");
        expect_error("acnspawn/stop-signal", "0", "must be a signal");
        expect_error("acnspawn/stop-signal", "4000", "must be a signal");
        expect_error("acnspawn/stop-timeout", "0", "must be a time");
        expect_error("acnspawn/after", "Not A Name", "must be names of apps");
        expect_error("acnspawn/input", "tty", "must be null, pipe or terminal");
        expect_error("acnspawn/restart-limit", "-1", "must be a number of restarts");
        expect_error("acnspawn/restart-delay-max", "0", "must be a time");
        expect_error("acnspawn/start-timeout", "0", "must be a time");
        expect_error("acnspawn/notify", "x", "must be true or false");
        expect_error("acnspawn/health-cmd", "", "must be a command line");
        expect_error("acnspawn/health-interval", "1ms", "must be a time of at least 100ms");
        expect_error("acnspawn/health-retries", "0", "must be a number from 1");
        expect_error("acnspawn/health-on-failure", "panic", "must be none, kill, restart or stop");
        expect_error("acnspawn/log-size", "1Ki",
                     "must be a number of bytes of at least 64Ki, as 100Mi, or infinity");
        expect_error("acnspawn/log-size", "much",
                     "must be a number of bytes of at least 64Ki, as 100Mi, or infinity");
        expect_error("acnspawn/log-rate", "-1", "must be a number of bytes a second, as 100Ki, or infinity");
        expect_error("acnspawn/log-rate", "2E", "must be a number of bytes a second, as 100Ki, or infinity");
        expect_error("acnspawn/pid", "host",
                     "must be pod, private, shared, or app: and the name of another app of the pod");
        expect_error("acnspawn/pid", "app:", "must be pod, private, shared, or app:");
        expect_error("acnspawn/pid", "app:A b", "must be pod, private, shared, or app:");
        for (const char *const *bad =
                             (const char *const[]){"", ",", "proc", "/", "/a/../b", "/a/", "none,/a", NULL};
             *bad; bad++)
                expect_error("acnspawn/read-only-paths", *bad, "must be default, none, or absolute paths");
        for (const char *const *bad =
                             (const char *const[]){"", ",", "/srv/x", "/dev/a:/srv/x", "/dev", "/dev/a:/dev",
                                                   "/dev/../x:/dev/a", "a", "all,/dev/a:r", "/dev/a:r,all",
                                                   "/srv/a:r", ":r", NULL};
             *bad; bad++)
                expect_error("acnspawn/device", *bad, "must be none, or all, or absolute paths of devices");
        expect_error("acnspawn/sys", "rw", "must be read-only or writable");
        expect_error("acnspawn/landlock", "no", "must be required or optional");
        expect_error("acnspawn/device-policy", "open", "must be auto or closed");
        expect_error("acnspawn/hooks", "[{\"path\":\"x\"}]", "must be none, or a list of hooks in JSON");
        expect_error("acnspawn/group-policy", "some", "must be auto, merge or strict");
        for (const char *const *bad =
                             (const char *const[]){"", ",", "CAP_", "CAP_A B", "none,CAP_KILL ", NULL};
             *bad; bad++)
                expect_error("acnspawn/caps-ambient", *bad, "must be names of capabilities");
        expect_error("acnspawn/oom-group", "perhaps\n", "must be true or false");
        expect_error("acnspawn/transient", "perhaps", "must be true or false");
        for (size_t i = 0; i < ELEMENTSOF(no_ports); i++)
                expect_error("acnspawn/socket-activated", no_ports[i],
                             "must be ports, by their names in the image, or as 80 or 53/udp");
        expect_error("acnspawn/fate-group", "A b", "must be a name of lower-case letters");
        expect_error("acnspawn/fate-group", "", "must be a name of lower-case letters");
        expect_error("acnspawn/exec-start-pre", "/bin/sh", "There is no setting acnspawn/exec-start-pre");
}

static void check_command(const char *text, const char *expected)
{
        _cleanup_strv_free_ char **l = NULL;
        _cleanup_free_ char *joined = NULL;

        if (!expected) {
                ASSERT_ERR(health_command_parse(text, &l), -EINVAL);
                return;
        }
        ASSERT_OK(health_command_parse(text, &l));
        joined = strv_join(l, "|");
        ASSERT_STREQ(joined ?: "", expected);
}

TEST(health_commands)
{
        check_command("curl -f http://localhost || exit 1", "/bin/sh|-c|curl -f http://localhost || exit 1");
        check_command("[\"CMD\",\"/bin/check\",\"a b\"]", "/bin/check|a b");
        check_command("[\"CMD-SHELL\",\"test -e /x\"]", "/bin/sh|-c|test -e /x");
        check_command("[\"/bin/check\",\"\"]", "/bin/check|");
        check_command("[\"NONE\"]", "");
        check_command("none", "");
        check_command("", NULL);
        check_command("[]", NULL);
        check_command("[\"CMD\"]", NULL);
        check_command("[\"CMD\",\"\"]", NULL);
        check_command("[\"CMD-SHELL\",\"a\",\"b\"]", NULL);
        /* Anything but an array of strings is a shell command. */
        check_command("[ -e x ] || exit 1", "/bin/sh|-c|[ -e x ] || exit 1");
        check_command("[ -e \"$HOME\" ]", "/bin/sh|-c|[ -e \"$HOME\" ]");
        check_command("[\"CMD\",1]", "/bin/sh|-c|[\"CMD\",1]");
        check_command("[\"CMD\",\"a\\u0000b\"]", "/bin/sh|-c|[\"CMD\",\"a\\u0000b\"]");
        check_command("[\"CMD\",", "/bin/sh|-c|[\"CMD\",");
}

static void check_image(const char *text, const char *command, const char *interval, const char *retries,
                        const char *message)
{
        _cleanup_(pair_list_done) PairList l = {};
        _cleanup_error_ Error e = ERROR_NULL;
        int r = health_settings_from_oci(text, &l, &e);

        if (message) {
                ASSERT_TRUE(r < 0);
                ASSERT_CONTAINS(e.message, message);
                return;
        }
        ASSERT_OK(r);
        ASSERT_STREQ(pair_list_get(&l, "acnspawn/health-cmd"), command);
        ASSERT_STREQ(pair_list_get(&l, "acnspawn/health-interval"), interval);
        ASSERT_STREQ(pair_list_get(&l, "acnspawn/health-retries"), retries);
        for (size_t i = 0; i < l.n; i++)
                ASSERT_OK(app_setting_check(strchr(l.items[i].name, '/') + 1, l.items[i].value, NULL));
}

TEST(health_checks_of_images)
{
        check_image("{\"Test\":[\"CMD\",\"/bin/check\"],\"Interval\":5000000000,\"Timeout\":1,\"Retries\":4,"
                    "\"StartPeriod\":0,\"StartInterval\":7000000000}",
                    "[\"CMD\",\"/bin/check\"]", "5000000us", "4", NULL);
        check_image("{\"Test\":[\"CMD-SHELL\",\"true\"],\"Retries\":9000000}", "[\"CMD-SHELL\",\"true\"]",
                    NULL, "1000", NULL);
        check_image("{\"Test\":[\"NONE\"],\"Retries\":3}", NULL, NULL, NULL, NULL);
        check_image("{\"Interval\":1}", NULL, NULL, NULL, NULL);
        check_image("{\"Test\":[]}", NULL, NULL, NULL, NULL);
        check_image("{}", NULL, NULL, NULL, NULL);
        check_image("[]", NULL, NULL, NULL, "not an object");
        check_image("{\"Test\":\"true\"}", NULL, NULL, NULL, "Test is not a command");
        check_image("{\"Test\":[\"CMD\",\"a\"],\"Interval\":-1}", NULL, NULL, NULL,
                    "Interval is not a number");
        check_image("{\"Test\":[\"CMD\",\"a\"],\"Retries\":\"3\"}", NULL, NULL, NULL,
                    "Retries is not a number");
        check_image("{\"Test\":[\"CMD\",\"a\"],\"Interval\":9223372036854775807}", "[\"CMD\",\"a\"]",
                    "9223372036854775us", NULL, NULL);
}

TEST(signals)
{
        static const char *const none[] = {"SIGRTMIN+99", "SIGRTMIN-1", "SIGRTMAX+1", "RTMAX-99",
                                           "RTMIN+",      "RTMIN3",     "SIG",        "x"};

        ASSERT_EQ(signal_from_string("TERM"), SIGTERM);
        ASSERT_EQ(signal_from_string("SIGTERM"), SIGTERM);
        ASSERT_EQ(signal_from_string("9"), SIGKILL);
        ASSERT_EQ(signal_from_string("SIGRTMIN+3"), SIGRTMIN + 3);
        ASSERT_EQ(signal_from_string("SIGRTMAX-1"), SIGRTMAX - 1);
        ASSERT_EQ(signal_from_string("rtmax"), SIGRTMAX);
        ASSERT_EQ(signal_from_string("sigterm"), SIGTERM);
        ASSERT_EQ(signal_from_string("term"), SIGTERM);
        for (size_t i = 0; i < ELEMENTSOF(none); i++)
                ASSERT_TRUE(signal_from_string(none[i]) <= 0);
        ASSERT_TRUE(signal_from_string("") <= 0);
}

static void check_order(const char *first_after, const char *second_after, int result, const char *message)
{
        _cleanup_error_ Error e = ERROR_NULL;
        PodApp apps[] = {{.name = (char *) "a"}, {.name = (char *) "b"}, {.name = (char *) "c"}};
        PodApp *list[] = {&apps[0], &apps[1], &apps[2]};
        PodManifest m = {.apps = list, .n_apps = 3};

        if (first_after)
                ASSERT_OK(pair_list_set(&apps[0].annotations, "acnspawn/after", first_after));
        if (second_after)
                ASSERT_OK(pair_list_set(&apps[1].annotations, "acnspawn/after", second_after));
        ASSERT_EQ(pod_settings_check(&m, &e), result);
        if (message)
                ASSERT_CONTAINS(e.message, message);
        for (size_t i = 0; i < 3; i++)
                pair_list_done(&apps[i].annotations);
}

TEST(order)
{
        check_order(NULL, NULL, 0, NULL);
        check_order("b,c", "c", 0, NULL);
        check_order("b", "a", -ELOOP, "App a is to start after an app that is to start after it");
        check_order("a", NULL, -ELOOP, "App a");
        check_order("d", NULL, -ENOENT, "App a is to start after d, but the pod has no such app");
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static int read_volume(VolumeKind kind, const char *text, VolumeSettings *ret, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = pod_manifest_new();
        Volume *v = pod_manifest_add_volume(m);

        v->name = strdup("data");
        v->kind = kind;
        if (text && pair_list_set(&m->annotations, "acnspawn/volume/data", text) < 0)
                return -ENOMEM;
        return volume_settings_read(m, v, ret, e);
}

TEST(volume_defaults)
{
        VolumeSettings s;

        ASSERT_OK(read_volume(VOLUME_HOST, NULL, &s, NULL));
        ASSERT_TRUE(!s.tmpfs && !s.symlinks && !s.devices && !s.set_uid &&
                    s.propagation == PROPAGATION_NONE && s.id_map == ID_MAP_AUTO && s.n_ranges == 0);
}

TEST(volume_values)
{
        VolumeSettings s;

        ASSERT_OK(read_volume(VOLUME_EMPTY, "kind=tmpfs,size=64Mi,nr_inodes=1k", &s, NULL));
        ASSERT_TRUE(s.tmpfs);
        ASSERT_EQ(s.size, 64U << 20);
        ASSERT_EQ(s.n_inodes, 1000);
        ASSERT_OK(read_volume(VOLUME_EMPTY, "kind=named,source=db-data,owner=image", &s, NULL));
        ASSERT_TRUE(!s.tmpfs && s.owner_image);
        ASSERT_STREQ(s.named, "db-data");
        ASSERT_OK(read_volume(VOLUME_EMPTY, "source=a,kind=named", &s, NULL));
        ASSERT_TRUE(!s.owner_image && s.quota == 0);
        ASSERT_OK(read_volume(VOLUME_EMPTY, "source=a,kind=named,quota=10G", &s, NULL));
        ASSERT_EQ(s.quota, UINT64_C(10000000000));
        ASSERT_OK(read_volume(VOLUME_HOST, "idmap=1000:0:1+0:1:1000,symlinks=yes", &s, NULL));
        ASSERT_TRUE(s.symlinks && s.id_map == ID_MAP_RANGES);
        ASSERT_EQ(s.n_ranges, 2);
        ASSERT_EQ(s.ranges[0].host, 1000);
        ASSERT_EQ(s.ranges[1].count, 1000);
        ASSERT_OK(read_volume(VOLUME_HOST, "idmap=4294901758:0:65536", &s, NULL));
        ASSERT_OK(read_volume(VOLUME_HOST, "dev=true,suid=false,propagation=slave", &s, NULL));
        ASSERT_TRUE(s.devices && !s.set_uid && s.propagation == PROPAGATION_SLAVE);
        ASSERT_OK(read_volume(VOLUME_HOST, "dev=false,suid=true,propagation=private", &s, NULL));
        ASSERT_TRUE(!s.devices && s.set_uid && s.propagation == PROPAGATION_NONE);
        ASSERT_OK(read_volume(VOLUME_HOST, "propagation=shared", &s, NULL));
        ASSERT_EQ(s.propagation, PROPAGATION_SHARED);
        ASSERT_OK(read_volume(VOLUME_HOST, "idmap=no", &s, NULL));
        ASSERT_EQ(s.id_map, ID_MAP_NO);
}

TEST(volumes_that_are_images)
{
        static const char text[] =
                        "kind=image,source=example.com/a:1\\,arch=amd64,subpath=a\\\\b/c,exec=false";
        _cleanup_free_ char *again = NULL;
        VolumeSettings s;

        ASSERT_OK(read_volume(VOLUME_EMPTY, text, &s, NULL));
        ASSERT_STREQ(s.image, "example.com/a:1,arch=amd64");
        ASSERT_STREQ(s.sub_path, "a\\b/c");
        ASSERT_TRUE(s.no_exec && !s.tmpfs && !s.named[0]);
        ASSERT_OK(volume_setting_add(&again, "kind", "image"));
        ASSERT_OK(volume_setting_add(&again, "source", s.image));
        ASSERT_OK(volume_setting_add(&again, "subpath", s.sub_path));
        ASSERT_OK(volume_setting_add(&again, "exec", "false"));
        ASSERT_STREQ(again, text);
        ASSERT_OK(read_volume(VOLUME_EMPTY, "source=sha512-00,kind=image,exec=true", &s, NULL));
        ASSERT_TRUE(!s.no_exec && !s.sub_path[0]);
        char longest[VOLUME_IMAGE_MAX + 64] = "kind=image,source=";
        size_t n = strlen(longest);
        memset(longest + n, 'a', VOLUME_IMAGE_MAX);
        ASSERT_OK(read_volume(VOLUME_EMPTY, longest, &s, NULL));
        longest[n + VOLUME_IMAGE_MAX] = 'a';
        ASSERT_EQ(read_volume(VOLUME_EMPTY, longest, &s, NULL), -EINVAL);
}

TEST(bad_volumes)
{
        static const struct {
                VolumeKind kind;
                const char *text, *message;
        } bad[] = {
                        {VOLUME_EMPTY, "size=1M", "of kind=tmpfs"},
                        {VOLUME_EMPTY, "kind=empty", "must be tmpfs, named or image"},
                        {VOLUME_EMPTY, "kind=image", "needs source=IMAGE"},
                        {VOLUME_EMPTY, "kind=image,source=", "needs source=IMAGE"},
                        {VOLUME_EMPTY, "kind=image,source=a,subpath=/b", "relative and without '..'"},
                        {VOLUME_EMPTY, "kind=image,source=a,subpath=b/../../c", "relative and without '..'"},
                        {VOLUME_EMPTY, "kind=image,source=a,subpath=", "relative and without '..'"},
                        {VOLUME_EMPTY, "kind=image,source=a,exec=perhaps", "true or false"},
                        {VOLUME_EMPTY, "kind=image,source=a,owner=image", "of kind=named"},
                        {VOLUME_EMPTY, "kind=named,source=a,subpath=b", "of kind=image"},
                        {VOLUME_EMPTY, "kind=tmpfs,exec=false", "of kind=image"},
                        {VOLUME_HOST, "kind=image,source=a", "is for empty volumes"},
                        {VOLUME_EMPTY, "kind=named", "needs source=NAME"},
                        {VOLUME_EMPTY, "source=a", "of kind=named"},
                        {VOLUME_EMPTY, "kind=tmpfs,source=a", "of kind=named"},
                        {VOLUME_EMPTY, "kind=named,source=a,size=1M", "of kind=tmpfs"},
                        {VOLUME_EMPTY, "kind=named,source=", "the name of a named volume"},
                        {VOLUME_EMPTY, "kind=named,source=../a", "the name of a named volume"},
                        {VOLUME_EMPTY, "kind=named,source=/a", "the name of a named volume"},
                        {VOLUME_EMPTY,
                         "kind=named,source="
                         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                         "the name of a named volume"},
                        {VOLUME_EMPTY, "kind=named,source=a,owner=me", "must be image"},
                        {VOLUME_EMPTY, "kind=named,source=a,quota=64K", "from 64Ki to 1Ei"},
                        {VOLUME_EMPTY, "kind=named,source=a,quota=2Ei", "from 64Ki to 1Ei"},
                        {VOLUME_EMPTY, "kind=named,source=a,quota=none", "from 64Ki to 1Ei"},
                        {VOLUME_EMPTY, "kind=tmpfs,quota=1G", "of kind=named"},
                        {VOLUME_HOST, "kind=named,source=a", "is for empty volumes"},
                        {VOLUME_EMPTY, "kind=tmpfs,size=0", "a number of bytes"},
                        {VOLUME_EMPTY, "kind=tmpfs,size=-1", "a number of bytes"},
                        {VOLUME_EMPTY, "kind=tmpfs,nr_inodes=0", "a number of files"},
                        {VOLUME_EMPTY, "idmap=yes", "is for host volumes"},
                        {VOLUME_HOST, "kind=tmpfs", "is for empty volumes"},
                        {VOLUME_HOST, "symlinks=perhaps", "true or false"},
                        {VOLUME_HOST, "dev=perhaps", "true or false"},
                        {VOLUME_HOST, "suid=", "true or false"},
                        {VOLUME_HOST, "propagation=rshared", "private, slave or shared"},
                        {VOLUME_EMPTY, "propagation=slave", "is for host volumes"},
                        {VOLUME_HOST, "idmap", "an unknown setting"},
                        {VOLUME_HOST, "=", "an unknown setting"},
                        {VOLUME_HOST, "colour=red", "an unknown setting"},
                        {VOLUME_HOST, "idmap=", "HOST:POD:COUNT"},
                        {VOLUME_HOST, "idmap=1:2", "HOST:POD:COUNT"},
                        {VOLUME_HOST, "idmap=1:2:0", "HOST:POD:COUNT"},
                        {VOLUME_HOST, "idmap=0:65536:1", "HOST:POD:COUNT"},
                        {VOLUME_HOST, "idmap=0:65535:2", "HOST:POD:COUNT"},
                        {VOLUME_HOST, "idmap=4294967295:0:1", "HOST:POD:COUNT"},
                        {VOLUME_HOST, "idmap=4294901761:0:65536", "HOST:POD:COUNT"},
                        {VOLUME_HOST, "idmap=0:0:10+9:20:1", "do not overlap"},
                        {VOLUME_HOST, "idmap=0:0:10+20:9:1", "do not overlap"},
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                VolumeSettings s;

                ASSERT_ERR(read_volume(bad[i].kind, bad[i].text, &s, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "Volume 'data'");
                ASSERT_CONTAINS(e.message, bad[i].message);
        }
}

static void check_delays(const char *first, const char *longest, uint64_t first_usec, uint64_t longest_usec)
{
        _cleanup_app_settings_ AppSettings s = {};
        PodApp app = app_with("acnspawn/restart", "on-failure");

        if (first)
                ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/restart-delay", first));
        if (longest)
                ASSERT_OK(pair_list_set(&app.annotations, "acnspawn/restart-delay-max", longest));
        ASSERT_OK(app_settings_read(&app, &s, NULL));
        ASSERT_EQ(s.restart_usec, first_usec);
        ASSERT_EQ(s.restart_max_usec, longest_usec);
        pair_list_done(&app.annotations);
}

TEST(no_delay_is_longer_than_the_longest)
{
        check_delays(NULL, NULL, 100000, 60000000);
        check_delays("5s", NULL, 5000000, 60000000);
        check_delays("5min", NULL, 300000000, 300000000);
        check_delays("5s", "2s", 2000000, 2000000);
        check_delays(NULL, "20ms", 20000, 20000);
        check_delays("1s", "2s", 1000000, 2000000);
}

TEST(settings_of_no_volume)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = pod_manifest_new();
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(pair_list_set(&m->annotations, "acnspawn/volume/data", "kind=tmpfs"));
        ASSERT_ERR(pod_settings_check(m, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, "acnspawn/volume/data");
}

TEST(settings_that_no_pod_has)
{
        static const struct {
                const char *name, *message;
        } cases[] = {
                        {"acnspawn/restart", "acnspawn/restart is a setting of apps, not of the pod"},
                        {"acnspawn/memroy", "There is no setting acnspawn/memroy of a pod"},
                        {"acnspawn/volume", "There is no setting acnspawn/volume of a pod"},
                        {"acnspawnx/restart", NULL},
                        {"example.com/acnspawn/restart", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(pod_manifest_freep) PodManifest *m = pod_manifest_new();
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_OK(pair_list_set(&m->annotations, cases[i].name, "always"));
                if (!cases[i].message) {
                        ASSERT_OK(pod_annotations_check(m, &e));
                        continue;
                }
                ASSERT_ERR(pod_annotations_check(m, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].message);
        }
}

int main(void)
{
        RUN(defaults);
        RUN(values);
        RUN(pid_namespaces);
        RUN(paths);
        RUN(devices);
        RUN(groups_and_ambient_capabilities);
        RUN(log_files);
        RUN(two_apps_do_not_share_a_log_file);
        RUN(invalid_values_are_named_with_valid_ones);
        RUN(signals);
        RUN(health_commands);
        RUN(health_checks_of_images);
        RUN(order);
        RUN(volume_defaults);
        RUN(volume_values);
        RUN(volumes_that_are_images);
        RUN(bad_volumes);
        RUN(no_delay_is_longer_than_the_longest);
        RUN(settings_of_no_volume);
        RUN(settings_that_no_pod_has);
        return TEST_END();
}

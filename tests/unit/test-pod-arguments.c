/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The grammar of prepare and run: which words become which part of the request. Errors are tested with the
 * real program, in test-cli.py. */

#include "stage0/arguments/pod-arguments.h"
#include "stage0/verbs/verb.h"
#include "tests/unit/test.h"

static int parse(Context *c, PodArguments *a, const char *const *line)
{
        char **argv = (char **) line; /* never written to */

        pod_arguments_init(a);
        return pod_arguments_parse(c, NULL, NULL, (int) strv_length(argv), argv, a);
}

#define PARSE(...) parse(&c, &a, (const char *const[]){__VA_ARGS__, NULL})
#define SETUP                                                                                               \
        _cleanup_pod_arguments_ PodArguments a;                                                             \
        Context c = {.verb = &verb_prepare}

static const AppOverrides *app(const PodArguments *a, size_t i)
{
        static const AppOverrides none = {};

        return i < a->request.n_apps ? &a->request.apps[i] : &none;
}

TEST(one_image)
{
        SETUP;

        ASSERT_EQ(PARSE("image"), 1);
        ASSERT_EQ(a.request.n_apps, 1);
        ASSERT_STREQ(app(&a, 0)->reference, "image");
        ASSERT_TRUE(!app(&a, 0)->args && !app(&a, 0)->exec);
        ASSERT_TRUE(!a.describes_pod); /* may be a pod */
        ASSERT_TRUE(a.options.private_users);
        ASSERT_EQ(a.options.net, NET_NONE);
        ASSERT_EQ(a.options.exit_policy, EXIT_ON_FAILURE);
}

TEST(nothing)
{
        SETUP;

        ASSERT_EQ(parse(&c, &a, (const char *const[]){NULL}), 1);
        ASSERT_EQ(a.request.n_apps, 0);
        ASSERT_TRUE(!a.describes_pod);
}

TEST(global_options_describe_nothing)
{
        SETUP;

        ASSERT_EQ(PARSE("--no-legend", "image", "--dir=/x"), 1);
        ASSERT_TRUE(!a.describes_pod);
        ASSERT_STREQ(c.dir, "/x");
}

TEST(what_describes_a_pod)
{
        static const char *const lines[][4] = {
                        {"a", "b"},       {"--name=x", "a"}, {"a", "--name=x"},
                        {"a", "--", "x"}, {"a", "--"},       {"--net=host", "a"},
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                SETUP;

                ASSERT_EQ(parse(&c, &a, lines[i]), 1);
                ASSERT_TRUE(a.describes_pod);
        }
}

TEST(position_decides)
{
        SETUP;

        ASSERT_EQ(PARSE("--name=pod", "-EA=pod", "--annotation=x=pod", "--mount=v:/pod", "one",
                        "--name=first", "-E", "A=first", "--mount=v:/first", "two", "--name", "second",
                        "--annotation", "x=second"),
                  1);
        ASSERT_STREQ(a.options.name, "pod");
        ASSERT_STREQ(pair_list_get(&a.request.environment, "A"), "pod");
        ASSERT_STREQ(pair_list_get(&a.request.annotations, "x"), "pod");
        ASSERT_EQ(a.request.n_mounts, 1);
        ASSERT_STREQ(a.request.mounts[0].path, "/pod");
        ASSERT_EQ(a.request.n_apps, 2);
        ASSERT_STREQ(app(&a, 0)->name, "first");
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->environment, "A"), "first");
        ASSERT_STREQ(app(&a, 0)->mounts[0].path, "/first");
        ASSERT_EQ(app(&a, 0)->annotations.n, 0);
        ASSERT_STREQ(app(&a, 1)->name, "second");
        ASSERT_STREQ(pair_list_get(&app(&a, 1)->annotations, "x"), "second");
        ASSERT_EQ(app(&a, 1)->environment.n, 0);
}

static void check_refused(const char *option, const char *message)
{
        SETUP;
        const char *line[4] = {option, "a"};

        ASSERT_TRUE(parse(&c, &a, line) < 0);
        ASSERT_TRUE(c.usage);
        ASSERT_CONTAINS(c.error.message, message);
        error_done(&c.error);
}

TEST(values_that_no_pod_can_have)
{
        check_refused("--net=default,default", "the pod is in the network 'default' already");
        check_refused("--net=a,default:IP=1.2.3.4,default", "the pod is in the network 'default' already");
        check_refused("--annotation=acnspawn/restart=always", "acnspawn/restart is a setting of apps");
        check_refused("--annotation=acnspawn/memroy=1", "There is no setting acnspawn/memroy of a pod");

        SETUP;
        ASSERT_EQ(PARSE("--net=default,default2", "--annotation=acnspawn/volume/v=kind=tmpfs", "a"), 1);
}

/* All words after "--" are passed to the app unchanged, except for "---". */
TEST(arguments)
{
        SETUP;

        ASSERT_EQ(PARSE("one", "--name=x", "--", "--name=y", "--", "-h", "", "a b", "----", "---", "two",
                        "three", "--", "--help"),
                  1);
        ASSERT_TRUE(!c.help);
        ASSERT_EQ(a.request.n_apps, 3);
        ASSERT_STREQ(app(&a, 0)->name, "x");
        ASSERT_EQ(strv_length(app(&a, 0)->args), 6);
        ASSERT_STREQ(app(&a, 0)->args[0], "--name=y");
        ASSERT_STREQ(app(&a, 0)->args[1], "--");
        ASSERT_STREQ(app(&a, 0)->args[3], "");
        ASSERT_STREQ(app(&a, 0)->args[5], "----");
        ASSERT_EQ(strv_length(app(&a, 1)->args), 0);
        ASSERT_STREQ(app(&a, 2)->args[0], "--help");
}

TEST(next_app_without_arguments)
{
        SETUP;

        ASSERT_EQ(PARSE("one", "--user=1", "---", "two", "--user=2"), 1);
        ASSERT_EQ(a.request.n_apps, 2);
        ASSERT_STREQ(app(&a, 0)->user, "1");
        ASSERT_STREQ(app(&a, 1)->user, "2");
}

/* The names that podman and docker have in common mean the same as those here. */
TEST(names_of_other_tools)
{
        SETUP;

        ASSERT_EQ(PARSE("-eA=pod", "--env=B=pod", "--network=host", "--publish", "127.0.0.1:8080:80/udp",
                        "-m", "64Mi", "one", "-eA=app", "--workdir=/srv", "--entrypoint=/bin/sh", "-u7:8",
                        "-m32Mi", "-t", "two", "-w", "/tmp"),
                  1);
        ASSERT_STREQ(pair_list_get(&a.request.environment, "A"), "pod");
        ASSERT_STREQ(pair_list_get(&a.request.environment, "B"), "pod");
        ASSERT_EQ(a.options.net, NET_HOST);
        ASSERT_EQ(a.request.n_ports, 1);
        ASSERT_STREQ(a.request.ports[0].host_ip, "127.0.0.1");
        ASSERT_EQ(a.request.ports[0].host_port, 8080);
        ASSERT_STREQ(a.request.ports[0].pod_port->protocol, "udp");
        ASSERT_EQ(a.request.isolators.n, 1);
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->environment, "A"), "app");
        ASSERT_STREQ(app(&a, 0)->working_directory, "/srv");
        ASSERT_STREQ(app(&a, 0)->exec[0], "/bin/sh");
        ASSERT_STREQ(app(&a, 0)->user, "7");
        ASSERT_STREQ(app(&a, 0)->group, "8");
        ASSERT_EQ(app(&a, 0)->isolators.n, 1);
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->annotations, "acnspawn/input"), "terminal");
        ASSERT_STREQ(app(&a, 1)->working_directory, "/tmp");
}

/* Options of an app before the first image are for the only app, whose own ones take precedence. */
TEST(only_app)
{
        SETUP;

        ASSERT_EQ(PARSE("-it", "-u", "7:8", "-w/srv", "--entrypoint", "/bin/sh", "one", "--user=9"), 1);
        ASSERT_STREQ(app(&a, 0)->user, "9");
        ASSERT_STREQ(app(&a, 0)->group, "8");
        ASSERT_STREQ(app(&a, 0)->working_directory, "/srv");
        ASSERT_EQ(strv_length(app(&a, 0)->exec), 1);
        ASSERT_STREQ(app(&a, 0)->exec[0], "/bin/sh");
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->annotations, "acnspawn/input"), "terminal");
        ASSERT_TRUE(a.describes_pod);
}

/* All options for the only app are options of apps. */
TEST(only_app_has_options_of_apps)
{
        size_t n = 0;

        for (const Option *o = pod_options; !option_is_end(o); o++) {
                const Option *x = app_options;

                if (o->handler != option_only_app)
                        continue;
                while (!option_is_end(x) && !streq_ptr(x->name, o->name))
                        x++;
                ASSERT_TRUE(!option_is_end(x));
                ASSERT_EQ(x->letter, o->letter);
                ASSERT_TRUE(streq_ptr(x->value, o->value));
                n++;
        }
        ASSERT_TRUE(n >= 8);
}

/* ... of a pod manifest, only how it is connected. */
TEST(only_app_of_a_manifest)
{
        PodManifest two = {.n_apps = 2}, one = {.n_apps = 1};

        for (size_t i = 0; i < 2; i++) {
                SETUP;

                ASSERT_EQ(PARSE("--pod-manifest=x", i == 0 ? "-u7" : "-t"), 1);
                a.request.template = i == 0 ? &one : &two;
                ASSERT_ERR(only_app_complete_template(&c, &a), -EINVAL);
                ASSERT_CONTAINS(c.error.message,
                                i == 0 ? "Program, user and working directory of the apps are those of the "
                                         "pod"
                                       : "The pod manifest has 2 apps: the one that reads standard input");
                a.request.template = NULL;
                error_done(&c.error);
        }
}

static int parse_environment_by(const char *name, const char *text, size_t size, PodArguments *a, Error *ret)
{
        Context c = {.verb = &verb_prepare};
        _cleanup_free_ char *option = NULL;
        char path[] = "/tmp/test-environment-XXXXXX";
        int fd = mkostemp(path, O_CLOEXEC);

        if (fd < 0 || loop_write(fd, text, size) < 0 || xasprintf(&option, "--%s=%s", name, path) < 0)
                return -EIO;
        close(fd);
        int r = parse(&c, a, (const char *const[]){"-EA=first", option, "image", option, "-EB=last", NULL});
        *ret = c.error;
        (void) unlink(path);
        return r;
}

static int parse_environment(const char *text, PodArguments *a, Error *ret)
{
        return parse_environment_by("environment-file", text, strlen(text), a, ret);
}

TEST(ports_in_a_row)
{
        SETUP;

        ASSERT_EQ(PARSE("-p", "8081-8083:80-82/udp", "--port=[::1]:90:9", "--port=web-1:8080", "i"), 1);
        ASSERT_EQ(a.request.n_ports, 3);
        const ExposedPort *x = a.request.ports;
        ASSERT_EQ(x[0].host_port, 8081);
        ASSERT_EQ(x[0].pod_port->port, 80);
        ASSERT_EQ(x[0].pod_port->count, 3);
        ASSERT_STREQ(x[0].pod_port->protocol, "udp");
        ASSERT_STREQ(x[1].host_ip, "::1");
        ASSERT_EQ(x[1].pod_port->count, 1);
        ASSERT_STREQ(x[2].name, "web-1");
        ASSERT_TRUE(!x[2].pod_port);
}

TEST(read_write)
{
        SETUP;

        ASSERT_EQ(PARSE("i", "-v/x:/a:rw", "-v/x:/b:rw,idmap=no", "-vdata:/c:rw", "-v/x:/d:ro"), 1);
        const Mount *m = app(&a, 0)->mounts;
        ASSERT_EQ(app(&a, 0)->n_mounts, 4);
        ASSERT_TRUE(!m[0].app_volume->read_only && !m[1].app_volume->read_only && !m[2].read_only);
        ASSERT_STREQ(m[1].app_volume->settings, "idmap=no");
        ASSERT_TRUE(m[3].app_volume->read_only);
}

TEST(environment_files)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_error_ Error e = ERROR_NULL;

        setenv("FROM_HERE", "x y", 1);
        ASSERT_EQ(parse_environment("# comment\n\n;C=1\n  A=a b \r\nB=\"in quotes "
                                    "\"\nC='$x'\nD=\nE=a=\"b\"\nFROM_HERE\nF=1",
                                    &a, &e),
                  1);
        for (int i = 0; i < 2; i++) {
                const PairList *l = i == 0 ? &a.request.environment : &app(&a, 0)->environment;

                ASSERT_EQ(l->n, 7);
                ASSERT_STREQ(pair_list_get(l, "A"), "a b");
                ASSERT_STREQ(pair_list_get(l, "B"), i == 0 ? "in quotes " : "last");
                ASSERT_STREQ(pair_list_get(l, "C"), "$x");
                ASSERT_STREQ(pair_list_get(l, "D"), "");
                ASSERT_STREQ(pair_list_get(l, "E"), "a=\"b\"");
                ASSERT_STREQ(pair_list_get(l, "F"), "1");
                ASSERT_STREQ(pair_list_get(l, "FROM_HERE"), "x y");
        }
}

/* As systemd reads them: parts in quotes, several lines, backslashes. */
TEST(environment_files_of_units)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_EQ(parse_environment(
                                  "\xef\xbb\xbf"
                                  "M=\"1\n2\" '3 '\nE=\"a\\\"b\\$c\\n\"\nL=one \\\ntwo\\ \nQ=it's\nS='\\'\nN =x\n"
                                  "U=\xff\nT='a'b c\t\nZ='' \n",
                                  &a, &e),
                  1);
        const PairList *l = &a.request.environment;
        ASSERT_STREQ(pair_list_get(l, "M"), "1\n23 ");
        ASSERT_STREQ(pair_list_get(l, "E"), "a\"b$c\\n");
        ASSERT_STREQ(pair_list_get(l, "L"), "one two ");
        ASSERT_STREQ(pair_list_get(l, "Q"), "it's");
        ASSERT_STREQ(pair_list_get(l, "S"), "\\");
        ASSERT_STREQ(pair_list_get(l, "N"), "x");
        ASSERT_STREQ(pair_list_get(l, "U"), "\xff");
        ASSERT_STREQ(pair_list_get(l, "T"), "ab c");
        ASSERT_STREQ(pair_list_get(l, "Z"), "");
}

/* As podman and docker read them: what follows the equals sign is the value. */
TEST(environment_files_of_other_tools)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_error_ Error e = ERROR_NULL;
        static const char text[] =
                        "\xef\xbb\xbf"
                        "BOM=1\nQ=\"a b\"\r\nS='x\nT=end  \n \tL= lead\n\n  #D=1\nU=\xff\xfe\nE=\n"
                        "NOT_SET_HERE\nFROM_HERE\nMANY_*\nC=a\\\nF=#1;2\nM=a=b\nlast=1";

        setenv("FROM_HERE", "x y", 1);
        setenv("MANY_", "0", 1);
        setenv("MANY_1", "1=2", 1);
        unsetenv("NOT_SET_HERE");
        ASSERT_EQ(parse_environment_by("env-file", text, sizeof(text) - 1, &a, &e), 1);
        for (int i = 0; i < 2; i++) {
                const PairList *l = i == 0 ? &a.request.environment : &app(&a, 0)->environment;

                ASSERT_STREQ(pair_list_get(l, "BOM"), "1");
                ASSERT_STREQ(pair_list_get(l, "Q"), "\"a b\"");
                ASSERT_STREQ(pair_list_get(l, "S"), "'x");
                ASSERT_STREQ(pair_list_get(l, "T"), "end  ");
                ASSERT_STREQ(pair_list_get(l, "L"), " lead");
                ASSERT_STREQ(pair_list_get(l, "U"), "\xff\xfe");
                ASSERT_STREQ(pair_list_get(l, "E"), "");
                ASSERT_STREQ(pair_list_get(l, "FROM_HERE"), "x y");
                ASSERT_STREQ(pair_list_get(l, "MANY_"), "0");
                ASSERT_STREQ(pair_list_get(l, "MANY_1"), "1=2");
                ASSERT_STREQ(pair_list_get(l, "C"), "a\\");
                ASSERT_STREQ(pair_list_get(l, "F"), "#1;2");
                ASSERT_STREQ(pair_list_get(l, "M"), "a=b");
                ASSERT_STREQ(pair_list_get(l, "last"), "1");
                ASSERT_TRUE(!pair_list_get(l, "NOT_SET_HERE") && !pair_list_get(l, "D"));
        }
}

TEST(environment_files_are_text)
{
        for (int i = 0; i < 2; i++) {
                _cleanup_pod_arguments_ PodArguments a = {}, b = {};
                _cleanup_error_ Error e = ERROR_NULL;
                const char *option = i == 0 ? "env-file" : "environment-file";

                ASSERT_ERR(parse_environment_by(option, "A=1\0B", 5, &a, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "it is not text");
                error_done(&e);
                ASSERT_ERR(parse_environment_by(option, "A=1\n=secret\n", 12, &b, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "line 2: ");
                ASSERT_TRUE(!strstr(e.message, "secret"));
        }
}

/* What is said does not show values. */
TEST(environment_files_that_are_wrong)
{
        static const struct {
                const char *text, *message;
        } cases[] = {
                        {"A=1\nB=\"x\n", "line 2: the quote is not terminated"},
                        {"A='1\n2'\nB=\"x\n", "line 3: the quote is not terminated"},
                        {"A='", "line 1: the quote is not terminated"},
                        {"\n\n=secret\n", "line 3: "},
                        {"NO_SUCH_VARIABLE", "line 1: no value given"},
                        {"A=1\nexport B=secret\n", "line 2: a name of a variable has no blanks"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_pod_arguments_ PodArguments a;
                _cleanup_error_ Error e = ERROR_NULL;

                ASSERT_ERR(parse_environment(cases[i].text, &a, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].message);
                ASSERT_CONTAINS(e.message, "for --environment-file: ");
                ASSERT_TRUE(!strstr(e.message, "secret"));
        }
}

/* In the form of podman and docker names are taken as they stand. */
TEST(environment_files_of_shells)
{
        static const char text[] = "export A=1\nB =2\nC D\n";
        _cleanup_pod_arguments_ PodArguments a = {}, b = {};
        _cleanup_error_ Error e = ERROR_NULL;

        ASSERT_OK(parse_environment_by("env-file", text, strlen(text), &a, &e));
        ASSERT_STREQ(pair_list_get(&a.request.environment, "export A"), "1");
        ASSERT_STREQ(pair_list_get(&a.request.environment, "B "), "2");
        ASSERT_TRUE(!pair_list_get(&a.request.environment, "C D"));
        ASSERT_ERR(parse_environment_by("environment-file", text, strlen(text), &b, &e), -EINVAL);
        ASSERT_CONTAINS(e.message, "line 1: a name of a variable has no blanks");
}

/* A path may have any character in it. */
TEST(user_and_group)
{
        SETUP;

        ASSERT_EQ(PARSE("one", "--user=1000:100", "two", "--user=www", "--group=4", "three", "--user=/a:b",
                        "four", "--group=4", "--user=www:5"),
                  1);
        ASSERT_STREQ(app(&a, 0)->user, "1000");
        ASSERT_STREQ(app(&a, 0)->group, "100");
        ASSERT_STREQ(app(&a, 1)->user, "www");
        ASSERT_STREQ(app(&a, 1)->group, "4");
        ASSERT_STREQ(app(&a, 2)->user, "/a:b");
        ASSERT_TRUE(!app(&a, 2)->group);
        ASSERT_STREQ(app(&a, 3)->user, "www");
        ASSERT_STREQ(app(&a, 3)->group, "5");
}

TEST(volumes)
{
        SETUP;
        const Volume *v;

        ASSERT_EQ(PARSE("--volume=data,kind=empty,mode=1777,uid=5,gid=6",
                        "--volume=conf,kind=host,source=/a\\,b\\\\c=d,readOnly=yes,recursive=false", "i"),
                  1);
        ASSERT_EQ(a.request.n_volumes, 2);
        v = a.request.volumes;
        ASSERT_STREQ(v[0].name, "data");
        ASSERT_EQ(v[0].kind, VOLUME_EMPTY);
        ASSERT_EQ(v[0].mode, 01777);
        ASSERT_EQ(v[0].uid, 5);
        ASSERT_EQ(v[0].gid, 6);
        ASSERT_TRUE(!v[0].has_read_only);
        ASSERT_EQ(v[1].kind, VOLUME_HOST);
        ASSERT_STREQ(v[1].source, "/a,b\\c=d");
        ASSERT_TRUE(v[1].has_read_only && v[1].read_only && v[1].has_recursive && !v[1].recursive);
}

/* The tables of the reference implementation for its own syntax of volumes, which is the same. */
TEST(volumes_of_the_reference)
{
        static const struct {
                const char *option;
                VolumeKind kind;
                int read_only, recursive; /* -1: not said */
                unsigned mode, uid, gid;
        } good[] = {
                        {"--volume=v,kind=host,source=/srv", VOLUME_HOST, -1, -1, 0, 0, 0},
                        {"--volume=v,kind=host,source=/srv,readOnly=false", VOLUME_HOST, 0, -1, 0, 0, 0},
                        {"--volume=v,kind=host,source=/srv,readOnly=true", VOLUME_HOST, 1, -1, 0, 0, 0},
                        {"--volume=v,kind=host,source=/srv,recursive=false", VOLUME_HOST, -1, 0, 0, 0, 0},
                        {"--volume=v,kind=host,source=/srv,recursive=true", VOLUME_HOST, -1, 1, 0, 0, 0},
                        {"--volume=v,kind=empty", VOLUME_EMPTY, -1, -1, 0755, 0, 0},
                        {"--volume=v,kind=empty,readOnly=true", VOLUME_EMPTY, 1, -1, 0755, 0, 0},
                        {"--volume=v,kind=empty,readOnly=true,mode=0777", VOLUME_EMPTY, 1, -1, 0777, 0, 0},
                        {"--volume=v,kind=empty,mode=0777,uid=1000", VOLUME_EMPTY, -1, -1, 0777, 1000, 0},
                        {"--volume=v,kind=empty,mode=0777,uid=1000,gid=1001", VOLUME_EMPTY, -1, -1, 0777,
                         1000, 1001},
        };

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                SETUP;

                ASSERT_EQ(PARSE(good[i].option, "i"), 1);
                const Volume *v = a.request.volumes;
                ASSERT_EQ(a.request.n_volumes, 1);
                ASSERT_STREQ(v->name, "v");
                ASSERT_EQ(v->kind, good[i].kind);
                ASSERT_EQ(v->has_read_only ? v->read_only : -1, good[i].read_only);
                ASSERT_EQ(v->has_recursive ? v->recursive : -1, good[i].recursive);
                if (v->kind == VOLUME_EMPTY) /* of others it says nothing */
                        ASSERT_EQ(v->mode, good[i].mode);
                ASSERT_EQ(v->uid, good[i].uid);
                ASSERT_EQ(v->gid, good[i].gid);
                ASSERT_STREQ(v->source, v->kind == VOLUME_HOST ? "/srv" : NULL);
        }
}

/* There is no such syntax for mount points, as a pod mounts volumes; its errors are errors here, too. */
TEST(volumes_the_reference_refuses)
{
        static const char *const bad[] = {
                        "--volume=#v,kind=host,source=/srv",
                        "--volume=v,kind=host,source=/srv,readOnly=true,unknown=x",
                        "--volume=v,kind=host,source=srv",
                        "--volume=v,kind=host,source=/srv,uid=3",
                        "--volume=v,kind=host,uid=3",
                        "--volume=v,kind=host,mode=0755",
                        "--volume=v,kind=host,mode=0600,readOnly=true,gid=0",
                        "--volume=v,kind=empty,source=/srv",
                        "--volume=v,kind=host,source=/srv,recursive=MAYBE",
                        "--volume=v,kind=host",
                        "--volume=v",
                        "--volume=",
                        "--volume=,kind=empty",
                        "--mount=volume=#v,target=/tmp",
                        "--mount=volume=v,target=/tmp,readOnly=true,unknown=x",
                        "--mount=volume=v,target=/tmp,readOnly=maybe",
                        "--mount=volume=v,target=/tmp,readOnly=",
                        "--mount=volume=v,target=",
                        "--mount=volume=v",
                        "--mount=v",
                        "--mount=",
                        "--mount=volume=,target=/",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                SETUP;

                if (PARSE(bad[i], "i") != -EINVAL)
                        TEST_FAIL("'%s' was taken", bad[i]);
                ASSERT_TRUE(c.usage);
                ASSERT_NOT_NULL(c.error.message);
                error_done(&c.error);
        }
}

TEST(mounts)
{
        SETUP;

        ASSERT_EQ(PARSE("i", "--mount=data:/a:ro", "--mount=volume=data,target=/c\\,d",
                        "--mount=target=/e:f,volume=x"),
                  1);
        ASSERT_EQ(app(&a, 0)->n_mounts, 3);
        ASSERT_STREQ(app(&a, 0)->mounts[0].volume, "data");
        ASSERT_STREQ(app(&a, 0)->mounts[0].path, "/a");
        ASSERT_TRUE(app(&a, 0)->mounts[0].read_only);
        ASSERT_TRUE(!app(&a, 0)->mounts[0].app_volume);
        ASSERT_TRUE(!app(&a, 0)->mounts[1].read_only);
        ASSERT_STREQ(app(&a, 0)->mounts[1].path, "/c,d");
        ASSERT_STREQ(app(&a, 0)->mounts[2].volume, "x");
        ASSERT_STREQ(app(&a, 0)->mounts[2].path, "/e:f");
}

TEST(short_volumes)
{
        SETUP;
        const Volume *v;

        ASSERT_EQ(PARSE("-v/srv/Data_1:/data", "i", "-v",
                        "/srv/www:/var/www:ro,idmap=0:5:1+9:9:1,recursive=no", "--volume=cache:/tmp/cache"),
                  1);
        ASSERT_EQ(a.request.n_volumes, 0);
        ASSERT_EQ(a.request.n_mounts, 1);
        v = a.request.mounts[0].app_volume;
        ASSERT_STREQ(v->source, "/srv/Data_1");
        ASSERT_STREQ(v->name, "data");
        ASSERT_TRUE(!v->read_only);
        ASSERT_EQ(app(&a, 0)->n_mounts, 2);
        v = app(&a, 0)->mounts[0].app_volume;
        ASSERT_STREQ(app(&a, 0)->mounts[0].path, "/var/www");
        ASSERT_TRUE(v->read_only && v->has_recursive && !v->recursive);
        ASSERT_STREQ(v->settings, "idmap=0:5:1+9:9:1");
        /* A named volume, unless the pod has one of that name. */
        ASSERT_STREQ(app(&a, 0)->mounts[1].volume, "cache");
        v = app(&a, 0)->mounts[1].app_volume;
        ASSERT_NOT_NULL(v);
        ASSERT_STREQ(v->name, "cache");
        ASSERT_TRUE(v->kind == VOLUME_EMPTY && v->mode == 0755 && !v->source);
        ASSERT_STREQ(v->settings, "kind=named,source=cache,owner=image");
}

TEST(settings_of_volumes)
{
        SETUP;

        ASSERT_EQ(PARSE("--volume=a,kind=tmpfs,size=64Mi,nr_inodes=100,mode=0700",
                        "--volume=b,kind=host,source=/x,idmap,symlinks=true", "--volume=c,kind=named",
                        "--volume=d,source=web,mode=0700,kind=named,uid=5,quota=1Mi",
                        "--volume=e,kind=image,source=example.com/t:1\\,arch=amd64,subpath=a,exec=false",
                        "i"),
                  1);
        ASSERT_EQ(a.request.volumes[0].kind, VOLUME_EMPTY);
        ASSERT_EQ(a.request.volumes[0].mode, 0700);
        ASSERT_STREQ(a.request.volumes[0].settings, "kind=tmpfs,size=64Mi,nr_inodes=100");
        ASSERT_STREQ(a.request.volumes[1].settings, "idmap=true,symlinks=true");
        ASSERT_STREQ(a.request.volumes[2].settings, "kind=named,source=c,owner=image");
        ASSERT_STREQ(a.request.volumes[3].settings, "kind=named,quota=1Mi,source=web");
        ASSERT_TRUE(a.request.volumes[3].mode == 0700 && a.request.volumes[3].uid == 5);
        ASSERT_TRUE(a.request.volumes[3].kind == VOLUME_EMPTY && !a.request.volumes[3].source);
        ASSERT_STREQ(a.request.volumes[4].settings,
                     "kind=image,subpath=a,exec=false,source=example.com/t:1\\,arch=amd64");
        ASSERT_TRUE(a.request.volumes[4].kind == VOLUME_EMPTY && !a.request.volumes[4].source &&
                    a.request.volumes[4].read_only);
}

TEST(isolators)
{
        SETUP;
        const IsolatorList *l;

        ASSERT_EQ(PARSE("--isolator=resource/memory={\"limit\":\"1Gi\"}", "i", "--memory=64Mi", "--cpu=500m",
                        "--memory=1Mi", "--caps-retain=net_bind_service,CAP_CHOWN",
                        "--isolator=example.com/own={\"x\":1}"),
                  1);
        ASSERT_EQ(a.request.isolators.n, 1);
        ASSERT_EQ(a.request.isolators.items[0].limit, 1ULL << 30);
        l = &app(&a, 0)->isolators;
        ASSERT_EQ(l->n, 4);
        ASSERT_EQ(l->items[0].type, ISOLATOR_RESOURCE_MEMORY);
        ASSERT_EQ(l->items[0].limit, 1U << 20); /* the later counts */
        ASSERT_EQ(l->items[1].type, ISOLATOR_RESOURCE_CPU);
        ASSERT_EQ(l->items[1].limit, 500);
        ASSERT_EQ(l->items[2].type, ISOLATOR_CAPABILITIES_RETAIN_SET);
        ASSERT_STREQ(l->items[2].set[0], "CAP_NET_BIND_SERVICE");
        ASSERT_STREQ(l->items[2].set[1], "CAP_CHOWN");
        ASSERT_EQ(l->items[3].type, ISOLATOR_UNKNOWN);
}

TEST(short_isolators)
{
        SETUP;
        const IsolatorList *l;

        ASSERT_EQ(PARSE("--memory=1Gi", "--cpu=2", "--block-iops=100", "--sysctl=net.core.somaxconn=1",
                        "--sysctl=kernel.sem=1 2 3 4", "i", "--cpu-shares=512", "--oom-score-adj=-7",
                        "--block-bandwidth=2M", "--seccomp=mode=remove,errno=EACCES,reboot,@appc.io/empty",
                        "--no-new-privileges", "--apparmor-profile=web", "--selinux-context=u:r:t:s0:c1,c2"),
                  1);
        l = &a.request.isolators;
        ASSERT_EQ(l->n, 4);
        ASSERT_EQ(l->items[0].limit, 1ULL << 30);
        ASSERT_EQ(l->items[1].limit, 2000);
        ASSERT_EQ(l->items[2].limit, 100);
        ASSERT_EQ(l->items[3].sysctl.n, 2);
        ASSERT_STREQ(pair_list_get(&l->items[3].sysctl, "kernel.sem"), "1 2 3 4");
        l = &app(&a, 0)->isolators;
        ASSERT_EQ(l->n, 7);
        ASSERT_EQ(l->items[0].number, 512);
        ASSERT_EQ(l->items[1].number, -7);
        ASSERT_EQ(l->items[2].limit, 2000000);
        ASSERT_EQ(l->items[3].type, ISOLATOR_SECCOMP_REMOVE_SET);
        ASSERT_STREQ(l->items[3].errno_name, "EACCES");
        ASSERT_STREQ(l->items[3].set[0], "reboot");
        ASSERT_TRUE(l->items[4].enabled);
        ASSERT_STREQ(l->items[5].text, "web");
        ASSERT_STREQ(l->items[6].text, "u:r:t:s0:c1,c2");
}

TEST(bad_short_isolators)
{
        static const char *const l[] = {
                        "--cpu-shares=lots",
                        "--cpu-shares=1",
                        "--oom-score-adj=-1001",
                        "--oom-score-adj=--5",
                        "--block-bandwidth=",
                        "--block-iops=x",
                        "--seccomp=reboot",
                        "--seccomp=mode=maybe,reboot",
                        "--seccomp=mode=retain",
                        "--seccomp=mode=retain,errno=x,read",
                        "--apparmor-profile=a b",
                        "--selinux-context=u:r:t",
                        "--selinux-context=u::t:l",
                        "--sysctl=x",
                        "--sysctl==1",
                        "--sysctl=../x=1",
                        "--memory=-1",
                        "--cpu=x",
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                SETUP;
                ASSERT_EQ(PARSE("i", (char *) l[i]), -EINVAL);
                error_done(&c.error);
        }
}

TEST(environment)
{
        SETUP;

        setenv("TEST_INHERITED", "from=here", 1);
        unsetenv("TEST_MISSING");
        ASSERT_EQ(PARSE("i", "-E", "TEST_INHERITED", "-EA=", "-EB=x\n\xff=%h$", "--environment=A=again"), 1);
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->environment, "TEST_INHERITED"), "from=here");
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->environment, "A"), "again");
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->environment, "B"), "x\n\xff=%h$");
        ASSERT_EQ(app(&a, 0)->environment.n, 3);
}

TEST(the_rest)
{
        SETUP;

        ASSERT_EQ(PARSE("--net=host", "--no-userns", "--exit-policy=any", "--stop-timeout=1min",
                        "--hostname=h", "i", "--exec=/bin/sh", "--group=g", "--working-directory=/w",
                        "--supplementary-gids=1,2", "--supplementary-gids=3", "--read-only",
                        "--user-label=a b=c"),
                  1);
        ASSERT_EQ(a.options.net, NET_HOST);
        ASSERT_TRUE(!a.options.private_users);
        ASSERT_EQ(a.options.exit_policy, EXIT_ON_ANY);
        ASSERT_EQ(a.options.stop_timeout_usec, 60000000);
        ASSERT_STREQ(a.options.hostname, "h");
        ASSERT_STREQ(app(&a, 0)->exec[0], "/bin/sh");
        ASSERT_EQ(strv_length(app(&a, 0)->exec), 1);
        ASSERT_STREQ(app(&a, 0)->group, "g");
        ASSERT_STREQ(app(&a, 0)->working_directory, "/w");
        ASSERT_EQ(app(&a, 0)->n_supplementary_gids, 3);
        ASSERT_EQ(app(&a, 0)->supplementary_gids[2], 3);
        ASSERT_TRUE(app(&a, 0)->read_only_rootfs);
        ASSERT_STREQ(pair_list_get(&app(&a, 0)->user_labels, "a b"), "c");
}

/* A failure half way leaves nothing behind (detected by the sanitizers). */
TEST(failures_are_clean)
{
        static const char *const lines[][6] = {
                        {"--volume=a,kind=empty", "--volume=b,kind=host,source=/x,mode=1", "i"},
                        {"i", "--mount=volume=a,target=/x,bogus=1"},
                        {"--volume=a,kind=tmpfs,size=1M,idmap=yes", "i"},
                        {"--volume=a,kind=empty,size=1M", "i"},
                        {"--volume=a,kind=tmpfs,kind=empty", "i"},
                        {"--volume=a,kind=tmpfs,size=much", "i"},
                        {"--volume=a,kind=host,source=/x,idmap=0:0:0", "i"},
                        {"--volume=/x", "i"},
                        {"-v/x:y", "i"},
                        {"i", "-v/x:/y:ro,bogus"},
                        {"i", "-vX_Y:/y"},
                        {"i", "--volume=a,kind=empty"},
                        {"i", "--memory=1Mi", "--memory=x"},
                        {"i", "-EA=b", "--caps-retain=chown,bogus"},
                        {"i", "--", "x", "---", "j", "---"},
                        {"i", "--", "x", "---", "---"},
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                SETUP;

                ASSERT_ERR(parse(&c, &a, lines[i]), -EINVAL);
                ASSERT_TRUE(c.usage);
                ASSERT_CONTAINS(c.error.hint, "Try 'acnspawn prepare --help'");
                error_done(&c.error);
        }
}

int main(void)
{
        RUN(one_image);
        RUN(nothing);
        RUN(global_options_describe_nothing);
        RUN(what_describes_a_pod);
        RUN(values_that_no_pod_can_have);
        RUN(position_decides);
        RUN(arguments);
        RUN(next_app_without_arguments);
        RUN(names_of_other_tools);
        RUN(only_app);
        RUN(only_app_has_options_of_apps);
        RUN(only_app_of_a_manifest);
        RUN(ports_in_a_row);
        RUN(read_write);
        RUN(environment_files);
        RUN(environment_files_of_units);
        RUN(environment_files_of_other_tools);
        RUN(environment_files_are_text);
        RUN(environment_files_that_are_wrong);
        RUN(environment_files_of_shells);
        RUN(user_and_group);
        RUN(volumes);
        RUN(volumes_of_the_reference);
        RUN(volumes_the_reference_refuses);
        RUN(mounts);
        RUN(short_volumes);
        RUN(settings_of_volumes);
        RUN(isolators);
        RUN(short_isolators);
        RUN(bad_short_isolators);
        RUN(environment);
        RUN(the_rest);
        RUN(failures_are_clean);
        return TEST_END();
}

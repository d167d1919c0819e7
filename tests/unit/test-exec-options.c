/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parameters of a call of Exec, and the launch file that results from them and the app's. */

#include <sys/socket.h>
#include <sys/stat.h>

#include "stage0/supervisor/exec/exec-internal.h"
#include "tests/unit/test.h"

/* The parameter that is not valid; NULL: all are valid, and stored in *RET. */
static const char *read_options(const char *text, FdList *fds, ExecOptions *ret)
{
        _cleanup_json_ json_object *parameters = NULL;
        FdList none = {};
        const char *wrong = NULL;

        if (json_parse_strict(text, strlen(text), &parameters, NULL, NULL) < 0)
                return "no JSON";
        int r = exec_options_read(parameters, fds ?: &none, ret, &wrong);
        return r == 0 ? NULL : r == -EINVAL ? wrong : "another error";
}

TEST(what_is_not_given)
{
        ExecOptions o = EXEC_OPTIONS_NULL;

        ASSERT_NULL(read_options("{\"app\":\"a\"}", NULL, &o));
        ASSERT_NULL(o.argv);
        ASSERT_NULL(o.environment);
        ASSERT_NULL(o.user);
        ASSERT_TRUE(!o.terminal && !o.terminal_errors && o.timeout_usec == UINT64_MAX);
        for (size_t i = 0; i < 3; i++)
                ASSERT_TRUE(o.fds[i] < 0);
        exec_options_done(&o);
}

TEST(what_is_given)
{
        ExecOptions o = EXEC_OPTIONS_NULL;

        ASSERT_NULL(read_options("{\"command\":[\"a\",\"\",\"b "
                                 "c\"],\"environment\":[\"X=\",\"Y=1=2\"],\"user\":\"u\","
                                 "\"group\":\"g\",\"workingDirectory\":\"/x\",\"terminal\":true,\"rows\":1,"
                                 "\"columns\":65535,\"terminalType\":\"vt\",\"timeoutUSec\":1}",
                                 NULL, &o));
        ASSERT_TRUE(strv_length(o.argv) == 3 && strv_length(o.environment) == 2);
        ASSERT_STREQ(o.argv[1], "");
        ASSERT_STREQ(o.environment[1], "Y=1=2");
        ASSERT_STREQ(o.user, "u:g");
        ASSERT_STREQ(o.directory, "/x");
        ASSERT_STREQ(o.terminal_type, "vt");
        ASSERT_TRUE(o.terminal && o.terminal_errors && o.timeout_usec == 1);
        ASSERT_TRUE(o.size.ws_row == 1 && o.size.ws_col == 65535);
        exec_options_done(&o);
}

TEST(words_that_are_no_text)
{
        ExecOptions o = EXEC_OPTIONS_NULL;

        ASSERT_NULL(read_options("{\"hex\":true,\"command\":[\"61ff62\",\"\"],\"environment\":[\"583dFE\"],"
                                 "\"workingDirectory\":\"2fe9\",\"user\":\"61\"}",
                                 NULL, &o));
        ASSERT_STREQ(o.argv[0], "a\xff"
                                "b");
        ASSERT_STREQ(o.argv[1], "");
        ASSERT_STREQ(o.environment[0], "X=\xfe");
        ASSERT_STREQ(o.directory, "/\xe9");
        ASSERT_STREQ(o.user, "61");
        exec_options_done(&o);
}

TEST(what_is_not_valid)
{
        static const struct {
                const char *text, *wrong;
        } cases[] = {
                        {"{\"command\":[\"\"]}", "command"},
                        {"{\"hex\":true,\"command\":[\"616\"]}", "command"},
                        {"{\"hex\":true,\"command\":[\"61\",\"6x\"]}", "command"},
                        {"{\"hex\":true,\"command\":[\"6100\"]}", "command"},
                        {"{\"hex\":true,\"environment\":[\"61\"]}", "environment"},
                        {"{\"hex\":true,\"workingDirectory\":\"/x\"}", "workingDirectory"},
                        {"{\"environment\":[\"X\"]}", "environment"},
                        {"{\"environment\":[\"=X\"]}", "environment"},
                        {"{\"environment\":[\"X=1\",\"Y\"]}", "environment"},
                        {"{\"user\":\"\"}", "user"},
                        {"{\"user\":\":\"}", "user"},
                        {"{\"user\":\"u:g\",\"group\":\"g\"}", "group"},
                        {"{\"user\":\"/f\",\"group\":\"g\"}", "group"},
                        {"{\"workingDirectory\":\"x\"}", "workingDirectory"},
                        {"{\"rows\":0}", "rows"},
                        {"{\"rows\":65536}", "rows"},
                        {"{\"columns\":-1}", "columns"},
                        {"{\"timeoutUSec\":0}", "timeoutUSec"},
                        {"{\"stdin\":0}", "stdin"},
                        {"{\"stdout\":-1}", "stdout"},
                        {"{\"stderr\":16}", "stderr"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ExecOptions o = EXEC_OPTIONS_NULL;
                ASSERT_STREQ(read_options(cases[i].text, NULL, &o), cases[i].wrong);
                ASSERT_NULL(o.argv);
        }
}

TEST(only_pipes)
{
        ExecOptions o = EXEC_OPTIONS_NULL;
        FdList fds = {};
        int pipe_fds[2], pair[2];

        ASSERT_TRUE(pipe2(pipe_fds, O_CLOEXEC) >= 0);
        ASSERT_TRUE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) >= 0);
        ASSERT_OK(fd_list_push(&fds, pipe_fds[0]));
        ASSERT_OK(fd_list_push(&fds, pipe_fds[1]));
        ASSERT_OK(fd_list_push(&fds, pair[0]));
        ASSERT_OK(fd_list_push(&fds, open("/dev/null", O_RDWR | O_CLOEXEC)));
        ASSERT_OK(fd_list_push(&fds, open("/", O_PATH | O_CLOEXEC)));
        ASSERT_NULL(read_options("{\"stdin\":0,\"stdout\":1}", &fds, &o));
        ASSERT_TRUE(o.fds[0] == pipe_fds[0] && o.fds[1] == pipe_fds[1] && o.fds[2] < 0);
        exec_options_done(&o);
        ASSERT_STREQ(read_options("{\"stdin\":0}", &fds, &o), "stdin"); /* taken before */
        ASSERT_STREQ(read_options("{\"stdin\":2}", &fds, &o), "stdin");
        ASSERT_STREQ(read_options("{\"stdout\":3}", &fds, &o), "stdout");
        ASSERT_STREQ(read_options("{\"stderr\":4}", &fds, &o), "stderr");
        fd_list_done(&fds);
        safe_close(pair[1]);
}

TEST(a_terminal_is_both_streams)
{
        ExecOptions o = EXEC_OPTIONS_NULL;
        FdList fds = {};
        int pipe_fds[2];

        ASSERT_TRUE(pipe2(pipe_fds, O_CLOEXEC) >= 0);
        ASSERT_OK(fd_list_push(&fds, pipe_fds[0]));
        ASSERT_OK(fd_list_push(&fds, pipe_fds[1]));
        ASSERT_STREQ(read_options("{\"terminal\":true,\"stdin\":0}", &fds, &o), "stdin");
        ASSERT_NULL(read_options("{\"terminal\":true,\"stderr\":1}", &fds, &o));
        ASSERT_TRUE(o.terminal && !o.terminal_errors && o.fds[2] >= 0);
        exec_options_done(&o);
        fd_list_done(&fds);
}

/* --- The launch file ----------------------------------------------------------------------------------- */

static void make_config(LaunchConfig *c)
{
        *c = (LaunchConfig){.working_directory = strdup("/")};
        ASSERT_OK(strv_extend(&c->exec, "app"));
        ASSERT_OK(strv_extend(&c->environment, "A=1"));
        ASSERT_OK(strv_extend(&c->environment, "AB=2"));
}

TEST(a_launch_file_is_changed)
{
        _cleanup_launch_config_ LaunchConfig c;
        ExecOptions o = EXEC_OPTIONS_NULL;

        make_config(&c);
        ASSERT_OK(exec_change_config(&c, &o));
        ASSERT_STREQ(c.exec[0], "app");
        ASSERT_TRUE(strv_length(c.environment) == 2);
        ASSERT_NULL(read_options("{\"command\":[\"ls\"],\"environment\":[\"A=3\",\"A=4\"],"
                                 "\"workingDirectory\":\"/x\","
                                 "\"terminal\":true,\"terminalType\":\"vt\"}",
                                 NULL, &o));
        ASSERT_OK(exec_change_config(&c, &o));
        ASSERT_TRUE(strv_length(c.exec) == 1 && strv_length(c.environment) == 3);
        ASSERT_STREQ(c.exec[0], "ls");
        ASSERT_STREQ(c.environment[0], "AB=2");
        ASSERT_STREQ(c.environment[1], "TERM=vt");
        ASSERT_STREQ(c.environment[2], "A=4");
        ASSERT_STREQ(c.working_directory, "/x");
        exec_options_done(&o);
}

TEST(the_apps_own_terminal_type_stays)
{
        _cleanup_launch_config_ LaunchConfig c;
        ExecOptions o = EXEC_OPTIONS_NULL;

        make_config(&c);
        ASSERT_OK(strv_extend(&c.environment, "TERM=own"));
        o.terminal = true;
        ASSERT_OK(exec_change_config(&c, &o));
        ASSERT_TRUE(strv_length(c.environment) == 3);
        ASSERT_STREQ(c.environment[2], "TERM=own");
}

int main(void)
{
        RUN(what_is_not_given);
        RUN(what_is_given);
        RUN(words_that_are_no_text);
        RUN(what_is_not_valid);
        RUN(only_pipes);
        RUN(a_terminal_is_both_streams);
        RUN(a_launch_file_is_changed);
        RUN(the_apps_own_terminal_type_stays);
        return TEST_END();
}

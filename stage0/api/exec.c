/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Commands beside apps: one call, whose first reply comes when the command is executed, and whose last one comes when it
 * has ended. */

#include "stage0/api/api-internal.h"

#define PREFIX "org.acnspawn.Pod."

/* --- The call ------------------------------------------------------------------------------------------ */

static bool is_text(char *const *list)
{
        STRV_FOREACH (s, list)
                if (!utf8_is_valid(*s, strlen(*s)))
                        return false;
        return true;
}

static json_object *make_word(const char *s, bool hex)
{
        _cleanup_free_ char *digits = hex ? hex_encode(s, strlen(s)) : NULL;

        return hex && !digits ? NULL : json_object_new_string(digits ?: s);
}

static int add_list(json_object *o, const char *key, char *const *list, bool hex)
{
        json_object *array = json_object_new_array();

        int r = json_member_add(o, key, array);
        STRV_FOREACH (s, list) {
                json_object *text = r >= 0 ? make_word(*s, hex) : NULL;
                if (text && json_object_array_add(array, text) >= 0)
                        continue;
                json_object_put(text);
                return -ENOMEM;
        }
        return r;
}

/* Words that are not valid UTF-8 are sent in hexadecimal digits. */
static int add_words(json_object *o, const AcnExecOptions *x)
{
        char *const directory[] = {(char *) x->directory, NULL};
        bool hex = !is_text(x->argv) || !is_text(x->environment) || !is_text(directory);
        int r = hex ? json_member_add(o, "hex", json_object_new_boolean(true)) : 0;

        if (r >= 0 && x->argv && x->argv[0])
                r = add_list(o, "command", x->argv, hex);
        if (r >= 0 && x->environment)
                r = add_list(o, "environment", x->environment, hex);
        if (r >= 0 && x->directory)
                r = json_member_add(o, "workingDirectory", make_word(x->directory, hex));
        return r;
}

static int add_terminal(json_object *o, const AcnExecOptions *x)
{
        int r = json_member_add(o, "terminal", json_object_new_boolean(true));

        if (r >= 0 && x->terminal_type)
                r = json_member_add_text(o, "terminalType", x->terminal_type);
        return r < 0 ? r : acn_add_size(o, &x->size);
}

static int make_parameters(AcnPod *a, AcnExecOptions *x, json_object *o)
{
        int r = json_member_add_text(o, "app", x->app);

        if (r >= 0)
                r = add_words(o, x);
        if (r >= 0 && x->user)
                r = json_member_add_text(o, "user", x->user);
        if (r >= 0 && x->timeout_usec > 0 && x->timeout_usec < INT64_MAX)
                r = json_member_add(o, "timeoutUSec", json_object_new_uint64(x->timeout_usec));
        if (r >= 0 && x->terminal)
                r = add_terminal(o, x);
        return r < 0 ? r : acn_add_streams(a, o, x->fds);
}

int acn_exec(AcnPod *a, AcnExecOptions *x, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = make_parameters(a, x, o);
        for (size_t i = 0; i < ELEMENTSOF(x->fds); i++)
                x->fds[i] = safe_close(x->fds[i]);
        if (r >= 0) {
                free(a->app);
                a->app = strdup(x->app);
        }
        if (r < 0 || !a->app)
                return error_oom(e);
        r = varlink_client_send(a->client, PREFIX "Exec", o, true, NULL);
        if (r == -EMSGSIZE)
                return error_set(e, -E2BIG, "The command for app %s is too long", x->app);
        return r < 0 ? acn_connection_error(a, r, e) : 0;
}

int acn_exec_fd(const AcnPod *a)
{
        return varlink_client_fd(a->client);
}

/* --- Replies ------------------------------------------------------------------------------------------- */

static int failed(AcnPod *a, const VarlinkReply *reply, AcnExecState *ret, Error *e)
{
        static const struct {
                const char *error;
                int exit_code;
        } failures[] = {
                        {PREFIX "CommandNotFound", 127},
                        {PREFIX "CannotExecute", 126},
                        {PREFIX "ExecFailed", 125},
        };
        const AcnCall c = {.method = "Exec", .what = "enter", .app = a->app};

        for (size_t i = 0; i < ELEMENTSOF(failures); i++)
                if (streq(reply->error, failures[i].error)) {
                        ret->exit_code = failures[i].exit_code;
                        return error_set(e, -ENOEXEC, "%s", acn_text(reply->parameters, "message") ?: "");
                }
        if (streq(reply->error, PREFIX "AppUnreachable"))
                return error_set(e, -EHOSTUNREACH,
                                 "App %s of pod %s cannot be reached: its main thread has ended, but "
                                 "others still run",
                                 a->app, pod_display_name(a->pod));
        if (streq(reply->error, PREFIX "TooManyExecs"))
                return error_set(e, -EUSERS,
                                 "Too many commands run in pod %s: no more than %lld can at a time",
                                 pod_display_name(a->pod),
                                 (long long) acn_number(reply->parameters, "limit", 0));
        return acn_refusal(a, &c, reply, e);
}

static int take_fd(VarlinkReply *reply, const char *key)
{
        int64_t i = acn_number(reply->parameters, key, -1);
        int fd = i < 0 ? -EBADF : fd_list_take(&reply->fds, (size_t) i);

        return fd < 0 ? -EBADF : fd;
}

int acn_exec_next(AcnPod *a, uint64_t timeout_usec, AcnExecState *ret, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        AcnExecState s = {.process_fd = -EBADF, .terminal_fd = -EBADF, .exit_code = 125};

        int r = varlink_client_next(a->client, timeout_usec, &reply, NULL);
        if (r == -ETIMEDOUT)
                return r;
        if (r < 0)
                return acn_connection_error(a, r, e);
        *ret = s;
        if (reply.error)
                return failed(a, &reply, ret, e);
        if (reply.continues) {
                ret->process_fd = take_fd(&reply, "process");
                ret->terminal_fd = take_fd(&reply, "terminal");
                return 1;
        }
        int64_t signal = acn_number(reply.parameters, "signal", 0);
        ret->exit_code = signal > 0 ? 128 + (int) signal
                                    : (int) acn_number(reply.parameters, "exitStatus", 125);
        ret->timed_out = json_object_get_boolean(json_object_object_get(reply.parameters, "timedOut"));
        return 0;
}

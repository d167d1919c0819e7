/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Error messages for errors of a supervisor: which app of which pod, in which state it is, why the operation
 * does not fit, and the remedy. */

#include "stage0/api/api-internal.h"

#define PREFIX "org.acnspawn.Pod."
#define SERVICE "org.varlink.service."

/* The name that is most similar to WORD; NULL: none is similar. */
static const char *similar_app(const AcnDescription *d, const char *word)
{
        const char *const *first = d->n_apps > 0 ? (const char *const *) &d->apps[0].name : NULL;

        return first ? nearest_match(word, first, d->n_apps, sizeof(AcnApp)) : NULL;
}

int acn_no_such_app(const Pod *p, const char *app, const AcnDescription *d, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(app), *list = NULL;
        _cleanup_strv_free_ char **names = NULL;
        const char *near = similar_app(d, app);

        for (size_t i = 0; i < d->n_apps; i++)
                if (strv_extend(&names, d->apps[i].name) < 0)
                        return error_oom(e);
        list = strv_join(names, ", ");
        int r = error_set(e, -ENOENT, "Pod %s has no app '%s'", pod_display_name(p), shown ?: "");
        if (d->n_apps == 0)
                return error_hint(e, r, "It has no apps.");
        return near ? error_hint(e, r, "Did you mean '%s'? Its apps are: %s", near, list ?: "")
                    : error_hint(e, r, "Its apps are: %s", list ?: "");
}

int acn_check_app(AcnPod *a, const char *app, Error *e)
{
        _cleanup_(acn_description_done) AcnDescription d = {};

        int r = pod_check_running(a->pod, e);
        if (r >= 0)
                r = acn_describe(a, &d, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < d.n_apps; i++)
                if (streq(d.apps[i].name, app))
                        return 0;
        return acn_no_such_app(a->pod, app, &d, e);
}

static int no_such_app(AcnPod *a, const AcnCall *c, Error *e)
{
        _cleanup_(acn_description_done) AcnDescription d = {};

        int r = acn_describe(a, &d, NULL);
        if (r < 0)
                return error_set(e, -ENOENT, "Pod %s has no app '%s'", pod_display_name(a->pod),
                                 c->app ?: "");
        return acn_no_such_app(a->pod, c->app ?: "", &d, e);
}

/* --- States -------------------------------------------------------------------------------------------- */

static int is_up_already(AcnPod *a, const AcnCall *c, const char *state, Error *e)
{
        const char *pod = pod_display_name(a->pod);
        int r = error_set(e, -EALREADY, "App %s of pod %s cannot be started: it is %s", c->app, pod, state);

        if (streq(state, "stopping"))
                return error_hint(e, r, "'acnspawn stop-app %s %s' returns when it has ended.", pod, c->app);
        return error_hint(e, r, "'acnspawn restart-app %s %s' stops it and starts it again.", pod, c->app);
}

static int wrong_state(AcnPod *a, const AcnCall *c, const char *state, Error *e)
{
        static const struct {
                const char *state, *text;
        } texts[] = {
                        {"created", "it has not started"}, {"starting", "it is starting"},
                        {"running", "it is just ending"},  {"stopping", "it is stopping"},
                        {"exited", "it has ended"},
        };
        const char *text = "its state does not allow that";

        if (streq(state, "launching"))
                return error_set(e, -EBUSY, "The group of app %s of pod %s is just being launched", c->app,
                                 pod_display_name(a->pod));
        if (streq(state, "adding") || streq(state, "replacing") || streq(state, "busy"))
                return error_set(e, -EBUSY, "App %s of pod %s is just being %s", c->app,
                                 pod_display_name(a->pod),
                                 streq(state, "busy")     ? "started or stopped"
                                 : streq(state, "adding") ? "added"
                                                          : "replaced");
        if (streq(c->method, "StartApp"))
                return is_up_already(a, c, state, e);
        if (streq(c->method, "RemoveApp")) {
                int r = error_set(e, -EBUSY, "App %s of pod %s cannot be removed: it is running", c->app,
                                  pod_display_name(a->pod));
                return error_hint(e, r, "'acnspawn rm-app --force %s %s' stops it first.",
                                  pod_display_name(a->pod), c->app);
        }
        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                if (streq(texts[i].state, state))
                        text = texts[i].text;
        int r = error_set(e, -ESRCH, "App %s of pod %s is not running: %s", c->app, pod_display_name(a->pod),
                          text);
        if (streq(state, "created") || streq(state, "exited"))
                return error_hint(e, r, "'acnspawn start-app %s %s' starts it.", pod_display_name(a->pod),
                                  c->app);
        return r;
}

/* --- Jobs ---------------------------------------------------------------------------------------------- */

/* Why the app did not start, according to its record. To be freed; NULL: unknown. */
static char *find_reason(AcnPod *a, const char *app)
{
        _cleanup_(acn_description_done) AcnDescription d = {};

        if (acn_describe(a, &d, NULL) < 0)
                return NULL;
        for (size_t i = 0; i < d.n_apps; i++)
                if (streq_ptr(d.apps[i].name, app) && d.apps[i].message)
                        return text_escape_for_terminal(d.apps[i].message);
        return NULL;
}

static int job_failed(AcnPod *a, const AcnCall *c, json_object *parameters, Error *e)
{
        const char *pod = pod_display_name(a->pod);
        const char *what = streq(c->method, "StartApp")     ? "start the app"
                           : streq(c->method, "RestartApp") ? "start the app again"
                                                            : "stop the app";
        const char *message = acn_text(parameters, "message");
        _cleanup_free_ char *shown = text_escape_for_terminal(acn_text(parameters, "result") ?: ""),
                            *reason = message ? text_escape_for_terminal(message) : find_reason(a, c->app);

        int r = error_set(e, -EIO, "App %s of pod %s: the pod's systemd cannot %s: the job ended with '%s'",
                          c->app, pod, what, shown ?: "");
        return error_hint(e, r, "%s%s'acnspawn status %s' and 'acnspawn logs --app=%s %s' say more.",
                          reason ?: "", reason ? ". " : "", pod, c->app, pod);
}

static int foreign_process(AcnPod *a, const AcnCall *c, json_object *parameters, Error *e)
{
        char number[32] = "";
        int64_t pid = acn_number(parameters, "pid", 0);

        if (pid > 0)
                snprintf(number, sizeof(number), "Process %lld", (long long) pid);
        return error_set(e, -EREMCHG,
                         "%s, which the systemd of pod %s reports as that of app %s, is not in the app's "
                         "cgroup",
                         pid > 0 ? number : "The process", pod_display_name(a->pod), c->app);
}

static int not_supported(AcnPod *a, const AcnCall *c, const char *controller, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(controller);

        return error_set(e, -ENOTSUP,
                         "Cannot %s app %s of pod %s: this host has no cgroup v2 controller '%s' for pods",
                         c->what, c->app ?: "", pod_display_name(a->pod), shown ?: "");
}

/* The supervisor sends the message of the check itself. */
static int refused(json_object *parameters, Error *e)
{
        _cleanup_free_ char *message = text_escape_for_terminal(acn_text(parameters, "message") ?: ""),
                            *hint = text_escape_for_terminal(acn_text(parameters, "hint") ?: "");
        int64_t code = acn_number(parameters, "errno", EIO);

        int r = error_set(e, code > 0 && code < 4096 ? (int) -code : -EIO, "%s",
                          message ?: "The call is refused");
        return isempty(hint) ? r : error_hint(e, r, "%s", hint);
}

static int rolled_back(json_object *parameters, Error *e)
{
        _cleanup_free_ char *message = text_escape_for_terminal(acn_text(parameters, "message") ?: ""),
                            *hint = text_escape_for_terminal(acn_text(parameters, "hint") ?: "");
        int r = error_set(e, -ECONNABORTED, "%s", isempty(message) ? "The app was not replaced" : message);

        return isempty(hint) ? r : error_hint(e, r, "%s", hint);
}

/* --- Table of errors ----------------------------------------------------------------------------------- */

static int interface_error(AcnPod *a, const AcnCall *c, const char *error, json_object *parameters, Error *e)
{
        const char *pod = pod_display_name(a->pod);

        if (streq(error, "NoSuchApp"))
                return no_such_app(a, c, e);
        if (streq(error, "WrongState") && c->app)
                return wrong_state(a, c, acn_text(parameters, "state") ?: "", e);
        if (streq(error, "JobFailed") && c->app)
                return job_failed(a, c, parameters, e);
        if (streq(error, "ForeignProcess") && c->app)
                return foreign_process(a, c, parameters, e);
        if (streq(error, "NotSupported"))
                return not_supported(a, c, acn_text(parameters, "controller") ?: "", e);
        if (streq(error, "PodPaused"))
                return pod_paused(a->pod, e);
        if (streq(error, "PodEnds"))
                return error_set(e, -ESHUTDOWN,
                                 "Pod %s is about to end: no app of it can be started any more", pod);
        if (streq(error, "AppRefused") || streq(error, "PauseFailed"))
                return refused(parameters, e);
        if (streq(error, "RolledBack"))
                return rolled_back(parameters, e);
        if (streq(error, "LogsNotReopened")) {
                _cleanup_free_ char *why = text_escape_for_terminal(acn_text(parameters, "message") ?: "");
                return error_set(e, -EIO, "%s", why ?: "The log files could not be opened");
        }
        return 0;
}

static int too_old(AcnPod *a, const AcnCall *c, Error *e)
{
        int r = error_set(e, -EOPNOTSUPP,
                          "Pod %s is run by an earlier version of acnspawn, which cannot %s it",
                          pod_display_name(a->pod), c->what);
        return error_hint(e, r, "A pod that is stopped and run again is run by the installed version.");
}

/* Parameters that came with a later version than their methods, and are always valid. */
static bool is_new_parameter(const AcnCall *c, const VarlinkReply *reply)
{
        static const char *const parameters[][2] = {{"ReplaceApp", "definition"},
                                                    {"ReplaceApp", "credentials"},
                                                    {"StartApp", "tentative"},
                                                    {"AddApp", "parent"},
                                                    {"UpdateApp", "attributes"}};
        const char *parameter = acn_text(reply->parameters, "parameter");

        for (size_t i = 0; streq(reply->error, SERVICE "InvalidParameter") && i < ELEMENTSOF(parameters);
             i++)
                if (streq(c->method, parameters[i][0]) && streq_ptr(parameter, parameters[i][1]))
                        return true;
        return false;
}

int acn_service_error(const VarlinkReply *reply, Error *e)
{
        if (streq(reply->error, "io.systemd.System")) {
                int code = json_object_get_int(json_object_object_get(reply->parameters, "errno"));
                return error_set_errno(e, code > 0 && code < 4096 ? -code : -EREMOTEIO,
                                       "The service failed");
        }
        _cleanup_free_ char *error = text_escape_for_terminal(reply->error);
        _cleanup_free_ char *parameters = text_escape_for_terminal(json_print(reply->parameters) ?: "");
        return error_set(e, -EREMOTEIO, "The service answered with error '%s' %s", error ?: "",
                         parameters ?: "");
}

int acn_too_many(AcnPod *a, const VarlinkReply *reply, Error *e)
{
        const char *pod = pod_display_name(a->pod);

        int r = error_set(
                        e, -EXFULL,
                        "The interface of pod %s is busy: %lld connections have calls that are not answered yet, "
                        "and it accepts no more",
                        pod, (long long) acn_number(reply->parameters, "limit", VARLINK_CONNECTIONS_MAX));
        return error_hint(
                        e, r,
                        "Commands in its apps and programs that monitor it take a connection each. 'acnspawn "
                        "stop %s' ends the pod nevertheless.",
                        pod);
}

int acn_refusal(AcnPod *a, const AcnCall *c, const VarlinkReply *reply, Error *e)
{
        const char *pod = pod_display_name(a->pod), *name = startswith(reply->error, PREFIX);
        int r = name ? interface_error(a, c, name, reply->parameters, e) : 0;

        if (r < 0)
                return r;
        if (streq(reply->error, VARLINK_TOO_MANY_CONNECTIONS))
                return acn_too_many(a, reply, e);
        if (streq(reply->error, SERVICE "MethodNotFound") ||
            streq(reply->error, SERVICE "MethodNotImplemented") || is_new_parameter(c, reply))
                return too_old(a, c, e);
        r = acn_service_error(reply, e);
        if (r == -EAGAIN)
                return error_set(e, r, "Pod %s is still starting: its systemd cannot be reached yet", pod);
        if (r == -ECONNRESET)
                return acn_connection_error(a, r, e);
        if (c->app)
                return error_prefix(e, r, "Cannot %s app %s of pod %s", c->what, c->app, pod);
        return error_prefix(e, r, "Cannot %s pod %s", c->what, pod);
}

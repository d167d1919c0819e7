/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps that may launch others: what such an app may do, and to which apps.
 *
 * The calls come from the process that talks HTTP with the app (control-process.c), as a narrow Varlink interface. That process is
 * not trusted: every call has to have the token of the app, is for what is nested under that app and for nothing else, and can say of a
 * new app only what is in the interface: an image of the store or that of the parent, a command, an environment and a user. Neither
 * volumes nor privileges can be named, and the rights of the parent bound those of the new app, as for all nested ones
 * (control/nested.c). Calls that have passed are those of the pod's interface.
 *
 * Apps, launches that wait, and launches over time are bounded for each such app, as the pod makes its changes one after the other. */

#include <fnmatch.h>
#include <signal.h>

#include "containers/containers.h"
#include "prepare/fetch/fetch.h"
#include "stage0/supervisor/interface/control-api.h"
#include "stage0/supervisor/control-interface.h" /* generated from org.acnspawn.Control.varlink */
#include "stage0/supervisor/interface/interface-internal.h"

#define CONTROL "org.acnspawn.Control."
#define TOKEN_SIZE (2 * RANDOM_HEX_SIZE - 1)

typedef struct Waiter {
        struct Waiter *next;
        VarlinkCall *call;
        char *name; /* of the app */
} Waiter;

struct ControlApi {
        Interface *interface;
        AppInstance *app;
        VarlinkServer *server;
        ControlProcess *process;
        Waiter *waiters;
        ControlSession *sessions;
        unsigned n_pending;
        uint64_t next_launch_usec, next_call_usec; /* control_exceeds_rate() */
        char token[TOKEN_SIZE];
};

/* --- Whether a call is allowed ------------------------------------------------------------------------- */

static const char *text_of(json_object *parameters, const char *key)
{
        json_object *v = json_object_object_get(parameters, key);

        return v ? json_object_get_string(v) : NULL;
}

/* In a time that does not depend on where they differ. */
static bool is_token(const ControlApi *c, const char *token)
{
        unsigned char different = 0;

        if (strlen(token) != sizeof(c->token) - 1)
                return false;
        for (size_t i = 0; i < sizeof(c->token); i++)
                different |= (unsigned char) (c->token[i] ^ token[i]);
        return different == 0;
}

static int no_such_container(VarlinkCall *call, const char *path)
{
        return interface_reply_error(call, CONTROL "NoSuchContainer", "container", path, NULL, NULL);
}

static int too_many(VarlinkCall *call, const char *format, unsigned limit)
{
        _cleanup_free_ char *text = NULL;
        int r = xasprintf(&text, "%s: at most %u", format, limit);

        if (r >= 0)
                r = interface_reply_error(call, CONTROL "TooMany", "message", text, NULL, NULL);
        return r < 0 ? r : 1;
}

/* 1: the call was answered with an error. */
static int admit(ControlApi *c, VarlinkCall *call, json_object *parameters)
{
        int r = 0;

        if (control_exceeds_rate(&c->next_call_usec, now_usec(CLOCK_MONOTONIC), CONTROL_CALLS_BURST,
                                 CONTROL_CALLS_USEC))
                return too_many(call, "Too many calls in a short time", CONTROL_CALLS_BURST);
        if (!is_token(c, text_of(parameters, "token")))
                r = varlink_reply_error(call, CONTROL "NotPermitted", NULL);
        else if (c->interface->ops.ends(c->interface->userdata))
                r = varlink_reply_error(call, "org.acnspawn.Pod.PodEnds", NULL);
        else
                return 0;
        return r < 0 ? r : 1;
}

static bool is_below(const ControlApi *c, const AppInstance *app)
{
        return nested_is_below(app->name, c->app->name);
}

/* The same, of a call for an app. */
static int find(ControlApi *c, VarlinkCall *call, json_object *parameters, AppInstance **ret)
{
        const char *path = text_of(parameters, "container");
        int r = admit(c, call, parameters);

        if (r != 0)
                return r;
        AppInstance *app = app_table_find(c->interface->apps, path);
        if (app && is_below(c, app)) {
                *ret = app;
                return 0;
        }
        r = no_such_container(call, path);
        return r < 0 ? r : 1;
}

/* Parameters of a call of the pod's interface. */
static json_object *for_app(const AppInstance *app)
{
        json_object *o = json_object_new_object();

        if (json_member_add_text(o, "app", app_instance_path(app)) >= 0)
                return o;
        json_object_put(o);
        return NULL;
}

/* --- Launching ----------------------------------------------------------------------------------------- */

typedef struct Launch {
        Interface *interface;
        VarlinkCall *call;
        char *app; /* that has called */
        bool session;
} Launch;

static void launch_free(Launch *l)
{
        varlink_call_unref(l->call);
        free(l->app);
        free(l);
}

static void on_launched(void *userdata, int r, char *const *apps, char *const *warnings, const Error *e)
{
        Launch *l = userdata;
        const AppInstance *app = app_table_find(l->interface->apps, l->app);
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *list = json_object_new_array();

        if (app && app->control && app->control->n_pending > 0) /* a replaced app has a new one */
                app->control->n_pending--;
        int k = json_member_add(o, "apps", list);
        STRV_FOREACH (name, apps)
                if (k >= 0)
                        k = json_list_append(list, json_object_new_string(*name));
        if (k < 0)
                (void) varlink_reply_errno(l->call, k);
        else if (r == -ESHUTDOWN)
                (void) varlink_reply_error(l->call, "org.acnspawn.Pod.PodEnds", NULL);
        else if (r < 0)
                (void) interface_refuse(l->call, r, "%s", e->message ?: strerror(-r));
        else if (!l->session)
                (void) varlink_reply(l->call, o);
        if (app && app->control)
                control_session_launched(app->control->sessions, l->call, k >= 0 && r >= 0);
        launch_free(l);
}

/* Neither a file of the host nor anything that would have to be fetched. */
static bool is_of_store(const char *image)
{
        _cleanup_reference_ Reference r = {};

        return reference_parse(image, &r, NULL) >= 0 && r.kind == REFERENCE_IMAGE && image[0] != '/' &&
               image[0] != '.' && image[0] != '-';
}

static bool is_named(char *const *patterns, const Image *image)
{
        STRV_FOREACH (pattern, patterns)
                if (fnmatch(*pattern, image->manifest->name, 0) == 0)
                        return true;
        return false;
}

/* What is in other images may be no business of an app: their files, and programs that give privileges. 1: the call was answered with
 * an error. */
static int check_image(ControlApi *c, VarlinkCall *call, const char *reference, const AppInstance *parent)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = image_find(c->interface->pod->store, reference, &image, &e);
        if (r == -ENOMEM)
                return r;
        if (r >= 0 &&
            (streq(image->id, c->app->manifest->image_id) || streq(image->id, parent->manifest->image_id) ||
             is_named(c->app->settings.control_images, image)))
                return 0;
        r = r < 0 ? interface_refuse(call, r, "%s", e.message ?: strerror(-r))
                  : interface_refuse(
                                    call, -EPERM,
                                    "App %s may not launch apps of image %s, which --control-images= does not name",
                                    c->app->name, reference);
        return r < 0 ? r : 1;
}

static int add_copy(json_object *o, const char *key, json_object *parameters, const char *from)
{
        json_object *v = json_object_object_get(parameters, from);

        return v ? json_member_add(o, key, json_object_get(v)) : 0;
}

/* An app whose parent does not run as root is the same user. */
static int add_user(json_object *o, json_object *parameters, const AppInstance *parent)
{
        const char *user = text_of(parameters, "user"), *above = parent->app->user;
        bool root = !above || streq(above, "0") || streq(above, "root");

        int r = user || !root ? json_member_add_text(o, "user", user ?: above) : 0;
        return r < 0 || root || !parent->app->group ? r
                                                    : json_member_add_text(o, "group", parent->app->group);
}

static int add_annotation(json_object *o, const char *name, const char *value)
{
        json_object *list = json_object_new_array(), *one = json_object_new_object();
        int r = json_member_add(o, "annotations", list);
        int k = json_list_append(list, one);

        if (r >= 0 && k >= 0)
                r = json_member_add_text(one, "name", name);
        if (r >= 0 && k >= 0)
                r = json_member_add_text(one, "value", value);
        return MIN(r, k);
}

static int add_app(json_object *apps, json_object *parameters, const AppInstance *parent, const char *name)
{
        json_object *o = json_object_new_object();
        const char *image = text_of(parameters, "image");
        int r = json_list_append(apps, o);

        if (r >= 0)
                r = json_member_add_text(o, "name", name);
        if (r >= 0)
                r = json_member_add_text(o, "image", image ?: parent->manifest->image_id);
        if (r >= 0 && !image)
                r = json_member_add(o, "readOnlyRootFS", json_object_new_boolean(true));
        if (r >= 0)
                r = add_copy(o, "exec", parameters, "exec");
        if (r >= 0)
                r = add_copy(o, "environment", parameters, "environment");
        if (r >= 0 && json_object_get_boolean(json_object_object_get(parameters, "terminal")))
                r = add_annotation(o, SETTING_PREFIX "input", "terminal");
        else if (r >= 0 && json_object_object_get(parameters, "stdout")) /* a session */
                r = add_annotation(o, SETTING_PREFIX "input", "pipe");
        return r < 0 ? r : add_user(o, parameters, parent);
}

/* The parameters of LaunchGroup(). */
static json_object *make_request(json_object *parameters, const AppInstance *parent, const char *name)
{
        json_object *o = json_object_new_object(), *list = json_object_new_array(),
                    *one = json_object_new_object(), *definition = json_object_new_object(),
                    *apps = json_object_new_array();
        int r = json_member_add(definition, "apps", apps);

        if (r >= 0)
                r = add_app(apps, parameters, parent, name);
        int k = json_member_add(one, "definition", definition);
        if (r >= 0 && k >= 0)
                r = json_member_add_text(one, "parent", parent->name);
        int i = json_list_append(list, one), j = json_member_add(o, "apps", list);
        if (r >= 0 && k >= 0 && i >= 0 && j >= 0)
                return o;
        json_object_put(o);
        return NULL;
}

static size_t count_below(const ControlApi *c)
{
        size_t n = 0;

        FOREACH_APP(app, c->interface->apps)
        {
                n += is_below(c, app);
        }
        return n;
}

/* 1: the call was answered with an error. */
static int check_bounds(ControlApi *c, VarlinkCall *call)
{
        if (count_below(c) + c->n_pending >= CONTROL_APPS_MAX)
                return too_many(call, "Too many apps are nested under this one", CONTROL_APPS_MAX);
        if (c->n_pending >= CONTROL_PENDING_MAX)
                return too_many(call, "Too many launches are not done yet", CONTROL_PENDING_MAX);
        if (control_exceeds_rate(&c->next_launch_usec, now_usec(CLOCK_MONOTONIC), CONTROL_LAUNCHES_BURST,
                                 CONTROL_LAUNCHES_USEC))
                return too_many(call, "Too many launches in a short time", CONTROL_LAUNCHES_BURST);
        return 0;
}

/* The app that is to be the parent: the caller, or one below it. *RET_NAME is the name of the new one. */
static AppInstance *find_parent(const ControlApi *c, const char *path, const char **ret_name)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *parent = slash ? strndup(path, (size_t) (slash - path)) : NULL;
        AppInstance *app = parent ? app_table_find(c->interface->apps, parent) : NULL;

        if (!app || (app != c->app && !is_below(c, app)))
                return NULL;
        *ret_name = slash + 1;
        return app;
}

static void on_launcher_gone(VarlinkCall *call, void *userdata)
{
        Interface *i = userdata;

        i->ops.cancel_launch(i->userdata, call);
}

static int run_launch(ControlApi *c, VarlinkCall *call, json_object *request, bool session)
{
        Interface *i = c->interface;
        Launch *l = malloc(sizeof(Launch));

        if (!l)
                return -ENOMEM;
        if (!session) { /* the session has its own handler */
                call->on_gone = on_launcher_gone;
                call->userdata = i;
        }
        *l = (Launch){.interface = i,
                      .call = varlink_call_ref(call),
                      .app = strdup(c->app->name),
                      .session = session};
        int r = l->app ? i->ops.launch_group(i->userdata, request, call, on_launched, l) : -ENOMEM;
        if (r < 0)
                launch_free(l);
        return r;
}

/* The caller runs, but the pod's systemd may not have told so yet. */
static bool is_ready(const ControlApi *c)
{
        const PodUnit *u = &c->app->units[0];

        return c->interface->ops.manager(c->interface->userdata) && u->known && u->life == UNIT_UP;
}

static int begin_launch(ControlApi *c, VarlinkCall *call, json_object *parameters, bool session)
{
        Interface *i = c->interface;
        const char *path = text_of(parameters, "container"), *image = text_of(parameters, "image"),
                   *name = NULL;

        int r = admit(c, call, parameters);
        if (r != 0)
                return MIN(r, 0);
        AppInstance *parent = find_parent(c, path, &name);
        if (!parent)
                return no_such_container(call, path);
        if (!nested_is_path(path))
                return varlink_reply_invalid_parameter(call, "container");
        if (image && !is_of_store(image))
                return varlink_reply_invalid_parameter(call, "image");
        if (interface_pod_is_paused(i))
                return varlink_reply_error(call, "org.acnspawn.Pod.PodPaused", NULL);
        if (!is_ready(c))
                return varlink_reply_error(call, CONTROL "Busy", NULL);
        r = check_bounds(c, call);
        if (r == 0 && image)
                r = check_image(c, call, image, parent);
        if (r != 0)
                return MIN(r, 0);
        _cleanup_json_ json_object *request = make_request(parameters, parent, name);
        if (!request)
                return -ENOMEM;
        r = session ? control_session_new(&c->sessions, i, call, parameters, path) : 0;
        if (r != 0)
                return MIN(r, 0);
        c->n_pending++; /* it may be answered at once */
        r = run_launch(c, call, request, session);
        if (r < 0) {
                c->n_pending--;
                control_session_launched(c->sessions, call, false);
        }
        return r;
}

static int launch(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return begin_launch(userdata, call, parameters, false);
}

static int launch_session(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return begin_launch(userdata, call, parameters, true);
}

void control_api_starts(Interface *i, AppInstance *app)
{
        FOREACH_APP(above, i->apps)
        {
                if (above->control && above->control->sessions)
                        control_session_starts(above->control->sessions, app);
        }
}

/* --- Waiting ------------------------------------------------------------------------------------------- */

static void waiter_free(Waiter *w)
{
        varlink_call_unref(w->call);
        free(w->name);
        free(w);
}

static void on_gone(VarlinkCall *call, void *userdata)
{
        ControlApi *c = userdata;

        for (Waiter **p = &c->waiters, *w; (w = *p); p = &w->next)
                if (w->call == call) {
                        *p = w->next;
                        waiter_free(w);
                        return;
                }
}

static int reply_ended(const ControlApi *c, VarlinkCall *call, const AppInstance *app)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int r = json_member_add(o, "app", interface_app_json(c->interface, app));

        return r < 0 ? r : varlink_reply(call, o);
}

static bool has_ended(const ControlApi *c, const AppInstance *app)
{
        return streq(interface_app_state(c->interface, app), "exited");
}

static int wait_for_end(VarlinkCall *call, json_object *parameters, void *userdata)
{
        ControlApi *c = userdata;
        AppInstance *app = NULL;

        int r = find(c, call, parameters, &app);
        if (r != 0)
                return MIN(r, 0);
        if (has_ended(c, app))
                return reply_ended(c, call, app);
        Waiter *w = calloc(1, sizeof(Waiter));
        if (!w)
                return -ENOMEM;
        *w = (Waiter){.next = c->waiters, .call = varlink_call_ref(call), .name = strdup(app->name)};
        if (!w->name) {
                waiter_free(w);
                return -ENOMEM;
        }
        c->waiters = w;
        call->on_gone = on_gone;
        call->userdata = c;
        return 0;
}

static void answer_waiters(ControlApi *c, const AppInstance *app)
{
        bool gone = app_is_leaving(app);

        if (!gone && !has_ended(c, app))
                return;
        for (Waiter **p = &c->waiters, *w; (w = *p);) {
                if (!streq(w->name, app->name)) {
                        p = &w->next;
                        continue;
                }
                *p = w->next;
                w->call->on_gone = NULL;
                int r = gone ? no_such_container(w->call, app_instance_path(app))
                             : reply_ended(c, w->call, app);
                if (r < 0)
                        (void) varlink_reply_errno(w->call, r);
                waiter_free(w);
        }
}

void control_api_changed(Interface *i, AppInstance *app)
{
        FOREACH_APP(above, i->apps)
        {
                if (above->control && above->control->waiters)
                        answer_waiters(above->control, app);
        }
}

/* --- The other calls ----------------------------------------------------------------------------------- */

/* Passes the call on as one of the operator, about the app that it names and with MEMBERS of its parameters. */
static int pass_on(ControlApi *c, VarlinkCall *call, json_object *parameters, const char *const *members,
                   VarlinkMethodFunction method)
{
        AppInstance *app = NULL;

        int r = find(c, call, parameters, &app);
        if (r != 0)
                return MIN(r, 0);
        _cleanup_json_ json_object *o = for_app(app);
        r = o ? 0 : -ENOMEM;
        for (; r >= 0 && *members; members++)
                r = add_copy(o, *members, parameters, *members);
        return r < 0 ? r : method(call, o, c->interface);
}

static int kill_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return pass_on(userdata, call, parameters, (const char *const[]){"signal", NULL},
                       interface_signal_app);
}

static int remove_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return pass_on(userdata, call, parameters, (const char *const[]){NULL}, interface_remove_app);
}

static int output(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return pass_on(userdata, call, parameters, (const char *const[]){"stdout", "stderr", NULL},
                       interface_attach_of_app);
}

static int input(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return pass_on(userdata, call, parameters, (const char *const[]){"stdin", NULL},
                       interface_attach_of_app);
}

static int list(VarlinkCall *call, json_object *parameters, void *userdata)
{
        ControlApi *c = userdata;
        _cleanup_json_ json_object *o = NULL;
        json_object *apps = NULL;

        int r = admit(c, call, parameters);
        if (r != 0)
                return MIN(r, 0);
        o = json_object_new_object();
        apps = json_object_new_array();
        r = json_member_add(o, "apps", apps);
        FOREACH_APP(app, c->interface->apps)
        {
                if (r >= 0 && is_below(c, app))
                        r = json_list_append(apps, interface_app_json(c->interface, app));
        }
        return r < 0 ? r : varlink_reply(call, o);
}

static int resize(VarlinkCall *call, json_object *parameters, void *userdata)
{
        int64_t id = json_object_get_int64(json_object_object_get(parameters, "id"));
        struct winsize size = {};
        ControlApi *c = userdata;

        int r = admit(c, call, parameters);
        if (r != 0)
                return MIN(r, 0);
        const AppInstance *app = interface_attached_app(c->interface, id);
        if (!app || !is_below(c, app))
                return no_such_container(call, "");
        if (exec_read_size(parameters, "rows", &size.ws_row) < 0)
                return varlink_reply_invalid_parameter(call, "rows");
        if (exec_read_size(parameters, "columns", &size.ws_col) < 0)
                return varlink_reply_invalid_parameter(call, "columns");
        (void) interface_resize_attached(c->interface, id, &size); /* without a terminal it has no effect */
        return varlink_reply(call, NULL);
}

/* --- The service --------------------------------------------------------------------------------------- */

static const VarlinkMethod methods[] = {
                {"Launch", launch, 0},
                {"Wait", wait_for_end, 0},
                {"Kill", kill_app, 0},
                {"Remove", remove_app, 0},
                {"List", list, 0},
                {"Output", output, VARLINK_METHOD_MORE | VARLINK_METHOD_FDS},
                {"Session", launch_session, VARLINK_METHOD_MORE | VARLINK_METHOD_FDS},
                {"Resize", resize, 0},
                {"Input", input, VARLINK_METHOD_MORE | VARLINK_METHOD_FDS},
};

static const VarlinkInterface control_interface = {.name = "org.acnspawn.Control",
                                                   .description = CONTROL_INTERFACE_DESCRIPTION,
                                                   .methods = methods,
                                                   .n_methods = ELEMENTSOF(methods)};

static void on_connected(void *userdata, int fd)
{
        ControlApi *c = userdata;

        (void) varlink_server_add_connection(c->server, fd);
}

static int make_token(char ret[static TOKEN_SIZE])
{
        char half[RANDOM_HEX_SIZE];
        int r = random_hex(ret);

        if (r >= 0)
                r = random_hex(half);
        if (r >= 0)
                memcpy(ret + RANDOM_HEX_SIZE - 1, half, RANDOM_HEX_SIZE);
        return r;
}

static int open_service(ControlApi *c, Interface *i, int listen_fd, Error *e)
{
        int r = varlink_server_new(i->event, "acnspawn", "", &c->server, e);

        if (r >= 0)
                r = varlink_server_add_interface(c->server, &control_interface, c, e);
        if (r < 0) {
                safe_close(listen_fd);
                return r;
        }
        return control_process_new(i->pod, i->event, listen_fd, on_connected, c, &c->process, e);
}

static int fail(int r, const AppInstance *app, Error *e)
{
        if (r == -EEXIST)
                return error_set(e, r,
                                 "App %s launches others, so its credentials cannot be "
                                 "named " LAUNCH_CONTROL_SOCKET " or " LAUNCH_CONTROL_TOKEN,
                                 app_instance_path(app));
        return error_set_errno(e, r, "Cannot make the socket by which app %s launches others",
                               app_instance_path(app));
}

int control_api_begin(Interface *i, PodMounts *m, AppInstance *app, Error *e)
{
        ControlApi *c = calloc(1, sizeof(ControlApi));
        int fd = -EBADF;

        if (!c)
                return error_oom(e);
        *c = (ControlApi){.interface = i, .app = app};
        int r = make_token(c->token);
        if (r >= 0)
                r = pod_mounts_open_control(m, app->manifest, c->token, !app->control, &fd);
        if (r <= 0) {
                control_api_free(c);
                return r < 0 ? fail(r, app, e) : 0;
        }
        r = open_service(c, i, fd, e);
        if (r < 0) {
                control_api_free(c);
                return r;
        }
        control_api_free(app->control);
        app->control = c;
        return 0;
}

ControlApi *control_api_free(ControlApi *c)
{
        if (!c)
                return NULL;
        control_process_free(c->process);
        varlink_server_free(c->server);
        control_sessions_free(&c->sessions);
        for (Waiter *w; (w = c->waiters);) {
                c->waiters = w->next;
                waiter_free(w);
        }
        explicit_bzero(c->token, sizeof(c->token));
        free(c);
        return NULL;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The methods that add, remove and replace apps. */

#include "stage0/supervisor/interface/interface-internal.h"

#define GROUP_APPS_MAX 256U

typedef struct SetCall {
        Interface *interface;
        VarlinkCall *call;
} SetCall;

static int set_call_new(Interface *i, VarlinkCall *call, SetCall **ret)
{
        SetCall *c = malloc(sizeof(SetCall));

        if (!c)
                return -ENOMEM;
        *c = (SetCall){.interface = i, .call = varlink_call_ref(call)};
        *ret = c;
        return 0;
}

static void set_call_free(SetCall *c)
{
        c->call->on_gone = NULL;
        varlink_call_unref(c->call);
        free(c);
}

/* An app that is down, but cannot be removed, is about to be started by another call: its state is
 * "starting". */
static int reply_up(const SetCall *c, const char *name)
{
        const AppInstance *app = interface_find_app(c->interface, name);
        const char *state = !app || app->units[0].life != UNIT_UP ? "starting"
                                                                  : interface_app_state(c->interface, app);

        return interface_reply_error(c->call, "org.acnspawn.Pod.WrongState", "app", name, "state", state);
}

static int reply_refused(VarlinkCall *call, int r, const Error *e)
{
        if (r == -ESHUTDOWN)
                return interface_reply_error(call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
        return interface_reply_failure(call, "org.acnspawn.Pod.AppRefused", r, e);
}

/* R is the result of sending the reply. */
static void conclude(SetCall *c, int r)
{
        if (r < 0)
                (void) varlink_reply_errno(c->call, r);
        set_call_free(c);
}

static int add_texts(json_object *o, const char *key, char *const *texts)
{
        json_object *list = json_object_new_array();
        int r = json_member_add(o, key, list);

        STRV_FOREACH (t, texts)
                if (r >= 0)
                        r = json_list_append(list, json_object_new_string(*t));
        return r;
}

static int reply_added(VarlinkCall *call, const char *app, char *const *warnings)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = add_texts(o, "warnings", warnings);
        if (r >= 0)
                r = json_member_add_text(o, "app", app);
        return r < 0 ? r : varlink_reply(call, o);
}

static void on_added(void *userdata, int r, const char *app, char *const *warnings, const Error *e)
{
        SetCall *c = userdata;

        conclude(c, r < 0 ? reply_refused(c->call, r, e) : reply_added(c->call, app, warnings));
}

static int reply_launched(VarlinkCall *call, char *const *apps, char *const *warnings)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = add_texts(o, "apps", apps);
        if (r >= 0)
                r = add_texts(o, "warnings", warnings);
        return r < 0 ? r : varlink_reply(call, o);
}

static void on_launched(void *userdata, int r, char *const *apps, char *const *warnings, const Error *e)
{
        SetCall *c = userdata;

        conclude(c, r < 0 ? reply_refused(c->call, r, e) : reply_launched(c->call, apps, warnings));
}

static void on_removed(void *userdata, int r, const char *app, char *const *warnings, const Error *e)
{
        SetCall *c = userdata;

        conclude(c, r >= 0        ? varlink_reply(c->call, NULL)
                    : r == -EBUSY ? reply_up(c, app)
                                  : reply_refused(c->call, r, e));
}

/* Whether member KEY of PARAMETERS is an app whose state is not known yet, as the pod boots. */
static bool is_unknown(const Interface *i, json_object *parameters, const char *key)
{
        const char *name = json_object_get_string(json_object_object_get(parameters, key));
        const AppInstance *app = name ? interface_find_app(i, name) : NULL;

        return app && !app->units[0].known;
}

/* The app of the call, or one that others are to be nested under. */
static bool has_unknown(const Interface *i, json_object *parameters)
{
        json_object *list = json_object_object_get(parameters, "apps");

        for (size_t k = 0; list && k < json_object_array_length(list); k++)
                if (is_unknown(i, json_object_array_get_idx(list, k), "parent"))
                        return true;
        return is_unknown(i, parameters, "app") || is_unknown(i, parameters, "parent");
}

/* Whether the pod can be changed. 1: the call was answered with an error, or waits. */
static int begin(Interface *i, VarlinkCall *call, json_object *parameters, VarlinkMethodFunction method)
{
        int r;

        if (i->ops.ends(i->userdata))
                r = interface_reply_error(call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
        else if (interface_pod_is_paused(i))
                r = interface_reply_error(call, "org.acnspawn.Pod.PodPaused", NULL, NULL, NULL, NULL);
        else if (!i->ops.manager(i->userdata) || has_unknown(i, parameters))
                r = interface_defer(i, call, parameters, method);
        else
                return 0;
        return r < 0 ? r : 1;
}

/* Calls CHANGE unless the call was answered, or waits: then METHOD is called again. */
static int run_change(Interface *i, VarlinkCall *call, json_object *parameters, VarlinkMethodFunction method,
                      int (*change)(Interface *i, json_object *parameters, SetCall *c))
{
        SetCall *c = NULL;

        int r = begin(i, call, parameters, method);
        if (r != 0)
                return MIN(r, 0);
        r = set_call_new(i, call, &c);
        if (r < 0)
                return r;
        r = change(i, parameters, c);
        if (r < 0)
                set_call_free(c);
        return r == -EUSERS ? interface_refuse(call, r, "Too many changes of the pod are queued") : r;
}

static int add(Interface *i, json_object *parameters, SetCall *c)
{
        return i->ops.add_app(i->userdata, parameters, on_added, c);
}

static void on_launch_gone(VarlinkCall *call, void *userdata)
{
        Interface *i = userdata;

        i->ops.cancel_launch(i->userdata, call);
}

/* A launch is undone when its caller disconnects, which may have happened while the call waited. A one-way call does not
 * count as disconnected. */
static int launch_group(Interface *i, json_object *parameters, SetCall *c)
{
        if (varlink_call_is_gone(c->call))
                return -ECONNRESET;
        c->call->on_gone = on_launch_gone;
        c->call->userdata = i;
        return i->ops.launch_group(i->userdata, parameters, c->call, on_launched, c);
}

static int remove_app(Interface *i, json_object *parameters, SetCall *c)
{
        return i->ops.remove_app(i->userdata, parameters, on_removed, c);
}

int interface_add_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return run_change(userdata, call, parameters, interface_add_app, add);
}

int interface_launch_group(VarlinkCall *call, json_object *parameters, void *userdata)
{
        size_t n = json_object_array_length(json_object_object_get(parameters, "apps"));
        _cleanup_error_ Error e = ERROR_NULL;

        if (n == 0)
                return varlink_reply_invalid_parameter(call, "apps");
        if (n > GROUP_APPS_MAX) {
                int r = error_set(&e, -E2BIG, "A group has at most %u apps, and this one has %zu",
                                  GROUP_APPS_MAX, n);
                (void) error_hint(&e, r, "Launch them as several groups.");
                return interface_reply_failure(call, "org.acnspawn.Pod.AppRefused", r, &e);
        }
        return run_change(userdata, call, parameters, interface_launch_group, launch_group);
}

int interface_remove_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        json_object *timeout = json_object_object_get(parameters, "timeoutUSec");

        if (timeout && json_object_get_int64(timeout) < 0)
                return varlink_reply_invalid_parameter(call, "timeoutUSec");
        return run_change(userdata, call, parameters, interface_remove_app, remove_app);
}

static int reply_replaced(VarlinkCall *call, bool replaced, char *const *warnings)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = add_texts(o, "warnings", warnings);
        if (r >= 0)
                r = json_member_add(o, "replaced", json_object_new_boolean(replaced));
        return r < 0 ? r : varlink_reply(call, o);
}

static int reply_rolled_back(VarlinkCall *call, const char *app, const Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int r = json_member_add_text(o, "app", app);

        if (r >= 0)
                r = json_member_add_text(o, "message", e->message ?: "");
        if (r >= 0)
                r = json_member_add_text(o, "hint", e->hint);
        return r < 0 ? r : varlink_reply_error(call, "org.acnspawn.Pod.RolledBack", o);
}

/* -ECONNABORTED: the old app is back; -ESRCH: it was removed before its turn. */
static void on_replaced(void *userdata, int r, const char *app, char *const *warnings, const Error *e)
{
        VarlinkCall *call = userdata;

        if (r >= 0 || r == -EALREADY)
                r = reply_replaced(call, r >= 0, warnings);
        else if (r == -EBUSY)
                r = interface_reply_error(call, "org.acnspawn.Pod.WrongState", "app", app, "state", "busy");
        else if (r == -ESRCH)
                r = interface_reply_error(call, "org.acnspawn.Pod.NoSuchApp", "app", app, NULL, NULL);
        else if (r == -ECONNABORTED)
                r = reply_rolled_back(call, app, e);
        else
                r = reply_refused(call, r, e);
        if (r < 0)
                (void) varlink_reply_errno(call, r);
        varlink_call_unref(call);
}

static void on_replace_gone(VarlinkCall *call, void *userdata)
{
        Interface *i = userdata;

        i->ops.replace_orphaned(i->userdata, call);
}

int interface_replace_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        json_object *timeout = json_object_object_get(parameters, "readyTimeoutUSec");
        Interface *i = userdata;
        AppInstance *app = NULL;

        if (timeout && json_object_get_int64(timeout) <= 0)
                return varlink_reply_invalid_parameter(call, "readyTimeoutUSec");
        int r = interface_begin(i, call, parameters, true, interface_replace_app, &app);
        if (r != 0)
                return MIN(r, 0);
        bool gone = varlink_call_is_gone(call); /* it may have disconnected while the call waited */
        varlink_call_ref(call);
        call->on_gone = on_replace_gone;
        call->userdata = i;
        r = i->ops.replace_app(i->userdata, parameters, on_replaced, call);
        if (r < 0)
                varlink_call_unref(call);
        else if (gone)
                i->ops.replace_orphaned(i->userdata, call);
        return r == -EUSERS ? interface_refuse(call, r, "Too many changes of the pod are queued") : r;
}

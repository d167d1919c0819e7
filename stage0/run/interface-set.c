/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The part of the pod's interface by which apps are added and removed. */

#include "stage0/run/interface-internal.h"

static int reply_added(VarlinkCall *call, const char *app, char *const *warnings)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *list = json_object_new_array();

        int r = json_member_add(o, "warnings", list);
        if (r >= 0)
                r = json_member_add_text(o, "app", app);
        STRV_FOREACH (w, warnings)
                if (r >= 0)
                        r = json_list_append(list, json_object_new_string(*w));
        return r < 0 ? r : varlink_reply(call, o);
}

static int reply_refused(VarlinkCall *call, int code, const Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int r = json_member_add_text(o, "message", e->message ?: strerror(-code));

        if (r >= 0 && e->hint)
                r = json_member_add_text(o, "hint", e->hint);
        if (r >= 0)
                r = json_member_add(o, "errno", json_object_new_int(-code));
        return r < 0 ? r : varlink_reply_error(call, "org.acnspawn.Pod.AppRefused", o);
}

static void on_added(void *userdata, int r, const char *app, char *const *warnings, const Error *e)
{
        VarlinkCall *call = userdata;

        if (r >= 0)
                r = reply_added(call, app, warnings);
        else if (r == -ESHUTDOWN)
                r = interface_reply_error(call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
        else
                r = reply_refused(call, r, e);
        if (r < 0)
                (void) varlink_reply_errno(call, r);
        varlink_call_unref(call);
}

static void on_removed(void *userdata, int r, const char *app, char *const *warnings, const Error *e)
{
        VarlinkCall *call = userdata;

        if (r >= 0)
                r = varlink_reply(call, NULL);
        else if (r == -EBUSY)
                r = interface_reply_error(call, "org.acnspawn.Pod.WrongState", "app", app, "state",
                                          "running");
        else if (r == -ESHUTDOWN)
                r = interface_reply_error(call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
        else
                r = reply_refused(call, r, e);
        if (r < 0)
                (void) varlink_reply_errno(call, r);
        varlink_call_unref(call);
}

/* Whether the pod can be changed. 1: the call was answered with an error. */
static int begin(Interface *i, VarlinkCall *call)
{
        int r;

        if (i->ops.ends(i->userdata))
                r = interface_reply_error(call, "org.acnspawn.Pod.PodEnds", NULL, NULL, NULL, NULL);
        else if (pod_is_paused(i->pod))
                r = interface_reply_error(call, "org.acnspawn.Pod.PodPaused", NULL, NULL, NULL, NULL);
        else if (!i->ops.manager(i->userdata))
                r = varlink_reply_errno(call, -EAGAIN);
        else
                return 0;
        return r < 0 ? r : 1;
}

int interface_add_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;

        int r = begin(i, call);
        if (r != 0)
                return MIN(r, 0);
        varlink_call_ref(call);
        r = i->ops.add_app(i->userdata, parameters, on_added, call);
        if (r < 0)
                varlink_call_unref(call);
        return r;
}

int interface_remove_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        Interface *i = userdata;

        int r = begin(i, call);
        if (r != 0)
                return MIN(r, 0);
        varlink_call_ref(call);
        r = i->ops.remove_app(i->userdata, json_object_get_string(json_object_object_get(parameters, "app")),
                              on_removed, call);
        if (r < 0)
                varlink_call_unref(call);
        return r;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Apps whose life is that of a call: an app that launches others has the output of such an app from its first byte, and the app is
 * stopped when the caller disconnects.
 *
 * The output is attached before the app is executed, as soon as the app is there. The call is answered when the launch has succeeded,
 * and again when the app has ended, which may come first. */

#include "stage0/supervisor/interface/control-api.h"
#include "stage0/supervisor/streams/inputs.h"
#include "stage0/supervisor/interface/interface-internal.h"
#include "stage0/supervisor/apps/task-state.h"

struct ControlSession {
        struct ControlSession *next, **list;
        Interface *interface;
        VarlinkCall *call;
        char *path; /* of the app */
        int fds[3];
        Client *client;
        int exit_code;
        bool launched, ended, gone; /* gone: the caller has disconnected before the launch was done */
};

static void forget(ControlSession *s)
{
        for (ControlSession **p = s->list; *p; p = &(*p)->next)
                if (*p == s) {
                        *p = s->next;
                        break;
                }
        s->client = client_detach(s->client);
        for (size_t i = 0; i < ELEMENTSOF(s->fds); i++)
                safe_close(s->fds[i]);
        s->call->on_gone = NULL;
        varlink_call_unref(s->call);
        free(s->path);
        free(s);
}

/* If there is no connection to the pod's systemd, or this one is lost, the stop is requested over the next one. */
static void stop_app(const ControlSession *s)
{
        AppInstance *app = app_table_find(s->interface->apps, s->path);
        ManagerLink *l = s->interface->ops.manager(s->interface->userdata);

        if (!app || s->ended) /* not by the state of the unit, which may not be known yet */
                return;
        app_stop_handle(app, STOP_ASKED);
        int r = l ? manager_link_run(l, "StopUnit", app->units[0].name, NULL, NULL) : 0;
        if (r < 0 && r != -ENOTCONN && r != -ECONNRESET)
                log_warning("App %s, whose client has disconnected, cannot be stopped: %s.", s->path,
                            strerror(-r));
}

static void reply_ended(ControlSession *s)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        int r = json_member_add(o, "id", json_object_new_int(0));

        if (r >= 0 && s->exit_code >= 0)
                r = json_member_add(o, "exitCode", json_object_new_int(s->exit_code));
        (void) (r < 0 ? varlink_reply_errno(s->call, r) : varlink_reply(s->call, o));
        forget(s);
}

/* --- Events -------------------------------------------------------------------------------------------- */

static int on_skipped(void *userdata, uint64_t n)
{
        return 0;
}

static void on_ended(void *userdata, int exit_code)
{
        ControlSession *s = userdata;

        s->client = NULL;
        s->ended = true;
        s->exit_code = exit_code;
        if (s->launched)
                reply_ended(s);
}

static void on_gone(VarlinkCall *call, void *userdata)
{
        ControlSession *s = userdata;

        s->client = client_detach(s->client);
        s->gone = true;
        if (!s->launched) {
                s->interface->ops.cancel_launch(s->interface->userdata, call);
                return;
        }
        stop_app(s);
        forget(s);
}

/* --- The steps of a launch ----------------------------------------------------------------------------- */

int control_session_new(ControlSession **list, Interface *i, VarlinkCall *call, json_object *parameters,
                        const char *path)
{
        ControlSession *s = calloc(1, sizeof(ControlSession));
        const char *wrong = NULL;

        if (!s)
                return -ENOMEM;
        *s = (ControlSession){.next = *list,
                              .list = list,
                              .interface = i,
                              .call = varlink_call_ref(call),
                              .path = strdup(path),
                              .fds = {-EBADF, -EBADF, -EBADF}};
        *list = s;
        int r = s->path ? 0 : -ENOMEM;
        for (size_t k = STDOUT_FILENO; r >= 0 && k < ELEMENTSOF(s->fds); k++)
                r = exec_read_stream(parameters, &call->fds, k, &s->fds[k], &wrong);
        if (r < 0) {
                forget(s);
                return r == -EINVAL ? varlink_reply_invalid_parameter(call, wrong) ?: 1 : r;
        }
        call->on_gone = on_gone;
        call->userdata = s;
        return 0;
}

void control_session_starts(ControlSession *list, AppInstance *app)
{
        static const ClientEvents events = {.skipped = on_skipped, .ended = on_ended};
        const struct winsize none = {};

        for (ControlSession *s = list; s; s = s->next) {
                if (s->launched || s->gone || s->client || !streq(s->path, app_instance_path(app)))
                        continue;
                int r = client_new_early(app->input, s->fds, &none, &events, s, &s->client);
                if (r < 0)
                        log_warning("The output of app %s cannot be attached: %s.", s->path, strerror(-r));
                return;
        }
}

void control_session_launched(ControlSession *list, VarlinkCall *call, bool success)
{
        ControlSession *s = list;

        while (s && s->call != call)
                s = s->next;
        if (!s)
                return;
        if (success && s->gone)
                stop_app(s);
        if (!success || s->gone) {
                forget(s);
                return;
        }
        _cleanup_json_ json_object *o = json_object_new_object();
        s->launched = true;
        if (json_member_add(o, "id", json_object_new_int(0)) >= 0)
                (void) varlink_reply_continues(call, o);
        if (s->ended)
                reply_ended(s);
}

void control_sessions_free(ControlSession **list)
{
        while (*list)
                forget(*list);
}

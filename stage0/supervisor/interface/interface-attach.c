/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The methods that attach clients to apps.
 *
 * A call lasts as long as the caller is attached: to disconnect is to detach, and the last reply comes when
 * the app has ended. Meanwhile no further call is read from its connection, so other connections control the
 * attachment, by its id. */

#include "stage0/supervisor/streams/inputs.h"
#include "stage0/supervisor/interface/interface-internal.h"

#define POD "org.acnspawn.Pod."

typedef struct Attachment {
        struct Attachment *next;
        Interface *interface;
        VarlinkCall *call;
        Client *client;
        uint64_t id;
        bool of_app; /* attached by an app, to one that is nested under it */
} Attachment;

static Attachment *forget(Attachment *a)
{
        Attachment **i = &a->interface->attachments;

        while (*i != a)
                i = &(*i)->next;
        *i = a->next;
        varlink_call_unref(a->call);
        free(a);
        return NULL;
}

static Attachment *find(const Interface *i, int64_t id)
{
        for (Attachment *a = i->attachments; a; a = a->next)
                if (id > 0 && a->id == (uint64_t) id)
                        return a;
        return NULL;
}

/* --- Events -------------------------------------------------------------------------------------------- */

static json_object *make_reply(const Attachment *a)
{
        json_object *o = json_object_new_object();

        if (json_member_add(o, "id", json_object_new_uint64(a->id)) >= 0)
                return o;
        json_object_put(o);
        return NULL;
}

static int on_skipped(void *userdata, uint64_t n)
{
        const Attachment *a = userdata;
        _cleanup_json_ json_object *o = make_reply(a);

        int r = json_member_add(o, "skippedBytes", json_object_new_uint64(n));
        return r < 0 ? r : varlink_reply_continues(a->call, o);
}

static void on_ended(void *userdata, int exit_code)
{
        Attachment *a = userdata;
        _cleanup_json_ json_object *o = make_reply(a);

        int r = o ? 0 : -ENOMEM;
        if (r >= 0 && exit_code >= 0)
                r = json_member_add(o, "exitCode", json_object_new_int(exit_code));
        if (r >= 0)
                r = varlink_reply(a->call, o);
        if (r < 0)
                log_debug("Cannot report the end of an app to a client: %s", strerror(-r));
        forget(a);
}

static void on_gone(VarlinkCall *call, void *userdata)
{
        Attachment *a = userdata;

        a->client = a->of_app ? client_finish(a->client) : client_detach(a->client);
        forget(a);
}

/* --- Methods ------------------------------------------------------------------------------------------- */

static int reply_number(VarlinkCall *call, const char *error, const char *key, int64_t value)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = json_member_add(o, key, json_object_new_int64(value));
        return r < 0 ? r : varlink_reply_error(call, error, o);
}

static int reply_attached(const Attachment *a)
{
        _cleanup_json_ json_object *o = make_reply(a);

        int r = json_member_add(o, "terminal", json_object_new_boolean(client_has_terminal(a->client)));
        return r < 0 ? r : varlink_reply_continues(a->call, o);
}

static int attach(Interface *i, VarlinkCall *call, AppInstance *app, int fds[static 3],
                  const struct winsize *size, bool of_app)
{
        static const ClientEvents events = {.skipped = on_skipped, .ended = on_ended};
        Attachment *a = calloc(1, sizeof(Attachment));

        if (!a)
                return -ENOMEM;
        *a = (Attachment){.next = i->attachments,
                          .interface = i,
                          .call = varlink_call_ref(call),
                          .of_app = of_app,
                          .id = execs_next_id(i->execs)};
        i->attachments = a;
        int r = of_app && clients_count(app->input) >= CLIENTS_OF_APPS_MAX
                                ? -EUSERS
                                : client_new(app->input, fds, size, &events, a, &a->client);
        if (r >= 0)
                r = reply_attached(a);
        if (r < 0) {
                a->client = client_detach(a->client);
                forget(a);
                return r;
        }
        call->on_gone = on_gone;
        call->userdata = a;
        return 0;
}

/* 1: the call was answered with an error. */
static int read_parameters(VarlinkCall *call, json_object *parameters, int fds[static 3],
                           struct winsize *size)
{
        const char *wrong = NULL;

        if (exec_read_size(parameters, "rows", &size->ws_row) < 0)
                wrong = "rows";
        else if (exec_read_size(parameters, "columns", &size->ws_col) < 0)
                wrong = "columns";
        for (size_t i = 0; i < 3 && !wrong; i++)
                if (exec_read_stream(parameters, &call->fds, i, &fds[i], &wrong) >= 0)
                        wrong = NULL;
        return wrong ? varlink_reply_invalid_parameter(call, wrong) ?: 1 : 0;
}

static int run_attach(VarlinkCall *call, json_object *parameters, Interface *i, bool of_app)
{
        const char *name = json_object_get_string(json_object_object_get(parameters, "app"));
        int fds[3] = {-EBADF, -EBADF, -EBADF};
        struct winsize size = {};
        AppInstance *app = interface_find_app(i, name);

        if (!app || app_is_leaving(app))
                return interface_reply_error(call, POD "NoSuchApp", "app", name, NULL, NULL);
        if (!i->execs)
                return varlink_reply_error(call, POD "PodEnds", NULL);
        if (interface_pod_is_paused(i))
                return varlink_reply_error(call, POD "PodPaused", NULL);
        int r = read_parameters(call, parameters, fds, &size);
        if (r == 0 && fds[STDIN_FILENO] >= 0 && app->settings.input == INPUT_NULL)
                r = interface_reply_error(call, POD "NoStdin", "app", name, NULL, NULL) ?: 1;
        if (r == 0)
                r = attach(i, call, app, fds, &size, of_app);
        for (size_t k = 0; k < ELEMENTSOF(fds); k++)
                safe_close(fds[k]);
        if (r == -EUSERS)
                return reply_number(call, POD "TooManyAttached", "limit",
                                    of_app ? CLIENTS_OF_APPS_MAX : CLIENTS_MAX);
        if (r == -ESRCH)
                return interface_wrong_state(i, call, app);
        return MIN(r, 0);
}

int interface_attach(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return run_attach(call, parameters, userdata, false);
}

int interface_attach_of_app(VarlinkCall *call, json_object *parameters, void *userdata)
{
        return run_attach(call, parameters, userdata, true);
}

const AppInstance *interface_attached_app(const Interface *i, int64_t id)
{
        const Attachment *a = find(i, id);

        return a ? client_app(a->client) : NULL;
}

int interface_close_stdin(VarlinkCall *call, json_object *parameters, void *userdata)
{
        int64_t id = json_object_get_int64(json_object_object_get(parameters, "id"));
        const Interface *i = userdata;
        Attachment *a = find(i, id);

        if (!a)
                return reply_number(call, POD "NotAttached", "id", id);
        client_close_stdin(a->client);
        return varlink_reply(call, NULL);
}

int interface_resize_attached(Interface *i, int64_t id, const struct winsize *size)
{
        const Attachment *a = find(i, id);

        if (!a || !client_has_terminal(a->client))
                return -ENOTTY;
        client_resize(a->client, size);
        return 0;
}

void interface_drop_attachments(Interface *i)
{
        while (i->attachments) {
                i->attachments->client = client_detach(i->attachments->client);
                forget(i->attachments);
        }
}

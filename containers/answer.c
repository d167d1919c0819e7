/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Replies of the supervisor as those of the API: a status of HTTP, and JSON or, of errors, a sentence. */

#include "containers/containers.h"

static const struct {
        const char *error;
        unsigned status;
        const char *text; /* NULL: that of the error */
} errors[] = {
                {"org.acnspawn.Control.NotPermitted", 401, "The token is not that of this app"},
                {"org.acnspawn.Control.NoSuchContainer", 404, "There is no such container under this app"},
                {CONTROL_TOO_MANY, 429, NULL},
                {CONTROL_BUSY, 503, "The pod cannot be changed now"},
                {"org.acnspawn.Pod.NoSuchApp", 404, "There is no such container under this app"},
                {"org.acnspawn.Pod.NoStdin", 409,
                 "The container has no standard input: launch it with container.tty_info"},
                {"org.acnspawn.Pod.WrongState", 409, "The container is not in a state for this call"},
                {"org.acnspawn.Pod.AppRefused", 400, NULL},
                {"org.acnspawn.Pod.PodEnds", 503, "The pod ends"},
                {"org.acnspawn.Pod.PodPaused", 503, "The pod is paused"},
                {"org.acnspawn.Pod.ForeignProcess", 503, "The container is about to start"},
                {"org.acnspawn.Pod.TooManyAttached", 429,
                 "Too many clients are attached to apps of this pod"},
                {"org.varlink.service.InvalidParameter", 400, "A member of the call has no valid value"},
};

static unsigned answer_error(const char *error, json_object *parameters, char **ret)
{
        json_object *message = json_object_object_get(parameters, "message"),
                    *number = json_object_object_get(parameters, "errno");
        const char *text = message ? json_object_get_string(message) : NULL;
        unsigned status = 500;

        for (size_t i = 0; i < ELEMENTSOF(errors); i++)
                if (streq(errors[i].error, error)) {
                        status = errors[i].status;
                        text = errors[i].text ?: text;
                }
        if (status == 400 && number)
                switch (json_object_get_int(number)) {
                case EPERM:
                        status = 403;
                        break;
                case ENOENT:
                        status = 404;
                        break;
                case EEXIST:
                        status = 409;
                        break;
                }
        if (xasprintf(ret, "%s\n", text ?: "The call has failed") < 0)
                *ret = NULL;
        return status;
}

/* As wait(2) has it. */
static int wait_status(json_object *app)
{
        json_object *status = json_object_object_get(app, "exitStatus"),
                    *signal = json_object_object_get(app, "signal"),
                    *code = json_object_object_get(app, "exitCode");

        if (signal && json_object_get_int(signal) > 0)
                return json_object_get_int(signal);
        return json_object_get_int(status ?: code) << 8;
}

static int add_state(json_object *o, json_object *app)
{
        json_object *task = json_object_object_get(app, "task"),
                    *reason = json_object_object_get(app, "reason");
        _cleanup_free_ char *state = NULL;
        int r = task ? xasprintf(&state, "TASK_%s", json_object_get_string(task)) : 0;

        if (r >= 0 && state)
                r = json_member_add_text(o, "state", state);
        return r < 0 || !reason ? r : json_member_add_text(o, "reason", json_object_get_string(reason));
}

static int describe_end(json_object *o, json_object *app)
{
        int r = json_member_add(o, "exit_status", json_object_new_int(wait_status(app)));

        return r < 0 ? r : add_state(o, app);
}

static int describe_all(json_object *o, json_object *apps)
{
        json_object *list = json_object_new_array();
        int r = json_member_add(o, "containers", list);

        for (size_t i = 0; r >= 0 && i < json_object_array_length(apps); i++) {
                json_object *app = json_object_array_get_idx(apps, i), *one = json_object_new_object(),
                            *name = json_object_object_get(app, "name");
                r = json_list_append(list, one);
                if (r >= 0)
                        r = json_member_add(one, "container_id",
                                            container_id_new(name ? json_object_get_string(name) : ""));
                if (r >= 0)
                        r = add_state(one, app);
        }
        return r;
}

unsigned control_answer(const ContainerCall *call, const char *error, json_object *parameters, char **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *body = json_object_new_object();
        int r = json_member_add_text(o, "type", call->type);

        *ret = NULL;
        if (error) {
                json_object_put(body);
                return answer_error(error, parameters, ret);
        }
        int k = json_member_add(o, call->member, body);
        if (r >= 0 && k >= 0 && call->kind == CALL_WAIT)
                r = describe_end(body, json_object_object_get(parameters, "app"));
        else if (r >= 0 && k >= 0 && call->kind == CALL_LIST)
                r = describe_all(body, json_object_object_get(parameters, "apps"));
        else if (k >= 0) {
                *ret = strdup("");
                return *ret ? 200 : 500;
        }
        const char *text = r < 0 || k < 0 ? NULL : json_print(o);
        *ret = text ? strdup(text) : NULL;
        return *ret ? 200 : 500;
}

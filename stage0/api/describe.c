/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses descriptions of a pod and its apps by its supervisor into structures. Members that are missing or
 * unknown are ignored: supervisors of other versions have fewer, or more. */

#include "stage0/api/api-internal.h"

static const char *const app_states[_ACN_APP_STATE_MAX] = {
                [ACN_APP_REMOVED] = "removed",   [ACN_APP_CREATED] = "created",
                [ACN_APP_STARTING] = "starting", [ACN_APP_RUNNING] = "running",
                [ACN_APP_STOPPING] = "stopping", [ACN_APP_EXITED] = "exited",
                [ACN_APP_REMOVING] = "removing",
};

static const char *const pod_states[_ACN_POD_STATE_MAX] = {
                [ACN_POD_RUNNING] = "running",
                [ACN_POD_PAUSED] = "paused",
                [ACN_POD_STOPPING] = "stopping",
                [ACN_POD_EXITED] = "exited",
};

const char *acn_app_state_to_string(AcnAppState s)
{
        return s < _ACN_APP_STATE_MAX ? app_states[s] : NULL;
}

const char *acn_pod_state_to_string(AcnPodState s)
{
        return s < _ACN_POD_STATE_MAX ? pod_states[s] : NULL;
}

/* --- Members ------------------------------------------------------------------------------------------- */

static json_object *member(json_object *o, const char *key, json_type type)
{
        json_object *value = NULL;

        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &value))
                return NULL;
        return json_object_is_type(value, type) ? value : NULL;
}

const char *acn_text(json_object *o, const char *key)
{
        json_object *value = member(o, key, json_type_string);

        return value ? json_object_get_string(value) : NULL;
}

int64_t acn_number(json_object *o, const char *key, int64_t otherwise)
{
        json_object *value = member(o, key, json_type_int);

        return value ? json_object_get_int64(value) : otherwise;
}

static int copy_text(json_object *o, const char *key, char **ret)
{
        const char *value = acn_text(o, key);

        *ret = value ? strdup(value) : NULL;
        return value && !*ret ? -ENOMEM : 0;
}

static uint64_t positive(json_object *o, const char *key)
{
        return (uint64_t) MAX(acn_number(o, key, 0), INT64_C(0));
}

/* --- Apps ---------------------------------------------------------------------------------------------- */

void acn_app_done(AcnApp *a)
{
        free(a->name);
        free(a->image);
        free(a->image_id);
        free(a->cause);
        free(a->health);
        free(a->task);
        free(a->reason);
        free(a->message);
        *a = (AcnApp){};
}

/* Values for supervisors that do not report them. */
static int derive_exit_code(const AcnApp *a)
{
        if (a->signal > 0)
                return 128 + a->signal;
        return a->exit_status >= 0 ? a->exit_status : 125;
}

int acn_app_read(json_object *o, AcnApp *ret)
{
        json_object *ready = member(o, "ready", json_type_boolean);
        AcnApp a = {.starts = positive(o, "starts"),
                    .started_usec = positive(o, "startedUSec"),
                    .ended_usec = positive(o, "endedUSec"),
                    .tells_readiness = ready,
                    .ready = ready && json_object_get_boolean(ready),
                    .exit_status = (int) acn_number(o, "exitStatus", -1),
                    .signal = (int) acn_number(o, "signal", 0)};

        int state = word_index(app_states, ELEMENTSOF(app_states), acn_text(o, "state"));
        if (state < 0 || !acn_text(o, "name"))
                return -EBADMSG;
        a.state = (AcnAppState) state;
        if (a.state == ACN_APP_EXITED)
                a.exit_code = (int) acn_number(o, "exitCode", derive_exit_code(&a));
        if (copy_text(o, "name", &a.name) < 0 || copy_text(o, "image", &a.image) < 0 ||
            copy_text(o, "imageID", &a.image_id) < 0 || copy_text(o, "cause", &a.cause) < 0 ||
            copy_text(o, "health", &a.health) < 0 || copy_text(o, "task", &a.task) < 0 ||
            copy_text(o, "reason", &a.reason) < 0 || copy_text(o, "message", &a.message) < 0) {
                acn_app_done(&a);
                return -ENOMEM;
        }
        *ret = a;
        return 0;
}

/* --- Pods ---------------------------------------------------------------------------------------------- */

AcnPodState acn_pod_state_read(json_object *o)
{
        int state = word_index(pod_states, ELEMENTSOF(pod_states), acn_text(o, "state"));

        return state < 0 ? _ACN_POD_STATE_MAX : (AcnPodState) state;
}

void acn_description_done(AcnDescription *d)
{
        for (size_t i = 0; i < d->n_apps; i++)
                acn_app_done(&d->apps[i]);
        free(d->apps);
        free(d->uuid);
        free(d->name);
        free(d->exit_policy);
        *d = (AcnDescription){};
}

static int read_apps(json_object *o, AcnDescription *d)
{
        json_object *list = member(o, "apps", json_type_array);
        size_t n = list ? json_object_array_length(list) : 0;

        d->apps = calloc(n + 1, sizeof(AcnApp));
        if (!d->apps)
                return -ENOMEM;
        for (; d->n_apps < n; d->n_apps++) {
                int r = acn_app_read(json_object_array_get_idx(list, d->n_apps), &d->apps[d->n_apps]);
                if (r < 0)
                        return r;
        }
        return list ? 0 : -EBADMSG;
}

static int read_description(json_object *o, AcnDescription *ret)
{
        _cleanup_(acn_description_done) AcnDescription d = {.state = acn_pod_state_read(o),
                                                            .sequence = positive(o, "sequence")};

        if (d.state == _ACN_POD_STATE_MAX)
                return -EBADMSG;
        if (copy_text(o, "uuid", &d.uuid) < 0 || copy_text(o, "name", &d.name) < 0 ||
            copy_text(o, "exitPolicy", &d.exit_policy) < 0)
                return -ENOMEM;
        int r = read_apps(o, &d);
        if (r < 0)
                return r;
        *ret = d;
        d = (AcnDescription){};
        return 0;
}

int acn_describe(AcnPod *a, AcnDescription *ret, Error *e)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};
        const AcnCall call = {.method = "Describe", .what = "describe"};

        int r = acn_call(a, &call, &reply, e);
        if (r < 0)
                return r;
        r = read_description(reply.parameters, ret);
        return r < 0 ? acn_connection_error(a, r, e) : 0;
}

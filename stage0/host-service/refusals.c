/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Errors of the interface about parameters that are not valid. */

#include "stage0/host-service/service-internal.h"

json_object *error_to_json(const Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add_text(o, "message", e->message ?: "The operation failed") < 0 ||
            (e->hint && json_member_add_text(o, "hint", e->hint) < 0))
                return NULL;
        return TAKE_PTR(o);
}

static int refuse(HostJob *j, const char *error, const char *key, const char *value, Error *e)
{
        json_object *o = error_to_json(e);

        if (json_member_add_text(o, key, value) < 0) {
                json_object_put(o);
                return error_oom(e);
        }
        return job_reply_error(j, error, o);
}

int job_refuse_pod(HostJob *j, int r, const char *pod, Error *e)
{
        if (r == -ENOENT)
                return refuse(j, "NoSuchPod", "pod", pod, e);
        return r == -ENOTUNIQ ? refuse(j, "AmbiguousPod", "pod", pod, e) : r;
}

int job_refuse_image(HostJob *j, int r, const char *image, Error *e)
{
        if (r == -ENOENT)
                return refuse(j, "NoSuchImage", "image", image, e);
        if (r == -EBUSY)
                return refuse(j, "ImageInUse", "image", image, e);
        return r == -ENOTUNIQ ? refuse(j, "AmbiguousImage", "image", image, e) : r;
}

int job_refuse_state(HostJob *j, Pod *p)
{
        json_object *o = json_object_new_object();

        if (json_member_add_text(o, "pod", p->uuid) >= 0 &&
            json_member_add_text(o, "state", pod_shown_state(p)) >= 0)
                return job_reply_error(j, "WrongState", o);
        json_object_put(o);
        return -ENOMEM;
}

int job_refuse_field(HostJob *j, const char *field, Error *e)
{
        return refuse(j, "InvalidRequest", "field", field, e);
}

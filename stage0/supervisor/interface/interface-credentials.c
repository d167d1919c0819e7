/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The method that compares credentials with those that an app has.
 *
 * They are known to the app and to the supervisor alone, so that no digest of a secret has to be kept anywhere. */

#include "stage0/supervisor/interface/interface-internal.h"

int interface_read_credentials(json_object *list, CredentialList *l, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
                json_object *o = json_object_array_get_idx(list, i);
                const char *name = json_object_get_string(json_object_object_get(o, "name")),
                           *hex = json_object_get_string(json_object_object_get(o, "data"));
                r = name && hex ? credential_list_add_hex(l, name, hex, e)
                                : error_set(e, -EINVAL, "the name or the data are missing");
        }
        return r;
}

static int reply(VarlinkCall *call, char *const *names)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *list = json_object_new_array();

        int r = json_member_add(o, "different", list);
        STRV_FOREACH (name, names)
                if (r >= 0)
                        r = json_list_append(list, json_object_new_string(*name));
        return r < 0 ? r : varlink_reply(call, o);
}

int interface_compare_credentials(VarlinkCall *call, json_object *parameters, void *userdata)
{
        const char *name = json_object_get_string(json_object_object_get(parameters, "app"));
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_error_ Error e = ERROR_NULL;
        Interface *i = userdata;
        const AppInstance *app = interface_find_app(i, name);
        CredentialList l = {};

        if (!app)
                return interface_reply_error(call, "org.acnspawn.Pod.NoSuchApp", "app", name, NULL, NULL);
        if (!app->units[0].known) /* the pod boots: the mounts with its credentials may not exist yet */
                return interface_defer(i, call, parameters, interface_compare_credentials);
        int r = interface_read_credentials(json_object_object_get(parameters, "credentials"), &l, &e);
        bool valid = r >= 0 || r == -ENOMEM;
        if (r >= 0)
                r = i->ops.compare_credentials(i->userdata, app, &l, &names);
        credential_list_done(&l);
        if (!valid)
                return varlink_reply_invalid_parameter(call, "credentials");
        return r < 0 ? r : reply(call, names);
}

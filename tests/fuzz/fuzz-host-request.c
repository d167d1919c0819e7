/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parameters of PreparePod() of org.acnspawn.Host: JSON that matches the description of the interface. What is read has to
 * be valid as far as it is used without another check. */

#include "schema/idl.h"
#include "stage0/host-service/service-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const PodArguments *a)
{
        for (size_t i = 0; i < a->request.n_apps; i++)
                if (isempty(a->request.apps[i].reference) || streq(a->request.apps[i].reference, "-"))
                        abort();
        if (a->options.name && pod_name_check(a->options.name, NULL) < 0)
                abort();
        if (a->request.n_apps == 0 && !a->request.template && !exit_policy_is_open(a->options.exit_policy))
                abort();
}

static void parse(json_object *parameters)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *field = NULL;

        pod_arguments_init(&a);
        int r = host_request_parse(parameters, &a, &field, &e);
        if (r >= 0)
                check(&a);
        else if (r == -EINVAL && (!field || !e.message))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_json_ json_object *o = NULL;
        char where[IDL_NAME_MAX];
        const char *type;

        if (json_parse_bounded((const char *) data, size, VARLINK_DEPTH_MAX, VARLINK_VALUES_MAX, &o, NULL,
                               NULL) < 0 ||
            !json_object_is_type(o, json_type_object))
                return 0;
        if (idl_find(host_interface_description, "method", "PreparePod", &type) < 0)
                abort();
        if (idl_compare(host_interface_description, type, o, where) >= 0)
                parse(o);
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Resource isolators (spec: ace.md, "Resource Isolators"): a request, a limit, and whether they apply by
 * default. */

#include "schema/schema-internal.h"

typedef struct Amount {
        bool given;
        uint64_t value;
} Amount;

typedef struct Resource {
        bool is_default;
        Amount request, limit;
} Resource;

/* Before 0.7.0 resource/cpu was in milli-cores and had neither fractions nor the suffix m: a number with one
 * of these is in cores in any version. */
static bool uses_milli_cores(const Parser *p, const Type *t, const char *s)
{
        return p->milli_cores && t->scale == 1000 && !strpbrk(s, ".mnu");
}

/* A string, or, as in the reference, also a bare number. */
static void amount_parse(Parser *p, const Type *t, json_object *v, void *target)
{
        _cleanup_error_ Error e = {};
        Amount *a = target;

        if (!json_object_is_type(v, json_type_string) && !json_object_is_type(v, json_type_int) &&
            !json_object_is_type(v, json_type_double)) {
                parser_wrong_type(p, "a quantity such as \"1G\"", v);
                return;
        }
        const char *s = json_object_get_string(v);
        if (!s) {
                p->oom = true;
                return;
        }
        if (quantity_parse(s, uses_milli_cores(p, t, s) ? 1 : t->scale, &a->value, &e) < 0)
                parser_finding_error(p, &e);
        else
                a->given = true;
}

static const Type type_amount = {.parse = amount_parse, .scale = 1};
static const Type type_cores = {.parse = amount_parse, .scale = 1000};

static const Field resource_fields[] = {
                {"default", &type_bool, offsetof(Resource, is_default)},
                {"request", &type_amount, offsetof(Resource, request)},
                {"limit", &type_amount, offsetof(Resource, limit)},
                {},
};
static const Type type_resource = {.fields = resource_fields};

static const Field cpu_fields[] = {
                {"default", &type_bool, offsetof(Resource, is_default)},
                {"request", &type_cores, offsetof(Resource, request)},
                {"limit", &type_cores, offsetof(Resource, limit)},
                {},
};
static const Type type_cpu = {.fields = cpu_fields};

static void resource_parse(Parser *p, const Type *t, json_object *v, bool is_default, Isolator *i)
{
        Resource resource = {};

        object_parse(p, t, v, &resource);
        if (!json_object_is_type(v, json_type_object))
                return;
        if (resource.is_default != is_default)
                parser_finding_at(p, "default", is_default ? "must be true" : "must be false");
        if (is_default && resource.request.given)
                parser_finding_at(p, "request", "is not supported for this resource");
        i->has_request = resource.request.given;
        i->request = resource.request.value;
        i->has_limit = resource.limit.given;
        i->limit = resource.limit.value;
}

/* Bandwidths and operations have only a limit, which applies to all devices: "default" must be present and
 * true. */
void isolator_bandwidth_parse(Parser *p, json_object *v, Isolator *i)
{
        resource_parse(p, &type_resource, v, true, i);
}

void isolator_memory_parse(Parser *p, json_object *v, Isolator *i)
{
        resource_parse(p, &type_resource, v, false, i);
}

/* Only a limit: processes cannot be reserved. */
void isolator_tasks_parse(Parser *p, json_object *v, Isolator *i)
{
        resource_parse(p, &type_resource, v, false, i);
        if (i->has_request)
                parser_finding_at(p, "request", "is not supported for this resource");
        if (i->has_limit && i->limit == 0)
                parser_finding_at(p, "limit", "must be greater than 0");
}

static int milli_add(json_object *o, const char *key, bool given, uint64_t value)
{
        char s[32];

        if (!given)
                return 0;
        snprintf(s, sizeof(s), "%" PRIu64 "m", value);
        return json_member_add(o, key, json_object_new_string(s));
}

/* Rewrites a value in milli-cores so that it has the same meaning in every version, since isolators are
 * copied from image manifests to pod manifests of other versions. */
static void cpu_modernize(Parser *p, Isolator *i)
{
        json_object *o = json_object_new_object();

        if (!o || milli_add(o, "request", i->has_request, i->request) < 0 ||
            milli_add(o, "limit", i->has_limit, i->limit) < 0) {
                json_object_put(o);
                p->oom = true;
                return;
        }
        json_object_put(i->value);
        i->value = o;
}

void isolator_cpu_parse(Parser *p, json_object *v, Isolator *i)
{
        resource_parse(p, &type_cpu, v, false, i);
        if (p->milli_cores && json_object_is_type(v, json_type_object))
                cpu_modernize(p, i);
}

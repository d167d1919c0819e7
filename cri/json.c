/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What "crictl info", "inspect" and "inspectp" show beside the messages, as JSON. Tools read it by the names that containerd has, so
 * these are the same where the thing is the same; the names of acnspawn's own things come beside them.
 *
 * Messages become objects by their descriptors: names as in the schema, numbers of enumerations, and no member with the default
 * value. Messages of the CRI do not contain themselves, so the depth is that of the schema. */

#include "cri/cri-internal.h"
#include "cri/sandbox.h"
#include "schema/schema.h"

static bool is_entry_of_map(const ProtobufCMessageDescriptor *d)
{
        return d->n_fields == 2 && endswith(d->name, "Entry") && streq(d->fields[0].name, "key") &&
               streq(d->fields[1].name, "value") && d->fields[0].type == PROTOBUF_C_TYPE_STRING;
}

/* The value at P. NULL: out of memory. */
static json_object *value_of(const ProtobufCFieldDescriptor *f, const void *p)
{
        switch (f->type) {
        case PROTOBUF_C_TYPE_INT32:
        case PROTOBUF_C_TYPE_SINT32:
        case PROTOBUF_C_TYPE_SFIXED32:
        case PROTOBUF_C_TYPE_ENUM:
                return json_object_new_int(*(const int32_t *) p);
        case PROTOBUF_C_TYPE_UINT32:
        case PROTOBUF_C_TYPE_FIXED32:
                return json_object_new_int64(*(const uint32_t *) p);
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_SINT64:
        case PROTOBUF_C_TYPE_SFIXED64:
                return json_object_new_int64(*(const int64_t *) p);
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
                return json_object_new_uint64(*(const uint64_t *) p);
        case PROTOBUF_C_TYPE_FLOAT:
                return json_object_new_double((double) *(const float *) p);
        case PROTOBUF_C_TYPE_DOUBLE:
                return json_object_new_double(*(const double *) p);
        case PROTOBUF_C_TYPE_BOOL:
                return json_object_new_boolean(*(const protobuf_c_boolean *) p);
        case PROTOBUF_C_TYPE_STRING:
                return json_new_string_lossy(*(char *const *) p ?: "");
        case PROTOBUF_C_TYPE_MESSAGE:
                return cri_json(*(const ProtobufCMessage *const *) p);
        case PROTOBUF_C_TYPE_BYTES: /* there are none in what is shown */
                break;
        }
        return json_object_new_string("");
}

static bool is_shown(const ProtobufCFieldDescriptor *f, const void *p)
{
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
                return *(void *const *) p;
        return f->type != PROTOBUF_C_TYPE_BYTES && cri_field_is_set(f, p);
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
        switch (f->type) {
        case PROTOBUF_C_TYPE_STRING:
        case PROTOBUF_C_TYPE_MESSAGE:
                return sizeof(void *);
        case PROTOBUF_C_TYPE_BYTES:
                return sizeof(ProtobufCBinaryData);
        case PROTOBUF_C_TYPE_BOOL:
                return sizeof(protobuf_c_boolean);
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_SINT64:
        case PROTOBUF_C_TYPE_SFIXED64:
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
        case PROTOBUF_C_TYPE_DOUBLE:
                return sizeof(uint64_t);
        default:
                return sizeof(uint32_t);
        }
}

static json_object *list_of(const ProtobufCFieldDescriptor *f, const char *items, size_t n)
{
        _cleanup_json_ json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < n; i++)
                if (json_list_append(list, value_of(f, items + i * size_of(f))) < 0)
                        return NULL;
        return TAKE_PTR(list);
}

static json_object *map_of(const ProtobufCFieldDescriptor *f, ProtobufCMessage *const *items, size_t n)
{
        _cleanup_json_ json_object *map = json_object_new_object();

        for (size_t i = 0; map && i < n; i++) {
                const ProtobufCFieldDescriptor *key = &items[i]->descriptor->fields[0],
                                               *value = &items[i]->descriptor->fields[1];
                const char *name = *(char *const *) (const void *) ((const char *) items[i] + key->offset);
                if (json_member_add(map, name ?: "",
                                    value_of(value, (const char *) items[i] + value->offset)) < 0)
                        return NULL;
        }
        return TAKE_PTR(map);
}

static int add_field(json_object *o, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
        const char *p = (const char *) m + f->offset;

        if (f->label != PROTOBUF_C_LABEL_REPEATED)
                return is_shown(f, p) ? json_member_add(o, f->name, value_of(f, p)) : 0;
        size_t n = *(const size_t *) (const void *) ((const char *) m + f->quantifier_offset);
        void *const items = *(void *const *) (const void *) p;
        if (n == 0)
                return 0;
        return json_member_add(o, f->name,
                               f->type == PROTOBUF_C_TYPE_MESSAGE && is_entry_of_map(f->descriptor)
                                               ? map_of(f, items, n)
                                               : list_of(f, items, n));
}

json_object *cri_json(const ProtobufCMessage *m)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        for (unsigned i = 0; o && m && i < m->descriptor->n_fields; i++)
                if (add_field(o, m, &m->descriptor->fields[i]) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

/* --- A process, in words of the OCI runtime specification ---------------------------------------------- */

json_object *cri_json_linux(const char *cgroup, pid_t pid)
{
        static const char *const namespaces[][2] = {
                        {"pid", "pid"}, {"network", "net"},   {"mount", "mnt"}, {"ipc", "ipc"},
                        {"uts", "uts"}, {"cgroup", "cgroup"}, {"user", "user"}};
        _cleanup_json_ json_object *o = json_object_new_object(), *list = json_object_new_array();

        if (!o || !list || (cgroup && json_member_add_text(o, "cgroupsPath", cgroup) < 0))
                return NULL;
        for (size_t i = 0; pid > 0 && i < ELEMENTSOF(namespaces); i++) {
                json_object *item = json_new_text_member("type", namespaces[i][0]);
                char path[64];

                snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, namespaces[i][1]);
                if (json_list_append(list, item) < 0 || json_member_add_text(item, "path", path) < 0)
                        return NULL;
        }
        return json_member_add(o, "namespaces", TAKE_PTR(list)) < 0 ? NULL : TAKE_PTR(o);
}

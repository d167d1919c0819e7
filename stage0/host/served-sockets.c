/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets passed to a pod and the ports that they serve, as a small JSON file in its directory. It
 * exists only if there are some. */

#include "stage0/host/host.h"

#define RECORD_FILE "sockets"
#define RECORD_SIZE_MAX (1024U * 1024U)

static const struct {
        const char *key;
        size_t offset;
} members[] = {
                {"app", offsetof(ServedSocket, app)},   {"port", offsetof(ServedSocket, port)},
                {"type", offsetof(ServedSocket, type)}, {"address", offsetof(ServedSocket, address)},
                {"name", offsetof(ServedSocket, name)}, {"exposed", offsetof(ServedSocket, exposed)},
};

static char **member_of(const ServedSocket *s, size_t i)
{
        return (char **) ((char *) s + members[i].offset);
}

void served_sockets_free(ServedSocket *l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < ELEMENTSOF(members); k++)
                        free(*member_of(&l[i], k));
        free(l);
}

static json_object *format_socket(const ServedSocket *s)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        for (size_t k = 0; k < ELEMENTSOF(members); k++)
                if (*member_of(s, k) && json_member_add_text(o, members[k].key, *member_of(s, k)) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

int served_sockets_write(Pod *p, const ServedSocket *l, size_t n)
{
        _cleanup_json_ json_object *list = NULL;

        if (n == 0)
                return unlinkat(p->dir_fd, RECORD_FILE, 0) < 0 && errno != ENOENT ? -errno : 0;
        list = json_object_new_array();
        for (size_t i = 0; i < n; i++)
                if (json_list_append(list, format_socket(&l[i])) < 0)
                        return -ENOMEM;
        const char *text = json_print(list);
        return text ? write_file_atomic_at(p->dir_fd, RECORD_FILE, text, strlen(text), 0600, false)
                    : -ENOMEM;
}

static int parse_socket(json_object *o, ServedSocket *ret)
{
        for (size_t k = 0; k < ELEMENTSOF(members); k++) {
                json_object *v;

                if (!json_object_object_get_ex(o, members[k].key, &v))
                        continue;
                if (!json_object_is_type(v, json_type_string))
                        return -EBADMSG;
                if (!(*member_of(ret, k) = strdup(json_object_get_string(v))))
                        return -ENOMEM;
        }
        return ret->app && ret->port && ret->type && ret->address ? 0 : -EBADMSG;
}

int served_sockets_read(Pod *p, ServedSocket **ret, size_t *ret_n)
{
        _cleanup_json_ json_object *list = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size, n = 0;

        int r = read_file_at(p->dir_fd, RECORD_FILE, RECORD_SIZE_MAX, &text, &size);
        if (r >= 0)
                r = json_parse_strict(text, size, &list, NULL, NULL);
        if (r >= 0 && !json_object_is_type(list, json_type_array))
                r = -EBADMSG;
        if (r < 0)
                return r;
        ServedSocket *l = calloc(json_object_array_length(list) + 1, sizeof(ServedSocket));
        if (!l)
                return -ENOMEM;
        for (; r >= 0 && n < json_object_array_length(list); n++)
                r = parse_socket(json_object_array_get_idx(list, n), &l[n]);
        if (r < 0) {
                served_sockets_free(l, n);
                return r;
        }
        *ret = l;
        *ret_n = n;
        return 0;
}

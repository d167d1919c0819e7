/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads files of the Container Device Interface.
 *
 * A file is written by the driver of a device, as root of the host: it is checked so that a mistake in it is named, and cannot become
 * something else. What it asks for and what is not supported, such as hooks of some names, is remembered, and refused for containers that request the
 * device; other devices of the file can be used. Members that are unknown are ignored, as newer versions of the specification may
 * have them. */

#include "cri/cdi/cdi.h"
#include "cri/cdi/cdi-yaml.h"

#define DEPTH_MAX 12U
#define VALUES_MAX 65536U
#define LIST_MAX 4096U

/* --- Memory -------------------------------------------------------------------------------------------- */

static void edits_done(CdiEdits *x)
{
        for (size_t i = 0; i < x->n_nodes; i++) {
                free(x->nodes[i].path);
                free(x->nodes[i].host_path);
        }
        for (size_t i = 0; i < x->n_mounts; i++) {
                free(x->mounts[i].source);
                free(x->mounts[i].target);
        }
        free(x->nodes);
        free(x->mounts);
        free(x->gids);
        free(x->unsupported);
        pair_list_done(&x->environment);
        hook_list_done(&x->hooks);
}

CdiSpec *cdi_spec_free(CdiSpec *s)
{
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n_devices; i++) {
                free(s->devices[i].name);
                edits_done(&s->devices[i].edits);
        }
        edits_done(&s->edits);
        free(s->devices);
        free(s->kind);
        free(s);
        return NULL;
}

/* --- Names --------------------------------------------------------------------------------------------- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static bool is_word(const char *s, size_t n, const char *more)
{
        if (n == 0 || !strchr(LETTERS, s[0]) || !strchr(LETTERS, s[n - 1]))
                return false;
        for (size_t i = 0; i < n; i++)
                if (!strchr(LETTERS, s[i]) && !strchr(more, s[i]))
                        return false;
        return true;
}

static bool is_kind(const char *s, size_t n)
{
        const char *slash = memchr(s, '/', n);

        return slash && is_word(s, (size_t) (slash - s), "-_.") &&
               is_word(slash + 1, n - (size_t) (slash - s) - 1, "-_");
}

const char *cdi_name_split(const char *s)
{
        const char *equals = strchr(s, '=');

        return equals && is_kind(s, (size_t) (equals - s)) && is_word(equals + 1, strlen(equals + 1), "-_.:")
                               ? equals + 1
                               : NULL;
}

const CdiDevice *cdi_spec_find(const CdiSpec *s, const char *name)
{
        for (size_t i = 0; i < s->n_devices; i++)
                if (streq(s->devices[i].name, name))
                        return &s->devices[i];
        return NULL;
}

/* --- Members ------------------------------------------------------------------------------------------- */

static int read_path(json_object *o, const char *key, const char **ret, Error *e)
{
        int r = json_member_read_text(o, key, "", ret, e);
        if (r < 0 || !*ret)
                return r;
        if (path_is_normalized(*ret) && !strpbrk(*ret, ",\n") && !strstr(*ret, ":/"))
                return 0;
        return error_set(e, -EINVAL, "\"%s\" is '%s', which is not an absolute path that can be used", key,
                         *ret);
}

static int read_list(json_object *o, const char *key, json_object **ret, size_t *ret_n, Error *e)
{
        return json_member_read_list(o, key, "", LIST_MAX, ret, ret_n, e);
}

static int note_unsupported(CdiEdits *x, const char *what)
{
        if (!x->unsupported)
                x->unsupported = strdup(what);
        return x->unsupported ? 0 : -ENOMEM;
}

/* --- Edits --------------------------------------------------------------------------------------------- */

static int read_variable(json_object *v, CdiEdits *x, Error *e)
{
        const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL,
                   *equals = s ? strchr(s, '=') : NULL;
        _cleanup_free_ char *name = equals ? strndup(s, (size_t) (equals - s)) : NULL;

        if (equals && !name)
                return error_oom(e);
        if (!equals || environment_name_check(name, NULL) < 0)
                return error_set(e, -EINVAL, "\"env\" has an entry that is not NAME=VALUE");
        return pair_list_set(&x->environment, name, equals + 1) < 0 ? error_oom(e) : 0;
}

bool cdi_read_permissions(const char *s, char ret[static 4])
{
        size_t n = 0;

        if (isempty(s) || strspn(s, "rwm") != strlen(s))
                return false;
        for (const char *letter = "rwm"; *letter; letter++)
                if (strchr(s, *letter))
                        ret[n++] = *letter;
        ret[n] = 0;
        return true;
}

static int read_node(json_object *o, CdiEdits *x, Error *e)
{
        const char *path = NULL, *host = NULL, *permissions = NULL;

        int r = read_path(o, "path", &path, e);
        if (r >= 0)
                r = read_path(o, "hostPath", &host, e);
        if (r >= 0)
                r = json_member_read_text(o, "permissions", "", &permissions, e);
        if (r < 0)
                return r;
        if (!path || !startswith(path, "/dev/"))
                return error_set(e, -EINVAL, "A device node has no \"path\" below /dev");
        char letters[4] = "rwm";
        if (!isempty(permissions) && !cdi_read_permissions(permissions, letters) &&
            note_unsupported(x, "permissions of device nodes that are not letters of \"rwm\"") < 0)
                return error_oom(e);
        if (GREEDY_REALLOC(x->nodes, x->nodes_allocated, x->n_nodes + 1) < 0)
                return error_oom(e);
        CdiNode *n = &x->nodes[x->n_nodes++];
        *n = (CdiNode){.path = strdup(path), .host_path = strdup(host ?: path)};
        memcpy(n->permissions, letters, sizeof(letters));
        return n->path && n->host_path ? 0 : error_oom(e);
}

/* Those that mounts have anyway, and those that make a difference. */
static int read_mount_options(json_object *o, CdiMount *m, CdiEdits *x, Error *e)
{
        static const char *const known[] = {"bind", "rbind", "private", "rprivate",
                                            "rw",   "dev",   "suid",    "exec"};
        json_object *list;
        bool nodev = false, nosuid = false;
        size_t n;

        int r = read_list(o, "options", &list, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                json_object *v = json_object_array_get_idx(list, i);
                const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
                bool found = false;
                if (!s)
                        return error_set(e, -EINVAL, "\"options\" is not a list of strings");
                m->read_only |= streq(s, "ro");
                nodev |= streq(s, "nodev");
                nosuid |= streq(s, "nosuid");
                for (size_t k = 0; k < ELEMENTSOF(known); k++)
                        found |= streq(s, known[k]);
                if (!found && !streq(s, "ro") && !streq(s, "nodev") && !streq(s, "nosuid") &&
                    note_unsupported(x, "options of mounts other than ro, nodev and nosuid") < 0)
                        return error_oom(e);
        }
        m->plain = nodev && nosuid;
        return r;
}

static int read_mount(json_object *o, CdiEdits *x, Error *e)
{
        const char *source = NULL, *target = NULL, *type = NULL;

        int r = read_path(o, "hostPath", &source, e);
        if (r >= 0)
                r = read_path(o, "containerPath", &target, e);
        if (r >= 0)
                r = json_member_read_text(o, "type", "", &type, e);
        if (r < 0)
                return r;
        if (!source || !target)
                return error_set(e, -EINVAL, "A mount has no \"hostPath\", or no \"containerPath\"");
        if (!isempty(type) && !streq(type, "bind") && !streq(type, "none") &&
            note_unsupported(x, "mounts of file systems") < 0)
                return error_oom(e);
        if (GREEDY_REALLOC(x->mounts, x->mounts_allocated, x->n_mounts + 1) < 0)
                return error_oom(e);
        CdiMount *m = &x->mounts[x->n_mounts++];
        *m = (CdiMount){.source = strdup(source), .target = strdup(target)};
        return m->source && m->target ? read_mount_options(o, m, x, e) : error_oom(e);
}

/* The specification has group 0 ignored. */
static int read_gid(json_object *v, CdiEdits *x, Error *e)
{
        int64_t gid = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : -1;

        if (gid < 0 || gid >= UINT32_MAX)
                return error_set(e, -EINVAL,
                                 "\"additionalGids\" has an entry that is not the number of a group");
        if (gid == 0)
                return 0;
        if (GREEDY_REALLOC(x->gids, x->gids_allocated, x->n_gids + 1) < 0)
                return error_oom(e);
        x->gids[x->n_gids++] = (uint32_t) gid;
        return 0;
}

/* Those of other times run where a container has nothing of the host, or when none is there. */
static int read_hook(json_object *o, CdiEdits *x, Error *e)
{
        const char *name = NULL, *path = NULL;
        _cleanup_free_ char *what = NULL;

        int r = json_member_read_text(o, "hookName", "", &name, e);
        if (r >= 0)
                r = read_path(o, "path", &path, e);
        if (r < 0)
                return r;
        if (!path)
                return error_set(e, -EINVAL, "A hook has no \"path\"");
        if (name && streq(name, "createContainer"))
                return hook_list_read(&x->hooks, o, e);
        if (xasprintf(&what, CDI_HOOK "%s%s%s", name ?: "", name ? " of " : "", path) < 0 ||
            note_unsupported(x, what) < 0)
                return error_oom(e);
        return 0;
}

static int read_edits(json_object *parent, CdiEdits *x, Error *e)
{
        static const struct {
                const char *key;
                int (*read)(json_object *o, CdiEdits *x, Error *e);
        } lists[] = {{"env", read_variable},
                     {"deviceNodes", read_node},
                     {"mounts", read_mount},
                     {"additionalGids", read_gid},
                     {"hooks", read_hook}};
        static const char *const unsupported[] = {"intelRdt", "netDevices"};
        json_object *edits, *list, *value;
        size_t n;

        int r = json_member_read(parent, "containerEdits", json_type_object, "", &edits, e);
        if (r < 0 || !edits)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(lists); i++) {
                r = read_list(edits, lists[i].key, &list, &n, e);
                for (size_t k = 0; r >= 0 && k < n; k++)
                        r = lists[i].read(json_object_array_get_idx(list, k), x, e);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < ELEMENTSOF(unsupported); i++)
                if (json_object_object_get_ex(edits, unsupported[i], &value) && value &&
                    !(json_object_is_type(value, json_type_array) && json_object_array_length(value) == 0) &&
                    note_unsupported(x, unsupported[i]) < 0)
                        return error_oom(e);
        return 0;
}

/* --- The file ------------------------------------------------------------------------------------------ */

static int read_device(json_object *o, CdiSpec *s, Error *e)
{
        const char *name = NULL;

        int r = json_member_read_text(o, "name", "", &name, e);
        if (r < 0)
                return r;
        if (!name || !is_word(name, strlen(name), "-_.:"))
                return error_set(e, -EINVAL, "'%s' is not the name of a device", name ?: "");
        if (cdi_spec_find(s, name))
                return error_set(e, -EINVAL, "There are two devices '%s'", name);
        if (GREEDY_REALLOC(s->devices, s->devices_allocated, s->n_devices + 1) < 0)
                return error_oom(e);
        CdiDevice *d = &s->devices[s->n_devices];
        *d = (CdiDevice){.name = strdup(name)};
        if (!d->name)
                return error_oom(e);
        s->n_devices++;
        r = read_edits(o, &d->edits, e);
        return r < 0 ? error_prefix(e, r, "Device '%s'", name) : 0;
}

static int read_spec(json_object *o, CdiSpec *s, Error *e)
{
        const char *kind = NULL;
        json_object *list;
        size_t n = 0;

        int r = json_member_read_text(o, "kind", "", &kind, e);
        if (r < 0)
                return r;
        if (!kind || !is_kind(kind, strlen(kind)))
                return error_set(e, -EINVAL,
                                 "\"kind\" is '%s', which is not a kind of devices as example.com/net",
                                 kind ?: "");
        s->kind = strdup(kind);
        if (!s->kind)
                return error_oom(e);
        r = read_edits(o, &s->edits, e);
        if (r >= 0)
                r = read_list(o, "devices", &list, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = read_device(json_object_array_get_idx(list, i), s, e);
        return r;
}

int cdi_spec_parse(const char *text, size_t size, bool yaml, CdiSpec **ret, Error *e)
{
        _cleanup_(cdi_spec_freep) CdiSpec *s = calloc(1, sizeof(CdiSpec));
        _cleanup_json_ json_object *o = NULL;

        if (!s)
                return error_oom(e);
        int r = yaml ? yaml_parse(text, size, DEPTH_MAX, VALUES_MAX, &o, e)
                     : json_parse_bounded(text, size, DEPTH_MAX, VALUES_MAX, &o, NULL, e);
        if (r >= 0)
                r = read_spec(o, s, e);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        *ret = TAKE_PTR(s);
        return 0;
}

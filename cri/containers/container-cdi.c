/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices that a request names by the Container Device Interface: what the files of the host say about them becomes environment, device
 * nodes, mounts, groups and hooks of the container. The directories are read for each request; a later one has precedence. */

#include <dirent.h>

#include "cri/cdi/cdi.h"
#include "cri/sandbox.h"
#include "schema/settings.h"

#define FILES_MAX 1024U

static int read_file(int dir_fd, const char *name, CdiSpec **ret, Error *e)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(dir_fd, name, CDI_FILE_SIZE_MAX, &text, &size);
        return r < 0 ? error_set_errno(e, r, "Cannot read it")
                     : cdi_spec_parse(text, size, endswith(name, ".yaml"), ret, e);
}

/* *RET: the file of DIRECTORY that has the device; NULL: none has. A file that cannot be read has none, and *BAD says why. */
static int find_in_directory(const char *directory, const char *kind, size_t n_kind, const char *name,
                             CdiSpec **ret, Error *bad, Error *e)
{
        DIR *d = opendir(directory);
        int r = 0;

        if (!d)
                return errno == ENOENT ? 0 : error_set_errno(e, -errno, "Cannot read %s", directory);
        unsigned n = 0;
        for (struct dirent *i; r >= 0 && (i = readdir(d)) && n < FILES_MAX;) {
                _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
                if (i->d_name[0] == '.' || (!endswith(i->d_name, ".json") && !endswith(i->d_name, ".yaml")))
                        continue;
                n++;
                _cleanup_error_ Error why = ERROR_NULL;
                if (read_file(dirfd(d), i->d_name, &s, &why) < 0) {
                        if (!bad->message)
                                (void) error_set(bad, -EINVAL, "%s/%s: %s", directory, i->d_name,
                                                 why.message ?: "");
                        continue;
                }
                if (strlen(s->kind) != n_kind || strncmp(s->kind, kind, n_kind) != 0 ||
                    !cdi_spec_find(s, name))
                        continue;
                if (*ret)
                        r = error_set(e, -EINVAL, "Two files in %s have the CDI device '%s'", directory,
                                      kind);
                else
                        *ret = TAKE_PTR(s);
        }
        (void) closedir(d);
        return r;
}

static int find(CriJob *j, const char *device, CdiSpec **ret, Error *e)
{
        _cleanup_free_ char *places = strv_join(j->server->options->cdi_dirs, ", ");
        const char *name = cdi_name_split(device);
        _cleanup_error_ Error bad = ERROR_NULL;

        if (!name)
                return error_set(e, -EINVAL,
                                 "The field 'CDI_devices' of the request has '%s', which is not a name as "
                                 "example.com/net=eth0",
                                 device);
        STRV_FOREACH (d, j->server->options->cdi_dirs) {
                _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
                int r = find_in_directory(*d, device, (size_t) (name - device) - 1, name, &s, &bad, e);
                if (r < 0)
                        return r;
                if (s) {
                        cdi_spec_free(*ret);
                        *ret = TAKE_PTR(s);
                }
        }
        if (*ret)
                return 0;
        int r = error_set(e, -EINVAL, "There is no CDI device '%s' in a .json or .yaml file in %s", device,
                          places ?: "");
        return bad.message ? error_hint(e, r, "A file that is not valid is left out: %s.", bad.message) : r;
}

/* --- What it means ------------------------------------------------------------------------------------- */

static int add_nodes(CriJob *j, const ContainerConfig *c, const CdiEdits *x, AppOverrides *a, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < x->n_nodes; i++) {
                const CdiNode *n = &x->nodes[i];
                r = container_add_device(j, c, "CDI_devices", n->host_path, n->path, n->permissions, a, e);
        }
        return r;
}

static int add_mounts(const CdiEdits *x, AppOverrides *a, Error *e)
{
        for (size_t i = 0; i < x->n_mounts; i++) {
                const CdiMount *m = &x->mounts[i];
                int r = container_add_host_mount(m->source, m->target, m->read_only,
                                                 m->plain ? "symlinks=true" : CONTAINER_HOST_SETTINGS, a, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_groups(const CdiEdits *x, AppOverrides *a, Error *e)
{
        for (size_t i = 0; i < x->n_gids; i++) {
                if (GREEDY_REALLOC(a->supplementary_gids, a->supplementary_gids_allocated,
                                   a->n_supplementary_gids + 1) < 0)
                        return error_oom(e);
                a->supplementary_gids[a->n_supplementary_gids++] = x->gids[i];
        }
        return 0;
}

static int apply(CriJob *j, const ContainerConfig *c, const CdiEdits *x, const char *device, HookList *hooks,
                 AppOverrides *a, Error *e)
{
        if (x->unsupported) {
                int r = error_set(e, -EINVAL, "The CDI device '%s' takes what is not supported: %s", device,
                                  x->unsupported);
                return startswith(x->unsupported, CDI_HOOK)
                                       ? error_hint(e, r, "Hooks of the name createContainer are supported.")
                                       : r;
        }
        for (size_t i = 0; i < x->environment.n; i++)
                if (pair_list_set(&a->environment, x->environment.items[i].name,
                                  x->environment.items[i].value) < 0)
                        return error_oom(e);
        int r = hook_list_extend(hooks, &x->hooks);
        if (r < 0)
                return error_set_errno(e, r == -E2BIG ? -EINVAL : r,
                                       "Cannot add the hooks of the CDI device '%s'", device);
        r = add_nodes(j, c, x, a, e);
        if (r >= 0)
                r = add_groups(x, a, e);
        return r < 0 ? r : add_mounts(x, a, e);
}

/* Whether an earlier device of the request is of the same file, whose edits are for the container once. */
static bool is_first_of_kind(const ContainerConfig *c, size_t i)
{
        const char *name = cdi_name_split(c->cdi_devices[i]->name);
        size_t n = name ? (size_t) (name - c->cdi_devices[i]->name) : 0;

        for (size_t k = 0; k < i; k++)
                if (strncmp(c->cdi_devices[k]->name, c->cdi_devices[i]->name, n) == 0)
                        return false;
        return true;
}

/* Files that hooks write are owned by root of the host, a user that a sandbox with users of its own does not have. */
static int set_hooks(const Sandbox *s, const HookList *hooks, AppOverrides *a, Error *e)
{
        _cleanup_free_ char *text = NULL;

        if (hooks->n == 0)
                return 0;
        if (s->pod->config.private_users)
                return error_set(e, -EINVAL,
                                 "The CDI devices of the request have " CDI_HOOK
                                 "%s, but hooks are not possible in a sandbox with users of its own",
                                 hooks->items[0].path);
        return hook_list_format(hooks, &text) < 0 || pair_list_set(&a->annotations, SETTING_PREFIX "hooks",
                                                                   text) < 0
                               ? error_oom(e)
                               : 0;
}

int container_cdi(CriJob *j, const Sandbox *s, const ContainerConfig *c, AppOverrides *a, Error *e)
{
        _cleanup_hook_list_ HookList hooks = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < c->n_cdi_devices; i++) {
                const char *device = c->cdi_devices[i]->name;
                _cleanup_(cdi_spec_freep) CdiSpec *spec = NULL;
                r = find(j, device, &spec, e);
                if (r >= 0 && is_first_of_kind(c, i))
                        r = apply(j, c, &spec->edits, device, &hooks, a, e);
                if (r >= 0)
                        r = apply(j, c, &cdi_spec_find(spec, cdi_name_split(device))->edits, device, &hooks,
                                  a, e);
        }
        return r < 0 ? r : set_hooks(s, &hooks, a, e);
}

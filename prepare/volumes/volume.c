/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Named volumes: making, reading and listing them.
 *
 * A volume is made below tmp/ and renamed into place, so that it is complete or absent. Apps get at its
 * directory "data" and what is below; the name of the volume and its file "meta" are out of their reach. All
 * are opened by descriptor without following a symlink.
 */

#include <json-c/json.h>
#include <sys/stat.h>

#include "prepare/volumes/volumes-internal.h"
#include "schema/settings.h"

#define META_SIZE_MAX (1024U * 1024U)

void named_volume_done(NamedVolume *v)
{
        free(v->name);
        pair_list_done(&v->labels);
        *v = (NamedVolume){};
}

int volume_path(const char *name, char **ret, Error *e)
{
        int r = volume_name_check(name, e);

        if (r >= 0 && xasprintf(ret, "volumes/%s", name) < 0)
                r = error_oom(e);
        return r;
}

/* --- Making -------------------------------------------------------------------------------------------- */

int volume_set_owner(const Store *s, int fd, uint32_t uid, uint32_t gid)
{
        if (fchown(fd, uid, gid) >= 0)
                return 0;
        return errno == EPERM && (s->flags & STORE_UNPRIVILEGED) ? 0 : -errno;
}

static json_object *labels_to_json(const PairList *labels)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (!o)
                return NULL;
        for (size_t i = 0; i < labels->n; i++)
                if (json_member_add_text(o, labels->items[i].name, labels->items[i].value) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

int volume_write_meta(int dir_fd, const NamedVolume *v)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        if (json_member_add(o, "created", json_object_new_int64((int64_t) now_usec(CLOCK_REALTIME))) < 0 ||
            json_member_add(o, "labels", labels_to_json(&v->labels)) < 0 ||
            (v->quota > 0 && json_member_add(o, "quota", json_object_new_int64((int64_t) v->quota)) < 0))
                return -ENOMEM;
        const char *text = json_print(o);
        if (!text)
                return -ENOMEM;
        if (strlen(text) > META_SIZE_MAX)
                return -E2BIG;
        return write_file_new_at(dir_fd, "meta", text, strlen(text), 0600);
}

/* The mode is set after fchown(), which clears some bits. */
static int make_data(const Store *s, int dir_fd, const NamedVolume *v, int *ret)
{
        _cleanup_close_ int fd = -EBADF;

        if (mkdirat(dir_fd, "data", 0700) < 0)
                return -errno;
        fd = openat(dir_fd, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        int r = volume_set_owner(s, fd, v->uid, v->gid);
        if (r < 0)
                return r;
        if (fchmod(fd, v->mode & 07777) < 0)
                return -errno;
        *ret = TAKE_FD(fd);
        return 0;
}

int named_volume_create(Store *s, const NamedVolume *v, Error *e)
{
        _cleanup_(store_temporary_done) StoreTemporary t = STORE_TEMPORARY_NULL;
        _cleanup_close_ int data_fd = -EBADF;
        _cleanup_free_ char *path = NULL;

        int r = volume_path(v->name, &path, e);
        if (r < 0)
                return r;
        if (faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
                return 0;
        r = store_temporary_new(s, &t, e);
        if (r < 0)
                return r;
        r = make_data(s, t.dir_fd, v, &data_fd);
        if (r >= 0)
                r = volume_write_meta(t.dir_fd, v);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create the volume %s in the store %s", v->name,
                                       s->path);
        r = volume_quota_set(s, data_fd, v->name, v->quota, e);
        if (r < 0)
                return r;
        return store_temporary_publish(&t, path, e);
}

int pod_volumes_create(const Pod *p, size_t first, Error *e)
{
        for (size_t i = first; i < p->manifest->n_volumes; i++) {
                const Volume *v = &p->manifest->volumes[i];
                VolumeSettings settings;

                int r = volume_settings_read(p->manifest, v, &settings, e);
                if (r < 0)
                        return r;
                if (v->kind != VOLUME_EMPTY || !settings.named[0])
                        continue;
                const NamedVolume new = {.name = settings.named,
                                         .mode = v->mode,
                                         .uid = v->uid,
                                         .gid = v->gid,
                                         .quota = settings.quota};
                r = named_volume_create(p->store, &new, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int read_meta(const char *text, size_t size, NamedVolume *v)
{
        _cleanup_json_ json_object *o = NULL;
        json_object *created, *labels, *quota;

        int r = json_parse_strict(text, size, &o, NULL, NULL);
        if (r < 0 || !json_object_is_type(o, json_type_object))
                return r == -ENOMEM ? r : -EBADMSG;
        if (!json_object_object_get_ex(o, "created", &created) ||
            !json_object_is_type(created, json_type_int) || json_object_get_int64(created) < 0 ||
            !json_object_object_get_ex(o, "labels", &labels) ||
            !json_object_is_type(labels, json_type_object))
                return -EBADMSG;
        if (json_object_object_get_ex(o, "quota", &quota) &&
            (!json_object_is_type(quota, json_type_int) || json_object_get_int64(quota) <= 0))
                return -EBADMSG;
        v->created_usec = (uint64_t) json_object_get_int64(created);
        v->quota = (uint64_t) json_object_get_int64(quota);
        json_object_object_foreach (labels, name, value) {
                if (!json_object_is_type(value, json_type_string))
                        return -EBADMSG;
                if (pair_list_set(&v->labels, name, json_object_get_string(value)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int read_volume(int dir_fd, NamedVolume *v)
{
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size;

        if (fstatat(dir_fd, "data", &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? -EBADMSG : -errno;
        v->mode = st.st_mode & 07777;
        v->uid = st.st_uid;
        v->gid = st.st_gid;
        int r = read_file_at(dir_fd, "meta", META_SIZE_MAX, &text, &size);
        if (r < 0)
                return r == -ENOENT ? -EBADMSG : r;
        return read_meta(text, size, v);
}

int volume_does_not_exist(const Store *s, const char *name, Error *e)
{
        int r = error_set(e, -ENOENT, "There is no volume '%s' in the store %s", name, s->path);

        return error_hint(e, r, "'acnspawn volume list' shows all volumes.");
}

int named_volume_read(const Store *s, const char *name, NamedVolume *ret, Error *e)
{
        _cleanup_named_volume_ NamedVolume v = {};
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *path = NULL;

        int r = volume_path(name, &path, e);
        if (r < 0)
                return r;
        fd = open_no_symlinks(s->fd, path, O_RDONLY | O_DIRECTORY);
        if (fd == -ENOENT)
                return volume_does_not_exist(s, name, e);
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open the volume %s", name);
        v.name = strdup(name);
        if (!v.name)
                return error_oom(e);
        r = read_volume(fd, &v);
        if (r == -EBADMSG)
                return error_set(e, r,
                                 "The volume %s is damaged: %s/%s lacks its directory 'data' or its file "
                                 "'meta', or that is not valid",
                                 name, s->path, path);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the volume %s", name);
        *ret = v;
        v = (NamedVolume){};
        return 0;
}

/* By the store's path, which has no symlinks either: a supervisor is in another mount namespace
 * than the one in which the store's descriptor was opened, and could not clone that one's mounts. */
int named_volume_open_data(const Store *s, const char *name, int flags)
{
        int r = volume_name_check(name, NULL);

        return r < 0 ? r : store_open_volume(s, name, flags);
}

int named_volume_list(const Store *s, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **names = NULL, **found = NULL;
        _cleanup_close_ int fd = open_no_symlinks(s->fd, "volumes", O_RDONLY | O_DIRECTORY);

        int r = fd == -ENOENT ? 0 : fd < 0 ? fd : list_names(fd, &names);
        if (r < 0)
                return error_set_errno(e, r, "Cannot list %s/volumes", s->path);
        STRV_FOREACH (name, names)
                if (volume_name_check(*name, NULL) >= 0 && strv_extend(&found, *name) < 0)
                        return error_oom(e);
        if (found)
                strv_sort(found);
        *ret = TAKE_PTR(found);
        return 0;
}

static int check_quota(const Pod *p, const Volume *v, char ***warnings, Error *e)
{
        _cleanup_named_volume_ NamedVolume old = {};
        VolumeSettings settings;
        char had[64] = "no quota";

        int r = volume_settings_read(p->manifest, v, &settings, e);
        if (r < 0 || v->kind != VOLUME_EMPTY || !settings.named[0] || settings.quota == 0)
                return r;
        if (named_volume_read(p->store, settings.named, &old, NULL) < 0 || old.quota == settings.quota)
                return 0; /* there is none yet, or its record cannot be read, which is reported when it is opened */
        if (old.quota > 0)
                snprintf(had, sizeof(had), "a quota of %llu bytes", (unsigned long long) old.quota);
        if (warnings)
                return strv_extendf(warnings,
                                    "Volume '%s': quota= has no effect: the named volume %s exists, with %s",
                                    v->name, settings.named, had) < 0
                                       ? error_oom(e)
                                       : 0;
        r = error_set(e, -EEXIST,
                      "Volume '%s' cannot have a quota of %llu bytes: the named volume %s exists, with %s",
                      v->name, (unsigned long long) settings.quota, settings.named, had);
        return error_hint(
                        e, r,
                        "The quota of a volume does not change: leave out quota=, or make the volume anew by "
                        "'acnspawn volume export' and 'acnspawn volume import --quota='.");
}

int pod_volume_quotas_check(const Pod *p, size_t first, char ***warnings, Error *e)
{
        int r = 0;

        for (size_t i = first; r >= 0 && i < p->manifest->n_volumes; i++)
                r = check_quota(p, &p->manifest->volumes[i], warnings, e);
        return r;
}

uint64_t named_volume_size(const Store *s, const char *name)
{
        _cleanup_free_ char *path = NULL;

        if (volume_name_check(name, NULL) < 0 || xasprintf(&path, "volumes/%s/data", name) < 0)
                return 0;
        return disk_usage_at(s->fd, path, s->operation);
}

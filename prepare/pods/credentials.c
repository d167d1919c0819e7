/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials of apps: secrets that are given to one app each, and are in no manifest and no environment.
 *
 * From prepare to run they are files of the pod directory, credentials/<app>/<name>, which only root may
 * read; <app> is the name of the app's directory in apps/. The supervisor copies them into memory that
 * is never swapped, and removes the files before any app starts. The directories remain until the end, to record which
 * apps have credentials. That of an app that replaces another one, and gets the credentials of that one, is empty from
 * the beginning.
 */

#include <sys/stat.h>

#include "prepare/pods/reify-internal.h"

#define NAME_LENGTH_MAX 255U

void credential_list_done(CredentialList *l)
{
        for (size_t i = 0; i < l->n; i++) {
                if (l->items[i].data)
                        explicit_bzero(l->items[i].data, l->items[i].size);
                free(l->items[i].data);
                free(l->items[i].name);
                free(l->items[i].path);
        }
        free(l->items);
        *l = (CredentialList){};
}

static int check_name(const char *name, Error *e)
{
        if (isempty(name) || streq(name, ".") || streq(name, "..") || strlen(name) > NAME_LENGTH_MAX)
                return error_set(e, -EINVAL, "the name must have 1 to %u characters and not be . or ..",
                                 NAME_LENGTH_MAX);
        for (const char *p = name; *p; p++)
                if (*p < ' ' || *p > '~' || *p == '/' || *p == ':')
                        return error_set(e, -EINVAL,
                                         "the name must consist of ASCII characters other than / and :");
        return 0;
}

static const CredentialList no_credentials = {};

static Credential *find(const CredentialList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return &l->items[i];
        return NULL;
}

static int check_sizes(const CredentialList *l, const Credential *known, size_t size, Error *e)
{
        size_t total = size;

        if (known && known->data)
                return error_set(e, -EEXIST, "the credential '%s' is given twice", known->name);
        for (size_t i = 0; i < l->n; i++)
                total += l->items[i].data ? l->items[i].size : 0;
        if (!known && l->n >= CREDENTIALS_MAX)
                return error_set(e, -E2BIG, "there are more than %u credentials", CREDENTIALS_MAX);
        if (total > CREDENTIALS_SIZE_MAX)
                return error_set(e, -EFBIG, "credentials are larger than %u bytes together",
                                 CREDENTIALS_SIZE_MAX);
        return 0;
}

static Credential *add_place(CredentialList *l, const char *name)
{
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                return NULL;
        Credential *place = &l->items[l->n];
        *place = (Credential){.name = strdup(name)};
        l->n += place->name != NULL;
        return place->name ? place : NULL;
}

int credential_list_add(CredentialList *l, const char *name, const void *data, size_t size, Error *e)
{
        Credential *place = find(l, name);
        int r = check_name(name, e);

        if (r >= 0)
                r = check_sizes(l, place, size, e);
        if (r < 0)
                return r;
        char *copy = malloc(size + 1);
        if (copy && !place)
                place = add_place(l, name);
        if (!copy || !place) {
                free(copy);
                return error_oom(e);
        }
        memcpy(copy, data, size);
        place->data = copy;
        place->size = size;
        return 0;
}

int credential_list_add_hex(CredentialList *l, const char *name, const char *hex, Error *e)
{
        size_t size = strlen(hex) / 2;
        _cleanup_free_ char *data = calloc(size + 1, 1);

        if (!data)
                return error_oom(e);
        if (strlen(hex) % 2 != 0 || hex_decode(hex, size, data) < 0)
                return error_set(e, -EINVAL, "the data are not hexadecimal digits");
        int r = credential_list_add(l, name, data, size, e);
        explicit_bzero(data, size);
        return r;
}

/* --- In the pod directory ------------------------------------------------------------------------------ */

static int make_private_directory(int dir_fd, const char *name, int *ret_fd)
{
        if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

/* The limits are those of one app, for those of its own and those that all apps get together. */
static int check_together(const PodApp *app, const CredentialList *own, const CredentialList *shared,
                          Error *e)
{
        size_t n = own->n, size = 0;

        for (size_t i = 0; i < own->n; i++)
                size += own->items[i].size;
        for (size_t i = 0; i < shared->n; i++) {
                if (find(own, shared->items[i].name))
                        continue;
                n++;
                size += shared->items[i].size;
        }
        if (n > CREDENTIALS_MAX)
                return error_set(e, -E2BIG,
                                 "App %s has %zu credentials, with those of the pod: more than %u",
                                 pod_app_path_name(app), n, CREDENTIALS_MAX);
        if (size > CREDENTIALS_SIZE_MAX)
                return error_set(
                                e, -EFBIG,
                                "The credentials of app %s, with those of the pod, are larger than %u bytes together",
                                pod_app_path_name(app), CREDENTIALS_SIZE_MAX);
        return 0;
}

/* Those of the app itself first: they take precedence over others of the same name. */
static int write_credentials(int app_fd, const CredentialList *l)
{
        for (size_t i = 0; i < l->n; i++) {
                int r = write_file_new_at(app_fd, l->items[i].name, l->items[i].data, l->items[i].size,
                                          0600);
                if (r < 0 && r != -EEXIST)
                        return r;
        }
        return 0;
}

static int write_app(int all_fd, const char *directory, const CredentialList *own,
                     const CredentialList *shared)
{
        _cleanup_close_ int fd = -EBADF;

        if (own->n + shared->n == 0)
                return 0;
        int r = make_private_directory(all_fd, directory, &fd);
        if (r >= 0)
                r = write_credentials(fd, own);
        return r < 0 ? r : write_credentials(fd, shared);
}

/* A definition that was read has no content. */
static bool keeps_credentials(const PodRequest *q)
{
        return q->template || (q->apps[0].credentials.n > 0 && !q->apps[0].credentials.items[0].data);
}

/* Of the app that replaces another one. */
static int write_replacement(Reify *r, int all_fd)
{
        const PodRequest *q = r->request;
        _cleanup_free_ char *directory = NULL;
        _cleanup_close_ int fd = -EBADF;

        if (pod_app_replacement(r->manifest->apps[r->first_app], &directory) < 0)
                return -ENOMEM;
        int k = rm_rf_at(all_fd, directory);
        if (k < 0)
                return k;
        if (!keeps_credentials(q))
                return write_app(all_fd, directory, &q->apps[0].credentials, &no_credentials);
        return pod_app_has_credentials(r->pod, r->old) ? make_private_directory(all_fd, directory, &fd) : 0;
}

/* Of the app INDEX: its own, and those of the pod that it gets. */
static const CredentialList *own_of(const Reify *r, size_t index)
{
        const PodRequest *q = r->request;

        return q->template ? &no_credentials : &q->apps[index - r->first_app].credentials;
}

static const CredentialList *shared_of(const Reify *r, size_t index)
{
        const PodRequest *q = r->request;

        return !q->template && q->apps[index - r->first_app].separate ? &no_credentials : &q->credentials;
}

static int check_apps(const Reify *r, Error *e)
{
        int k = 0;

        for (size_t i = r->first_app; k >= 0 && i < r->manifest->n_apps; i++)
                k = check_together(r->manifest->apps[i], own_of(r, i), shared_of(r, i), e);
        return k;
}

static int write_apps(Reify *r, int all_fd)
{
        int k = 0;

        for (size_t i = r->first_app; k >= 0 && i < r->manifest->n_apps; i++)
                k = write_app(all_fd, r->manifest->apps[i]->name, own_of(r, i), shared_of(r, i));
        return k;
}

int reify_write_credentials(Reify *r, Error *e)
{
        const PodRequest *q = r->request;
        bool needed = q->credentials.n > 0 || (r->old && pod_app_has_credentials(r->pod, r->old));
        _cleanup_close_ int fd = -EBADF;

        for (size_t i = 0; i < q->n_apps; i++)
                needed = needed || q->apps[i].credentials.n > 0;
        if (!needed)
                return 0;
        int k = r->old ? 0 : check_apps(r, e);
        if (k < 0)
                return k;
        k = make_private_directory(r->pod->dir_fd, "credentials", &fd);
        if (k >= 0)
                k = r->old ? write_replacement(r, fd) : write_apps(r, fd);
        return k < 0 ? error_set_errno(e, k, "Cannot keep the credentials of pod %s",
                                       pod_display_name(r->pod))
                     : 0;
}

int pod_app_open_credentials(const Pod *p, const PodApp *app)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int all_fd =
                        openat(p->dir_fd, "credentials", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (all_fd < 0)
                return -errno;
        if (pod_app_path(p, app, NULL, &path) < 0)
                return -ENOMEM;
        int fd = openat(all_fd, path + strlen("apps/"), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

bool pod_app_has_credentials(const Pod *p, const PodApp *app)
{
        _cleanup_close_ int fd = pod_app_open_credentials(p, app);

        return fd >= 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Credentials of apps: secrets that are given to one app each, and are in no manifest and no environment.
 *
 * From prepare to run they are files of the pod directory, credentials/<app>/<name>, which only root may
 * read. The process that runs the pod copies them into memory that is never swapped, and removes the files
 * before any app starts. The directories remain until the end, to record which apps have credentials.
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

static int check_sizes(const CredentialList *l, const char *name, size_t size, Error *e)
{
        size_t total = size;

        for (size_t i = 0; i < l->n; i++) {
                if (streq(l->items[i].name, name))
                        return error_set(e, -EEXIST, "the credential '%s' is given twice", name);
                total += l->items[i].size;
        }
        if (l->n >= CREDENTIALS_MAX)
                return error_set(e, -E2BIG, "there are more than %u credentials", CREDENTIALS_MAX);
        if (total > CREDENTIALS_SIZE_MAX)
                return error_set(e, -EFBIG, "credentials are larger than %u bytes together",
                                 CREDENTIALS_SIZE_MAX);
        return 0;
}

int credential_list_add(CredentialList *l, const char *name, const void *data, size_t size, Error *e)
{
        int r = check_name(name, e);

        if (r >= 0)
                r = check_sizes(l, name, size, e);
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(l->items, l->allocated, l->n + 1) < 0)
                return error_oom(e);
        Credential c = {.name = strdup(name), .data = malloc(size + 1), .size = size};
        if (!c.name || !c.data) {
                free(c.name);
                free(c.data);
                return error_oom(e);
        }
        memcpy(c.data, data, size);
        l->items[l->n++] = c;
        return 0;
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

static int write_app(int all_fd, const char *app, const CredentialList *own, const CredentialList *shared)
{
        _cleanup_close_ int fd = -EBADF;

        if (own->n + shared->n == 0)
                return 0;
        int r = make_private_directory(all_fd, app, &fd);
        if (r >= 0)
                r = write_credentials(fd, own);
        return r < 0 ? r : write_credentials(fd, shared);
}

int reify_write_credentials(Reify *r, Error *e)
{
        static const CredentialList none = {};
        const PodRequest *q = r->request;
        _cleanup_close_ int fd = -EBADF;
        size_t n = q->credentials.n;

        for (size_t i = 0; i < q->n_apps; i++)
                n += q->apps[i].credentials.n;
        if (n == 0)
                return 0;
        int k = make_private_directory(r->pod->dir_fd, "credentials", &fd);
        for (size_t i = r->first_app; k >= 0 && i < r->manifest->n_apps; i++) {
                const AppOverrides *o = q->template ? NULL : &q->apps[i - r->first_app];
                k = write_app(fd, r->manifest->apps[i]->name, o ? &o->credentials : &none,
                              o && o->separate ? &none : &q->credentials);
        }
        return k < 0 ? error_set_errno(e, k, "Cannot keep the credentials of pod %s",
                                       pod_display_name(r->pod))
                     : 0;
}

bool pod_app_has_credentials(const Pod *p, const char *app)
{
        _cleanup_close_ int fd =
                        openat(p->dir_fd, "credentials", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && faccessat(fd, app, F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

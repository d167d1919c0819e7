/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists pods, and resolves a user's reference to a pod.
 *
 * Nothing is locked while the places are read, one after the other in the order of a pod's life: a pod that
 * is moved meanwhile is found once or twice, but never missed; and pods that were removed before they are
 * opened are left out.
 */

#include <sys/resource.h>
#include <sys/stat.h>

#include "prepare/pods/pods-internal.h"

#define CANDIDATES_MAX 8
#define DESCRIPTORS_BESIDE 256U /* other descriptors of the process that lists pods */

static int read_place(Store *s, PodState place, char ***uuids)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = openat(store_fd(s), pod_state_to_place(place),
                                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        int r = fd < 0 ? -errno : list_names(fd, &names);
        STRV_FOREACH (name, names)
                if (r >= 0 && uuid_check(*name, NULL) >= 0)
                        r = strv_extend(uuids, *name);
        return r;
}

int pod_list_uuids(Store *s, char ***ret, Error *e)
{
        _cleanup_strv_free_ char **l = NULL;
        size_t n = 0;

        for (size_t i = 0; i < N_POD_PLACES; i++) {
                int r = read_place(s, pod_places[i], &l);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot read %s/%s", store_path(s),
                                               pod_state_to_place(pod_places[i]));
        }
        strv_sort(l);
        STRV_FOREACH (uuid, l) { /* those that were found twice are adjacent now */
                if (n > 0 && streq(l[n - 1], *uuid))
                        free(*uuid);
                else
                        l[n++] = *uuid;
        }
        if (l)
                l[n] = NULL;
        *ret = TAKE_PTR(l);
        return 0;
}

void pod_list_free(Pod **l, size_t n)
{
        for (size_t i = 0; i < n; i++)
                pod_free(l[i]);
        free(l);
}

uint64_t pod_created_usec(const Pod *p)
{
        struct stat st;

        if (p->config.created_usec != 0)
                return p->config.created_usec;
        return fstat(p->dir_fd, &st) < 0 ? 0 : (uint64_t) st.st_mtim.tv_sec * 1000000ULL;
}

static int compare_pods(const void *a, const void *b)
{
        const Pod *p = *(Pod *const *) a, *q = *(Pod *const *) b;
        uint64_t x = pod_created_usec(p), y = pod_created_usec(q);

        return x != y ? (x < y ? -1 : 1) : strcmp(p->uuid, q->uuid);
}

/* Each pod in a list holds a descriptor; a pod whose config cannot be opened for lack of descriptors would
 * be listed as damaged. */
static int allow_descriptors(size_t n, Error *e)
{
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= n + DESCRIPTORS_BESIDE)
                return 0;
        l.rlim_cur = MIN(l.rlim_max, (rlim_t) n + DESCRIPTORS_BESIDE);
        if (setrlimit(RLIMIT_NOFILE, &l) >= 0 && l.rlim_cur >= n + DESCRIPTORS_BESIDE / 4)
                return 0;
        int r = error_set(e, -EMFILE, "There are %zu pods, more than the limit of open files (%llu)", n,
                          (unsigned long long) l.rlim_cur);
        return error_hint(
                        e, r,
                        "'acnspawn gc --grace-period=0' removes those that have ended; ulimit -Hn shows the "
                        "limit.");
}

/* The reason is one of this process or of the host, not of one pod. */
static bool is_shortage(int r)
{
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* 1: *RET; 0: it was removed meanwhile, or cannot be opened and is added to *UNREAD. */
static int open_listed(Store *s, const char *uuid, Pod **ret, char ***unread, Error *e)
{
        _cleanup_error_ Error error = ERROR_NULL;

        int r = pod_open(s, uuid, ret, &error);
        if (r >= 0 || r == -ENOENT)
                return r >= 0;
        if (!unread || is_shortage(r))
                return error_move(e, &error);
        operation_message(s->operation, LOG_LEVEL_WARNING, "%s.", error.message ?: uuid);
        return strv_extend(unread, uuid) < 0 ? error_oom(e) : 0;
}

static int list(Store *s, Pod ***ret, size_t *ret_n, char ***unread, Error *e)
{
        _cleanup_strv_free_ char **uuids = NULL;
        size_t n = 0;

        int r = pod_list_uuids(s, &uuids, e);
        if (r >= 0)
                r = allow_descriptors(strv_length(uuids), e);
        if (r < 0)
                return r;
        Pod **l = calloc(strv_length(uuids) + 1, sizeof(Pod *));
        if (!l)
                return error_oom(e);
        STRV_FOREACH (uuid, uuids) {
                r = open_listed(s, *uuid, &l[n], unread, e);
                if (r < 0) {
                        pod_list_free(l, n);
                        return r;
                }
                n += r > 0;
        }
        qsort(l, n, sizeof(Pod *), compare_pods);
        *ret = l;
        *ret_n = n;
        return 0;
}

int pod_list_with_unread(Store *s, Pod ***ret, size_t *ret_n, char ***unread, Error *e)
{
        return list(s, ret, ret_n, unread, e);
}

int pod_list(Store *s, Pod ***ret, size_t *ret_n, Error *e)
{
        _cleanup_strv_free_ char **unread = NULL;

        return list(s, ret, ret_n, &unread, e);
}

int pod_list_all(Store *s, Pod ***ret, size_t *ret_n, Error *e)
{
        return list(s, ret, ret_n, NULL, e);
}

/* --- Finding one --------------------------------------------------------------------------------------- */

/* "1234…-… (web, running)" */
static int describe(Store *s, const char *uuid, char ***list)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_open(s, uuid, &p, NULL);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        return strv_extendf(list, "%s (%s%s%s)", uuid, p->config.name ?: "", p->config.name ? ", " : "",
                            pod_state_to_string(p->state));
}

static int refuse_ambiguous(Store *s, const char *reference, char *const *matches, Error *e)
{
        _cleanup_strv_free_ char **shown = NULL;
        _cleanup_free_ char *text = NULL;
        size_t n = strv_length(matches);
        int r = 0;

        for (size_t i = 0; i < n && i < CANDIDATES_MAX && r >= 0; i++)
                r = describe(s, matches[i], &shown);
        if (r >= 0 && n > CANDIDATES_MAX)
                r = strv_extendf(&shown, "and %zu more", n - CANDIDATES_MAX);
        text = r < 0 ? NULL : strv_join(shown, ", ");
        if (!text)
                return error_oom(e);
        r = error_set(e, -ENOTUNIQ, "'%s' is ambiguous: %s", reference, text);
        return error_hint(e, r, "Give more digits of the UUID.");
}

/* Names of which the reference is a prefix, or which are a prefix of it. */
static char *similar_names(Store *s, const char *reference)
{
        _cleanup_strv_free_ char **names = NULL, **similar = NULL;
        _cleanup_close_ int fd = openat(store_fd(s), registry_directory(REGISTRY_NAMES),
                                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || list_names(fd, &names) < 0)
                return NULL;
        strv_sort(names);
        STRV_FOREACH (name, names) {
                if (pod_name_check(*name, NULL) < 0 || strv_length(similar) >= CANDIDATES_MAX)
                        continue;
                if ((startswith(*name, reference) || startswith(reference, *name)) &&
                    registry_find(s, REGISTRY_NAMES, *name, NULL, NULL) >= 0 &&
                    strv_extend(&similar, *name) < 0)
                        return NULL;
        }
        return similar ? strv_join(similar, ", ") : NULL;
}

static int refuse_unknown(Store *s, const char *reference, Error *e)
{
        _cleanup_free_ char *similar = similar_names(s, reference),
                            *shown = text_escape_for_terminal(reference);

        int r = error_set(e, -ENOENT, "There is no pod '%s' in the store %s", shown ?: "?", store_path(s));
        if (similar)
                return error_hint(e, r, "Pods with similar names: %s. 'acnspawn list' shows all.", similar);
        return error_hint(e, r, "'acnspawn list' shows all pods.");
}

static bool is_uuid_prefix(const char *s)
{
        size_t n = strlen(s);

        return n > 0 && n < 36 && strspn(s, "0123456789abcdef-") == n && s[0] != '-';
}

static int find_by_prefix(Store *s, const char *prefix, const char *reference, char **ret, Error *e)
{
        _cleanup_strv_free_ char **all = NULL, **matches = NULL;

        int r = pod_list_uuids(s, &all, e);
        if (r < 0)
                return r;
        STRV_FOREACH (uuid, all)
                if (startswith(*uuid, prefix) && strv_extend(&matches, *uuid) < 0)
                        return error_oom(e);
        if (!matches)
                return refuse_unknown(s, reference, e);
        if (matches[1])
                return refuse_ambiguous(s, reference, matches, e);
        *ret = strdup(matches[0]);
        return *ret ? 0 : error_oom(e);
}

static char *lower_case(const char *s)
{
        char *l = strdup(s);

        for (char *p = l; p && *p; p++)
                if (*p >= 'A' && *p <= 'Z')
                        *p = (char) (*p - 'A' + 'a');
        return l;
}

/* UUIDs first, since no name looks like one; then names; then prefixes of UUIDs. */
static int resolve(Store *s, const char *reference, char **ret, Error *e)
{
        _cleanup_free_ char *lower = lower_case(reference);
        int r;

        if (!lower)
                return error_oom(e);
        if (uuid_check(reference, NULL) >= 0) {
                *ret = TAKE_PTR(lower);
                return 0;
        }
        if (pod_name_check(reference, NULL) >= 0) {
                r = registry_find(s, REGISTRY_NAMES, reference, ret, e);
                if (r != -ENOENT)
                        return r;
        }
        if (is_uuid_prefix(lower))
                return find_by_prefix(s, lower, reference, ret, e);
        return refuse_unknown(s, reference, e);
}

int pod_find(Store *s, const char *reference, Pod **ret, Error *e)
{
        _cleanup_free_ char *uuid = NULL;

        int r = resolve(s, reference, &uuid, e);
        if (r < 0)
                return r;
        r = pod_open(s, uuid, ret, e);
        if (r < 0)
                return r == -ENOENT ? refuse_unknown(s, reference, e) : r;
        (*ret)->found_by_uuid = !streq_ptr((*ret)->config.name, reference);
        return r;
}

const char *pod_display_name(const Pod *p)
{
        return isempty(p->config.name) || p->found_by_uuid ? p->uuid : p->config.name;
}

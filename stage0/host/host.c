/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Information about a running or exited pod for other processes, as small JSON files in its directory:
 * "runtime" while it runs, "result" when it has ended. The space for them is reserved before the pod starts: a full disk does not
 * change how the pod ends. */

#include <sys/stat.h>

#include "schema/settings.h"
#include "stage0/host/host-internal.h"

#define FILE_SIZE_MAX 4096U
#define RUNTIME_FILE "runtime"

typedef struct Field {
        const char *key;
        int64_t value;
        bool optional; /* earlier versions did not write it */
} Field;

static int write_fields(Pod *p, const char *name, const Field *fields, size_t n)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        for (size_t i = 0; i < n; i++)
                if (json_member_add(o, fields[i].key, json_object_new_int64(fields[i].value)) < 0)
                        return -ENOMEM;
        const char *text = json_print(o);
        return text ? write_file_reserved_at(p->dir_fd, name, POD_RESULT_RESERVE, text, strlen(text))
                    : -ENOMEM;
}

static int read_fields(Pod *p, const char *name, Field *fields, size_t n)
{
        _cleanup_json_ json_object *o = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_reserved_at(p->dir_fd, name, FILE_SIZE_MAX, &text, &size);
        if (r >= 0 && size > 0 && strspn(text, "\n") == size) /* reserved */
                r = -ENOENT;
        if (r >= 0)
                r = json_parse_strict(text, size, &o, NULL, NULL);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                json_object *v;
                bool found = json_object_object_get_ex(o, fields[i].key, &v);
                if (!found && fields[i].optional)
                        continue;
                if (!found || !json_object_is_type(v, json_type_int))
                        return -EBADMSG;
                fields[i].value = json_object_get_int64(v);
        }
        return 0;
}

static bool has_health_check(const PodApp *a)
{
        return pair_list_get(&a->annotations, SETTING_PREFIX "health-cmd");
}

/* What is written again and again exists from the beginning, so that it leaves POD_RESULT_RESERVE to "result". */
static int reserve(const Pod *p)
{
        static const char *const names[] = {POD_RESULT_RESERVE, POD_ENDED_RESERVE, DROPS_FILE, RUNTIME_FILE};
        _cleanup_close_ int fd = -EBADF;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(names); i++)
                r = file_reserve_at(p->dir_fd, names[i]);
        if (r < 0)
                return r;
        if (mkdirat(p->dir_fd, "status", 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = pod_open_statuses(p);
        if (fd < 0)
                return fd;
        for (size_t i = 0; r >= 0 && i < p->manifest->n_apps; i++)
                r = app_status_reserve(fd, p->manifest->apps[i]->name,
                                       has_health_check(p->manifest->apps[i]));
        return r;
}

int pod_reserve_records(const Pod *p, Error *e)
{
        int r = reserve(p);

        return r < 0 ? error_set_errno(e, r, "Cannot make the records of pod %s", pod_display_name(p)) : 0;
}

int pod_runtime_write(Pod *p, const PodRuntime *r)
{
        const Field fields[] = {
                        {.key = "supervisor", .value = r->supervisor},
                        {.key = "nspawn", .value = r->nspawn},
                        {.key = "leader", .value = r->leader},
                        {.key = "started", .value = (int64_t) r->started_usec},
        };

        return write_fields(p, RUNTIME_FILE, fields, ELEMENTSOF(fields));
}

int pod_runtime_read(Pod *p, PodRuntime *ret)
{
        Field fields[] = {{.key = "supervisor"}, {.key = "nspawn"}, {.key = "leader"}, {.key = "started"}};
        int r = read_fields(p, RUNTIME_FILE, fields, ELEMENTSOF(fields));

        if (r < 0)
                return r;
        *ret = (PodRuntime){
                        .supervisor = (pid_t) fields[0].value,
                        .nspawn = (pid_t) fields[1].value,
                        .leader = (pid_t) fields[2].value,
                        .started_usec = (uint64_t) fields[3].value,
        };
        return 0;
}

int pod_result_write(Pod *p, const PodResult *r)
{
        const Field fields[] = {
                        {.key = "exitStatus", .value = r->exit_status},
                        {.key = "started", .value = (int64_t) r->started_usec},
                        {.key = "ended", .value = (int64_t) r->ended_usec},
                        {.key = "atShutdown", .value = r->at_shutdown},
        };

        return write_fields(p, "result", fields, ELEMENTSOF(fields));
}

int pod_result_read(Pod *p, PodResult *ret)
{
        Field fields[] = {{.key = "exitStatus"},
                          {.key = "started"},
                          {.key = "ended"},
                          {.key = "atShutdown", .optional = true}};
        int r = read_fields(p, "result", fields, ELEMENTSOF(fields));

        if (r < 0)
                return r;
        *ret = (PodResult){
                        .exit_status = (int) fields[0].value,
                        .started_usec = (uint64_t) fields[1].value,
                        .ended_usec = (uint64_t) fields[2].value,
                        .at_shutdown = fields[3].value != 0,
        };
        return 0;
}

int pod_metadata_url_write(Pod *p, const char *url)
{
        return write_file_atomic_at(p->dir_fd, "metadata-url", url, strlen(url), 0600, false);
}

int pod_metadata_url_read(Pod *p, char **ret)
{
        return read_file_at(p->dir_fd, "metadata-url", FILE_SIZE_MAX, ret, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The OOM scores of the processes of a container, which a client may change with its resources.
 *
 * A process that has set a score of its own keeps it. New processes have the score of their parent, so the cgroup is read until
 * no process has the former score. A process is recognized by its cgroup after its directory was opened, as its number may have
 * been reused. */

#include <dirent.h>

#include "cri/sandbox.h"

#define PASSES_MAX 32U
#define LIST_MAX (1024U * 1024U)
#define CGROUPS_MAX 256U

/* Whether the score was NOW. */
static bool change_process(const char *pid, const char *cgroup, int64_t now, int64_t wanted)
{
        _cleanup_free_ char *score = NULL, *own = NULL;
        char path[64], text[24];

        snprintf(path, sizeof(path), "/proc/%.16s", pid);
        snprintf(text, sizeof(text), "%" PRId64 "\n", now);
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || read_file_at(fd, "oom_score_adj", sizeof(text), &score, NULL) < 0 ||
            !streq(score, text) || read_file_at(fd, "cgroup", 65536, &own, NULL) < 0 || !strstr(own, cgroup))
                return false;
        snprintf(text, sizeof(text), "%" PRId64, wanted);
        return write_attribute_at(fd, "oom_score_adj", text) >= 0;
}

static bool change_cgroup(const char *path, const char *name, int64_t now, int64_t wanted)
{
        _cleanup_free_ char *list = NULL, *file = NULL;
        bool found = false;
        char *save = NULL;

        if (xasprintf(&file, "%s/cgroup.procs", path) < 0 ||
            read_file_at(AT_FDCWD, file, LIST_MAX, &list, NULL) < 0)
                return false;
        for (char *pid = strtok_r(list, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save))
                found |= change_process(pid, name, now, wanted);
        return found;
}

static int add_children(const char *path, char ***list)
{
        DIR *d = opendir(path);
        int r = 0;

        for (struct dirent *i; d && r >= 0 && (i = readdir(d));)
                if (i->d_type == DT_DIR && i->d_name[0] != '.')
                        r = strv_extendf(list, "%s/%s", path, i->d_name);
        if (d)
                (void) closedir(d);
        return r;
}

int oom_score_change(const char *path, int64_t now, int64_t wanted)
{
        const char *name = strrchr(path, '/') ?: path;
        bool found = true;
        int r = 0;

        for (unsigned pass = 0; r >= 0 && found; pass++) {
                _cleanup_strv_free_ char **all = NULL;

                if (pass == PASSES_MAX)
                        return -EAGAIN;
                found = false;
                r = strv_extend(&all, path);
                for (size_t i = 0; r >= 0 && all[i] && i < CGROUPS_MAX; i++) {
                        found |= change_cgroup(all[i], name, now, wanted);
                        r = add_children(all[i], &all);
                }
        }
        return r;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes the journals of pods known to the journal tools of the host: a symlink in /var/log/journal, named by the pod's
 * machine ID, to the directory of the pod's journal.
 *
 * journalctl shows directories of other machine IDs with --merge only, if they are below /var/log/journal; everything below
 * /run/log/journal is its own host's to it. Where the host's journal is volatile there is no /var/log/journal, and to make
 * it would turn journald to it: then there are no links.
 *
 * A link follows its pod from "running" to "exited", and is removed with it. If the process that should do that is killed,
 * the link leads nowhere, and the collector removes it. Links are a convenience: failures are not reported.
 */

#include <limits.h>

#include "prepare/pods/pods-internal.h"

#define DIRECTORY "/var/log/journal"

static const char *directory_override;

void pod_journal_links_set_directory(const char *path)
{
        directory_override = path;
}

/* -ENOENT: links are not for this host, or not for stores as S. */
static int open_directory(const Store *s)
{
        if (!directory_override &&
            ((s->flags & STORE_UNPRIVILEGED) || access("/run/systemd/system", F_OK) < 0))
                return -ENOENT;
        int fd = open(directory_override ?: DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

void pod_machine_id(const Pod *p, char id[static POD_MACHINE_ID_SIZE])
{
        size_t n = 0;

        for (const char *c = p->uuid; *c && n < POD_MACHINE_ID_SIZE - 1; c++)
                if (*c != '-')
                        id[n++] = *c;
        id[n] = 0;
}

/* Whether the link NAME leads to a pod of S. Something else of that name is left alone. */
static bool is_ours(const Store *s, int dir_fd, const char *name)
{
        char target[PATH_MAX];
        size_t size = strlen(s->path);

        ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        if (n < 0)
                return false;
        target[n] = 0;
        return strncmp(target, s->path, size) == 0 && startswith(target + size, "/pods/");
}

void pod_journal_link(const Pod *p)
{
        _cleanup_close_ int fd = open_directory(p->store);
        _cleanup_free_ char *path = NULL, *target = NULL;
        char id[POD_MACHINE_ID_SIZE];

        if (fd < 0 || pod_path(p, &path) < 0)
                return;
        pod_machine_id(p, id);
        if (xasprintf(&target, "%s/root/var/log/journal/%s", path, id) < 0)
                return;
        if (is_ours(p->store, fd, id))
                (void) unlinkat(fd, id, 0);
        if (symlinkat(target, fd, id) < 0)
                return; /* something else has that name */
}

void pod_journal_unlink(const Pod *p)
{
        _cleanup_close_ int fd = open_directory(p->store);
        char id[POD_MACHINE_ID_SIZE];

        pod_machine_id(p, id);
        if (fd >= 0 && is_ours(p->store, fd, id))
                (void) unlinkat(fd, id, 0);
}

void pod_journal_links_collect(const Store *s)
{
        _cleanup_close_ int fd = open_directory(s);
        _cleanup_strv_free_ char **names = NULL;

        if (fd < 0 || list_names(fd, &names) < 0)
                return;
        STRV_FOREACH (name, names)
                if (strlen(*name) == POD_MACHINE_ID_SIZE - 1 && is_ours(s, fd, *name) &&
                    faccessat(fd, *name, F_OK, 0) < 0 && errno == ENOENT)
                        (void) unlinkat(fd, *name, 0);
}

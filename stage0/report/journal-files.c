/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The files of a journal that is to be read: found, opened and watched.
 *
 * Those of a pod are written by the pod: they are opened beneath the pod's directory, without following symlinks, and
 * regular files only. Those of the host are the system's (system*.journal), below its machine ID: directories of other
 * machines, of which pods may be some, have what those have written.
 */

#include <dirent.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "library/libsystemd.h"
#include "stage0/report/journal-internal.h"

#define DIRECTORY_MAX 4096U /* entries of a directory, including other files */

static const char *const host_places[JOURNAL_DIRECTORIES_MAX] = {"/var/log/journal", "/run/log/journal"};

/* --- Opening ------------------------------------------------------------------------------------------- */

static int set_title(JournalFiles *f, const char *kind, const char *name, Error *e)
{
        return xasprintf(&f->title, "journal of %s%s", kind, name) < 0 ? error_oom(e) : 0;
}

int journal_files_open_pod(JournalFiles *f, const Pod *p, Error *e)
{
        char id[SD_ID128_STRING_MAX], path[sizeof("root/var/log/journal/") + SD_ID128_STRING_MAX];
        sd_id128_t uuid;

        int k = set_title(f, "pod ", pod_display_name(p), e);
        if (k < 0)
                return k;
        k = sd_id128_from_string(p->uuid, &uuid);
        if (k < 0)
                return error_set_errno(e, k, "Cannot open the %s", f->title);
        snprintf(path, sizeof(path), "root/var/log/journal/%s", sd_id128_to_string(uuid, id));
        int fd = open_beneath(p->dir_fd, path, O_RDONLY | O_DIRECTORY);
        if (fd == -ELOOP)
                return error_set(
                                e, -ELOOP,
                                "Cannot open the %s: there is a symbolic link in its place, which is not followed",
                                f->title);
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot open the %s", f->title);
        f->directories[f->n_directories++] = fd;
        return 0;
}

/* The directory PLACE has for this machine. */
static int open_host_place(const char *place)
{
        _cleanup_free_ char *id = NULL, *path = NULL;

        int r = read_file_at(AT_FDCWD, "/etc/machine-id", 64, &id, NULL);
        if (r < 0)
                return r;
        id[strcspn(id, "\n")] = 0;
        if (strlen(id) != SD_ID128_STRING_MAX - 1 ||
            strspn(id, "0123456789abcdef") != SD_ID128_STRING_MAX - 1)
                return -ENOENT;
        if (xasprintf(&path, "%s/%s", place, id) < 0)
                return -ENOMEM;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

bool journal_of_host_exists(void)
{
        for (size_t i = 0; i < ELEMENTSOF(host_places); i++) {
                _cleanup_close_ int fd = open_host_place(host_places[i]);
                if (fd >= 0 || fd == -EACCES)
                        return true;
        }
        return false;
}

int journal_files_open_host(JournalFiles *f, Error *e)
{
        int r = set_title(f, "the host", "", e);

        f->of_host = true;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(host_places); i++) {
                int fd = open_host_place(host_places[i]);
                if (fd >= 0)
                        f->directories[f->n_directories++] = fd;
                else if (fd != -ENOENT)
                        r = error_set_errno(e, fd, "Cannot open the journal of the host in '%s'",
                                            host_places[i]);
        }
        if (r >= 0 && f->n_directories == 0)
                return error_set(e, -ENODATA, "There is no journal of the host in '%s' or '%s'",
                                 host_places[0], host_places[1]);
        return r;
}

void journal_files_close_new(JournalFiles *f)
{
        while (f->n_new > 0)
                safe_close(f->new_fds[--f->n_new]);
}

void journal_files_done(JournalFiles *f)
{
        journal_files_close_new(f);
        for (size_t i = 0; i < f->n_files; i++)
                free(f->files[i].name);
        for (size_t i = 0; i < f->n_directories; i++)
                safe_close(f->directories[i]);
        safe_close(f->inotify_fd);
        free(f->title);
}

/* --- The files ----------------------------------------------------------------------------------------- */

void journal_files_warn(const JournalFiles *f, const char *name, const char *why)
{
        log_warning("The file '%s' in the %s is left out: %s", name, f->title, why);
}

const char *journal_files_name(const JournalFiles *f, uint64_t inode)
{
        for (size_t i = 0; i < f->n_files; i++)
                if (f->files[i].inode == inode)
                        return f->files[i].name;
        return NULL;
}

static JournalFile *find_file(JournalFiles *f, const struct stat *st)
{
        for (size_t i = 0; i < f->n_files; i++)
                if (f->files[i].inode == st->st_ino && f->files[i].device == st->st_dev)
                        return &f->files[i];
        return NULL;
}

static int add_file(JournalFiles *f, int place_fd, const struct stat *st, const char *name, Error *e)
{
        /* Does not block, even if there is a lease on it. */
        _cleanup_close_ int fd = fd_reopen(place_fd, O_RDONLY | O_NONBLOCK);
        _cleanup_free_ char *shown = text_escape_for_terminal(name);

        if (!shown)
                return error_oom(e);
        if (fd < 0) {
                journal_files_warn(f, shown, strerror(-fd));
                return 0;
        }
        if (f->n_files == JOURNAL_FILES_MAX)
                return error_set(e, -E2BIG, "The %s has more than %u files", f->title, JOURNAL_FILES_MAX);
        f->files[f->n_files++] = (JournalFile){
                        .device = st->st_dev,
                        .inode = st->st_ino,
                        .name = TAKE_PTR(shown),
                        .present = true,
        };
        f->new_fds[f->n_new++] = TAKE_FD(fd);
        return 0;
}

static int look_at(JournalFiles *f, int dir_fd, const char *name, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        if (!endswith(name, ".journal") && !endswith(name, ".journal~"))
                return 0;
        if (f->of_host && !startswith(name, "system"))
                return 0;
        /* Only opened as O_PATH until it is known to be a regular file. */
        fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return 0; /* it has just been removed */
        JournalFile *known = find_file(f, &st);
        if (known) {
                known->present = true;
                return 0;
        }
        if (S_ISREG(st.st_mode))
                return add_file(f, fd, &st, name, e);
        if (!f->warned) {
                _cleanup_free_ char *shown = text_escape_for_terminal(name);
                journal_files_warn(f, shown ?: "", "it is not a regular file");
                f->warned = true;
        }
        return 0;
}

/* Forgets files that do not exist any more. */
static void forget_absent(JournalFiles *f)
{
        size_t n = 0;

        for (size_t i = 0; i < f->n_files; i++)
                if (f->files[i].present)
                        f->files[n++] = f->files[i];
                else
                        free(f->files[i].name);
        f->n_files = n;
}

static int scan_directory(JournalFiles *f, int dir_fd, Error *e)
{
        int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), k = 0;
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry;
        unsigned n = 0;

        if (!dir) {
                k = error_set_errno(e, -errno, "Cannot read the %s", f->title);
                safe_close(copy);
                return k;
        }
        while (k >= 0 && (entry = readdir(dir)))
                k = ++n > DIRECTORY_MAX ? error_set(e, -E2BIG,
                                                    "The directory of the %s has more than %u entries",
                                                    f->title, DIRECTORY_MAX)
                                        : look_at(f, dir_fd, entry->d_name, e);
        (void) closedir(dir);
        return k;
}

static void forget_events(JournalFiles *f)
{
        char events[4096];

        while (f->inotify_fd >= 0 && read(f->inotify_fd, events, sizeof(events)) > 0)
                ;
}

int journal_files_scan(JournalFiles *f, Error *e)
{
        int k = 0;

        forget_events(f);
        for (size_t i = 0; i < f->n_files; i++)
                f->files[i].present = false;
        for (size_t i = 0; k >= 0 && i < f->n_directories; i++)
                k = scan_directory(f, f->directories[i], e);
        if (k >= 0)
                forget_absent(f);
        return k;
}

int journal_files_watch(JournalFiles *f, Error *e)
{
        f->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        for (size_t i = 0; i < f->n_directories; i++) {
                char path[64];

                snprintf(path, sizeof(path), "/proc/self/fd/%d", f->directories[i]);
                if (f->inotify_fd < 0 ||
                    inotify_add_watch(f->inotify_fd, path,
                                      IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_ONLYDIR) < 0)
                        return error_set_errno(e, -errno, "Cannot watch the %s", f->title);
        }
        return 0;
}

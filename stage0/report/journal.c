/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the output of a pod's apps from the pod's journal.
 *
 * The files of the journal are written by the pod, so nothing of them is parsed here. This process opens
 * them: beneath the pod's directory, without following symlinks, and regular files only. An unprivileged
 * process (journal-child.c) reads them and sends the lines as records, which are checked
 * (journal-records.c). If it crashes or makes no progress, that is reported as damage of the journal.
 *
 * While a pod is followed, inotify reports changes in the directory; the reading process is notified, and
 * gets new files.
 */

#include <dirent.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "library/libsystemd.h"
#include "stage0/report/journal-internal.h"

#define DIRECTORY_MAX 4096U                    /* entries of the directory, including other files */
#define BUFFER_SIZE (2U * JOURNAL_MESSAGE_MAX) /* more than the largest record */
#define CPU_MAX_USEC UINT64_C(20000000)        /* CPU time of the reading process without a single record */
#define CPU_CHECK_MSEC 1000
#define NEW_FILES_MAX 16U /* at once */

typedef struct File {
        dev_t device;
        ino_t inode;
        char *name;   /* escaped for terminals */
        bool present; /* in the directory at the last scan */
} File;

struct JournalReader {
        const Pod *pod;
        Pod *again; /* the manifest as read again later, with apps that were added; NULL: not read again */
        bool looked; /* since the last wait */
        int dir_fd, inotify_fd, socket;
        pid_t pid;
        File files[JOURNAL_FILES_MAX];
        size_t n_files;
        int new_fds[JOURNAL_FILES_MAX]; /* opened, but not yet passed to the reading process */
        size_t n_new;
        char *in;
        size_t begin, end; /* unprocessed range of IN */
        uint64_t cpu_usec; /* CPU time of the reading process when it last sent a record */
        bool idle, warned;
};

/* --- The end of a reader ------------------------------------------------------------------------------- */

static void close_new(JournalReader *r)
{
        while (r->n_new > 0)
                safe_close(r->new_fds[--r->n_new]);
}

/* Returns the wait status of the reading process. */
static int end_child(JournalReader *r)
{
        int status = 0;

        r->socket = safe_close(r->socket);
        if (r->pid <= 0)
                return 0;
        (void) kill(r->pid, SIGKILL);
        while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
                ;
        r->pid = 0;
        return status;
}

JournalReader *journal_reader_free(JournalReader *r)
{
        if (!r)
                return NULL;
        (void) end_child(r);
        close_new(r);
        for (size_t i = 0; i < r->n_files; i++)
                free(r->files[i].name);
        safe_close(r->dir_fd);
        safe_close(r->inotify_fd);
        pod_free(r->again);
        free(r->in);
        free(r);
        return NULL;
}

/* --- The files ----------------------------------------------------------------------------------------- */

static int open_directory(JournalReader *r, Error *e)
{
        char id[SD_ID128_STRING_MAX], path[sizeof("root/var/log/journal/") + SD_ID128_STRING_MAX];
        sd_id128_t uuid;

        int k = sd_id128_from_string(r->pod->uuid, &uuid);
        if (k < 0)
                return error_set_errno(e, k, "Cannot open the journal of pod %s", pod_display_name(r->pod));
        snprintf(path, sizeof(path), "root/var/log/journal/%s", sd_id128_to_string(uuid, id));
        r->dir_fd = open_beneath(r->pod->dir_fd, path, O_RDONLY | O_DIRECTORY);
        if (r->dir_fd == -ELOOP)
                return error_set(e, -ELOOP,
                                 "Cannot open the journal of pod %s: there is a symbolic link in its place, "
                                 "which is not followed",
                                 pod_display_name(r->pod));
        return r->dir_fd < 0 ? error_set_errno(e, r->dir_fd, "Cannot open the journal of pod %s",
                                               pod_display_name(r->pod))
                             : 0;
}

static void warn_left_out(const JournalReader *r, const char *name, const char *why)
{
        log_warning("The file '%s' in the journal of pod %s is left out: %s", name, pod_display_name(r->pod),
                    why);
}

static File *find_file(JournalReader *r, const struct stat *st)
{
        for (size_t i = 0; i < r->n_files; i++)
                if (r->files[i].inode == st->st_ino && r->files[i].device == st->st_dev)
                        return &r->files[i];
        return NULL;
}

static int add_file(JournalReader *r, int place_fd, const struct stat *st, const char *name, Error *e)
{
        /* Does not block, even if there is a lease on it. */
        _cleanup_close_ int fd = fd_reopen(place_fd, O_RDONLY | O_NONBLOCK);
        _cleanup_free_ char *shown = text_escape_for_terminal(name);

        if (!shown)
                return error_oom(e);
        if (fd < 0) {
                warn_left_out(r, shown, strerror(-fd));
                return 0;
        }
        if (r->n_files == JOURNAL_FILES_MAX)
                return error_set(e, -E2BIG, "The journal of pod %s has more than %u files",
                                 pod_display_name(r->pod), JOURNAL_FILES_MAX);
        r->files[r->n_files++] = (File){
                        .device = st->st_dev,
                        .inode = st->st_ino,
                        .name = TAKE_PTR(shown),
                        .present = true,
        };
        r->new_fds[r->n_new++] = TAKE_FD(fd);
        return 0;
}

static int look_at(JournalReader *r, const char *name, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        if (!endswith(name, ".journal") && !endswith(name, ".journal~"))
                return 0;
        /* Only opened as O_PATH until it is known to be a regular file. */
        fd = openat(r->dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return 0; /* it has just been removed */
        File *f = find_file(r, &st);
        if (f) {
                f->present = true;
                return 0;
        }
        if (S_ISREG(st.st_mode))
                return add_file(r, fd, &st, name, e);
        if (!r->warned) {
                _cleanup_free_ char *shown = text_escape_for_terminal(name);
                warn_left_out(r, shown ?: "", "it is not a regular file");
                r->warned = true;
        }
        return 0;
}

/* Forgets files that do not exist any more. */
static void forget_absent(JournalReader *r)
{
        size_t n = 0;

        for (size_t i = 0; i < r->n_files; i++)
                if (r->files[i].present)
                        r->files[n++] = r->files[i];
                else
                        free(r->files[i].name);
        r->n_files = n;
}

/* Opens new files. */
static int scan(JournalReader *r, Error *e)
{
        int copy = openat(r->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), k = 0;
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry;
        unsigned n = 0;

        if (!dir) {
                k = error_set_errno(e, -errno, "Cannot read the journal of pod %s",
                                    pod_display_name(r->pod));
                safe_close(copy);
                return k;
        }
        for (size_t i = 0; i < r->n_files; i++)
                r->files[i].present = false;
        while (k >= 0 && (entry = readdir(dir)))
                k = ++n > DIRECTORY_MAX
                                    ? error_set(e, -E2BIG,
                                                "The directory of the journal of pod %s has more than %u "
                                                "entries",
                                                pod_display_name(r->pod), DIRECTORY_MAX)
                                    : look_at(r, entry->d_name, e);
        (void) closedir(dir);
        if (k >= 0)
                forget_absent(r);
        return k;
}

/* --- The reading process ------------------------------------------------------------------------------- */

/* Moves a descriptor above all target numbers, so that none is overwritten when they are moved to their
 * final numbers. */
static int move_up(int fd, size_t n)
{
        int moved = fcntl(fd, F_DUPFD_CLOEXEC, JOURNAL_CHILD_FILES + (int) n);

        if (moved < 0)
                _exit(1);
        return moved;
}

static _noreturn_ void child(JournalReader *r, const JournalQuery *q, int sock)
{
        struct rlimit limit;
        size_t n = r->n_new;

        if (getrlimit(RLIMIT_NOFILE, &limit) >= 0) {
                limit.rlim_cur = limit.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &limit);
        }
        sock = move_up(sock, n);
        for (size_t i = 0; i < n; i++)
                r->new_fds[i] = move_up(r->new_fds[i], n);
        int null = move_up(open("/dev/null", O_RDWR | O_CLOEXEC), n);
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        _exit(1);
        if (dup3(sock, JOURNAL_CHILD_SOCKET, O_CLOEXEC) < 0)
                _exit(1);
        for (size_t i = 0; i < n; i++)
                if (dup3(r->new_fds[i], JOURNAL_CHILD_FILES + (int) i, O_CLOEXEC) < 0)
                        _exit(1);
        if (syscall(SYS_close_range, JOURNAL_CHILD_FILES + (unsigned) n, ~0U, 0U) < 0 || chdir("/") < 0)
                _exit(1);
        journal_child(q, n);
}

static int start_child(JournalReader *r, const JournalQuery *q, Error *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set_errno(e, -errno, "Cannot create a pair of sockets");
        r->socket = pair[0];
        (void) fflush(NULL);
        r->pid = fork();
        if (r->pid == 0)
                child(r, q, pair[1]);
        int k = r->pid < 0 ? error_set_errno(e, -errno, "Cannot fork") : 0;
        safe_close(pair[1]);
        close_new(r);
        return k;
}

/* A truncated file causes SIGBUS. */
static int explain_end(JournalReader *r, Error *e)
{
        int status = end_child(r);

        if (WIFSIGNALED(status))
                return error_set(e, -EBADMSG,
                                 "The journal of pod %s could not be read to its end: the process that read "
                                 "it was ended by signal %d (%s), because a file of it is damaged, or was "
                                 "changed meanwhile",
                                 pod_display_name(r->pod), WTERMSIG(status), strsignal(WTERMSIG(status)));
        return error_set(e, -EIO, "The process that read the journal of pod %s has failed",
                         pod_display_name(r->pod));
}

static uint64_t cpu_used(pid_t pid)
{
        struct timespec ts = {};
        clockid_t clock;

        if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) < 0)
                return 0;
        return (uint64_t) ts.tv_sec * 1000000U + (uint64_t) ts.tv_nsec / 1000U;
}

static int wait_for_records(JournalReader *r, Error *e)
{
        struct pollfd fd = {.fd = r->socket, .events = POLLIN};

        for (;;) {
                int n = poll(&fd, 1, CPU_CHECK_MSEC);
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return error_set_errno(e, -errno, "Cannot wait for the journal of pod %s",
                                               pod_display_name(r->pod));
                if (cpu_used(r->pid) > r->cpu_usec + CPU_MAX_USEC)
                        return error_set(e, -ETIME,
                                         "The journal of pod %s is damaged: to read on would take too long",
                                         pod_display_name(r->pod));
        }
}

static int receive(JournalReader *r, Error *e)
{
        memmove(r->in, r->in + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
        int k = wait_for_records(r, e);
        if (k < 0)
                return k;
        ssize_t n = recv(r->socket, r->in + r->end, BUFFER_SIZE - r->end, 0);
        if (n <= 0)
                return explain_end(r, e);
        r->end += (size_t) n;
        r->cpu_usec = cpu_used(r->pid);
        return 0;
}

/* The next record, valid until more data is received. */
static int next_record(JournalReader *r, JournalRecord *ret, Error *e)
{
        for (;;) {
                ssize_t n = journal_record_parse(r->in + r->begin, r->end - r->begin, ret);
                if (n < 0)
                        return error_set(e, -EBADMSG,
                                         "The process that read the journal of pod %s sent invalid data: "
                                         "not: "
                                         "a file of the journal has taken it over",
                                         pod_display_name(r->pod));
                r->begin += (size_t) n;
                if (n > 0)
                        return 0;
                int k = receive(r, e);
                if (k < 0)
                        return k;
        }
}

/* --- Lines --------------------------------------------------------------------------------------------- */

static void report_damaged(JournalReader *r, const JournalRecord *record)
{
        for (size_t i = 0; i < r->n_files; i++)
                if (r->files[i].inode == record->inode) {
                        warn_left_out(r, r->files[i].name, strerror(-record->code));
                        return;
                }
}

/* Apps can be added while the pod runs. The manifest is not read for each name that the reading process makes up. */
static const PodApp *find_app(JournalReader *r, const char *name)
{
        const PodApp *app = pod_manifest_find_app(r->again ? r->again->manifest : r->pod->manifest, name);
        Pod *again = NULL;

        if (app || r->looked || r->pod->state != POD_RUNNING)
                return app;
        r->looked = true;
        if (pod_open(r->pod->store, r->pod->uuid, &again, NULL) < 0)
                return NULL;
        if (!again->manifest) {
                pod_free(again);
                return NULL;
        }
        pod_free(r->again);
        r->again = again;
        return pod_manifest_find_app(again->manifest, name);
}

/* Other entries with this transport were not written by an app of this pod. */
static bool take_line(JournalReader *r, const JournalRecord *record, JournalLine *ret)
{
        char name[JOURNAL_APP_MAX + 1];

        memcpy(name, record->app, record->app_size);
        name[record->app_size] = 0;
        const PodApp *app = find_app(r, name);
        if (!app)
                return false;
        *ret = (JournalLine){
                        .app = app->name,
                        .data = record->data,
                        .size = record->data_size,
                        .error = record->flags & JOURNAL_ERROR,
                        .partial = record->flags & JOURNAL_PARTIAL,
                        .end = {record->flags & JOURNAL_NUL ? 0 : '\n'},
                        .time_usec = record->time_usec,
        };
        return true;
}

int journal_reader_next(JournalReader *r, JournalLine *ret, Error *e)
{
        JournalRecord record;

        while (!r->idle) {
                int k = next_record(r, &record, e);
                if (k < 0)
                        return k;
                switch (record.kind) {
                case JOURNAL_LINE:
                        if (take_line(r, &record, ret))
                                return 1;
                        break;
                case JOURNAL_DAMAGED:
                        report_damaged(r, &record);
                        break;
                case JOURNAL_FAILED:
                        return error_set_errno(e, record.code ?: -EIO, "Cannot read the journal of pod %s",
                                               pod_display_name(r->pod));
                default:
                        r->idle = true;
                }
        }
        return 0;
}

/* --- Waiting ------------------------------------------------------------------------------------------- */

static void forget_events(JournalReader *r)
{
        char events[4096];

        while (read(r->inotify_fd, events, sizeof(events)) > 0)
                ;
}

/* Passes new files to the child. */
static int tell_child(JournalReader *r, Error *e)
{
        int k = 0;

        do {
                size_t n = MIN(r->n_new, (size_t) NEW_FILES_MAX);

                k = send_fds(r->socket, "", 1, r->new_fds + r->n_new - n, n);
                if (k == -EPIPE)
                        return explain_end(r, e);
                for (size_t i = 0; i < n; i++)
                        safe_close(r->new_fds[--r->n_new]);
        } while (k >= 0 && r->n_new > 0);
        return k < 0 ? error_set_errno(e, k, "Cannot pass on the journal of pod %s",
                                       pod_display_name(r->pod))
                     : 0;
}

int journal_reader_wait(JournalReader *r, int end_fd, int timeout_msec, Error *e)
{
        struct pollfd fds[] = {{.fd = r->inotify_fd, .events = POLLIN},
                               {.fd = end_fd > 0 ? end_fd : -EBADF, .events = POLLIN}};

        int n = poll(fds, ELEMENTSOF(fds), timeout_msec);
        if (n < 0 && errno != EINTR)
                return error_set_errno(e, -errno, "Cannot wait for the journal of pod %s",
                                       pod_display_name(r->pod));
        if (n <= 0 && timeout_msec > 0)
                return 0;
        forget_events(r);
        int k = scan(r, e);
        if (k >= 0)
                k = tell_child(r, e);
        if (k < 0)
                return k;
        r->cpu_usec = cpu_used(r->pid);
        r->idle = r->looked = false;
        return 0;
}

/* Called before the directory is read for the first time, so that no change is missed. */
static int watch(JournalReader *r, Error *e)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fd/%d", r->dir_fd);
        r->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (r->inotify_fd < 0 ||
            inotify_add_watch(r->inotify_fd, path, IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_ONLYDIR) < 0)
                return error_set_errno(e, -errno, "Cannot watch the journal of pod %s",
                                       pod_display_name(r->pod));
        return 0;
}

int journal_reader_new(Pod *p, const JournalQuery *q, JournalReader **ret, Error *e)
{
        _cleanup_(journal_reader_freep) JournalReader *r = calloc(1, sizeof(JournalReader));

        if (!r)
                return error_oom(e);
        r->pod = p;
        r->dir_fd = r->inotify_fd = r->socket = -EBADF;
        r->in = malloc(BUFFER_SIZE);
        if (!r->in)
                return error_oom(e);
        int k = library_load(&systemd_library, e);
        if (k >= 0)
                k = open_directory(r, e);
        if (k >= 0 && q->follow)
                k = watch(r, e);
        if (k >= 0)
                k = scan(r, e);
        if (k >= 0)
                k = start_child(r, q, e);
        if (k >= 0)
                *ret = TAKE_PTR(r);
        return k;
}

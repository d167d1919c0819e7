/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the output of a pod's apps from the pod's journal, or from that of the host.
 *
 * The files of a pod's journal are written by the pod, so nothing of them is parsed here. This process opens
 * them (journal-files.c). An unprivileged process (journal-child.c) reads them and sends the lines as records, which
 * are checked (journal-records.c). If it crashes or makes no progress, that is reported as damage of the journal.
 *
 * While a pod is followed, inotify reports changes in the directory; the reading process is notified, and
 * gets new files. The journal of the host has a reading process of its own: that of the pod's journal, which may be
 * taken over by what it reads, has no access to it.
 */

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "library/libsystemd.h"
#include "stage0/report/journal-internal.h"

#define BUFFER_SIZE (2U * JOURNAL_MESSAGE_MAX) /* more than the largest record */
#define CPU_MAX_USEC UINT64_C(20000000)        /* CPU time of the reading process without a single record */
#define CPU_CHECK_MSEC 1000
#define NEW_FILES_MAX 16U /* at once */

struct JournalReader {
        const Pod *pod;
        Pod *again;  /* the manifest as read again later, with apps that were added; NULL: not read again */
        bool looked; /* since the last wait */
        JournalFiles files;
        int socket;
        pid_t pid;
        char *in;
        size_t begin, end; /* unprocessed range of IN */
        uint64_t cpu_usec; /* CPU time of the reading process when it last sent a record */
        bool idle;
};

/* --- The end of a reader ------------------------------------------------------------------------------- */

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
        journal_files_done(&r->files);
        pod_free(r->again);
        free(r->in);
        free(r);
        return NULL;
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
        size_t n = r->files.n_new;

        if (getrlimit(RLIMIT_NOFILE, &limit) >= 0) {
                limit.rlim_cur = limit.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &limit);
        }
        sock = move_up(sock, n);
        for (size_t i = 0; i < n; i++)
                r->files.new_fds[i] = move_up(r->files.new_fds[i], n);
        int null = move_up(open("/dev/null", O_RDWR | O_CLOEXEC), n);
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        _exit(1);
        if (dup3(sock, JOURNAL_CHILD_SOCKET, O_CLOEXEC) < 0)
                _exit(1);
        for (size_t i = 0; i < n; i++)
                if (dup3(r->files.new_fds[i], JOURNAL_CHILD_FILES + (int) i, O_CLOEXEC) < 0)
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
        journal_files_close_new(&r->files);
        return k;
}

/* A truncated file causes SIGBUS. */
static int explain_end(JournalReader *r, Error *e)
{
        int status = end_child(r);

        if (WIFSIGNALED(status))
                return error_set(e, -EBADMSG,
                                 "The %s could not be read to its end: the process that read "
                                 "it was ended by signal %d (%s), because a file of it is damaged, or was "
                                 "changed meanwhile",
                                 r->files.title, WTERMSIG(status), strsignal(WTERMSIG(status)));
        return error_set(e, -EIO, "The process that read the %s has failed", r->files.title);
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
                        return error_set_errno(e, -errno, "Cannot wait for the %s", r->files.title);
                if (cpu_used(r->pid) > r->cpu_usec + CPU_MAX_USEC)
                        return error_set(e, -ETIME, "The %s is damaged: to read on would take too long",
                                         r->files.title);
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
                                         "The process that read the %s sent invalid data: "
                                         "a file of the journal may have taken it over",
                                         r->files.title);
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
        const char *name = journal_files_name(&r->files, record->inode);

        if (name)
                journal_files_warn(&r->files, name, strerror(-record->code));
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
                        .app = pod_app_path_name(app),
                        .data = record->data,
                        .size = record->data_size,
                        .error = record->flags & JOURNAL_ERROR,
                        .partial = record->flags & JOURNAL_PARTIAL,
                        .continues = record->flags & JOURNAL_CONTINUES,
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
                        return error_set_errno(e, record.code ?: -EIO, "Cannot read the %s", r->files.title);
                default:
                        r->idle = true;
                }
        }
        return 0;
}

/* --- Waiting ------------------------------------------------------------------------------------------- */

/* Passes new files to the child. */
static int tell_child(JournalReader *r, Error *e)
{
        int k = 0;

        do {
                size_t n = MIN(r->files.n_new, (size_t) NEW_FILES_MAX);

                k = send_fds(r->socket, "", 1, r->files.new_fds + r->files.n_new - n, n);
                if (k == -EPIPE)
                        return explain_end(r, e);
                for (size_t i = 0; i < n; i++)
                        safe_close(r->files.new_fds[--r->files.n_new]);
        } while (k >= 0 && r->files.n_new > 0);
        return k < 0 ? error_set_errno(e, k, "Cannot pass on the %s", r->files.title) : 0;
}

int journal_reader_refresh(JournalReader *r, Error *e)
{
        int k = journal_files_scan(&r->files, e);

        if (k >= 0)
                k = tell_child(r, e);
        if (k < 0)
                return k;
        r->cpu_usec = cpu_used(r->pid);
        r->idle = r->looked = false;
        return 0;
}

void journal_reader_poll(const JournalReader *r, struct pollfd ret[static JOURNAL_READER_POLL])
{
        ret[0] = (struct pollfd){.fd = r->files.inotify_fd, .events = POLLIN};
        ret[1] = (struct pollfd){.fd = r->socket}; /* POLLHUP comes without being asked for */
}

int journal_reader_new(Pod *p, const JournalQuery *q, JournalReader **ret, Error *e)
{
        _cleanup_(journal_reader_freep) JournalReader *r = calloc(1, sizeof(JournalReader));

        if (!r)
                return error_oom(e);
        r->pod = p;
        r->socket = -EBADF;
        r->files = JOURNAL_FILES_NULL;
        r->in = malloc(BUFFER_SIZE);
        if (!r->in)
                return error_oom(e);
        int k = library_load(&systemd_library, e);
        if (k >= 0)
                k = q->n_host_apps > 0 ? journal_files_open_host(&r->files, e)
                                       : journal_files_open_pod(&r->files, p, e);
        if (k >= 0 && q->follow)
                k = journal_files_watch(&r->files, e);
        if (k >= 0)
                k = journal_files_scan(&r->files, e);
        if (k >= 0)
                k = start_child(r, q, e);
        if (k >= 0)
                *ret = TAKE_PTR(r);
        return k;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Replaces files of a pod that runs, durably.
 *
 * After a loss of power a pod is run again from its manifest and its definitions, so a file of these that is replaced has
 * to be on disk before what it replaces is removed, and before a change is reported as made. But the supervisor
 * must never block, and a disk may take seconds: a child writes, syncs and renames the files, and syncs their directory. Such a
 * child ends with the supervisor: nothing is renamed in the directory of a pod that has ended.
 *
 * There is one child at a time. What is given meanwhile is written by the next one, of each file the last content alone. The manifest is
 * that of the moment when a child begins: what a call that has failed has undone is not in it.
 * It also syncs files that others write: the status of an app that has ended, for the owner of a pod, and the pod itself
 * when it starts. The end of a pod does not wait for a child that only syncs, which may end after the supervisor.
 *
 * A manifest that could not be written, as on a full disk, is written again until it can be. Meanwhile it is not known which one is on
 * disk: the child may have been killed after it had renamed the file. */

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/apps/left-process.h"
#include "stage0/supervisor/interface/file-keeper.h"

#define RETRY_USEC UINT64_C(2000000)

typedef struct KeptFile {
        char *path, *text; /* TEXT is NULL: it is only synced, as it is then */
} KeptFile;

typedef struct Waiter {
        FileKeeperFunction function;
        void *userdata;
} Waiter;

/* Files that are written together with the manifest, and the calls that wait for them. */
typedef struct Round {
        KeptFile *files;
        size_t n_files, files_allocated;
        Waiter *waiters;
        size_t n_waiters, waiters_allocated;
        bool has_manifest; /* it is to be written */
        bool syncs;        /* there are files that are only synced, for which no call waits */
        bool run;          /* pod_sync_run() is to be called */
} Round;

struct FileKeeper {
        Pod *pod;
        sd_event *event;
        Round now, next;
        bool behind;
        void (*recovered)(void *userdata);
        void *userdata;
        sd_event_source *timer; /* for the next attempt; or NULL */
        bool concludes;         /* functions are being called */
        pid_t pid;              /* the child that writes the files of NOW, or 0 */
        int pid_fd, host_fd;
        sd_event_source *source;
};

static void round_done(Round *x)
{
        for (size_t i = 0; i < x->n_files; i++) {
                free(x->files[i].path);
                free(x->files[i].text);
        }
        free(x->files);
        free(x->waiters);
        *x = (Round){};
}

/* True if X has files that are written; else it only syncs. */
static bool replaces(const Round *x)
{
        for (size_t i = 0; i < x->n_files; i++)
                if (x->files[i].text)
                        return true;
        return x->has_manifest;
}

/* --- Writing ------------------------------------------------------------------------------------------- */

static int write_files(const Pod *p, const Round *x)
{
        int r = x->run ? pod_sync_run(p, NULL) : 0;

        for (size_t i = 0; r >= 0 && i < x->n_files; i++) {
                const KeptFile *f = &x->files[i];

                if (f->text)
                        r = write_file_atomic_at(p->dir_fd, f->path, f->text, strlen(f->text), 0600, true);
        }
        return r;
}

/* Apps of these files may have been removed. */
static void sync_files(const Pod *p, const Round *x)
{
        for (size_t i = 0; i < x->n_files; i++)
                if (!x->files[i].text)
                        (void) fsync_file_at(p->dir_fd, x->files[i].path);
}

/* Opens the directories of the pod and of the store again, and closes all inherited descriptors, such as the pod's lock and pipes: a
 * slow disk must not keep them open. */
static int keep_directories(Pod *p)
{
        int dir_fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int store = dir_fd < 0 ? -EBADF
                               : openat(store_fd(p->store), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (store < 0 || dup2(dir_fd, 0) < 0 || dup2(store, 1) < 0 ||
            syscall(SYS_close_range, 2, ~0U, 0) < 0)
                return -errno;
        p->dir_fd = 0;
        p->store->fd = 1;
        return 0;
}

static _noreturn_ void child(const FileKeeper *k, pid_t parent)
{
        (void) prctl(PR_SET_NAME, "keep-files");
        if (replaces(&k->now)) {
                if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
                        _exit(ECANCELED);
        } else if (k->host_fd >= 0 &&
                   setns(k->host_fd, CLONE_NEWNS) < 0) /* it would keep the pod's mounts busy */
                _exit(errno);
        int r = keep_directories(k->pod);
        if (r >= 0)
                r = write_files(k->pod, &k->now);
        if (r >= 0)
                sync_files(k->pod, &k->now);
        _exit(-r);
}

static void forget_child(FileKeeper *k)
{
        k->source = sd_event_source_disable_unref(k->source);
        k->pid_fd = safe_close(k->pid_fd);
        k->pid = 0;
}

static void conclude(FileKeeper *k, int r, Error *e);
static int wait_for(FileKeeper *k, bool manifest, FileKeeperFunction function, void *userdata);

/* 1: it still runs. */
static int reap(FileKeeper *k, int options)
{
        int status = 0;
        pid_t pid;

        do
                pid = waitpid(k->pid, &status, options);
        while (pid < 0 && errno == EINTR);
        if (pid == 0)
                return 1;
        int r = pid < 0 ? -errno : WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
        forget_child(k);
        return r;
}

static int on_written(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        FileKeeper *k = userdata;
        int r = reap(k, WNOHANG);

        if (r <= 0)
                conclude(k, r, NULL);
        return 0;
}

static int start_child(FileKeeper *k)
{
        pid_t parent = getpid(), pid = fork();

        if (pid == 0)
                child(k, parent);
        if (pid < 0)
                return -errno;
        k->pid = pid;
        k->pid_fd = (int) syscall(SYS_pidfd_open, pid, 0);
        int r = k->pid_fd < 0 ? -errno
                              : sd_event_add_io(k->event, &k->source, k->pid_fd, EPOLLIN, on_written, k);
        if (r >= 0)
                return 0;
        (void) kill(pid, SIGKILL);
        if (replaces(&k->now))
                (void) reap(k, 0);
        else {
                forget_child(k);
                leave_process(k->event, pid);
        }
        return r;
}

/* TEXT is taken over. NULL: see KeptFile. */
static int add_file(Round *x, const char *path, char *text)
{
        _cleanup_free_ char *content = text, *copy = NULL;

        for (size_t i = 0; i < x->n_files; i++)
                if (streq(x->files[i].path, path)) {
                        if (content) {
                                free(x->files[i].text);
                                x->files[i].text = TAKE_PTR(content);
                        }
                        return 0;
                }
        copy = strdup(path);
        if (!copy || GREEDY_REALLOC(x->files, x->files_allocated, x->n_files + 1) < 0)
                return -ENOMEM;
        x->files[x->n_files++] = (KeptFile){.path = TAKE_PTR(copy), .text = TAKE_PTR(content)};
        return 0;
}

static int add_manifest(FileKeeper *k, Error *e)
{
        char *text = NULL;
        int r = k->now.has_manifest ? pod_format_manifest(k->pod, &text, e) : 0;

        if (r >= 0 && text && (r = add_file(&k->now, POD_MANIFEST_FILE, text)) < 0)
                (void) error_oom(e);
        return r;
}

static void begin(FileKeeper *k)
{
        _cleanup_error_ Error e = ERROR_NULL;

        k->now = k->next;
        k->next = (Round){};
        int r = add_manifest(k, &e);
        if (r >= 0 && (k->now.n_files > 0 || k->now.run) && start_child(k) >= 0)
                return;
        /* If there can be no child, a change waits for the disk here rather than being lost; what is only synced does not: a start
         * fails then. */
        if (r >= 0 && replaces(&k->now))
                r = write_files(k->pod, &k->now);
        else if (r >= 0 && k->now.run)
                r = -EAGAIN;
        conclude(k, r, &e);
}

/* --- After a failure ----------------------------------------------------------------------------------- */

static void try_later(FileKeeper *k);

static void on_tried(void *userdata, int r, const Error *e) {}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
        FileKeeper *k = userdata;

        k->timer = sd_event_source_disable_unref(k->timer);
        if (wait_for(k, true, on_tried, NULL) < 0)
                try_later(k);
        return 0;
}

static void try_later(FileKeeper *k)
{
        if (!k->timer)
                (void) sd_event_add_time_relative(k->event, &k->timer, CLOCK_MONOTONIC, RETRY_USEC, 0,
                                                  on_retry, k);
}

static void note_result(FileKeeper *k, bool written)
{
        bool was_behind = k->behind;

        k->behind = !written;
        if (!written) {
                try_later(k);
                return;
        }
        k->timer = sd_event_source_disable_unref(k->timer);
        if (was_behind)
                k->recovered(k->userdata);
}

/* The functions may undo what could not be written, give further files, and wait for them. */
static void conclude(FileKeeper *k, int r, Error *why)
{
        _cleanup_(round_done) Round done = k->now;
        _cleanup_error_ Error e = ERROR_NULL;

        k->now = (Round){};
        k->concludes = true;
        if (done.has_manifest)
                note_result(k, r >= 0);
        if (r < 0 && why && why->message)
                (void) error_move(&e, why);
        else if (r < 0)
                (void) error_set_errno(&e, r, "Cannot write '" POD_MANIFEST_FILE "' of pod %s",
                                       pod_display_name(k->pod));
        for (size_t i = 0; i < done.n_waiters; i++)
                done.waiters[i].function(done.waiters[i].userdata, r, &e);
        k->concludes = false;
        if (k->next.n_waiters > 0 || k->next.syncs)
                begin(k);
}

/* --- Calls --------------------------------------------------------------------------------------------- */

int file_keeper_replace(FileKeeper *k, const char *path, char *text)
{
        return add_file(&k->next, path, text);
}

void file_keeper_sync(FileKeeper *k, const char *path)
{
        if (add_file(&k->next, path, NULL) < 0)
                return;
        k->next.syncs = true;
        if (k->pid == 0 && !k->concludes)
                begin(k);
}

static int wait_for(FileKeeper *k, bool manifest, FileKeeperFunction function, void *userdata)
{
        Round *x = &k->next;

        if (GREEDY_REALLOC(x->waiters, x->waiters_allocated, x->n_waiters + 1) < 0)
                return -ENOMEM;
        x->waiters[x->n_waiters++] = (Waiter){.function = function, .userdata = userdata};
        x->has_manifest = x->has_manifest || manifest;
        if (k->pid == 0 && !k->concludes)
                begin(k);
        return 0;
}

int file_keeper_write(FileKeeper *k, FileKeeperFunction function, void *userdata)
{
        return wait_for(k, true, function, userdata);
}

int file_keeper_sync_run(FileKeeper *k, FileKeeperFunction function, void *userdata)
{
        k->next.run = true;
        return wait_for(k, false, function, userdata);
}

/* Calls that have waited longer come first. */
bool file_keeper_is_idle(const FileKeeper *k)
{
        return !replaces(&k->now) && k->now.n_waiters == 0 && !replaces(&k->next);
}

int file_keeper_wait(FileKeeper *k, FileKeeperFunction function, void *userdata)
{
        return wait_for(k, false, function, userdata);
}

void file_keeper_finish(FileKeeper *k)
{
        while (k->pid > 0)
                if (replaces(&k->now))
                        conclude(k, reap(k, 0), NULL);
                else {
                        forget_child(k);
                        conclude(k, -ESHUTDOWN, NULL);
                }
}

bool file_keeper_is_behind(const FileKeeper *k)
{
        return k->behind;
}

int file_keeper_new(Pod *p, sd_event *event, void (*recovered)(void *userdata), void *userdata,
                    FileKeeper **ret)
{
        FileKeeper *k = malloc(sizeof(FileKeeper));

        if (!k)
                return -ENOMEM;
        *k = (FileKeeper){.pod = p,
                          .event = event,
                          .recovered = recovered,
                          .userdata = userdata,
                          .pid_fd = -EBADF,
                          .host_fd = -EBADF};
        *ret = k;
        return 0;
}

void file_keeper_set_host(FileKeeper *k, int host_fd)
{
        k->host_fd = host_fd;
}

FileKeeper *file_keeper_free(FileKeeper *k)
{
        if (!k)
                return NULL;
        if (k->pid > 0 && replaces(&k->now)) {
                (void) kill(k->pid, SIGKILL);
                (void) reap(k, 0);
        }
        forget_child(k);
        sd_event_source_disable_unref(k->timer);
        round_done(&k->now);
        round_done(&k->next);
        free(k);
        return NULL;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Keeps moves of processes between cgroups fast while the pod boots, and while apps are added and started.
 *
 * A process is moved by its number in "cgroup.procs", as the pod's systemd moves each process that it starts (before version 254) and
 * systemd-nspawn its first one. The kernel excludes forks on the whole host meanwhile, by a lock that is free for readers: the writer waits
 * for a grace period of RCU first, 8 to 16 ms, which was most of the time that a start took. For about 10 ms after a write the next ones do not
 * wait. So a child process writes itself to the cgroup that it is in, which changes nothing, when a start is about to follow, and again
 * every few ms until it is over: the first wait runs beside the preparations, and the moves that matter have none. A write takes
 * 20 µs. (The mount option "favordynmods" of cgroups has the same effect, on the whole host and for good.)
 *
 * The time when it is over is in memory that both processes share: 0, set by the child as the last thing that it does, says that the next
 * start needs another one. */

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage0/host/host.h"
#include "stage0/supervisor/apps/cgroup-moves.h"

#define PAUSE_USEC 4000U /* well below the time in which moves stay fast */

struct CgroupMoves {
        sd_event *event;
        _Atomic uint64_t *until_usec; /* CLOCK_MONOTONIC */
        pid_t pid;                    /* 0: there is no child */
        int pid_fd;
        sd_event_source *source;
};

int cgroup_moves_new(sd_event *event, CgroupMoves **ret)
{
        CgroupMoves *m = malloc(sizeof(CgroupMoves));

        if (!m)
                return -ENOMEM;
        *m = (CgroupMoves){.event = event, .pid_fd = -EBADF};
        m->until_usec = mmap(NULL, sizeof(*m->until_usec), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (m->until_usec == MAP_FAILED) {
                int r = -errno;
                free(m);
                return r;
        }
        *ret = m;
        return 0;
}

static void reap(CgroupMoves *m)
{
        m->source = sd_event_source_disable_unref(m->source);
        m->pid_fd = safe_close(m->pid_fd);
        while (m->pid > 0 && waitpid(m->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        m->pid = 0;
}

CgroupMoves *cgroup_moves_free(CgroupMoves *m)
{
        if (!m)
                return NULL;
        if (m->pid > 0)
                (void) kill(m->pid, SIGKILL);
        reap(m);
        (void) munmap((void *) m->until_usec, sizeof(*m->until_usec));
        free(m);
        return NULL;
}

/* --- The child ----------------------------------------------------------------------------------------- */

/* Whether writes fail is not looked at: the kernel takes the lock before it checks them. */
static void keep_writing(_Atomic uint64_t *until_usec)
{
        for (;;) {
                uint64_t until = atomic_load(until_usec);
                if (now_usec(CLOCK_MONOTONIC) >= until) {
                        if (atomic_compare_exchange_strong(until_usec, &until, 0))
                                return;
                        continue;
                }
                (void) !write(0, "0", 1);
                (void) usleep(PAUSE_USEC);
        }
}

/* Closes inherited descriptors, such as the pod's lock. */
static _noreturn_ void child(CgroupMoves *m, pid_t parent)
{
        (void) prctl(PR_SET_NAME, "cgroup-moves");
        int fd = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ? -1
                                                                                      : cgroup_open_own();

        if (fd >= 0 && dup2(fd, 0) >= 0 && syscall(SYS_close_range, 1, ~0U, 0) >= 0)
                keep_writing(m->until_usec);
        atomic_store(m->until_usec, 0);
        _exit(0);
}

/* --- The supervisor ------------------------------------------------------------------------------------ */

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        reap(userdata);
        return 0;
}

/* False: the child has ended, or is about to. */
static bool extend(CgroupMoves *m, uint64_t until)
{
        uint64_t before = atomic_load(m->until_usec);

        while (before > 0)
                if (atomic_compare_exchange_weak(m->until_usec, &before, until))
                        return true;
        return false;
}

static int begin(CgroupMoves *m, uint64_t until)
{
        pid_t parent = getpid();

        atomic_store(m->until_usec, until);
        m->pid = fork();
        if (m->pid == 0)
                child(m, parent);
        if (m->pid < 0) {
                m->pid = 0;
                return -errno;
        }
        m->pid_fd = (int) syscall(SYS_pidfd_open, m->pid, 0);
        return m->pid_fd < 0 ? -errno : sd_event_add_io(m->event, &m->source, m->pid_fd, EPOLLIN, on_end, m);
}

void cgroup_moves_expect(CgroupMoves *m, uint64_t usec)
{
        uint64_t until = now_usec(CLOCK_MONOTONIC) + usec;

        if (!m || (m->pid > 0 && extend(m, until)))
                return;
        reap(m);
        int r = begin(m, until);
        if (r < 0)
                log_debug("Moves of processes to cgroups may take long: %s", strerror(-r));
}

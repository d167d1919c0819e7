/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The key by which a pod's metadata service signs: a file of the pod, which stays until the pod is removed.
 *
 * Signatures of a pod are to be verified for as long as the pod exists. So the key is synced to disk before
 * the first signature is given out, and survives a power failure of the host. Most pods sign nothing, and a
 * start should not wait for disks: the key is synced when the service needs it, by a child, as the
 * supervisor must never block. */

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stage0/supervisor/services/metadata-key.h"

#define KEY_FILE "hmac-key"

int metadata_key_make(Pod *p)
{
        uint8_t key[METADATA_KEY_SIZE];
        int r = metadata_key_generate(key);

        if (r >= 0)
                r = write_file_atomic_at(p->dir_fd, KEY_FILE, key, METADATA_KEY_SIZE, 0600, false);
        explicit_bzero(key, sizeof(key));
        return r;
}

int metadata_key_read(int dir_fd, uint8_t key[static METADATA_KEY_SIZE])
{
        _cleanup_free_ char *data = NULL;
        size_t size;
        int r = read_file_at(dir_fd, KEY_FILE, METADATA_KEY_SIZE, &data, &size);

        if (r < 0)
                return r;
        if (size == METADATA_KEY_SIZE)
                memcpy(key, data, METADATA_KEY_SIZE);
        explicit_bzero(data, size);
        return size == METADATA_KEY_SIZE ? 0 : -EBADMSG;
}

/* --- On disk ------------------------------------------------------------------------------------------- */

struct KeyKeeper {
        const Pod *pod;
        sd_event *event;
        void (*done)(bool kept, void *userdata);
        void *userdata;
        bool kept;
        pid_t pid; /* the child that syncs the key, or 0 */
        int pid_fd;
        sd_event_source *source;
};

/* Closes all inherited descriptors, such as the pod's lock and pipes: a slow disk must not keep them
 * open. */
static _noreturn_ void sync_key(int pod_fd)
{
        int dir_fd = openat(pod_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir_fd < 0 || dup2(dir_fd, 0) < 0 || syscall(SYS_close_range, 1, ~0U, 0) < 0)
                _exit(1);
        int fd = openat(0, KEY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        _exit(fd < 0 || fsync(fd) < 0 || fsync(0) < 0);
}

static void forget_child(KeyKeeper *k)
{
        k->source = sd_event_source_disable_unref(k->source);
        k->pid_fd = safe_close(k->pid_fd);
        k->pid = 0;
}

static int on_synced(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        KeyKeeper *k = userdata;
        int status = -1;

        k->kept = waitpid(k->pid, &status, WNOHANG) == k->pid && WIFEXITED(status) &&
                  WEXITSTATUS(status) == 0;
        forget_child(k);
        k->done(k->kept, k->userdata);
        return 0;
}

int key_keeper_begin(KeyKeeper *k)
{
        if (k->kept || k->pid > 0)
                return k->kept;
        pid_t pid = fork();
        if (pid == 0)
                sync_key(k->pod->dir_fd);
        if (pid < 0)
                return -errno;
        k->pid = pid;
        k->pid_fd = (int) syscall(SYS_pidfd_open, pid, 0);
        int r = k->pid_fd < 0 ? -errno
                              : sd_event_add_io(k->event, &k->source, k->pid_fd, EPOLLIN, on_synced, k);
        if (r < 0) {
                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, WNOHANG);
                forget_child(k);
        }
        return r;
}

int key_keeper_new(const Pod *p, sd_event *event, void (*done)(bool kept, void *userdata), void *userdata,
                   KeyKeeper **ret)
{
        KeyKeeper *k = malloc(sizeof(KeyKeeper));

        if (!k)
                return -ENOMEM;
        *k = (KeyKeeper){.pod = p, .event = event, .done = done, .userdata = userdata, .pid_fd = -EBADF};
        *ret = k;
        return 0;
}

KeyKeeper *key_keeper_free(KeyKeeper *k)
{
        if (!k)
                return NULL;
        if (k->pid > 0) { /* no caller waits for it any more, nor for the disk */
                (void) kill(k->pid, SIGKILL);
                (void) waitpid(k->pid, NULL, WNOHANG);
                forget_child(k);
        }
        free(k);
        return NULL;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parent's side of the metadata service: starts and configures it, and answers its queries.
 *
 * The service is started by posix_spawn(), which costs the same however large the caller is and which
 * reports a failing exec. Nothing here waits for the service: messages stay in the channel until it reads
 * them, and its messages are processed from the caller's poll loop, one at a time. Messages of the service
 * are untrusted: a query about a signature contains a UUID, which is checked before the key lookup sees it
 * (it may become part of a path), and a descriptor, which is read up to a limit and never mapped.
 */

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "config.h"
#include "library/libcrypto.h"
#include "metadata/protocol.h"

#define END_TIMEOUT_MSEC 2000

struct MetadataClient {
        int channel;
        pid_t pid;
        int pidfd;
        uint64_t serial;     /* serial of the last configuration sent */
        uint64_t configured; /* serial of the one in force */
        bool serving;
        char *uuid;
        MetadataMaySign may_sign;
        void *may_sign_data;
};

/* --- Start and end ------------------------------------------------------------------------------------- */

/* The service ends by itself when the channel is closed. Uses a pidfd, so that no other process is killed if
 * the caller has reaped the service already; where such signals are refused, not while it does so in another
 * thread (process_signal()). */
static void reap(int pidfd)
{
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        siginfo_t info;
        int r;

        do
                r = poll(&p, 1, END_TIMEOUT_MSEC);
        while (r < 0 && errno == EINTR);
        if (r <= 0)
                (void) process_signal(pidfd, SIGKILL);
        while (waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED) < 0 && errno == EINTR)
                ;
}

MetadataClient *metadata_client_free(MetadataClient *c)
{
        if (!c)
                return NULL;
        safe_close(c->channel);
        if (c->pidfd >= 0)
                reap(c->pidfd);
        safe_close(c->pidfd);
        free(c->uuid);
        free(c);
        return NULL;
}

static void actions_done(posix_spawn_file_actions_t *a)
{
        (void) posix_spawn_file_actions_destroy(a);
}

static void attributes_done(posix_spawnattr_t *a)
{
        (void) posix_spawnattr_destroy(a);
}

/* Descriptor 3 is set first: CHANNEL may itself be one of the standard descriptors, if the caller runs
 * without them. */
static int set_descriptors(posix_spawn_file_actions_t *a, int channel)
{
        if (posix_spawn_file_actions_adddup2(a, channel, METADATA_CHANNEL_FD) != 0 ||
            posix_spawn_file_actions_addopen(a, STDIN_FILENO, "/dev/null", O_RDWR, 0) != 0 ||
            posix_spawn_file_actions_adddup2(a, STDIN_FILENO, STDOUT_FILENO) != 0 ||
            posix_spawn_file_actions_addclosefrom_np(a, METADATA_CHANNEL_FD + 1) != 0)
                return -ENOMEM;
        return 0;
}

/* Default signal dispositions, and a session of its own: a ^C for the caller must not reach the service. */
static int set_attributes(posix_spawnattr_t *a)
{
        sigset_t all, none;

        (void) sigfillset(&all);
        (void) sigemptyset(&none);
        if (posix_spawnattr_setsigdefault(a, &all) != 0 || posix_spawnattr_setsigmask(a, &none) != 0 ||
            posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                                        POSIX_SPAWN_SETSID) != 0)
                return -EINVAL;
        return 0;
}

static int spawn(const char *program, char *const argv[], int channel, pid_t *ret)
{
        _cleanup_(actions_done) posix_spawn_file_actions_t actions;
        _cleanup_(attributes_done) posix_spawnattr_t attributes;
        char *const environment[] = {NULL};

        (void) posix_spawn_file_actions_init(&actions);
        (void) posix_spawnattr_init(&attributes);
        int r = set_descriptors(&actions, channel);
        if (r >= 0)
                r = set_attributes(&attributes);
        if (r < 0)
                return r;
        return -posix_spawn(ret, program, &actions, &attributes, argv, environment);
}

static int start_service(MetadataClient *c, const MetadataStart *start, Error *e)
{
        const char *program = start->program ?: ACNSPAWN_LIBEXECDIR "/" METADATA_PROGRAM;
        _cleanup_free_ char *uid = NULL, *gid = NULL;
        _cleanup_close_ int theirs = -EBADF;
        int pair[2];

        if (xasprintf(&uid, "--uid=%u", (unsigned) start->uid) < 0 ||
            xasprintf(&gid, "--gid=%u", (unsigned) start->gid) < 0)
                return error_oom(e);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return error_set_errno(e, -errno,
                                       "Cannot create the control channel of pod %s's metadata service",
                                       c->uuid);
        c->channel = pair[0];
        theirs = pair[1];

        char *without[] = {(char *) METADATA_PROGRAM, NULL},
             *with[] = {(char *) METADATA_PROGRAM, uid, gid, NULL};
        int r = spawn(program, geteuid() == 0 ? with : without, theirs, &c->pid);
        if (r < 0) {
                error_set_errno(e, r, "Cannot start the metadata service %s of pod %s", program, c->uuid);
                return r == -ENOENT ? error_hint(e, r, "It is part of acnspawn; install the package again.")
                                    : r;
        }
        c->pidfd = pidfd_open(c->pid, 0);
        if (c->pidfd >= 0)
                return 0;
        r = -errno;
        (void) kill(c->pid, SIGKILL);
        (void) waitpid(c->pid, NULL, 0);
        return error_set_errno(e, r, "Cannot watch the metadata service of pod %s", c->uuid);
}

int metadata_client_start(const MetadataStart *start, const MetadataConfig *config, MetadataClient **ret,
                          Error *e)
{
        _cleanup_(metadata_client_freep) MetadataClient *c = calloc(1, sizeof(*c));

        if (!c)
                return error_oom(e);
        c->channel = c->pidfd = -EBADF;
        c->uuid = strdup(config->uuid);
        if (!c->uuid)
                return error_oom(e);
        int r = start_service(c, start, e);
        if (r >= 0)
                r = metadata_client_configure(c, config, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

/* --- To the service ------------------------------------------------------------------------------------ */

static int client_send(MetadataClient *c, const MetadataMessage *m, int fd, const char *what, Error *e)
{
        int r = metadata_message_send(c->channel, m, fd);

        if (r == -EPIPE || r == -ECONNRESET)
                return error_set(e, -ECONNRESET,
                                 "Cannot send the metadata service of pod %s its %s: it has ended", c->uuid,
                                 what);
        if (r < 0)
                return error_set_errno(e, r, "Cannot send the metadata service of pod %s its %s", c->uuid,
                                       what);
        return 0;
}

int metadata_client_configure(MetadataClient *c, const MetadataConfig *config, Error *e)
{
        MetadataMessage m = {.type = METADATA_MESSAGE_CONFIG, .serial = c->serial + 1};
        _cleanup_close_ int fd = -EBADF;

        int r = metadata_config_encode(config, &fd, e);
        if (r >= 0)
                r = client_send(c, &m, fd, "configuration", e);
        if (r >= 0)
                c->serial++;
        return r;
}

int metadata_client_send_listener(MetadataClient *c, int listen_fd, Error *e)
{
        MetadataMessage m = {.type = METADATA_MESSAGE_LISTENER};

        return client_send(c, &m, listen_fd, "listening socket", e);
}

int metadata_client_fd(const MetadataClient *c)
{
        return c->channel;
}

pid_t metadata_client_pid(const MetadataClient *c)
{
        return c->pid;
}

bool metadata_client_serving(const MetadataClient *c)
{
        return c->serving;
}

bool metadata_client_configured(const MetadataClient *c)
{
        return c->configured == c->serial;
}

/* --- From the service ---------------------------------------------------------------------------------- */

/* Accepts only a sealed memfd: reading it never blocks, and its content cannot change. */
static int read_content(int fd, char **ret, size_t *ret_size)
{
        const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
        int seals = fcntl(fd, F_GET_SEALS);

        if (seals < 0 || (seals & wanted) != wanted)
                return -EBADMSG;
        return read_fd_bounded(fd, METADATA_BODY_MAX, ret, ret_size);
}

/* Whether the signature is that pod's. An invalid query is answered with no. */
static bool is_valid_signature(const MetadataMessage *m, int fd, MetadataKeyLookup lookup, void *userdata)
{
        _cleanup_free_ char *content = NULL;
        uint8_t key[METADATA_KEY_SIZE];
        char uuid[sizeof(m->uuid)];
        size_t size;

        if (!lookup || uuid_check(m->uuid, NULL) < 0 || read_content(fd, &content, &size) < 0)
                return false;
        for (size_t i = 0; i < sizeof(uuid); i++)
                uuid[i] = m->uuid[i] >= 'A' && m->uuid[i] <= 'F' ? (char) (m->uuid[i] + 'a' - 'A')
                                                                 : m->uuid[i];
        if (lookup(uuid, key, userdata) < 0)
                return false;
        int r = metadata_hmac_verify(key, content, size, m->signature, strlen(m->signature));
        explicit_bzero(key, sizeof(key));
        return r > 0;
}

static int send_verdict(MetadataClient *c, uint64_t serial, bool yes)
{
        const MetadataMessage m = {.type = METADATA_MESSAGE_VERDICT, .serial = serial, .code = yes};

        /* A service that does not read gets no answer, which it treats as a no. */
        return metadata_message_send(c->channel, &m, -EBADF);
}

void metadata_client_set_may_sign(MetadataClient *c, MetadataMaySign function, void *userdata)
{
        c->may_sign = function;
        c->may_sign_data = userdata;
}

void metadata_client_answer(MetadataClient *c, uint64_t serial, bool yes)
{
        (void) send_verdict(c, serial, yes);
}

static int answer_query(MetadataClient *c, const MetadataMessage *m, int fd, MetadataKeyLookup lookup,
                        void *userdata, Error *e)
{
        int yes = 1, r = 0;

        if (m->type == METADATA_MESSAGE_VERIFY) {
                r = library_load(&crypto_library, e);
                if (r < 0)
                        return r;
                yes = is_valid_signature(m, fd, lookup, userdata);
        } else if (c->may_sign && (yes = c->may_sign(m->serial, c->may_sign_data)) == 0)
                return 1; /* later */
        r = send_verdict(c, m->serial, yes > 0);

        return r == -EPIPE ? error_set(e, -ECONNRESET, "The metadata service of pod %s has ended", c->uuid)
                           : 1;
}

static int report(const MetadataClient *c, const MetadataMessage *m, const char *what, Error *e)
{
        _cleanup_free_ char *text = text_escape_for_terminal(m->text);

        return error_set(e, -EREMOTEIO, "The metadata service of pod %s %s: %s", c->uuid, what,
                         text ?: "out of memory");
}

static int take_message(MetadataClient *c, const MetadataMessage *m, int fd, MetadataKeyLookup lookup,
                        void *userdata, Error *e)
{
        switch (m->type) {
        case METADATA_MESSAGE_CONFIGURED:
                if (m->code < 0)
                        return report(c, m, "refuses its configuration", e);
                if (m->serial <= c->serial)
                        c->configured = m->serial;
                return 1;
        case METADATA_MESSAGE_SERVING:
                if (m->code < 0)
                        return report(c, m, "cannot serve", e);
                c->serving = true;
                return 1;
        case METADATA_MESSAGE_VERIFY:
        case METADATA_MESSAGE_SIGN:
                return answer_query(c, m, fd, lookup, userdata, e);
        default:
                return error_set(e, -EBADMSG, "The metadata service of pod %s sends invalid messages",
                                 c->uuid);
        }
}

int metadata_client_handle(MetadataClient *c, MetadataKeyLookup lookup, void *userdata, Error *e)
{
        _cleanup_close_ int fd = -EBADF;
        MetadataMessage m;

        int r = metadata_message_receive(c->channel, &m, &fd);
        if (r == -EAGAIN)
                return 0;
        if (r == 0) {
                c->serving = false;
                return error_set(e, -ECONNRESET, "The metadata service of pod %s has ended", c->uuid);
        }
        if (r == -EBADMSG)
                return error_set(e, r, "The metadata service of pod %s sends invalid messages", c->uuid);
        if (r < 0)
                return error_set_errno(e, r, "Cannot receive messages of the metadata service of pod %s",
                                       c->uuid);
        return take_message(c, &m, fd, lookup, userdata, e);
}

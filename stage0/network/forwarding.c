/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Forwarding of packets by the host, while pods need it.
 *
 * The bridge plugin enables it, for IPv4 and IPv6 and on all interfaces, and leaves it on. So the settings of the host are
 * stored before the first pod is added to a network, and restored when the last one has been removed.
 *
 * The directory of a network namespace that stands for the host (named by the kernel's cookie of it, which is not used again
 * until a reboot) has the file "before", with the settings, and an empty file for each pod. The lock of the parent directory
 * is held during changes; others cannot open it, as they could hold the lock for ever. A file is made after the pod's record, and removed before it: so what is left of a process that
 * was killed is removed with the rest of the pod.
 */

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stage0/network/network-internal.h"

#define RUN_DIRECTORY "/run/acnspawn"
#define DIRECTORY RUN_DIRECTORY "/forwarding"
#define BEFORE "before"
#define SETTINGS_MAX (1024U * 1024U)

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif

static const char *const families[] = {"/proc/sys/net/ipv4/conf", "/proc/sys/net/ipv6/conf"};

/* --- Settings ------------------------------------------------------------------------------------------ */

/* Whether FAMILY/INTERFACE/forwarding is set; negative: there is no such file. */
static int get_forwarding(const char *family, const char *interface)
{
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;
        char c = 0;

        if (xasprintf(&path, "%s/%s/forwarding", family, interface) < 0)
                return -ENOMEM;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return loop_read(fd, &c, 1) == 1 ? c == '1' : -EIO;
}

static int set_forwarding(const char *family, const char *interface, bool on)
{
        _cleanup_free_ char *path = NULL;

        if (xasprintf(&path, "%s/%s/forwarding", family, interface) < 0)
                return -ENOMEM;
        return write_attribute_at(AT_FDCWD, path, on ? "1" : "0");
}

/* A line for a family without forwarding: its directory, and the interfaces that forward all the same. */
static int add_family(char **text, const char *family)
{
        _cleanup_close_ int fd = open(family, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL, **exceptions = NULL;
        _cleanup_free_ char *list = NULL, *before = NULL;

        if (fd < 0 || get_forwarding(family, "all") != 0)
                return 0;
        int r = list_names(fd, &names);
        if (r < 0)
                return r;
        STRV_FOREACH (name, names)
                if (!streq(*name, "all") && get_forwarding(family, *name) > 0 &&
                    strv_extend(&exceptions, *name) < 0)
                        return -ENOMEM;
        list = strv_join(exceptions, " ");
        before = TAKE_PTR(*text);
        return list ? xasprintf(text, "%s%s %s\n", before ?: "", family, list) : -ENOMEM;
}

/* Restores what is in LINE, if forwarding was enabled since then. */
static int restore_family(const char *line)
{
        _cleanup_strv_free_ char **words = NULL;
        const char *family = NULL;

        if (strv_split(line, " ", &words) < 0)
                return -ENOMEM;
        for (size_t i = 0; words[0] && i < ELEMENTSOF(families); i++)
                if (streq(words[0], families[i]))
                        family = families[i];
        if (!family || get_forwarding(family, "all") <= 0)
                return 0;
        int r = set_forwarding(family, "all", false);
        for (char **name = words + 1; *name; name++)
                if (!strchr(*name, '/') && !isempty(*name))
                        (void) set_forwarding(family, *name,
                                              true); /* which may have been removed since then */
        return r;
}

/* --- The directory ------------------------------------------------------------------------------------- */

/* Of the network namespace of this process. Before Linux 5.14 there is one for all. */
static uint64_t namespace_cookie(void)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        uint64_t cookie = 0;
        socklen_t size = sizeof(cookie);

        return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) >= 0 ? cookie : 0;
}

typedef struct Place {
        int parent_fd; /* locked */
        int fd;        /* of the namespace's directory, or negative */
        char name[24];
} Place;

static void place_done(Place *p)
{
        safe_close(p->fd);
        safe_close(p->parent_fd);
}

static int open_place(bool make, Place *p)
{
        *p = (Place){.parent_fd = -EBADF, .fd = -EBADF};
        snprintf(p->name, sizeof(p->name), "%" PRIu64, namespace_cookie());
        int r = make ? mkdir_p(RUN_DIRECTORY, 0755) : 0;
        if (r < 0)
                return r;
        if (make && mkdir(DIRECTORY, 0700) < 0 && errno != EEXIST)
                return -errno;
        p->parent_fd = open(DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (p->parent_fd < 0 || fchmod(p->parent_fd, 0700) < 0) /* earlier versions made it for all */
                return -errno;
        while (flock(p->parent_fd, LOCK_EX) < 0)
                if (errno != EINTR)
                        return -errno;
        if (make && mkdirat(p->parent_fd, p->name, 0755) < 0 && errno != EEXIST)
                return -errno;
        p->fd = openat(p->parent_fd, p->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return p->fd < 0 ? -errno : 0;
}

static int keep(const Pod *p)
{
        _cleanup_(place_done) Place place;
        _cleanup_free_ char *text = NULL;

        int r = open_place(true, &place);
        /* While there are pods, the settings are not those of the host alone. */
        bool first = r >= 0 && faccessat(place.fd, BEFORE, F_OK, 0) < 0;
        for (size_t i = 0; r >= 0 && first && i < ELEMENTSOF(families); i++)
                r = add_family(&text, families[i]);
        if (r >= 0 && first)
                r = write_file_atomic_at(place.fd, BEFORE, text ?: "", strlen(text ?: ""), 0644, false);
        if (r >= 0)
                r = write_file_new_at(place.fd, p->uuid, "", 0, 0644);
        return r == -EEXIST ? 0 : r;
}

int network_forwarding_keep(const Pod *p, Error *e)
{
        int r = keep(p);

        return r < 0 ? error_set_errno(e, r, "Cannot store the host's settings of forwarding in " DIRECTORY)
                     : 0;
}

static int restore(const Place *p)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_file_at(p->fd, BEFORE, SETTINGS_MAX, &text, NULL);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (strv_split(text, "\n", &lines) < 0)
                return -ENOMEM;
        STRV_FOREACH (line, lines) {
                int k = restore_family(*line);
                r = r < 0 ? r : k;
        }
        return r < 0 ? r : unlinkat(p->fd, BEFORE, 0) < 0 ? -errno : 0;
}

static int release(const Pod *p)
{
        _cleanup_(place_done) Place place;
        _cleanup_strv_free_ char **names = NULL;

        int r = open_place(false, &place);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (unlinkat(place.fd, p->uuid, 0) < 0 && errno != ENOENT)
                return -errno;
        r = list_names(place.fd, &names);
        if (r < 0)
                return r;
        STRV_FOREACH (name, names)
                if (!streq(*name, BEFORE))
                        return 0;
        r = restore(&place);
        if (r >= 0)
                (void) unlinkat(place.parent_fd, place.name, AT_REMOVEDIR);
        return r;
}

int network_forwarding_release(const Pod *p, Error *e)
{
        int r = release(p);

        return r < 0 ? error_set_errno(e, r,
                                       "Cannot restore the host's settings of forwarding (net.ipv4.ip_forward, "
                                       "net.ipv6.conf.all.forwarding) from " DIRECTORY)
                     : 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks whether a file system is suitable for a store: for the upper directories of overlays, and for files
 * with the owners, attributes and device nodes of images.
 *
 * File systems that are known to be unsuitable are refused by type. The features of others depend on how
 * they were created and mounted, so these are tested in a temporary directory: trusted attributes, owners,
 * character devices (which are whiteouts), types of entries in listings, and an overlay. The overlay is
 * created and dropped without being mounted anywhere.
 *
 * The test takes a few milliseconds. It runs when a store is new, and again if the file "file-system" in it,
 * which records the tested file system, does not match: then the store was copied or moved.
 */

#include <dirent.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "prepare/store/store-internal.h"

#define PROBE_ATTRIBUTE "trusted.acnspawn"
#define PROBE_OWNER 1U
#define MOUNTINFO_SIZE_MAX (64U * 1024U * 1024U)

static const struct {
        uint32_t magic;
        const char *name;
} unfit_file_systems[] = {
                {OVERLAYFS_SUPER_MAGIC, "overlay"},
                {NFS_SUPER_MAGIC, "NFS"},
                {SMB_SUPER_MAGIC, "SMB"},
                {CIFS_SUPER_MAGIC, "CIFS"},
                {SMB2_SUPER_MAGIC, "SMB"},
                {V9FS_MAGIC, "9p"},
                {FUSE_SUPER_MAGIC, "FUSE"},
                {MSDOS_SUPER_MAGIC, "FAT"},
                {EXFAT_SUPER_MAGIC, "exFAT"},
                {ECRYPTFS_SUPER_MAGIC, "eCryptfs"},
                {AFS_SUPER_MAGIC, "AFS"},
                {AFS_FS_MAGIC, "AFS"},
                {CEPH_SUPER_MAGIC, "Ceph"},
                {CODA_SUPER_MAGIC, "Coda"},
                {NCP_SUPER_MAGIC, "NCP"},
                {SQUASHFS_MAGIC, "squashfs"},
                {ISOFS_SUPER_MAGIC, "ISO 9660"},
                {CRAMFS_MAGIC, "cramfs"},
                {EROFS_SUPER_MAGIC_V1, "EROFS"},
                {PROC_SUPER_MAGIC, "proc"},
                {SYSFS_MAGIC, "sysfs"},
                {RAMFS_MAGIC, "ramfs"},
};

typedef struct Probe {
        int fd; /* directory of the store */
        const char *path;
        char name[64]; /* name of the test directory */
        int dir_fd;
} Probe;

static void probe_done(Probe *p)
{
        if (p->dir_fd >= 0)
                (void) rm_rf_at(p->fd, p->name);
        safe_close(p->dir_fd);
}

static int unfit(const char *path, const char *why, Error *e)
{
        int r = error_set(e, -EOPNOTSUPP,
                          "The store %s is on a file system that is not suitable for pods (%s)", path, why);

        return error_hint(e, r, "Choose a directory on ext4, XFS, Btrfs or tmpfs with --dir=.");
}

/* --- Tests --------------------------------------------------------------------------------------------- */

/* Each returns 1 if the feature exists, 0 if it does not, -EPERM if the test is not permitted, or the error
 * of the test. */

/* Maps the error of a call: these errors mean that the file system does not have the feature. */
static int cannot(int error, int what)
{
        return error == what || error == EOPNOTSUPP || error == ENOSYS ? 0 : -error;
}

static int try_attributes(const Probe *p)
{
        if (fsetxattr(p->dir_fd, PROBE_ATTRIBUTE, "y", 1, 0) >= 0)
                return 1;
        return cannot(errno, EOPNOTSUPP);
}

static int try_owners(const Probe *p)
{
        struct stat st;

        if (mkdirat(p->dir_fd, "owned", 0700) < 0)
                return -errno;
        if (fchownat(p->dir_fd, "owned", PROBE_OWNER, PROBE_OWNER, AT_SYMLINK_NOFOLLOW) < 0)
                return cannot(errno, EINVAL);
        if (fstatat(p->dir_fd, "owned", &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return st.st_uid == PROBE_OWNER && st.st_gid == PROBE_OWNER;
}

static int try_whiteouts(const Probe *p)
{
        return mknodat(p->dir_fd, "whiteout", S_IFCHR, makedev(0, 0)) >= 0 ? 1 : cannot(errno, EINVAL);
}

static int try_types(const Probe *p)
{
        int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), known = 1;
        DIR *d = fd < 0 ? NULL : fdopendir(fd);

        if (!d) {
                int r = -errno;
                safe_close(fd);
                return r;
        }
        for (struct dirent *de; (de = readdir(d));)
                if (de->d_type == DT_UNKNOWN)
                        known = 0;
        closedir(d);
        return known;
}

static int set_path(int fs, const char *key, const Probe *p, const char *name)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", p->dir_fd, name);
        return syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, path, 0) < 0 ? -errno : 0;
}

static int try_overlay(const Probe *p)
{
        static const char *const names[][2] = {
                        {"lowerdir", "lower"}, {"upperdir", "upper"}, {"workdir", "work"}};
        _cleanup_close_ int fs = (int) syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);

        /* Without overlays or without /proc pods cannot run at all; starting one reports that. */
        if (fs < 0 || access("/proc/self/fd", X_OK) < 0)
                return -EPERM;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                if (mkdirat(p->dir_fd, names[i][1], 0700) < 0)
                        return -errno;
                int r = set_path(fs, names[i][0], p, names[i][1]);
                if (r < 0)
                        return r;
        }
        /* Otherwise dropping the overlay would sync the whole file system. */
        (void) syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0);
        if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) >= 0)
                return 1;
        return cannot(errno, EINVAL);
}

static const struct {
        int (*try)(const Probe *p);
        const char *why;
} properties[] = {
                {try_attributes, "it has no extended attributes"},
                {try_owners, "it does not store owners of files"},
                {try_whiteouts, "it has no device nodes"},
                {try_types, "its directories do not list the types of entries"},
                {try_overlay, "the kernel cannot make an overlay on it"},
};

static int try_all(const Probe *p, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(properties); i++) {
                int r = properties[i].try(p);
                if (r == 0)
                        return unfit(p->path, properties[i].why, e);
                if (r < 0 && r != -EPERM)
                        return error_set_errno(e, r, "Cannot test the file system of the store %s", p->path);
        }
        return 0;
}

static int make_probe(Probe *p, bool is_new, Error *e)
{
        char hex[RANDOM_HEX_SIZE];
        int r = random_hex(hex);

        /* If the process is killed: below tmp/ it will be collected, and a new store may contain names with
         * this prefix. */
        if (r >= 0) {
                snprintf(p->name, sizeof(p->name), "%s.probe-%s", is_new ? "" : "tmp/", hex);
                r = mkdirat(p->fd, p->name, 0700) < 0 ? -errno
                                                      : open_beneath(p->fd, p->name, O_RDONLY | O_DIRECTORY);
        }
        if (r < 0)
                return error_set_errno(e, r, "Cannot create a directory in the store %s", p->path);
        p->dir_fd = r;
        return 0;
}

/* --- The tested file system ---------------------------------------------------------------------------- */

#define ID_SIZE 40U

static int identify(int fd, char ret[static ID_SIZE])
{
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return -errno;
        snprintf(ret, ID_SIZE, "%08x %08x%08x\n", (unsigned) fs.f_type, (unsigned) fs.f_fsid.__val[0],
                 (unsigned) fs.f_fsid.__val[1]);
        return 0;
}

static bool is_known(int fd)
{
        _cleanup_free_ char *known = NULL;
        char now[ID_SIZE];

        return read_file_at(fd, "file-system", ID_SIZE, &known, NULL) >= 0 && identify(fd, now) >= 0 &&
               streq(known, now);
}

/* Drivers without id-mapped mounts may be those of the next boot only. Only success is recorded: what was refused is tried again. */
#define MAPPING_RECORD "id-mapped"
#define MAPPING_SIZE (UUID_TEXT_SIZE + ID_SIZE)

static int identify_mapping(int fd, char ret[static MAPPING_SIZE])
{
        _cleanup_free_ char *boot = NULL;
        char now[ID_SIZE];

        int r = read_boot_id(&boot);
        if (r >= 0)
                r = identify(fd, now);
        if (r >= 0)
                snprintf(ret, MAPPING_SIZE, "%s %s", boot, now);
        return r;
}

bool store_is_id_mapped(const Store *s)
{
        _cleanup_free_ char *known = NULL;
        char now[MAPPING_SIZE];

        return read_file_at(s->fd, MAPPING_RECORD, MAPPING_SIZE, &known, NULL) >= 0 &&
               identify_mapping(s->fd, now) >= 0 && streq(known, now);
}

void store_note_id_mapped(const Store *s)
{
        char now[MAPPING_SIZE];

        if (identify_mapping(s->fd, now) >= 0)
                (void) write_file_atomic_at(s->fd, MAPPING_RECORD, now, strlen(now), 0644, false);
}

void file_system_note(int fd)
{
        char now[ID_SIZE];

        if (geteuid() == 0 && identify(fd, now) >= 0)
                (void) write_file_atomic_at(fd, "file-system", now, strlen(now), 0644, false);
}

/* --- Checks -------------------------------------------------------------------------------------------- */

int file_system_check_name(int fd, const char *path, Error *e)
{
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return error_set_errno(e, errno, "Cannot examine the file system of the store %s", path);
        for (size_t i = 0; i < ELEMENTSOF(unfit_file_systems); i++)
                if ((uint32_t) fs.f_type == unfit_file_systems[i].magic)
                        return unfit(path, unfit_file_systems[i].name, e);
        return 0;
}

int file_system_check(int fd, const char *path, bool is_new, Error *e)
{
        _cleanup_(probe_done) Probe p = {.fd = fd, .path = path, .dir_fd = -EBADF};

        /* Other users can neither run most of the tests nor pods. */
        if (geteuid() != 0 || (!is_new && is_known(fd)))
                return 0;
        int r = make_probe(&p, is_new, e);
        if (r == -EROFS && !is_new)
                return 0; /* the store can still be read */
        if (r >= 0)
                r = try_all(&p, e);
        if (r >= 0 && !is_new)
                file_system_note(fd);
        return r;
}

/* --- The type of the file system ----------------------------------------------------------------------- */

/* From the mountinfo line of the descriptor's mount. */
char *file_system_type(int fd)
{
        _cleanup_free_ char *info = NULL, *mounts = NULL, *start = NULL;
        const char *id, *line, *type;
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        if (read_file_at(AT_FDCWD, path, 4096, &info, NULL) < 0 || !(id = strstr(info, "mnt_id:\t")) ||
            read_file_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_SIZE_MAX, &mounts, NULL) < 0)
                return NULL;
        id += strlen("mnt_id:\t");
        if (xasprintf(&start, "%.*s ", (int) strcspn(id, "\n"), id) < 0)
                return NULL;
        for (line = mounts; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (startswith(line, start) && (type = strstr(line, " - ")))
                        return strndup(type + 3, strcspn(type + 3, " \n"));
        return NULL;
}

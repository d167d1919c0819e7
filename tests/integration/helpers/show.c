/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes a report of the process's environment to a file, for the integration tests to compare.
 *
 * The report is JSON; byte strings are written as hex, so that no encoding can hide a difference. It goes to
 * /out/NAME.N.json, where NAME is AC_APP_NAME and N the first free number; so the runs of handlers and app
 * are distinguished by their order. Links statically, as the test images hold no libraries. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

static FILE *out;

static void put_hex(const void *p, size_t n)
{
        const unsigned char *b = p;

        fputc('"', out);
        for (size_t i = 0; i < n; i++)
                fprintf(out, "%02x", b[i]);
        fputc('"', out);
}

static void put_key(const char *key)
{
        fprintf(out, ",\n\"%s\": ", key);
}

static void put_list(const char *key, char **l)
{
        put_key(key);
        fputc('[', out);
        for (size_t i = 0; l[i]; i++) {
                if (i > 0)
                        fputc(',', out);
                put_hex(l[i], strlen(l[i]));
        }
        fputc(']', out);
}

static void put_file(const char *key, const char *path)
{
        char buffer[65536];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n;

        put_key(key);
        if (fd < 0) {
                fprintf(out, "null");
                return;
        }
        fputc('"', out);
        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t i = 0; i < n; i++)
                        fprintf(out, "%02x", (unsigned char) buffer[i]);
        fputc('"', out);
        close(fd);
}

static void put_link(const char *key, const char *path)
{
        char target[4096];
        ssize_t n = readlink(path, target, sizeof(target));

        put_key(key);
        if (n < 0)
                fprintf(out, "null");
        else
                put_hex(target, (size_t) n);
}

/* Descriptors that were open when the process started: all except those of the directory and of the report. */
static void put_fds(int directory_fd)
{
        DIR *d = fdopendir(directory_fd);
        bool first = true;

        put_key("fds");
        fputc('{', out);
        for (struct dirent *de; d && (de = readdir(d));) {
                char target[4096];
                int fd = atoi(de->d_name);

                if (de->d_name[0] == '.' || fd == directory_fd || fd == fileno(out))
                        continue;
                ssize_t n = readlinkat(directory_fd, de->d_name, target, sizeof(target));
                fprintf(out, "%s\"%d\": ", first ? "" : ",", fd);
                put_hex(target, n < 0 ? 0 : (size_t) n);
                first = false;
        }
        fputc('}', out);
        if (d)
                closedir(d);
}

static void put_directory(const char *key, const char *path)
{
        DIR *d = opendir(path);
        bool first = true;

        put_key(key);
        if (!d) {
                fprintf(out, "null");
                return;
        }
        fputc('{', out);
        for (struct dirent *de; (de = readdir(d));) {
                struct stat st;
                char target[4096] = "";

                if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
                        continue;
                if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                ssize_t n = readlinkat(dirfd(d), de->d_name, target, sizeof(target));
                fprintf(out, "%s\n ", first ? "" : ",");
                put_hex(de->d_name, strlen(de->d_name));
                fprintf(out,
                        ": {\"mode\": %u, \"uid\": %u, \"gid\": %u, \"major\": %u, \"minor\": %u, "
                        "\"target\": ",
                        st.st_mode, st.st_uid, st.st_gid, major(st.st_rdev), minor(st.st_rdev));
                put_hex(target, n < 0 ? 0 : (size_t) n);
                fputc('}', out);
                first = false;
        }
        fputc('}', out);
        closedir(d);
}

static void put_ids(void)
{
        uid_t r, e, s;
        gid_t rg, eg, sg, groups[1024];
        int n = getgroups(1024, groups);

        getresuid(&r, &e, &s);
        getresgid(&rg, &eg, &sg);
        fprintf(out, ",\n\"uids\": [%u, %u, %u], \"gids\": [%u, %u, %u], \"groups\": [", r, e, s, rg, eg,
                sg);
        for (int i = 0; i < n; i++)
                fprintf(out, "%s%u", i > 0 ? ", " : "", groups[i]);
        fputc(']', out);
}

static void put_process(void)
{
        struct utsname u;
        mode_t mask = umask(0);
        char cwd[4096];

        umask(mask);
        fprintf(out, ",\n\"pid\": %d, \"ppid\": %d, \"sid\": %d, \"umask\": %u", getpid(), getppid(),
                getsid(0), mask);
        if (uname(&u) == 0) {
                put_key("hostname");
                put_hex(u.nodename, strlen(u.nodename));
        }
        put_key("cwd");
        put_hex(cwd, getcwd(cwd, sizeof(cwd)) ? strlen(cwd) : 0);
}

static void put_namespaces(void)
{
        static const char *const kinds[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                char key[32], path[64];
                snprintf(key, sizeof(key), "ns_%s", kinds[i]);
                snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
                put_link(key, path);
        }
}

static int open_report(void)
{
        const char *name = getenv("AC_APP_NAME");

        for (unsigned i = 0; i < 100; i++) {
                char path[1024];
                snprintf(path, sizeof(path), "/out/%s.%u.json", name ? name : "unknown", i);
                int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
                if (fd >= 0 || errno != EEXIST)
                        return fd;
        }
        return -1;
}

int main(int argc, char **argv)
{
        int directory_fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int fd = open_report();

        (void) argc;
        out = fd < 0 ? NULL : fdopen(fd, "w");
        if (!out) {
                fprintf(stderr, "show: cannot write to /out: %s\n", strerror(errno));
                return 99;
        }
        fprintf(out, "{\"complete\": true");
        put_list("argv", argv);
        put_list("environ", environ);
        put_ids();
        put_process();
        put_fds(directory_fd);
        put_file("status", "/proc/self/status");
        put_file("mountinfo", "/proc/self/mountinfo");
        put_file("cgroup", "/proc/self/cgroup");
        put_file("limits", "/proc/self/limits");
        put_file("uid_map", "/proc/self/uid_map");
        put_file("net_dev", "/proc/net/dev");
        put_file("net_tcp", "/proc/net/tcp");
        put_file("oom_score_adj", "/proc/self/oom_score_adj");
        put_link("exe", "/proc/self/exe");
        put_link("root", "/proc/self/root");
        put_namespaces();
        put_directory("dev", "/dev");
        put_directory("root_dir", "/");
        fprintf(out, "}\n");
        return fclose(out) == 0 ? 0 : 98;
}

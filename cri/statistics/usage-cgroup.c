/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the files of a cgroup of version 2.
 *
 * They are read on the host, where the kernel accounts, so a container has no influence on them. What this host has no
 * controller for is unknown, not zero. */

#include "cri/statistics/usage.h"
#include "stage0/report/report.h"

#define TEXT_SIZE 65536U

/* A key that ends with '=' is summed over all lines, as io.stat has one for each device. Without a key the file has a number
 * only. Files in a row are read once. */
static const struct {
        const char *file, *key;
        size_t offset;
        CriParts part;
} fields[] = {
                {"cpu.stat", "usage_usec", offsetof(CriUsage, cpu_usec)},
                {"cpu.stat", "user_usec", offsetof(CriUsage, cpu_user_usec)},
                {"cpu.stat", "system_usec", offsetof(CriUsage, cpu_system_usec)},
                {"cpu.stat", "nr_periods", offsetof(CriUsage, cpu_periods)},
                {"cpu.stat", "nr_throttled", offsetof(CriUsage, cpu_throttled_periods)},
                {"cpu.stat", "throttled_usec", offsetof(CriUsage, cpu_throttled_usec)},
                {"memory.current", NULL, offsetof(CriUsage, memory)},
                {"memory.peak", NULL, offsetof(CriUsage, memory_peak), CRI_PARTS_METRICS},
                {"memory.max", NULL, offsetof(CriUsage, memory_max)},
                {"memory.low", NULL, offsetof(CriUsage, memory_low), CRI_PARTS_METRICS},
                {"memory.stat", "anon", offsetof(CriUsage, anon)},
                {"memory.stat", "file", offsetof(CriUsage, file)},
                {"memory.stat", "file_mapped", offsetof(CriUsage, file_mapped)},
                {"memory.stat", "inactive_file", offsetof(CriUsage, inactive_file)},
                {"memory.stat", "kernel", offsetof(CriUsage, kernel)},
                {"memory.stat", "pgfault", offsetof(CriUsage, faults)},
                {"memory.stat", "pgmajfault", offsetof(CriUsage, major_faults)},
                {"memory.events", "max", offsetof(CriUsage, limit_hits), CRI_PARTS_METRICS},
                {"memory.events", "oom_kill", offsetof(CriUsage, oom_kills), CRI_PARTS_METRICS},
                {"memory.swap.current", NULL, offsetof(CriUsage, swap)},
                {"memory.swap.max", NULL, offsetof(CriUsage, swap_max)},
                {"io.stat", "rbytes=", offsetof(CriUsage, read_bytes), CRI_PARTS_METRICS},
                {"io.stat", "wbytes=", offsetof(CriUsage, written_bytes), CRI_PARTS_METRICS},
                {"io.stat", "rios=", offsetof(CriUsage, reads), CRI_PARTS_METRICS},
                {"io.stat", "wios=", offsetof(CriUsage, writes), CRI_PARTS_METRICS},
                {"pids.current", NULL, offsetof(CriUsage, pids), CRI_PARTS_PROCESSES},
                {"pids.max", NULL, offsetof(CriUsage, pids_max), CRI_PARTS_METRICS},
};

static const struct {
        const char *file;
        size_t offset;
} pressures[] = {
                {"cpu.pressure", offsetof(CriUsage, cpu_pressure)},
                {"memory.pressure", offsetof(CriUsage, memory_pressure)},
                {"io.pressure", offsetof(CriUsage, io_pressure)},
};

void cri_usage_init(CriUsage *u)
{
        *u = (CriUsage){.nano_cores = UINT64_MAX,
                        .disk_bytes = UINT64_MAX,
                        .disk_inodes = UINT64_MAX,
                        .descriptors = UINT64_MAX,
                        .sockets = UINT64_MAX,
                        .descriptors_max = UINT64_MAX};
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                *(uint64_t *) (void *) ((char *) u + fields[i].offset) = UINT64_MAX;
}

/* "max" is no number. */
static uint64_t number_of(const char *text)
{
        char *end;
        uint64_t n = strtoull(text, &end, 10);

        return end == text ? UINT64_MAX : n;
}

static uint64_t sum_of(const char *text, const char *key)
{
        uint64_t sum = 0;

        for (const char *p = text; (p = strstr(p, key));) {
                p += strlen(key);
                sum += strtoull(p, NULL, 10);
        }
        return sum;
}

static uint64_t value_of(const char *text, const char *key)
{
        size_t n = key ? strlen(key) : 0;

        if (!key)
                return number_of(text);
        if (key[n - 1] == '=')
                return sum_of(text, key);
        for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
                if (strncmp(p, key, n) == 0 && p[n] == ' ')
                        return number_of(p + n + 1);
        return UINT64_MAX;
}

/* With as few system calls as possible, as a node has thousands of these files. The kernel makes the text of one at once. NULL:
 * there is none, or it is longer than that. */
static const char *read_text(int dir_fd, const char *file, char text[static TEXT_SIZE])
{
        _cleanup_close_ int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT_SIZE);

        if (n < 0 || n == (ssize_t) TEXT_SIZE)
                return NULL;
        text[n] = 0;
        return text;
}

static void read_fields(int fd, CriParts parts, CriUsage *u)
{
        const char *file = "", *text = NULL;
        char buffer[TEXT_SIZE];

        for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                if ((fields[i].part & parts) != fields[i].part)
                        continue;
                if (!streq(file, fields[i].file)) {
                        file = fields[i].file;
                        text = read_text(fd, file, buffer);
                }
                if (text)
                        *(uint64_t *) (void *) ((char *) u + fields[i].offset) =
                                        value_of(text, fields[i].key);
        }
}

static bool parse_line(const char *text, const char *name, CriPressureLine *ret)
{
        const char *line = strstr(text, name);
        unsigned long long total;
        double a[CRI_PRESSURE_SPANS];

        if (!line || sscanf(line + strlen(name), " avg10=%lf avg60=%lf avg300=%lf total=%llu", &a[0], &a[1],
                            &a[2], &total) != 4)
                return false;
        ret->total_usec = total;
        memcpy(ret->averages, a, sizeof(a));
        return true;
}

/* Older kernels have no line "full" for processors. */
void cri_pressure_parse(const char *text, CriPressure *ret)
{
        *ret = (CriPressure){};
        ret->known = parse_line(text, "some", &ret->some);
        (void) parse_line(text, "full", &ret->full);
}

static void read_pressures(int fd, CriUsage *u)
{
        for (size_t i = 0; i < ELEMENTSOF(pressures); i++) {
                char buffer[TEXT_SIZE];
                const char *text = read_text(fd, pressures[i].file, buffer);
                if (text)
                        cri_pressure_parse(text,
                                           (CriPressure *) (void *) ((char *) u + pressures[i].offset));
        }
}

int cri_usage_read(const char *path, CriParts parts, CriUsage *ret)
{
        _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        cri_usage_init(ret);
        ret->taken_usec = now_usec(CLOCK_REALTIME);
        read_fields(fd, parts, ret);
        read_pressures(fd, ret);
        if (ret->pids == UINT64_MAX && (parts & CRI_PARTS_PROCESSES))
                ret->pids = cgroup_count_processes(path);
        if (parts & CRI_PARTS_DESCRIPTORS)
                cri_descriptors_read(path, ret);
        return 0;
}

uint64_t cri_working_set(const CriUsage *u)
{
        if (u->memory == UINT64_MAX || u->inactive_file == UINT64_MAX)
                return u->memory;
        return u->memory > u->inactive_file ? u->memory - u->inactive_file : 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a running pod has sent and received, by the kernel's counters of its network interfaces: /proc/PID/net/dev,
 * where PID is the pod's PID 1, as seen from the host. A pod in the host's network has no counters of its own.
 */

#include "stage0/report/report-internal.h"

#define NET_DEV_MAX (1U << 20)
#define COUNTERS 16U /* in a line: eight of what was received, eight of what was sent */

/* "  eth0: 1 2 3 …". -EBADMSG: it is another line. */
static int parse_line(char *line, NetworkUsage *ret)
{
        uint64_t n[COUNTERS];
        char *p = strchr(line, ':');

        if (!p)
                return -EBADMSG;
        *p++ = 0;
        for (size_t i = 0; i < COUNTERS; i++) {
                char *end;
                n[i] = strtoull(p, &end, 10);
                if (end == p)
                        return -EBADMSG;
                p = end;
        }
        line += strspn(line, " ");
        *ret = (NetworkUsage){.received_bytes = n[0],
                              .received_packets = n[1],
                              .received_errors = n[2],
                              .received_dropped = n[3],
                              .sent_bytes = n[8],
                              .sent_packets = n[9],
                              .sent_errors = n[10],
                              .sent_dropped = n[11]};
        snprintf(ret->name, sizeof(ret->name), "%s", line);
        return 0;
}

int network_usage_parse(const char *text, NetworkUsage **ret, size_t *ret_n)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ NetworkUsage *l = NULL;
        size_t n = 0;

        int r = strv_split(text, "\n", &lines);
        if (r < 0)
                return r;
        l = calloc(strv_length(lines) + 1, sizeof(NetworkUsage));
        if (!l)
                return -ENOMEM;
        STRV_FOREACH (line, lines)
                if (parse_line(*line, &l[n]) >= 0)
                        n++;
        *ret = TAKE_PTR(l);
        *ret_n = n;
        return 0;
}

int pod_network_usage(Pod *p, NetworkUsage **ret, size_t *ret_n)
{
        _cleanup_free_ char *text = NULL;
        PodRuntime runtime = {};
        char path[64];

        if (p->config.net == NET_HOST)
                return -ENODATA;
        int r = pod_runtime_read(p, &runtime);
        if (r < 0)
                return r;
        if (runtime.leader <= 0)
                return -ESRCH;
        snprintf(path, sizeof(path), "/proc/%d/net/dev", (int) runtime.leader);
        r = read_file_at(AT_FDCWD, path, NET_DEV_MAX, &text, NULL);
        return r < 0 ? r : network_usage_parse(text, ret, ret_n);
}

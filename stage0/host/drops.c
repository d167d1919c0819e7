/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The amount of the apps' output that is not in the pod's journal, and not in their log files, as counted by
 * the supervisor: a file in the pod directory with a line for each app, "APP LINES BYTES
 * FILE-LINES FILE-BYTES". Earlier versions did not write the last two. A full disk is what makes log files lose lines, so the space for the
 * file is reserved. */

#include <inttypes.h>

#include "stage0/host/host-internal.h"

#define DROPS_SIZE_MAX (1024U * 1024U)

int pod_drops_write(const Pod *p, const LogDrops *l, size_t n)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < n; i++)
                text_addf(&t, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", l[i].app, l[i].lines,
                          l[i].bytes, l[i].file_lines, l[i].file_bytes);
        if (t.failed)
                return -ENOMEM;
        return write_file_reserved_at(p->dir_fd, DROPS_FILE, POD_RESULT_RESERVE, t.data ?: "", t.size);
}

static int read_line(const char *line, const char *app, LogDrops *ret)
{
        _cleanup_strv_free_ char **words = NULL;
        LogDrops d = {};
        uint64_t *const numbers[] = {&d.lines, &d.bytes, &d.file_lines, &d.file_bytes};

        int r = strv_split(line, " ", &words);
        if (r < 0)
                return r;
        size_t n = strv_length(words);
        if ((n != 3 && n != 1 + ELEMENTSOF(numbers)) || !streq(words[0], app))
                return -ENOENT;
        for (size_t i = 1; i < n; i++) {
                r = parse_u64(words[i], numbers[i - 1]);
                if (r < 0)
                        return r;
        }
        *ret = d;
        return 0;
}

int pod_drops_read(const Pod *p, const char *app, LogDrops *ret)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_file_reserved_at(p->dir_fd, DROPS_FILE, DROPS_SIZE_MAX, &text, NULL);
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        if (r < 0)
                return r;
        STRV_FOREACH (line, lines) {
                r = read_line(*line, app, ret);
                if (r != -ENOENT)
                        return r;
        }
        return -ENOENT;
}

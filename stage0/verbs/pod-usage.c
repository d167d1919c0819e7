/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Common to "stats" and "top": samples of the resource usage of pods, and their table. */

#include "stage0/verbs/pod-usage.h"

static const TableColumn columns[] = {
                {"POD", "pod", false, 12},         {"APP", "app", false, 12},
                {"CPU", "cpuTime", true, 0},       {"MEMORY", "memory", true, 0},
                {"LIMIT", "memoryLimit", true, 0}, {"READ", "read", true, 0},
                {"WRITTEN", "written", true, 0},   {"PIDS", "pids", true, 0},
};

/* The same, with a share instead of a sum: thousandths of one processor. */
static const TableColumn share_columns[] = {
                {"POD", "pod", false, 12},         {"APP", "app", false, 12},
                {"CPU%", "cpuPermille", true, 0},  {"MEMORY", "memory", true, 0},
                {"LIMIT", "memoryLimit", true, 0}, {"READ", "read", true, 0},
                {"WRITTEN", "written", true, 0},   {"PIDS", "pids", true, 0},
};

void usage_sample_done(UsageSample *s)
{
        for (size_t i = 0; i < s->n; i++) {
                free(s->rows[i].pod);
                free(s->rows[i].app);
        }
        free(s->rows);
        *s = (UsageSample){};
}

static int add_row(UsageSample *s, const Pod *p, const char *app, const Usage *u)
{
        UsageRow row = {.pod = strdup(pod_display_name(p)), .app = app ? strdup(app) : NULL, .usage = *u};

        if (!row.pod || (app && !row.app) || GREEDY_REALLOC(s->rows, s->allocated, s->n + 1) < 0) {
                free(row.pod);
                free(row.app);
                return -ENOMEM;
        }
        s->rows[s->n++] = row;
        return 0;
}

static int add_pod(Context *c, Pod *p, void *userdata)
{
        _cleanup_free_ Usage *apps = NULL;
        UsageSample *s = userdata;
        Usage pod;

        int r = pod_usage(p, &pod, &apps, &c->error);
        if (r < 0)
                return r;
        r = add_row(s, p, NULL, &pod);
        for (size_t i = 0; r >= 0 && p->manifest && i < p->manifest->n_apps; i++)
                r = add_row(s, p, pod_app_path_name(p->manifest->apps[i]), &apps[i]);
        return r < 0 ? error_oom(&c->error) : 0;
}

static int add_all(Context *c, UsageSample *s)
{
        Pod **pods = NULL;
        size_t n = 0;

        int r = pod_list(c->store, &pods, &n, &c->error);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (pods[i]->state != POD_RUNNING)
                        continue;
                r = add_pod(c, pods[i], s);
                if (r == -ESRCH) { /* it ended meanwhile */
                        error_done(&c->error);
                        r = 0;
                }
        }
        pod_list_free(pods, n);
        return r;
}

int usage_sample_take(Context *c, const Words *words, UsageSample *ret, int *ret_status)
{
        UsageSample s = {.taken_usec = now_usec(CLOCK_MONOTONIC)};

        int r = words->n > 0 ? context_for_each_pod(c, words, add_pod, &s) : add_all(c, &s);
        if (r < 0) {
                usage_sample_done(&s);
                return r;
        }
        *ret = s;
        *ret_status = r;
        return 0;
}

static const Usage *find_before(const UsageSample *before, const UsageRow *row)
{
        for (size_t i = 0; i < before->n; i++)
                if (streq(before->rows[i].pod, row->pod) && streq_ptr(before->rows[i].app, row->app))
                        return &before->rows[i].usage;
        return NULL;
}

static void add_share(Table *t, const UsageRow *row, const UsageSample *s, const UsageSample *before)
{
        const Usage *old = find_before(before, row);
        uint64_t span = s->taken_usec - before->taken_usec;
        char shown[32];

        if (!old || span == 0 || row->usage.cpu_usec == UINT64_MAX || old->cpu_usec > row->usage.cpu_usec) {
                table_add_none(t);
                return;
        }
        uint64_t permille = (row->usage.cpu_usec - old->cpu_usec) * 1000 / span;
        snprintf(shown, sizeof(shown), "%llu.%llu", (unsigned long long) permille / 10,
                 (unsigned long long) permille % 10);
        table_add_number_as(t, (int64_t) permille, shown);
}

static void add_time(Table *t, uint64_t usec)
{
        char shown[32];

        if (usec == UINT64_MAX) {
                table_add_none(t);
                return;
        }
        snprintf(shown, sizeof(shown), "%llu.%03llus", (unsigned long long) usec / 1000000,
                 (unsigned long long) usec / 1000 % 1000);
        table_add_number_as(t, (int64_t) usec, shown);
}

static void add_size(Table *t, uint64_t size)
{
        if (size == UINT64_MAX)
                table_add_none(t);
        else
                table_add_size(t, size);
}

Table *usage_table(const UsageSample *s, const UsageSample *before)
{
        Table *t = table_new(before ? share_columns : columns, ELEMENTSOF(columns));

        for (size_t i = 0; t && i < s->n; i++) {
                const UsageRow *row = &s->rows[i];
                table_add_text(t, row->pod);
                table_add_text(t, row->app);
                if (before)
                        add_share(t, row, s, before);
                else
                        add_time(t, row->usage.cpu_usec);
                add_size(t, row->usage.memory);
                add_size(t, row->usage.memory_max);
                add_size(t, row->usage.io_read);
                add_size(t, row->usage.io_written);
                if (row->usage.pids == UINT64_MAX)
                        table_add_none(t);
                else
                        table_add_number(t, (int64_t) row->usage.pids);
        }
        return t;
}

int usage_show_none(Context *c, const Words *words)
{
        static const UsageSample none = {};

        if (words->n > 0 && c->json == JSON_OFF)
                return 0;
        _cleanup_(table_freep) Table *t = usage_table(&none, NULL);
        return t ? context_show_table(c, t, "running pods") : error_oom(&c->error);
}

void usage_note(const UsageSample *s, Text *text)
{
        const Usage *u = s->n > 0 ? &s->rows[0].usage : NULL; /* of a pod as a whole */
        bool memory = u && u->memory == UINT64_MAX, io = u && u->io_read == UINT64_MAX;

        static const char *const notes[] = {
                        "I/O cannot be measured: this host has no cgroup v2 controller 'io' for pods.",
                        "Memory cannot be measured: this host has no cgroup v2 controller 'memory' for "
                        "pods.",
                        "Memory and I/O cannot be measured: this host has no cgroup v2 controllers 'memory' "
                        "and 'io' for pods.",
        };

        if (!memory && !io)
                return;
        const char *note = notes[memory && io ? 2 : memory ? 1 : 0];
        if (text)
                text_addf(text, "\n%s\n", note);
        else
                log_info("%s", note);
}

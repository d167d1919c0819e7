/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the service counts of itself, and its text in OpenMetrics format.
 *
 * Labels are names of calls and of states, never of pods, images or clients: so the size of the text is bounded, and it tells nothing
 * to a process that may read it on a port. Figures begin anew with the process, as counters of this format may.
 *
 * Spec: OpenMetrics 1.0.0. */

#include <sys/resource.h>

#include "config.h"
#include "cri/events/events.h"
#include "cri/exporter/exporter.h"
#include "cri/streaming/streaming.h"

#define USEC_PER_SEC 1000000U

/* Upper bounds of durations; the last one of each histogram is infinite. */
static const struct {
        uint64_t usec;
        const char *text;
} bounds[] = {
                {5000, "0.005"},    {25000, "0.025"},   {100000, "0.1"},      {250000, "0.25"},
                {500000, "0.5"},    {1000000, "1.0"},   {2500000, "2.5"},     {5000000, "5.0"},
                {10000000, "10.0"}, {30000000, "30.0"}, {120000000, "120.0"},
};

typedef struct CallFigures {
        uint64_t by_status[N_GRPC_STATUSES];
        uint64_t by_duration[ELEMENTSOF(bounds) + 1];
        uint64_t n, usec;
} CallFigures;

struct CriFigures {
        uint64_t start_usec; /* CLOCK_REALTIME */
        uint64_t running;
        CallFigures calls[]; /* as cri_calls */
};

int cri_figures_new(CriFigures **ret)
{
        CriFigures *f = calloc(1, sizeof(CriFigures) + n_cri_calls * sizeof(CallFigures));

        if (!f)
                return -ENOMEM;
        f->start_usec = now_usec(CLOCK_REALTIME);
        *ret = f;
        return 0;
}

CriFigures *cri_figures_free(CriFigures *f)
{
        free(f);
        return NULL;
}

void cri_figures_begun(CriFigures *f)
{
        f->running++;
}

void cri_figures_ended(CriFigures *f, size_t method, GrpcStatus status, uint64_t usec)
{
        CallFigures *c = &f->calls[method];
        size_t i = 0;

        while (i < ELEMENTSOF(bounds) && usec > bounds[i].usec)
                i++;
        c->by_duration[i]++;
        c->by_status[(unsigned) status < N_GRPC_STATUSES ? status : GRPC_UNKNOWN]++;
        c->n++;
        c->usec += usec;
        f->running--;
}

/* --- Text ---------------------------------------------------------------------------------------------- */

static void begin(Text *t, const char *name, const char *type, const char *unit, const char *help)
{
        text_addf(t, "# TYPE %s %s\n", name, type);
        if (unit)
                text_addf(t, "# UNIT %s %s\n", name, unit);
        text_addf(t, "# HELP %s %s\n", name, help);
}

static void add_seconds(Text *t, uint64_t usec)
{
        text_addf(t, "%" PRIu64 ".%06u\n", usec / USEC_PER_SEC, (unsigned) (usec % USEC_PER_SEC));
}

/* "/runtime.v1.RuntimeService/Version" */
static const char *name_of(const CriCall *c)
{
        return strrchr(c->path, '/') + 1;
}

static void add_calls(const CriFigures *f, Text *t)
{
        begin(t, "acnspawn_cri_calls", "counter", NULL, "Calls that have ended, by the status of gRPC.");
        for (size_t i = 0; i < n_cri_calls; i++)
                for (size_t k = 0; k < N_GRPC_STATUSES; k++)
                        if (f->calls[i].by_status[k] > 0)
                                text_addf(t,
                                          "acnspawn_cri_calls_total{method=\"%s\",status=\"%s\"} %" PRIu64
                                          "\n",
                                          name_of(&cri_calls[i]), grpc_status_to_string((GrpcStatus) k),
                                          f->calls[i].by_status[k]);
}

static void add_histogram(const CallFigures *c, const char *method, Text *t)
{
#define NAME "acnspawn_cri_call_duration_seconds"
        uint64_t n = 0;

        for (size_t i = 0; i <= ELEMENTSOF(bounds); i++) {
                n += c->by_duration[i];
                text_addf(t, NAME "_bucket{method=\"%s\",le=\"%s\"} %" PRIu64 "\n", method,
                          i < ELEMENTSOF(bounds) ? bounds[i].text : "+Inf", n);
        }
        text_addf(t, NAME "_count{method=\"%s\"} %" PRIu64 "\n" NAME "_sum{method=\"%s\"} ", method, c->n,
                  method);
        add_seconds(t, c->usec);
}

static void add_durations(const CriFigures *f, Text *t)
{
        begin(t, NAME, "histogram", "seconds", "How long calls have taken.");
        for (size_t i = 0; i < n_cri_calls; i++)
                if (f->calls[i].n > 0)
                        add_histogram(&f->calls[i], name_of(&cri_calls[i]), t);
#undef NAME
}

static void add_gauge(Text *t, const char *name, const char *help, uint64_t value)
{
        begin(t, name, "gauge", NULL, help);
        text_addf(t, "%s %" PRIu64 "\n", name, value);
}

static void add_objects(const CriServer *s, Text *t)
{
        CriCounts c = {};

        cri_events_count(s, &c);
        begin(t, "acnspawn_cri_sandboxes", "gauge", NULL, "Sandboxes, by their state.");
        text_addf(t, "acnspawn_cri_sandboxes{state=\"ready\"} %zu\n", c.ready);
        text_addf(t, "acnspawn_cri_sandboxes{state=\"not_ready\"} %zu\n", c.not_ready);
        begin(t, "acnspawn_cri_containers", "gauge", NULL, "Containers, by their state.");
        text_addf(t, "acnspawn_cri_containers{state=\"created\"} %zu\n", c.created);
        text_addf(t, "acnspawn_cri_containers{state=\"running\"} %zu\n", c.running);
        text_addf(t, "acnspawn_cri_containers{state=\"exited\"} %zu\n", c.exited);
}

static uint64_t resident_bytes(void)
{
        _cleanup_free_ char *text = NULL;
        unsigned long long pages;

        return read_file_at(AT_FDCWD, "/proc/self/statm", 256, &text, NULL) >= 0 &&
                                               sscanf(text, "%*u %llu", &pages) == 1
                               ? pages * (uint64_t) sysconf(_SC_PAGESIZE)
                               : 0;
}

static uint64_t usec_of(const struct timeval *t)
{
        return (uint64_t) t->tv_sec * USEC_PER_SEC + (uint64_t) t->tv_usec;
}

/* By the names that clients of all programs know. */
static void add_process(const CriFigures *f, Text *t)
{
        struct rusage u = {};

        (void) getrusage(RUSAGE_SELF, &u);
        begin(t, "process_cpu_seconds", "counter", "seconds",
              "Processor time of the server, without its calls.");
        text_add(t, "process_cpu_seconds_total ");
        add_seconds(t, usec_of(&u.ru_utime) + usec_of(&u.ru_stime));
        begin(t, "process_resident_memory_bytes", "gauge", "bytes", "Resident memory of the server.");
        text_addf(t, "process_resident_memory_bytes %" PRIu64 "\n", resident_bytes());
        begin(t, "process_start_time_seconds", "gauge", "seconds", "When the server was started.");
        text_add(t, "process_start_time_seconds ");
        add_seconds(t, f->start_usec);
}

void cri_figures_format(const CriServer *s, Text *t)
{
        const CriFigures *f = s->figures;

        begin(t, "acnspawn_cri", "info", NULL, "The version of acnspawn.");
        text_addf(t, "acnspawn_cri_info{version=\"%s\"} 1\n", ACNSPAWN_VERSION);
        add_calls(f, t);
        add_durations(f, t);
        add_gauge(t, "acnspawn_cri_calls_in_progress", "Calls that are under way.", f->running);
        add_gauge(t, "acnspawn_cri_connections", "Connections of clients.",
                  s->grpc ? grpc_server_connections(s->grpc) : 0); /* none at the very end */
        add_gauge(t, "acnspawn_cri_workers", "Processes of calls.", s->n_workers);
        add_gauge(t, "acnspawn_cri_streams", "Streams of exec, attach and port-forward.",
                  stream_server_processes(s->streams));
        add_objects(s, t);
        add_process(f, t);
        text_add(t, "# EOF\n");
}

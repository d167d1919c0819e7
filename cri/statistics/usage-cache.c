/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Samples of what pods use.
 *
 * A share of the processors needs two samples, and the size of a tree takes long to measure. Both are kept by the server, to
 * which workers send what they have measured: so a call has a recent value without waiting for it. Trees are measured by a
 * worker of their own, in the background (usage-measure.c). */

#include "cri/statistics/usage.h"

#define SAMPLES_MAX 8192U
#define SPAN_MIN_USEC UINT64_C(900000)  /* between two samples; clients ask every second at most */
#define FORGET_USEC UINT64_C(600000000) /* samples of what is gone */

/* They are in the order of their keys. *RET is where KEY is, or belongs. */
static bool find_place(const CriServer *s, const char *key, size_t *ret)
{
        size_t low = 0, high = s->n_samples;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(s->samples[middle].key, key);
                if (order == 0) {
                        *ret = middle;
                        return true;
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret = low;
        return false;
}

const CriSample *cri_sample_find(const CriServer *s, const char *key)
{
        size_t i;

        return find_place(s, key, &i) ? &s->samples[i] : NULL;
}

static void forget_old(CriServer *s, uint64_t now)
{
        size_t n = 0;

        for (size_t i = 0; i < s->n_samples; i++)
                if (now - s->samples[i].seen_usec < FORGET_USEC)
                        s->samples[n++] = s->samples[i];
        s->n_samples = n;
}

void cri_sample_put(CriServer *s, const CriSample *sample)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        size_t place;
        bool is_known = find_place(s, sample->key, &place);

        if (!is_known) {
                forget_old(s, now);
                (void) find_place(s, sample->key, &place);
                if (s->n_samples >= SAMPLES_MAX ||
                    GREEDY_REALLOC(s->samples, s->samples_allocated, s->n_samples + 1) < 0)
                        return;
                memmove(s->samples + place + 1, s->samples + place,
                        (s->n_samples++ - place) * sizeof(CriSample));
        }
        CriSample *known = &s->samples[place];
        if (!is_known) {
                *known = (CriSample){.nano_cores = UINT64_MAX};
                memcpy(known->key, sample->key, sizeof(known->key));
        }
        known->seen_usec = now;
        if (sample->cpu_taken_usec > 0) {
                known->cpu_usec = sample->cpu_usec;
                known->cpu_taken_usec = sample->cpu_taken_usec;
                known->nano_cores = sample->nano_cores;
        }
        if (sample->measured_usec > 0) {
                known->bytes = sample->bytes;
                known->inodes = sample->inodes;
                known->measured_usec = sample->measured_usec;
        }
}

void cri_samples_done(CriServer *s)
{
        free(s->samples);
        s->samples = NULL;
}

int cri_sample_key(const Pod *p, const PodApp *app, char ret[static CRI_SAMPLE_KEY_SIZE])
{
        int n = snprintf(ret, CRI_SAMPLE_KEY_SIZE, "%s%s%s", p->uuid, app ? "/" : "", app ? app->name : "");

        return n < (int) CRI_SAMPLE_KEY_SIZE ? 0 : -ENAMETOOLONG;
}

/* Without two samples the share is unknown; with two that are too close it is that of the last ones. A container that was
 * started again begins anew. */
void cri_sample_processor(CriJob *j, const char *key, CriUsage *u)
{
        const CriSample *last = cri_sample_find(j->server, key);
        uint64_t now = now_usec(CLOCK_MONOTONIC);
        CriSample sample = {.cpu_usec = u->cpu_usec, .cpu_taken_usec = now, .nano_cores = UINT64_MAX};

        if (u->cpu_usec == UINT64_MAX)
                return;
        memcpy(sample.key, key, strlen(key) + 1);
        if (last && last->cpu_taken_usec > 0 && last->cpu_usec <= u->cpu_usec) {
                uint64_t span = now - last->cpu_taken_usec;
                u->nano_cores = last->nano_cores;
                if (span < SPAN_MIN_USEC)
                        return;
                sample.nano_cores = u->nano_cores =
                                (uint64_t) ((double) (u->cpu_usec - last->cpu_usec) * 1e9 / (double) span);
        }
        cri_worker_note(j, &sample, sizeof(sample));
}

void cri_sample_layer(CriJob *j, const Pod *p, const PodApp *app, CriUsage *u, uint64_t *budget_usec)
{
        char key[CRI_SAMPLE_KEY_SIZE];
        const CriSample *last;

        if (cri_sample_key(p, app, key) < 0)
                return;
        last = cri_sample_find(j->server, key);
        if (last && last->measured_usec > 0) {
                u->disk_bytes = last->bytes;
                u->disk_inodes = last->inodes;
                u->disk_usec = last->measured_usec;
                return;
        }
        if (*budget_usec == 0)
                return;
        uint64_t begin = now_usec(CLOCK_MONOTONIC);
        cri_measure_layer(j, p, app, u);
        uint64_t spent = now_usec(CLOCK_MONOTONIC) - begin;
        *budget_usec = *budget_usec > spent ? *budget_usec - spent : 0;
}

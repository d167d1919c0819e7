/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn top: like stats, but shows which part of a processor was used since the last sample, not the total time. On a terminal it is a full-screen
 * display that is updated until q is pressed, it is interrupted, or no pod is running any more. */

#include "stage0/cli/screen.h"
#include "stage0/verbs/pod-usage.h"

typedef struct Arguments {
        uint64_t delay_usec;
} Arguments;

static int option_delay(const Option *o, const char *value, void *target, Error *e)
{
        uint64_t usec;

        if (parse_usec(value, &usec) < 0 || usec < 100000 || usec > UINT64_C(3600000000))
                return option_invalid(o, value, e, "must be a time from 100ms to 1h");
        *(uint64_t *) target = usec;
        return 0;
}

static const Option options[] = {
                {"Options", "delay", 'd', "TIME", false, "Time between updates (default: 1s)", NULL,
                 option_delay, offsetof(Arguments, delay_usec)},
                OPTION_END,
};

/* A note about missing controllers is shown below the table, if it fits. */
static int redraw(Context *c, Screen *screen, const UsageSample *s, const UsageSample *before)
{
        _cleanup_(table_freep) Table *t = usage_table(s, before);
        _cleanup_free_ char *text = NULL;
        _cleanup_text_ Text all = {};
        Display d = display_of(STDOUT_FILENO);

        if (!t || table_format(t, &d, !c->no_legend, &text) < 0)
                return error_oom(&c->error);
        text_add(&all, text);
        if (!c->quiet)
                usage_note(s, &all);
        if (all.failed)
                return error_oom(&c->error);
        screen_show(screen, all.data);
        return context_flush(c);
}

static bool is_quit(int key)
{
        return key == 'q' || key == 'Q';
}

/* 0: q was pressed, or no pod is running any more. Positive: a requested pod cannot be sampled any more. */
static int update(Context *c, const Words *words, const Arguments *a, Screen *screen, UsageSample *before)
{
        int status = 0, key = 0;

        while (before->n > 0 && status == 0) {
                UsageSample s = {};

                int r = screen_wait(screen, c->operation, a->delay_usec, &c->error);
                if (r < 0 || is_quit(key = r))
                        return r < 0 ? r : 0;
                r = usage_sample_take(c, words, &s, &status);
                if (r < 0)
                        return r;
                r = redraw(c, screen, &s, before);
                usage_sample_done(before);
                *before = s;
                if (r < 0)
                        return r;
        }
        return status;
}

static int watch(Context *c, const Words *words, const Arguments *a, UsageSample *before)
{
        Screen screen = {};

        int r = interrupt_catch(c->operation);
        if (r < 0)
                return error_set_errno(&c->error, r, "Cannot catch signals");
        screen_open(&screen);
        r = update(c, words, a, &screen, before);
        screen_close(&screen);
        if (r > 0) { /* the message was on the alternate screen: print it again */
                UsageSample s = {};
                int status, k = usage_sample_take(c, words, &s, &status);
                usage_sample_done(&s);
                return k < 0 ? k : r;
        }
        if (r == 0 && before->n == 0)
                log_info("No pod is running any more.");
        return r;
}

/* Takes two samples, and shows their difference. */
static int show_once(Context *c, const Words *words, const Arguments *a, const UsageSample *before)
{
        _cleanup_(usage_sample_done) UsageSample s = {};
        _cleanup_(table_freep) Table *t = NULL;
        int status = 0;

        (void) usleep((useconds_t) a->delay_usec);
        int r = usage_sample_take(c, words, &s, &status);
        if (r < 0)
                return r;
        t = usage_table(&s, before);
        if (!t)
                return error_oom(&c->error);
        r = context_show_table(c, t, NULL);
        if (r >= 0 && c->json == JSON_OFF)
                usage_note(&s, NULL);
        return r < 0 ? r : status;
}

static int show(Context *c, const Words *words, const Arguments *a)
{
        _cleanup_(usage_sample_done) UsageSample before = {};
        int status = 0;

        int r = usage_sample_take(c, words, &before, &status);
        if (r < 0)
                return r;
        if (before.n == 0) {
                r = usage_show_none(c, words);
                return r < 0 ? r : status;
        }
        r = isatty(STDOUT_FILENO) && c->json == JSON_OFF ? watch(c, words, a, &before)
                                                         : show_once(c, words, a, &before);
        return r != 0 ? r : status;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.max = SIZE_MAX, .what = A_POD};
        Arguments a = {.delay_usec = 1000000};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = words.n > 0 ? context_open_existing_store(c) : context_open_store_if_there(c);
        if (r < 0)
                return r;
        return c->store ? show(c, &words, &a) : usage_show_none(c, &words);
}

const Verb verb_top = {
                .name = "top",
                .page = "acnspawn-status",
                .synopsis = "[OPTIONS…] [POD…]",
                .brief = "[POD…]",
                .summary = "Watch resource usage of running pods",
                .text = "The same as 'acnspawn stats', with the share of a processor that was used since "
                        "the last update. On a terminal it continues until q is pressed or the pods have "
                        "ended; elsewhere it shows one update.",
                .words = "pod:running,paused",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};

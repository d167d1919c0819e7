/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn top: the same as stats, with shares of processors instead of sums; on a terminal again and again,
 * until it is interrupted or no pod runs any more. */

#include "stage0/pod-usage.h"

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
                {"Options", "delay", 'd', "TIME", false, "Time between two looks (default: 1s)", NULL,
                 option_delay, offsetof(Arguments, delay_usec)},
                OPTION_END,
};

static int show(Context *c, const UsageSample *s, const UsageSample *before, bool again)
{
        _cleanup_(table_freep) Table *t = usage_table(s, before);

        if (!t)
                return error_oom(&c->error);
        if (again && fputs("\033[H\033[J", stdout) == EOF)
                return -EPIPE;
        int r = context_show_table(c, t, NULL);
        if (r >= 0 && (again || c->json == JSON_OFF))
                usage_note(s);
        return r < 0 ? r : context_flush(c);
}

static int watch(Context *c, const Words *words, const Arguments *a)
{
        _cleanup_(usage_sample_done) UsageSample before = {};
        bool again = isatty(STDOUT_FILENO) && c->json == JSON_OFF;
        int status = 0;

        int r = usage_sample_take(c, words, &before, &status);
        if (r >= 0 && before.n == 0) {
                r = usage_show_none(c, words);
                return r < 0 ? r : status;
        }
        while (r >= 0 && before.n > 0) {
                UsageSample s = {};

                (void) usleep((useconds_t) a->delay_usec);
                r = usage_sample_take(c, words, &s, &status);
                if (r < 0)
                        break;
                r = show(c, &s, &before, again);
                usage_sample_done(&before);
                before = s;
                if (!again || status != 0)
                        break;
        }
        if (r >= 0 && before.n == 0 && words->n == 0)
                log_info("No pod is running any more.");
        return r < 0 ? r : status;
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
        return c->store ? watch(c, &words, &a) : usage_show_none(c, &words);
}

const Verb verb_top = {
                .name = "top",
                .synopsis = "[OPTIONS…] [POD…]",
                .brief = "[POD…]",
                .summary = "Watch what running pods use",
                .text = "As 'acnspawn stats', with the share of a processor that was used since the last "
                        "look. On a terminal goes on until it is interrupted or the pods have ended; "
                        "elsewhere looks once.",
                .words = "pod",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};

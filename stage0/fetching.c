/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fetching images: options and progress output. */

#include "stage0/fetching.h"

int option_pull_policy(const Option *o, const char *value, void *target, Error *e)
{
        int r = pull_policy_from_string(value);

        if (r < 0)
                return option_invalid(o, value, e, "must be new, update or never");
        *(PullPolicy *) target = (PullPolicy) r;
        return 0;
}

int option_insecure(const Option *o, const char *value, void *target, Error *e)
{
        unsigned *all = target, these;

        if (insecure_options_from_string(value, &these) < 0)
                return option_invalid(o, value, e,
                                      "must be a list of http, tls, signature and pubkey; or none, all");
        *all = these == 0 ? 0 : *all | these;
        return 0;
}

int option_min_speed(const Option *o, const char *value, void *target, Error *e)
{
        uint64_t *speed = target, n;

        if (parse_u64(value, &n) < 0 || n > INT64_MAX)
                return option_invalid(o, value, e, "must be a number of bytes per second, or 0");
        *speed = n == 0 ? TRANSFER_SPEED_ANY : n;
        return 0;
}

static const char *const phases[_FETCH_PHASE_MAX] = {
                [FETCH_LOOKING] = "searching",
                [FETCH_DOWNLOADING] = "downloading",
                [FETCH_IMPORTING] = "verifying and unpacking",
};

static void show_progress(const char *what, FetchPhase phase, uint64_t done, uint64_t total, void *userdata)
{
        static const ProgressState states[_FETCH_PHASE_MAX] = {
                        [FETCH_FETCHED] = PROGRESS_DONE,
                        [FETCH_FOUND] = PROGRESS_UNCHANGED,
                        [FETCH_FAILED] = PROGRESS_FAILED,
        };
        Progress *p = userdata;

        if (phases[phase])
                progress_update(p, what, phases[phase], done, total, phase != FETCH_IMPORTING);
        else
                progress_end(p, what, states[phase], total);
}

static void show_note(const char *line, void *userdata)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(line);

        progress_note(userdata, shown ?: "");
}

int context_show_fetching(Context *c, FetchOptions *o, Progress **ret)
{
        if (progress_new(STDERR_FILENO, c->quiet, ret) < 0)
                return error_oom(&c->error);
        o->config_dirs = context_config_dirs(c);
        o->note = show_note;
        o->progress = show_progress;
        o->userdata = *ret;
        return 0;
}

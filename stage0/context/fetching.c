/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fetching images: options and progress output. */

#include "library/libsystemd.h"
#include "stage0/context/fetching.h"

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

static const char *const phases[_OPERATION_PHASE_MAX] = {
                [OPERATION_LOOKING] = "searching",
                [OPERATION_DOWNLOADING] = "downloading",
                [OPERATION_IMPORTING] = "verifying and unpacking",
};

/* The time-out of the unit's start or reload is for what hangs: while data arrives, it is extended by five minutes. */
#define EXTEND_MESSAGE "EXTEND_TIMEOUT_USEC=300000000"
#define EXTEND_INTERVAL_USEC (5 * UINT64_C(1000000))

static void extend_start(Context *c, const OperationProgress *p)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC);

        if (!phases[p->phase] || p->done == 0 || p->done == c->extended_done ||
            (c->extended_usec > 0 && now - c->extended_usec < EXTEND_INTERVAL_USEC) ||
            !getenv("NOTIFY_SOCKET") || library_load(&systemd_library, NULL) < 0)
                return;
        c->extended_usec = now;
        c->extended_done = p->done;
        (void) sd_pid_notify(0, 0, EXTEND_MESSAGE);
}

static void show_progress(const OperationProgress *p, void *userdata)
{
        static const ProgressState states[_OPERATION_PHASE_MAX] = {
                        [OPERATION_DONE] = PROGRESS_DONE,
                        [OPERATION_UNCHANGED] = PROGRESS_UNCHANGED,
                        [OPERATION_FAILED] = PROGRESS_FAILED,
        };
        Context *c = userdata;

        extend_start(c, p);
        if (!c->progress)
                return;
        if (phases[p->phase])
                progress_update(c->progress, p->what, phases[p->phase], p->done, p->total,
                                p->phase != OPERATION_IMPORTING);
        else
                progress_end(c->progress, p->what, states[p->phase], p->total);
}

static void show_message(LogLevel level, const char *line, void *userdata)
{
        const Context *c = userdata;

        if (!c->progress || level == LOG_LEVEL_DEBUG) {
                program_message(level, line, NULL);
                return;
        }
        _cleanup_free_ char *shown = text_escape_for_terminal(line);
        progress_note(c->progress, shown ?: "");
}

int context_begin(Context *c)
{
        const OperationOptions o = {.message = show_message, .progress = show_progress, .userdata = c};

        return operation_new(&o, &c->operation);
}

int context_show_fetching(Context *c, FetchOptions *o)
{
        if (progress_new(STDERR_FILENO, c->quiet, &c->progress) < 0)
                return error_oom(&c->error);
        o->config_dirs = context_config_dirs(c);
        return 0;
}

void context_end_fetching(Context *c)
{
        c->progress = progress_free(c->progress);
}

static int fetch_all(Context *c, const FetchOptions *o, const char *const *references, char ***ids)
{
        _cleanup_(fetcher_freep) Fetcher *fetcher = NULL;

        int r = fetcher_new(c->store, o, &fetcher, &c->error);
        for (size_t i = 0; r >= 0 && references[i]; i++) {
                _cleanup_(image_freep) Image *image = NULL;

                r = fetcher_fetch(fetcher, references[i], &image, &c->error);
                if (r >= 0 && strv_extend(ids, image->id) < 0)
                        r = error_oom(&c->error);
        }
        return r;
}

int context_fetch_images(Context *c, FetchOptions *o, const char *const *references, char ***ret_ids)
{
        _cleanup_strv_free_ char **ids = NULL;

        (void) interrupt_catch(c->operation);
        int r = context_show_fetching(c, o);
        if (r >= 0)
                r = fetch_all(c, o, references, &ids);
        context_end_fetching(c);
        if (r >= 0)
                *ret_ids = TAKE_PTR(ids);
        return r;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes lines of apps to standard output and standard error: unchanged, with the app's name in front, or as
 * JSON. */

#include "stage0/report/report-internal.h"

static int add_json(Text *t, const JournalLine *l)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        _cleanup_free_ char *message = strndup(l->data, l->size);

        if (!message || json_member_add(o, "timestamp", json_object_new_int64((int64_t) l->time_usec)) < 0 ||
            json_member_add(o, "app", json_object_new_string(l->app)) < 0 ||
            json_member_add(o, "stream", json_object_new_string(l->error ? "stderr" : "stdout")) < 0 ||
            json_member_add_text(o, "message", message) < 0)
                return -ENOMEM;
        const char *text = json_print(o);
        if (!text)
                return -ENOMEM;
        text_add_json(t, text);
        text_add(t, "\n");
        return 0;
}

/* Each app keeps one colour of six. */
static void add_prefix(Text *t, const char *app, int fd)
{
        unsigned hash = 5381;

        for (const char *c = app; *c; c++)
                hash = hash * 33 + (unsigned char) *c;
        if (colors_enabled(fd))
                text_addf(t, "\033[0;3%um%s:\033[0m ", 1 + hash % 6, app);
        else
                text_addf(t, "%s: ", app);
}

void text_add_moment(Text *t, uint64_t usec)
{
        time_t seconds = (time_t) (usec / 1000000);
        char when[32], zone[8];
        struct tm tm;

        if (!localtime_r(&seconds, &tm) || strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm) == 0 ||
            strftime(zone, sizeof(zone), "%z", &tm) != 5)
                text_add(t, "-");
        else
                text_addf(t, "%s.%06u%.3s:%s", when, (unsigned) (usec % 1000000), zone, zone + 3);
}

/* On a terminal apps cannot overwrite the prefix or other output of acnspawn. The carriage return of a line
 * that ends with CR LF is not needed there. */
static void add_neutral(Text *t, const JournalLine *l, bool with_end, int fd)
{
        Neutralizer z = {.colors = colors_enabled(fd)};
        size_t size = l->size - (l->size > 0 && l->data[l->size - 1] == '\r' && !l->partial);

        neutralizer_add(&z, l->data, size, t);
        if (with_end)
                neutralizer_add(&z, l->end, 1, t);
        neutralizer_end(&z, t);
}

/* BEGINS: L begins a line; ENDS: L ends it. */
static int format(const JournalLine *l, const OutputOptions *o, bool begins, bool ends, Text *t)
{
        int r = 0, fd = l->error ? STDERR_FILENO : STDOUT_FILENO;
        bool own_lines = o->prefix || o->timestamps, with_end = !own_lines && !l->partial;

        if (o->json)
                r = add_json(t, l);
        else {
                if (o->timestamps && begins) {
                        text_add_moment(t, l->time_usec);
                        text_add(t, " ");
                }
                if (o->prefix && begins)
                        add_prefix(t, l->app, fd);
                if (!o->raw && isatty(fd))
                        add_neutral(t, l, with_end, fd);
                else {
                        text_add_bytes(t, l->data, l->size);
                        text_add_bytes(t, l->end, with_end);
                }
                if (own_lines && ends)
                        text_add(t, "\n");
        }
        return r >= 0 && t->failed ? -ENOMEM : r;
}

int output_format(const JournalLine *l, const OutputOptions *o, Text *t)
{
        return format(l, o, true, true, t);
}

int output_end_line(const OutputOptions *o)
{
        OutputState *s = o->state;

        if (!s || !s->app)
                return 0;
        s->app = (free(s->app), NULL);
        return loop_write(s->error ? STDERR_FILENO : STDOUT_FILENO, "\n", 1);
}

/* Returns true if L continues the line that was shown last. A continuation that follows another line is shown as a line of
 * its own. */
static int continue_line(const JournalLine *l, const OutputOptions *o)
{
        OutputState *s = o->state;
        bool same = s->app && streq(s->app, l->app) && s->error == l->error;

        int r = same ? 0 : output_end_line(o);
        if (r < 0)
                return r;
        if (!l->continues)
                s->app = (free(s->app), NULL);
        else if (!same) {
                s->app = strdup(l->app);
                if (!s->app)
                        return -ENOMEM;
        }
        s->error = l->error;
        return same;
}

int output_line(const JournalLine *l, const OutputOptions *o)
{
        bool whole = o->json || !o->state || (!o->prefix && !o->timestamps);
        int fd = l->error && !o->json ? STDERR_FILENO : STDOUT_FILENO, r = whole ? 0 : continue_line(l, o);
        _cleanup_text_ Text t = {};

        if (r >= 0)
                r = format(l, o, r == 0, whole || !l->continues, &t);
        return r < 0 || t.size == 0 ? r : loop_write(fd, t.data, t.size);
}

int output_all(LogSources *s, const OutputOptions *o, Error *e)
{
        JournalLine l;
        int k;

        while ((k = log_sources_next(s, &l, e)) > 0) {
                k = output_line(&l, o);
                if (k < 0)
                        return error_set_errno(e, k, "Cannot show the output of the apps");
        }
        return k;
}

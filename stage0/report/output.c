/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lines of apps, to our standard output and standard error: as they are, with the app's name in front, or as
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
        const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
        if (!text)
                return -ENOMEM;
        text_addf(t, "%s\n", text);
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

/* As the journal's tools write it with microseconds, and "logs --since" takes it. */
static void add_time(Text *t, uint64_t usec)
{
        time_t seconds = (time_t) (usec / 1000000);
        char when[32], zone[8];
        struct tm tm;

        if (!localtime_r(&seconds, &tm) || strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm) == 0 ||
            strftime(zone, sizeof(zone), "%z", &tm) != 5)
                text_add(t, "- ");
        else
                text_addf(t, "%s.%06u%.3s:%s ", when, (unsigned) (usec % 1000000), zone, zone + 3);
}

int output_format(const JournalLine *l, const OutputOptions *o, Text *t)
{
        int r = 0;

        if (o->json)
                r = add_json(t, l);
        else {
                if (o->timestamps)
                        add_time(t, l->time_usec);
                if (o->prefix)
                        add_prefix(t, l->app, l->error ? STDERR_FILENO : STDOUT_FILENO);
                text_add_bytes(t, l->data, l->size);
                if (o->prefix || o->timestamps)
                        text_add(t, "\n");
                else if (!l->partial)
                        text_add_bytes(t, l->end, 1);
        }
        return r >= 0 && t->failed ? -ENOMEM : r;
}

static int show_line(const JournalLine *l, const OutputOptions *o)
{
        int fd = l->error && !o->json ? STDERR_FILENO : STDOUT_FILENO;
        _cleanup_text_ Text t = {};

        int r = output_format(l, o, &t);
        return r < 0 || t.size == 0 ? r : loop_write(fd, t.data, t.size);
}

int output_all(JournalReader *r, const OutputOptions *o)
{
        JournalLine l;
        int k;

        while ((k = journal_reader_next(r, &l)) > 0) {
                k = show_line(&l, o);
                if (k < 0)
                        return k;
        }
        return k;
}

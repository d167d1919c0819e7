/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in the helpers that all folders use: see allocations.h. */

#include "basic/basic.h"
#include "basic/ini.h"
#include "tests/unit/allocations.h"
#include "tests/unit/scratch.h"

static int add_text(Text *t, char *s, Error *e)
{
        _cleanup_free_ char *owned = s;

        if (!owned)
                return error_oom(e);
        text_add(t, owned);
        return 0;
}

static int use_lists(void *userdata, Text *result, Error *e)
{
        _cleanup_strv_free_ char **words = NULL, **fields = NULL, **copy = NULL;

        int r = strv_split("a  bb ccc d e f g h i j", " ", &words);
        if (r >= 0)
                r = strv_split_fields("a,b\\,c,,d\\\\", &fields);
        if (r >= 0)
                r = strv_copy(words, &copy);
        if (r >= 0)
                r = strv_extend(&copy, "z");
        if (r >= 0)
                r = strv_extendf(&copy, "%s-%d", "formatted", 5);
        if (r >= 0)
                r = strv_consume(&copy, strdup("consumed"));
        if (r < 0)
                return without_message(r, e);
        strv_sort(copy);
        add_list(result, fields);
        return add_text(result, strv_join(copy, ", "), e);
}

TEST(lists)
{
        for_each_failing_allocation(use_lists, NULL);
}

/* A Text records that memory ran out, and says so at the end. */
static int use_text(void *userdata, Text *result, Error *e)
{
        _cleanup_text_ Text t = {};
        char *text = NULL;

        text_add(&t, "begin ");
        for (unsigned i = 0; i < 100; i++)
                text_addf(&t, "%u of a hundred, ", i);
        text_add_json(&t, "{\"a\":\"\xe2\x80\xae\"}");
        text_add_bytes(&t, "end", 3);
        int r = text_take(&t, &text, NULL);
        return r < 0 ? without_message(r, e) : add_text(result, text, e);
}

TEST(texts)
{
        for_each_failing_allocation(use_text, NULL);
}

static int use_conversions(void *userdata, Text *result, Error *e)
{
        static const uint8_t bytes[] = {1, 2, 0xff};
        uint64_t span;

        int r = parse_usec("1h 30min 5s", &span);
        if (r < 0)
                return without_message(r, e);
        text_addf(result, "%" PRIu64 " ", span);
        r = add_text(result, hex_encode(bytes, sizeof(bytes)), e);
        if (r >= 0)
                r = add_text(result, format_utc(1), e);
        return r < 0 ? r : add_text(result, text_escape_for_terminal("a\033[31mb\xff\xe2\x80\xae"), e);
}

TEST(conversions)
{
        for_each_failing_allocation(use_conversions, NULL);
}

static int use_neutralizer(void *userdata, Text *result, Error *e)
{
        static const char output[] = "one\n\033[31mred\033[0m \xc3\xa4 \xff\r\n\033]0;title\a\xe2\x80";
        Neutralizer z = {.colors = true};

        for (size_t i = 0; i < sizeof(output) - 1; i += 3)
                neutralizer_add(&z, output + i, MIN(3U, sizeof(output) - 1 - i), result);
        neutralizer_end(&z, result);
        return 0;
}

TEST(output_of_apps)
{
        for_each_failing_allocation(use_neutralizer, NULL);
}

/* --- Errors: the code is never lost, and what can be said is said -------------------------------------- */

static int use_error(void *userdata, Text *result, Error *e)
{
        _cleanup_error_ Error inner = ERROR_NULL, copy = ERROR_NULL;

        int r = error_set_errno(&inner, -ENOENT, "Cannot open '%s'", "x");
        r = error_prefix(&inner, r, "Cannot read the configuration");
        r = error_hint(&inner, r, "Create it with '%s'.", "touch x");
        if (r != -ENOENT || inner.code != -ENOENT)
                return -EPROTO;
        r = error_copy(&copy, &inner);
        return r == -ENOENT && copy.code == -ENOENT ? error_move(e, &copy) : -EPROTO;
}

TEST(errors)
{
        for_each_failing_allocation_of_invalid(use_error, NULL);
}

/* --- Files in the syntax of units ---------------------------------------------------------------------- */

static int on_section(const char *name, unsigned line, void *userdata)
{
        text_addf(userdata, "[%s] %u\n", name, line);
        return 0;
}

static int on_assignment(const char *key, const char *value, unsigned line, void *userdata)
{
        text_addf(userdata, "%s=%s %u\n", key, value, line);
        return 0;
}

static int on_mistake(IniMistake what, unsigned line, void *userdata)
{
        text_addf(userdata, "%s %u\n", ini_mistake_to_string(what), line);
        return 0;
}

static int parse_ini(void *userdata, Text *result, Error *e)
{
        const IniEvents events = {on_section, on_assignment, on_mistake, result};
        const char *s = userdata;

        return without_message(ini_parse(s, strlen(s), &events), e);
}

TEST(units)
{
        static const char text[] =
                        "# comment\n[Unit]\nA=b\nLong=one \\\n  two \\\n  three\n[Broken\nnothing\n;\nB=\n";

        for_each_failing_allocation(parse_ini, (void *) text);
}

/* --- Files and paths ----------------------------------------------------------------------------------- */

static int use_files(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ char *text = NULL, *normal = NULL, *absolute = NULL;
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_close_ int fd = -EBADF;
        Scratch *s = userdata;
        size_t size;

        int r = write_file_atomic_at(s->fd, "file", "content", 7, 0600, false);
        if (r >= 0)
                r = read_file_at(s->fd, "file", 100, &text, &size);
        if (r >= 0)
                r = mkdir_p_in_root(s->fd, "/a/b/c", 0755, &fd);
        if (r >= 0)
                r = list_names(s->fd, &names);
        if (r >= 0)
                r = path_normalize("/a//b/./c/", &normal);
        if (r >= 0)
                r = path_make_absolute("/a", &absolute);
        if (r >= 0)
                r = rm_rf_at(s->fd, "a");
        if (r < 0)
                return without_message(r, e);
        strv_sort(names);
        add_list(result, names);
        text_addf(result, "%s %s %s", text, normal, absolute);
        return 0;
}

TEST(files)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&s));
        for_each_failing_allocation(use_files, &s);
}

/* --- Operations ---------------------------------------------------------------------------------------- */

static void on_message(LogLevel level, const char *line, void *userdata)
{
        unsigned *n = userdata;

        (*n)++;
}

static int use_operation(void *userdata, Text *result, Error *e)
{
        unsigned n_messages = 0;
        const OperationOptions options = {.message = on_message, .userdata = &n_messages};
        _cleanup_(operation_freep) Operation *o = NULL;

        int r = operation_new(&options, &o);
        if (r < 0)
                return without_message(r, e);
        operation_message(o, LOG_LEVEL_INFO, "a line of %d", 5); /* without memory there is none */
        operation_cancel(o);
        return operation_check(o, e) == -EINTR && operation_is_cancelled(o) ? 0 : -EPROTO;
}

TEST(operations)
{
        for_each_failing_allocation(use_operation, NULL);
}

int main(void)
{
        RUN(lists);
        RUN(texts);
        RUN(conversions);
        RUN(output_of_apps);
        RUN(errors);
        RUN(units);
        RUN(files);
        RUN(operations);
        return TEST_END();
}

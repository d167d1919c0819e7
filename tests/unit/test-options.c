/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parser of command lines: options, values and words, and the messages about errors. */

#include "stage0/cli/options.h"
#include "tests/unit/test.h"

typedef struct Data {
        bool flag, other, stop;
        const char *text;
        uint64_t number, span;
        bool waited;
        const char *wait;
        char *owned;
} Data;

static int handle_wait(const Option *o, const char *value, void *target, Error *e)
{
        Data *d = target;

        d->waited = true;
        d->wait = value;
        return 0;
}

static int handle_stop(const Option *o, const char *value, void *target, Error *e)
{
        *(bool *) target = true;
        return OPTION_STOP;
}

static const Option options[] = {
                {"Options", "flag", 'f', NULL, false, "A flag", NULL, option_true, offsetof(Data, flag)},
                {NULL, "text", 't', "TEXT", false, "Text", NULL, option_string, offsetof(Data, text)},
                {NULL, "number", 'n', "N", false, "A number", NULL, option_u64, offsetof(Data, number)},
                {NULL, "span", 0, "TIME", false, "A time span", NULL, option_usec, offsetof(Data, span)},
                {NULL, "wait", 'w', "TIME", true, "May have a value", NULL, handle_wait, 0},
                {NULL, "owned", 0, "TEXT", false, "Copied", NULL, option_copy, offsetof(Data, owned)},
                {NULL, NULL, 'o', NULL, false, "Has no long name", NULL, option_true, offsetof(Data, other)},
                {NULL, "help", 'h', NULL, false, "Stops", NULL, handle_stop, offsetof(Data, stop)},
                OPTION_END,
};

static const Option elsewhere[] = {
                {"Elsewhere", "image", 0, "X", false, "Not for here", NULL, option_string, 0},
                {NULL, "text", 0, "X", false, "Here it means something else", NULL, option_string, 0},
                OPTION_END,
};

static int parse(Data *d, const char ***words, size_t *n, Error *e, const char *const *line)
{
        char **argv = (char **) line; /* never written to */
        OptionSet sets[] = {{elsewhere, NULL, "belongs elsewhere"}, {options, d}};
        OptionParser p = {.sets = sets,
                          .n_sets = ELEMENTSOF(sets),
                          .argc = (int) strv_length(argv),
                          .argv = argv};

        return options_words(&p, words, n, e);
}

#define PARSE(...) parse(&d, &words, &n, &e, (const char *const[]){__VA_ARGS__, NULL})
#define SETUP                                                                                               \
        _cleanup_free_ _unused_ const char **words = NULL;                                                  \
        _cleanup_error_ Error e = ERROR_NULL;                                                               \
        Data d = {};                                                                                        \
        size_t n = 0

TEST(mixed)
{
        SETUP;

        ASSERT_OK(PARSE("one", "--flag", "two", "--text=x=y", "-n", "12", "three"));
        ASSERT_EQ(n, 3);
        ASSERT_STREQ(words[0], "one");
        ASSERT_STREQ(words[2], "three");
        ASSERT_TRUE(d.flag);
        ASSERT_STREQ(d.text, "x=y");
        ASSERT_EQ(d.number, 12);
}

TEST(next_word_is_value)
{
        SETUP;

        ASSERT_OK(PARSE("--text", "--flag", "-t-", "word"));
        ASSERT_STREQ(d.text, "-");
        ASSERT_TRUE(!d.flag);
        ASSERT_EQ(n, 1);
}

TEST(clusters)
{
        SETUP;

        ASSERT_OK(PARSE("-fon7", "-fw", "w"));
        ASSERT_TRUE(d.flag && d.other);
        ASSERT_EQ(d.number, 7);
        ASSERT_TRUE(d.waited && !d.wait);
        ASSERT_EQ(n, 1);
}

TEST(optional_value)
{
        SETUP;

        ASSERT_OK(PARSE("--wait", "word"));
        ASSERT_TRUE(d.waited && !d.wait);
        ASSERT_EQ(n, 1);
        free(TAKE_PTR(words));
        ASSERT_OK(PARSE("--wait=", "word"));
        ASSERT_STREQ(d.wait, "");
}

TEST(empty_values)
{
        SETUP;

        ASSERT_OK(PARSE("--text=", ""));
        ASSERT_STREQ(d.text, "");
        ASSERT_EQ(n, 1);
        ASSERT_STREQ(words[0], "");
}

TEST(dashes_end_options)
{
        SETUP;

        ASSERT_OK(PARSE("a", "-", "--", "--flag", "--", "---"));
        ASSERT_EQ(n, 5);
        ASSERT_STREQ(words[1], "-");
        ASSERT_STREQ(words[2], "--flag");
        ASSERT_STREQ(words[4], "---");
        ASSERT_TRUE(!d.flag);
}

TEST(stops)
{
        SETUP;

        ASSERT_EQ(PARSE("-h", "--no-such-thing"), OPTION_STOP);
        ASSERT_TRUE(d.stop);
}

TEST(copies_replace)
{
        SETUP;

        ASSERT_OK(PARSE("--owned=a", "--owned=b"));
        ASSERT_STREQ(d.owned, "b");
        free(d.owned);
}

TEST(spans)
{
        SETUP;

        ASSERT_OK(PARSE("--span=1min 30s"));
        ASSERT_EQ(d.span, 90000000);
        ASSERT_ERR(PARSE("--span=soon"), -EINVAL);
        ASSERT_CONTAINS(e.message, "Invalid value 'soon' for --span: not a time span");
}

/* One line each: words and the message that they give. */
TEST(messages)
{
        static const struct {
                const char *word, *message, *hint;
        } cases[] = {
                        {"--flga", "Unknown option '--flga'", "Did you mean '--flag'?"},
                        {"--fla=x", "Unknown option '--fla'", "Did you mean '--flag'?"},
                        {"--num", "Unknown option '--num'", "Did you mean '--number'?"},
                        {"--zzzzzz", "Unknown option '--zzzzzz'", NULL},
                        {"-z", "Unknown option '-z'", NULL},
                        {"-fz", "Unknown option '-z'", NULL},
                        {"---", "Unknown option '---'", NULL},
                        {"--=x", "Unknown option '--'", NULL},
                        {"--a\033[2J", "Unknown option '--a\\x1b[2J'", NULL},
                        {"--flag=x", "Option --flag takes no value", NULL},
                        {"--flag=", "Option --flag takes no value", NULL},
                        {"--text", "Option --text needs a value: TEXT", NULL},
                        {"-n", "Option -n needs a value: N", NULL},
                        {"--number=", "Invalid value '' for --number: not a whole number", NULL},
                        {"-n-1", "Invalid value '-1' for -n: not a whole number", NULL},
                        {"-n1x", "Invalid value '1x' for -n: not a whole number", NULL},
                        {"--number=18446744073709551616", "not a whole number", NULL},
                        {"--image=x", "Option --image belongs elsewhere", NULL},
                        {"--image", "Option --image belongs elsewhere", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                SETUP;

                ASSERT_ERR(PARSE(cases[i].word), -EINVAL);
                ASSERT_CONTAINS(e.message, cases[i].message);
                ASSERT_TRUE(streq_ptr(e.hint, cases[i].hint));
        }
}

TEST(sets_change_on_the_way)
{
        Data first = {}, second = {};
        OptionSet set = {options, &first};
        OptionParser p = {.sets = &set, .n_sets = 1, .argc = 5};
        const char *word = NULL;

        p.argv = (char **) (const char *const[]){"-n1", "x", "-n2", "--", "---"};
        ASSERT_EQ(options_next(&p, &word, NULL), OPTION_WORD);
        ASSERT_STREQ(word, "x");
        set.data = &second;
        ASSERT_EQ(options_next(&p, &word, NULL), OPTION_DASHES);
        ASSERT_EQ(options_next(&p, &word, NULL), OPTION_NEXT);
        ASSERT_EQ(options_next(&p, &word, NULL), OPTION_DONE);
        ASSERT_EQ(first.number, 1);
        ASSERT_EQ(second.number, 2);
        ASSERT_EQ(set.n_seen, 2);
}

TEST(nearest)
{
        static const char *const words[] = {"list", "logs", NULL, "status", "prepare"};

#define NEAREST(word) nearest_match(word, words, ELEMENTSOF(words), sizeof(words[0]))
        ASSERT_STREQ(NEAREST("lsit"), "list"); /* swapped */
        ASSERT_STREQ(NEAREST("lis"), "list");
        ASSERT_STREQ(NEAREST("lists"), "list");
        ASSERT_STREQ(NEAREST("logz"), "logs");
        ASSERT_STREQ(NEAREST("prep"), "prepare"); /* an abbreviation */
        ASSERT_STREQ(NEAREST("statsu"), "status");
        ASSERT_TRUE(!NEAREST("remove"));
        ASSERT_TRUE(!NEAREST(""));
        ASSERT_TRUE(!NEAREST("a-word-that-is-much-longer-than-anything-that-could-be-meant"));
}

int main(void)
{
        RUN(mixed);
        RUN(next_word_is_value);
        RUN(clusters);
        RUN(optional_value);
        RUN(empty_values);
        RUN(dashes_end_options);
        RUN(stops);
        RUN(copies_replace);
        RUN(spans);
        RUN(messages);
        RUN(sets_change_on_the_way);
        RUN(nearest);
        return TEST_END();
}

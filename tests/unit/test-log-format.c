/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of log files: each is read as the kubelet reads it, and the lines come out as they went in, whatever the
 * pieces in which the bytes arrive. */

#include "stage0/report/report-internal.h"
#include "stage0/supervisor/streams/forwarder-internal.h"
#include "tests/unit/test.h"

#define HEADER "2016-10-06T00:17:09.669794202Z stdout F "
#define HEADER_SIZE (sizeof(HEADER) - 1)
#define TEXT_MAX (LOG_RECORD_MAX - HEADER_SIZE - 1)

static const struct timespec moment = {.tv_sec = 1475713029, .tv_nsec = 669794202};

static void add(LogFormatter *f, const char *data, size_t size, Text *out)
{
        log_format_add(f, &moment, data, size, out);
}

/* The text that a reader of the CRI format gets from all records: that of P unchanged, that of F with a
 * newline. Fails for invalid records. */
static int read_records(const Text *records, Text *out, size_t *ret_n)
{
        const char *p = records->data, *end = p + records->size;

        *ret_n = 0;
        while (p < end) {
                const char *newline = memchr(p, '\n', (size_t) (end - p));
                if (!newline || newline - p < (ssize_t) HEADER_SIZE ||
                    newline + 1 - p > (ssize_t) LOG_RECORD_MAX)
                        return -EBADMSG;
                char tag = p[HEADER_SIZE - 2];
                if (memcmp(p, HEADER, HEADER_SIZE - 2) != 0 || (tag != 'F' && tag != 'P') ||
                    p[HEADER_SIZE - 1] != ' ')
                        return -EBADMSG;
                text_add_bytes(out, p + HEADER_SIZE, (size_t) (newline - p) - HEADER_SIZE);
                if (tag == 'F')
                        text_add(out, "\n");
                (*ret_n)++;
                p = newline + 1;
        }
        return 0;
}

TEST(a_line_is_a_record)
{
        _cleanup_text_ Text out = {};
        LogFormatter f = {.error = true};

        add(&f, "one\n\ntwo \n", 10, &out);
        ASSERT_STREQ(out.data, "2016-10-06T00:17:09.669794202Z stderr F one\n"
                               "2016-10-06T00:17:09.669794202Z stderr F \n"
                               "2016-10-06T00:17:09.669794202Z stderr F two \n");
        ASSERT_TRUE(!f.open && f.rest.size == 0);
}

TEST(times_have_nine_digits)
{
        static const struct timespec early = {.tv_sec = 0, .tv_nsec = 7}, late = {.tv_sec = 253402300799};
        _cleanup_text_ Text out = {};
        LogFormatter f = {};

        log_format_add(&f, &early, "a\n", 2, &out);
        log_format_add(&f, &late, "b\n", 2, &out);
        ASSERT_STREQ(out.data, "1970-01-01T00:00:00.000000007Z stdout F a\n"
                               "9999-12-31T23:59:59.000000000Z stdout F b\n");
}

/* The records do not depend on the pieces. */
TEST(pieces_of_any_size_make_the_same_records)
{
        static const char in[] = "first\n\n\nbinary \0 \xff\xfe\r \033[0m\nlast\nwithout an end";
        _cleanup_text_ Text expected = {}, text = {};
        size_t n;

        for (size_t chunk = sizeof(in) - 1; chunk > 0; chunk--)
                for (size_t first = 0; first <= chunk; first++) {
                        _cleanup_text_ Text out = {};
                        LogFormatter f = {};

                        add(&f, in, first, &out);
                        for (size_t i = first; i < sizeof(in) - 1; i += chunk)
                                add(&f, in + i, MIN(chunk, sizeof(in) - 1 - i), &out);
                        log_format_end(&f, &moment, &out);
                        text_done(&f.rest);
                        if (!expected.data)
                                text_add_bytes(&expected, out.data, out.size);
                        ASSERT_EQ(out.size, expected.size);
                        ASSERT_TRUE(memcmp(out.data, expected.data, out.size) == 0);
                }
        ASSERT_OK(read_records(&expected, &text, &n));
        ASSERT_EQ(n, 6);
        ASSERT_EQ(text.size, sizeof(in)); /* and a newline at the end */
        ASSERT_TRUE(memcmp(text.data, in, sizeof(in) - 1) == 0);
        ASSERT_EQ(text.data[text.size - 1], '\n');
}

/* A line of SIZE bytes, which come in CHUNKs, is N records, of which only the last is F. */
static void check_long_line(size_t size, size_t chunk, size_t n)
{
        _cleanup_text_ Text in = {}, out = {}, text = {};
        LogFormatter f = {};
        size_t got;

        for (size_t i = 0; i < size; i++)
                text_addf(&in, "%c", (int) ('a' + i % 26));
        text_add(&in, "\nnext\n");
        for (size_t i = 0; i < in.size; i += chunk)
                add(&f, in.data + i, MIN(chunk, in.size - i), &out);
        text_done(&f.rest);
        ASSERT_OK(read_records(&out, &text, &got));
        ASSERT_EQ(got, n + 1);
        ASSERT_EQ(text.size, in.size);
        ASSERT_TRUE(memcmp(text.data, in.data, in.size) == 0);
        for (size_t i = 0; i + 1 < n; i++)
                ASSERT_EQ(out.data[i * LOG_RECORD_MAX + HEADER_SIZE - 2], 'P');
        uint64_t lines, bytes;
        log_format_count(LOG_FORMAT_CRI, out.data, out.size, &lines, &bytes);
        ASSERT_EQ(lines, 2);
        ASSERT_EQ(bytes, in.size);
}

TEST(long_lines_are_cut_at_16_kib)
{
        static const struct {
                size_t size, n;
        } lines[] = {{TEXT_MAX - 1, 1}, {TEXT_MAX, 1},         {TEXT_MAX + 1, 2},
                     {2 * TEXT_MAX, 2}, {2 * TEXT_MAX + 1, 3}, {100000, 100000 / TEXT_MAX + 1}};

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                check_long_line(lines[i].size, 1 << 20, lines[i].n);
                check_long_line(lines[i].size, 65536, lines[i].n);
                check_long_line(lines[i].size, TEXT_MAX, lines[i].n);
                check_long_line(lines[i].size, 1000, lines[i].n);
                check_long_line(lines[i].size, 1, lines[i].n);
        }
}

TEST(flush_within_a_line_continues_it)
{
        _cleanup_text_ Text out = {}, text = {};
        LogFormatter f = {};
        size_t n;

        log_format_flush(&f, &moment, &out);
        ASSERT_EQ(out.size, 0);
        add(&f, "one ", 4, &out);
        log_format_flush(&f, &moment, &out);
        ASSERT_TRUE(f.open && log_format_is_open(LOG_FORMAT_CRI, out.data, out.size));
        log_format_flush(&f, &moment, &out);
        add(&f, "line\n", 5, &out);
        ASSERT_TRUE(!log_format_is_open(LOG_FORMAT_CRI, out.data, out.size));
        add(&f, "another", 7, &out);
        log_format_flush(&f, &moment, &out);
        log_format_end(&f, &moment, &out);
        log_format_end(&f, &moment, &out);
        ASSERT_OK(read_records(&out, &text, &n));
        ASSERT_STREQ(text.data, "one line\nanother\n");
        ASSERT_EQ(n, 4);
        text_done(&f.rest);
}

/* Readers reproduce exactly the text that was written. */
TEST(the_end_of_a_stream_is_no_end_of_a_line)
{
        _cleanup_text_ Text out = {}, text = {};
        LogFormatter f = {};
        size_t n;

        log_format_finish(&f, &moment, &out);
        ASSERT_EQ(out.size, 0);
        add(&f, "line\nDONE", 9, &out);
        log_format_finish(&f, &moment, &out);
        log_format_finish(&f, &moment, &out);
        ASSERT_TRUE(log_format_is_open(LOG_FORMAT_CRI, out.data, out.size));
        bool left_open[2] = {};
        const char *last = (const char *) memchr(out.data, '\n', out.size) + 1;
        log_format_note_open(last, (size_t) (out.data + out.size - last) - 1, left_open);
        ASSERT_TRUE(left_open[0] && !left_open[1]);
        log_format_note_open(out.data, (size_t) (last - out.data) - 1, left_open);
        ASSERT_TRUE(!left_open[0]);
        ASSERT_OK(read_records(&out, &text, &n));
        ASSERT_STREQ(text.data, "line\nDONE");
        ASSERT_EQ(n, 2);
        text_done(&f.rest);
}

TEST(records_are_read_as_they_were_written)
{
        static const char *const wrong[] = {"",
                                            "x",
                                            "2016-10-06T00:17:09.669794202Z",
                                            "2016-10-06T00:17:09.669794202Z stdout F",
                                            "2016-10-06T00:17:09.669794202Z stdout X text",
                                            "2016-10-06T00:17:09.669794202Z stdxxx F text",
                                            "2016-10-06T00:17:09.669794202 stdout F text",
                                            "2016-10-06T00:17:09.66979420Z stdout F text",
                                            "2016-10-06T00:17:09.669794202+01:00 stdout F text",
                                            "-016-10-06T00:17:09.669794202Z stdout F text",
                                            "1016-10-06T00:17:09.669794202Z stdout F text"};
        LogFormatter f = {.error = true};
        _cleanup_text_ Text out = {};
        JournalLine l;

        add(&f, "some text", 9, &out);
        log_format_flush(&f, &moment, &out);
        text_done(&f.rest);
        ASSERT_OK(log_record_parse(out.data, out.size - 1, &l));
        ASSERT_TRUE(l.error && l.partial && l.size == 9 && memcmp(l.data, "some text", 9) == 0);
        ASSERT_EQ(l.time_usec, UINT64_C(1475713029669794));
        ASSERT_OK(log_record_parse(HEADER, HEADER_SIZE, &l));
        ASSERT_TRUE(!l.error && !l.partial && l.size == 0);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                ASSERT_ERR(log_record_parse(wrong[i], strlen(wrong[i]), &l), -EBADMSG);
}

TEST(plain_is_whole_lines)
{
        LogFormatter f = {.format = LOG_FORMAT_PLAIN};
        _cleanup_text_ Text out = {};
        uint64_t lines, bytes;

        add(&f, "one\ntw", 6, &out);
        ASSERT_STREQ(out.data, "one\n");
        add(&f, "o\nthree", 7, &out);
        ASSERT_STREQ(out.data, "one\ntwo\n");
        ASSERT_TRUE(!log_format_is_open(LOG_FORMAT_PLAIN, out.data, out.size));
        log_format_flush(&f, &moment, &out);
        ASSERT_STREQ(out.data, "one\ntwo\nthree");
        ASSERT_TRUE(log_format_is_open(LOG_FORMAT_PLAIN, out.data, out.size));
        log_format_end(&f, &moment, &out);
        ASSERT_STREQ(out.data, "one\ntwo\nthree\n");
        log_format_count(LOG_FORMAT_PLAIN, out.data, out.size, &lines, &bytes);
        ASSERT_EQ(lines, 3);
        ASSERT_EQ(bytes, out.size);
        text_done(&f.rest);
}

int main(void)
{
        RUN(a_line_is_a_record);
        RUN(times_have_nine_digits);
        RUN(pieces_of_any_size_make_the_same_records);
        RUN(long_lines_are_cut_at_16_kib);
        RUN(flush_within_a_line_continues_it);
        RUN(the_end_of_a_stream_is_no_end_of_a_line);
        RUN(records_are_read_as_they_were_written);
        RUN(plain_is_whole_lines);
        return TEST_END();
}

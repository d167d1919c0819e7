/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How much of an app's output is stored: whole lines, until the budget is used up; the rest is counted. */

#include "stage0/supervisor/streams/forwarder-internal.h"
#include "tests/unit/test.h"

#define COST 512U /* of a line, besides its bytes */

typedef struct Fixture {
        AppTable apps;
        Forwarders all;
        LogBound bound;
        Forwarder forwarder;
        Text stored;
} Fixture;

static void fixture_done(Fixture *f)
{
        text_done(&f->stored);
}

/* With room for N lines of SIZE bytes. */
static void set_up(Fixture *f, size_t n, size_t size, uint64_t rate)
{
        f->bound = (LogBound){.app = "a",
                              .size = n * (COST + size),
                              .left = n * (COST + size),
                              .rate = rate,
                              .last_usec = now_usec(CLOCK_MONOTONIC)};
        f->all.apps = &f->apps;
        f->forwarder = (Forwarder){.all = &f->all, .bound = &f->bound};
}

static void write_to(Fixture *f, const char *data, size_t size)
{
        if (forwarder_bound_admits(&f->forwarder, data, size))
                text_add_bytes(&f->stored, data, size);
        else
                forwarder_bound_filter(&f->forwarder, data, size, &f->stored);
}

static size_t lines_in(const char *s)
{
        size_t n = 0;

        for (; (s = strchr(s, '\n')); s++)
                n++;
        return n;
}

/* In chunks of CHUNK bytes. */
static void check_lines(size_t chunk)
{
        _cleanup_(fixture_done) Fixture f = {};
        _cleanup_text_ Text in = {};

        for (unsigned i = 0; i < 200; i++)
                text_addf(&in, "line %03u\n", i);
        set_up(&f, 50, strlen("line 000\n"), 0);
        for (size_t i = 0; i < in.size; i += chunk)
                write_to(&f, in.data + i, MIN(chunk, in.size - i));
        /* The stored part is the beginning of the output, in whole lines. */
        ASSERT_TRUE(strncmp(in.data, f.stored.data, f.stored.size) == 0);
        ASSERT_EQ(f.stored.data[f.stored.size - 1], '\n');
        size_t stored = lines_in(f.stored.data);
        ASSERT_TRUE(stored >= 45 && stored <= 50);
        ASSERT_EQ(f.bound.lines, 200 - stored);
        ASSERT_EQ(f.bound.bytes, in.size - f.stored.size);
        forwarder_bound_end(&f.forwarder, &f.stored);
        ASSERT_CONTAINS(f.stored.data, "acnspawn: ");
        ASSERT_CONTAINS(f.stored.data, " of app a were not stored: it writes more than --log-size= and "
                                       "--log-rate= allow\n");
        ASSERT_EQ(lines_in(f.stored.data), stored + 1);
        ASSERT_EQ(f.bound.unreported_bytes, 0);
}

TEST(lines_are_stored_until_the_budget_is_used)
{
        check_lines(1 << 20);
        check_lines(90);
        check_lines(7);
}

TEST(dropped_bytes_are_reported_before_the_next_line)
{
        _cleanup_(fixture_done) Fixture f = {};

        set_up(&f, 4, 10, 1000);
        for (unsigned i = 0; i < 10; i++)
                write_to(&f, "123456789\n", 10);
        uint64_t dropped = f.bound.lines;
        ASSERT_TRUE(dropped >= 5);
        f.bound.last_usec -= 60000000; /* a minute has passed */
        write_to(&f, "again\n", 6);
        ASSERT_CONTAINS(f.stored.data, "\nacnspawn: ");
        ASSERT_CONTAINS(f.stored.data, "\nagain\n");
        ASSERT_EQ(f.bound.lines, dropped);
        ASSERT_TRUE(!f.bound.dropping);
}

TEST(little_is_not_worth_going_on_for)
{
        _cleanup_(fixture_done) Fixture f = {};

        set_up(&f, 100, 10, 1000);
        for (unsigned i = 0; i < 200; i++)
                write_to(&f, "123456789\n", 10);
        size_t size = f.stored.size;
        f.bound.last_usec -= 1000000; /* would be two lines */
        write_to(&f, "again\n", 6);
        ASSERT_EQ(f.stored.size, size);
        f.bound.last_usec -= 60000000;
        write_to(&f, "again\n", 6);
        ASSERT_TRUE(f.stored.size > size);
}

TEST(a_line_without_an_end_is_cut)
{
        _cleanup_(fixture_done) Fixture f = {};
        char big[1000];

        memset(big, 'x', sizeof(big));
        set_up(&f, 10, 100, 0);
        for (unsigned i = 0; i < 100; i++)
                write_to(&f, big, sizeof(big));
        ASSERT_TRUE(f.stored.size > 65536 && f.stored.size < 75000);
        ASSERT_EQ(f.stored.data[f.stored.size - 1], '\n');
        ASSERT_EQ(f.bound.bytes, 100000 - (f.stored.size - 1));
        write_to(&f, "\nnext\n", 6);
        ASSERT_EQ(f.bound.lines, 2);
}

TEST(without_a_bound_all_is_stored)
{
        _cleanup_(fixture_done) Fixture f = {};

        set_up(&f, 1, 1, 0);
        f.bound.unbounded = true;
        for (unsigned i = 0; i < 100; i++)
                write_to(&f, "123456789\n", 10);
        ASSERT_EQ(f.stored.size, 1000);
        f.forwarder.bound = NULL;
        write_to(&f, "x", 1);
        ASSERT_EQ(f.stored.size, 1001);
}

/* The shares of the other apps shrink for a new app. An app keeps what it has used of its share. */
TEST(shares)
{
        Pod pod = {.dir_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        AppInstance apps[3] = {};
        AppInstance *items[] = {&apps[0], &apps[1], &apps[2]};
        AppTable table = {.pod = &pod, .items = items, .n = 3};
        Forwarders all = {.pod = &pod, .apps = &table};

        apps[2].settings.log_size = 5000000;
        ASSERT_OK(forwarder_bound_new(&pod, "a", &apps[0].settings, 1, &apps[0].bound));
        forwarder_bounds_share(&all);
        ASSERT_TRUE(apps[0].bound->unbounded);
        ASSERT_OK(forwarder_bound_new(&pod, "b", &apps[1].settings, 2, &apps[1].bound));
        forwarder_bounds_share(&all);
        uint64_t half = apps[1].bound->size;
        ASSERT_TRUE(!apps[0].bound->unbounded && half < UINT64_MAX);
        ASSERT_EQ(apps[0].bound->size, half);
        ASSERT_EQ(apps[0].bound->left, half);
        apps[0].bound->left = 1000;
        ASSERT_OK(forwarder_bound_new(&pod, "c", &apps[2].settings, 3, &apps[2].bound));
        forwarder_bounds_share(&all);
        ASSERT_TRUE(apps[0].bound->size < half || half == (UINT64_C(1) << 20));
        ASSERT_EQ(apps[0].bound->left, 1000);
        ASSERT_EQ(apps[1].bound->size, apps[0].bound->size);
        ASSERT_EQ(apps[2].bound->size, 5000000);
        for (size_t i = 1; i < 3; i++)
                apps[i].bound = (free(apps[i].bound), NULL);
        forwarder_bounds_share(&all);
        ASSERT_TRUE(apps[0].bound->unbounded);
        free(apps[0].bound);
        safe_close(pod.dir_fd);
}

int main(void)
{
        RUN(shares);
        RUN(lines_are_stored_until_the_budget_is_used);
        RUN(dropped_bytes_are_reported_before_the_next_line);
        RUN(little_is_not_worth_going_on_for);
        RUN(a_line_without_an_end_is_cut);
        RUN(without_a_bound_all_is_stored);
        return TEST_END();
}

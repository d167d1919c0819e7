/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events of the interface of a pod: no client gets one after another that it should have got before. */

#include <sys/socket.h>

#include "stage0/supervisor/interface/interface-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

static bool never(void *userdata)
{
        return false;
}

typedef struct World {
        Scratch scratch;
        Pod pod;
        AppTable apps;
        sd_event *event;
        Interface *interface;
        VarlinkClient *client;
} World;

static void world_done(World *w)
{
        varlink_client_free(w->client);
        interface_free(w->interface);
        sd_event_unref(w->event);
        scratch_done(&w->scratch);
}

/* Whatever can be done now. */
static void run(World *w)
{
        for (unsigned i = 0; i < 1000 && sd_event_run(w->event, 0) > 0; i++)
                ;
}

/* Without commands in apps, which need the launcher. */
static int make_interface(World *w)
{
        w->interface = calloc(1, sizeof(Interface));
        if (!w->interface)
                return -ENOMEM;
        *w->interface = (Interface){.pod = &w->pod,
                                    .event = w->event,
                                    .apps = &w->apps,
                                    .ops = {.ends = never},
                                    .freezer_fd = -EBADF};
        return interface_serve(w->interface, NULL);
}

static int world_init(World *w)
{
        static char uuid[] = "6733c088-a507-4694-aabf-edbe4fc5266f";

        *w = (World){.scratch = SCRATCH_NULL};
        int r = library_load(&systemd_library, NULL);
        if (r >= 0)
                r = scratch_new(&w->scratch);
        if (r < 0)
                return r;
        w->pod = (Pod){.uuid = uuid, .dir_fd = w->scratch.fd};
        r = sd_event_new(&w->event);
        if (r >= 0)
                r = make_interface(w);
        int fd = -EBADF;
        if (r >= 0)
                r = socket_connect_at(w->scratch.fd, "interface", SOCK_STREAM, &fd);
        return r < 0 ? r : varlink_client_new(fd, NULL, &w->client);
}

static int monitor_since(World *w, int64_t since)
{
        _cleanup_json_ json_object *parameters = json_object_new_object();

        int r = json_member_add(parameters, "since", json_object_new_int64(since));
        if (r >= 0)
                r = varlink_client_send(w->client, "org.acnspawn.Pod.Monitor", parameters, true, NULL);
        run(w);
        return r;
}

/* The number of the next event, 0 for the error EventsLost. */
static int64_t next(World *w)
{
        _cleanup_(varlink_reply_done) VarlinkReply reply = {};

        run(w);
        int r = varlink_client_next(w->client, 10000000, &reply, NULL);
        if (r < 0)
                return r;
        if (reply.error)
                return streq(reply.error, "org.acnspawn.Pod.EventsLost") ? 0 : -EPROTO;
        return json_object_get_int64(json_object_object_get(reply.parameters, "sequence"));
}

TEST(events_between_describe_and_monitor_come)
{
        _cleanup_(world_done) World w;

        ASSERT_OK(world_init(&w));
        for (int i = 0; i < 3; i++)
                interface_changed(w.interface, NULL);
        ASSERT_OK(monitor_since(&w, 1));
        interface_changed(w.interface, NULL);
        ASSERT_EQ(next(&w), 2);
        ASSERT_EQ(next(&w), 3);
        ASSERT_EQ(next(&w), 4);
}

TEST(events_that_are_not_kept_are_an_error)
{
        _cleanup_(world_done) World w;

        ASSERT_OK(world_init(&w));
        for (unsigned i = 0; i < EVENTS_KEPT + 2; i++)
                interface_changed(w.interface, NULL);
        ASSERT_OK(monitor_since(&w, 1));
        ASSERT_EQ(next(&w), 0);
        ASSERT_OK(monitor_since(&w, 2));
        ASSERT_EQ(next(&w), 3);
}

/* It is longer than any message. */
TEST(an_event_that_cannot_be_sent_ends_the_call)
{
        _cleanup_(world_done) World w;
        _cleanup_free_ char *text = malloc(VARLINK_MESSAGE_SIZE_MAX + 1);

        ASSERT_NOT_NULL(text);
        memset(text, 'x', VARLINK_MESSAGE_SIZE_MAX);
        text[VARLINK_MESSAGE_SIZE_MAX] = 0;
        ASSERT_OK(world_init(&w));
        ASSERT_OK(monitor_since(&w, 0));
        interface_changed(w.interface, NULL);
        ASSERT_EQ(next(&w), 1);
        interface_announce(w.interface, NULL, "replacing", text);
        interface_changed(w.interface, NULL);
        ASSERT_EQ(next(&w), 0);
        ASSERT_OK(monitor_since(&w, 2));
        ASSERT_EQ(next(&w), 3);
}

int main(void)
{
        RUN(events_between_describe_and_monitor_come);
        RUN(events_that_are_not_kept_are_an_error);
        RUN(an_event_that_cannot_be_sent_ends_the_call);
        return TEST_END();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages from processes of a pod: of sd_notify(3), and requests and events of launchers. */

#include "stage0/supervisor/launchers/notice.h"
#include "stage0/supervisor/launchers/serve.h"
#include "tests/unit/test.h"

TEST(messages)
{
        static const struct {
                const char *text;
                Notice expected;
        } l[] = {
                        {"", {}},
                        {"\n\n\n", {}},
                        {"READY=1", {.ready = true}},
                        {"READY=1\n", {.ready = true}},
                        {"STATUS=up\nREADY=1\nMAINPID=17", {.ready = true, .status = "up", .main_pid = 17}},
                        {"MAINPID=-1\nMAINPID=x\nMAINPID=\nMAINPID=99999999999", {}},
                        {"READY=0\nREADY=\nREADY\nREADY=11\n READY=1\nready=1", {}},
                        {"FDSTORE=1\nSTOPPING=1\nRELOADING=1\nWATCHDOG=1\nNOTIFYACCESS="
                         "all\nERRNO=2",
                         {}},
                        {"EXTEND_TIMEOUT_USEC=5", {.extend_usec = 5}},
                        {"EXTEND_TIMEOUT_USEC=-5\nEXTEND_TIMEOUT_USEC=x\nEXTEND_TIMEOUT_USEC=\n"
                         "EXTEND_TIMEOUT_USEC=99999999999999999999",
                         {}},
                        {"STATUS=a\nSTATUS=b=c", {.status = "b=c"}},
                        {"STATUS=", {.status = ""}},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                char text[256];
                Notice n = {};
                snprintf(text, sizeof(text), "%s", l[i].text);
                ASSERT_OK(notice_parse(text, strlen(text), &n));
                ASSERT_EQ(n.ready, l[i].expected.ready);
                ASSERT_EQ(n.extend_usec, l[i].expected.extend_usec);
                ASSERT_EQ(n.main_pid, l[i].expected.main_pid);
                ASSERT_STREQ(n.status ?: "none", l[i].expected.status ?: "none");
        }
}

TEST(invalid_messages)
{
        char text[NOTICE_SIZE_MAX + 2];
        Notice n = {.extend_usec = 77};

        memset(text, 'x', sizeof(text));
        ASSERT_ERR(notice_parse(text, NOTICE_SIZE_MAX + 1, &n), -EBADMSG);
        ASSERT_OK(notice_parse(text, NOTICE_SIZE_MAX, &n));
        n.extend_usec = 77;
        memcpy(text, "READY=1\0x", 9);
        ASSERT_ERR(notice_parse(text, 9, &n), -EBADMSG);
        ASSERT_EQ(n.extend_usec, 77);
}

static const LaunchRequest good = {.version = LAUNCH_PROTOCOL_VERSION, .phase = LAUNCH_MAIN, .app = "web"};

TEST(requests)
{
        LaunchRequest r = good;

        ASSERT_OK(launch_request_check(&r, sizeof(r), _LAUNCH_STREAM_MAX));
        ASSERT_ERR(launch_request_check(&r, sizeof(r), 0), -EBADMSG);
        ASSERT_ERR(launch_request_check(&r, sizeof(r) - 1, _LAUNCH_STREAM_MAX), -EBADMSG);
        for (uint32_t phase = LAUNCH_DELAY; phase < _LAUNCH_PHASE_MAX; phase++) {
                r.phase = phase;
                ASSERT_OK(launch_request_check(&r, sizeof(r), 0));
                ASSERT_ERR(launch_request_check(&r, sizeof(r), _LAUNCH_STREAM_MAX), -EBADMSG);
        }
        r.phase = _LAUNCH_PHASE_MAX;
        ASSERT_ERR(launch_request_check(&r, sizeof(r), 0), -EBADMSG);
        r = good;
        r.version++;
        ASSERT_ERR(launch_request_check(&r, sizeof(r), _LAUNCH_STREAM_MAX), -EBADMSG);
        r = good;
        memset(r.app, 'x', sizeof(r.app));
        ASSERT_ERR(launch_request_check(&r, sizeof(r), _LAUNCH_STREAM_MAX), -EBADMSG);
}

static const LaunchEvent good_event = {.version = LAUNCH_PROTOCOL_VERSION,
                                       .kind = LAUNCH_MAIN_ENDED,
                                       .exit_status = -1,
                                       .app = "web"};

TEST(events)
{
        static const struct {
                size_t offset, size;
        } texts[] = {{offsetof(LaunchEvent, app), sizeof(good_event.app)},
                     {offsetof(LaunchEvent, result), sizeof(good_event.result)},
                     {offsetof(LaunchEvent, identity), sizeof(good_event.identity)},
                     {offsetof(LaunchEvent, message), sizeof(good_event.message)}};
        LaunchEvent e = good_event;

        ASSERT_OK(launch_event_check(&e, sizeof(e), 0));
        ASSERT_ERR(launch_event_check(&e, sizeof(e), 1), -EBADMSG);
        ASSERT_ERR(launch_event_check(&e, sizeof(e) - 1, 0), -EBADMSG);
        e.kind = _LAUNCH_EVENT_MAX;
        ASSERT_ERR(launch_event_check(&e, sizeof(e), 0), -EBADMSG);
        e = good_event;
        e.version--;
        ASSERT_ERR(launch_event_check(&e, sizeof(e), 0), -EBADMSG);
        e = good_event;
        e.cause = _APP_CAUSE_MAX;
        ASSERT_ERR(launch_event_check(&e, sizeof(e), 0), -EBADMSG);
        for (int32_t n = -300; n <= 300; n++) {
                e = good_event;
                e.exit_status = n;
                ASSERT_EQ(launch_event_check(&e, sizeof(e), 0), n >= -1 && n <= 255 ? 0 : -EBADMSG);
                e = good_event;
                e.signal = n;
                ASSERT_EQ(launch_event_check(&e, sizeof(e), 0), n >= 0 && n <= 255 ? 0 : -EBADMSG);
        }
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                e = good_event;
                memset((char *) &e + texts[i].offset, 'x', texts[i].size);
                ASSERT_ERR(launch_event_check(&e, sizeof(e), 0), -EBADMSG);
        }
}

int main(void)
{
        RUN(messages);
        RUN(invalid_messages);
        RUN(requests);
        RUN(events);
        return TEST_END();
}

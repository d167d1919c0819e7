/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Jobs of a systemd, the host's or a pod's: a call that enqueues one returns at once, the job's end is
 * reported by a signal. The signal is subscribed to before the call, so that none is missed. On a system bus
 * any client may send such a signal; only those from the sender of the reply are accepted. */

#include "library/libsystemd.h"
#include "stage0/host/host.h"

typedef struct Job {
        const char *path, *sender; /* SENDER is NULL if there are no other peers */
        char *result;              /* once it has ended */
} Job;

static void message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}

static void slot_unrefp(sd_bus_slot **s)
{
        sd_bus_slot_unref(*s);
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const char *path, *unit, *result;
        Job *job = userdata;
        uint32_t id;

        if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0)
                return 0;
        if (job->path && !job->result && streq(path, job->path) &&
            streq_ptr(sd_bus_message_get_sender(m), job->sender)) {
                job->result = strdup(result);
                return job->result ? 0 : -ENOMEM;
        }
        return 0;
}

/* The bus is not asked for its descriptor: with STOP the wait is one of short steps. */
#define STEP_USEC (50 * UINT64_C(1000))

static int step(sd_bus *bus, uint64_t end_usec, const NetworkStop *stop)
{
        uint64_t now = now_usec(CLOCK_MONOTONIC), left = end_usec > now ? end_usec - now : 0;
        int r = sd_bus_process(bus, NULL);

        if (r != 0)
                return MIN(r, 0);
        if (left == 0)
                return -ETIME;
        if (stop && network_stop_is_pending(stop))
                return -EINTR;
        r = sd_bus_wait(bus, stop ? MIN(left, STEP_USEC) : left);
        return r == -EINTR ? 0 : MIN(r, 0);
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        sd_bus_message **reply = userdata;

        *reply = sd_bus_message_ref(m);
        return 0;
}

int systemd_call(sd_bus *bus, sd_bus_message *call, uint64_t end_usec, const NetworkStop *stop,
                 sd_bus_message **ret_reply, sd_bus_error *error)
{
        _cleanup_(message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(slot_unrefp) sd_bus_slot *slot = NULL;

        int r = sd_bus_call_async(bus, &slot, call, on_reply, &reply, UINT64_MAX);
        while (r >= 0 && !reply)
                r = step(bus, end_usec, stop);
        if (r < 0)
                return r;
        const sd_bus_error *failure = sd_bus_message_get_error(reply);
        if (failure)
                return MIN(sd_bus_error_copy(error, failure), -1);
        *ret_reply = TAKE_PTR(reply);
        return 0;
}

int systemd_run_job(sd_bus *bus, sd_bus_message *call, uint64_t end_usec, const NetworkStop *stop,
                    char **ret_result, sd_bus_error *error)
{
        _cleanup_(message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(slot_unrefp) sd_bus_slot *slot = NULL;
        Job job = {};

        int r = sd_bus_match_signal(bus, &slot, NULL, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved",
                                    on_job_removed, &job);
        if (r >= 0)
                r = systemd_call(bus, call, end_usec, stop, &reply, error);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &job.path);
        if (r >= 0)
                job.sender = sd_bus_message_get_sender(reply);
        while (r >= 0 && !job.result)
                r = step(bus, end_usec, stop);
        if (r >= 0)
                *ret_result = TAKE_PTR(job.result);
        free(job.result);
        return MIN(r, 0);
}

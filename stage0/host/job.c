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

static int wait_for_end(sd_bus *bus, const Job *job, uint64_t end)
{
        while (!job->result) {
                uint64_t now = now_usec(CLOCK_MONOTONIC);
                int r = sd_bus_process(bus, NULL);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                if (now >= end)
                        return -ETIME;
                r = sd_bus_wait(bus, end == UINT64_MAX ? UINT64_MAX : end - now);
                if (r < 0 && r != -EINTR)
                        return r;
        }
        return 0;
}

int systemd_run_job(sd_bus *bus, sd_bus_message *call, uint64_t timeout_usec, char **ret_result,
                    sd_bus_error *error)
{
        uint64_t end = timeout_usec == UINT64_MAX ? UINT64_MAX : now_usec(CLOCK_MONOTONIC) + timeout_usec;
        _cleanup_(message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(slot_unrefp) sd_bus_slot *slot = NULL;
        Job job = {};

        int r = sd_bus_match_signal(bus, &slot, NULL, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved",
                                    on_job_removed, &job);
        if (r >= 0)
                r = sd_bus_call(bus, call, timeout_usec == UINT64_MAX ? 0 : timeout_usec, error, &reply);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &job.path);
        if (r >= 0) {
                job.sender = sd_bus_message_get_sender(reply);
                r = wait_for_end(bus, &job, end);
        }
        if (r >= 0)
                *ret_result = TAKE_PTR(job.result);
        free(job.result);
        return MIN(r, 0);
}

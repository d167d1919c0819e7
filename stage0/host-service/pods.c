/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls about pods. Each runs in a separate process (job.c), and uses the same operations as the verb of its
 * name. */

#include "stage0/host-service/service-internal.h"
#include "stage0/supervisor/supervisor.h"

#define START_WAIT_USEC UINT64_C(90000000) /* for apps that do not report readiness */

/* Replies with {KEY: *VALUE} for each value but the last, which is kept until the next call. */
static int reply_before(HostJob *j, json_object **last, json_object *next)
{
        int r = *last ? job_reply_continues(j, *last) : 0;

        *last = next;
        return r;
}

static int find_pod(HostJob *j, Pod **ret, Error *e)
{
        const char *name = job_text(j, "pod");
        int r = j->store ? pod_find(j->store, name, ret, e)
                         : error_set(e, -ENOENT, "There is no store at '%s'", j->options->dir);

        return r < 0 ? job_refuse_pod(j, r, name, e) : 1;
}

static int add_pod(json_object *o, Pod *p)
{
        json_object *pod = NULL;

        int r = pod_to_json(p, &pod);
        return r < 0 ? r : json_member_add(o, "pod", pod);
}

/* --- Listing ------------------------------------------------------------------------------------------- */

int job_list_pods(HostJob *j, Error *e)
{
        json_object *last = NULL;
        Pod **pods = NULL;
        size_t n = 0;

        int r = j->store ? pod_list(j->store, &pods, &n, e) : 0;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                json_object *o = json_object_new_object();
                r = add_pod(o, pods[i]);
                if (r >= 0)
                        r = reply_before(j, &last, o);
                else
                        json_object_put(o);
        }
        pod_list_free(pods, n);
        if (r >= 0)
                return job_reply(j, last ?: json_object_new_object());
        json_object_put(last);
        return r;
}

/* --- One pod ------------------------------------------------------------------------------------------- */

static int add_interface(json_object *o, const char *directory)
{
        _cleanup_free_ char *path = NULL;

        int r = xasprintf(&path, "%s/interface", directory);
        return r < 0 ? r : json_member_add_text(o, "interface", path);
}

static int add_manifest(json_object *o, const Pod *p)
{
        _cleanup_free_ char *text = NULL;
        json_object *manifest = NULL;

        int r = p->manifest ? pod_manifest_format(p->manifest, &text) : 0;
        if (r < 0 || !text)
                return r;
        r = json_parse_strict(text, strlen(text), &manifest, NULL, NULL);
        return r < 0 ? r : json_member_add(o, "manifest", manifest);
}

int job_describe_pod(HostJob *j, Error *e)
{
        _cleanup_free_ char *directory = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        json_object *o = NULL;

        int r = find_pod(j, &p, e);
        if (r <= 0)
                return r;
        r = pod_path(p, &directory);
        if (r < 0)
                return error_set_errno(e, r, "Cannot determine the directory of pod %s", p->uuid);
        o = json_object_new_object();
        if (add_pod(o, p) >= 0 && json_member_add_text(o, "directory", directory) >= 0 &&
            (p->state != POD_RUNNING || add_interface(o, directory) >= 0) && add_manifest(o, p) >= 0)
                return job_reply(j, o);
        json_object_put(o);
        return error_oom(e);
}

/* --- Preparing ----------------------------------------------------------------------------------------- */

static int refuse_request(HostJob *j, int r, const char *field, Error *e)
{
        return field && r == -EINVAL ? job_refuse_field(j, field, e) : r;
}

static int refuse_name(HostJob *j, const char *name, Error *e)
{
        json_object *o = error_to_json(e);

        if (json_member_add_text(o, "name", name) >= 0)
                return job_reply_error(j, "NameTaken", o);
        json_object_put(o);
        return -ENOMEM;
}

/* 1: *RET is a prepared pod; 0: it was refused. */
static int prepare(HostJob *j, Pod **ret, Error *e)
{
        _cleanup_pod_arguments_ PodArguments a;
        _cleanup_free_ char *field = NULL;

        pod_arguments_init(&a);
        int r = host_request_parse(j->parameters, &a, &field, e);
        if (r < 0)
                return refuse_request(j, r, field, e);
        a.request.fetch = &a.fetch;
        a.fetch.config_dirs = a.options.config_dirs = j->options->config_dirs;
        r = prepare_pod(j->store, &a.request, &a.options, ret, &j->warnings, e);
        if (r == -EEXIST && a.options.name)
                return refuse_name(j, a.options.name, e);
        return r < 0 ? r : 1;
}

static int reply_pod(HostJob *j, const Pod *p, const char *uuid, const char *name, Error *e)
{
        json_object *o = json_object_new_object();
        _cleanup_free_ char *directory = NULL;

        if (json_member_add_text(o, "uuid", uuid) >= 0 &&
            (!name || json_member_add_text(o, "name", name) >= 0) &&
            (!p || (pod_path(p, &directory) >= 0 && add_interface(o, directory) >= 0)) &&
            json_member_add(o, "warnings", json_new_string_list(j->warnings) ?: json_object_new_array()) >=
                            0)
                return job_reply(j, o);
        json_object_put(o);
        return error_oom(e);
}

/* A pod whose UUID the caller does not get is useless. */
static int check_caller(HostJob *j, Pod *p, Error *e)
{
        int r = operation_check(j->operation, e);

        if (r < 0) {
                pod_return_name(p);
                (void) pod_remove(p, NULL);
        }
        return r;
}

int job_prepare_pod(HostJob *j, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = prepare(j, &p, e);
        if (r <= 0)
                return r;
        r = check_caller(j, p, e);
        return r < 0 ? r : reply_pod(j, NULL, p->uuid, p->config.name, e);
}

/* --- Running ------------------------------------------------------------------------------------------- */

/* A pod that was made for this call and could not be started is removed, as the caller gets the reason. */
static void remove_if_it_never_ran(Store *s, const char *uuid)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        if (pod_open(s, uuid, &p, NULL) < 0 || (p->state != POD_PREPARED && !pod_never_ran(p)) ||
            pod_lock(p, true, NULL) < 0)
                return;
        pod_return_name(p);
        if (pod_release(p, NULL, NULL) >= 0)
                (void) pod_remove(p, NULL);
}

static int refuse_run(HostJob *j, int r, const char *uuid, Error *e)
{
        bool ended = r > 0 || r == -EIO || r == -ECANCELED || r == -ETIME;
        json_object *o;

        if (r != -ETIMEDOUT && !ended)
                return r;
        o = error_to_json(e);
        if (json_member_add_text(o, "uuid", uuid) >= 0 &&
            (r <= 0 || json_member_add(o, "exitStatus", json_object_new_int(r)) >= 0))
                return job_reply_error(j, ended ? "PodEnded" : "PodNotUp", o);
        json_object_put(o);
        return -ENOMEM;
}

static int read_run_options(HostJob *j, RunOptions *ret)
{
        *ret = (RunOptions){.detach = true,
                            .remove = job_flag(j, "remove"),
                            .config_dirs = j->options->config_dirs,
                            .start_wait_usec = START_WAIT_USEC};
        int r = job_usec(j, "readyTimeoutUSec", UINT64_MAX, &ret->ready_timeout_usec);
        if (r >= 0 && ret->ready_timeout_usec != UINT64_MAX)
                ret->start_wait_usec = UINT64_MAX;
        return r;
}

/* P is prepared; freed here. */
static int run(HostJob *j, Pod *p, const RunOptions *o, bool is_new, Error *e)
{
        _cleanup_(pod_freep) Pod *owned = p, *running = NULL;
        _cleanup_free_ char *uuid = strdup(p->uuid), *name = p->config.name ? strdup(p->config.name) : NULL;
        bool left = false;

        if (!uuid || (p->config.name && !name))
                return error_oom(e);
        int r = run_pod(p, o, &left, e);
        owned = pod_free(owned);
        if (r != 0) {
                if (is_new && r != -EINTR && r != -ETIMEDOUT)
                        remove_if_it_never_ran(j->store, uuid);
                return refuse_run(j, r, uuid, e);
        }
        /* It may have ended since, or been removed. */
        (void) pod_look(j->store, uuid, &running, NULL);
        return reply_pod(j, running, uuid, name, e);
}

int job_run_pod(HostJob *j, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        RunOptions o;

        if (read_run_options(j, &o) < 0)
                return job_reply_invalid_parameter(j, "readyTimeoutUSec");
        int r = prepare(j, &p, e);
        if (r <= 0)
                return r;
        r = check_caller(j, p, e);
        return r < 0 ? r : run(j, TAKE_PTR(p), &o, true, e);
}

int job_start_pod(HostJob *j, Error *e)
{
        _cleanup_(pod_freep) Pod *p = NULL, *successor = NULL;
        const SuccessorOptions again = {.config_dirs = j->options->config_dirs};
        RunOptions o;

        if (read_run_options(j, &o) < 0)
                return job_reply_invalid_parameter(j, "readyTimeoutUSec");
        int r = find_pod(j, &p, e);
        if (r <= 0)
                return r;
        if (p->state == POD_PREPARED)
                return run(j, TAKE_PTR(p), &o, false, e);
        if (p->state != POD_EXITED)
                return job_refuse_state(j, p);
        r = make_successor(p, &again, &successor, &j->warnings, e);
        if (r >= 0)
                r = check_caller(j, successor, e);
        return r < 0 ? r : run(j, TAKE_PTR(successor), &o, true, e);
}

/* --- Ending -------------------------------------------------------------------------------------------- */

int job_stop_pod(HostJob *j, Error *e)
{
        json_object *o = json_object_new_object();
        _cleanup_(pod_freep) Pod *p = NULL;
        uint64_t timeout_usec;

        if (job_usec(j, "timeoutUSec", STOP_AS_CONFIGURED, &timeout_usec) < 0)
                return job_reply_invalid_parameter(j, "timeoutUSec");
        int r = find_pod(j, &p, e);
        if (r <= 0)
                return r;
        if (p->state != POD_RUNNING && p->state != POD_EXITED)
                return job_refuse_state(j, p);
        r = p->state == POD_EXITED ? 0 : stop_pod(p, timeout_usec, e);
        if (r < 0)
                return r;
        if (json_member_add(o, "killed", json_object_new_boolean(r > 0)) < 0)
                return error_oom(e);
        return job_reply(j, o);
}

int job_remove_pod(HostJob *j, Error *e)
{
        json_object *o = json_object_new_object();
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = find_pod(j, &p, e);
        if (r <= 0)
                return r;
        if (p->state == POD_RUNNING && !job_flag(j, "force"))
                return job_refuse_state(j, p);
        if (json_member_add_text(o, "uuid", p->uuid) < 0)
                return error_oom(e);
        r = discard_pod(p, e);
        return r < 0 ? r : job_reply(j, o);
}

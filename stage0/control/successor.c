/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Running a pod again: a pod runs once, so a new one is prepared from the first one's file "definition" and
 * its configuration, by the same code and with the same checks.
 *
 * The images are those with the same IDs, unless the caller requests to resolve the references again.
 * Secrets are not recorded: their files are read again, others are not available. */

#include "stage0/control/control-internal.h"

/* --- Credentials --------------------------------------------------------------------------------------- */

static int refuse_credential(const Pod *old, const Credential *k, Error *e)
{
        int r = error_set(e, -ENODATA,
                          "Pod %s cannot be run again: the credential '%s' was %s, and secrets are "
                          "not recorded",
                          pod_display_name(old), k->name,
                          k->source == CREDENTIAL_GIVEN ? "given on the command line"
                                                        : "read from standard input or a pipe");

        return error_hint(e, r,
                          "Prepare it anew, with the secret in a file that stays: --credential=%s:FILE.",
                          k->name);
}

/* A definition has only the names and sources of credentials. */
static int read_again(const Pod *old, CredentialList *l, Error *e)
{
        CredentialList again = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < l->n; i++) {
                const Credential *k = &l->items[i];
                if (k->source != CREDENTIAL_FILE || !k->path)
                        r = refuse_credential(old, k, e);
                else if ((r = credential_list_add_file(&again, k->name, k->path, e)) < 0)
                        (void) error_prefix(e, r, "Pod %s cannot be run again: the credential '%s' (%s)",
                                            pod_display_name(old), k->name, k->path);
        }
        if (r < 0) {
                credential_list_done(&again);
                return r;
        }
        credential_list_done(l);
        *l = again;
        return 0;
}

static int read_credentials(const Pod *old, PodRequest *q, Error *e)
{
        int r = read_again(old, &q->credentials, e);

        for (size_t i = 0; r >= 0 && i < q->n_apps; i++)
                r = read_again(old, &q->apps[i].credentials, e);
        return r;
}

/* --- Images -------------------------------------------------------------------------------------------- */

static int refuse_missing(const Pod *old, const PodDefinition *d, size_t i, Error *e)
{
        const DefinedImage *image = &d->images[i];
        const char *reference = d->request.template ? image->name : d->request.apps[i].reference;

        int r = error_set(e, -ENOENT,
                          "Pod %s cannot be run again: the image %.19s (%s) of app %s was removed",
                          pod_display_name(old), image->id, image->name, image->app);
        return error_hint(
                        e, r,
                        "'acnspawn fetch %s' brings it back. If that is another image by now, 'acnspawn run "
                        "--images=resolve %s' takes it.",
                        reference, pod_display_name(old));
}

/* The images that the pod has run with. The strings in IDS are owned by D. */
static int pin_images(const Pod *old, PodDefinition *d, const char ***ids, Error *e)
{
        *ids = calloc(d->n_images + 1, sizeof(char *));
        if (!*ids)
                return error_oom(e);
        for (size_t i = 0; i < d->n_images; i++) {
                _cleanup_free_ char *path = NULL;

                if (xasprintf(&path, "images/%s", d->images[i].id) < 0)
                        return error_oom(e);
                if (faccessat(store_fd(old->store), path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                        return refuse_missing(old, d, i, e);
                (*ids)[i] = d->images[i].id;
        }
        d->request.image_ids = *ids;
        return 0;
}

static int check_references(const Pod *old, const PodRequest *q, Error *e)
{
        for (size_t i = 0; i < q->n_apps; i++) {
                if (!streq(q->apps[i].reference, "-"))
                        continue;
                int r = error_set(e, -EINVAL,
                                  "The image of app %s of pod %s was read from standard input: there is "
                                  "nothing to resolve",
                                  q->apps[i].name, pod_display_name(old));
                return error_hint(e, r, "Without --images=resolve the same image is used.");
        }
        return 0;
}

/* --- The successor ------------------------------------------------------------------------------------- */

static int read_definition(const Pod *old, bool as_prepared, PodDefinition *ret, Error *e)
{
        _cleanup_free_ char *path = NULL;

        int r = as_prepared ? pod_definition_read(old, ret, e) : pod_definition_read_current(old, ret, e);
        if (r != -ENOENT || pod_path(old, &path) < 0)
                return r;
        r = error_set(e, -ENODATA,
                      "Pod %s cannot be run again: it was prepared by an earlier build, which did not "
                      "record what it was made of",
                      pod_display_name(old));
        return error_hint(e, r,
                          "Prepare it anew, or from its manifest: acnspawn prepare --pod-manifest=%s/pod",
                          path);
}

/* The options in PodConfig of the old pod. The strings are owned by the old pod. */
static PrepareOptions options_of(const PodConfig *c)
{
        return (PrepareOptions){
                        .hostname = c->hostname,
                        .stage1 = c->stage1,
                        .private_users = c->private_users,
                        .net = c->net,
                        .networks = c->networks,
                        .dns = c->dns,
                        .dns_search = c->dns_search,
                        .dns_options = c->dns_options,
                        .hosts_entries = c->hosts_entries,
                        .exit_policy = c->exit_policy,
                        .stop_timeout_usec = c->stop_timeout_usec,
                        .exit_idle_usec = c->exit_idle_usec,
                        .strict = c->strict,
                        .reduced_metadata = c->reduced_metadata,
                        .no_metadata = c->no_metadata,
        };
}

/* A pod whose supervisor was killed may have left processes. Its networks do not keep a successor from starting, which tries to undo them
 * before it makes its own (network_up()); what is left is tried again, and reported, by gc and rm. */
static int tidy_up(Pod *old, Error *e)
{
        /* Otherwise a collector or reader may have moved it, which has released nothing. */
        if (old->place != POD_RUNNING)
                return pod_cgroup_is_left(old) ? pod_release_processes(old, e) : 0;
        int r = pod_release_processes(old, e);
        return r < 0 ? r : pod_end_run(old, e);
}

int lock_ended_pod(Pod *old, Error *e)
{
        _cleanup_(pod_freep) Pod *now = NULL;

        int r = pod_lock(old, true, e);
        if (r == -EBUSY)
                return error_hint(e, r, "If it is being run again, 'acnspawn list' shows its successor.");
        if (r < 0)
                return r;
        if (old->state != POD_EXITED)
                return error_set(e, -EBUSY, "Pod %s is %s by now", pod_display_name(old),
                                 pod_state_to_string(old->state));
        r = pod_open(old->store, old->uuid, &now, e);
        if (r < 0)
                return r;
        r = pod_successor_check(now, old, e);
        return r < 0 ? r : tidy_up(old, e);
}

/* A pod that is run by its UUID again and again, as by a unit that names it so, has lost its name to the last that was made of it. Once
 * that one has ended it passes the name on, as a pod does that is run again by its name. */
static int find_name_holder(const Pod *old, Pod **ret, Error *e)
{
        _cleanup_(pod_freep) Pod *holder = NULL;

        if (old->config.name || !old->former_name ||
            pod_open_by_name(old->store, old->former_name, &holder, NULL) < 0 ||
            holder->state != POD_EXITED || !pod_descends_from(holder, old))
                return 0;
        int r = lock_ended_pod(holder, e);
        if (r >= 0)
                *ret = TAKE_PTR(holder);
        return r;
}

static int remove_old(Pod *old, Error *e)
{
        int r = pod_release(old, NULL, e);

        if (r >= 0)
                r = pod_remove(old, e);
        return r == -ENOENT ? 0 : r;
}

int make_successor(Pod *old, const SuccessorOptions *o, Pod **ret, char ***warnings, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_(pod_freep) Pod *p = NULL, *holder = NULL;
        _cleanup_free_ const char **ids = NULL;

        int r = old->state == POD_RUNNING && o->replace ? 0 : lock_ended_pod(old, e);
        if (r >= 0)
                r = find_name_holder(old, &holder, e);
        if (r >= 0 && !old->manifest)
                r = pod_load(old, e);
        if (r >= 0)
                r = read_definition(old, o->as_prepared, &d, e);
        if (r >= 0)
                r = read_credentials(old, &d.request, e);
        if (r >= 0)
                r = o->fetch ? check_references(old, &d.request, e) : pin_images(old, &d, &ids, e);
        if (r < 0)
                return r;
        PrepareOptions options = options_of(&old->config);
        options.predecessor = old;
        options.name_holder = holder;
        options.config_dirs = o->config_dirs;
        d.request.fetch = o->fetch;
        d.request.again = true;
        r = prepare_pod(old->store, &d.request, &options, &p, warnings, e);
        d.request.fetch = NULL; /* the caller's */
        if (r < 0)
                return operation_ended(r) ? r
                                          : error_prefix(e, r, "Pod %s cannot be run again",
                                                         pod_display_name(old));
        if (o->replace && (r = remove_old(old, e)) < 0) {
                r = error_prefix(e, r, "The predecessor of pod %s", p->uuid);
                if (warnings && e && e->message)
                        (void) strv_extend(warnings, e->message);
                error_done(e);
        }
        *ret = TAKE_PTR(p);
        return 0;
}

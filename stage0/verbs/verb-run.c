/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn run: runs a prepared pod; or runs a pod that has ended again, as a new pod; or prepares one from
 * images and runs it; or, without arguments, runs the only prepared pod.
 *
 * A single word without anything that describes a new pod may be either an existing pod or an image. A pod
 * is searched for first; a word that matches both is refused as ambiguous. Anything that describes a pod, an
 * option or a second image, means that the words are images.
 *
 * A declared pod (--declared=) is made of its file each time; one that has ended is its predecessor.
 */

#include "stage0/arguments/pod-declared.h"
#include "stage0/arguments/pod-values.h"
#include "stage0/verbs/pod-words.h"
#include "stage0/pods/pods.h"

/* --- Which pod? ---------------------------------------------------------------------------------------- */

static int list_candidates(Context *c, Pod *const *pods, size_t n)
{
        int r = error_set(&c->error, -ENOTUNIQ, "Several pods are prepared: specify the one to run");
        _cleanup_text_ Text hint = {};

        text_add(&hint, "Prepared pods:");
        for (size_t i = 0; i < n; i++)
                if (pods[i]->state == POD_PREPARED)
                        text_addf(&hint, "\n  %s%s%s", pods[i]->uuid, pods[i]->config.name ? " " : "",
                                  pods[i]->config.name ?: "");
        return error_hint(&c->error, r, "%s",
                          hint.data && !hint.failed ? hint.data : "See 'acnspawn list'.");
}

/* "acnspawn run" without arguments. */
static int find_only_pod(Context *c, Pod **ret)
{
        Pod **pods = NULL, *found = NULL;
        size_t n = 0, n_prepared = 0;

        int r = pod_list(c->store, &pods, &n, &c->error);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                if (pods[i]->state == POD_PREPARED) {
                        found = pods[i];
                        n_prepared++;
                }
        if (n_prepared == 0) {
                r = error_set(&c->error, -ENOENT, "No pod is prepared");
                r = error_hint(&c->error, r,
                               "Prepare one with 'acnspawn prepare IMAGE', or run an image: 'acnspawn run "
                               "IMAGE'.");
        } else if (n_prepared > 1)
                r = list_candidates(c, pods, n);
        else
                r = context_find_pod(c, found->uuid, ret);
        pod_list_free(pods, n);
        return r;
}

/* Whether the word can only be an image: a file, a URL, "docker://…", or an unsupported transport, which is
 * reported when it is fetched. */
static bool is_image(const char *word)
{
        _cleanup_reference_ Reference x = {};

        int r = reference_parse(word, &x, NULL);
        return r == -EPROTONOSUPPORT || (r >= 0 && x.kind != REFERENCE_IMAGE);
}

/* Whether it is an image that is not in the store, but may be fetched. */
static bool may_be_fetched(const PodArguments *a, const char *word)
{
        _cleanup_(image_name_done) ImageName name = {};

        return a->fetch.policy != PULL_NEVER && image_name_parse(word, &name, NULL) >= 0 &&
               discovery_possible(name.name);
}

static int refuse_both(Context *c, const char *shown, const Pod *p, const Image *image)
{
        error_set(&c->error, -ENOTUNIQ, "'%s' is both a pod (%s) and an image (%s)", shown ?: "", p->uuid,
                  image->manifest->name);
        return error_hint(&c->error, -ENOTUNIQ,
                          "Write the UUID of the pod, or the ID of the image, in full.");
}

/* HINT is that of the search for an image; the general part is extended to pods here. */
static int refuse_neither(Context *c, const char *shown, const char *hint)
{
        bool specific = hint && !startswith(hint, "'acnspawn") && !strstr(hint, "docker://");

        error_set(&c->error, -ENOENT, "There is neither a pod nor an image '%s'", shown);
        return error_hint(
                        &c->error, -ENOENT,
                        "%s%s'acnspawn list' and 'acnspawn image list' show those available; an image of a "
                        "registry is run with 'acnspawn run docker://%s', one in a file by its path.",
                        specific ? hint : "", specific ? " " : "", shown);
}

/* 1: an existing pod; 0: an image. */
static int pod_or_image(Context *c, const PodArguments *a, const char *word, Pod **ret)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_error_ Error image_error = ERROR_NULL;
        _cleanup_(pod_freep) Pod *p = NULL;
        _cleanup_free_ char *shown = text_escape_for_terminal(word);

        if (is_image(word))
                return 0;
        int r = context_find_pod(c, word, &p);
        if (r < 0 && r != -ENOENT)
                return r;
        if (r < 0 && may_be_fetched(a, word)) { /* fetching also searches the store */
                error_done(&c->error);
                return 0;
        }
        int k = image_find(c->store, word, &image, &image_error);
        if (r >= 0 && k >= 0)
                return refuse_both(c, shown, p, image);
        if (r >= 0) {
                *ret = TAKE_PTR(p);
                return 1;
        }
        error_done(&c->error);
        if (k >= 0)
                return 0;
        /* An unreadable image, several matching ones, or a missing file are reported as such. */
        if (k != -ENOENT || strchr(word, '/') || endswith(word, ".aci")) {
                c->error = image_error;
                image_error = ERROR_NULL;
                return k;
        }
        return refuse_neither(c, shown ?: "", image_error.hint);
}

/* "acnspawn run --detach POD -- ARGUMENTS": there is no such image, but there is such a pod. */
static int explain_pod(Context *c, const char *reference, int r)
{
        _cleanup_(image_freep) Image *image = NULL;
        _cleanup_(pod_freep) Pod *p = NULL;

        if (pod_find(c->store, reference, &p, NULL) < 0 ||
            image_find(c->store, reference, &image, NULL) != -ENOENT)
                return r;
        r = error_set(&c->error, r, "'%s' is a pod, not an image, and does not accept options or arguments",
                      pod_display_name(p));
        return error_hint(&c->error, r,
                          "They are given to 'acnspawn prepare'; 'acnspawn run %s' runs it as it is.",
                          pod_display_name(p));
}

/* An existing pod: one that has ended gets a successor. */
static int take_pod(Context *c, PodArguments *a, const RunArguments *own, Pod *p, Pod **ret, bool *ret_new)
{
        _cleanup_(pod_freep) Pod *found = p;

        if (p->state == POD_EXITED || (p->state == POD_RUNNING && a->options.replace)) {
                int r = pod_arguments_prepare_again(c, a, found, own->resolve, own->as_prepared, ret);
                *ret_new = r >= 0;
                return r;
        }
        if (own->resolve) {
                int r = error_set(&c->error, -EINVAL,
                                  "The images of pod %s are not resolved again: it is %s",
                                  pod_display_name(p), pod_state_to_string(p->state));
                return error_hint(&c->error, r, "--images= is for a pod that has ended%s.",
                                  p->state == POD_RUNNING ? ", or is stopped by --replace" : "");
        }
        *ret = TAKE_PTR(found);
        return 0;
}

/* The arguments imply that the word is an existing pod. */
static int find_named_pod(Context *c, PodArguments *a, Pod **ret)
{
        int r = context_find_pod(c, a->request.apps[0].reference, ret);

        if (r != -ENOENT || !a->options.replace)
                return r;
        error_done(&c->error);
        return pod_arguments_refuse_replace(c);
}

static int find_or_prepare(Context *c, PodArguments *a, const RunArguments *own, Pod **ret, bool *ret_new)
{
        Pod *p = NULL;
        int r;

        if (!a->describes_pod && a->request.n_apps == 0)
                return find_only_pod(c, ret);
        if (!a->describes_pod) {
                r = own->again || a->options.replace ? find_named_pod(c, a, &p)
                                                     : pod_or_image(c, a, a->request.apps[0].reference, &p);
                if (r < 0)
                        return r;
                if (p)
                        return take_pod(c, a, own, p, ret, ret_new);
        }
        r = pod_arguments_prepare(c, a, ret);
        if (r >= 0)
                *ret_new = true;
        return r == -ENOENT && a->request.n_apps == 1 ? explain_pod(c, a->request.apps[0].reference, r) : r;
}

/* --- Running ------------------------------------------------------------------------------------------- */

static int release_and_remove(Context *c, Pod *p)
{
        int r = pod_release(p, NULL, &c->error);

        return r < 0 ? r : pod_remove(p, &c->error);
}

/* In its current state, which does not change any more unless it runs. */
static int find_and_lock(Context *c, const char *uuid, Pod **ret)
{
        int r = context_find_pod(c, uuid, ret);

        return r < 0 || (*ret)->state == POD_RUNNING ? r : pod_lock(*ret, true, &c->error);
}

static int remove_pod(Context *c, const char *uuid)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        int r = find_and_lock(c, uuid, &p);

        if (r < 0)
                return r;
        if (p->config.name_from)
                pod_return_name(p);
        return release_and_remove(c, p);
}

/* Freeing P releases the lock on the pod, so that it can be removed. */
static int run_and_release(Context *c, Pod *p, RunArguments *a, bool *ret_detached)
{
        _cleanup_(pod_freep) Pod *owned = p;
        const RunOptions o = {.sockets = &a->sockets,
                              .detach = a->detach,
                              .remove = a->remove,
                              .quiet = c->quiet,
                              .strict = a->strict,
                              .raw = a->raw,
                              .keep_unit = a->keep_unit,
                              .registration = a->registration,
                              .detach_keys = a->keys,
                              .config_dirs = context_config_dirs(c),
                              .ready_timeout_usec = a->ready_timeout_usec,
                              .start_wait_usec = a->start_wait_usec};

        int r = run_pod(owned, &o, ret_detached, &c->error);
        if (r > 0 && c->error.message) { /* the pod has ended before it was up */
                error_print(&c->error, -EIO);
                error_done(&c->error);
        }
        if (r != 0 || !a->detach)
                return r;
        r = context_show_pod(c, owned);
        if (r < 0)
                (void) error_hint(&c->error, r,
                                  "Pod %s was started nevertheless; 'acnspawn stop %s' ends it.",
                                  owned->uuid, owned->uuid);
        return r;
}

/* A pod that was prepared for this run and could not be started is removed, as the error was reported
 * already: it would keep its name, and a unit of the host that is restarted repeatedly would accumulate such
 * pods. A pod that did run is kept, unless --rm was given. A pod that was prepared before is kept unless it
 * was run. */
static bool is_to_be_removed(Pod *p, PodState was, int error, bool is_new, bool remove)
{
        if (p->state == POD_RUNNING)
                return false;
        if (is_new && (p->state == POD_PREPARED || pod_never_ran(p)))
                return true;
        if (p->state == POD_PREPARED)
                return false;
        return remove && was == POD_PREPARED && error != -EBUSY && error != -ESTALE;
}

/* Keeps the present error. */
static void give_up(Context *c, const char *uuid, PodState was, int error, bool is_new, bool remove)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        Error first = c->error;
        int r = -EBUSY;

        if (!is_new && !remove)
                return;
        c->error = ERROR_NULL;
        if (find_and_lock(c, uuid, &p) >= 0 && is_to_be_removed(p, was, error, is_new, remove)) {
                pod_return_name(p);
                r = release_and_remove(c, p);
        }
        error_done(&c->error);
        c->error = first;
        if (r >= 0 && remove && first.hint && strstr(first.hint, uuid)) /* without further information */
                (void) error_hint(&c->error, error,
                                  "Without --rm the pod would be kept, for 'acnspawn status' and 'acnspawn "
                                  "logs' to show details.");
}

/* Only waiting was ended, which is not a failure of the pod. */
static bool is_left_running(int error, const RunArguments *a)
{
        return a->detach && (error == -EINTR || error == -ETIMEDOUT);
}

static int run_it(Context *c, Pod *p, bool is_new, RunArguments *a)
{
        _cleanup_free_ char *uuid = strdup(p->uuid);
        PodState was = p->state;

        if (!uuid) {
                pod_free(p);
                return error_oom(&c->error);
        }
        bool left = false;
        int status = run_and_release(c, p, a, &left);
        if (left)
                log_info("Pod %s keeps running; 'acnspawn attach %s' returns to it.", uuid, uuid);
        if (status < 0 && !is_left_running(status, a))
                give_up(c, uuid, was, status, is_new, a->remove);
        if (status < 0 || !a->remove || a->detach || left) /* else the supervisor removes it */
                return status;
        int r = remove_pod(c, uuid);
        if (r == -ENOENT) /* by somebody else, such as "acnspawn prune" */
                error_done(&c->error);
        else if (r < 0) { /* the pod's status takes precedence */
                context_print_error(c, r);
                error_done(&c->error);
                return status ?: EXIT_STATUS_FAILURE;
        }
        return status;
}

/* A signal received while the pod was prepared aborts that, and the pod is removed. In the foreground later
 * signals are for the pod; with --detach they end waiting. */
static int hand_over_interrupts(Context *c, Pod *p, bool is_new, const RunArguments *a)
{
        if (a->detach)
                (void) interrupt_catch(c->operation);
        else {
                interrupt_block();
                interrupt_release();
        }
        int r = operation_check(c->operation, &c->error);
        if (r < 0 && is_new) {
                pod_return_name(p);
                (void) pod_remove(p, NULL);
        }
        return r;
}

/* Called before anything is executed that would inherit them. */
static int take_sockets(Context *c, RunArguments *own)
{
        int r = passed_sockets_take(&own->sockets, &c->error);

        if (r >= 0 && own->sockets.foreign_pid > 0)
                log_warning("LISTEN_PID is %d, not this process: the sockets that were passed are ignored.",
                            (int) own->sockets.foreign_pid);
        return r;
}

/* --- Declared pods ------------------------------------------------------------------------------------- */

/* What was said on the command line takes precedence. */
static void merge(RunArguments *own, const RunArguments *file)
{
        own->strict = own->strict || file->strict;
        own->remove = own->remove || file->remove;
        if (own->registration == (RegisterMode) 0)
                own->registration = file->registration;
        if (!own->has_ready_timeout) {
                own->ready_timeout_usec = file->ready_timeout_usec;
                own->start_wait_usec = file->start_wait_usec;
        }
}

/* What was said on the command line, as opposed to acnspawn.conf. */
static int note_option(const Option *o, const char *value, const AppOverrides *app, void *userdata, Error *e)
{
        RunArguments *own = userdata;

        own->has_ready_timeout = own->has_ready_timeout || streq_ptr(o->name, "ready-timeout");
        return 0;
}

/* Whether there is a pod of that name that is not known to be made of a file. */
static bool is_undeclared(Context *c, const char *name)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        bool found = context_find_pod(c, name, &p) >= 0 && pod_load(p, NULL) >= 0 && !p->config.declared_run;
        error_done(&c->error);
        return found;
}

/* --service: an instance of acnspawn@.service is named after a declared pod, or an existing one. */
static int choose_declared(Context *c, const PodArguments *a, RunArguments *own)
{
        _cleanup_strv_free_ char **dirs = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        if (!own->service)
                return 0;
        if (own->declared || a->describes_pod || a->request.n_apps != 1)
                return context_usage(c, "--service is for a single pod, given by its name");
        const char *name = a->request.apps[0].reference;
        if (declared_dirs(c->config_dirs[0], &dirs) < 0)
                return error_oom(&c->error);
        int r = declared_exists(dirs, name, &e);
        if (r < 0 && is_undeclared(c, name)) {
                log_warning("%s. The pod %s that there is is run: it is not known to be made of a declaration.",
                            e.message ?: strerror(-r), name);
                return 0;
        }
        if (r != 0) /* what cannot be read is said when it is loaded */
                own->declared = name;
        return 0;
}

static int prepare_declared(Context *c, const PodArguments *line, RunArguments *own, PodArguments *a,
                            Pod **ret)
{
        _cleanup_run_arguments_ RunArguments file;

        run_arguments_init(&file);
        if (own->again || line->fetches || (line->describes_whole_pod && !line->options.replace) ||
            line->request.n_apps > (own->service ? 1U : 0U))
                return context_usage(c,
                                     "The file says what a declared pod is made of: it cannot be combined "
                                     "with images, options of pods, --images= and --apps=");
        int r = context_load_declared(c, own->declared, a, &file);
        if (r < 0)
                return r;
        merge(own, &file);
        a->options.strict = own->strict;
        a->options.replace = line->options.replace;
        return context_prepare_declared(c, a, ret);
}

/* The pod to run, from the command line A. DECLARED owns what the pod is made of, if that is a file. */
static int get_pod(Context *c, PodArguments *a, RunArguments *own, PodArguments *declared, Pod **ret,
                   bool *ret_new)
{
        if (!own->declared)
                return find_or_prepare(c, a, own, ret, ret_new);
        *ret_new = true;
        return prepare_declared(c, a, own, declared, ret);
}

static int check_line(Context *c, const PodArguments *a, const RunArguments *own)
{
        if (own->declared)
                return 0;
        if (a->options.replace && !a->options.name && a->request.n_apps == 0)
                return pod_arguments_refuse_replace(c);
        if (own->again && (a->describes_pod || a->request.n_apps == 0))
                return context_usage(c, "--images= and --apps= are only for a single pod that is run again");
        if (a->describes_pod && a->request.n_apps == 0 && !a->manifest_file &&
            !exit_policy_is_open(a->options.exit_policy))
                return context_usage(
                                c,
                                "Options that describe a pod need an image to make it from, or "
                                "--pod-manifest=; or, for a pod without apps, --exit-policy=never or tasks");
        return 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_pod_arguments_ PodArguments a, declared;
        _cleanup_(pod_freep) Pod *p = NULL;
        _cleanup_run_arguments_ RunArguments own;
        bool is_new = false;

        run_arguments_init(&own);
        pod_arguments_init(&a);
        pod_arguments_init(&declared);
        a.on_option = note_option;
        a.userdata = &own;
        int r = pod_arguments_parse(c, run_options, &own, argc, argv, &a);
        if (r <= 0)
                return r;
        a.options.strict = own.strict;
        r = run_arguments_take_policy(c, &own, &a);
        if (r < 0)
                return r;
        a.describes_pod = a.describes_pod || (a.fetches && !own.resolve);
        r = choose_declared(c, &a, &own);
        if (r >= 0)
                r = check_line(c, &a, &own);
        if (r >= 0)
                r = take_sockets(c, &own);
        if (r >= 0)
                r = context_open_store_as_root(c);
        if (r >= 0)
                r = get_pod(c, &a, &own, &declared, &p, &is_new);
        if (r >= 0)
                r = hand_over_interrupts(c, p, is_new, &own);
        if (r >= 0 && is_new && (own.service || own.keep_unit || own.declared))
                remove_former_pods(p, c->config_dirs[0]);
        return r < 0 ? r : run_it(c, TAKE_PTR(p), is_new, &own);
}

const Verb verb_run = {
                .name = "run",
                .page = "acnspawn-run",
                .synopsis = "[RUN OPTIONS…] [--replace] [POD]\n"
                            "[RUN OPTIONS…] [--replace] --declared=NAME\n"
                            "[RUN OPTIONS…] [POD OPTIONS…] IMAGE [APP OPTIONS…] [-- ARGUMENTS…] [--- IMAGE "
                            "…]\n"
                            "[RUN OPTIONS…] [POD OPTIONS…] --pod-manifest=FILE\n"
                            "[RUN OPTIONS…] [POD OPTIONS…] --exit-policy=never|tasks",
                .brief = "[POD|IMAGE…]",
                .summary = "Run a pod, or prepare and run one",
                .text = "Runs a prepared pod (without an argument: the only one); or a pod that has "
                        "ended once more, as a new pod of the same name; or makes one of images, as "
                        "'acnspawn prepare' does, and runs it. In the foreground shows what the apps write, "
                        "ends the pod in order on SIGINT, SIGTERM and SIGHUP, and exits with the pod's "
                        "status.",
                .words = "pod:prepared,exited",
                .options = (const Option *const[]){run_options, pod_options, image_options, app_options,
                                                   NULL},
                .run = run,
};

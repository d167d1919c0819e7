/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shell completion of a word or the value of an option:
 *
 *     acnspawn --complete KIND CURRENT [WORDS OF THE COMMAND LINE…]
 *
 * prints the candidates that begin with CURRENT, one per line and in full. The kinds are those of Verb.words
 * and Option.complete that are neither choices ("a|b") nor left to the shell (files, directories, commands).
 * Nothing is fetched, created or locked; failures give no candidates and no message, since a shell calls it
 * while the user types.
 */

#include <signal.h>

#include "library/libcapng.h"
#include "prepare/images/images.h"
#include "stage0/verbs/pod-words.h"

typedef struct Completion {
        Context *context;
        const char *current;
        char **words; /* of the command line, without the name of the program */
} Completion;

static void offer(const Completion *c, const char *candidate)
{
        if (candidate && startswith(candidate, c->current))
                printf("%s\n", candidate);
}

/* CANDIDATE as the next item of a comma-separated list. */
static void offer_next(const Completion *c, const char *candidate)
{
        const char *comma = strrchr(c->current, ',');
        _cleanup_free_ char *whole = NULL;

        if (xasprintf(&whole, "%.*s%s", comma ? (int) (comma + 1 - c->current) : 0, c->current, candidate) >=
            0)
                offer(c, whole);
}

/* --- Pods, apps and images ----------------------------------------------------------------------------- */

/* STATES are separated by commas; "": all. */
static void complete_pods(const Completion *c, const char *states)
{
        _cleanup_strv_free_ char **wanted = NULL;
        Pod **pods = NULL;
        size_t n = 0;

        if (strv_split(states, ",", &wanted) < 0 || pod_list(c->context->store, &pods, &n, NULL) < 0)
                return;
        for (size_t i = 0; i < n; i++) {
                if (wanted && !strv_contains(wanted, pod_shown_state(pods[i])))
                        continue;
                offer(c, pods[i]->uuid);
                offer(c, pods[i]->config.name);
        }
        pod_list_free(pods, n);
}

static void offer_apps(const Completion *c, const Pod *p)
{
        for (size_t i = 0; p->manifest && i < p->manifest->n_apps; i++)
                offer(c, pod_app_path_name(p->manifest->apps[i]));
}

/* Apps of the pod on the command line, else of all running pods. The first word is the command. */
static void complete_apps(const Completion *c, const char *unused)
{
        bool command = true;
        Pod **pods = NULL;
        size_t n = 0;

        for (char **w = c->words; *w; w++) {
                _cleanup_(pod_freep) Pod *p = NULL;

                if ((*w)[0] == '-' || !(*w)[0])
                        continue;
                if (!command && pod_find(c->context->store, *w, &p, NULL) >= 0) {
                        offer_apps(c, p);
                        return;
                }
                command = false;
        }
        if (pod_list(c->context->store, &pods, &n, NULL) < 0)
                return;
        for (size_t i = 0; i < n; i++)
                if (pods[i]->state == POD_RUNNING)
                        offer_apps(c, pods[i]);
        pod_list_free(pods, n);
}

static void complete_images(const Completion *c, const char *unused)
{
        Image **images = NULL;
        size_t n = 0, n_damaged;

        if (image_list_readable(c->context->store, &images, &n, &n_damaged, NULL) < 0)
                return;
        for (size_t i = 0; i < n; i++) {
                offer(c, images[i]->id);
                offer(c, images[i]->manifest->name);
        }
        image_list_free(images, n);
}

static void complete_named_volumes(const Completion *c, const char *unused)
{
        _cleanup_strv_free_ char **names = NULL;

        if (named_volume_list(c->context->store, &names, NULL) < 0)
                return;
        STRV_FOREACH (name, names)
                offer(c, *name);
}

static void complete_declared(const Completion *c, const char *unused)
{
        _cleanup_strv_free_ char **dirs = NULL, **names = NULL;

        if (declared_dirs(c->context->config_dirs[0], &dirs) < 0 || declared_list(dirs, &names, NULL) < 0)
                return;
        STRV_FOREACH (name, names)
                offer(c, *name);
}

/* --- Values of options --------------------------------------------------------------------------------- */

static void complete_signals(const Completion *c, const char *unused)
{
        for (int i = 1; i < _NSIG; i++) {
                const char *name = sigabbrev_np(i);
                _cleanup_free_ char *full = NULL;

                if (name && xasprintf(&full, "SIG%s", name) >= 0)
                        offer(c, full);
        }
}

static void complete_networks(const Completion *c, const char *unused)
{
        _cleanup_strv_free_ char **names = NULL;

        offer(c, "none");
        offer(c, "host");
        if (network_names(context_config_dirs(c->context), &names) < 0)
                return;
        STRV_FOREACH (name, names)
                offer_next(c, *name);
}

static void complete_isolators(const Completion *c, const char *unused)
{
        for (int t = 0; t < _ISOLATOR_TYPE_MAX; t++) {
                const char *name = isolator_type_to_string((IsolatorType) t);
                _cleanup_free_ char *text = NULL;

                if (name && xasprintf(&text, "%s=", name) >= 0)
                        offer(c, text);
        }
}

static void complete_capabilities(const Completion *c, const char *unused)
{
        char name[STAGE1_CAPABILITY_NAME_SIZE];

        if (library_load(&capng_library, NULL) < 0)
                return;
        for (unsigned i = 0; stage1_capability_name(i, name); i++)
                offer_next(c, name);
}

/* The definition of a volume: the kind first, then the keys of that kind. */
static void complete_volume(const Completion *c, const char *unused)
{
        static const struct {
                const char *kind, *key;
        } keys[] = {
                        {"empty", "mode="},
                        {"empty", "uid="},
                        {"empty", "gid="},
                        {"tmpfs", "size="},
                        {"tmpfs", "nr_inodes="},
                        {"tmpfs", "mode="},
                        {"tmpfs", "uid="},
                        {"tmpfs", "gid="},
                        {"host", "source="},
                        {"host", "idmap=auto"},
                        {"host", "idmap=yes"},
                        {"host", "idmap=no"},
                        {"host", "recursive=false"},
                        {"host", "symlinks=true"},
                        {"named", "source="},
                        {"host", "dev=true"},
                        {"host", "suid=true"},
                        {"host", "propagation=slave"},
                        {"host", "propagation=shared"},
                        {"named", "mode="},
                        {"named", "uid="},
                        {"named", "gid="},
                        {"named", "quota="},
                        {"image", "source="},
                        {"image", "subpath="},
                        {"image", "exec=false"},
        };
        const char *kind = strstr(c->current, ",kind="), *end = kind ? strchr(kind + 1, ',') : NULL;

        if (!strchr(c->current, ','))
                return; /* its name is chosen by the user */
        if (!end) {
                offer_next(c, "kind=empty");
                offer_next(c, "kind=host");
                offer_next(c, "kind=image");
                offer_next(c, "kind=named");
                offer_next(c, "kind=tmpfs");
                return;
        }
        kind += strlen(",kind=");
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if ((size_t) (end - kind) == strlen(keys[i].kind) &&
                    strncmp(kind, keys[i].kind, (size_t) (end - kind)) == 0)
                        offer_next(c, keys[i].key);
        offer_next(c, "readOnly=true");
}

/* --- The kinds ----------------------------------------------------------------------------------------- */

static const struct Kind {
        const char *name;
        void (*complete)(const Completion *c, const char *argument);
        bool store; /* uses the store */
} kinds[] = {
                {"app", complete_apps, true},
                {"capability", complete_capabilities, false},
                {"declared", complete_declared, false},
                {"image", complete_images, true},
                {"isolator", complete_isolators, false},
                {"named-volume", complete_named_volumes, true},
                {"network", complete_networks, false},
                {"pod", complete_pods, true},
                {"signal", complete_signals, false},
                {"volume", complete_volume, false},
};

/* --dir= and --config-dir= of the command line that is completed. */
static void take_directories(Context *c, char **words)
{
        const struct {
                const char *option;
                const char **target;
        } options[] = {{"--dir", &c->dir}, {"--config-dir", &c->config_dirs[0]}};

        for (char **w = words; *w; w++)
                for (size_t i = 0; i < ELEMENTSOF(options); i++) {
                        const char *rest = startswith(*w, options[i].option);
                        if (rest && *rest == '=')
                                *options[i].target = rest + 1;
                        else if (rest && !*rest && w[1]) /* bash treats "=" as a separate word */
                                *options[i].target = streq(w[1], "=") && w[2] ? w[2] : w[1];
                }
}

int context_complete(Context *c, const char *kind, const char *current, char **words)
{
        const Completion completion = {.context = c, .current = current, .words = words};
        size_t n = strcspn(kind, ":");

        log_set_max_level(LOG_LEVEL_ERROR);
        take_directories(c, words);
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                if (strlen(kinds[i].name) != n || strncmp(kinds[i].name, kind, n) != 0)
                        continue;
                if (kinds[i].store && context_open_store_if_there(c) <= 0) {
                        error_done(&c->error);
                        return 0;
                }
                kinds[i].complete(&completion, kind[n] ? kind + n + 1 : "");
        }
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn cp: copies files between the host and an app. */

#include "stage0/verbs/archive-options.h"
#include "stage0/verbs/pod-words.h"

typedef struct Arguments {
        CopyOptions copy;
} Arguments;

/* A pod, or one of its apps, given on the command line. */
typedef struct Root {
        Pod *pod;
        AppRoot root;
} Root;

/* All sides, targets last. */
typedef struct Sides {
        CopySide *sides;
        Root *roots;
        size_t n, n_roots;
        bool stream; /* one side is "-" */
} Sides;

static const Option options[] = {
                {"Options", "archive", 'a', NULL, false,
                 "Also keep owners, as numbers of the pod's users, set-ID bits, capabilities and ACLs", NULL,
                 option_true, offsetof(Arguments, copy.archive)},
                {NULL, "follow-link", 'L', NULL, false,
                 "If the named path is a symbolic link, copy its target", NULL, option_true,
                 offsetof(Arguments, copy.follow)},
                OPTION_END,
};

/* --- Words --------------------------------------------------------------------------------------------- */

/* Whether WORD is POD:…; a path of the host with a colon needs a slash before that. */
static bool is_remote(const char *word)
{
        const char *colon = strchr(word, ':');

        return colon && colon > word && word[0] != '.' && !memchr(word, '/', (size_t) (colon - word));
}

static void sides_done(Sides *s)
{
        for (size_t i = 0; i < s->n_roots; i++)
                app_root_done(&s->roots[i].root);
        /* Several roots may belong to one pod, which is owned by the first of them. */
        for (size_t i = 0; i < s->n_roots; i++) {
                for (size_t k = i + 1; k < s->n_roots; k++)
                        if (s->roots[k].pod == s->roots[i].pod)
                                s->roots[k].pod = NULL;
                pod_free(s->roots[i].pod);
        }
        free(s->sides);
        free(s->roots);
}

/* Locking a pod twice would be a deadlock. */
static int find_pod(Context *c, Sides *s, const char *name, Pod **ret)
{
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = context_find_pod(c, name, &p);
        if (r < 0)
                return r;
        for (size_t i = 0; i < s->n_roots; i++)
                if (streq(s->roots[i].pod->uuid, p->uuid)) {
                        *ret = s->roots[i].pod;
                        return 0;
                }
        *ret = TAKE_PTR(p);
        return 0;
}

/* Other verbs have an option for this; here the app is part of the argument. */
static int say_how_to_name_app(Context *c, const Pod *p, int r)
{
        _cleanup_free_ char *apps = c->error.hint ? strdup(c->error.hint) : NULL;

        error_done(&c->error);
        r = error_set(&c->error, r, "Pod %s has several apps: specify one", pod_display_name(p));
        return error_hint(&c->error, r, "Give it after the pod, as POD:APP:PATH. %s", apps ?: "");
}

static int open_root(Context *c, Sides *s, const char *pod, const char *app, AppRootView view, AppRoot **ret)
{
        Root x = {.root = APP_ROOT_NULL};
        const PodApp *found = NULL;

        int r = find_pod(c, s, pod, &x.pod);
        if (r < 0)
                return r;
        r = pod_find_app(x.pod, app, &found, &c->error);
        if (r == -ENOTUNIQ)
                r = say_how_to_name_app(c, x.pod, r);
        for (size_t i = 0; r >= 0 && i < s->n_roots; i++)
                if (s->roots[i].pod == x.pod && s->roots[i].root.app == found) {
                        *ret = &s->roots[i].root;
                        return 0;
                }
        if (r >= 0)
                r = app_root_open(x.pod, app, view, &x.root, &c->error);
        s->roots[s->n_roots++] = x; /* also to be freed */
        *ret = &s->roots[s->n_roots - 1].root;
        return r;
}

/* Whether the first N characters of REST name an app. With a slash they do if there is such a nested app; else they are of a relative
 * path with a colon. */
static int names_app(Context *c, const char *pod, const char *rest, size_t n)
{
        _cleanup_free_ char *name = strndup(rest, n);
        _cleanup_(pod_freep) Pod *p = NULL;

        if (!name)
                return error_oom(&c->error);
        if (!strchr(name, '/'))
                return 1;
        int r = name[0] == '/' ? 0 : context_find_pod(c, pod, &p);
        return r < 0 ? r : p && p->manifest && pod_manifest_find_app(p->manifest, name);
}

/* POD:[APP:]PATH, where a relative PATH is relative to the app's root. */
static int parse_remote(Context *c, Sides *s, const char *word, AppRootView view, CopySide *ret)
{
        const char *rest = strchr(word, ':') + 1, *colon = strchr(rest, ':');
        _cleanup_free_ char *pod = strndup(word, (size_t) (rest - 1 - word)), *app = NULL;

        if (!pod)
                return error_oom(&c->error);
        int r = colon && colon > rest ? names_app(c, pod, rest, (size_t) (colon - rest)) : 0;
        if (r < 0)
                return r;
        if (r > 0) {
                app = strndup(rest, (size_t) (colon - rest));
                rest = colon + 1;
                if (!app)
                        return error_oom(&c->error);
        }
        if (!*rest)
                return context_usage(c, "'%s' names no file: write %s/ for the root of the app", word, word);
        ret->path = rest;
        return open_root(c, s, pod, app, view, &ret->root);
}

static int parse_side(Context *c, Sides *s, const char *word, AppRootView view, CopySide *ret)
{
        if (is_remote(word))
                return parse_remote(c, s, word, view, ret);
        if (!*word)
                return context_usage(c, "A name of a file is empty");
        *ret = (CopySide){.path = word};
        return 0;
}

/* Exactly one side has to be an app's; an archive cannot be combined with other files. */
static int check_words(Context *c, const Words *words, Sides *s)
{
        size_t n_remote = 0, n_streams = 0;
        bool to = is_remote(words->list[words->n - 1]);

        for (size_t i = 0; i + 1 < words->n; i++) {
                n_remote += is_remote(words->list[i]);
                n_streams += streq(words->list[i], "-");
        }
        if (to ? n_remote > 0 : n_remote + 1 != words->n)
                return context_usage(
                                c,
                                to || n_remote > 0
                                                ? "Files are copied between the host and an app: either all "
                                                  "sources or the target must be POD:PATH"
                                                : "'acnspawn cp' needs a pod: POD:PATH, or POD:APP:PATH");
        n_streams += !to && streq(words->list[words->n - 1], "-");
        if (n_streams > 0 && words->n > 2)
                return context_usage(c, "'-' cannot be combined with other files");
        s->stream = n_streams > 0;
        return 0;
}

static int parse(Context *c, const Words *words, Sides *s)
{
        int r = check_words(c, words, s);

        if (r < 0)
                return r;
        s->sides = calloc(words->n, sizeof(CopySide));
        s->roots = calloc(words->n, sizeof(Root));
        if (!s->sides || !s->roots)
                return error_oom(&c->error);
        for (size_t i = 0; r >= 0 && i < words->n; i++) {
                AppRootView view = i + 1 == words->n ? APP_ROOT_WRITE : APP_ROOT_AS_SEEN;
                r = parse_side(c, s, words->list[i], view, &s->sides[s->n++]);
        }
        return r;
}

/* --- Copying ------------------------------------------------------------------------------------------- */

static void show_note(const char *path, const char *why, void *userdata)
{
        log_warning("'%s': %s", path, why);
}

static int copy(Context *c, const Sides *s, const CopyOptions *o)
{
        const CopySide *target = &s->sides[s->n - 1];

        if (!s->stream)
                return files_copy(s->sides, s->n - 1, target, o, &c->error);
        if (target->root)
                return files_unpack(c->store, STDIN_FILENO, target, o, &c->error);
        if (isatty(STDOUT_FILENO)) {
                int r = error_set(&c->error, -ENOTSUP, "An archive is not written to a terminal");
                return error_hint(&c->error, r, "Redirect it: acnspawn cp POD:PATH - >FILE.tar");
        }
        return files_pack(&s->sides[0], o, STDOUT_FILENO, &c->error);
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {.min = 2, .max = SIZE_MAX, .what = "sources and a target"};
        Arguments a = {.copy.notes.note = show_note};
        _cleanup_(sides_done) Sides s = {};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = context_open_existing_store_as_root(c);
        if (r >= 0)
                r = parse(c, &words, &s);
        if (r < 0)
                return r;
        (void) interrupt_catch(c->operation);
        a.copy.operation = c->operation;
        return copy(c, &s, &a.copy);
}

const Verb verb_cp = {
                .name = "cp",
                .page = "acnspawn-cp",
                .synopsis = "[OPTIONS…] POD:[APP:]PATH… TARGET\n[OPTIONS…] SOURCE… POD:[APP:]PATH",
                .brief = "SOURCE… TARGET",
                .summary = "Copy files into an app or out of it",
                .text = "Directories are copied with their content: into the target if that is an existing "
                        "directory, else to that name; DIRECTORY/. stands for the content alone. '-' is a "
                        "tar archive on standard input or output. The pod may be prepared, running, or have "
                        "ended. While the app runs, its volumes are part of its root.",
                .words = "pod",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};

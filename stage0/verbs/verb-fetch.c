/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* acnspawn fetch: brings images into the store and prints their IDs, one per line, in the order given.
 *
 * Several are fetched in parallel, by a few threads that share one fetcher. Each keeps its result; results
 * and errors are shown in the order of the command line when all have ended.
 */

#include "prepare/oci/oci.h"
#include "stage0/context/fetching.h"
#include "stage0/verbs/image-json.h"

#define THREADS_MAX 4U

typedef struct Arguments {
        FetchOptions fetch;
        bool all;
} Arguments;

static int option_update(const Option *o, const char *value, void *target, Error *e)
{
        *(PullPolicy *) target = PULL_UPDATE;
        return 0;
}

#define FETCH(member) (offsetof(Arguments, fetch) + offsetof(FetchOptions, member))

static const Option options[] = {
                OPTIONS_FETCH("Options", offsetof(Arguments, fetch)),
                {NULL, "update", 'u', NULL, false, "Same as --pull-policy=update", NULL, option_update,
                 FETCH(policy)},
                {NULL, "signature", 0, "FILE", false,
                 "Verify the image with the detached signature in FILE instead of the one beside the image",
                 "file", option_word, FETCH(signature)},
                {NULL, "no-dependencies", 0, NULL, false, "Do not fetch the images that an image depends on",
                 NULL, option_true, FETCH(no_dependencies)},
                {NULL, "all", 0, NULL, false,
                 "Fetch all images of docker-archive:FILE, which 'podman save' or 'docker save' has written",
                 NULL, option_true, offsetof(Arguments, all)},
                OPTION_END,
};

/* --- Fetching in parallel ------------------------------------------------------------------------------ */

typedef struct Job {
        const char *reference;
        Image *image;
        int result;
        Error error;
} Job;

typedef struct Jobs {
        const Context *context;
        Fetcher *fetcher;
        Job *items;
        size_t n, next;
} Jobs;

static void jobs_done(Jobs *j)
{
        for (size_t i = 0; j->items && i < j->n; i++) {
                image_free(j->items[i].image);
                error_done(&j->items[i].error);
        }
        free(j->items);
}

static void *work(void *userdata)
{
        Jobs *j = userdata;
        size_t i;

        while ((i = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->n) {
                Job *job = &j->items[i];
                job->result = operation_check(j->context->operation, &job->error);
                if (job->result >= 0)
                        job->result = fetcher_fetch(j->fetcher, job->reference, &job->image, &job->error);
        }
        return NULL;
}

/* If no threads can be started, the main thread does everything. */
static void work_in_threads(Jobs *j)
{
        pthread_t threads[THREADS_MAX];
        size_t wanted = j->n > 1 ? MIN(j->n, (size_t) THREADS_MAX) : 0;
        size_t n = threads_start(threads, wanted, work, j, NULL);

        if (n == 0)
                (void) work(j);
        threads_join(threads, n);
}

/* --- Results ------------------------------------------------------------------------------------------- */

static const TableColumn columns[] = {
                {"REFERENCE", "reference", false, 0},
                {"ID", "id", false, 0},
                {"NAME", "name", false, 0},
                {"VERSION", "version", false, 0},
                {"SIZE", "size", true, 0},
                {"SIGNER", "signer", false, 0},
                {"ERROR", "error", false, 0},
};

static void add_signer(Table *t, const Image *i)
{
        json_object *o;

        if (!i || signer_to_json(&i->info, &o) < 0 || !o)
                table_add_none(t);
        else
                table_add_json(t, o, NULL);
}

static int show_json(Context *c, const Jobs *j)
{
        _cleanup_(table_freep) Table *t = table_new(columns, ELEMENTSOF(columns));

        for (size_t i = 0; t && i < j->n; i++) {
                const Job *job = &j->items[i];
                const Image *x = job->image;

                table_add_text(t, job->reference);
                table_add_text(t, x ? x->id : NULL);
                table_add_text(t, x ? x->manifest->name : NULL);
                table_add_text(t, x ? pair_list_get(&x->manifest->labels, "version") : NULL);
                if (x)
                        table_add_size(t, x->size);
                else
                        table_add_none(t);
                add_signer(t, x);
                table_add_text(t, x ? NULL : job->error.message);
        }
        return t ? context_show_table(c, t, NULL) : error_oom(&c->error);
}

static int show(Context *c, Jobs *j)
{
        int status = EXIT_SUCCESS;

        for (size_t i = 0; i < j->n; i++) {
                Job *job = &j->items[i];
                if (context_was_interrupted(c, job->result))
                        return job->result; /* no message needed after an interrupt */
                if (job->result < 0) {
                        error_print(&job->error, job->result);
                        status = EXIT_STATUS_FAILURE;
                } else if (c->json == JSON_OFF)
                        printf("%s\n", job->image->id);
        }
        if (c->json != JSON_OFF) {
                int r = show_json(c, j);
                return r < 0 ? r : status;
        }
        return status;
}

/* --all: the images of each archive, by their numbers. */
static int list_archives(Context *c, const Words *archives, char ***ret)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < archives->n; i++) {
                const char *file = startswith(archives->list[i], "docker-archive:") ?: archives->list[i];
                size_t n = 0;

                r = docker_archive_count(c->store, file, &n, &c->error);
                if (r == -ENOENT)
                        r = error_hint(&c->error, r,
                                       "--all takes docker-archive:FILE, or FILE alone, without the name of an image.");
                for (size_t k = 0; r >= 0 && k < n; k++)
                        if (strv_extendf(ret, "docker-archive:%s:@%zu", file, k) < 0)
                                r = error_oom(&c->error);
        }
        return r;
}

static int fetch_all(Context *c, Arguments *a, char *const *references, size_t n)
{
        _cleanup_(fetcher_freep) Fetcher *fetcher = NULL;
        _cleanup_(jobs_done) Jobs j = {.context = c, .n = n, .items = calloc(n + 1, sizeof(Job))};

        if (!j.items)
                return error_oom(&c->error);
        int r = context_show_fetching(c, &a->fetch);
        if (r < 0)
                return r;
        r = fetcher_new(c->store, &a->fetch, &fetcher, &c->error);
        if (r < 0) {
                context_end_fetching(c);
                return r;
        }
        for (size_t i = 0; i < j.n; i++)
                j.items[i].reference = references[i];
        j.fetcher = fetcher;
        work_in_threads(&j);
        progress_clear(c->progress);
        r = show(c, &j);
        context_end_fetching(c);
        return r;
}

/* Checks options that cannot be used with several images. */
static int check(Context *c, const Arguments *a, const Words *words)
{
        size_t n_input = 0;

        for (size_t i = 0; i < words->n; i++)
                n_input += streq(words->list[i], "-");
        if (n_input > 1)
                return context_usage(c, "Standard input can be read only once");
        if (a->all && n_input > 0)
                return context_usage(c,
                                     "--all reads the archive several times: it cannot be standard input");
        if (a->fetch.signature && (words->n > 1 || a->all))
                return context_usage(
                                c,
                                "--signature= is for one image: it cannot be given together with several");
        return 0;
}

static int run(Context *c, int argc, char **argv)
{
        _cleanup_words_ Words words = {
                        .min = 1, .max = SIZE_MAX, .what = "an image: its name, a URL, a file, or '-'"};
        Arguments a = {};

        int r = context_parse(c, options, &a, argc, argv, &words);
        if (r <= 0)
                return r;
        r = check(c, &a, &words);
        if (r >= 0)
                r = context_open_store(c);
        if (r < 0)
                return r;
        (void) interrupt_catch(c->operation);
        if (!a.all)
                return fetch_all(c, &a, (char *const *) words.list, words.n);
        _cleanup_strv_free_ char **references = NULL;
        r = list_archives(c, &words, &references);
        return r < 0 ? r : fetch_all(c, &a, references, strv_length(references));
}

const Verb verb_fetch = {
                .group = "Image Commands",
                .name = "fetch",
                .page = "acnspawn-fetch",
                .synopsis = "[OPTIONS…] IMAGE…",
                .brief = "IMAGE…",
                .summary = "Fetch images into the store",
                .text = "Fetches images, checks them, unpacks them into the store, and prints the ID of "
                        "each. An image is NAME[:VERSION][,LABEL=VALUE…], the URL or path of an App "
                        "Container image archive, '-' for standard input, docker://REFERENCE, "
                        "oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE[:TAG]. See "
                        "acnspawn-images(7).",
                .words = "file",
                .options = (const Option *const[]){options, NULL},
                .run = run,
};

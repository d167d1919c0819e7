/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Common to verbs that take pods: finding them, iterating over several, and naming them. */

#include "stage0/verbs/pod-words.h"
#include "stage0/pods/pods.h"

Color pod_state_color(PodState s, int exit_status)
{
        static const Color colors[_POD_STATE_MAX] = {
                        [POD_EMBRYO] = COLOR_GREY,         [POD_PREPARING] = COLOR_YELLOW,
                        [POD_ABORTED_PREPARE] = COLOR_RED, [POD_PREPARED] = COLOR_NONE,
                        [POD_RUNNING] = COLOR_GREEN,       [POD_EXITED] = COLOR_GREY,
                        [POD_GARBAGE] = COLOR_GREY,
        };

        return s == POD_EXITED && pod_end_is_failure(exit_status) ? COLOR_RED : colors[s];
}

int context_find_pod(Context *c, const char *reference, Pod **ret)
{
        return pod_find(c->store, reference, ret, &c->error);
}

int context_parse_pod(Context *c, const Option *options, void *data, int argc, char **argv, Words *words,
                      Pod **ret)
{
        int r = context_parse(c, options, data, argc, argv, words);

        if (r <= 0)
                return r;
        r = context_open_existing_store(c);
        if (r >= 0)
                r = context_find_pod(c, words->list[0], ret);
        return r < 0 ? r : 1;
}

int context_show_pod(Context *c, const Pod *p)
{
        if (c->json == JSON_OFF) {
                printf("%s\n", p->uuid);
                return context_flush(c);
        }
        _cleanup_json_ json_object *o = json_object_new_object();
        if (json_member_add_text(o, "uuid", p->uuid) < 0 ||
            json_member_add_text(o, "name", p->config.name) < 0)
                return error_oom(&c->error);
        int r = context_show_json(c, o);
        return r < 0 ? r : context_flush(c);
}

typedef struct PodFunction {
        int (*function)(Context *c, Pod *p, void *userdata);
        void *userdata;
} PodFunction;

static int call_with_pod(Context *c, const char *word, void *userdata)
{
        _cleanup_(pod_freep) Pod *p = NULL;
        const PodFunction *f = userdata;

        int r = context_find_pod(c, word, &p);
        return r < 0 ? r : f->function(c, p, f->userdata);
}

int context_for_each_pod(Context *c, const Words *words, int (*function)(Context *c, Pod *p, void *userdata),
                         void *userdata)
{
        return context_for_each(c, words, call_with_pod, &(PodFunction){function, userdata});
}

size_t pod_short_uuid_length(Pod *const *pods, size_t n)
{
        size_t length = 8;

        for (size_t i = 0; i < n; i++)
                for (size_t j = i + 1; j < n; j++) {
                        size_t k = 0;

                        while (pods[i]->uuid[k] && pods[i]->uuid[k] == pods[j]->uuid[k])
                                k++;
                        length = MAX(length, k + 1);
                }
        return length;
}

int option_lines(const Option *o, const char *value, void *target, Error *e)
{
        if (streq(value, "all")) {
                *(uint64_t *) target = UINT64_MAX;
                return 0;
        }
        return option_u64(o, value, target, e);
}

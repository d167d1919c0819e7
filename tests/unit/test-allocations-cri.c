/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in what acnspawn-cri reads: files of the Container Device Interface, and requests. See
 * allocations.h. */

#include "cri/cdi/cdi.h"
#include "cri/cri-internal.h"
#include "tests/unit/allocations.h"

/* --- Files of devices ------------------------------------------------------------------------------------ */

static void add_edits(Text *t, const CdiEdits *x)
{
        for (size_t i = 0; i < x->environment.n; i++)
                text_addf(t, "%s=%s ", x->environment.items[i].name, x->environment.items[i].value);
        for (size_t i = 0; i < x->n_nodes; i++)
                text_addf(t, "%s from %s ", x->nodes[i].path, x->nodes[i].host_path);
        for (size_t i = 0; i < x->n_mounts; i++)
                text_addf(t, "%s on %s ", x->mounts[i].source, x->mounts[i].target);
        text_addf(t, "%zu %zu %s\n", x->n_gids, x->hooks.n, x->unsupported ?: "");
}

static int parse(const char *text, bool yaml, Text *result, Error *e)
{
        _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;

        int r = cdi_spec_parse(text, strlen(text), yaml, &s, e);
        if (r < 0)
                return r;
        add_edits(result, &s->edits);
        for (size_t i = 0; i < s->n_devices; i++) {
                text_addf(result, "%s: ", s->devices[i].name);
                add_edits(result, &s->devices[i].edits);
        }
        return 0;
}

static int parse_json(void *userdata, Text *result, Error *e)
{
        return parse(userdata, false, result, e);
}

static int parse_yaml(void *userdata, Text *result, Error *e)
{
        return parse(userdata, true, result, e);
}

TEST(devices_in_json)
{
        static const char text[] =
                        "{\"cdiVersion\":\"0.6.0\",\"kind\":\"example.com/net\",\"containerEdits\":{\"env\":[\"ALL=1\"]},"
                        "\"devices\":[{\"name\":\"eth0\",\"containerEdits\":{\"env\":[\"NET=eth0\"],\"deviceNodes\":"
                        "[{\"path\":\"/dev/net0\",\"hostPath\":\"/dev/zero\",\"type\":\"c\",\"major\":1,\"minor\":5,"
                        "\"permissions\":\"rw\"}],\"mounts\":[{\"hostPath\":\"/usr/share\",\"containerPath\":\"/share\","
                        "\"options\":[\"ro\",\"bind\"]}]}},{\"name\":\"hooked\",\"containerEdits\":{\"hooks\":"
                        "[{\"hookName\":\"createContainer\",\"path\":\"/bin/true\"}],\"additionalGids\":[5]}}]}";

        for_each_failing_allocation(parse_json, (void *) text);
}

TEST(devices_in_yaml)
{
        static const char text[] =
                        "---\ncdiVersion: 0.5.0\nkind: example.com/net\ncontainerEdits:\n  env: [ALL=1]\ndevices:\n"
                        "- name: \"0\"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/n0\n"
                        "      permissions: rw\n    mounts:\n"
                        "    - {hostPath: /a, containerPath: '/b', options: [ro, bind]}\n"
                        "    hooks:\n    - {hookName: createContainer, path: /usr/bin/x}\n";

        for_each_failing_allocation(parse_yaml, (void *) text);
}

TEST(devices_with_mistakes)
{
        static const char json[] =
                        "{\"kind\":\"a/b\",\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"deviceNodes\":"
                        "[{\"path\":\"/dev/../etc\"}]}}]}",
                          yaml[] = "kind: &k a/b\ndevices: *k\n";

        for_each_failing_allocation_of_invalid(parse_json, (void *) json);
        for_each_failing_allocation_of_invalid(parse_yaml, (void *) yaml);
}

/* --- Requests -------------------------------------------------------------------------------------------- */

typedef struct Packed {
        uint8_t data[1024];
        size_t size;
} Packed;

static int unpack(void *userdata, Text *result, Error *e)
{
        _cleanup_cri_memory_ CriMemory m = {.max = 1U << 20};
        ProtobufCMessage *message = NULL;
        const Packed *p = userdata;

        int r = cri_unpack(&m, &runtime__v1__pull_image_request__descriptor, p->data, p->size, &message);
        if (r < 0)
                return without_message(r, e);
        const Runtime__V1__PullImageRequest *q = (const Runtime__V1__PullImageRequest *) message;
        text_addf(result, "%s %s %s %s", q->image->image, q->image->annotations[0]->key, q->auth->username,
                  q->auth->password);
        return 0;
}

TEST(request)
{
        Runtime__V1__ImageSpec__AnnotationsEntry
                        annotation = RUNTIME__V1__IMAGE_SPEC__ANNOTATIONS_ENTRY__INIT,
                        *annotations[] = {&annotation};
        Runtime__V1__ImageSpec image = RUNTIME__V1__IMAGE_SPEC__INIT;
        Runtime__V1__AuthConfig auth = RUNTIME__V1__AUTH_CONFIG__INIT;
        Runtime__V1__PullImageRequest q = RUNTIME__V1__PULL_IMAGE_REQUEST__INIT;
        Packed p;

        annotation.key = (char *) "a";
        annotation.value = (char *) "b";
        image.image = (char *) "example.com/app:1";
        image.annotations = annotations;
        image.n_annotations = 1;
        auth.username = (char *) "user";
        auth.password = (char *) "secret";
        q.image = &image;
        q.auth = &auth;
        p.size = runtime__v1__pull_image_request__get_packed_size(&q);
        ASSERT_LE(p.size, sizeof(p.data));
        (void) runtime__v1__pull_image_request__pack(&q, p.data);
        for_each_failing_allocation(unpack, &p);
}

int main(void)
{
        RUN(devices_in_json);
        RUN(devices_in_yaml);
        RUN(devices_with_mistakes);
        RUN(request);
        return TEST_END();
}

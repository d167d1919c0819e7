/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The CRI: its table of calls against the schema, and requests within their bounds. */

#include "cri/cri-internal.h"
#include "tests/unit/test.h"

#define DEPTH_MAX 16U

/* --- The schema ---------------------------------------------------------------------------------------- */

static unsigned depth_of(const ProtobufCMessageDescriptor *d, unsigned level)
{
        unsigned depth = 1;

        if (level > DEPTH_MAX)
                return level;
        for (unsigned i = 0; i < d->n_fields; i++)
                if (d->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
                        depth = MAX(depth, 1 + depth_of(d->fields[i].descriptor, level + 1));
        return depth;
}

/* The depth of a request is bounded by its type alone: no message contains itself. */
TEST(requests_have_a_depth)
{
        const ProtobufCServiceDescriptor *services[] = {&runtime__v1__runtime_service__descriptor,
                                                        &runtime__v1__image_service__descriptor};

        for (size_t s = 0; s < ELEMENTSOF(services); s++)
                for (unsigned i = 0; i < services[s]->n_methods; i++)
                        ASSERT_TRUE(depth_of(services[s]->methods[i].input, 0) <= DEPTH_MAX);
}

static const ProtobufCServiceDescriptor *service_of(const char *path)
{
        return strstr(path, ".ImageService/") ? &runtime__v1__image_service__descriptor
                                              : &runtime__v1__runtime_service__descriptor;
}

TEST(the_table_is_that_of_the_schema)
{
        for (size_t i = 0; i < n_cri_calls; i++) {
                const CriCall *c = &cri_calls[i];
                const ProtobufCServiceDescriptor *service = service_of(c->path);
                const char *name = strrchr(c->path, '/') + 1;
                const ProtobufCMethodDescriptor *m =
                                protobuf_c_service_descriptor_get_method_by_name(service, name);
                char path[256];

                snprintf(path, sizeof(path), "/%s/%s", service->name, name);
                ASSERT_STREQ(c->path, path);
                ASSERT_NOT_NULL(m);
                ASSERT_TRUE(m->input == c->request);
                ASSERT_TRUE(m->output == c->reply);
                for (size_t k = 0; k < i; k++)
                        ASSERT_FALSE(streq(c->path, cri_calls[k].path));
        }
}

/* --- Requests ------------------------------------------------------------------------------------------ */

static int unpack(const ProtobufCMessageDescriptor *d, size_t max, const void *data, size_t n)
{
        _cleanup_cri_memory_ CriMemory m = {.max = max};
        ProtobufCMessage *message = NULL;

        return cri_unpack(&m, d, data, n, &message);
}

TEST(requests_that_are_not_valid)
{
        const ProtobufCMessageDescriptor *version = &runtime__v1__version_request__descriptor;

        ASSERT_EQ(unpack(version, 0, "", 0), 0);
        ASSERT_EQ(unpack(version, 0, "\x0a\x02v1", 4), 0);
        ASSERT_EQ(unpack(version, 0, "\x0a\x04v1", 4), -EBADMSG); /* cut off */
        ASSERT_EQ(unpack(version, 0, "\x0a\x02\xc3(", 4), -EBADMSG); /* not UTF-8 */
        ASSERT_EQ(unpack(version, 0, "\x1a\x02v1", 4), 0);           /* an unknown field */
        ASSERT_EQ(unpack(version, 0, "\x80\x00\x23", 3), -EBADMSG); /* the field 0, in two bytes */
        /* The image of a pull is a message with text. */
        ASSERT_EQ(unpack(&runtime__v1__pull_image_request__descriptor, 0, "\x0a\x03\x0a\x01\xff", 5), -EBADMSG);
}

/* Two bytes on the wire are a message of a hundred in memory. */
TEST(memory_is_bounded)
{
        const ProtobufCMessageDescriptor *d = &runtime__v1__container_config__descriptor;
        char mounts[2000];

        for (size_t i = 0; i < sizeof(mounts); i += 2)
                memcpy(mounts + i, "\x3a", 2); /* field 7, no bytes */
        ASSERT_EQ(unpack(d, 0, mounts, sizeof(mounts)), 0);
        ASSERT_EQ(unpack(d, 65536, mounts, sizeof(mounts)), -ENOMEM);
        ASSERT_EQ(unpack(d, 1U << 20, mounts, sizeof(mounts)), 0);
}

TEST(maps)
{
        _cleanup_cri_memory_ CriMemory m = {};
        Runtime__V1__StatusResponse *p = cri_message(&m, &runtime__v1__status_response__descriptor);
        Runtime__V1__PodSandboxConfig *c = cri_message(&m, &runtime__v1__pod_sandbox_config__descriptor);

        ASSERT_EQ(cri_map_add(&m, &p->n_info, &p->info, &runtime__v1__status_response__info_entry__descriptor, "a", "1"), 0);
        ASSERT_EQ(cri_map_add(&m, &p->n_info, &p->info, &runtime__v1__status_response__info_entry__descriptor, "b", "2"), 0);
        ASSERT_EQ(p->n_info, 2);
        ASSERT_STREQ(p->info[0]->key, "a");
        ASSERT_STREQ(p->info[1]->value, "2");
        ASSERT_EQ(cri_map_add(&m, &c->n_labels, &c->labels, &runtime__v1__pod_sandbox_config__labels_entry__descriptor, "x", ""), 0);
        ASSERT_STREQ(c->labels[0]->key, "x");
        ASSERT_TRUE(protobuf_c_message_check(&c->base));
}

int main(void)
{
        RUN(requests_have_a_depth);
        RUN(the_table_is_that_of_the_schema);
        RUN(requests_that_are_not_valid);
        RUN(memory_is_bounded);
        RUN(maps);
        return TEST_END();
}

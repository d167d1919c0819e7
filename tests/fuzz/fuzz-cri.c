/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests of the CRI: the first byte chooses a method of the schema, the rest is the request. What is accepted can be packed
 * again, and that is accepted, too. */

#include "cri/cri-internal.h"

#define MEMORY_MAX (8U * 1024U * 1024U)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *choose(unsigned i)
{
        const ProtobufCServiceDescriptor *runtime = &runtime__v1__runtime_service__descriptor,
                                         *image = &runtime__v1__image_service__descriptor;

        i %= runtime->n_methods + image->n_methods;
        return i < runtime->n_methods ? runtime->methods[i].input : image->methods[i - runtime->n_methods].input;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_cri_memory_ CriMemory m = {.max = MEMORY_MAX}, again = {};
        ProtobufCMessage *message = NULL, *copy = NULL;

        if (size == 0)
                return 0;
        const ProtobufCMessageDescriptor *d = choose(data[0]);
        if (cri_unpack(&m, d, data + 1, size - 1, &message) < 0)
                return 0;
        size_t n = protobuf_c_message_get_packed_size(message);
        _cleanup_free_ uint8_t *packed = malloc(MAX(n, 1U));
        if (!packed || protobuf_c_message_pack(message, packed) != n || cri_unpack(&again, d, packed, n, &copy) < 0 ||
            protobuf_c_message_get_packed_size(copy) != n)
                abort();
        return 0;
}

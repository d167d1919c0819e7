/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The calls of the CRI that are served: a line for each, in the order of the schema. */

#include "cri/cri-internal.h"

#define RUNTIME "/runtime.v1.RuntimeService/"
#define IMAGE "/runtime.v1.ImageService/"
#define TYPES(name) &runtime__v1__##name##_request__descriptor, &runtime__v1__##name##_response__descriptor

const CriCall cri_calls[] = {
                {RUNTIME "Version", TYPES(version), cri_version, 0},
                {RUNTIME "UpdateRuntimeConfig", TYPES(update_runtime_config), cri_update_runtime_config, 0},
                {RUNTIME "Status", TYPES(status), cri_runtime_status, 0},
                {RUNTIME "RuntimeConfig", TYPES(runtime_config), cri_runtime_config, 0},
                {IMAGE "ListImages", TYPES(list_images), cri_list_images, 0},
                {IMAGE "StreamImages", TYPES(stream_images), cri_stream_images, CRI_STREAM},
                {IMAGE "ImageStatus", TYPES(image_status), cri_image_status, 0},
                {IMAGE "PullImage", TYPES(pull_image), cri_pull_image, CRI_WORKER},
                {IMAGE "RemoveImage", TYPES(remove_image), cri_remove_image, CRI_WORKER},
};

const size_t n_cri_calls = ELEMENTSOF(cri_calls);

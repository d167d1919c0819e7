/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The calls of the CRI that are served: a line for each, in the order of the schema. */

#include "cri/sandbox.h"

#define RUNTIME "/runtime.v1.RuntimeService/"
#define IMAGE "/runtime.v1.ImageService/"
#define TYPES(name) &runtime__v1__##name##_request__descriptor, &runtime__v1__##name##_response__descriptor

const CriCall cri_calls[] = {
                {RUNTIME "Version", TYPES(version), cri_version, 0},
                {RUNTIME "RunPodSandbox", TYPES(run_pod_sandbox), cri_run_pod_sandbox, CRI_WORKER},
                {RUNTIME "StopPodSandbox", TYPES(stop_pod_sandbox), cri_stop_pod_sandbox, CRI_WORKER},
                {RUNTIME "RemovePodSandbox", TYPES(remove_pod_sandbox), cri_remove_pod_sandbox, CRI_WORKER},
                {RUNTIME "PodSandboxStatus", TYPES(pod_sandbox_status), cri_pod_sandbox_status, CRI_WORKER},
                {RUNTIME "ListPodSandbox", TYPES(list_pod_sandbox), cri_list_pod_sandbox, 0},
                {RUNTIME "StreamPodSandboxes", TYPES(stream_pod_sandboxes), cri_stream_pod_sandboxes,
                 CRI_STREAM},
                {RUNTIME "CreateContainer", TYPES(create_container), cri_create_container, CRI_WORKER},
                {RUNTIME "StartContainer", TYPES(start_container), cri_start_container, CRI_WORKER},
                {RUNTIME "StopContainer", TYPES(stop_container), cri_stop_container, CRI_WORKER},
                {RUNTIME "RemoveContainer", TYPES(remove_container), cri_remove_container, CRI_WORKER},
                {RUNTIME "ListContainers", TYPES(list_containers), cri_list_containers, 0},
                {RUNTIME "StreamContainers", TYPES(stream_containers), cri_stream_containers, CRI_STREAM},
                {RUNTIME "ContainerStatus", TYPES(container_status), cri_container_status, CRI_WORKER},
                {RUNTIME "UpdateContainerResources", TYPES(update_container_resources),
                 cri_update_container_resources, CRI_WORKER},
                {RUNTIME "ReopenContainerLog", TYPES(reopen_container_log), cri_reopen_container_log,
                 CRI_WORKER},
                {RUNTIME "ExecSync", TYPES(exec_sync), cri_exec_sync, CRI_WORKER},
                {RUNTIME "Exec", TYPES(exec), cri_exec, 0},
                {RUNTIME "Attach", TYPES(attach), cri_attach, 0},
                {RUNTIME "PortForward", TYPES(port_forward), cri_port_forward, 0},
                {RUNTIME "ContainerStats", TYPES(container_stats), cri_container_stats,
                 CRI_WORKER | CRI_DISK},
                {RUNTIME "ListContainerStats", TYPES(list_container_stats), cri_list_container_stats,
                 CRI_WORKER | CRI_DISK | CRI_SAMPLED},
                {RUNTIME "StreamContainerStats", TYPES(stream_container_stats), cri_stream_container_stats,
                 CRI_WORKER | CRI_STREAM | CRI_DISK | CRI_SAMPLED},
                {RUNTIME "PodSandboxStats", TYPES(pod_sandbox_stats), cri_pod_sandbox_stats,
                 CRI_WORKER | CRI_DISK},
                {RUNTIME "ListPodSandboxStats", TYPES(list_pod_sandbox_stats), cri_list_pod_sandbox_stats,
                 CRI_WORKER | CRI_DISK | CRI_SAMPLED},
                {RUNTIME "StreamPodSandboxStats", TYPES(stream_pod_sandbox_stats),
                 cri_stream_pod_sandbox_stats, CRI_WORKER | CRI_STREAM | CRI_DISK | CRI_SAMPLED},
                {RUNTIME "UpdateRuntimeConfig", TYPES(update_runtime_config), cri_update_runtime_config, 0},
                {RUNTIME "Status", TYPES(status), cri_runtime_status, 0},
                {RUNTIME "GetContainerEvents", &runtime__v1__get_events_request__descriptor,
                 &runtime__v1__container_event_response__descriptor, NULL, CRI_STREAM | CRI_EVENTS},
                {RUNTIME "ListMetricDescriptors", TYPES(list_metric_descriptors),
                 cri_list_metric_descriptors, 0},
                {RUNTIME "ListPodSandboxMetrics", TYPES(list_pod_sandbox_metrics),
                 cri_list_pod_sandbox_metrics, CRI_WORKER | CRI_DISK},
                {RUNTIME "StreamPodSandboxMetrics", TYPES(stream_pod_sandbox_metrics),
                 cri_stream_pod_sandbox_metrics, CRI_WORKER | CRI_STREAM | CRI_DISK},
                {RUNTIME "RuntimeConfig", TYPES(runtime_config), cri_runtime_config, 0},
                {RUNTIME "UpdatePodSandboxResources", TYPES(update_pod_sandbox_resources),
                 cri_update_pod_sandbox_resources, CRI_WORKER},
                {IMAGE "ListImages", TYPES(list_images), cri_list_images, 0},
                {IMAGE "StreamImages", TYPES(stream_images), cri_stream_images, CRI_STREAM},
                {IMAGE "ImageStatus", TYPES(image_status), cri_image_status, 0},
                {IMAGE "PullImage", TYPES(pull_image), cri_pull_image, CRI_WORKER | CRI_IMAGES},
                {IMAGE "RemoveImage", TYPES(remove_image), cri_remove_image, CRI_WORKER | CRI_IMAGES},
                {IMAGE "ImageFsInfo", TYPES(image_fs_info), cri_image_fs_info, CRI_DISK},
};

const size_t n_cri_calls = ELEMENTSOF(cri_calls);

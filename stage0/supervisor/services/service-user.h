/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The user that the pod's services on the host run as: of metadata, and of apps that launch others. */

#include "prepare/prepare.h"

/* Pure. A user of the host, the same as group, that is no user of the pod, and no service of another pod has. */
uid_t pod_service_user(const PodConfig *c);

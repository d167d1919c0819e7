/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files that deal with isolators share among themselves. */

#include "stage1/stage1.h"

/* What becomes of I, if what it needs is there; DETAIL gets how, or why not. */
typedef IsolatorVerdict (*IsolatorVerdictFunction)(const Isolator *i, bool pod_scope, const HostFeatures *h,
                                                   Text *detail);

/* isolators-confine.c: what the launcher does to each process of an app. */
IsolatorVerdict capabilities_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);
IsolatorVerdict seccomp_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);
IsolatorVerdict no_new_privileges_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h,
                                          Text *detail);
IsolatorVerdict apparmor_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);
IsolatorVerdict selinux_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);

/* isolators-sysctl.c */
IsolatorVerdict sysctl_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);
int sysctl_check(const PodManifest *m, bool host_network, Error *e);

/* isolators-host.c. 1: a profile of this name is in the list that FILE is, 0: it is not. */
int apparmor_profile_listed(const char *file, const char *name);

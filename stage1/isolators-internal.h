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

/* isolators-sysctl.c */
IsolatorVerdict sysctl_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);
int sysctl_check(const PodManifest *m, bool host_network, Error *e);

/* isolators-label.c: labels of security modules. */
IsolatorVerdict apparmor_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);
IsolatorVerdict selinux_verdict(const Isolator *i, bool pod_scope, const HostFeatures *h, Text *detail);
void host_labels_detect(HostFeatures *h);
/* Refuses a label that an active module does not have; errors as of stage1_isolators_check(). */
int labels_check(const PodApp *app, const HostFeatures *h, Error *e);
/* DIR is where selinuxfs is mounted. */
SelinuxState selinux_state(const char *dir);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files that deal with isolators share among themselves. */

#include "stage1/stage1.h"

/* An isolator that is judged, and what its verdict depends on. */
typedef struct Judged {
        const Isolator *isolator;
        const IsolatorList *list; /* that it is one of */
        bool pod_scope;
        const HostFeatures *host;
} Judged;

/* What becomes of it, if what it needs is there; DETAIL gets how, or why not. */
typedef IsolatorVerdict (*IsolatorVerdictFunction)(const Judged *j, Text *detail);

/* isolators-confine.c: what the launcher does to each process of an app. */
IsolatorVerdict capabilities_verdict(const Judged *j, Text *detail);
IsolatorVerdict seccomp_verdict(const Judged *j, Text *detail);
IsolatorVerdict no_new_privileges_verdict(const Judged *j, Text *detail);

/* isolators-tasks.c: limits of processes and threads. */
/* The limit without an isolator, as one; NULL: L has one. */
const Isolator *tasks_default(const IsolatorList *l, bool pod_scope);
IsolatorVerdict tasks_verdict(const Judged *j, Text *detail);

/* isolators-sysctl.c */
IsolatorVerdict sysctl_verdict(const Judged *j, Text *detail);
/* How far a pod may set a kernel parameter. */
typedef enum ParameterScope {
        PARAMETER_HOST,     /* it is the host's */
        PARAMETER_OPERATOR, /* the pod has its own, but the operator alone may set it */
        PARAMETER_SAFE,     /* the same, and an image may have it granted */
} ParameterScope;
ParameterScope sysctl_scope(const char *name);
/* Whether the two names mean the same parameter. */
bool sysctl_same(const char *a, const char *b);
int sysctl_check(const PodManifest *m, bool host_network, Error *e);

/* isolators-label.c: labels of security modules. */
IsolatorVerdict apparmor_verdict(const Judged *j, Text *detail);
IsolatorVerdict selinux_verdict(const Judged *j, Text *detail);
void host_labels_detect(HostFeatures *h);
/* The profile that APP runs in if it has none of its own, as an isolator; NULL: it has one. */
const Isolator *apparmor_default(const App *app);
/* Refuses a label that an active module does not have; errors as of stage1_isolators_check(). */
int labels_check(const PodApp *app, const HostFeatures *h, Error *e);
/* DIR is where selinuxfs is mounted. */
SelinuxState selinux_state(const char *dir);

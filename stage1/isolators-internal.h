/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources that deal with isolators. */

#include "stage1/stage1.h"

/* An isolator, and what its verdict depends on. */
typedef struct VerdictInput {
        const Isolator *isolator;
        const IsolatorList *list; /* the list that contains it */
        bool pod_scope;
        const HostFeatures *host;
} VerdictInput;

/* The verdict if the features that it needs exist; DETAIL gets how it is enforced, or why it is not. */
typedef IsolatorVerdict (*IsolatorVerdictFunction)(const VerdictInput *j, Text *detail);

/* isolators-confine.c: what the launcher applies to each process of an app. */
IsolatorVerdict capabilities_verdict(const VerdictInput *j, Text *detail);
IsolatorVerdict seccomp_verdict(const VerdictInput *j, Text *detail);
IsolatorVerdict no_new_privileges_verdict(const VerdictInput *j, Text *detail);

/* isolators-tasks.c: limits of processes and threads. */
/* The default limit as an isolator; NULL: L has one of its own. */
const Isolator *tasks_default(const IsolatorList *l, bool pod_scope);
IsolatorVerdict tasks_verdict(const VerdictInput *j, Text *detail);

/* isolators-cgroup.c */
void cgroup_directives(const Isolator *i, Text *slice);
IsolatorVerdict cgroup_verdict(const VerdictInput *j, Text *detail);

/* isolators-sysctl.c */
IsolatorVerdict sysctl_verdict(const VerdictInput *j, Text *detail);
/* Which sources may set a kernel parameter of a pod. */
typedef enum ParameterScope {
        PARAMETER_HOST,     /* it is the host's: none */
        PARAMETER_OPERATOR, /* the pod has its own; only the operator may set it */
        PARAMETER_SAFE,     /* the pod has its own; an image may set it if that is granted */
} ParameterScope;
ParameterScope sysctl_scope(const char *name);
/* Whether the two names denote the same parameter. */
bool sysctl_same(const char *a, const char *b);
int sysctl_check(const PodManifest *m, SharedNamespaces shared, Error *e);

/* isolators-label.c: labels of security modules. */
IsolatorVerdict apparmor_verdict(const VerdictInput *j, Text *detail);
IsolatorVerdict selinux_verdict(const VerdictInput *j, Text *detail);
void host_labels_detect(HostFeatures *h);
/* The default profile of APP, as an isolator; NULL: it has a profile of its own. */
const Isolator *apparmor_default(const App *app);
/* Refuses a label that is unknown to an active module; errors as for stage1_isolators_check(). */
int labels_check(const PodApp *app, const HostFeatures *h, Error *e);
/* DIR is the mount point of selinuxfs. */
SelinuxState selinux_state(const char *dir);

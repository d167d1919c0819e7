/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Values of the options of prepare and run: handlers for values with a structure (pod-values.c, pod-volumes.c,
 * pod-isolators.c, pod-network.c), by the type of TARGET. Options that may be repeated add up; of values with a name
 * the last one counts. */

#include "stage0/context/context.h"
#include "stage0/control/control.h"

/* PairList: NAME=VALUE, or NAME for the variable as it is here. */
int option_environment(const Option *o, const char *value, void *target, Error *e);
/* PairList: a file of such lines, as systemd, and as podman and docker read it (pod-environment.c). */
int option_environment_file(const Option *o, const char *value, void *target, Error *e);
int option_env_file(const Option *o, const char *value, void *target, Error *e);
/* PairList: NAME=VALUE, the name of an annotation being an AC Identifier; of a pod it is no setting of apps. */
int option_pod_annotation(const Option *o, const char *value, void *target, Error *e);
int option_annotation(const Option *o, const char *value, void *target, Error *e);
/* The same of an app, among whose annotations are its settings. */
int option_app_annotation(const Option *o, const char *value, void *target, Error *e);
int option_setting(const Option *o, const char *value, void *target, Error *e); /* PairList: annotations */
int option_seccomp_profile(const Option *o, const char *value, void *target, Error *e);
int option_setting_add(const Option *o, const char *value, void *target,
                       Error *e); /* adds to earlier ones */
int option_interactive(const Option *o, const char *value, void *target, Error *e);
int option_tty(const Option *o, const char *value, void *target, Error *e);
int option_stdin(const Option *o, const char *value, void *target, Error *e);
int option_no_healthcheck(const Option *o, const char *value, void *target, Error *e);
int option_pair(const Option *o, const char *value, void *target, Error *e);
/* CredentialList */
int option_credential(const Option *o, const char *value, void *target, Error *e);
int option_set_credential(const Option *o, const char *value, void *target, Error *e);
/* PodRequest */
int option_volume(const Option *o, const char *value, void *target,
                  Error *e); /* or a mount that brings one */
/* 1 and *RET: VALUE of such an option, in which the source was relative to the working directory; 0: it was not, or the option is
 * another one. */
int volume_option_make_absolute(const Option *o, const char *value, char **ret);
int option_pod_mount(const Option *o, const char *value, void *target, Error *e);
int option_port(const Option *o, const char *value, void *target, Error *e);
/* PrepareOptions */
int option_net(const Option *o, const char *value, void *target, Error *e);
/* char **: appended to. */
int option_dns(const Option *o, const char *value, void *target, Error *e);
int option_dns_search(const Option *o, const char *value, void *target, Error *e);
int option_dns_option(const Option *o, const char *value, void *target, Error *e);
int option_hosts_entry(const Option *o, const char *value, void *target, Error *e);
/* AppOverrides */
int option_app_volume(const Option *o, const char *value, void *target, Error *e);
int option_app_mount(const Option *o, const char *value, void *target, Error *e);
int option_gids(const Option *o, const char *value, void *target, Error *e);
int option_user(const Option *o, const char *value, void *target, Error *e); /* and maybe a group */
/* IsolatorList: NAME=JSON, and short forms for the usual ones. */
int option_isolator(const Option *o, const char *value, void *target, Error *e);
int option_isolator_short(const Option *o, const char *value, void *target,
                          Error *e); /* by the option's name */
int option_sysctl(const Option *o, const char *value, void *target, Error *e);
int option_selinux_context(const Option *o, const char *value, void *target, Error *e);
int option_seccomp(const Option *o, const char *value, void *target, Error *e);
int option_caps_retain(const Option *o, const char *value, void *target, Error *e);
int option_caps_remove(const Option *o, const char *value, void *target, Error *e);
/* What all of them end in. */
int option_add_isolator(const Option *o, const char *value, const char *name, const char *json,
                        IsolatorList *l, Error *e);
/* const char *: in argv, and fit to be the name of a pod, or of a host. */
int option_pod_name(const Option *o, const char *value, void *target, Error *e);
int option_hostname(const Option *o, const char *value, void *target, Error *e);
/* char *: owned, replaced. */
int option_app_name(const Option *o, const char *value, void *target, Error *e);
int option_group(const Option *o, const char *value, void *target, Error *e);
int option_working_directory(const Option *o, const char *value, void *target, Error *e);
/* char **: becomes a list of this one word. */
int option_exec(const Option *o, const char *value, void *target, Error *e);

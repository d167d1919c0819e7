/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/pods/ and their unit tests. */

#include "prepare/pods/pods.h"

/* --- Pods (pod.c, pod-life.c) -------------------------------------------------------------------------- */

#define POD_CONFIG_SIZE_MAX (64U * 1024U)
#define POD_CONFIG_FILE "config"
#define POD_OWNER_DATA_FILE "owner-data" /* of a pod, and of an app (pod-owner.c) */
#define STORE_LINK "store"               /* to the path of its store (pod-boot.c) */

/* The states that are directories, in the order of a pod's life. */
#define N_POD_PLACES 6U
extern const PodState pod_places[N_POD_PLACES];
const char *pod_state_to_place(PodState s);                       /* "pods/running" */
int pod_place_path(const char *uuid, PodState place, char **ret); /* relative to the store */

/* Moves the pod without syncing (pod-life.c). -ENOENT: it was moved or removed by another process. */
int pod_move(Pod *p, PodState to);
int pod_alloc(Store *s, const char *uuid, Pod **ret);
/* Whether DIR_FD is the directory of the pod at that place. */
bool pod_is_at(Store *s, int dir_fd, const char *uuid, PodState place);
/* 1: there is a pod of that UUID in a state from FIRST to LAST; 0: there is none. */
int pod_exists(Store *s, const char *uuid, PodState first, PodState last);
/* Checks a reified manifest, which must have more members than a template, and the app objects of the
 * images. */
int check_reified(const PodManifest *m, Error *e);
int pod_config_format(const PodConfig *c, char **ret, Error *e);
int pod_config_parse(const char *text, size_t size, PodConfig *ret, Error *e);

/* pod-resolver.c: checks the settings of CONFIG for name resolution. */
int pod_resolver_check(const PodConfig *c, Error *e);

/* Records the current boot, when the pod is started (pod-boot.c). */
int pod_record_boot(const Pod *p);
/* The same of the path of its store, for pod_is_copy(). */
int pod_record_store(const Pod *p);
/* The record of the end: the time; on a second line the boot ID, and on a third what CLOCK_BOOTTIME showed, which earlier versions left
 * out; without the last newline (pod-life.c). -ENOENT. */
int pod_read_ended(const Pod *p, char **ret);

/* --- Names and ranges of uids (pod-links.c, uids.c) ---------------------------------------------------- */

/* The pod that has KEY. -ENOENT (without a message): none. RET_UUID may be NULL. */
int registry_find(Store *s, Registry g, const char *key, char **ret_uuid, Error *e);
/* Gives KEY to the pod. -EEXIST (without a message): *RET_HOLDER, which may be NULL, has it. */
int registry_take(Store *s, Registry g, const char *key, const char *uuid, char **ret_holder, Error *e);
/* Removes KEY from the pod, if it has KEY. */
void registry_drop(Store *s, Registry g, const char *key, const char *uuid);
/* Passes KEY from FROM to TO, which is being prepared: FROM has it until TO is published, then TO. If TO is
 * published already it has KEY at once. -EEXIST (without a message): FROM does not have it. */
int registry_pass(Store *s, Registry g, const char *key, const char *from, const char *to, Error *e);
/* Removes the previous owner of KEY from its link; UUID, the new owner, is published. */
void registry_settle(Store *s, Registry g, const char *key, const char *uuid);
/* Whether the pod has KEY, without checking that the pod exists. */
int registry_holds(Store *s, Registry g, const char *key, const char *uuid);
/* Appends the keys that the pod with this UUID holds to *KEYS. */
int registry_list_of(Store *s, Registry g, const char *uuid, char ***keys, Error *e);
int registry_add_to_sync(Store *s, Registry g, SyncSet *set, Error *e);
/* --- The ranges of all stores of this host (uids-host.c) ----------------------------------------------- */

/* -EEXIST (without a message): another pod than P has the range at BASE. */
int host_uids_find(const Pod *p, uint32_t base, Error *e);
/* Gives P, which is being prepared, the range at BASE. -EEXIST (without a message): another pod has it. */
int host_uids_take(const Pod *p, uint32_t base, Error *e);
/* Before P is started: makes sure that the range it was prepared with is registered for it. -EUSERS: another
 * pod has it. */
int host_uids_claim(const Pod *p, Error *e);
void host_uids_drop(const Pod *p, uint32_t base);
/* All ranges of a pod, which is removed. */
void pod_drop_uids(const Pod *p);
int host_uids_add_to_sync(const Store *s, SyncSet *set, Error *e);
/* For unit tests, whose stores are otherwise not registered: another directory; NULL: the host's. Not copied. */
void host_uids_set_directory(const char *path);

/* --- The journals of pods, for the host (pod-journal-link.c) ------------------------------------------- */

#define POD_MACHINE_ID_SIZE 33U
/* The UUID without dashes. */
void pod_machine_id(const Pod *p, char id[static POD_MACHINE_ID_SIZE]);
/* Frees the room that the journal of P, which has ended, does not use (pod-journal-trim.c). */
void pod_journal_trim(const Pod *p);
/* Makes P's link for its present place, if this host has such links. */
void pod_journal_link(const Pod *p);
void pod_journal_unlink(const Pod *p);
/* For unit tests: another directory than /var/log/journal, on any host; NULL: that. Not copied. */
void pod_journal_links_set_directory(const char *path);

/* The N-th base to try for a pod of that UUID. */
uint32_t uid_base_nth(const char *uuid, uint32_t n);
/* Whether the ranges in TEXT (of /etc/subuid) overlap that of BASE. TEXT may be NULL. */
bool subids_overlap(const char *text, uint32_t base);
/* The same of a passwd or group file. */
bool accounts_overlap(const char *text, uint32_t base);

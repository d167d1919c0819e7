/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* device-filter.c: filters of the devices that the processes of a cgroup can open. */

#include <linux/bpf.h>
#include <sys/types.h>

#include "schema/settings.h"

#define DEVICE_RULES_MAX 2048U /* jumps of a program have 15 bits */
#define DEVICE_RULE_ANY UINT32_MAX

typedef struct DeviceRule {
        bool block;
        uint32_t major, minor; /* the latter may be DEVICE_RULE_ANY */
        unsigned access;       /* DEVICE_READ and DEVICE_WRITE; nodes can be made of any device */
} DeviceRule;

typedef struct DeviceRules {
        bool closed; /* only devices in ITEMS can be opened; otherwise there is no filter */
        DeviceRule *items;
        size_t n, allocated;
} DeviceRules;

void device_rules_done(DeviceRules *l);
#define _cleanup_device_rules_ _cleanup_(device_rules_done)
/* Of a device with several rules all are allowed. -E2BIG: there are DEVICE_RULES_MAX. */
int device_rules_add(DeviceRules *l, bool block, dev_t device, unsigned access);
/* The devices that every app has in /dev, and its terminals. */
int device_rules_add_default(DeviceRules *l);
bool device_rules_equal(const DeviceRules *a, const DeviceRules *b);

/* The instructions, for the unit tests. */
int device_filter_compile(const DeviceRules *l, struct bpf_insn **ret, size_t *ret_n);
/* A program in the kernel, as a descriptor. -EOPNOTSUPP: this kernel has no such programs; -EPERM: it lets this process load none. */
int device_filter_load(const DeviceRules *l);
/* Puts the program on a cgroup, beside those that others have put there, and in place of REPLACED_FD, which is on it, unless that is
 * negative. It applies to the cgroups below, too. */
int device_filter_attach(int cgroup_fd, int program_fd, int replaced_fd);
int device_filter_detach(int cgroup_fd, int program_fd);
/* Whether this process can load such programs; determined once. 0, or the error of device_filter_load(). */
int device_filter_available(void);
/* Refuses apps whose devices are to be filtered, where it cannot. */
int device_filters_check(const PodManifest *m, Error *e);

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The capabilities by name: a sandbox has all of them, as PID 1 of its pod bounds every container that it will get; a
 * container has what its request says.
 *
 * CAP_MKNOD, which others have by default, is not among them: which devices a container can open is filtered on most hosts only, and nodes that it
 * makes on a mount of the host stay there, for processes that no filter confines. */

#include "cri/sandbox.h"

const struct CriCapability cri_capabilities[CRI_N_CAPABILITIES] = {
                {"CAP_AUDIT_CONTROL", false},
                {"CAP_AUDIT_READ", false},
                {"CAP_AUDIT_WRITE", true},
                {"CAP_BLOCK_SUSPEND", false},
                {"CAP_BPF", false},
                {"CAP_CHECKPOINT_RESTORE", false},
                {"CAP_CHOWN", true},
                {"CAP_DAC_OVERRIDE", true},
                {"CAP_DAC_READ_SEARCH", false},
                {"CAP_FOWNER", true},
                {"CAP_FSETID", true},
                {"CAP_IPC_LOCK", false},
                {"CAP_IPC_OWNER", false},
                {"CAP_KILL", true},
                {"CAP_LEASE", false},
                {"CAP_LINUX_IMMUTABLE", false},
                {"CAP_MAC_ADMIN", false},
                {"CAP_MAC_OVERRIDE", false},
                {"CAP_MKNOD", false},
                {"CAP_NET_ADMIN", false},
                {"CAP_NET_BIND_SERVICE", true},
                {"CAP_NET_BROADCAST", false},
                {"CAP_NET_RAW", true},
                {"CAP_PERFMON", false},
                {"CAP_SETFCAP", true},
                {"CAP_SETGID", true},
                {"CAP_SETPCAP", true},
                {"CAP_SETUID", true},
                {"CAP_SYSLOG", false},
                {"CAP_SYS_ADMIN", false},
                {"CAP_SYS_BOOT", false},
                {"CAP_SYS_CHROOT", true},
                {"CAP_SYS_MODULE", false},
                {"CAP_SYS_NICE", false},
                {"CAP_SYS_PACCT", false},
                {"CAP_SYS_PTRACE", false},
                {"CAP_SYS_RAWIO", false},
                {"CAP_SYS_RESOURCE", false},
                {"CAP_SYS_TIME", false},
                {"CAP_SYS_TTY_CONFIG", false},
                {"CAP_WAKE_ALARM", false},
};

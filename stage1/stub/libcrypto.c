/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A libcrypto whose functions all fail, for processes of a pod that link libcrypto and never call it.
 *
 * libsystemd-shared of systemd 252 links libcrypto and is bound when it is loaded (BIND_NOW), so the pod's systemd
 * and its journald, and systemd-nspawn outside, each relocate libcrypto's tables: 392 KiB of private dirty pages,
 * 430 KiB of PSS and 0.9 ms per process: 1.3 MiB of the 5.3 MiB that a pod takes if ten run, and of the
 * 4.4 MiB that it takes if forty run. With the stub it is 4.0 and 3.1 MiB (tests/bench/density), and an app starts 2 to 3 ms earlier. From
 * systemd 257 on libcrypto is opened by dlopen() where it is used, and the stub is not.
 *
 * systemd calls libcrypto to decrypt credentials (LoadCredentialEncrypted=), to verify signatures of disk images
 * (RootImage=, nspawn --image=) and for TPM2 and PKCS #11 keys; libkmod reads signatures of modules. The units of a
 * pod, nspawn's arguments and a pod without kernel modules have none of these. A function called nevertheless
 * returns 0, which for these functions is NULL, "out of memory" or "failed", so that the caller fails as it would
 * without memory.
 *
 * host-files.c uses the stub only if it defines all that the libraries of a pod import from libcrypto, by name and
 * version. It is installed in a directory of its own that no loader searches.
 */

#include <stddef.h>

#include "stage1/stub/libcrypto.h"

#define DEFINE(name)                                                                                        \
        __attribute__((visibility("default"))) void *name(void);                                            \
        void *name(void)                                                                                    \
        {                                                                                                   \
                return NULL;                                                                                \
        }

LIBCRYPTO_STUB_FUNCTIONS(DEFINE)

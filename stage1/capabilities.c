/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The capabilities of apps, from their isolators, as masks: bit n is capability n.
 *
 * Most apps have the default set, whose names are known here. libcap-ng has all names, and is loaded only for a
 * pod, an app or an image that has an isolator with a set of capabilities. */

#include <linux/capability.h>

#include "library/libcapng.h"
#include "stage1/stage1.h"

/* Spec: ace.md, "os/linux/capabilities-remove-set". */
#define DEFAULT_CAPABILITIES(F)                                                                             \
        F(CAP_AUDIT_WRITE)                                                                                  \
        F(CAP_CHOWN)                                                                                        \
        F(CAP_DAC_OVERRIDE)                                                                                 \
        F(CAP_FSETID)                                                                                       \
        F(CAP_FOWNER)                                                                                       \
        F(CAP_KILL)                                                                                         \
        F(CAP_MKNOD)                                                                                        \
        F(CAP_NET_RAW)                                                                                      \
        F(CAP_NET_BIND_SERVICE)                                                                             \
        F(CAP_SETUID)                                                                                       \
        F(CAP_SETGID)                                                                                       \
        F(CAP_SETPCAP)                                                                                      \
        F(CAP_SETFCAP)                                                                                      \
        F(CAP_SYS_CHROOT)

#define NAME_ENTRY(capability) [capability] = #capability,
#define MASK_OF(capability) | UINT64_C(1) << (capability)

static const char *const default_names[] = {DEFAULT_CAPABILITIES(NAME_ENTRY)};

#define DEFAULT_MASK (UINT64_C(0) DEFAULT_CAPABILITIES(MASK_OF))

static bool is_capability_set(const Isolator *i)
{
        return i->type == ISOLATOR_CAPABILITIES_RETAIN_SET || i->type == ISOLATOR_CAPABILITIES_REMOVE_SET;
}

int stage1_load_isolator_libraries(const IsolatorList *l, Error *e)
{
        for (size_t i = 0; i < l->n; i++)
                if (is_capability_set(&l->items[i]))
                        return library_load(&capng_library, e);
        return 0;
}

int stage1_load_libraries(const PodManifest *m, Error *e)
{
        int r = stage1_load_isolator_libraries(&m->isolators, e);

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                if (m->apps[i]->app)
                        r = stage1_load_isolator_libraries(&m->apps[i]->app->isolators, e);
        return r;
}

bool stage1_capability_name(unsigned capability, char ret[static STAGE1_CAPABILITY_NAME_SIZE])
{
        if (capability < ELEMENTSOF(default_names) && default_names[capability]) {
                snprintf(ret, STAGE1_CAPABILITY_NAME_SIZE, "%s", default_names[capability]);
                return true;
        }
        const char *known = capng_capability_to_name(capability);
        if (!known || strlen(known) >= STAGE1_CAPABILITY_NAME_SIZE - strlen("CAP_"))
                return false;
        snprintf(ret, STAGE1_CAPABILITY_NAME_SIZE, "CAP_%s", known);
        for (char *c = ret; *c; c++)
                *c = to_upper(*c);
        return true;
}

static uint64_t mask_of_names(char *const *names)
{
        uint64_t mask = 0;

        STRV_FOREACH (name, names) {
                const char *bare = strncasecmp(*name, "CAP_", 4) == 0 ? *name + 4 : *name;
                int cap = capng_name_to_capability(bare);
                if (cap >= 0 && cap < 64)
                        mask |= UINT64_C(1) << cap;
        }
        return mask;
}

uint64_t stage1_capabilities(const IsolatorList *l)
{
        uint64_t mask = DEFAULT_MASK;

        for (size_t i = 0; l && i < l->n; i++) {
                const Isolator *isolator = &l->items[i];
                if (isolator->type == ISOLATOR_CAPABILITIES_RETAIN_SET)
                        mask = mask_of_names(isolator->set);
                else if (isolator->type == ISOLATOR_CAPABILITIES_REMOVE_SET)
                        mask &= ~mask_of_names(isolator->set);
        }
        return mask;
}

uint64_t stage1_app_capabilities(const App *app)
{
        return stage1_capabilities(&app->isolators);
}

uint64_t stage1_pod_capabilities(const PodManifest *m, bool *ret_declared)
{
        uint64_t mask = DEFAULT_MASK;

        *ret_declared = false;
        for (size_t i = 0; i < m->isolators.n; i++)
                if (m->isolators.items[i].type == ISOLATOR_CAPABILITIES_RETAIN_SET) {
                        mask = DEFAULT_MASK | mask_of_names(m->isolators.items[i].set);
                        *ret_declared = true;
                }
        for (size_t i = 0; !*ret_declared && i < m->n_apps; i++)
                mask |= stage1_app_capabilities(m->apps[i]->app);
        return mask;
}

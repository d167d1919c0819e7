/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of the Container Device Interface: what is accepted has names by which its devices are found, and absolute paths. */

#include "cri/cdi/cdi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool goes_up(const char *path)
{
        for (const char *p = path; (p = strstr(p, "/..")); p += 3)
                if (p[3] == '/' || !p[3])
                        return true;
        return false;
}

static void check(const CdiEdits *x)
{
        for (size_t i = 0; i < x->n_nodes; i++)
                if (!startswith(x->nodes[i].path, "/dev/") || !path_is_absolute(x->nodes[i].host_path) ||
                    goes_up(x->nodes[i].path))
                        abort();
        for (size_t i = 0; i < x->n_mounts; i++)
                if (!path_is_absolute(x->mounts[i].source) || !path_is_absolute(x->mounts[i].target))
                        abort();
}

/* The same text in both forms: JSON is nearly YAML. */
static void run(const uint8_t *data, size_t size, bool yaml)
{
        _cleanup_(cdi_spec_freep) CdiSpec *s = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        if (cdi_spec_parse((const char *) data, size, yaml, &s, &e) < 0) {
                if (!e.message)
                        abort();
                return;
        }
        check(&s->edits);
        for (size_t i = 0; i < s->n_devices; i++) {
                _cleanup_free_ char *name = NULL;
                check(&s->devices[i].edits);
                if (xasprintf(&name, "%s=%s", s->kind, s->devices[i].name) < 0)
                        return;
                const char *part = cdi_name_split(name);
                if (!part || cdi_spec_find(s, part) != &s->devices[i])
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        run(data, size, false);
        run(data, size, true);
        return 0;
}

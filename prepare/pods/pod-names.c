/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Names of pods, and their validation. A pod's name is also its host name unless it has another, so the
 * rules are those of host names; and it must not be taken for a UUID. */

#include "prepare/pods/pods-internal.h"

#define POD_NAME_MAX 63
#define HOSTNAME_MAX 64 /* the kernel's limit */

static bool is_lower_or_digit(char c)
{
        return is_lower(c) || is_digit(c);
}

/* The name of a host: labels of letters, digits and '-' with dots between. */
static const char *fault_of_name(const char *s, size_t max, bool upper)
{
        if (isempty(s))
                return "it is empty";
        if (strlen(s) > max)
                return "it is too long";
        for (const char *p = s; *p; p++) {
                char c = upper && *p >= 'A' && *p <= 'Z' ? (char) (*p - 'A' + 'a') : *p;
                bool edge = p == s || p[1] == 0 || p[-1] == '.' || p[1] == '.';

                if (!is_lower_or_digit(c) && c != '-' && c != '.')
                        return upper ? "only letters, digits, '-' and '.' are allowed"
                                     : "only lower case letters, digits, '-' and '.' are allowed";
                if (edge && !is_lower_or_digit(c))
                        return "it, and each label between dots, must begin and end with a letter or a "
                               "digit";
        }
        return NULL;
}

static int refuse(Error *e, const char *what, const char *s, const char *why)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(s);

        return error_set(e, -EINVAL, "'%s' is not a valid %s for a pod: %s", shown ?: "?", what, why);
}

int pod_name_check(const char *s, Error *e)
{
        const char *fault = fault_of_name(s, POD_NAME_MAX, false);

        if (!fault && uuid_check(s, NULL) >= 0)
                fault = "it looks like a UUID";
        return fault ? refuse(e, "name", s ?: "", fault) : 0;
}

int hostname_check(const char *s, Error *e)
{
        const char *fault = fault_of_name(s, HOSTNAME_MAX, true);

        return fault ? refuse(e, "host name", s ?: "", fault) : 0;
}

void pod_drop_name(Pod *p)
{
        if (!p->config.name || registry_holds(p->store, REGISTRY_NAMES, p->config.name, p->uuid) <= 0)
                return;
        registry_drop(p->store, REGISTRY_NAMES, p->config.name, p->uuid);
        p->name_dropped = true;
}

void pod_take_name_back(Pod *p)
{
        if (p->name_dropped)
                (void) pod_reserve_name(p, p->config.name, NULL);
        p->name_dropped = false;
}

int pod_reserve_name(Pod *p, const char *name, Error *e)
{
        _cleanup_free_ char *copy = NULL, *holder = NULL;
        _cleanup_(pod_freep) Pod *other = NULL;

        int r = pod_name_check(name, e);
        if (r < 0)
                return r;
        copy = strdup(name);
        if (!copy)
                return error_oom(e);
        r = registry_take(p->store, REGISTRY_NAMES, name, p->uuid, &holder, e);
        if (r == -EEXIST) {
                if (holder)
                        (void) pod_look(p->store, holder, &other, NULL);
                r = error_set(e, r, "The name '%s' belongs to pod %s%s%s%s", name, holder ?: "?",
                              other ? " (" : "", other ? pod_state_to_string(other->state) : "",
                              other ? ")" : "");
                return error_hint(e, r,
                                  "Choose another with --name=, remove that pod with --replace, or with: "
                                  "acnspawn rm %s%s",
                                  other && other->state == POD_RUNNING ? "--force " : "", name);
        }
        if (r < 0)
                return r;
        if (p->config.name && !streq(p->config.name, name))
                registry_drop(p->store, REGISTRY_NAMES, p->config.name, p->uuid);
        free(p->config.name);
        p->config.name = TAKE_PTR(copy);
        return 0;
}

int pod_open_by_name(Store *s, const char *name, Pod **ret, Error *e)
{
        _cleanup_free_ char *uuid = NULL;

        int r = registry_find(s, REGISTRY_NAMES, name, &uuid, e);
        return r < 0 ? r : pod_open(s, uuid, ret, e);
}

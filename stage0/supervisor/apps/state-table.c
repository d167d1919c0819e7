/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tables of states: what each event does in each state of an object.
 *
 * A sanitized build appends the transitions that it makes, each once, to the file that the environment variable
 * ACNSPAWN_TRANSITIONS names: "pause none pause". Tests count by it which were reached. */

#include <stdlib.h>

#include "stage0/supervisor/apps/state-table.h"

#ifdef __SANITIZE_ADDRESS__
#define SEEN_MAX 512

static void record(const StateTable *t, const StateTransition *x, size_t state, size_t event)
{
        static const StateTransition *seen[SEEN_MAX];
        static size_t n;
        const char *path = getenv("ACNSPAWN_TRANSITIONS");

        for (size_t i = 0; i < n; i++)
                if (seen[i] == x)
                        return;
        if (!path || n == SEEN_MAX)
                return;
        seen[n++] = x;
        _cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
                (void) dprintf(fd, "%s %s %s\n", t->object, t->states[state], t->events[event]);
}
#else
static void record(const StateTable *t, const StateTransition *x, size_t state, size_t event) {}
#endif

const StateTransition *state_table_find(const StateTable *t, size_t state, size_t event)
{
        const StateTransition *x = t->transitions + state * t->n_events + event;

        if (x->action != 0) {
                record(t, x, state, event);
                return x;
        }
        log_warning("Error of the program: the event '%s' cannot occur in the state '%s' of a %s.",
                    t->events[event], t->states[state], t->object);
#ifdef __SANITIZE_ADDRESS__
        abort();
#endif
        return NULL;
}

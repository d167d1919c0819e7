/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Invariants of the tree that stage1 generates for a pod, for all manifests: the units are parsed again by
 * the second parser (unit-file.h), no unit refers to a missing one, and an app's service runs only the
 * launcher. */

#include "stage1/stage1.h"
#include "tests/unit/unit-file.h"

#define UNITS "acnspawn/units/"
#define ROOT_SLICE_DROP_IN "-.slice.d/sockets.conf"
#define BUS_DROP_IN "default.target.d/bus.conf"

__attribute__((unused)) static const Stage1File *find_file(const Stage1Files *f, const char *path)
{
        for (size_t i = 0; i < f->n; i++)
                if (streq(f->items[i].path, path))
                        return &f->items[i];
        return NULL;
}

typedef struct UnitReader {
        const Stage1Files *files;
        const char *unit;
        Text seen; /* keys of the unit so far, each between spaces */
} UnitReader;

__attribute__((unused)) static bool is_app_service(const char *unit)
{
        return startswith(unit, "app-") && endswith(unit, ".service");
}

__attribute__((unused)) static bool names_unit(const char *key)
{
        return is_word_of(" Requires Wants After Before Conflicts Slice Sockets Service OnFailure "
                          "PropagatesReloadTo ",
                          key);
}

/* Every unit that another one refers to is generated, too: units of systemd with the same name are never
 * used. The target of an app's start is generated only if another app is ordered after it. */
__attribute__((unused)) static int check_references(const UnitReader *r, const char *key, const char *value)
{
        _cleanup_strv_free_ char **names = NULL;
        int k = strv_split(value, " ", &names);

        for (char **name = names; k >= 0 && name && *name; name++) {
                _cleanup_free_ char *path = NULL;
                k = xasprintf(&path, UNITS "%s", *name);
                if (k >= 0 && !find_file(r->files, path) && !streq(*name, "system.slice") &&
                    !(streq(key, "Before") && startswith(*name, "started-")))
                        k = -EBADMSG;
        }
        return k;
}

__attribute__((unused)) static int check_line(const char *section, const char *key, const char *value,
                                              void *userdata)
{
        UnitReader *r = userdata;

        (void) section;
        if (is_app_service(r->unit)) {
                /* An app may have two ExecStartPre= lines, a delay and a handler. */
                bool list = streq(key, "ExecStartPre");
                if (!is_word_of(app_service_keys, key) ||
                    (!list && r->seen.data && is_word_of(r->seen.data, key)))
                        return -EBADMSG;
                text_addf(&r->seen, " %s ", key);
                /* Only the launcher is executed, and its only argument is the app. */
                if (startswith(key, "Exec") &&
                    (!startswith(value, "/acnspawn/launch ") || strpbrk(value, "{}()<>|&*?~#!")))
                        return -EBADMSG;
        }
        return names_unit(key) ? check_references(r, key, value) : 0;
}

/* NULL: valid; else a description of the error, which the caller frees. */
__attribute__((unused)) static char *unit_complaint(const Stage1Files *files, const Stage1File *f)
{
        _cleanup_free_ char *bad = NULL;
        UnitReader r = {.files = files, .unit = f->path + strlen(UNITS)};
        char *why = NULL;

        if (strlen(r.unit) > 255 ||
            (strspn(r.unit, "abcdefghijklmnopqrstuvwxyz0123456789-_.:@") != strlen(r.unit) &&
             !streq(r.unit, ROOT_SLICE_DROP_IN) && !streq(r.unit, BUS_DROP_IN)))
                bad = strdup("a name that is not a unit's");
        else if (f->content && strlen(f->content) != f->size)
                bad = strdup("a NUL");
        else if (f->content) {
                int k = unit_file_read(f->content, check_line, &r, &bad);
                if (k >= 0 && is_app_service(r.unit) && !is_word_of(r.seen.data, "ExecStart"))
                        bad = strdup("no command");
        }
        text_done(&r.seen);
        if (bad && xasprintf(&why, "%s has \"%s\"", r.unit, bad) < 0)
                abort();
        return why;
}

__attribute__((unused)) static char *tree_complaint(const Stage1Files *files)
{
        for (size_t i = 0; i < files->n; i++) {
                const Stage1File *f = &files->items[i];
                char *why = NULL;

                if (find_file(files, f->path) != f)
                        return strdup("a file is there twice");
                if (f->path[0] == '/' || strstr(f->path, "..") || endswith(f->path, "/"))
                        return strdup("a path leads out");
                if (startswith(f->path, UNITS))
                        why = unit_complaint(files, f);
                if (why)
                        return why;
        }
        return NULL;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sections for units of the host: what acnspawn's own units depend on is refused, and [Install] has a few keys. The
 * generator leaves out what is refused, and says so in the journal; 'acnspawn pod verify' says the same beforehand. */

#include "stage0/declared/declared.h"

#define UNIT_NAME_MAX 255U

/* What makes acnspawn@.service what it is. */
static const char *const own_service_keys[] = {
                "BusName",       "Delegate",  "DelegateSubgroup",
                "DynamicUser",   "Group",     "KillMode",
                "NotifyAccess",  "PIDFile",   "RemainAfterExit",
                "RootDirectory", "RootImage", "StandardInput",
                "Type",          "User",
};

static const char *refused_in_service(const char *key)
{
        if (streq(key, "ExecStart") || streq(key, "ExecReload"))
                return "is acnspawn's own; what runs in the pod belongs into [App NAME]";
        for (size_t i = 0; i < ELEMENTSOF(own_service_keys); i++)
                if (streq(key, own_service_keys[i]))
                        return "the unit of a pod depends on what acnspawn@.service has here";
        return NULL;
}

const char *declared_install_suffix(const char *key)
{
        static const struct {
                const char *key, *suffix;
        } kinds[] = {{"WantedBy", "wants"}, {"RequiredBy", "requires"}, {"UpheldBy", "upholds"}};

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (streq(key, kinds[i].key))
                        return kinds[i].suffix;
        return NULL;
}

const char *declared_refused(const DeclaredSetting *s)
{
        switch (s->section) {
        case DECLARED_SERVICE:
                return refused_in_service(s->key);
        case DECLARED_SOCKET:
                return streq(s->key, "Accept") || streq(s->key, "Service")
                                       ? "the sockets are those of one pod, and cannot be given to another "
                                         "unit"
                                       : NULL;
        case DECLARED_UPDATE:
                return streq(s->key, "Unit") ? "the timer is that of acnspawn-update@.service" : NULL;
        case DECLARED_INSTALL:
                if (streq(s->key, "Alias")) /* unit_validate_alias_symlink_or_warn() of systemd */
                        return "systemd refuses other names of an instance such as acnspawn@NAME.service, "
                               "unless they are instances themselves";
                return declared_install_suffix(s->key) ? NULL
                                                       : "a declared pod has WantedBy=, RequiredBy= and "
                                                         "UpheldBy= in [Install]";
        default:
                return NULL;
        }
}

bool declared_is_unit_name(const char *s)
{
        static const char *const suffixes[] = {".service", ".target", ".socket", ".mount",
                                               ".path",    ".timer",  ".device"};
        size_t n = strlen(s);

        if (n == 0 || n > UNIT_NAME_MAX || *s == '.' || *s == '@')
                return false;
        for (const char *p = s; *p; p++)
                if (!is_alphanumeric(*p) && !strchr(":-_.\\@", *p))
                        return false;
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++)
                if (endswith(s, suffixes[i]))
                        return n > strlen(suffixes[i]);
        return false;
}

static int find(Declared *d, const DeclaredSetting *s, const char *why)
{
        return declared_add_finding(d, &s->place, true, NULL, "%s=: %s", s->key, why);
}

/* systemd starts services after these targets, and a target after what it wants. */
static bool comes_before_services(const char *target)
{
        static const char *const early[] = {"sockets.target",      "paths.target",   "slices.target",
                                            "basic.target",        "sysinit.target", "local-fs.target",
                                            "local-fs-pre.target", "swap.target"};

        for (size_t i = 0; i < ELEMENTSOF(early); i++)
                if (streq(target, early[i]))
                        return true;
        return false;
}

static bool has_default_dependencies(const Declared *d)
{
        bool yes = true;

        for (size_t i = 0; i < d->n_settings; i++)
                if (d->settings[i].section == DECLARED_UNIT &&
                    streq(d->settings[i].key, "DefaultDependencies"))
                        yes = parse_boolean(d->settings[i].value) != 0;
        return yes;
}

bool declared_may_start_with(const Declared *d, const char *target)
{
        return !comes_before_services(target) || !has_default_dependencies(d) ||
               (streq(target, "sockets.target") && declared_has_socket(d));
}

static int refuse_early(Declared *d, const DeclaredSetting *s, const char *target)
{
        bool sockets = streq(target, "sockets.target");

        return declared_add_finding(
                        d, &s->place, true,
                        sockets ? "Add a section [Socket], or name multi-user.target."
                                : "Name multi-user.target.",
                        sockets ? "%s=: the pod has no socket for %s, before which no service starts"
                                : "%s=: no service starts before %s",
                        s->key, target);
}

/* The words of a key of [Install]. */
static int check_units(Declared *d, const DeclaredSetting *s)
{
        _cleanup_strv_free_ char **words = NULL;
        const char *reason = NULL;

        int r = declared_words(s->value, &words, &reason);
        if (r < 0)
                return r == -EINVAL ? find(d, s, reason) : r;
        STRV_FOREACH (word, words)
                if (r >= 0 && !declared_is_unit_name(*word))
                        r = find(d, s, "a word is not the name of a unit");
                else if (r >= 0 && !declared_may_start_with(d, *word))
                        r = refuse_early(d, s, *word);
        return r;
}

int declared_check_units(Declared *d)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];
                const char *why = declared_refused(s);

                if (s->section == DECLARED_INSTALL && !*s->value)
                        continue;
                if (why)
                        r = find(d, s, why);
                else if (s->section == DECLARED_INSTALL)
                        r = check_units(d, s);
        }
        if (r >= 0)
                declared_sort_findings(d);
        return r;
}

/* --- What the generator makes of them ------------------------------------------------------------------ */

bool declared_has_section(const Declared *d, DeclaredSection section)
{
        for (size_t i = 0; i < d->n_settings; i++)
                if (d->settings[i].section == section)
                        return true;
        return false;
}

/* Copies the lines of a section: systemd has the same syntax, and expands the specifiers. */
void declared_add_section(const Declared *d, DeclaredSection section, const char *name, Text *t)
{
        if (!declared_has_section(d, section))
                return;
        text_addf(t, "\n[%s]\n", name);
        for (size_t i = 0; i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];

                if (s->section == section && !declared_refused(s))
                        text_addf(t, "%s=%s\n", s->key, s->value);
        }
}

void declared_add_service(const Declared *d, Text *t)
{
        declared_add_section(d, DECLARED_UNIT, "Unit", t);
        declared_add_section(d, DECLARED_SERVICE, "Service", t);
}

/* The generator writes three lines before the sections, and may add the socket after them. */
static bool is_generated(const char *text, const char *sections)
{
        for (unsigned i = 0; i < 3 && text; i++) {
                text = strchr(text, '\n');
                text = text ? text + 1 : NULL;
        }
        const char *rest = text ? startswith(text, sections) : NULL;
        return rest && (!*rest || startswith(rest, "\n[Service]\nSockets="));
}

int declared_service_is_known(const Declared *d, const char *generated)
{
        _cleanup_free_ char *path = NULL, *text = NULL, *sections = NULL;
        _cleanup_text_ Text t = {};

        declared_add_service(d, &t);
        if (text_take(&t, &sections, NULL) < 0 ||
            xasprintf(&path, "%s/acnspawn@%s.service.d/" DECLARED_DROP_IN, generated, d->name) < 0)
                return -ENOMEM;
        int r = read_file_at(AT_FDCWD, path, DECLARED_FILE_MAX, &text, NULL);
        if (r == -ENOENT)
                return !*sections;
        return r < 0 ? r : is_generated(text, sections);
}

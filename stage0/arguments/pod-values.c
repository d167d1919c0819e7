/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The values of options of prepare and run: pairs, and others. Names are checked by the functions that check
 * manifests, so that the same rules apply. Volumes are in pod-volumes.c.
 */

#include "schema/seccomp-profile.h"
#include "schema/settings.h"
#include "stage0/arguments/pod-values.h"

/* --- Pairs --------------------------------------------------------------------------------------------- */

static int add_pair(const Option *o, const char *value, PairList *l, int (*check)(const char *, Error *),
                    Error *e)
{
        const char *equals = strchr(value, '=');
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (!equals || equals == value)
                return option_invalid(o, value, e, "must be NAME=VALUE");
        name = strndup(value, (size_t) (equals - value));
        if (!name)
                return error_oom(e);
        if (check && check(name, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        return pair_list_set(l, name, equals + 1) < 0 ? error_oom(e) : 0;
}

/* A name alone takes the value from acnspawn's environment. */
int option_environment(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_free_ char *pair = NULL;
        const char *inherited;

        if (strchr(value, '='))
                return add_pair(o, value, target, environment_name_check, e);
        inherited = getenv(value);
        if (!inherited)
                return option_invalid(o, value, e,
                                      "no value given, and the variable is not set in the environment");
        if (xasprintf(&pair, "%s=%s", value, inherited) < 0)
                return error_oom(e);
        return add_pair(o, pair, target, environment_name_check, e);
}

int option_annotation(const Option *o, const char *value, void *target, Error *e)
{
        return add_pair(o, value, target, ac_identifier_check, e);
}

static int pod_annotation_check(const char *name, Error *e)
{
        int r = ac_identifier_check(name, e);

        return r < 0 ? r : pod_setting_check(name, e);
}

int option_pod_annotation(const Option *o, const char *value, void *target, Error *e)
{
        return add_pair(o, value, target, pod_annotation_check, e);
}

int option_app_annotation(const Option *o, const char *value, void *target, Error *e)
{
        const char *setting = startswith(value, SETTING_PREFIX), *equals = strchr(value, '=');
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (!setting || !equals || equals < setting)
                return option_annotation(o, value, target, e);
        name = strndup(setting, (size_t) (equals - setting));
        if (!name)
                return error_oom(e);
        if (app_setting_check(name, equals + 1, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        return option_annotation(o, value, target, e);
}

/* A setting of the app, with the name of its option. */
int option_setting(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (app_setting_check(o->name, value, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        if (xasprintf(&name, SETTING_PREFIX "%s", o->name) < 0 || pair_list_set(target, name, value) < 0)
                return error_oom(e);
        return 0;
}

/* The profile itself is kept: what its file has later does not matter. */
int option_seccomp_profile(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_at(AT_FDCWD, value, SECCOMP_PROFILE_SIZE_MAX, &text, &size);
        if (r < 0)
                return r == -EBADMSG ? option_invalid(o, value, e, "it is not a regular file")
                                     : option_invalid(o, value, e, "%s", strerror(-r));
        _cleanup_error_ Error reason = ERROR_NULL;
        r = seccomp_profile_parse(text, size, &p, &reason);
        if (r < 0)
                return option_invalid_because(o, value, e, &reason);
        return pair_list_set(target, SETTING_PREFIX "seccomp-profile", text) < 0 ? error_oom(e) : 0;
}

/* Several options are one list, as several names in one option are. */
int option_setting_add(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;
        _cleanup_free_ char *all = NULL, *name = NULL;

        if (xasprintf(&name, SETTING_PREFIX "%s", o->name) < 0)
                return error_oom(e);
        const char *before = pair_list_get(target, name);
        if (xasprintf(&all, "%s%s%s", before ?: "", before ? "," : "", value) < 0)
                return error_oom(e);
        if (app_setting_check(o->name, all, &reason) < 0)
                return option_invalid_because(o, value, e, &reason);
        return pair_list_set(target, name, all) < 0 ? error_oom(e) : 0;
}

static int set_input(const char *value, void *target, Error *e)
{
        return pair_list_set(target, SETTING_PREFIX "input", value) < 0 ? error_oom(e) : 0;
}

int option_tty(const Option *o, const char *value, void *target, Error *e)
{
        return set_input("terminal", target, e);
}

/* "-t -i" is the same as "-i -t". */
int option_interactive(const Option *o, const char *value, void *target, Error *e)
{
        if (streq_ptr(pair_list_get(target, SETTING_PREFIX "input"), "terminal"))
                return 0;
        return set_input(isatty(STDIN_FILENO) ? "terminal" : "pipe", target, e);
}

int option_stdin(const Option *o, const char *value, void *target, Error *e)
{
        return set_input("pipe", target, e);
}

int option_no_healthcheck(const Option *o, const char *value, void *target, Error *e)
{
        return pair_list_set(target, SETTING_PREFIX "health-cmd", "none") < 0 ? error_oom(e) : 0;
}

int option_pair(const Option *o, const char *value, void *target, Error *e)
{
        return add_pair(o, value, target, NULL, e);
}

/* --- Names and paths ----------------------------------------------------------------------------------- */

/* EXAMPLE: a valid value. */
static int check_word(const Option *o, const char *value, int (*check)(const char *, Error *),
                      const char *example, Error *e)
{
        _cleanup_error_ Error reason = ERROR_NULL;

        if (check(value, &reason) >= 0)
                return 0;
        int r = option_invalid_because(o, value, e, &reason);
        char label[OPTION_LABEL_MAX];
        option_label(o, label);
        return error_hint(e, r, "A valid one is %s%s%s.", label,
                          o->by_letter ? " "
                          : o->label   ? ""
                                       : "=",
                          example);
}

int option_pod_name(const Option *o, const char *value, void *target, Error *e)
{
        int r = check_word(o, value, pod_name_check, "web-1", e);

        return r < 0 ? r : option_string(o, value, target, e);
}

int option_hostname(const Option *o, const char *value, void *target, Error *e)
{
        int r = check_word(o, value, hostname_check, "web-1.example.org", e);

        return r < 0 ? r : option_string(o, value, target, e);
}

int option_app_name(const Option *o, const char *value, void *target, Error *e)
{
        int r = check_word(o, value, ac_name_check, "web-1", e);

        if (r < 0)
                return r;
        if (strlen(value) > APP_NAME_MAX)
                return option_invalid(o, value, e, "it is longer than %u characters", APP_NAME_MAX);
        return option_copy(o, value, target, e);
}

static const char user_forms[] = "must be a name, a number, or an absolute path in the image";

int option_group(const Option *o, const char *value, void *target, Error *e)
{
        return isempty(value) ? option_invalid(o, value, e, user_forms) : option_copy(o, value, target, e);
}

/* USER:GROUP sets both, and without one of them the other. A path may contain any character. */
int option_user(const Option *o, const char *value, void *target, Error *e)
{
        const char *colon = path_is_absolute(value) ? NULL : strchr(value, ':');
        AppOverrides *a = target;

        if (isempty(value))
                return option_invalid(o, value, e, user_forms);
        if (!colon)
                return option_copy(o, value, &a->user, e);
        if ((colon == value && !colon[1]) || strchr(colon + 1, ':'))
                return option_invalid(o, value, e, "must be USER, USER:GROUP or :GROUP");
        _cleanup_free_ char *user = strndup(value, (size_t) (colon - value));
        if (!user)
                return error_oom(e);
        int r = *user ? option_copy(o, user, &a->user, e) : 0;
        return r < 0 || !colon[1] ? r : option_copy(o, colon + 1, &a->group, e);
}

static int check_directory(const char *s, Error *e)
{
        _cleanup_free_ char *normal = NULL;

        int r = path_normalize(s, &normal);
        if (r == -ENOMEM)
                return error_oom(e);
        return r < 0 ? error_set(e, -EINVAL, "must be an absolute path without '..'") : 0;
}

int option_working_directory(const Option *o, const char *value, void *target, Error *e)
{
        int r = check_word(o, value, check_directory, "/srv/www", e);

        return r < 0 ? r : option_copy(o, value, target, e);
}

/* --- The rest ------------------------------------------------------------------------------------------ */

int option_exec(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **exec = NULL;

        if (isempty(value))
                return option_invalid(o, value, e, "must not be empty");
        if (strv_extend(&exec, value) < 0)
                return error_oom(e);
        strv_free(*(char ***) target);
        *(char ***) target = TAKE_PTR(exec);
        return 0;
}

int option_gids(const Option *o, const char *value, void *target, Error *e)
{
        _cleanup_strv_free_ char **words = NULL;
        AppOverrides *a = target;

        if (strv_split(value, ",", &words) < 0)
                return error_oom(e);
        if (!words)
                return option_invalid(o, value, e, "must be group numbers, as in 4,27");
        STRV_FOREACH (s, words) {
                uint32_t gid;

                if (parse_u32(*s, &gid) < 0 || gid == UINT32_MAX)
                        return option_invalid(o, value, e, "'%s' is not a group number", *s);
                if (GREEDY_REALLOC(a->supplementary_gids, a->supplementary_gids_allocated,
                                   a->n_supplementary_gids + 1) < 0)
                        return error_oom(e);
                a->supplementary_gids[a->n_supplementary_gids++] = gid;
        }
        return 0;
}

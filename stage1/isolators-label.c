/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Labels of security modules: the state of AppArmor and SELinux on this host, whether the profile or the
 * context that a manifest names exists, and the verdict on it.
 *
 * A label is in force only if its module enforces it. A profile in complain mode, or a context of a
 * permissive domain, is applied to the app but forbids nothing: that is reported as modified, so that
 * --strict refuses it. A label that does not exist keeps the pod from being made and from running, since the
 * launcher could only fail later. Where the kernel's lists cannot be read, the kernel refuses the label when
 * the app is executed (launch/label.c).
 */

#include "stage1/isolators-internal.h"
#include "stage1/launch-protocol.h"

#define APPARMOR_ENABLED "/sys/module/apparmor/parameters/enabled"
#define APPARMOR_PROFILES "/sys/kernel/security/apparmor/profiles"
#define SELINUX_DIR "/sys/fs/selinux"
#define PROFILES_SIZE_MAX (4U * 1024U * 1024U)
#define CONTEXT_SIZE_MAX 4096U
#define STACK_SEPARATOR "//&"

/* In ascending order of what a profile forbids. */
typedef enum ProfileMode {
        PROFILE_MISSING,
        PROFILE_UNCONFINED,
        PROFILE_COMPLAIN,
        PROFILE_UNKNOWN, /* the kernel's list cannot be read */
        PROFILE_ENFORCE,
} ProfileMode;

/* --- State of the host's modules
 * -------------------------------------------------------------------------------- */

/* Whether FILE, a module parameter of one letter, contains LETTER. */
static bool module_parameter_is(const char *file, char letter)
{
        _cleanup_free_ char *text = NULL;

        return read_file_at(AT_FDCWD, file, 8192, &text, NULL) >= 0 && *text == letter;
}

SelinuxState selinux_state(const char *dir)
{
        _cleanup_free_ char *enforce = NULL, *context = NULL, *of_kernel = NULL;

        if (xasprintf(&enforce, "%s/enforce", dir) < 0 || access(enforce, F_OK) < 0)
                return SELINUX_OFF;
        /* Until a policy is loaded, the initial contexts are plain names. */
        if (xasprintf(&context, "%s/initial_contexts/kernel", dir) < 0 ||
            read_file_at(AT_FDCWD, context, CONTEXT_SIZE_MAX, &of_kernel, NULL) < 0 ||
            !strchr(of_kernel, ':'))
                return SELINUX_NO_POLICY;
        return module_parameter_is(enforce, '1') ? SELINUX_ENFORCING : SELINUX_PERMISSIVE;
}

void host_labels_detect(HostFeatures *h)
{
        h->apparmor = module_parameter_is(APPARMOR_ENABLED, 'Y');
        h->apparmor_profiles = APPARMOR_PROFILES;
        h->selinux = selinux_state(SELINUX_DIR);
        h->selinux_access = SELINUX_DIR "/access";
}

/* --- AppArmor ------------------------------------------------------------------------------------------ */

/* The list shows profiles of other namespaces as ":NAMESPACE://NAME"; the slashes are optional in a
 * request. */
static int listed_name(const char *part, size_t n, char **ret)
{
        const char *colon = n > 1 && *part == ':' ? memchr(part + 1, ':', n - 1) : NULL;

        if (!colon || startswith(colon, "://"))
                return xasprintf(ret, "%.*s", (int) n, part);
        return xasprintf(ret, "%.*s//%.*s", (int) (colon + 1 - part), part, (int) (part + n - colon - 1),
                         colon + 1);
}

/* A line is "NAME (MODE)", and a name may have spaces. */
static ProfileMode find_mode(char *const *lines, const char *name)
{
        size_t n = strlen(name);

        STRV_FOREACH (line, lines) {
                const char *mode = strrchr(*line, '(');
                if (!mode || (size_t) (mode - *line) != n + 1 || strncmp(*line, name, n) != 0)
                        continue;
                return streq(mode, "(complain)")     ? PROFILE_COMPLAIN
                       : streq(mode, "(unconfined)") ? PROFILE_UNCONFINED
                                                     : PROFILE_ENFORCE;
        }
        return PROFILE_MISSING;
}

static int read_profiles(const char *file, char ***ret)
{
        _cleanup_free_ char *text = NULL;
        int r = read_file_at(AT_FDCWD, file, PROFILES_SIZE_MAX, &text, NULL);

        return r < 0 ? r : strv_split(text, "\n", ret);
}

/* Looks NAME up in the list in FILE. Several profiles may be stacked; the mode is then that of the weakest,
 * since that is what can be relied on. */
static int read_profile_mode(const char *file, const char *name, ProfileMode *ret)
{
        _cleanup_strv_free_ char **lines = NULL;
        ProfileMode weakest = PROFILE_ENFORCE;
        bool confined = false; /* stacked on "unconfined", a profile is as strong as it is alone */
        int r = read_profiles(file, &lines);

        name = *name == '&' ? name + 1 : name;
        for (const char *part = name, *end; r >= 0 && part;
             part = end ? end + strlen(STACK_SEPARATOR) : NULL) {
                _cleanup_free_ char *listed = NULL;
                end = strstr(part, STACK_SEPARATOR);
                r = listed_name(part, end ? (size_t) (end - part) : strlen(part), &listed);
                if (r < 0 || streq(listed, "unconfined"))
                        continue;
                confined = true;
                weakest = MIN(weakest, find_mode(lines, listed));
        }
        if (r >= 0)
                *ret = confined ? weakest : PROFILE_UNCONFINED;
        return r;
}

static ProfileMode profile_mode(const HostFeatures *h, const char *name)
{
        ProfileMode mode = PROFILE_UNKNOWN;

        if (h->apparmor_profiles)
                (void) read_profile_mode(h->apparmor_profiles, name, &mode);
        return mode;
}

IsolatorVerdict apparmor_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        const char *name = i->text ?: "";

        if (!j->host->apparmor) {
                text_add(detail, "AppArmor is not active on this host");
                return ISOLATOR_IGNORED;
        }
        if (streq(name, "unconfined")) {
                text_add(detail, "the app runs without a profile: AppArmor does not restrict it");
                return ISOLATOR_OFF;
        }
        switch (profile_mode(j->host, name)) {
        case PROFILE_UNKNOWN:
                text_addf(detail,
                          "the app is executed in the profile %s, whose mode is unknown: the kernel's list "
                          "of profiles cannot be read",
                          name);
                return ISOLATOR_MODIFIED;
        case PROFILE_MISSING:
                text_addf(detail, "the profile %s is not loaded on this host", name);
                return ISOLATOR_IGNORED;
        case PROFILE_COMPLAIN:
                text_addf(detail, "the profile %s is in complain mode: violations are logged, but allowed",
                          name);
                return ISOLATOR_MODIFIED;
        case PROFILE_UNCONFINED:
                text_addf(detail, "the profile %s is in unconfined mode: it restricts nothing", name);
                return ISOLATOR_MODIFIED;
        default:
                text_addf(detail, "the app is executed in the profile %s", name);
                return ISOLATOR_ENFORCED;
        }
}

const Isolator *apparmor_default(const App *app)
{
        static const Isolator defaults[] = {
                        {.name = (char *) "os/linux/apparmor-profile",
                         .type = ISOLATOR_APPARMOR_PROFILE,
                         .text = (char *) APP_PROFILE},
                        {.name = (char *) "os/linux/apparmor-profile",
                         .type = ISOLATOR_APPARMOR_PROFILE,
                         .text = (char *) APP_PROFILE_MOUNTS},
        };

        if (isolator_list_find(&app->isolators, ISOLATOR_APPARMOR_PROFILE))
                return NULL;
        return &defaults[stage1_app_may_mount(app)];
}

bool stage1_has_no_profiles(const HostFeatures *h)
{
        _cleanup_strv_free_ char **lines = NULL;

        return h->apparmor_profiles && read_profiles(h->apparmor_profiles, &lines) >= 0 &&
               find_mode(lines, APP_PROFILE) == PROFILE_MISSING &&
               find_mode(lines, APP_PROFILE_MOUNTS) == PROFILE_MISSING;
}

/* --- SELinux ------------------------------------------------------------------------------------------- */

/* Only the kernel knows the policy. FILE of selinuxfs is queried for the access of a process of CONTEXT to
 * another of the same context; of the reply only the last number is used, which has a bit for permissive
 * domains. -EINVAL: the policy has no such context. */
static int query_context(const char *file, const char *context, bool *ret_permissive)
{
        enum { ANY_CLASS = 1, IS_PERMISSIVE = 1 };
        _cleanup_close_ int fd = open(file, O_RDWR | O_CLOEXEC);
        _cleanup_free_ char *question = NULL;
        char answer[256];

        if (fd < 0 || xasprintf(&question, "%s %s %d", context, context, ANY_CLASS) < 0)
                return fd < 0 ? -errno : -ENOMEM;
        if (write(fd, question, strlen(question)) < 0)
                return -errno;
        ssize_t n = read(fd, answer, sizeof(answer) - 1);
        if (n <= 0)
                return n < 0 ? -errno : -EBADMSG;
        answer[n] = 0;
        const char *flags = strrchr(answer, ' ');
        *ret_permissive = flags && strtoul(flags + 1, NULL, 16) & IS_PERMISSIVE;
        return 0;
}

/* -EINVAL: the policy has no such context. Other errors: the kernel cannot be queried. */
static int check_context(const HostFeatures *h, const char *context, bool *ret_permissive)
{
        *ret_permissive = false;
        return h->selinux_access ? query_context(h->selinux_access, context, ret_permissive) : -ENOENT;
}

IsolatorVerdict selinux_verdict(const VerdictInput *j, Text *detail)
{
        const Isolator *i = j->isolator;
        static const char *const inactive[] = {
                        [SELINUX_OFF] = "SELinux is not active on this host",
                        [SELINUX_NO_POLICY] = "SELinux is active on this host, but has no policy",
        };
        const char *context = i->text ?: "";
        const HostFeatures *h = j->host;
        bool permissive;

        if (h->selinux <= SELINUX_NO_POLICY) {
                text_add(detail, inactive[h->selinux]);
                return ISOLATOR_IGNORED;
        }
        int r = check_context(h, context, &permissive);
        if (r == -EINVAL) {
                text_addf(detail, "the SELinux policy of this host has no context %s", context);
                return ISOLATOR_IGNORED;
        }
        text_addf(detail, "the app is executed in the context %s", context);
        if (r < 0 && h->selinux == SELINUX_ENFORCING) {
                text_add(detail,
                         "; whether its domain is permissive is not known: the kernel cannot be queried");
                return ISOLATOR_MODIFIED;
        }
        if (h->selinux == SELINUX_ENFORCING && !permissive)
                return ISOLATOR_ENFORCED;
        text_addf(detail, ", but %s is permissive: violations of the policy are logged, but allowed",
                  permissive ? "its domain" : "SELinux");
        return ISOLATOR_MODIFIED;
}

/* --- Checks before a pod is made or run ---------------------------------------------------------------- */

static int check_profile(const PodApp *app, const char *name, const HostFeatures *h, Error *e)
{
        if (!h->apparmor || profile_mode(h, name) != PROFILE_MISSING)
                return 0;
        int r = error_set(e, -ENOENT,
                          "App %s is to run in the AppArmor profile %s, which is not loaded on this host",
                          app->name, name);
        return error_hint(e, r,
                          "Load it with apparmor_parser, or name another with --apparmor-profile= after the "
                          "image.");
}

static int check_selinux(const PodApp *app, const char *context, const HostFeatures *h, Error *e)
{
        bool permissive;

        if (h->selinux <= SELINUX_NO_POLICY || check_context(h, context, &permissive) != -EINVAL)
                return 0;
        int r = error_set(e, -EINVAL,
                          "App %s is to run in the SELinux context %s, which the policy of this host does "
                          "not have",
                          app->name, context);
        return error_hint(e, r,
                          "Install a policy that has it, or name another with --selinux-context= after the "
                          "image.");
}

int labels_check(const PodApp *app, const HostFeatures *h, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < app->app->isolators.n; i++) {
                const Isolator *isolator = &app->app->isolators.items[i];
                if (isolator->type == ISOLATOR_APPARMOR_PROFILE)
                        r = check_profile(app, isolator->text, h, e);
                else if (isolator->type == ISOLATOR_SELINUX_CONTEXT)
                        r = check_selinux(app, isolator->text, h, e);
        }
        return r;
}

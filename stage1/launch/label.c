/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Labels of security modules: the AppArmor profile and the SELinux context that the app is executed in. The
 * kernel applies them at the next exec, so they can be set before the launcher drops any privileges. A label
 * for a module that is not active on the host is ignored, as 'acnspawn status' reports. A label that an
 * active module refuses keeps the app from starting. An app without a profile of its own gets the one that
 * comes with acnspawn, if it is loaded.
 */

#include "stage1/launch/launch.h"

static int write_label(int attr_fd, const char *const *files, const char *label)
{
        for (size_t i = 0; files[i]; i++)
                if (faccessat(attr_fd, files[i], F_OK, 0) >= 0)
                        return write_attribute_at(attr_fd, files[i], label);
        return -ENOSYS;
}

static int choose_profile(const LaunchConfig *c, int attr_fd, Failure *f)
{
        /* Where modules are stacked, each has a directory of its own. */
        static const char *const files[] = {"apparmor/exec", "exec", NULL};
        _cleanup_free_ char *command = NULL;

        int r = xasprintf(&command, "exec %s", c->apparmor_profile);
        if (r >= 0)
                r = write_label(attr_fd, files, command);
        if (r == -ENOENT)
                return failure_set(f, CAUSE_SETUP, r, "The AppArmor profile %s of app %s is not loaded",
                                   c->apparmor_profile, c->app);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot use the AppArmor profile %s for app %s",
                                         c->apparmor_profile, c->app)
                     : 0;
}

/* If acnspawn itself runs in a profile, its apps stay in that profile. */
static bool is_unconfined(int attr_fd)
{
        static const char *const files[] = {"apparmor/current", "current"};

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_free_ char *text = NULL;
                if (read_file_at(attr_fd, files[i], 4096, &text, NULL) >= 0)
                        return startswith(text, "unconfined") != NULL;
        }
        return false;
}

/* The kernel fails if the profile is not loaded, which the supervisor may not know; the app then runs without, and
 * 'acnspawn status' reports that. */
static int choose_default_profile(LaunchConfig *c, unsigned modules, int attr_fd, Failure *f)
{
        const char *name = c->may_mount ? APP_PROFILE_MOUNTS : APP_PROFILE;

        if (modules & LAUNCH_NO_PROFILES || !is_unconfined(attr_fd))
                return 0;
        c->apparmor_profile = strdup(name);
        if (!c->apparmor_profile)
                return failure_set(f, CAUSE_SETUP, -ENOMEM, "Out of memory");
        int r = choose_profile(c, attr_fd, f);
        if (r != -ENOENT)
                return r;
        error_done(&f->error);
        free(c->apparmor_profile);
        c->apparmor_profile = NULL;
        return 0;
}

static int choose_context(const LaunchConfig *c, int attr_fd, Failure *f)
{
        static const char *const files[] = {"selinux/exec", "exec", NULL};
        int r = write_label(attr_fd, files, c->selinux_context);

        if (r == -EINVAL)
                return failure_set(f, CAUSE_SETUP, r,
                                   "The SELinux policy has no context %s, which app %s is to run in",
                                   c->selinux_context, c->app);
        return r < 0 ? failure_set_errno(f, CAUSE_SETUP, r, "Cannot use the SELinux context %s for app %s",
                                         c->selinux_context, c->app)
                     : 0;
}

int label_describe(const LaunchConfig *c, unsigned modules, char **ret)
{
        const char *profile = modules & LAUNCH_APPARMOR ? c->apparmor_profile : NULL;
        const char *context = modules & LAUNCH_SELINUX ? c->selinux_context : NULL;

        return xasprintf(ret, "%s%s%s%s", profile ? " in the AppArmor profile " : "", profile ?: "",
                         context ? " in the SELinux context " : "", context ?: "");
}

int label_next_exec(LaunchConfig *c, unsigned modules, int attr_fd, Failure *f)
{
        int r = 0;

        if (modules & LAUNCH_APPARMOR)
                r = c->apparmor_profile ? choose_profile(c, attr_fd, f)
                                        : choose_default_profile(c, modules, attr_fd, f);
        if (r >= 0 && c->selinux_context && modules & LAUNCH_SELINUX)
                r = choose_context(c, attr_fd, f);
        return r;
}

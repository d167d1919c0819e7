/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/isolators-label.c: profiles and contexts, and the verdicts about them. Files stand for those of the
 * kernel. */

#include <sys/stat.h>

#include "stage1/isolators-internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define PROFILES                                                                                            \
        "web (enforce)\nweb//inner (complain)\nmy profile (x) (kill)\nfree (unconfined)\n"                  \
        ":ns://web (enforce)\nwebs (complain)\n"

/* An app with one label; returns the error, or the verdict. */
static char *judge(IsolatorType type, const char *label, const HostFeatures *h)
{
        Isolator i = {.name = (char *) "x", .type = type, .text = (char *) label};
        App object = {.isolators = {.items = &i, .n = 1}};
        PodApp app = {.name = (char *) "a", .app = &object};
        PodApp *list[] = {&app};
        PodManifest m = {.apps = list, .n_apps = 1};
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *detail = NULL;
        IsolatorVerdict v;
        char *text = NULL;

        int r = stage1_isolators_check(&m, h, &e);
        if (isolator_verdict(&object.isolators, &i, false, h, &v, &detail) < 0 ||
            xasprintf(&text, "%s%s%s: %s", r < 0 ? e.message : "", r < 0 ? "; " : "",
                      isolator_verdict_to_string(v), detail) < 0)
                return NULL;
        return text;
}

TEST(profiles)
{
        static const struct {
                const char *name, *expected;
        } l[] = {
                        {"web", "enforced: the app is executed in the profile web"},
                        {"my profile (x)", "enforced: "},
                        {"unconfined", "off: the app runs without a profile: AppArmor does not restrict it"},
                        {"unconfined//&unconfined",
                         "modified: the profile unconfined//&unconfined is in unconfined mode"},
                        {"web//&unconfined", "enforced: "},
                        {":ns:web", "enforced: "},
                        {":ns://web", "enforced: "},
                        {"&web", "enforced: "},
                        {"web//&:ns:web", "enforced: "},
                        {"web//inner", "modified: the profile web//inner is in complain mode"},
                        {"web//&webs", "modified: the profile web//&webs is in complain mode"},
                        {"free", "modified: the profile free is in unconfined mode"},
                        {"we",
                         "App a is to run in the AppArmor profile we, which is not loaded on this host; "
                         "ignored: the profile we is not loaded on this host"},
                        {"web (enforce)", "which is not loaded"},
                        {"web//inner//deeper", "which is not loaded"},
                        {"web//&we", "which is not loaded"},
                        {":ns:inner", "which is not loaded"},
                        {":web", "which is not loaded"},
                        {"&", "which is not loaded"},
                        {"web//&", "which is not loaded"},
        };
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *file = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(scratch_file(&s, "profiles", PROFILES));
        ASSERT_OK(xasprintf(&file, "%s/profiles", s.path));
        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                const HostFeatures h = {.apparmor = true, .apparmor_profiles = file},
                                   off = {.apparmor_profiles = file};
                _cleanup_free_ char *text = judge(ISOLATOR_APPARMOR_PROFILE, l[i].name, &h);
                _cleanup_free_ char *ignored = judge(ISOLATOR_APPARMOR_PROFILE, l[i].name, &off);
                ASSERT_CONTAINS(text, l[i].expected);
                ASSERT_STREQ(ignored, "ignored: AppArmor is not active on this host");
        }
}

/* The list says so, and only a list that can be read. */
TEST(no_profiles_of_acnspawn)
{
        static const struct {
                const char *list;
                bool missing;
        } l[] = {
                        {PROFILES, true},
                        {"", true},
                        {"acnspawn-app-mount (enforce)\nacnspawn-app2 (enforce)\n", true},
                        {PROFILES "acnspawn-app (enforce)\n", false},
                        {"acnspawn-app-mounts (complain)\n", false},
        };
        const HostFeatures none = {.apparmor = true}, unreadable = {.apparmor_profiles = "/nonexistent"};

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                _cleanup_free_ char *file = NULL;
                ASSERT_OK(scratch_new(&s));
                ASSERT_OK(scratch_file(&s, "profiles", l[i].list));
                ASSERT_OK(xasprintf(&file, "%s/profiles", s.path));
                const HostFeatures h = {.apparmor = true, .apparmor_profiles = file};
                ASSERT_EQ(stage1_has_no_profiles(&h), l[i].missing);
        }
        ASSERT_TRUE(!stage1_has_no_profiles(&none));
        ASSERT_TRUE(!stage1_has_no_profiles(&unreadable));
}

/* The kernel refuses profiles that are not loaded; the rules of a profile are unknown. */
TEST(profiles_that_cannot_be_looked_for)
{
        const HostFeatures unknown = {.apparmor = true},
                           missing = {.apparmor = true, .apparmor_profiles = "/nonexistent"};
        _cleanup_free_ char *a = judge(ISOLATOR_APPARMOR_PROFILE, "web", &unknown);
        _cleanup_free_ char *b = judge(ISOLATOR_APPARMOR_PROFILE, "web", &missing);

        ASSERT_STREQ(a, "modified: the app is executed in the profile web, whose mode is unknown: the "
                        "kernel's list of profiles cannot be read");
        ASSERT_STREQ(b, a);
}

TEST(selinux_states)
{
        static const struct {
                const char *enforce, *context;
                SelinuxState expected;
        } l[] = {
                        {NULL, NULL, SELINUX_OFF},
                        {"0", NULL, SELINUX_NO_POLICY},
                        {"1", "kernel", SELINUX_NO_POLICY},
                        {"0", "system_u:system_r:kernel_t:s0", SELINUX_PERMISSIVE},
                        {"1", "system_u:system_r:kernel_t:s0", SELINUX_ENFORCING},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
                ASSERT_OK(scratch_new(&s));
                if (l[i].enforce)
                        ASSERT_OK(scratch_file(&s, "enforce", l[i].enforce));
                ASSERT_OK(scratch_dir(&s, "initial_contexts"));
                if (l[i].context)
                        ASSERT_OK(scratch_file(&s, "initial_contexts/kernel", l[i].context));
                ASSERT_EQ(selinux_state(s.path), l[i].expected);
        }
}

/* A file that accepts only numbers stands for a policy without the context; a FIFO returns the query itself,
 * which ends with 1, like the reply about a permissive domain. */
TEST(contexts)
{
        static const struct {
                SelinuxState state;
                const char *access, *expected;
        } l[] = {
                        {SELINUX_OFF, NULL, "ignored: SELinux is not active on this host"},
                        {SELINUX_NO_POLICY, NULL,
                         "ignored: SELinux is active on this host, but has no policy"},
                        {SELINUX_PERMISSIVE, NULL,
                         "modified: the app is executed in the context u:r:t:s0, but SELinux is "
                         "permissive: "},
                        {SELINUX_ENFORCING, NULL,
                         "modified: the app is executed in the context u:r:t:s0; whether its domain is "
                         "permissive is not known: the kernel cannot be queried"},
                        {SELINUX_ENFORCING, "/nonexistent",
                         "modified: the app is executed in the context u:r:t:s0; whether"},
                        {SELINUX_ENFORCING, "fifo",
                         "modified: the app is executed in the context u:r:t:s0, but its domain is "
                         "permissive: "},
                        {SELINUX_ENFORCING, "/proc/self/oom_score_adj",
                         "App a is to run in the SELinux context u:r:t:s0, which the policy of this host "
                         "does not have; ignored: the SELinux policy of this host has no context u:r:t:s0"},
                        {SELINUX_NO_POLICY, "/proc/self/oom_score_adj", "ignored: SELinux is active"},
        };
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *fifo = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(xasprintf(&fifo, "%s/fifo", s.path));
        ASSERT_OK(mkfifo(fifo, 0600));
        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                const HostFeatures h = {.selinux = l[i].state,
                                        .selinux_access =
                                                        streq_ptr(l[i].access, "fifo") ? fifo : l[i].access};
                _cleanup_free_ char *text = judge(ISOLATOR_SELINUX_CONTEXT, "u:r:t:s0", &h);
                ASSERT_CONTAINS(text, l[i].expected);
                ASSERT_EQ(strncmp(text, l[i].expected, 8), 0);
        }
}

int main(void)
{
        RUN(profiles);
        RUN(no_profiles_of_acnspawn);
        RUN(profiles_that_cannot_be_looked_for);
        RUN(selinux_states);
        RUN(contexts);
        return TEST_END();
}

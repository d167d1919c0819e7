/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The capabilities of containers, and the labels of their mounts. */

#include <sys/stat.h>
#include <sys/xattr.h>

#include <signal.h>

#include "cri/sandbox.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

static uint64_t bit(const char *name)
{
        for (size_t i = 0; i < CRI_N_CAPABILITIES; i++)
                if (streq(cri_capabilities[i].name, name))
                        return UINT64_C(1) << i;
        return UINT64_C(1) << 63;
}

static uint64_t defaults(void)
{
        uint64_t mask = 0;

        for (size_t i = 0; i < CRI_N_CAPABILITIES; i++)
                mask |= cri_capabilities[i].by_default ? UINT64_C(1) << i : 0;
        return mask;
}

static size_t count(const char *const *l)
{
        size_t n = 0;

        while (n < 3 && l[n])
                n++;
        return n;
}

TEST(sets)
{
        const uint64_t all = (UINT64_C(1) << CRI_N_CAPABILITIES) - 1, raw = bit("CAP_NET_RAW"), admin = bit("CAP_SYS_ADMIN"),
                       other = bit("CAP_CHOWN");
        struct {
                const char *add[3], *drop[3], *ambient[3];
                uint64_t mask, ambient_mask;
        } l[] = {
                        {{NULL}, {NULL}, {NULL}, defaults(), 0},
                        {{"SYS_ADMIN"}, {NULL}, {NULL}, defaults() | admin, 0},
                        {{"cap_sys_admin"}, {"CAP_NET_RAW"}, {NULL}, (defaults() | admin) & ~raw, 0},
                        {{NULL}, {"all"}, {NULL}, 0, 0},
                        {{"NET_RAW"}, {"ALL"}, {NULL}, raw, 0},
                        {{"ALL"}, {NULL}, {NULL}, all, 0},
                        {{"ALL"}, {"NET_RAW"}, {NULL}, all & ~raw, 0},
                        {{"NET_RAW"}, {"NET_RAW"}, {NULL}, defaults() & ~raw, 0},
                        {{"CHOWN", "ALL"}, {"ALL"}, {NULL}, other, 0},
                        {{NULL}, {"ALL"}, {"NET_RAW"}, raw, raw},
                        {{"SYS_ADMIN"}, {"ALL", "CHOWN"}, {"ALL"}, admin, admin},
                        {{NULL}, {"NET_RAW"}, {"NET_RAW", "CHOWN"}, defaults() & ~raw, other},
        };

        for (size_t i = 0; i < ELEMENTSOF(l); i++) {
                Runtime__V1__Capability c = RUNTIME__V1__CAPABILITY__INIT;
                uint64_t mask = 1, ambient = 1;

                c.add_capabilities = (char **) (void *) l[i].add;
                c.n_add_capabilities = count(l[i].add);
                c.drop_capabilities = (char **) (void *) l[i].drop;
                c.n_drop_capabilities = count(l[i].drop);
                c.add_ambient_capabilities = (char **) (void *) l[i].ambient;
                c.n_add_ambient_capabilities = count(l[i].ambient);
                ASSERT_OK(security_capabilities(&c, &mask, &ambient, NULL));
                ASSERT_EQ(mask, l[i].mask);
                ASSERT_EQ(ambient, l[i].ambient_mask);
        }
}

TEST(unknown_names_are_refused)
{
        char known[] = "CAP_CHOWN", unknown[] = "CAP_", *names[] = {known, unknown};
        Runtime__V1__Capability c = RUNTIME__V1__CAPABILITY__INIT;
        _cleanup_error_ Error e = ERROR_NULL;
        uint64_t mask, ambient;

        c.drop_capabilities = names;
        c.n_drop_capabilities = 2;
        ASSERT_EQ(security_capabilities(&c, &mask, &ambient, &e), -EINVAL);
        ASSERT_STREQ(e.message, "The field 'linux.security_context.capabilities.drop_capabilities' has 'CAP_', which is not a "
                                "capability");
}

#define LABEL "system_u:object_r:container_file_t:s0:c1,c2"

static bool is_labelled(const Scratch *s, const char *name)
{
        _cleanup_free_ char *path = NULL;
        char value[128] = "";

        if (xasprintf(&path, "%s/%s", s->path, name) < 0)
                return false;
        ssize_t n = lgetxattr(path, "security.selinux", value, sizeof(value));
        return n == (ssize_t) sizeof(LABEL) && memcmp(value, LABEL, sizeof(LABEL)) == 0;
}

/* Links are labelled, not what they lead to. */
TEST(labels_of_all_below)
{
        static const char *const labelled[] = {"v", "v/a", "v/a/b", "v/a/b/f", "v/link", "v/up"};
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        _cleanup_free_ char *path = NULL;

        ASSERT_OK(scratch_new(&s));
        ASSERT_OK(xasprintf(&path, "%s/v", s.path));
        ASSERT_OK(mkdirat(s.fd, "v", 0700));
        ASSERT_OK(mkdirat(s.fd, "v/a", 0700));
        ASSERT_OK(mkdirat(s.fd, "v/a/b", 0700));
        ASSERT_OK(write_file_new_at(s.fd, "v/a/b/f", "x", 1, 0400));
        ASSERT_OK(write_file_new_at(s.fd, "outside", "x", 1, 0600));
        ASSERT_OK(symlinkat("../outside", s.fd, "v/link"));
        ASSERT_OK(symlinkat("..", s.fd, "v/up"));
        if (lsetxattr(path, "security.selinux", LABEL, sizeof(LABEL), 0) < 0)
                TEST_SKIP("no labels can be set here: %s", strerror(errno));
        ASSERT_OK(lremovexattr(path, "security.selinux"));
        ASSERT_OK(relabel_tree(path, LABEL, NULL, NULL));
        for (size_t i = 0; i < ELEMENTSOF(labelled); i++)
                ASSERT_TRUE(is_labelled(&s, labelled[i]));
        ASSERT_TRUE(!is_labelled(&s, "outside"));
        ASSERT_TRUE(!is_labelled(&s, "."));
}

TEST(labels_that_are_refused)
{
        static const char *const paths[] = {"/", "/usr", "/etc/ssl", "/var/../var/lib", "/tmp/.", "/proc/self"};

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                _cleanup_error_ Error e = ERROR_NULL;
                if (access(paths[i], F_OK) < 0)
                        continue;
                ASSERT_EQ(relabel_tree(paths[i], LABEL, NULL, &e), -EINVAL);
                ASSERT_CONTAINS(e.message, "a directory of the system");
        }
        _cleanup_error_ Error e = ERROR_NULL;
        ASSERT_EQ(relabel_tree("/no/such/path", LABEL, NULL, &e), -ENOENT);
        ASSERT_CONTAINS(e.message, "Cannot give /no/such/path the SELinux label of the container");
}

TEST(signals)
{
        ASSERT_EQ(cri_signal_to_number(RUNTIME__V1__SIGNAL__RUNTIME_DEFAULT), 0);
        ASSERT_EQ(cri_signal_to_number(RUNTIME__V1__SIGNAL__SIGTERM), SIGTERM);
        ASSERT_EQ(cri_signal_to_number(RUNTIME__V1__SIGNAL__SIGPOLL), SIGIO);
        ASSERT_EQ(cri_signal_to_number(RUNTIME__V1__SIGNAL__SIGRTMINPLUS3), SIGRTMIN + 3);
        ASSERT_EQ(cri_signal_to_number(RUNTIME__V1__SIGNAL__SIGRTMAXMINUS2), SIGRTMAX - 2);
        ASSERT_EQ(cri_signal_to_number((Runtime__V1__Signal) 999), 0);
        for (int v = RUNTIME__V1__SIGNAL__SIGABRT; v <= (int) RUNTIME__V1__SIGNAL__SIGRTMAX; v++) {
                int number = cri_signal_to_number((Runtime__V1__Signal) v);
                ASSERT_TRUE(number > 0);
                ASSERT_EQ(cri_signal_to_number(cri_signal_from_number(number)), number);
        }
        ASSERT_EQ(cri_signal_from_number(SIGCHLD), RUNTIME__V1__SIGNAL__SIGCHLD);
        ASSERT_EQ(cri_signal_from_number(0), RUNTIME__V1__SIGNAL__RUNTIME_DEFAULT);
}

int main(void)
{
        RUN(signals);
        RUN(sets);
        RUN(unknown_names_are_refused);
        RUN(labels_of_all_below);
        RUN(labels_that_are_refused);
        return TEST_END();
}

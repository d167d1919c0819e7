/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The capabilities of containers. */

#include "cri/sandbox.h"
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

int main(void)
{
        RUN(sets);
        RUN(unknown_names_are_refused);
        return TEST_END();
}

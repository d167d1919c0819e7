/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stage1/capabilities.c: the library is loaded for isolators that need it, and for no others. */

#include <linux/capability.h>
#include <sys/wait.h>

#include "library/libcapng.h"
#include "stage1/stage1.h"
#include "tests/unit/test.h"

#define RETAIN "{'name':'os/linux/capabilities-retain-set','value':{'set':['CAP_SYS_ADMIN','CAP_KILL']}}"
#define REMOVE "{'name':'os/linux/capabilities-remove-set','value':{'set':['CAP_KILL']}}"
#define MEMORY "{'name':'resource/memory','value':{'limit':'1G'}}"

static PodManifest *manifest(const char *pod, const char *app)
{
        _cleanup_free_ char *text = NULL;
        PodManifest *m = NULL;

        if (xasprintf(&text,
                      "{'acVersion':'0.8.11','acKind':'PodManifest','apps':[{'name':'a','image':{'name':'x.org/a'},"
                      "'app':{'exec':['/x'],'user':'0','group':'0','isolators':[%s]}}],'isolators':[%s]}",
                      app, pod) < 0)
                return NULL;
        for (char *c = text; *c; c++)
                *c = *c == '\'' ? '"' : *c;
        (void) pod_manifest_parse(text, strlen(text), &m, NULL, NULL);
        return m;
}

/* Whether it is loaded for such isolators. A library stays loaded, so each is a process of its own. */
static int loads_for(const char *pod, const char *app)
{
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
                bool declared;
                PodManifest *m = manifest(pod, app);
                if (!m || capng_library.loaded || stage1_load_libraries(m, NULL) < 0)
                        _exit(2);
                bool needed = capng_library.loaded;
                if (stage1_load_isolator_libraries(&m->apps[0]->app->isolators, NULL) < 0)
                        _exit(3);
                /* Without it, this must not call the library. */
                _exit((stage1_pod_capabilities(m, &declared) & UINT64_C(1) << CAP_CHOWN) == 0 ? 4 : needed);
        }
        return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(loaded_for_sets_of_capabilities)
{
        ASSERT_EQ(loads_for("", ""), 0);
        ASSERT_EQ(loads_for(MEMORY, MEMORY), 0);
        ASSERT_EQ(loads_for(RETAIN, ""), 1);
        ASSERT_EQ(loads_for("", RETAIN), 1);
        ASSERT_EQ(loads_for("", REMOVE), 1);
        ASSERT_EQ(loads_for(MEMORY, MEMORY "," REMOVE), 1);
        ASSERT_EQ(capng_library.loaded, 0);
}

TEST(names_of_the_default_set_need_no_library)
{
        uint64_t mask = stage1_capabilities(NULL);
        char name[STAGE1_CAPABILITY_NAME_SIZE];
        unsigned n = 0;

        for (unsigned i = 0; i < 64; i++)
                if (mask & UINT64_C(1) << i) {
                        ASSERT_TRUE(stage1_capability_name(i, name));
                        n++;
                }
        ASSERT_EQ(n, 14);
        ASSERT_EQ(capng_library.loaded, 0);
}

/* Those names are the library's own. */
TEST(names)
{
        char name[STAGE1_CAPABILITY_NAME_SIZE];

        ASSERT_OK(library_load(&capng_library, NULL));
        for (unsigned i = 0; i <= CAP_LAST_CAP; i++) {
                ASSERT_TRUE(stage1_capability_name(i, name));
                ASSERT_TRUE(startswith(name, "CAP_"));
                ASSERT_EQ(capng_name_to_capability(name + strlen("CAP_")), i);
                for (const char *c = name; *c; c++)
                        ASSERT_TRUE(is_upper(*c) || is_digit(*c) || *c == '_');
        }
        ASSERT_TRUE(!stage1_capability_name(63, name));
        ASSERT_TRUE(!stage1_capability_name(1000, name));
}

int main(void)
{
        RUN(loaded_for_sets_of_capabilities);
        RUN(names_of_the_default_set_need_no_library);
        RUN(names);
        return TEST_END();
}

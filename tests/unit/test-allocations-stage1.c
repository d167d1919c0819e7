/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in what is made of the manifest of a pod (the units, and the files of the launcher), and in what
 * is read of its apps and of programs that it runs. See allocations.h. */

#include "library/libcapng.h"
#include "stage1/elf-file.h"
#include "stage1/stage1.h"
#include "tests/unit/allocations.h"
#include "tests/unit/scratch.h"

/* --- The files of a pod -------------------------------------------------------------------------------- */

static int read_manifest(const char *name, PodManifest **ret, Error *e)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        unsigned at = allocations_suspend();

        int r = asprintf(&path, "%s/%s/manifest.json", GOLDEN_DIR, name) < 0 ? -ENOMEM : 0;
        if (r >= 0)
                r = read_file_at(AT_FDCWD, path, 65536, &text, NULL);
        if (r >= 0)
                r = pod_manifest_parse(text, strlen(text), ret, NULL, e);
        allocations_resume(at);
        return r;
}

static int generate(void *userdata, Text *result, Error *e)
{
        static const Stage1Options options = {
                        .uuid = "01234567-89ab-cdef-0123-456789abcdef",
                        .hostname = "pod",
                        .stop_timeout_usec = 10000000,
        };
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_stage1_files_ Stage1Files files = {};

        int r = read_manifest(userdata, &m, e);
        if (r >= 0)
                r = stage1_generate(m, &options, &files, e);
        for (size_t i = 0; r >= 0 && i < files.n; i++) {
                const Stage1File *f = &files.items[i];
                text_addf(result, "%s %s %o\n", f->path, f->target ?: "", f->mode);
                text_add_bytes(result, f->content ?: "", f->size);
        }
        return r;
}

INPUT(units_of_one_app, generate, "one-app")
INPUT(units_with_everything, generate, "everything")
INPUT(units_with_isolators, generate, "isolators-app")
INPUT(units_with_isolators_of_the_pod, generate, "isolators-pod")
INPUT(units_with_readiness, generate, "readiness")
INPUT(units_with_settings, generate, "settings")
INPUT(units_with_sockets, generate, "sockets")

/* Of one app: each time its filter of system calls is made. */
static int plan(void *userdata, Text *result, Error *e)
{
        _cleanup_(pod_manifest_freep) PodManifest *m = NULL;
        _cleanup_free_ char *launch = NULL;
        size_t size = 0;

        int r = read_manifest(userdata, &m, e);
        if (r >= 0)
                r = stage1_launch_file(m, m->apps[0], &launch, &size, e);
        for (size_t i = 0; i < size; i++)
                text_addf(result, "%c", launch[i] ?: '\n');
        return r;
}

INPUT(launch_file, plan, "everything")

/* --- Records of apps ----------------------------------------------------------------------------------- */

static int read_status(void *userdata, Text *result, Error *e)
{
        _cleanup_app_status_ AppStatus s = {};
        _cleanup_health_status_ HealthStatus h = {};
        int fd = ((Scratch *) userdata)->fd;

        int r = app_status_read(fd, "web", &s);
        if (r >= 0)
                r = health_status_read(fd, "web", &h);
        text_addf(result, "%s %d %s %s %s", app_state_to_string(s.state), s.exit_status, s.message ?: "",
                  s.identity ?: "", h.message ?: "");
        return without_message(r, e);
}

static int write_status(void *userdata, Text *result, Error *e)
{
        const AppStatus s = {.state = APP_RUNNING,
                             .exit_status = -1,
                             .message = (char *) "what\n",
                             .identity = (char *) "1 2"};
        const HealthStatus h = {.state = HEALTH_UNHEALTHY, .message = (char *) "output\n"};
        int fd = ((Scratch *) userdata)->fd;

        int r = app_status_write(fd, "web", &s);
        if (r >= 0)
                r = health_status_write(fd, "web", &h);
        text_add(result, "written");
        return without_message(r, e);
}

TEST(records_of_apps)
{
        _cleanup_(scratch_done) Scratch d = SCRATCH_NULL;

        ASSERT_OK(scratch_new(&d));
        for_each_failing_allocation(write_status, &d);
        for_each_failing_allocation(read_status, &d);
}

/* --- Programs ------------------------------------------------------------------------------------------ */

static int read_program(void *userdata, Text *result, Error *e)
{
        _cleanup_close_ int fd = open(userdata, O_RDONLY | O_CLOEXEC);
        _cleanup_elf_file_ ElfFile f = {};

        int r = fd < 0 ? -errno : elf_read(fd, &f);
        text_addf(result, "%s ", f.interpreter ?: "");
        add_list(result, f.needed);
        for (size_t i = 0; r >= 0 && i < f.n_dlopen_notes; i++)
                add_list(result, f.dlopen_notes[i].sonames);
        for (size_t i = 0; r >= 0 && f.needed && f.needed[i]; i++) {
                _cleanup_strv_free_ char **imports = NULL;
                r = elf_read_imports(fd, f.needed[i], &imports);
                if (r == -ENODATA) /* with a sanitizer */
                        r = 0;
                add_list(result, imports);
        }
        return without_message(r, e);
}

INPUT(programs, read_program, "/proc/self/exe")

int main(void)
{
        if (library_load(&capng_library, NULL) < 0)
                return 77;
        RUN(units_of_one_app);
        RUN(units_with_everything);
        RUN(units_with_isolators);
        RUN(units_with_isolators_of_the_pod);
        RUN(units_with_readiness);
        RUN(units_with_settings);
        RUN(units_with_sockets);
        if (!ALLOCATION_SANITIZED) /* a minute with it; what is left behind is counted without it, too */
                RUN(launch_file);
        RUN(records_of_apps);
        RUN(programs);
        return TEST_END();
}

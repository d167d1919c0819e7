/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The semantics of manifests: precedence of annotations, names of apps, whether a pod manifest is reified,
 * and the specification's labels for this machine.
 */

#include "schema/schema-internal.h"

int app_annotations_merge(const PairList *image, const PairList *app, PairList *ret)
{
        PairList merged = {};
        int r = pair_list_copy(image, &merged);

        for (size_t i = 0; i < app->n && r >= 0; i++)
                r = pair_list_set(&merged, app->items[i].name, app->items[i].value);
        if (r < 0) {
                pair_list_done(&merged);
                return r;
        }
        *ret = merged;
        return 0;
}

int ac_name_from(const char *s, size_t max, char **ret)
{
        char *name = malloc(MIN(strlen(s), max) + 1);
        size_t n = 0;

        if (!name)
                return -ENOMEM;
        for (; *s && n < max; s++) {
                char c = to_lower(*s);

                if (is_lower(c) || is_digit(c))
                        name[n++] = c;
                else if (n > 0 && name[n - 1] != '-')
                        name[n++] = '-';
        }
        while (n > 0 && name[n - 1] == '-')
                n--;
        name[n] = 0;
        if (n == 0) {
                free(name);
                return -EINVAL;
        }
        *ret = name;
        return 0;
}

int app_name_from_image_name(const char *image_name, char **ret)
{
        const char *slash = strrchr(image_name, '/');

        return ac_name_from(slash ? slash + 1 : image_name, SIZE_MAX, ret);
}

/* --- Reified pod manifests ----------------------------------------------------------------------------- */

static bool mount_has_volume(const PodManifest *m, const Mount *mount)
{
        return mount->app_volume || (mount->volume && pod_manifest_find_volume(m, mount->volume));
}

static bool mount_point_filled(const PodApp *a, const MountPoint *point)
{
        for (size_t i = 0; i < a->n_mounts; i++)
                if (streq_ptr(a->mounts[i].path, point->path))
                        return true;
        return false;
}

static void mounts_check(Parser *p, const PodManifest *m, const PodApp *a)
{
        for (size_t i = 0; i < a->n_mounts; i++) {
                const Mount *mount = a->mounts + i;
                size_t mark = parser_enter_key(p, "mounts");

                (void) parser_enter_index(p, i);
                if (!mount->path || !path_is_absolute(mount->path))
                        parser_finding(p, "has no path yet");
                if (!mount_has_volume(m, mount)) {
                        _cleanup_free_ char *quoted = quote_value(mount->volume ?: "");
                        parser_finding(p, "there is no volume %s", quoted ?: "of the name");
                }
                parser_leave(p, mark);
        }
}

static void mount_points_are_filled(Parser *p, const PodApp *a)
{
        for (size_t i = 0; a->app && i < a->app->n_mount_points; i++) {
                const MountPoint *point = a->app->mount_points + i;
                _cleanup_free_ char *quoted = NULL;

                if (mount_point_filled(a, point))
                        continue;
                size_t mark = parser_enter_key(p, "app");
                (void) parser_enter_key(p, "mountPoints");
                (void) parser_enter_index(p, i);
                quoted = quote_value(point->name ?: "");
                parser_finding(p, "no volume is mounted on mount point %s", quoted ?: "of the app");
                parser_leave(p, mark);
        }
}

static void pod_app_check(Parser *p, const PodManifest *m, const PodApp *a)
{
        if (!a->image_id) {
                size_t mark = parser_enter_key(p, "image");
                (void) parser_enter_key(p, "id");
                parser_finding(p, "is required to run the pod, but missing");
                parser_leave(p, mark);
        }
        mounts_check(p, m, a);
        mount_points_are_filled(p, a);
}

int pod_manifest_check_reified(const PodManifest *m, Error *e)
{
        _cleanup_findings_ Findings findings = {};
        _cleanup_parser_ Parser p = {.findings = &findings};

        for (size_t i = 0; i < m->n_apps; i++) {
                size_t mark = parser_enter_key(&p, "apps");
                (void) parser_enter_index(&p, i);
                pod_app_check(&p, m, m->apps[i]);
                parser_leave(&p, mark);
        }
        return parser_conclude(&p, "reified pod manifest", 0, e);
}

/* --- This machine -------------------------------------------------------------------------------------- */

const char *host_os_label(void)
{
        return "linux";
}

/* The architecture that this program was built for; images must match it, since the pod's own systemd is the
 * host's. */
const char *host_arch_label(void)
{
#if defined(__x86_64__)
        return "amd64";
#elif defined(__i386__)
        return "i386";
#elif defined(__aarch64__) && defined(__AARCH64EB__)
        return "aarch64_be";
#elif defined(__aarch64__)
        return "aarch64";
#elif defined(__arm__) && __ARM_ARCH >= 7 && defined(__ARMEB__)
        return "armv7b";
#elif defined(__arm__) && __ARM_ARCH >= 7
        return "armv7l";
#elif defined(__arm__)
        return "armv6l";
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return "ppc64le";
#elif defined(__powerpc64__)
        return "ppc64";
#elif defined(__s390x__)
        return "s390x";
#elif defined(__riscv) && __riscv_xlen == 64
        return "riscv64";
#elif defined(__loongarch64)
        return "loongarch64";
#else
#error "The table of labels has no name for this architecture"
#endif
}

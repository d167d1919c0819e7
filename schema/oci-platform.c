/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Platforms of images: converts OCI's names, which are Go's, to those of the label table of the App
 * Container specification, and selects the image of an index for this host.
 */

#include "schema/oci.h"
#include "schema/schema-internal.h"

/* Later entries of a label are preferred. The specification of OCI defines variants for arm only, but
 * builders write "v8" for arm64 as well; newer levels of a processor, such as amd64's v2, are not chosen, as
 * it is not known whether this host supports them. */
static const struct {
        const char *architecture, *variant; /* NULL: not given */
        const char *label;
} architectures[] = {
                {"386", NULL, "i386"},           {"amd64", "v1", "amd64"},
                {"amd64", NULL, "amd64"},        {"arm", "v5", "armv6l"},
                {"arm", "v6", "armv6l"},         {"arm", NULL, "armv7l"},
                {"arm", "v7", "armv7l"},         {"armbe", "v7", "armv7b"},
                {"arm64", "v8", "aarch64"},      {"arm64", NULL, "aarch64"},
                {"arm64be", NULL, "aarch64_be"}, {"ppc64", NULL, "ppc64"},
                {"ppc64le", NULL, "ppc64le"},    {"s390x", NULL, "s390x"},
                {"riscv64", NULL, "riscv64"},    {"loong64", NULL, "loongarch64"},
};

/* Other architectures that a machine runs, in order of preference. */
static const struct {
        const char *label, *runs[3];
} compatible[] = {
                {"amd64", {"amd64", "i386"}},
                {"armv7l", {"armv7l", "armv6l"}},
                {"aarch64", {"aarch64"}},
};

static const char *const systems[] = {"linux", "freebsd", "darwin"};

/* "linux/arm/v7" */
static int format_platform(const OciPlatform *p, char **ret)
{
        return xasprintf(ret, "%s/%s%s%s", p->os ?: "?", p->architecture ?: "?", p->variant ? "/" : "",
                         p->variant ?: "");
}

static const char *find_label(const OciPlatform *p, size_t *ret_rank)
{
        for (size_t i = 0; i < ELEMENTSOF(architectures); i++)
                if (streq(p->architecture, architectures[i].architecture) &&
                    streq_ptr(p->variant, architectures[i].variant)) {
                        *ret_rank = i;
                        return architectures[i].label;
                }
        return NULL;
}

static int no_label(const OciPlatform *p, Error *e)
{
        _cleanup_free_ char *platform = NULL, *shown = NULL;

        if (format_platform(p, &platform) < 0)
                return error_oom(e);
        shown = quote_value(platform);
        return error_set(e, -EPROTONOSUPPORT,
                         "The image is for %s, for which image manifests have no labels", shown ?: "?");
}

int oci_platform_to_labels(const OciPlatform *p, const char **ret_os, const char **ret_arch, Error *e)
{
        const char *os = NULL, *arch = NULL;
        size_t rank;

        for (size_t i = 0; i < ELEMENTSOF(systems); i++)
                if (streq(p->os ?: "linux", systems[i]))
                        os = systems[i];
        if (os && p->architecture)
                arch = find_label(p, &rank);
        /* For an unknown variant, report the architecture, which may be known. */
        if (os && p->architecture && !arch && p->variant)
                arch = find_label(&(OciPlatform){.architecture = p->architecture}, &rank);
        if (!os || (p->architecture && !arch))
                return no_label(p, e);
        *ret_os = os;
        *ret_arch = arch;
        return 0;
}

/* --- Choosing from an index ---------------------------------------------------------------------------- */

/* How well an image for P matches a machine of that label: 0: not at all; higher is better. */
static size_t fitness(const OciPlatform *p, const char *os, const char *arch)
{
        const char *const only[] = {arch, NULL}, *const *runs = only;
        size_t rank = 0;

        if (!p->architecture || !streq(p->os ?: "linux", os))
                return 0;
        const char *label = find_label(p, &rank);
        for (size_t i = 0; i < ELEMENTSOF(compatible); i++)
                if (streq(compatible[i].label, arch))
                        runs = compatible[i].runs;
        for (size_t i = 0; label && runs[i]; i++)
                if (streq(runs[i], label))
                        return 1 + rank + (3 - i) * ELEMENTSOF(architectures);
        return 0;
}

/* Signatures, provenance and similar documents are listed beside the images. */
static bool is_attachment(const OciDescriptor *d)
{
        return pair_list_get(&d->annotations, "vnd.docker.reference.type") ||
               (d->platform && streq_ptr(d->platform->os, "unknown"));
}

static int no_image_fits(const OciIndex *index, const char *os, const char *arch, Error *e)
{
        _cleanup_strv_free_ char **there = NULL;
        _cleanup_free_ char *list = NULL, *shown = NULL;

        for (size_t i = 0; i < index->n_manifests && i < 32; i++) {
                _cleanup_free_ char *s = NULL;
                if (is_attachment(&index->manifests[i]) || !index->manifests[i].platform)
                        continue;
                if (format_platform(index->manifests[i].platform, &s) < 0 ||
                    (!strv_contains(there, s) && strv_extend(&there, s) < 0))
                        return error_oom(e);
        }
        if (!there)
                return error_set(e, -ENOENT, "The image index does not list any image");
        list = strv_join(there, ", ");
        shown = list ? text_escape_for_terminal(list) : NULL;
        if (!shown)
                return error_oom(e);
        return error_set(e, -ENOENT, "There is no image for this host (%s/%s), only for: %s", os, arch,
                         shown);
}

int oci_index_select(const OciIndex *index, const char *os, const char *arch, const OciDescriptor **ret,
                     Error *e)
{
        const OciDescriptor *best = NULL, *unstated = NULL;
        size_t best_fitness = 0;

        for (size_t i = 0; i < index->n_manifests; i++) {
                const OciDescriptor *d = &index->manifests[i];

                if (is_attachment(d))
                        continue;
                if (!d->platform || !d->platform->architecture) {
                        unstated = unstated ?: d;
                        continue;
                }
                size_t k = fitness(d->platform, os, arch);
                if (k > best_fitness) {
                        best_fitness = k;
                        best = d;
                }
        }
        best = best ?: unstated;
        if (!best)
                return no_image_fits(index, os, arch, e);
        *ret = best;
        return 0;
}

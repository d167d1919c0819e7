/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether what a reference means now is a successor of an app's present image.
 *
 * A server, or an attacker in its place, can offer an older image with its old, valid signature, or another image by a key that is
 * trusted. Fetching refuses some of that, by what else is in the store; here the app's present image is known, and a timer
 * replaces it without an administrator. So its name must not change, and it must not be older: by the times of the signatures, or
 * if one of the two has none, by the version. Labels do not matter otherwise, as they may differ with each build.
 *
 * Name and version of an OCI image are not in the image: they are of the reference by which the store got it first, which may
 * have another tag than that of the app, such as 1.5 where the app has 1. */

#include "prepare/images/images.h"
#include "stage0/update/update-internal.h"

#define COMMIT_SIZE_MIN 7U /* digits */

static int open_image(Store *s, const char *id, Image **ret, Error *e)
{
        int r = image_open(s, id, ret, e);

        return r < 0 ? error_prefix(e, r, "Cannot compare it with the image %.19s", id) : 0;
}

static bool are_of_oci(const Image *old, const Image *new)
{
        return old->info.kind == IMAGE_KIND_OCI && new->info.kind == IMAGE_KIND_OCI;
}

static int check_name(const Image *old, const Image *new, Error *e)
{
        if (are_of_oci(old, new) || streq(old->manifest->name, new->manifest->name))
                return 0;
        int r = error_set(e, -EBADMSG,
                          "It means the image %.19s by now, which is %s, but the app's image is %s", new->id,
                          new->manifest->name, old->manifest->name);
        return error_hint(e, r,
                          "If the app is to have another image, replace it with 'acnspawn update-app "
                          "--image='.");
}

/* Such as Git abbreviates it, or the whole; not the digits of a date. */
static bool is_hash_of_commit(const char *version)
{
        size_t n = strspn(version, "0123456789abcdef");

        return n >= COMMIT_SIZE_MIN && !version[n] && strpbrk(version, "abcdef");
}

/* Versions that are no numbers have no order. */
static bool is_ordered(const char *version)
{
        return version && is_digit(version[version[0] == 'v']) && !is_hash_of_commit(version);
}

static int check_version(const Image *old, const Image *new, Error *e)
{
        const char *before = pair_list_get(&old->manifest->labels, "version"),
                   *after = pair_list_get(&new->manifest->labels, "version");

        if (are_of_oci(old, new) || !is_ordered(before) || !is_ordered(after) ||
            image_version_compare(after, before) >= 0)
                return 0;
        return error_set(e, -ESTALE,
                         "It means the image %.19s by now, whose version %s is before that of the app's "
                         "image, %s",
                         new->id, after, before);
}

static int check_age(const Image *old, const Image *new, Error *e)
{
        uint64_t before = old->info.signer.signed_time, after = new->info.signer.signed_time;
        _cleanup_free_ char *then = NULL, *now = NULL;

        if (before == 0 || after == 0)
                return check_version(old, new, e);
        if (after >= before)
                return 0;
        then = format_utc(before);
        now = format_utc(after);
        if (!then || !now)
                return error_oom(e);
        return error_set(e, -ESTALE,
                         "It means the image %.19s by now, which was signed on %s, before the app's image, "
                         "on %s",
                         new->id, now, then);
}

int check_successor(Store *s, const PodApp *app, const char *id, bool allow_older, Error *e)
{
        _cleanup_(image_freep) Image *old = NULL, *new = NULL;

        int r = open_image(s, app->image_id, &old, e);
        if (r >= 0)
                r = open_image(s, id, &new, e);
        if (r >= 0)
                r = check_name(old, new, e);
        if (r < 0 || allow_older)
                return r;
        r = check_age(old, new, e);
        if (r != -ESTALE)
                return r;
        return error_hint(
                        e, r,
                        "An attacker may offer an old image instead of a newer one. If that was withdrawn: "
                        "acnspawn update --allow-older");
}

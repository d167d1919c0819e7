/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The file "info" of an image: what the store knows of it beside what is in it.
 *
 * Where it came from, when, how large it was, and whose signature was checked then. It is JSON, so that
 * later versions can add to it: members that are not known are passed over, those that an older version did
 * not write are taken for absent. It is replaced as a whole and never written to, so readers need no lock.
 *
 * The file "checked" is a mere cache: what gpg has said of the signer since, for the files of keys that there were then. It is not
 * synced. If it is missing, empty, damaged, or is about another signature, "info" says what was checked at the import, and gpg is asked
 * once more.
 */

#include "prepare/images/images.h"

#define INFO_SIZE_MAX (64U * 1024U)
#define INFO_STRING_MAX 4096U
#define CHECKED_FILE "checked"

static const char *const kinds[_IMAGE_KIND_MAX] = {
                [IMAGE_KIND_ACI] = "aci",
                [IMAGE_KIND_OCI] = "oci",
};

const char *image_kind_to_string(ImageKind k)
{
        return kinds[k];
}

/* The members, in the order in which they are written. */
static const struct {
        const char *object; /* the member that has it, which may be missing then; or NULL: the document */
        const char *name;
        size_t offset;
} numbers[] = {
                {NULL, "importTime", offsetof(ImageInfo, import_time)},
                {NULL, "size", offsetof(ImageInfo, size)},
                {NULL, "archiveSize", offsetof(ImageInfo, archive_size)},
                {"signer", "signed", offsetof(ImageInfo, signer.signed_time)},
                {"signer", "expires", offsetof(ImageInfo, signer.expires)},
                {"signer", "keyExpires", offsetof(ImageInfo, signer.key_expires)},
};

static const struct {
        const char *object;
        const char *name;
        size_t offset;
} strings[] = {
                {NULL, "origin", offsetof(ImageInfo, origin)},
                {NULL, "reference", offsetof(ImageInfo, reference)},
                {NULL, "configDigest", offsetof(ImageInfo, config_digest)},
                {NULL, "manifestDigest", offsetof(ImageInfo, manifest_digest)},
                {"signer", "fingerprint", offsetof(ImageInfo, signer.fingerprint)},
                {"signer", "userId", offsetof(ImageInfo, signer.user_id)},
                {"signer", "prefix", offsetof(ImageInfo, signer.prefix)},
                {"signer", "key", offsetof(ImageInfo, signer.key)},
                {"signer", "stamp", offsetof(ImageInfo, signer.stamp)},
                {"signer", "trust", offsetof(ImageInfo, signer.trust)},
};

static uint64_t *number_at(const ImageInfo *i, size_t k)
{
        return (uint64_t *) ((char *) i + numbers[k].offset);
}

static char **string_at(const ImageInfo *i, size_t k)
{
        return (char **) ((char *) i + strings[k].offset);
}

void image_info_done(ImageInfo *i)
{
        for (size_t k = 0; k < ELEMENTSOF(strings); k++)
                free(*string_at(i, k));
        *i = (ImageInfo){};
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static int read_number(json_object *o, const char *object, const char *name, uint64_t *ret)
{
        json_object *v;

        if (object &&
            (!json_object_object_get_ex(o, object, &o) || !o || !json_object_object_get_ex(o, name, NULL)))
                return 0;
        if (!json_object_object_get_ex(o, name, &v) || !json_object_is_type(v, json_type_int))
                return -EBADMSG;
        int64_t n = json_object_get_int64(v);
        if (n < 0)
                return -EBADMSG;
        *ret = (uint64_t) n;
        return 0;
}

static int read_string(json_object *o, const char *object, const char *name, char **ret)
{
        json_object *v;

        if (object && (!json_object_object_get_ex(o, object, &o) || !o))
                return 0;
        if (!json_object_is_type(o, json_type_object))
                return -EBADMSG;
        if (!json_object_object_get_ex(o, name, &v))
                return 0;
        if (!json_object_is_type(v, json_type_string))
                return -EBADMSG;
        *ret = strdup(json_object_get_string(v));
        return *ret ? 0 : -ENOMEM;
}

static int read_kind(json_object *o, ImageKind *ret)
{
        _cleanup_free_ char *kind = NULL;

        int r = read_string(o, NULL, "kind", &kind);
        if (r < 0 || !kind)
                return r;
        for (ImageKind k = 0; k < _IMAGE_KIND_MAX; k++)
                if (streq(kind, kinds[k])) {
                        *ret = k;
                        return 0;
                }
        return -EBADMSG;
}

static int read_members(json_object *o, ImageInfo *i)
{
        int r = json_object_is_type(o, json_type_object) ? read_kind(o, &i->kind) : -EBADMSG;

        for (size_t k = 0; k < ELEMENTSOF(numbers) && r >= 0; k++)
                r = read_number(o, numbers[k].object, numbers[k].name, number_at(i, k));
        for (size_t k = 0; k < ELEMENTSOF(strings) && r >= 0; k++)
                r = read_string(o, strings[k].object, strings[k].name, string_at(i, k));
        return r;
}

static int read_info(int image_fd, const char *name, ImageInfo *ret, Error *e)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_json_ json_object *o = NULL;
        _cleanup_image_info_ ImageInfo i = {};
        size_t size;

        int r = read_file_at(image_fd, name, INFO_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the file %s", name);
        r = json_parse_strict(text, size, &o, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "The file %s is damaged", name);
        r = read_members(o, &i);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0)
                return error_set(e, r, "The file %s is damaged", name);
        *ret = TAKE_GENERIC(i, ImageInfo, (ImageInfo){});
        return 0;
}

/* A key that was offered at the import may be trusted by now. */
static bool same_signature(const ImageSigner *a, const ImageSigner *b)
{
        return streq_ptr(a->fingerprint, b->fingerprint) && a->signed_time == b->signed_time &&
               a->expires == b->expires;
}

static int replace_signer(ImageInfo *i, const ImageInfo *from);

int image_info_read(int image_fd, ImageInfo *ret, Error *e)
{
        _cleanup_image_info_ ImageInfo i = {}, checked = {};

        int r = read_info(image_fd, "info", &i, e);
        if (r >= 0 && i.signer.fingerprint && read_info(image_fd, CHECKED_FILE, &checked, NULL) >= 0 &&
            same_signature(&i.signer, &checked.signer) && (r = replace_signer(&i, &checked)) < 0)
                return error_oom(e);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(i, ImageInfo, (ImageInfo){});
        return 0;
}

/* --- Writing ------------------------------------------------------------------------------------------- */

static int add_number(json_object *o, const char *object, const char *name, uint64_t n)
{
        if (object && (n == 0 || !json_object_object_get_ex(o, object, &o)))
                return 0;
        return json_member_add(o, name, json_object_new_int64((int64_t) n));
}

static int add_string(json_object *o, const char *object, const char *name, const char *s)
{
        _cleanup_free_ char *bounded = NULL;

        if (!s)
                return 0;
        if (object && !json_object_object_get_ex(o, object, NULL) &&
            json_member_add(o, object, json_object_new_object()) < 0)
                return -ENOMEM;
        if (object)
                (void) json_object_object_get_ex(o, object, &o);
        bounded = strndup(s, INFO_STRING_MAX);
        return bounded ? json_member_add(o, name, json_new_string_lossy(bounded)) : -ENOMEM;
}

static int write_info(int image_fd, const char *name, const ImageInfo *i, bool sync, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = o ? add_string(o, NULL, "kind", kinds[i->kind]) : -ENOMEM;
        for (size_t k = 0; k < ELEMENTSOF(strings) && r >= 0; k++)
                r = add_string(o, strings[k].object, strings[k].name, *string_at(i, k));
        for (size_t k = 0; k < ELEMENTSOF(numbers) && r >= 0; k++)
                r = add_number(o, numbers[k].object, numbers[k].name, *number_at(i, k));
        if (r < 0)
                return error_oom(e);
        const char *text = json_print_pretty(o);
        if (!text)
                return error_oom(e);
        r = write_file_atomic_at(image_fd, name, text, strlen(text), 0644, sync);
        return r < 0 ? error_set_errno(e, r, "Cannot write the image's %s file to the store", name) : 0;
}

int image_info_write(int image_fd, const ImageInfo *i, bool sync, Error *e)
{
        return write_info(image_fd, "info", i, sync, e);
}

static int replace_string(char **to, const char *from)
{
        char *copy = from ? strdup(from) : NULL;

        if (from && !copy)
                return -ENOMEM;
        free(*to);
        *to = copy;
        return 1;
}

/* The signer is replaced as a whole: a mixture of two would describe a signer that does not exist. */
static int replace_signer(ImageInfo *i, const ImageInfo *from)
{
        int r = 1;

        for (size_t k = 0; k < ELEMENTSOF(strings) && r >= 0; k++)
                if (strings[k].object)
                        r = replace_string(string_at(i, k), *string_at(from, k));
        for (size_t k = 0; k < ELEMENTSOF(numbers); k++)
                if (numbers[k].object)
                        *number_at(i, k) = *number_at(from, k);
        return r;
}

int image_info_update(Image *image, const ImageInfo *from, Error *e)
{
        ImageInfo *i = &image->info;
        int r = 0;

        if (from->reference && !streq_ptr(from->reference, i->reference))
                r = replace_string(&i->reference, from->reference);
        if (from->signer.fingerprint && r >= 0)
                r = replace_signer(i, from);
        if (r < 0)
                return error_oom(e);
        if (r > 0 && from->signer.fingerprint)
                (void) unlinkat(image->dir_fd, CHECKED_FILE, 0); /* what is written is newer */
        return r > 0 ? image_info_write(image->dir_fd, i, true, e) : 0;
}

int image_info_note_checked(int image_fd, const ImageSigner *signer)
{
        const ImageInfo i = {.signer = *signer};

        return write_info(image_fd, CHECKED_FILE, &i, false, NULL);
}

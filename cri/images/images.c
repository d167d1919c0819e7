/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Images: lists of them, the status of one, and removing one.
 *
 * An image is identified by the digest of its config, as clients expect; images without one (ACIs) by their ID in the store.
 * It has any number of references, which a pull of another image may take away; they are those that fetching records. An
 * image without any goes by the name in its manifest, as 'acnspawn image list' shows it. */

#include "cri/cri-internal.h"
#include "prepare/registry/registry.h"

#define ID_DIGITS_MIN 12U                             /* of the part of an ID that stands for it */
#define STREAM_IMAGES 64U                             /* per reply */
#define DOWNLOADS_AGE_USEC (3600 * UINT64_C(1000000)) /* interrupted longer ago than that */

typedef Runtime__V1__Image ImageMessage;

/* --- The store ----------------------------------------------------------------------------------------- */

/* What is known of all images, for one call. */
typedef struct Images {
        Image **list; /* of the server's index */
        size_t n;
        FetchedReference *references;
        size_t n_references;
} Images;

static void images_done(Images *x)
{
        image_list_free(x->list, x->n);
        fetched_references_free(x->references, x->n_references);
}

static int images_read(CriJob *j, Images *ret, Error *e)
{
        size_t n_damaged;
        int r = image_list_readable(j->store, &ret->list, &ret->n, &n_damaged, e);

        return r < 0 ? r : fetched_references(j->store, &ret->references, &ret->n_references, e);
}

const char *cri_image_id(const Image *i)
{
        return i->info.config_digest ?: i->id;
}

/* --- Messages ------------------------------------------------------------------------------------------ */

/* "1000" is a number, other users are names; none is root. */
static int set_user(CriJob *j, const Image *i, ImageMessage *p)
{
        const char *user = i->manifest->app ? i->manifest->app->user : NULL;
        uint32_t uid;

        if (!user)
                return 0;
        if (parse_u32(user, &uid) < 0)
                return (p->username = cri_strdup(&j->memory, user)) ? 0 : -ENOMEM;
        p->uid = cri_message(&j->memory, &runtime__v1__int64_value__descriptor);
        if (!p->uid)
                return -ENOMEM;
        p->uid->value = uid;
        return 0;
}

static bool has_text(char *const *l, size_t n, const char *s)
{
        for (size_t i = 0; i < n; i++)
                if (streq(l[i], s))
                        return true;
        return false;
}

/* REPOSITORY:TAG is a tag, REPOSITORY@DIGEST has none. */
static int add_reference(CriJob *j, const FetchedReference *r, ImageMessage *p)
{
        _cleanup_(registry_reference_done) RegistryReference parts = {};
        char *digest;

        if (registry_reference_parse(r->reference, &parts, NULL) < 0)
                return 0;
        if (!parts.digest && !(p->repo_tags[p->n_repo_tags++] = cri_strdup(&j->memory, r->reference)))
                return -ENOMEM;
        const char *manifest = r->digest ?: parts.digest;
        if (!manifest)
                return 0;
        digest = cri_printf(&j->memory, "%s/%s@%s", parts.registry, parts.repository, manifest);
        if (!digest)
                return -ENOMEM;
        if (!has_text(p->repo_digests, p->n_repo_digests, digest))
                p->repo_digests[p->n_repo_digests++] = digest;
        return 0;
}

static int add_names(CriJob *j, const Images *x, const Image *i, ImageMessage *p)
{
        const char *version = pair_list_get(&i->manifest->labels, "version");
        int r = 0;

        p->repo_tags = cri_alloc(&j->memory, (x->n_references + 1) * sizeof(char *));
        p->repo_digests = cri_alloc(&j->memory, (x->n_references + 1) * sizeof(char *));
        if (!p->repo_tags || !p->repo_digests)
                return -ENOMEM;
        for (size_t k = 0; r >= 0 && k < x->n_references; k++)
                if (streq(x->references[k].image, i->id))
                        r = add_reference(j, &x->references[k], p);
        if (r < 0 || p->n_repo_tags > 0 || p->n_repo_digests > 0)
                return r;
        p->repo_tags[0] = cri_printf(&j->memory, "%s:%s", i->manifest->name, version ?: "latest");
        p->n_repo_tags = 1;
        return p->repo_tags[0] ? 0 : -ENOMEM;
}

static ImageMessage *message_of(CriJob *j, const Images *x, const Image *i)
{
        ImageMessage *p = cri_message(&j->memory, &runtime__v1__image__descriptor);

        if (!p || !(p->id = cri_strdup(&j->memory, cri_image_id(i))) || set_user(j, i, p) < 0 ||
            add_names(j, x, i, p) < 0)
                return NULL;
        p->size = i->size;
        return p;
}

/* --- Finding one --------------------------------------------------------------------------------------- */

static const Image *image_of(const Images *x, const char *id)
{
        for (size_t i = 0; i < x->n; i++)
                if (streq(x->list[i]->id, id))
                        return x->list[i];
        return NULL;
}

/* By its ID, the part of it after the algorithm, or the beginning of that, if no other image has the same. */
static const Image *find_by_id(const Images *x, const char *s)
{
        const char *digits = startswith(s, "sha256:") ?: s;
        const Image *found = NULL;

        if (strlen(digits) < ID_DIGITS_MIN)
                digits = NULL;
        for (size_t i = 0; i < x->n; i++) {
                const char *id = cri_image_id(x->list[i]), *own = startswith(id, "sha256:");
                if (streq(id, s))
                        return x->list[i];
                if (!digits || !own || !startswith(own, digits))
                        continue;
                if (found)
                        return NULL;
                found = x->list[i];
        }
        return found;
}

/* By a reference, as the configuration of this host completes it: a tag, or the digest of a repository. */
static const Image *find_by_reference(CriJob *j, const Images *x, const char *s)
{
        const RegistryOptions o = {.config_dirs = j->server->options->config_dirs};
        _cleanup_free_ char *place = NULL;

        if (registry_reference_resolve(s, &o, &place, NULL) < 0)
                return NULL;
        const char *reference = startswith(place, "docker://");
        for (size_t i = 0; i < x->n_references; i++) {
                const FetchedReference *r = &x->references[i];
                _cleanup_(registry_reference_done) RegistryReference parts = {};
                _cleanup_free_ char *by_digest = NULL;

                if (streq(r->reference, reference))
                        return image_of(x, r->image);
                if (r->digest && registry_reference_parse(r->reference, &parts, NULL) >= 0 &&
                    xasprintf(&by_digest, "%s/%s@%s", parts.registry, parts.repository, r->digest) >= 0 &&
                    streq(by_digest, reference))
                        return image_of(x, r->image);
        }
        return NULL;
}

/* By the name in its manifest. */
static const Image *find_by_name(CriJob *j, const Images *x, const char *s)
{
        _cleanup_free_ char *id = NULL;

        return strchr(s, '@') || s[0] == '/' || image_find_id(j->store, s, &id, NULL) < 0 ? NULL
                                                                                          : image_of(x, id);
}

static const Image *find_by_text(CriJob *j, const Images *x, const char *s)
{
        const Image *i = isempty(s) ? NULL : find_by_id(x, s);

        if (!i && !isempty(s))
                i = find_by_reference(j, x, s);
        return i || isempty(s) ? i : find_by_name(j, x, s);
}

static const Image *find(CriJob *j, const Images *x, const Runtime__V1__ImageSpec *spec)
{
        return find_by_text(j, x, spec ? spec->image : NULL);
}

/* The kubelet leaves those alone that are pinned. */
static void mark_pinned(CriJob *j, const Images *x, const Image *i, ImageMessage *p)
{
        STRV_FOREACH (s, j->server->options->pinned_images)
                p->pinned |= find_by_text(j, x, *s) == i;
}

/* --- Lists --------------------------------------------------------------------------------------------- */

static int list(CriJob *j, const Runtime__V1__ImageFilter *filter, ImageMessage ***ret, size_t *ret_n,
                Error *e)
{
        bool filtered = filter && filter->image && !isempty(filter->image->image);
        _cleanup_(images_done) Images x = {};
        size_t n = 0;

        int r = images_read(j, &x, e);
        if (r < 0)
                return r;
        const Image *only = filtered ? find(j, &x, filter->image) : NULL;
        ImageMessage **messages = cri_alloc(&j->memory, (x.n + 1) * sizeof(*messages));
        if (!messages)
                return error_oom(e);
        for (size_t i = 0; i < x.n; i++) {
                if (filtered && x.list[i] != only)
                        continue;
                if (!(messages[n] = message_of(j, &x, x.list[i])))
                        return error_oom(e);
                mark_pinned(j, &x, x.list[i], messages[n++]);
        }
        *ret = messages;
        *ret_n = n;
        return 0;
}

int cri_list_images(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ListImagesRequest *q = request;
        Runtime__V1__ListImagesResponse *p = reply;

        return list(j, q->filter, &p->images, &p->n_images, e);
}

int cri_stream_images(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__StreamImagesRequest *q = request;
        Runtime__V1__StreamImagesResponse *p = reply;
        ImageMessage **messages;
        size_t n;

        int r = list(j, q->filter, &messages, &n, e);
        for (size_t i = 0; r >= 0 && i < n; i += STREAM_IMAGES) {
                p->images = messages + i;
                p->n_images = MIN(n - i, STREAM_IMAGES);
                r = cri_send(j, &p->base, e);
        }
        return r;
}

/* --- One image ----------------------------------------------------------------------------------------- */

static int add_info(CriJob *j, const Image *i, Runtime__V1__ImageStatusResponse *p)
{
        _cleanup_json_ json_object *o = json_object_new_object(), *manifest = NULL;

        int r = json_parse_strict(i->manifest_text, i->manifest_size, &manifest, NULL, NULL);
        if (r < 0 || json_member_add_text(o, "id", i->id) < 0 ||
            json_member_add_text(o, "kind", image_kind_to_string(i->info.kind)) < 0 ||
            json_member_add(o, "manifest", TAKE_PTR(manifest)) < 0)
                return -ENOMEM;
        return cri_map_add(&j->memory, &p->n_info, &p->info,
                           &runtime__v1__image_status_response__info_entry__descriptor, "info",
                           json_print(o));
}

/* An image that is not there is no failure, but a reply without one. */
int cri_image_status(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__ImageStatusRequest *q = request;
        Runtime__V1__ImageStatusResponse *p = reply;
        _cleanup_(images_done) Images x = {};

        int r = cri_check_image(q->image, e);
        if (r >= 0)
                r = images_read(j, &x, e);
        if (r < 0)
                return r;
        const Image *i = find(j, &x, q->image);
        if (!i)
                return 0;
        p->image = message_of(j, &x, i);
        if (p->image)
                mark_pinned(j, &x, i, p->image);
        return p->image && (!q->verbose || add_info(j, i, p) >= 0) ? 0 : error_oom(e);
}

/* The kubelet removes images because the disk fills up, and counts interrupted downloads as images. */
static void collect_downloads(CriJob *j)
{
        const GcOptions o = {.parts = GC_DOWNLOADS,
                             .expire_downloads_usec = DOWNLOADS_AGE_USEC,
                             .unmeasured = true};

        (void) store_gc(j->store, &o, NULL);
}

/* With all of its references, which are of no use without it. */
int cri_remove_image(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__RemoveImageRequest *q = request;
        _cleanup_(images_done) Images x = {};

        int r = cri_check_image(q->image, e);
        if (r >= 0)
                r = images_read(j, &x, e);
        if (r < 0)
                return r;
        const Image *i = find(j, &x, q->image);
        r = i ? image_remove(j->store, i->id, NULL, e) : 0;
        if (r >= 0)
                collect_downloads(j);
        return r == -ENOENT ? 0 : r;
}

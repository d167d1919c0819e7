/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Encoding and decoding of the configuration of the service.
 *
 * Manifests can be megabytes, so a configuration travels as a sealed memfd: a header, then strings in a
 * fixed order (UUID, token, pod manifest, three per app, and last the key), each as its size, its bytes and
 * a NUL. The reader checks every size against the remaining bytes, and points into the one buffer it has
 * read.
 */

#include "metadata/protocol.h"

#define CONFIG_MAGIC 0x31646d6e70736361ULL

typedef struct ConfigHeader {
        uint64_t magic;
        uint32_t request_timeout_msec, verify_timeout_msec;
        uint64_t n_apps;
} ConfigHeader;

static void put_string(Text *t, const char *s, size_t n)
{
        uint64_t size = n;

        text_add_bytes(t, &size, sizeof(size));
        text_add_bytes(t, s, n);
        text_add_bytes(t, "", 1);
}

static bool token_is_valid(const char *token)
{
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        size_t n = strlen(token);

        return n >= METADATA_TOKEN_MIN && n <= METADATA_TOKEN_MAX && strspn(token, allowed) == n;
}

static int config_check(const MetadataConfig *c, Error *e)
{
        if (!token_is_valid(c->token))
                return error_set(e, -EINVAL,
                                 "The token of pod %s is not %u to %u letters, digits, '-' or '_'", c->uuid,
                                 METADATA_TOKEN_MIN, METADATA_TOKEN_MAX);
        if (c->n_apps > METADATA_APPS_MAX)
                return error_set(e, -E2BIG, "Pod %s has %zu apps; its metadata service supports at most %u",
                                 c->uuid, c->n_apps, METADATA_APPS_MAX);

        size_t size = c->pod_manifest_size;
        for (size_t i = 0; i < c->n_apps; i++)
                if (__builtin_add_overflow(size, c->apps[i].image_manifest_size + 1024, &size))
                        size = SIZE_MAX;
        if (size > METADATA_CONFIG_MAX - 4096)
                return error_set(e, -E2BIG,
                                 "The manifests of pod %s are too large for its metadata service (more than "
                                 "%u MiB)",
                                 c->uuid, METADATA_CONFIG_MAX / 1024 / 1024);
        return uuid_check(c->uuid, e);
}

int metadata_config_encode(const MetadataConfig *config, int *ret_fd, Error *e)
{
        ConfigHeader header = {
                        .magic = CONFIG_MAGIC,
                        .request_timeout_msec = config->request_timeout_msec,
                        .verify_timeout_msec = config->verify_timeout_msec,
                        .n_apps = config->n_apps,
        };
        _cleanup_text_ Text t = {};

        int r = config_check(config, e);
        if (r < 0)
                return r;
        text_add_bytes(&t, &header, sizeof(header));
        put_string(&t, config->uuid, strlen(config->uuid));
        put_string(&t, config->token, strlen(config->token));
        put_string(&t, config->pod_manifest, config->pod_manifest_size);
        for (size_t i = 0; i < config->n_apps; i++) {
                const MetadataApp *a = config->apps + i;
                put_string(&t, a->name, strlen(a->name));
                put_string(&t, a->image_id, strlen(a->image_id));
                put_string(&t, a->image_manifest, a->image_manifest_size);
        }
        /* The key is last, so that no copy of it is left in memory when the text grows. */
        put_string(&t, (const char *) config->key, METADATA_KEY_SIZE);
        if (t.failed)
                return error_oom(e);

        r = metadata_memfd_new("acnspawn-metadata-config", t.data, t.size, ret_fd);
        explicit_bzero(t.data, t.size);
        return r < 0 ? error_set_errno(e, r, "Cannot write the configuration of pod %s's metadata service",
                                       config->uuid)
                     : 0;
}

typedef struct Reader {
        const char *p;
        size_t left;
} Reader;

/* A string, which must not contain NULs unless RET_SIZE is given. */
static int get_string(Reader *r, const char **ret, size_t *ret_size)
{
        uint64_t size;

        if (r->left < sizeof(size))
                return -EBADMSG;
        memcpy(&size, r->p, sizeof(size));
        r->p += sizeof(size);
        r->left -= sizeof(size);
        if (r->left < 1 || size > r->left - 1 || r->p[size] != 0)
                return -EBADMSG;
        if (!ret_size && strlen(r->p) != size)
                return -EBADMSG;
        *ret = r->p;
        if (ret_size)
                *ret_size = size;
        r->p += size + 1;
        r->left -= size + 1;
        return 0;
}

static int get_header(Reader *reader, MetadataConfig *c)
{
        ConfigHeader header;

        if (reader->left < sizeof(header))
                return -EBADMSG;
        memcpy(&header, reader->p, sizeof(header));
        if (header.magic != CONFIG_MAGIC || header.n_apps > METADATA_APPS_MAX)
                return -EBADMSG;
        reader->p += sizeof(header);
        reader->left -= sizeof(header);
        c->request_timeout_msec = header.request_timeout_msec;
        c->verify_timeout_msec = header.verify_timeout_msec;
        c->n_apps = header.n_apps;
        return 0;
}

static int get_apps(Reader *reader, MetadataApp *apps, size_t n)
{
        for (MetadataApp *a = apps; a < apps + n; a++) {
                if (get_string(reader, &a->name, NULL) < 0 || get_string(reader, &a->image_id, NULL) < 0 ||
                    get_string(reader, &a->image_manifest, &a->image_manifest_size) < 0)
                        return -EBADMSG;
        }
        return 0;
}

static int decode(MetadataConfigOwned *o)
{
        Reader reader = {.p = o->data, .left = o->size};
        MetadataConfig *c = &o->config;
        const char *key;
        size_t key_size;

        if (get_header(&reader, c) < 0 || get_string(&reader, &c->uuid, NULL) < 0 ||
            get_string(&reader, &c->token, NULL) < 0 ||
            get_string(&reader, &c->pod_manifest, &c->pod_manifest_size) < 0)
                return -EBADMSG;
        o->apps = calloc(c->n_apps + 1, sizeof(MetadataApp));
        if (!o->apps)
                return -ENOMEM;
        c->apps = o->apps;
        if (get_apps(&reader, o->apps, c->n_apps) < 0 || get_string(&reader, &key, &key_size) < 0)
                return -EBADMSG;
        c->key = (const uint8_t *) key;
        return key_size == METADATA_KEY_SIZE && reader.left == 0 && token_is_valid(c->token) ? 0 : -EBADMSG;
}

int metadata_config_decode(int fd, MetadataConfigOwned *ret, Error *e)
{
        MetadataConfigOwned o = {};

        int r = read_fd_bounded(fd, METADATA_CONFIG_MAX, &o.data, &o.size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the configuration");
        r = decode(&o);
        if (r < 0) {
                metadata_config_owned_done(&o);
                return error_set(e, r, r == -ENOMEM ? "Out of memory" : "The configuration is malformed");
        }
        *ret = o;
        return 0;
}

void metadata_config_owned_done(MetadataConfigOwned *c)
{
        if (c->data)
                explicit_bzero(c->data, c->size);
        free(c->data);
        free(c->apps);
        *c = (MetadataConfigOwned){};
}

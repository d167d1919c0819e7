/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What has to be there before a declared pod starts, and to stay until it has ended: file systems with files of the host
 * that it uses, and the network if an image may come from there. The host's systemd is told so by the generator, which reads
 * the pod's own words: images are not looked at, symbolic links not followed, and nothing is said about mistakes. */

#include <limits.h>

#include "stage0/declared/declared.h"

typedef enum Form {
        FORM_VOLUMES,     /* words: HOST:PATH[:OPTIONS], or NAME,kind=host,source=HOST,… */
        FORM_FILES,       /* words */
        FORM_NAMED_FILES, /* words: NAME:FILE */
        FORM_FILE,        /* a value, perhaps with ",OPTIONS" */
        FORM_IMAGE,       /* a value: a file, or KIND:FILE[:TAG] */
} Form;

/* Keys of [Pod] and [App]. */
static const struct {
        const char *key;
        Form form;
} keys[] = {
                {"Volume", FORM_VOLUMES},
                {"Mount", FORM_VOLUMES},
                {"EnvironmentFile", FORM_FILES},
                {"EnvFile", FORM_FILES},
                {"LoadCredential", FORM_NAMED_FILES},
                {"Credential", FORM_NAMED_FILES},
                {"LogFile", FORM_FILE},
                {"PodManifest", FORM_FILE},
                {"SeccompProfile", FORM_FILE},
                {"Image", FORM_IMAGE},
};

/* The prefixes of images that are files of the host. */
static const char *const file_prefixes[] = {"oci:", "docker-archive:", "oci-archive:"};

/* Of a key with one value the last line counts. */
static bool counts(const Declared *d, size_t i, Form form)
{
        const DeclaredSetting *s = &d->settings[i];

        for (size_t k = i + 1; k < d->n_settings && (form == FORM_FILE || form == FORM_IMAGE); k++)
                if (d->settings[k].section == s->section && d->settings[k].app == s->app &&
                    streq(d->settings[k].key, s->key))
                        return false;
        return *s->value;
}

/* --- Files --------------------------------------------------------------------------------------------- */

/* Adds the first N bytes of PATH, if they are the path of a file. */
static int add_path(char ***paths, const char *path, size_t n)
{
        _cleanup_free_ char *copy = strndup(path, n), *normal = NULL;

        if (!copy)
                return -ENOMEM;
        int r = path_is_absolute(copy) ? path_normalize(copy, &normal) : -EINVAL;
        if (r == -ENOMEM)
                return r;
        if (r < 0 || strlen(normal) >= PATH_MAX || strv_contains(*paths, normal))
                return 0;
        return strv_extend(paths, normal);
}

static int add_volume(char ***paths, const char *word)
{
        _cleanup_strv_free_ char **fields = NULL;
        const char *source = NULL;
        size_t n = strcspn(word, ":=,");

        if (word[n] == ':' || path_is_absolute(word))
                return add_path(paths, word, strcspn(word, ":"));
        if (strv_split_fields(word, &fields) < 0)
                return -ENOMEM;
        STRV_FOREACH (field, fields)
                source = startswith(*field, "source=") ?: source;
        return source && strv_contains(fields, "kind=host") ? add_path(paths, source, strlen(source)) : 0;
}

/* What follows one of these prefixes, in any case of its letters; or NULL. */
static const char *after_file_prefix(const char *image)
{
        for (size_t i = 0; i < ELEMENTSOF(file_prefixes); i++) {
                size_t n = strlen(file_prefixes[i]);
                if (strncasecmp(image, file_prefixes[i], n) == 0)
                        return image + n;
        }
        return NULL;
}

static int add_image(char ***paths, const char *image)
{
        const char *file = after_file_prefix(image);

        return file ? add_path(paths, file, strcspn(file, ":")) : add_path(paths, image, strlen(image));
}

static int add_word(char ***paths, Form form, const char *word)
{
        const char *colon;

        switch (form) {
        case FORM_VOLUMES:
                return add_volume(paths, word);
        case FORM_NAMED_FILES:
                colon = strchr(word, ':');
                return colon ? add_path(paths, colon + 1, strlen(colon + 1)) : 0;
        case FORM_FILE:
                return add_path(paths, word, strcspn(word, ","));
        case FORM_IMAGE:
                return add_image(paths, word);
        default:
                return add_path(paths, word, strlen(word));
        }
}

static int add_setting(char ***paths, const Declared *d, const DeclaredSetting *s, Form form)
{
        _cleanup_strv_free_ char **words = NULL;
        char *value = NULL;
        int r;

        if (form == FORM_FILE || form == FORM_IMAGE) {
                r = declared_setting_value(d, s, &value);
                if (r >= 0 && value)
                        r = strv_consume(&words, value);
        } else
                r = declared_setting_words(d, s, &words);
        STRV_FOREACH (word, words)
                r = r < 0 ? r : add_word(paths, form, *word);
        return r;
}

static int collect(const Declared *d, char ***paths)
{
        for (size_t i = 0; i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];

                if (s->section != DECLARED_POD && s->section != DECLARED_APP)
                        continue;
                for (size_t k = 0; k < ELEMENTSOF(keys); k++) {
                        bool is = streq(keys[k].key, s->key) && counts(d, i, keys[k].form);
                        int r = is ? add_setting(paths, d, s, keys[k].form) : 0;
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int declared_add_mount(const char *path, Text *t)
{
        _cleanup_free_ char *word = NULL;
        int r = declared_quote(path, false, &word);

        if (r >= 0)
                text_addf(t, "RequiresMountsFor=%s\n", word);
        return r;
}

int declared_add_mounts(const Declared *d, Text *t)
{
        _cleanup_strv_free_ char **paths = NULL;
        int r = collect(d, &paths);

        STRV_FOREACH (path, paths)
                r = r < 0 ? r : declared_add_mount(*path, t);
        return r;
}

/* --- The network --------------------------------------------------------------------------------------- */

static bool is_remote(const char *image)
{
        return !after_file_prefix(image) && !path_is_absolute(image) && !startswith(image, "sha512-");
}

/* The image of a volume, NAME,kind=image,source=IMAGE. */
static int has_remote_volume(const Declared *d, const DeclaredSetting *s)
{
        _cleanup_strv_free_ char **words = NULL;
        bool found = false;

        int r = declared_setting_words(d, s, &words);
        STRV_FOREACH (word, words) {
                _cleanup_strv_free_ char **fields = NULL;
                r = r < 0 ? r : strv_split_fields(*word, &fields);
                if (r < 0 || !strv_contains(fields, "kind=image"))
                        continue;
                STRV_FOREACH (field, fields) {
                        const char *source = startswith(*field, "source=");
                        found = found || (source && is_remote(source));
                }
        }
        return r < 0 ? -ENOMEM : found;
}

static int has_remote_image(const Declared *d, const DeclaredSetting *s)
{
        _cleanup_free_ char *image = NULL;
        int r = declared_setting_value(d, s, &image);

        return r < 0 ? r : image && is_remote(image);
}

/* Whether the pod is to be there before the network, or fetches nothing. OF_HOST: as long as it does not say so itself. */
static bool refuses_network(const Declared *d, bool of_host)
{
        bool never = of_host;

        for (size_t i = 0; i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];

                if (((s->section == DECLARED_UNIT && streq(s->key, "Before")) ||
                     s->section == DECLARED_INSTALL) &&
                    strstr(s->value, "network-online.target"))
                        return true;
                if (s->section == DECLARED_POD && streq(s->key, "PullPolicy"))
                        never = *s->value ? streq(s->value, "never") : of_host;
        }
        return never;
}

/* A pod manifest has the names of images, which are found by discovery. */
int declared_uses_network(const Declared *d, bool never)
{
        bool found = false;

        if (refuses_network(d, never))
                return 0;
        for (size_t i = 0; i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];
                bool pod = s->section == DECLARED_POD, last = counts(d, i, FORM_FILE);
                int r = 0;

                if (pod && last && streq(s->key, "PodManifest"))
                        r = 1;
                else if (pod && streq(s->key, "Volume"))
                        r = has_remote_volume(d, s);
                else if (s->section == DECLARED_APP && last && streq(s->key, "Image"))
                        r = has_remote_image(d, s);
                if (r < 0)
                        return r;
                found = found || r > 0;
        }
        return found;
}

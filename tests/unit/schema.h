/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the tests of manifests share. */

#include "schema/schema.h"
#include "tests/unit/test.h"

#define HEX64 "8d3fffddf79e9a232ffd19f9ccaa4d6b37a6a243dbe0f23137b108a043d9da13"
#define ID "sha512-" HEX64 HEX64

/* JSON full of escaped quotes is hard to read: in these tests it has single quotes,
        which this turns into double ones. */
__attribute__((unused)) static char *json_text(const char *single)
{
        char *s = strdup(single);

        for (char *c = s; c && *c; c++)
                if (*c == '\'')
                        *c = '"';
        return s;
}

/* The other way round, in place. */
__attribute__((unused)) static char *single_quoted(char *text)
{
        for (char *c = text; *c; c++)
                if (*c == '"')
                        *c = '\'';
        return text;
}

/* The findings as text, one "PATH: MESSAGE" a line, for comparing and for messages of tests. */
__attribute__((unused)) static char *findings_text(const Findings *f)
{
        _cleanup_text_ Text t = {};
        char *text;

        for (size_t i = 0; i < f->n; i++)
                text_addf(&t, "%s: %s\n", f->items[i].path, f->items[i].message);
        return text_take(&t, &text, NULL) < 0 ? NULL : text;
}

/* A document with one error. Its own parse() takes single quotes. */
#define ASSERT_ONE_FINDING(type, what, fault)                                                               \
        do {                                                                                                \
                _cleanup_(type##_freep) TYPE_OF_##type *m_ = NULL;                                          \
                _cleanup_free_ char *text_ = NULL;                                                          \
                _cleanup_findings_ Findings f_ = {};                                                        \
                _cleanup_error_ Error e_ = {};                                                              \
                                                                                                            \
                int r_ = parse((fault).text, &m_, &f_, &e_);                                                \
                text_ = findings_text(&f_);                                                                 \
                if (r_ != -EINVAL || f_.n != 1 || !streq(f_.items[0].path, (fault).path) ||                 \
                    !strstr(f_.items[0].message, (fault).message))                                          \
                        TEST_FAIL("%s: %d: %s", (fault).text, r_, text_);                                   \
                ASSERT_NULL(m_);                                                                            \
                ASSERT_CONTAINS(e_.message, "Invalid " what ": ");                                          \
                ASSERT_CONTAINS(e_.message, (fault).message);                                               \
        } while (0)
#define TYPE_OF_image_manifest ImageManifest
#define TYPE_OF_pod_manifest PodManifest

/* The text of an example of the specification, where it is installed; else NULL. */
__attribute__((unused)) static char *spec_example(const char *name)
{
        _cleanup_free_ char *path = NULL;
        char *text;

        if (xasprintf(&path, "/usr/share/doc/appc-spec/examples/%s", name) < 0 ||
            read_file_at(AT_FDCWD, path, MANIFEST_SIZE_MAX, &text, NULL) < 0)
                return NULL;
        return text;
}

/* TEXT with the first occurrence of FROM replaced. */
__attribute__((unused)) static char *replace(const char *text, const char *from, const char *to)
{
        const char *at = strstr(text, from);
        char *s;

        if (!at || xasprintf(&s, "%.*s%s%s", (int) (at - text), text, to, at + strlen(from)) < 0)
                return NULL;
        return s;
}

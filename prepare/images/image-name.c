/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Names of images, as written by users and in manifests, and the order of versions.
 *
 * Versions are free text, so the order has to match the usual schemes (spec: aci.md, label "version"). They
 * are compared piece by piece: runs of digits by value, runs of letters by alphabet, digits above letters,
 * more pieces above fewer. What follows "~", or a "-" with a letter behind it, is a state before the
 * release: 1.0~beta and 1.0-rc1 are older than 1.0. A "-" with a digit behind it begins a revision of the
 * same release: 1.0-2 is newer than 1.0, but older than 1.0.1. Other separators are equivalent.
 */

#include "prepare/images/images.h"

void image_name_done(ImageName *n)
{
        free(n->name);
        pair_list_done(&n->labels);
        *n = (ImageName){};
}

static int add_label(ImageName *n, const char *label, const char *value, const char *whole, Error *e)
{
        if (isempty(value))
                return error_set(e, -EINVAL, "The label %s in the image name '%s' has no value", label,
                                 whole);
        if (pair_list_get(&n->labels, label))
                return error_set(e, -EINVAL, "The label %s is given twice in the image name '%s'", label,
                                 whole);
        return pair_list_set(&n->labels, label, value) < 0 ? error_oom(e) : 0;
}

static int parse_label(ImageName *n, char *text, const char *whole, Error *e)
{
        char *equals = strchr(text, '=');

        if (!equals) {
                int r = error_set(e, -EINVAL, "'%s' in the image name '%s' is not a label", text, whole);
                return error_hint(e, r, "Write name:version,label=value,…");
        }
        *equals = 0;
        int r = ac_identifier_check(text, e);
        if (r < 0)
                return error_prefix(e, r, "A label in the image name '%s' is not valid", whole);
        if (streq(text, "name"))
                return error_set(e, -EINVAL, "The image name '%s' has a label 'name', which is not allowed",
                                 whole);
        return add_label(n, text, equals + 1, whole, e);
}

int image_name_parse(const char *s, ImageName *ret, Error *e)
{
        _cleanup_(image_name_done) ImageName n = {};
        _cleanup_free_ char *copy = strdup(s), *shown = text_escape_for_terminal(s);
        char *rest = copy;

        if (!copy || !shown)
                return error_oom(e);
        char *first = strsep(&rest, ",");
        char *version = strchr(first, ':');
        if (version)
                *version++ = 0;
        int r = ac_identifier_check(first, e);
        if (r < 0) {
                r = error_prefix(e, r, "'%s' is not an image name", shown);
                return error_hint(e, r,
                                  "A reference to an image is a file, an image ID, or "
                                  "name[:version][,label=value]….");
        }
        n.name = strdup(first);
        if (!n.name)
                return error_oom(e);
        if (version)
                r = add_label(&n, "version", version, shown, e);
        while (r >= 0 && rest)
                r = parse_label(&n, strsep(&rest, ","), shown, e);
        if (r < 0)
                return r;
        *ret = n;
        n = (ImageName){};
        return 0;
}

bool image_name_matches(const char *name, const PairList *labels, const ImageManifest *m)
{
        if (!streq(name, m->name))
                return false;
        for (size_t i = 0; i < labels->n; i++)
                if (!streq_ptr(labels->items[i].value, pair_list_get(&m->labels, labels->items[i].name)))
                        return false;
        return true;
}

int image_name_format(const char *name, const PairList *labels, char **ret)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *text = NULL;
        const char *version = pair_list_get(labels, "version");

        text_add(&t, name);
        if (version)
                text_addf(&t, ":%s", version);
        for (size_t i = 0; i < labels->n; i++)
                if (!streq(labels->items[i].name, "version"))
                        text_addf(&t, ",%s=%s", labels->items[i].name, labels->items[i].value);
        int r = text_take(&t, &text, NULL);
        if (r < 0)
                return r;
        *ret = text_escape_for_terminal(text);
        return *ret ? 0 : -ENOMEM;
}

/* --- Versions ------------------------------------------------------------------------------------------ */

/* All characters other than digits and separators count as letters, so that any text has an order. */
static bool is_letter(char c)
{
        return c && !is_digit(c) && !strchr(".-_+~ ", c);
}

/* Kinds of pieces of a version, ordered from old to new. */
typedef enum Piece { PIECE_BEFORE, PIECE_END, PIECE_REVISION, PIECE_LETTERS, PIECE_DIGITS } Piece;

/* Advances to the next piece, past the separators. */
static Piece next_piece(const char **s)
{
        for (;; (*s)++) {
                if (**s == '~' || (**s == '-' && is_letter((*s)[1]))) {
                        (*s)++;
                        return PIECE_BEFORE;
                }
                if (**s == '-' && is_digit((*s)[1])) {
                        (*s)++;
                        return PIECE_REVISION;
                }
                if (!**s)
                        return PIECE_END;
                if (is_digit(**s))
                        return PIECE_DIGITS;
                if (is_letter(**s))
                        return PIECE_LETTERS;
        }
}

static size_t piece_length(const char *s, Piece p)
{
        size_t n = 0;

        while (p == PIECE_DIGITS ? is_digit(s[n]) : is_letter(s[n]))
                n++;
        return n;
}

static int compare_pieces(const char **a, const char **b, Piece p)
{
        if (p == PIECE_DIGITS) {
                *a += strspn(*a, "0");
                *b += strspn(*b, "0");
        }
        size_t n = piece_length(*a, p), m = piece_length(*b, p);
        const char *x = *a, *y = *b;
        *a += n;
        *b += m;
        if (p == PIECE_DIGITS && n != m)
                return n < m ? -1 : 1;
        int r = memcmp(x, y, MIN(n, m));
        return r ?: (n > m) - (n < m);
}

int image_version_compare(const char *a, const char *b)
{
        if (!a || !b)
                return !!a - !!b;
        a += a[0] == 'v' && is_digit(a[1]);
        b += b[0] == 'v' && is_digit(b[1]);
        for (;;) {
                Piece p = next_piece(&a), q = next_piece(&b);
                if (p != q)
                        return p < q ? -1 : 1;
                if (p == PIECE_END)
                        return 0;
                int r = p == PIECE_LETTERS || p == PIECE_DIGITS ? compare_pieces(&a, &b, p) : 0;
                if (r != 0)
                        return r < 0 ? -1 : 1;
        }
}

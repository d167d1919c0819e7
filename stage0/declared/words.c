/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values of keys: words with quotes and escapes, as systemd.syntax(7) and systemd.service(5) describe them, and
 * specifiers, of which those are known that make sense for a service of the host. */

#include <sys/utsname.h>

#include "stage0/declared/declared.h"

static const char blanks[] = " \t\n\r";

/* --- Reading words ------------------------------------------------------------------------------------- */

static int digit_of(char c, int base)
{
        int n = is_digit(c)                                ? c - '0'
                : to_lower(c) >= 'a' && to_lower(c) <= 'f' ? to_lower(c) - 'a' + 10
                                                           : 99;

        return n < base ? n : -1;
}

/* LENGTH digits at S; 0: they are not digits, or a NUL. */
static uint32_t read_digits(const char *s, size_t length, int base)
{
        uint32_t n = 0;

        for (size_t i = 0; i < length; i++) {
                int digit = digit_of(s[i], base);
                if (digit < 0)
                        return 0;
                n = n * (uint32_t) base + (uint32_t) digit;
        }
        return n;
}

static void add_character(Text *t, uint32_t c)
{
        const char bytes[] = {(char) (0xf0 | c >> 18), (char) (0x80 | (c >> 12 & 0x3f)),
                              (char) (0x80 | (c >> 6 & 0x3f)), (char) (0x80 | (c & 0x3f))};
        const char two = (char) (0xc0 | c >> 6), three = (char) (0xe0 | c >> 12), one = (char) c;

        if (c >= 0x10000)
                text_add_bytes(t, bytes, 4);
        else if (c >= 0x80) {
                text_add_bytes(t, c >= 0x800 ? &three : &two, 1);
                text_add_bytes(t, bytes + (c >= 0x800 ? 2 : 3), c >= 0x800 ? 2 : 1);
        } else
                text_add_bytes(t, &one, 1);
}

/* The escape sequence after a backslash; returns its length, 0: there is no such sequence. */
static size_t read_escape(const char *s, Text *t)
{
        static const char letters[] = "abfnrtvs\\\"'", meanings[] = "\a\b\f\n\r\t\v \\\"'";
        static const struct {
                char letter;
                size_t length;
                int base;
                bool character;
        } numbers[] = {{'x', 2, 16, false}, {'u', 4, 16, true}, {'U', 8, 16, true}};
        const char *letter = *s ? strchr(letters, *s) : NULL;

        if (letter) {
                text_add_bytes(t, meanings + (letter - letters), 1);
                return 1;
        }
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                if (*s != numbers[i].letter)
                        continue;
                uint32_t n = strnlen(s + 1, numbers[i].length) < numbers[i].length
                                             ? 0
                                             : read_digits(s + 1, numbers[i].length, numbers[i].base);
                if (n == 0 || n > 0x10ffff || (n >= 0xd800 && n < 0xe000))
                        return 0;
                if (numbers[i].character)
                        add_character(t, n);
                else
                        text_add_bytes(t, &(char){(char) n}, 1);
                return numbers[i].length + 1;
        }
        uint32_t n = strnlen(s, 3) < 3 ? 0 : read_digits(s, 3, 8);
        if (n == 0 || n > 0xff)
                return 0;
        text_add_bytes(t, &(char){(char) n}, 1);
        return 3;
}

/* One word at *S, which is moved behind it. *RET_QUOTED: all of it was in one pair of quotes. */
static int read_word(const char **s, char **ret, bool *ret_quoted, const char **reason)
{
        _cleanup_text_ Text t = {};
        const char *p = *s, *closed = NULL;
        char quote = 0;

        for (; *p && (quote || !strchr(blanks, *p)); p++) {
                if (*p == '\\') {
                        size_t n = read_escape(p + 1, &t);
                        if (n == 0) {
                                *reason = "the escape sequence after a backslash is not known; a backslash "
                                          "itself is written twice";
                                return -EINVAL;
                        }
                        p += n;
                } else if (quote ? *p == quote : *p == '"' || *p == '\'') {
                        closed = quote && !closed ? p : closed;
                        quote = quote ? 0 : *p;
                } else
                        text_add_bytes(&t, p, 1);
        }
        if (quote) {
                *reason = "a quote is not closed";
                return -EINVAL;
        }
        if (ret_quoted)
                *ret_quoted = (**s == '"' || **s == '\'') && closed == p - 1;
        *s = p;
        return text_take(&t, ret, NULL);
}

int declared_words(const char *value, char ***ret, const char **reason)
{
        _cleanup_strv_free_ char **words = NULL;

        for (const char *s = value + strspn(value, blanks); *s; s += strspn(s, blanks)) {
                char *word = NULL;
                int r = read_word(&s, &word, NULL, reason);
                if (r >= 0)
                        r = strv_consume(&words, word);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(words);
        return 0;
}

int declared_value(const char *value, char **ret, const char **reason)
{
        const char *s = value;
        char *copy;

        if (*value == '"' || *value == '\'') {
                _cleanup_free_ char *word = NULL;
                bool quoted = false;
                int r = read_word(&s, &word, &quoted, reason);
                if (r == -ENOMEM || (r < 0 && !strpbrk(value, blanks)))
                        return r;
                if (r >= 0 && quoted && !*s) {
                        *ret = TAKE_PTR(word);
                        return 0;
                }
        }
        copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 0;
}

/* --- Writing words ------------------------------------------------------------------------------------- */

static bool needs_quotes(const char *s, bool whole)
{
        size_t n = strlen(s);

        if (n == 0 || !utf8_is_valid(s, n) || *s == '"' || *s == '\'')
                return true;
        for (const char *p = s; *p; p++)
                if ((unsigned char) *p < ' ' || *p == 0x7f || (!whole && strchr(" \"'\\", *p)))
                        return true;
        return whole && (*s == ' ' || s[n - 1] == ' ' || s[n - 1] == '\\');
}

static void add_quoted(Text *t, const char *s)
{
        size_t left = strlen(s);

        text_add(t, "\"");
        while (left > 0) {
                size_t n = utf8_length(s, left);

                if (n == 0 || (unsigned char) *s < ' ' || *s == 0x7f) {
                        text_addf(t, "\\x%02x", (unsigned char) *s);
                        n = 1;
                } else {
                        if (*s == '"' || *s == '\\')
                                text_add(t, "\\");
                        text_add_bytes(t, s, n);
                }
                if (n == 1 && *s == '%')
                        text_add(t, "%");
                s += n;
                left -= n;
        }
        text_add(t, "\"");
}

int declared_quote(const char *word, bool whole, char **ret)
{
        _cleanup_text_ Text t = {};

        if (needs_quotes(word, whole))
                add_quoted(&t, word);
        else
                for (const char *p = word; *p; p++)
                        text_add(&t, *p == '%' ? "%%" : (const char[]){*p, 0});
        return text_take(&t, ret, NULL);
}

/* --- Specifiers ---------------------------------------------------------------------------------------- */

static int read_id(const char *path, char **ret)
{
        size_t n = 0;
        int r = read_file_at(AT_FDCWD, path, 4096, ret, &n);

        if (r < 0)
                return r;
        char *to = *ret;
        for (const char *p = *ret; *p; p++) /* one of them has dashes */
                if (is_alphanumeric(*p))
                        *to++ = *p;
        *to = 0;
        return 0;
}

static int add_id(Text *t, const char *path)
{
        _cleanup_free_ char *id = NULL;
        int r = read_id(path, &id);

        if (r >= 0)
                text_add(t, id);
        return r;
}

static int add_system(Text *t, char specifier)
{
        struct utsname u;

        if (uname(&u) < 0)
                return -errno;
        if (specifier == 'l')
                u.nodename[strcspn(u.nodename, ".")] = 0;
        text_add(t, specifier == 'v' ? u.release : specifier == 'a' ? u.machine : u.nodename);
        return 0;
}

static const struct {
        char letter;
        const char *text;
} fixed_specifiers[] = {
                {'%', "%"},    {'p', "acnspawn"}, {'P', "acnspawn"},   {'j', "acnspawn"}, {'J', "acnspawn"},
                {'t', "/run"}, {'S', "/var/lib"}, {'C', "/var/cache"}, {'L', "/var/log"}, {'E', "/etc"},
                {'T', "/tmp"}, {'V', "/var/tmp"}, {'h', "/root"},      {'u', "root"},     {'U', "0"},
                {'g', "root"}, {'G', "0"},
};

/* As systemd: '-' is what a '/' is escaped to. */
static void add_unescaped(Text *t, const char *name)
{
        for (; *name; name++)
                text_add(t, *name == '-' ? "/" : (const char[]){*name, 0});
}

static int add_specifier(Text *t, char letter, const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(fixed_specifiers); i++)
                if (fixed_specifiers[i].letter == letter) {
                        text_add(t, fixed_specifiers[i].text);
                        return 0;
                }
        switch (letter) {
        case 'i':
                text_add(t, name);
                return 0;
        case 'I':
                add_unescaped(t, name);
                return 0;
        case 'n':
                text_addf(t, "acnspawn@%s.service", name);
                return 0;
        case 'N':
                text_addf(t, "acnspawn@%s", name);
                return 0;
        case 'm':
                return add_id(t, "/etc/machine-id");
        case 'b':
                return add_id(t, "/proc/sys/kernel/random/boot_id");
        case 'H':
        case 'l':
        case 'v':
        case 'a':
                return add_system(t, letter);
        default:
                return -EINVAL;
        }
}

int declared_expand(const char *s, const char *name, char **ret, char *ret_bad)
{
        _cleanup_text_ Text t = {};

        for (; *s; s++) {
                if (*s != '%') {
                        text_add_bytes(&t, s, 1);
                        continue;
                }
                *ret_bad = *++s;
                int r = add_specifier(&t, *s, name);
                if (r < 0)
                        return r;
        }
        return text_take(&t, ret, NULL);
}

int declared_setting_words(const Declared *d, const DeclaredSetting *s, char ***ret)
{
        _cleanup_strv_free_ char **words = NULL, **l = NULL;
        const char *reason;

        int r = declared_words(s->value, &words, &reason);
        STRV_FOREACH (word, words) {
                char *expanded = NULL, bad;
                r = r < 0 ? r : declared_expand(*word, d->name, &expanded, &bad);
                if (r >= 0)
                        r = strv_consume(&l, expanded);
        }
        if (r >= 0)
                *ret = TAKE_PTR(l);
        return r == -ENOMEM ? r : 0;
}

int declared_setting_value(const Declared *d, const DeclaredSetting *s, char **ret)
{
        _cleanup_free_ char *value = NULL;
        const char *reason;
        char bad;

        int r = declared_value(s->value, &value, &reason);
        if (r >= 0)
                r = declared_expand(value, d->name, ret, &bad);
        return r == -ENOMEM ? r : 0;
}

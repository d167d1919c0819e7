/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A strict reader of JSON that builds json-c's tree.
 *
 * json-c's own reader keeps the last of several members with the same name, takes NaN, cuts numbers off, and
 * lets bytes through that are not UTF-8. Documents here come from strangers, are compared and signed, and
 * are read by several programs which must all understand the same: so this reader takes the grammar of RFC
 * 8259 and nothing else, refuses what two readers could understand differently, and says in which line and
 * column. A check in front of json-c's reader would have left two grammars that can differ; there is only
 * this one.
 *
 * The reader keeps a stack of open objects and lists instead of calling itself. Depth, number of values and
 * of containers are bounded, since an empty object of two bytes costs several hundred in memory.
 */

#include <locale.h>
#include <math.h>

#include "schema/schema-internal.h"

#define DEPTH_MAX 64U
#define NUMBER_LENGTH_MAX 128U

typedef struct Frame {
        json_object *container; /* owned by the tree */
        bool started;           /* has a member already */
} Frame;

typedef struct Reader {
        const char *text, *p, *end;
        json_object *root;
        Frame stack[DEPTH_MAX];
        size_t depth, n_values, n_containers;
        Text string; /* the string read last */
        locale_t locale;
        const char *fault_at;
        char *fault;
} Reader;

static void reader_done(Reader *r)
{
        json_object_put(r->root);
        text_done(&r->string);
        if (r->locale)
                freelocale(r->locale);
        free(r->fault);
}

static _printf_(3, 4) int fault(Reader *r, const char *at, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&r->fault, format, ap) < 0)
                r->fault = NULL;
        va_end(ap);
        r->fault_at = at;
        return r->fault ? -EBADMSG : -ENOMEM;
}

/* The length of the UTF-8 sequence at P, 0 if there is none. */
static size_t character_length(const char *p, const char *end)
{
        for (size_t n = 1; n <= 4 && n <= (size_t) (end - p); n++)
                if (utf8_is_valid(p, n))
                        return n;
        return 0;
}

static int unexpected(Reader *r, const char *expected)
{
        if (r->p == r->end)
                return fault(r, r->p, "the text ends where %s is expected", expected);
        unsigned char c = (unsigned char) *r->p;
        size_t n = character_length(r->p, r->end);
        if (n == 0)
                return fault(r, r->p, "byte 0x%02x is not valid UTF-8", c);
        if (c < 0x20 || c == 0x7f)
                return fault(r, r->p, "control character 0x%02x where %s is expected", c, expected);
        if (n == 3 && memcmp(r->p, "\xef\xbb\xbf", 3) == 0)
                return fault(r, r->p, "byte order mark where %s is expected", expected);
        if (n > 1)
                return fault(r, r->p, "character that is not ASCII where %s is expected", expected);
        return fault(r, r->p, "'%c' where %s is expected", c, expected);
}

static char skip_space(Reader *r)
{
        while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
                r->p++;
        /* NUL stands for the end; one that is in the text is unexpected everywhere, like the end. */
        return r->p < r->end ? *r->p : 0;
}

/* --- Strings ------------------------------------------------------------------------------------------- */

static bool read_hex4(Reader *r, uint32_t *ret)
{
        uint32_t v = 0;

        if (r->end - r->p < 4)
                return false;
        for (int i = 0; i < 4; i++) {
                char c = r->p[i];
                uint32_t digit = is_digit(c)            ? (uint32_t) (c - '0')
                                 : c >= 'a' && c <= 'f' ? (uint32_t) (c - 'a') + 10
                                 : c >= 'A' && c <= 'F' ? (uint32_t) (c - 'A') + 10
                                                        : 16;
                if (digit > 15)
                        return false;
                v = v << 4 | digit;
        }
        r->p += 4;
        *ret = v;
        return true;
}

static void add_code_point(Text *t, uint32_t c)
{
        char b[4];
        size_t n;

        if (c < 0x80) {
                b[0] = (char) c;
                n = 1;
        } else if (c < 0x800) {
                b[0] = (char) (0xc0 | c >> 6);
                n = 2;
        } else if (c < 0x10000) {
                b[0] = (char) (0xe0 | c >> 12);
                n = 3;
        } else {
                b[0] = (char) (0xf0 | c >> 18);
                n = 4;
        }
        for (size_t i = n - 1; i > 0; i--, c >>= 6)
                b[i] = (char) (0x80 | (c & 0x3f));
        text_add_bytes(t, b, n);
}

/* After "\u". */
static int read_unicode_escape(Reader *r)
{
        const char *at = r->p - 2;
        uint32_t c, low;

        if (!read_hex4(r, &c))
                return fault(r, at, "\\u is not followed by four hex digits");
        if (c == 0)
                return fault(r, at, "\\u0000 is not allowed in a string");
        if (c >= 0xd800 && c <= 0xdbff && r->end - r->p >= 2 && r->p[0] == '\\' && r->p[1] == 'u') {
                r->p += 2;
                if (!read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
                        return fault(r, at, "first half of a surrogate pair without the second");
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        } else if (c >= 0xd800 && c <= 0xdfff)
                return fault(r, at, "half of a surrogate pair");
        add_code_point(&r->string, c);
        return 0;
}

/* After the backslash. */
static int read_escape(Reader *r)
{
        static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        const char *found;

        if (r->p == r->end)
                return unexpected(r, "an escape");
        char c = *r->p++;
        if (c == 'u')
                return read_unicode_escape(r);
        found = c ? strchr(escapes, c) : NULL;
        if (!found) {
                r->p--;
                return unexpected(r, "an escape");
        }
        text_add_bytes(&r->string, meanings + (found - escapes), 1);
        return 0;
}

/* As many bytes as mean themselves. */
static int read_plain(Reader *r)
{
        const char *start = r->p;

        while (r->p < r->end && *r->p != '"' && *r->p != '\\') {
                unsigned char c = (unsigned char) *r->p;
                size_t n = c < 0x80 ? 1 : character_length(r->p, r->end);

                if (n == 0 || c < 0x20)
                        return unexpected(r, "text or the end of the string");
                r->p += n;
        }
        text_add_bytes(&r->string, start, (size_t) (r->p - start));
        return 0;
}

/* Reads a string, at whose opening quote we are, into r->string. */
static int read_string(Reader *r)
{
        r->string.size = 0;
        r->p++;
        for (;;) {
                int q = read_plain(r);
                if (q < 0)
                        return q;
                if (r->p == r->end)
                        return unexpected(r, "the end of the string");
                if (*r->p++ == '"')
                        break;
                q = read_escape(r);
                if (q < 0)
                        return q;
        }
        text_add_bytes(&r->string, "", 0);
        return r->string.failed ? -ENOMEM : 0;
}

/* --- Numbers and words --------------------------------------------------------------------------------- */

static size_t skip_digits(Reader *r)
{
        const char *start = r->p;

        while (r->p < r->end && is_digit(*r->p))
                r->p++;
        return (size_t) (r->p - start);
}

/* Walks over a number; tells whether it has a fraction or an exponent. */
static int scan_number(Reader *r, bool *ret_fraction)
{
        bool fraction = false;

        if (*r->p == '-')
                r->p++;
        const char *first = r->p;
        if (skip_digits(r) == 0)
                return unexpected(r, "a digit");
        if (*first == '0' && r->p - first > 1)
                return fault(r, first, "number with a leading zero");
        if (r->p < r->end && *r->p == '.') {
                fraction = true;
                r->p++;
                if (skip_digits(r) == 0)
                        return unexpected(r, "a digit");
        }
        if (r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
                fraction = true;
                r->p++;
                if (r->p < r->end && (*r->p == '+' || *r->p == '-'))
                        r->p++;
                if (skip_digits(r) == 0)
                        return unexpected(r, "a digit");
        }
        *ret_fraction = fraction;
        return 0;
}

static int make_fraction(Reader *r, const char *at, const char *literal, json_object **ret)
{
        /* The decimal point must be one whatever the program's locale is. */
        if (!r->locale)
                r->locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
        if (!r->locale)
                return -ENOMEM;
        double d = strtod_l(literal, NULL, r->locale);
        if (!isfinite(d))
                return fault(r, at, "number %s is too large", literal);
        *ret = json_object_new_double_s(d, literal); /* which keeps the digits as they are */
        return *ret ? 0 : -ENOMEM;
}

static int make_integer(Reader *r, const char *at, const char *literal, json_object **ret)
{
        bool negative = *literal == '-';
        uint64_t v;

        if (parse_u64(literal + negative, &v) < 0 || (negative && v > (uint64_t) INT64_MAX + 1))
                return fault(r, at, "number %s does not fit into 64 bits", literal);
        if (negative)
                *ret = json_object_new_int64(v == 0 ? 0 : -(int64_t) (v - 1) - 1);
        else if (v > (uint64_t) INT64_MAX)
                *ret = json_object_new_uint64(v);
        else
                *ret = json_object_new_int64((int64_t) v);
        return *ret ? 0 : -ENOMEM;
}

static int read_number(Reader *r, json_object **ret)
{
        char literal[NUMBER_LENGTH_MAX + 1];
        const char *at = r->p;
        bool fraction = false;

        int q = scan_number(r, &fraction);
        if (q < 0)
                return q;
        size_t n = (size_t) (r->p - at);
        if (n > NUMBER_LENGTH_MAX)
                return fault(r, at, "number of more than %u characters", NUMBER_LENGTH_MAX);
        memcpy(literal, at, n);
        literal[n] = 0;
        return fraction ? make_fraction(r, at, literal, ret) : make_integer(r, at, literal, ret);
}

static int read_word(Reader *r, json_object **ret)
{
        static const char *const words[] = {"null", "true", "false"};

        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                size_t n = strlen(words[i]);

                if ((size_t) (r->end - r->p) < n || memcmp(r->p, words[i], n) != 0)
                        continue;
                r->p += n;
                *ret = i == 0 ? NULL : json_object_new_boolean(i == 1);
                return i > 0 && !*ret ? -ENOMEM : 0;
        }
        return unexpected(r, "a value");
}

/* --- Values -------------------------------------------------------------------------------------------- */

static int open_container(Reader *r, json_object **ret)
{
        if (r->depth == DEPTH_MAX)
                return fault(r, r->p, "nesting deeper than %u levels", DEPTH_MAX);
        if (++r->n_containers > JSON_CONTAINERS_MAX)
                return fault(r, r->p, "more than %u objects and lists", JSON_CONTAINERS_MAX);
        *ret = *r->p == '{' ? json_object_new_object() : json_object_new_array_ext(1);
        if (!*ret)
                return -ENOMEM;
        r->p++;
        return 0;
}

static int make_value(Reader *r, json_object **ret)
{
        char c = skip_space(r);

        if (c == '{' || c == '[')
                return open_container(r, ret);
        if (c == '"') {
                int q = read_string(r);
                if (q < 0)
                        return q;
                if (r->string.size > INT32_MAX)
                        return -EFBIG;
                *ret = json_object_new_string_len(r->string.data, (int) r->string.size);
                return *ret ? 0 : -ENOMEM;
        }
        if (c == '-' || is_digit(c))
                return read_number(r, ret);
        return read_word(r, ret);
}

/* Reads a value and puts it into PARENT, under KEY if that is an object; without parent it is the root. */
static int read_value(Reader *r, json_object *parent, const char *key)
{
        json_object *o = NULL;
        int q = 0;

        if (++r->n_values > JSON_VALUES_MAX)
                return fault(r, r->p, "more than %u values", JSON_VALUES_MAX);
        int s = make_value(r, &o);
        if (s < 0)
                return s;
        if (!parent)
                r->root = o;
        else if (key)
                q = json_object_object_add_ex(parent, key, o, JSON_C_OBJECT_ADD_KEY_IS_NEW);
        else
                q = json_object_array_add(parent, o);
        if (q < 0) {
                json_object_put(o);
                return -ENOMEM;
        }
        if (json_object_is_type(o, json_type_object) || json_object_is_type(o, json_type_array))
                r->stack[r->depth++] = (Frame){.container = o};
        return 0;
}

static int read_member(Reader *r, json_object *object)
{
        _cleanup_free_ char *key = NULL;

        if (skip_space(r) != '"')
                return unexpected(r, "a key in quotes");
        const char *at = r->p;
        int q = read_string(r);
        if (q < 0)
                return q;
        key = strdup(r->string.data);
        if (!key)
                return -ENOMEM;
        if (json_object_object_get_ex(object, key, NULL)) {
                _cleanup_free_ char *quoted = quote_value(key);
                return fault(r, at, "key %s is there twice in the same object", quoted ?: "");
        }
        if (skip_space(r) != ':')
                return unexpected(r, "':'");
        r->p++;
        return read_value(r, object, key);
}

/* One member or element of the innermost container, or its end. */
static int step(Reader *r)
{
        Frame *f = r->stack + r->depth - 1;
        bool object = json_object_is_type(f->container, json_type_object);
        char c = skip_space(r);

        if (c == (object ? '}' : ']')) {
                r->p++;
                r->depth--;
                return 0;
        }
        if (f->started) {
                if (c != ',')
                        return unexpected(r, object ? "',' or '}'" : "',' or ']'");
                r->p++;
        }
        f->started = true;
        return object ? read_member(r, f->container) : read_value(r, f->container, NULL);
}

static int read_document(Reader *r)
{
        int q = read_value(r, NULL, NULL);

        while (q >= 0 && r->depth > 0)
                q = step(r);
        if (q < 0)
                return q;
        (void) skip_space(r);
        return r->p == r->end ? 0 : unexpected(r, "the end of the text");
}

/* --- Interface ----------------------------------------------------------------------------------------- */

static int report_fault(const Reader *r, Findings *findings, Error *e)
{
        char where[64];
        size_t line = 1, column = 1;

        for (const char *p = r->text; p < r->fault_at; p++) {
                if (*p == '\n') {
                        line++;
                        column = 1;
                } else if (((unsigned char) *p & 0xc0) != 0x80) /* columns count characters, not bytes */
                        column++;
        }
        snprintf(where, sizeof(where), "line %zu, column %zu", line, column);
        if (findings && findings_add(findings, where, r->fault) < 0)
                return error_oom(e);
        return error_set(e, -EBADMSG, "Invalid JSON: %s: %s", where, r->fault);
}

int json_parse_strict(const char *text, size_t size, json_object **ret, Findings *findings, Error *e)
{
        _cleanup_(reader_done) Reader r = {.text = text, .p = text, .end = text + size};

        if (size > MANIFEST_SIZE_MAX)
                return error_set(e, -EFBIG, "The text has %zu bytes, more than the %u that are allowed",
                                 size, MANIFEST_SIZE_MAX);
        int q = read_document(&r);
        if (q == -EBADMSG && r.fault)
                return report_fault(&r, findings, e);
        if (q < 0)
                return error_oom(e);
        *ret = TAKE_PTR(r.root);
        return 0;
}

int json_list_append(json_object *list, json_object *item)
{
        if (list && item && json_object_array_add(list, item) >= 0)
                return 0;
        json_object_put(item);
        return -ENOMEM;
}

int json_member_add(json_object *o, const char *key, json_object *value)
{
        if (o && value && json_object_object_add(o, key, value) >= 0)
                return 0;
        json_object_put(value);
        return -ENOMEM;
}

int json_member_add_text(json_object *o, const char *key, const char *s)
{
        if (s)
                return json_member_add(o, key, json_new_string_lossy(s));
        return o && json_object_object_add(o, key, NULL) >= 0 ? 0 : -ENOMEM;
}

json_object *json_new_string_list(char *const *l)
{
        _cleanup_json_ json_object *a = json_object_new_array();

        STRV_FOREACH (s, l)
                if (json_list_append(a, json_new_string_lossy(*s)) < 0)
                        return NULL;
        return TAKE_PTR(a);
}

json_object *json_new_string_lossy(const char *s)
{
        _cleanup_text_ Text t = {};
        size_t n = strlen(s);

        if (n > INT32_MAX / 3)
                return NULL;
        if (utf8_is_valid(s, n))
                return json_object_new_string_len(s, (int) n);
        for (const char *p = s, *end = s + n; p < end;) {
                size_t k = character_length(p, end);

                if (k > 0)
                        text_add_bytes(&t, p, k);
                else
                        text_add(&t, "\xef\xbf\xbd");
                p += k ?: 1;
        }
        return t.failed ? NULL : json_object_new_string_len(t.data, (int) t.size);
}

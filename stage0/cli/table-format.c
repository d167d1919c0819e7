/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --format of commands that list objects.
 *
 * A list of fields, "name,state", selects the columns of the table, for people. A text with fields in braces,
 * "{name}\t{state}", is written once for each row, for programs: values are those of JSON there. It is parsed twice
 * by the same function, when the option is given, to report errors before anything else is done, and for each row.
 */

#include "stage0/cli/table.h"

#define FIELDS_MAX 64U

static const TableColumn *find_field(const TableFormat *f, const char *s, size_t n)
{
        for (size_t i = 0; i < f->n_fields; i++)
                if (strlen(f->fields[i].key) == n && strncmp(f->fields[i].key, s, n) == 0)
                        return &f->fields[i];
        return NULL;
}

static int refuse_field(const Option *o, const char *value, const TableFormat *f, const char *s, size_t n,
                        Error *e)
{
        _cleanup_free_ char *word = strndup(s, n), *shown = word ? text_escape_for_terminal(word) : NULL,
                            *known = NULL;
        _cleanup_strv_free_ char **names = NULL;

        for (size_t i = 0; i < f->n_fields; i++)
                if (strv_extend(&names, f->fields[i].key) < 0)
                        return error_oom(e);
        known = strv_join(names, ", ");
        if (!shown || !known)
                return error_oom(e);
        int r = option_invalid(o, value, e, "there is no field '%s'; the fields are %s", shown, known);
        return streq(shown, "json") ? error_hint(e, r, "--json shows JSON.") : r;
}

static int take_columns(const Option *o, const char *value, TableFormat *f, Error *e)
{
        _cleanup_strv_free_ char **words = NULL;

        if (strv_split(value, ",", &words) < 0)
                return error_oom(e);
        if (!words)
                return option_invalid(o, value, e,
                                      "must be fields, as in '%s', or a text with fields, as in '{%s}'",
                                      f->fields[0].key, f->fields[0].key);
        STRV_FOREACH (w, words) {
                if (!find_field(f, *w, strlen(*w)))
                        return refuse_field(o, value, f, *w, strlen(*w), e);
                for (char **before = words; before < w; before++)
                        if (streq(*before, *w))
                                return option_invalid(o, value, e, "'%s' is given twice", *w);
        }
        strv_free(f->columns);
        f->columns = TAKE_PTR(words);
        f->text = NULL;
        return 0;
}

/* --- Texts with fields --------------------------------------------------------------------------------- */

typedef enum PieceType {
        PIECE_END,
        PIECE_CHARACTER,
        PIECE_FIELD,
        PIECE_BAD_ESCAPE,
        PIECE_BAD_BRACE
} PieceType;

typedef struct Piece {
        PieceType type;
        char character;
        const char *field; /* and its length */
        size_t n;
} Piece;

static Piece take_escape(const char **s)
{
        static const char letters[] = "tn\\", characters[] = "\t\n\\";
        char letter = (*s)[1];
        const char *found = letter ? strchr(letters, letter) : NULL;

        if (!found)
                return (Piece){.type = PIECE_BAD_ESCAPE};
        *s += 2;
        return (Piece){.type = PIECE_CHARACTER, .character = characters[found - letters]};
}

static Piece take_piece(const char **s)
{
        char c = **s;

        if (!c)
                return (Piece){.type = PIECE_END};
        if (c == '\\')
                return take_escape(s);
        if (c != '{' && c != '}') {
                (*s)++;
                return (Piece){.type = PIECE_CHARACTER, .character = c};
        }
        if ((*s)[1] == c) { /* doubled: itself */
                *s += 2;
                return (Piece){.type = PIECE_CHARACTER, .character = c};
        }
        const char *end = c == '{' ? strchr(*s, '}') : NULL;
        if (!end)
                return (Piece){.type = PIECE_BAD_BRACE};
        Piece p = {.type = PIECE_FIELD, .field = *s + 1, .n = (size_t) (end - *s - 1)};
        *s = end + 1;
        return p;
}

/* A template of podman and docker, "{{.Names}}", would be a text in braces. */
static bool is_template(const char *value)
{
        for (const char *s = value; (s = strstr(s, "{{")); s += 2) {
                const char *word = s + 2 + strspn(s + 2, " -");
                if (*word == '.' || startswith(word, "json ") || startswith(word, "range "))
                        return true;
        }
        return false;
}

static int take_text(const Option *o, const char *value, TableFormat *f, Error *e)
{
        if (is_template(value)) {
                int r = option_invalid(o, value, e, "templates of podman and docker are not understood");
                return error_hint(e, r, "A field is in single braces, as in '{%s}'.", f->fields[0].key);
        }
        for (const char *s = value;;) {
                Piece p = take_piece(&s);

                if (p.type == PIECE_END)
                        break;
                if (p.type == PIECE_BAD_ESCAPE)
                        return option_invalid(o, value, e, "'\\' must be followed by t, n or another '\\'");
                if (p.type == PIECE_BAD_BRACE)
                        return option_invalid(
                                        o, value, e,
                                        "a brace is not closed, or not opened; a brace itself is doubled");
                if (p.type == PIECE_FIELD && !find_field(f, p.field, p.n))
                        return refuse_field(o, value, f, p.field, p.n, e);
        }
        strv_free(f->columns);
        f->columns = NULL;
        f->text = value;
        return 0;
}

int option_table_format(const Option *o, const char *value, void *target, Error *e)
{
        return strpbrk(value, "{}\\") ? take_text(o, value, target, e) : take_columns(o, value, target, e);
}

void table_format_done(TableFormat *f)
{
        f->columns = strv_free(f->columns);
}

static int add_row(Text *t, const Table *table, const TableFormat *f, size_t row)
{
        for (const char *s = f->text;;) {
                Piece p = take_piece(&s);

                if (p.type == PIECE_CHARACTER) {
                        text_add_bytes(t, &p.character, 1);
                        continue;
                }
                if (p.type != PIECE_FIELD)
                        break;
                _cleanup_free_ char *value =
                                table_value(table, row, (size_t) (find_field(f, p.field, p.n) - f->fields));
                if (!value)
                        return -ENOMEM;
                text_add(t, value);
        }
        text_add(t, "\n");
        return 0;
}

int table_fill_text(const Table *table, const TableFormat *f, char **ret)
{
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < table_n_rows(table); i++)
                if (add_row(&t, table, f, i) < 0)
                        return -ENOMEM;
        text_add(&t, "");
        return text_take(&t, ret, NULL);
}

int table_select_format(Table *t, const TableFormat *f, const char *const *usual)
{
        size_t columns[FIELDS_MAX], n = 0;

        for (const char *const *w = f->columns ? (const char *const *) f->columns : usual;
             *w && n < FIELDS_MAX; w++)
                columns[n++] = (size_t) (find_field(f, *w, strlen(*w)) - f->fields);
        return table_select(t, columns, n);
}

bool table_format_given(const TableFormat *f)
{
        return f->text || f->columns;
}

bool table_format_has(const TableFormat *f, const char *field)
{
        if (!f->text)
                return strv_contains(f->columns, field);
        for (const char *s = f->text;;) {
                Piece p = take_piece(&s);

                if (p.type == PIECE_FIELD && strlen(field) == p.n && strncmp(field, p.field, p.n) == 0)
                        return true;
                if (p.type != PIECE_FIELD && p.type != PIECE_CHARACTER)
                        return false;
        }
}

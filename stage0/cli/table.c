/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tables: the rows of a verb's output, as aligned text or as JSON.
 *
 * A cell keeps its value, not its text, so that JSON has numbers, full identifiers and microseconds where
 * the text has sizes, short identifiers and "2min ago". Strings may come from images: in text, control
 * characters including line breaks are escaped, so a row is always one line. On a terminal that is too
 * narrow, the columns that allow it are cut, the widest first. The last column is not padded.
 */

#include <inttypes.h>

#include "schema/schema.h"
#include "stage0/cli/table.h"

typedef enum CellType {
        CELL_NONE,
        CELL_TEXT,
        CELL_LIST,
        CELL_NUMBER,
        CELL_SIZE,
        CELL_TIME,
        CELL_JSON
} CellType;

typedef struct Cell {
        CellType type;
        Color color;
        char *text, *shown;
        char **list;
        json_object *json;
        union {
                int64_t number;
                uint64_t unsigned_number;
        };
} Cell;

struct Table {
        const TableColumn *columns;
        size_t n_columns;
        TableColumn *selected; /* what COLUMNS points to after a selection; or NULL */
        Cell *cells;
        size_t n_cells, allocated;
        bool failed;
};

bool table_lists_objects(const Table *t)
{
        static const char *const keys[] = {"uuid", "id", "name"};

        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (t->n_columns > 0 && streq(t->columns[0].key, keys[i]))
                        return true;
        return false;
}

Table *table_new(const TableColumn *columns, size_t n_columns)
{
        Table *t = calloc(1, sizeof(Table));

        if (t)
                *t = (Table){.columns = columns, .n_columns = n_columns};
        return t;
}

static void cell_done(Cell *c)
{
        free(c->text);
        free(c->shown);
        strv_free(c->list);
        json_object_put(c->json);
        *c = (Cell){};
}

Table *table_free(Table *t)
{
        if (!t)
                return NULL;
        for (size_t i = 0; i < t->n_cells; i++)
                cell_done(&t->cells[i]);
        free(t->cells);
        free(t->selected);
        free(t);
        return NULL;
}

/* --- Filling ------------------------------------------------------------------------------------------- */

static Cell *add_cell(Table *t, CellType type)
{
        static Cell lost; /* a dummy for a cell that could not be allocated */

        if (t->failed || GREEDY_REALLOC(t->cells, t->allocated, t->n_cells + 1) < 0) {
                t->failed = true;
                return &lost;
        }
        t->cells[t->n_cells] = (Cell){.type = type};
        return &t->cells[t->n_cells++];
}

void table_add_none(Table *t)
{
        (void) add_cell(t, CELL_NONE);
}

void table_add_text_as(Table *t, const char *s, const char *shown)
{
        Cell *c = add_cell(t, s ? CELL_TEXT : CELL_NONE);

        if (t->failed)
                return;
        if (s && !(c->text = strdup(s)))
                t->failed = true;
        if (shown && !(c->shown = text_escape_for_terminal(shown)))
                t->failed = true;
}

void table_add_text(Table *t, const char *s)
{
        table_add_text_as(t, s, s);
}

void table_add_list(Table *t, char *const *l)
{
        Cell *c = add_cell(t, CELL_LIST);

        if (!t->failed && strv_copy(l, &c->list) < 0)
                t->failed = true;
}

void table_add_json(Table *t, json_object *o, const char *shown)
{
        Cell *c = add_cell(t, CELL_JSON);

        if (!t->failed && o && (c->shown = text_escape_for_terminal(isempty(shown) ? "-" : shown))) {
                c->json = o;
                return;
        }
        json_object_put(o);
        t->failed = true;
}

void table_add_number(Table *t, int64_t n)
{
        add_cell(t, CELL_NUMBER)->number = n;
}

void table_add_number_as(Table *t, int64_t n, const char *shown)
{
        Cell *c = add_cell(t, CELL_NUMBER);

        c->number = n;
        if (!t->failed && !(c->shown = strdup(shown)))
                t->failed = true;
}

void table_add_size(Table *t, uint64_t bytes)
{
        add_cell(t, CELL_SIZE)->unsigned_number = bytes;
}

void table_add_time(Table *t, uint64_t usec)
{
        add_cell(t, usec > 0 ? CELL_TIME : CELL_NONE)->unsigned_number = usec;
}

void table_set_color(Table *t, Color c)
{
        if (!t->failed && t->n_cells > 0)
                t->cells[t->n_cells - 1].color = c;
}

size_t table_n_rows(const Table *t)
{
        return t->n_cells / t->n_columns;
}

int table_select(Table *t, const size_t *columns, size_t n)
{
        size_t n_rows = table_n_rows(t);
        _cleanup_free_ TableColumn *selected = calloc(MAX(n, (size_t) 1), sizeof(TableColumn));
        _cleanup_free_ Cell *cells = calloc(MAX(n_rows * n, (size_t) 1), sizeof(Cell));

        if (!selected || !cells || t->failed)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                selected[i] = t->columns[columns[i]];
                for (size_t row = 0; row < n_rows; row++) {
                        Cell *from = &t->cells[row * t->n_columns + columns[i]];
                        cells[row * n + i] = *from;
                        *from = (Cell){};
                }
        }
        for (size_t i = 0; i < t->n_cells; i++)
                cell_done(&t->cells[i]);
        free(t->cells);
        free(t->selected);
        t->cells = TAKE_PTR(cells);
        t->n_cells = t->allocated = n_rows * n;
        t->columns = t->selected = TAKE_PTR(selected);
        t->n_columns = n;
        return 0;
}

/* --- Text ---------------------------------------------------------------------------------------------- */

static char *list_text(const Cell *c)
{
        _cleanup_free_ char *joined = strv_join(c->list, ", ");

        if (!joined)
                return NULL;
        return joined[0] ? text_escape_for_terminal(joined) : strdup("-");
}

static char *cell_text(const Cell *c, const Display *d)
{
        char *s = NULL;

        switch (c->type) {
        case CELL_NONE:
        case CELL_TEXT:
        case CELL_JSON:
                return strdup(isempty(c->shown) ? "-" : c->shown);
        case CELL_LIST:
                return list_text(c);
        case CELL_NUMBER:
                if (c->shown)
                        return strdup(c->shown);
                return xasprintf(&s, "%" PRId64, c->number) < 0 ? NULL : s;
        case CELL_SIZE:
                return format_size(c->unsigned_number);
        case CELL_TIME:
                return format_relative(c->unsigned_number, d->now);
        }
        return NULL;
}

/* All cells as text, in the order of the cells. */
static int render_cells(const Table *t, const Display *d, char ***ret)
{
        _cleanup_strv_free_ char **texts = calloc(t->n_cells + 1, sizeof(char *));

        if (!texts)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_cells; i++) {
                texts[i] = cell_text(&t->cells[i], d);
                if (!texts[i])
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(texts);
        return 0;
}

/* Narrows the widest of the columns that may shrink until the line fits, or none can shrink further. */
static void shrink_columns(const Table *t, size_t columns, size_t *widths)
{
        size_t total = t->n_columns - 1;

        for (size_t i = 0; i < t->n_columns; i++)
                total += widths[i];
        while (total > columns) {
                size_t widest = SIZE_MAX;

                for (size_t i = 0; i < t->n_columns; i++)
                        if (t->columns[i].shrink_to > 0 && widths[i] > t->columns[i].shrink_to &&
                            (widest == SIZE_MAX || widths[i] > widths[widest]))
                                widest = i;
                if (widest == SIZE_MAX)
                        return;
                widths[widest]--;
                total--;
        }
}

static void measure_columns(const Table *t, const Display *d, bool legend, char *const *texts,
                            size_t *widths)
{
        for (size_t i = 0; i < t->n_columns; i++)
                widths[i] = legend ? text_width(t->columns[i].header) : 0;
        for (size_t i = 0; i < t->n_cells; i++) {
                size_t w = text_width(texts[i]);
                widths[i % t->n_columns] = MAX(widths[i % t->n_columns], w);
        }
        if (d->columns > 0)
                shrink_columns(t, d->columns, widths);
}

/* One cell of a line. Escape sequences have no width, so padding is computed here instead of by printf. */
static int add_field(Text *out, const Table *t, const Display *d, size_t column, const char *s, size_t width,
                     Color c)
{
        const TableColumn *k = &t->columns[column];
        _cleanup_free_ char *cut = k->middle ? text_ellipsize_middle(s, width, d->utf8)
                                             : text_ellipsize(s, width, d->utf8);
        bool last = column + 1 == t->n_columns;

        if (!cut)
                return -ENOMEM;
        size_t w = text_width(cut), padding = width > w ? width - w : 0;
        text_addf(out, "%*s", (int) (k->right ? padding : 0), "");
        if (c != COLOR_NONE)
                text_addf(out, "%s%s%s", color_sequence(d, c), cut, color_sequence(d, COLOR_NONE));
        else
                text_add(out, cut);
        text_addf(out, "%*s%s", (int) (k->right || last ? 0 : padding), "", last ? "\n" : " ");
        return 0;
}

int table_format(const Table *t, const Display *d, bool legend, char **ret)
{
        _cleanup_free_ size_t *widths = calloc(t->n_columns, sizeof(size_t));
        _cleanup_strv_free_ char **texts = NULL;
        _cleanup_text_ Text out = {};
        int r;

        if (!widths || t->failed)
                return -ENOMEM;
        r = render_cells(t, d, &texts);
        if (r < 0)
                return r;
        measure_columns(t, d, legend, texts, widths);
        for (size_t i = 0; legend && r >= 0 && i < t->n_columns; i++)
                r = add_field(&out, t, d, i, t->columns[i].header, widths[i], COLOR_BOLD);
        for (size_t i = 0; r >= 0 && i < t->n_cells; i++) {
                size_t column = i % t->n_columns;
                r = add_field(&out, t, d, column, texts[i], widths[column], t->cells[i].color);
        }
        return r < 0 ? r : text_take(&out, ret, NULL);
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static json_object *cell_json(const Cell *c)
{
        if (c->type == CELL_TEXT)
                return json_new_string_lossy(c->text);
        if (c->type == CELL_LIST)
                return json_new_string_list(c->list);
        if (c->type == CELL_JSON)
                return json_object_get(c->json);
        if (c->type == CELL_NUMBER)
                return json_object_new_int64(c->number);
        return json_object_new_uint64(c->unsigned_number);
}

json_object *table_to_json(const Table *t)
{
        _cleanup_json_ json_object *rows = json_object_new_array();
        json_object *row = NULL;

        if (!rows || t->failed)
                return NULL;
        for (size_t i = 0; i < t->n_cells; i++) {
                size_t column = i % t->n_columns;
                json_object *value = NULL;

                if (column == 0) {
                        row = json_object_new_object();
                        if (json_list_append(rows, row) < 0)
                                return NULL;
                }
                if (t->cells[i].type != CELL_NONE && !(value = cell_json(&t->cells[i])))
                        return NULL;
                if (json_member_add_nullable(row, t->columns[column].key, value) < 0)
                        return NULL;
        }
        return TAKE_PTR(rows);
}

/* --- Single values ------------------------------------------------------------------------------------- */

/* "a=b,c=d" of an object with plain members; other documents as they are. */
static char *json_value(json_object *o)
{
        _cleanup_strv_free_ char **pairs = NULL;

        if (!json_object_is_type(o, json_type_object))
                return strdup(json_object_get_string(o) ?: "");
        json_object_object_foreach (o, key, member)
                if (strv_extendf(&pairs, "%s=%s", key, json_object_get_string(member) ?: "") < 0)
                        return NULL;
        return strv_join(pairs, ",");
}

static char *plain_value(const Cell *c)
{
        char *s = NULL;

        switch (c->type) {
        case CELL_NONE:
                return strdup("");
        case CELL_TEXT:
                return strdup(c->text ?: "");
        case CELL_LIST:
                return strv_join(c->list, ",");
        case CELL_JSON:
                return json_value(c->json);
        case CELL_NUMBER:
                return xasprintf(&s, "%" PRId64, c->number) < 0 ? NULL : s;
        case CELL_SIZE:
        case CELL_TIME:
                return xasprintf(&s, "%" PRIu64, c->unsigned_number) < 0 ? NULL : s;
        }
        return NULL;
}

char *table_value(const Table *t, size_t row, size_t column)
{
        _cleanup_free_ char *plain = t->failed ? NULL : plain_value(&t->cells[row * t->n_columns + column]);

        return plain ? text_escape_for_terminal(plain) : NULL;
}

int json_to_text(json_object *o, bool pretty, char **ret)
{
        const char *s = !o ? NULL : pretty ? json_print_pretty(o) : json_print(o);
        _cleanup_text_ Text t = {};

        if (!s)
                return -ENOMEM;
        text_add_json(&t, s);
        text_add(&t, "\n");
        return text_take(&t, ret, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Varlink's interface language: a description is parsed into one array of nodes that point to each other by
 * index, and JSON values are compared with it. Names stay in the text.
 *
 * A declared type is always a struct or an enum, never another name: comparing goes no deeper than the value
 * does, whose depth is bounded, also where types contain themselves.
 */

#include "varlink/varlink-internal.h"

#define IDL_DEPTH_MAX 16U
#define IDL_NODES_MAX 4096U
#define IDL_NAME_MAX 255

typedef struct Parser {
        const char *text, *p;
        Idl *idl;
        unsigned depth;
        Error *error;
} Parser;

Idl *idl_free(Idl *idl)
{
        if (idl)
                free(idl->nodes);
        free(idl);
        return NULL;
}

static bool is_named(const IdlNode *n, const char *name, size_t size)
{
        return n->name_size == size && memcmp(n->name, name, size) == 0;
}

size_t idl_find(const Idl *idl, size_t parent, IdlKind kind, const char *name, size_t name_size)
{
        for (size_t i = idl->nodes[parent].child; i > 0; i = idl->nodes[i].next)
                if ((idl->nodes[i].kind == kind || kind == IDL_ANY_KIND) &&
                    is_named(idl->nodes + i, name, name_size))
                        return i;
        return 0;
}

/* --- Words --------------------------------------------------------------------------------------------- */

static int fault(const Parser *p, const char *expected)
{
        unsigned line = 1;

        for (const char *c = p->text; c < p->p; c++)
                line += *c == '\n';
        return error_set(p->error, -EBADMSG, "Interface description, line %u: %s expected", line, expected);
}

static void skip_space(Parser *p)
{
        for (;;) {
                p->p += strspn(p->p, " \t\r\n");
                if (*p->p != '#')
                        return;
                p->p += strcspn(p->p, "\n");
        }
}

static bool skip(Parser *p, const char *token)
{
        skip_space(p);
        const char *end = startswith(p->p, token);

        /* A word must not go on. */
        if (!end || (is_alphanumeric(*token) && (is_alphanumeric(*end) || *end == '_')))
                return false;
        p->p = end;
        return true;
}

/* A name of letters and digits, with characters of SEPARATORS in between. */
static int read_name(Parser *p, const char *separators, bool upper, IdlNode *n)
{
        bool complete = false;

        skip_space(p);
        const char *start = p->p;
        for (; *p->p && p->p - start < IDL_NAME_MAX; p->p++) {
                if (is_alphanumeric(*p->p))
                        complete = true;
                else if (strchr(separators, *p->p) && (complete || (*p->p == '-' && p->p[-1] == '-')))
                        complete = false;
                else
                        break;
        }
        if (!complete || is_digit(*start) || (upper && !is_upper(*start)))
                return fault(p, upper ? "a type, or a name that begins with a capital letter" : "a name");
        n->name = start;
        n->name_size = (size_t) (p->p - start);
        return 0;
}

/* --- Types --------------------------------------------------------------------------------------------- */

static int add_node(Parser *p, const IdlNode *n, size_t *ret)
{
        if (p->idl->n == IDL_NODES_MAX)
                return fault(p, "the end (there are too many members)");
        if (GREEDY_REALLOC(p->idl->nodes, p->idl->allocated, p->idl->n + 1) < 0)
                return error_oom(p->error);
        p->idl->nodes[p->idl->n] = *n;
        *ret = p->idl->n++;
        return 0;
}

/* Appends N to the children of PARENT, the last of which is *LAST. */
static int append_node(Parser *p, size_t parent, const IdlNode *n, size_t *last)
{
        size_t node;

        for (size_t i = p->idl->nodes[parent].child; i > 0; i = p->idl->nodes[i].next)
                if (is_named(p->idl->nodes + i, n->name, n->name_size))
                        return fault(p, "a name that is not there yet, before this,");
        int r = add_node(p, n, &node);
        if (r < 0)
                return r;
        *(*last > 0 ? &p->idl->nodes[*last].next : &p->idl->nodes[parent].child) = node;
        *last = node;
        return 0;
}

static int parse_type(Parser *p, size_t node);

/* "(a: int, b: string)" or, where OR_ENUM, "(a, b)". The first member tells which. */
static int parse_members(Parser *p, size_t node, bool or_enum)
{
        size_t last = 0;

        if (!skip(p, "("))
                return fault(p, "'('");
        p->idl->nodes[node].kind = IDL_STRUCT;
        while (!skip(p, ")")) {
                IdlNode member = {.kind = IDL_WORD};
                bool first = last == 0;
                if (!first && !skip(p, ","))
                        return fault(p, "',' or ')'");
                int r = read_name(p, "_", false, &member);
                if (r >= 0)
                        r = append_node(p, node, &member, &last);
                if (r < 0)
                        return r;
                bool field = skip(p, ":");
                if (first && !field && or_enum)
                        p->idl->nodes[node].kind = IDL_ENUM;
                if (field != (p->idl->nodes[node].kind == IDL_STRUCT))
                        return fault(p, field ? "',' or ')'" : "':'");
                r = field ? parse_type(p, last) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int parse_child_type(Parser *p, size_t node, IdlKind kind)
{
        size_t child;
        int r = add_node(p, &(IdlNode){}, &child);

        if (r < 0)
                return r;
        p->idl->nodes[node].kind = kind;
        p->idl->nodes[node].child = child;
        return parse_type(p, child);
}

static int parse_plain_type(Parser *p, size_t node)
{
        static const char *const words[] = {"bool", "int", "float", "string", "object", "any"};
        IdlNode name = {};

        if (skip(p, "[]"))
                return parse_child_type(p, node, IDL_LIST);
        if (skip(p, "[string]"))
                return parse_child_type(p, node, IDL_MAP);
        if (*p->p == '(')
                return parse_members(p, node, true);
        for (IdlKind i = 0; i < ELEMENTSOF(words); i++)
                if (skip(p, words[i])) {
                        p->idl->nodes[node].kind = i;
                        return 0;
                }
        int r = read_name(p, "", true, &name);
        if (r < 0)
                return r;
        p->idl->nodes[node].kind = IDL_NAMED;
        p->idl->nodes[node].type = name.name;
        p->idl->nodes[node].type_size = name.name_size;
        return 0;
}

static int parse_type(Parser *p, size_t node)
{
        if (p->depth == IDL_DEPTH_MAX)
                return fault(p, "a type that is nested less deeply");
        p->idl->nodes[node].nullable = skip(p, "?");
        p->depth++;
        int r = parse_plain_type(p, node);
        p->depth--;
        return r;
}

/* --- Declarations -------------------------------------------------------------------------------------- */

static int parse_declaration(Parser *p, size_t *last)
{
        IdlNode n = {};
        size_t child, reply;

        if (skip(p, "type"))
                n.kind = IDL_TYPE;
        else if (skip(p, "method"))
                n.kind = IDL_METHOD;
        else if (skip(p, "error"))
                n.kind = IDL_ERROR;
        else
                return fault(p, "'type', 'method' or 'error'");
        int r = read_name(p, "", true, &n);
        if (r < 0)
                return r;
        r = append_node(p, 0, &n, last);
        if (r < 0)
                return r;
        r = add_node(p, &(IdlNode){}, &child);
        if (r < 0)
                return r;
        p->idl->nodes[*last].child = child;
        r = parse_members(p, child, n.kind == IDL_TYPE);
        if (r < 0 || n.kind != IDL_METHOD)
                return r;
        if (!skip(p, "->"))
                return fault(p, "'->'");
        r = add_node(p, &(IdlNode){}, &reply);
        if (r < 0)
                return r;
        p->idl->nodes[child].next = reply;
        return parse_members(p, reply, false);
}

static int resolve_names(Parser *p)
{
        for (IdlNode *n = p->idl->nodes; n < p->idl->nodes + p->idl->n; n++) {
                if (n->kind != IDL_NAMED)
                        continue;
                size_t type = idl_find(p->idl, 0, IDL_TYPE, n->type, n->type_size);
                if (type == 0) {
                        p->p = n->type;
                        return fault(p, "a type that is declared");
                }
                n->child = p->idl->nodes[type].child;
        }
        return 0;
}

int idl_parse(const char *text, Idl **ret, Error *e)
{
        _cleanup_(idl_freep) Idl *idl = calloc(1, sizeof(Idl));
        Parser p = {.text = text, .p = text, .idl = idl, .error = e};
        IdlNode interface = {.kind = IDL_INTERFACE};
        size_t node, last = 0;

        if (!idl)
                return error_oom(e);
        if (!skip(&p, "interface"))
                return fault(&p, "'interface'");
        int r = read_name(&p, ".-", false, &interface);
        if (r < 0)
                return r;
        if (!memchr(interface.name, '.', interface.name_size))
                return fault(&p, "a name with a dot, before this,");
        r = add_node(&p, &interface, &node);
        while (r >= 0 && (skip_space(&p), *p.p))
                r = parse_declaration(&p, &last);
        if (r < 0)
                return r;
        r = resolve_names(&p);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(idl);
        return 0;
}

/* --- Comparing ----------------------------------------------------------------------------------------- */

static bool matches(const Idl *idl, size_t node, json_object *v, char *where, size_t at);

/* Writes a part of the place at AT; returns where the next one goes. */
static size_t add_place(char *where, size_t at, const char *separator, const char *name)
{
        int n = snprintf(where + at, IDL_WHERE_MAX - at, "%s%s", at > 0 ? separator : "", name);

        return n < 0 ? at : MIN(at + (size_t) n, IDL_WHERE_MAX - 1);
}

static bool struct_matches(const Idl *idl, size_t node, json_object *v, char *where, size_t at)
{
        char key[IDL_NAME_MAX + 1];

        json_object_object_foreach (v, name, value) {
                (void) value;
                if (idl_find(idl, node, IDL_ANY_KIND, name, strlen(name)) == 0)
                        return add_place(where, at, ".", name), false;
        }
        for (size_t i = idl->nodes[node].child; i > 0; i = idl->nodes[i].next) {
                snprintf(key, sizeof(key), "%.*s", (int) idl->nodes[i].name_size, idl->nodes[i].name);
                if (!matches(idl, i, json_object_object_get(v, key), where, add_place(where, at, ".", key)))
                        return false;
        }
        return true;
}

static bool list_matches(const Idl *idl, size_t element, json_object *v, char *where, size_t at)
{
        char index[32];

        for (size_t i = 0; i < json_object_array_length(v); i++) {
                snprintf(index, sizeof(index), "[%zu]", i);
                if (!matches(idl, element, json_object_array_get_idx(v, i), where,
                             add_place(where, at, "", index)))
                        return false;
        }
        return true;
}

static bool map_matches(const Idl *idl, size_t element, json_object *v, char *where, size_t at)
{
        json_object_object_foreach (v, key, value) {
                if (!matches(idl, element, value, where, add_place(where, at, ".", key)))
                        return false;
        }
        return true;
}

static bool matches(const Idl *idl, size_t node, json_object *v, char *where, size_t at)
{
        bool nullable = idl->nodes[node].nullable;

        if (idl->nodes[node].kind == IDL_NAMED)
                node = idl->nodes[node].child;
        const IdlNode *n = idl->nodes + node;
        json_type type = json_object_get_type(v);

        if (type == json_type_null)
                return nullable;
        switch (n->kind) {
        case IDL_BOOL:
                return type == json_type_boolean;
        case IDL_INT:
                return type == json_type_int && json_object_get_uint64(v) <= INT64_MAX;
        case IDL_FLOAT:
                return type == json_type_double || type == json_type_int;
        case IDL_STRING:
                return type == json_type_string;
        case IDL_OBJECT:
                return type == json_type_object;
        case IDL_ANY:
                return true;
        case IDL_LIST:
                return type == json_type_array && list_matches(idl, n->child, v, where, at);
        case IDL_MAP:
                return type == json_type_object && map_matches(idl, n->child, v, where, at);
        case IDL_STRUCT:
                return type == json_type_object && struct_matches(idl, node, v, where, at);
        case IDL_ENUM:
                return type == json_type_string && idl_find(idl, node, IDL_WORD, json_object_get_string(v),
                                                            (size_t) json_object_get_string_len(v)) > 0;
        default:
                return false;
        }
}

bool idl_matches(const Idl *idl, size_t node, json_object *v, char where[static IDL_WHERE_MAX])
{
        where[0] = 0;
        return matches(idl, node, v, where, 0);
}

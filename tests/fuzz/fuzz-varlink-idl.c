/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Descriptions of Varlink interfaces, up to the first NUL; what comes after it is a JSON value that is
 * compared with every declaration. */

#include "varlink/varlink-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_nodes(const Idl *idl)
{
        for (const IdlNode *n = idl->nodes; n < idl->nodes + idl->n; n++)
                if (n->child >= idl->n || n->next >= idl->n || (n->kind == IDL_NAMED && n->child == 0))
                        abort();
}

static void compare(const Idl *idl, json_object *v)
{
        for (size_t i = idl->nodes->child; i > 0; i = idl->nodes[i].next) {
                char where[IDL_WHERE_MAX];
                (void) idl_matches(idl, idl->nodes[i].child, v, where);
                if (strlen(where) >= sizeof(where))
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_free_ char *text = malloc(size + 1);
        _cleanup_(idl_freep) Idl *idl = NULL;
        _cleanup_json_ json_object *v = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        if (!text)
                return 0;
        memcpy(text, data, size);
        text[size] = 0;
        size_t n = strlen(text) + 1;
        if (idl_parse(text, &idl, &e) < 0) {
                if (!e.message)
                        abort();
                return 0;
        }
        check_nodes(idl);
        if (n < size && json_parse_bounded(text + n, size - n, 32, 65536, &v, NULL, NULL) >= 0)
                compare(idl, v);
        return 0;
}

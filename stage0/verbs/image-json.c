/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Labels, annotations and signers of images in JSON and in tables, for all verbs that show them. */

#include "schema/schema.h"
#include "stage0/verbs/image-json.h"

/* Microseconds since the epoch; null: there is none. */
static int put_time(json_object *o, const char *name, uint64_t usec)
{
        return usec > 0 ? json_member_add(o, name, json_object_new_int64((int64_t) usec))
                        : json_member_add_text(o, name, NULL);
}

json_object *pairs_to_json(const PairList *l)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        for (size_t i = 0; o && i < l->n; i++)
                if (json_member_add_text(o, l->items[i].name, l->items[i].value) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

int table_add_pairs(Table *t, const PairList *l, const char *except)
{
        _cleanup_strv_free_ char **pairs = NULL;
        _cleanup_free_ char *shown = NULL;

        for (size_t i = 0; i < l->n; i++)
                if (!streq_ptr(l->items[i].name, except) &&
                    strv_extendf(&pairs, "%s=%s", l->items[i].name, l->items[i].value) < 0)
                        return -ENOMEM;
        shown = strv_join(pairs, ", ");
        if (!shown)
                return -ENOMEM;
        table_add_json(t, pairs_to_json(l), shown);
        return 0;
}

int signer_to_json(const ImageInfo *i, json_object **ret)
{
        _cleanup_json_ json_object *o = NULL;

        if (i->signer.fingerprint) {
                o = json_object_new_object();
                if (json_member_add_text(o, "fingerprint", i->signer.fingerprint) < 0 ||
                    json_member_add_text(o, "userID", i->signer.user_id) < 0 ||
                    json_member_add_text(o, "prefix", i->signer.prefix) < 0 ||
                    json_member_add(o, "offered",
                                    json_object_new_boolean(streq_ptr(i->signer.trust, SIGNER_OFFERED))) <
                                    0 ||
                    put_time(o, "signed", i->signer.signed_time) < 0 ||
                    put_time(o, "expires", i->signer.expires) < 0 ||
                    put_time(o, "keyExpires", i->signer.key_expires) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(o);
        return 0;
}

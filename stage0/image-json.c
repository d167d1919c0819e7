/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Labels, annotations and signers of images in JSON, for all verbs that show them. */

#include "schema/schema.h"
#include "stage0/image-json.h"

/* Takes V. */
static int put(json_object *o, const char *name, json_object *v)
{
        if (json_object_object_add(o, name, v) >= 0)
                return 0;
        json_object_put(v);
        return -ENOMEM;
}

static int put_string(json_object *o, const char *name, const char *s)
{
        json_object *v = s ? json_new_string_lossy(s) : NULL;

        return s && !v ? -ENOMEM : put(o, name, v);
}

/* Microseconds since the epoch; null: there is none. */
static int put_time(json_object *o, const char *name, uint64_t usec)
{
        json_object *v = usec > 0 ? json_object_new_int64((int64_t) usec) : NULL;

        return usec > 0 && !v ? -ENOMEM : put(o, name, v);
}

json_object *pairs_to_json(const PairList *l)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        for (size_t i = 0; o && i < l->n; i++)
                if (put_string(o, l->items[i].name, l->items[i].value) < 0)
                        return NULL;
        return TAKE_PTR(o);
}

int signer_to_json(const ImageInfo *i, json_object **ret)
{
        _cleanup_json_ json_object *o = NULL;

        if (i->signer.fingerprint) {
                o = json_object_new_object();
                if (!o || put_string(o, "fingerprint", i->signer.fingerprint) < 0 ||
                    put_string(o, "userID", i->signer.user_id) < 0 ||
                    put_string(o, "prefix", i->signer.prefix) < 0 ||
                    put(o, "offered", json_object_new_boolean(streq_ptr(i->signer.trust, SIGNER_OFFERED))) < 0 ||
                    put_time(o, "signed", i->signer.signed_time) < 0 ||
                    put_time(o, "expires", i->signer.expires) < 0 ||
                    put_time(o, "keyExpires", i->signer.key_expires) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(o);
        return 0;
}

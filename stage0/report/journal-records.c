/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The records sent by the process that reads a journal, and checked by the process that shows it.
 *
 * The reading process may have been compromised by the data. No record is trusted: sizes are checked before
 * anything is allocated, kinds and flags must be valid, and text is treated as bytes.
 */

#include "stage0/report/journal-internal.h"

typedef struct Header {
        uint64_t time_usec, inode;
        uint32_t kind, flags, app_size, data_size;
        int32_t code;
        uint32_t zero; /* no byte is uninitialized */
} Header;

void journal_record_add(Text *t, const JournalRecord *r)
{
        const Header h = {
                        .kind = r->kind,
                        .flags = r->flags,
                        .inode = r->inode,
                        .code = r->code,
                        .time_usec = r->time_usec,
                        .app_size = (uint32_t) MIN(r->app_size, JOURNAL_APP_MAX),
                        .data_size = (uint32_t) MIN(r->data_size, JOURNAL_MESSAGE_MAX),
        };

        text_add_bytes(t, &h, sizeof(h));
        text_add_bytes(t, r->app, h.app_size);
        text_add_bytes(t, r->data, h.data_size);
}

static bool header_is_valid(const Header *h)
{
        if (h->kind >= _JOURNAL_RECORD_KIND_MAX || (h->flags & ~(uint32_t) _JOURNAL_FLAGS) || h->code > 0 ||
            h->code < -4095 || h->zero != 0)
                return false;
        if (h->kind == JOURNAL_LINE)
                return h->app_size <= JOURNAL_APP_MAX && h->data_size <= JOURNAL_MESSAGE_MAX;
        return h->app_size == 0 && h->data_size == 0;
}

ssize_t journal_record_parse(const char *data, size_t size, JournalRecord *ret)
{
        Header h;

        if (size < sizeof(h))
                return 0;
        memcpy(&h, data, sizeof(h));
        if (!header_is_valid(&h))
                return -EBADMSG;
        size_t whole = sizeof(h) + h.app_size + h.data_size;
        if (size < whole)
                return 0;
        *ret = (JournalRecord){
                        .kind = (JournalRecordKind) h.kind,
                        .flags = h.flags,
                        .time_usec = h.time_usec,
                        .inode = h.inode,
                        .code = h.code,
                        .app = data + sizeof(h),
                        .data = data + sizeof(h) + h.app_size,
                        .app_size = h.app_size,
                        .data_size = h.data_size,
        };
        return (ssize_t) whole;
}

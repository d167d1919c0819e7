/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stream of input for an app: the first byte is the size of the pieces in which it comes. Whatever they are, the records are the same,
 * and none is larger than the bound. */

#include <stdlib.h>

#include "containers/containers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The number of records, and their bytes. */
static size_t read_all(const char *p, size_t n, size_t step)
{
        RecordReader reader = {};
        size_t sum = 0;

        for (size_t at = 0; at < n;) {
                size_t taken = 0, piece = MIN(step, n - at);
                int r = record_reader_take(&reader, p + at, piece, &taken);
                if (r < 0)
                        break;
                if (taken > piece || (taken == 0 && piece > 0) || reader.size > CONTROL_BODY_MAX)
                        abort();
                at += taken;
                if (r == 0)
                        continue;
                _cleanup_(process_io_done) ProcessIo io = {};
                sum += 1 + reader.size;
                if (process_io_parse(reader.text, reader.size, &io, NULL) >= 0 &&
                    (io.size > reader.size || (io.kind == IO_SIZE) != (io.rows > 0)))
                        abort();
        }
        record_reader_done(&reader);
        return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 1)
                return 0;
        const char *text = (const char *) data + 1;
        if (read_all(text, size - 1, data[0] + 1U) != read_all(text, size - 1, size))
                abort();
        return 0;
}

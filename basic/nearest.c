/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which of several words was probably meant by one that is none of them. */

#include "basic/basic.h"

#define NEAR_MAX 40 /* longer words than this are not compared */

/* How many letters have to be put in, taken out, replaced or swapped with their neighbour to get from A to
 * B. */
static size_t edit_distance(const char *a, const char *b)
{
        size_t n = strlen(a), m = strlen(b);
        size_t rows[3][NEAR_MAX + 1]; /* this row of the table and the two before it */

        for (size_t j = 0; j <= m; j++)
                rows[0][j] = j;
        for (size_t i = 1; i <= n; i++) {
                size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *twice_above = rows[(i + 1) % 3];

                row[0] = i;
                for (size_t j = 1; j <= m; j++) {
                        size_t d = above[j - 1] + (a[i - 1] != b[j - 1]);

                        d = MIN(d, above[j] + 1);
                        d = MIN(d, row[j - 1] + 1);
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                d = MIN(d, twice_above[j - 2] + 1);
                        row[j] = d;
                }
        }
        return rows[n % 3][m];
}

const char *nearest_match(const char *word, const char *const *first, size_t n, size_t stride)
{
        size_t length = strlen(word), best_distance = SIZE_MAX;
        const char *best = NULL;

        if (length == 0 || length > NEAR_MAX)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                const char *candidate = *(const char *const *) ((const char *) first + i * stride);

                if (!candidate || strlen(candidate) > NEAR_MAX)
                        continue;
                size_t d = edit_distance(word, candidate);
                if (length >= 2 && startswith(candidate, word))
                        d = MIN(d, (size_t) 1); /* an abbreviation */
                if (d <= MAX(length / 3, (size_t) 1) && d < best_distance) {
                        best = candidate;
                        best_distance = d;
                }
        }
        return best;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Declares the options of verbs that fetch images, and shows their progress. */

#include "stage0/cli/progress.h"
#include "stage0/context/context.h"

/* PullPolicy; unsigned (InsecureOptions, accumulated) */
int option_pull_policy(const Option *o, const char *value, void *target, Error *e);
int option_insecure(const Option *o, const char *value, void *target, Error *e);
int option_min_speed(const Option *o, const char *value, void *target, Error *e); /* uint64_t */

/* Options, with the heading GROUP (or NULL), for a structure with FetchOptions at OFFSET. */
#define OPTIONS_FETCH(group, offset)                                                                        \
        {group,                                                                                             \
         "pull-policy",                                                                                     \
         0,                                                                                                 \
         "new|update|never",                                                                                \
         false,                                                                                             \
         "Fetch images that are not in the store (default), also check fetched images for newer "           \
         "versions, or fetch nothing",                                                                      \
         "new|update|never",                                                                                \
         option_pull_policy,                                                                                \
         (offset) + offsetof(FetchOptions, policy)},                                                        \
                        OPTIONS_TRANSFER(NULL, offset)

/* The same without the pull policy. */
#define OPTIONS_TRANSFER(group, offset)                                                                     \
        {group,                                                                                             \
         "insecure-options",                                                                                \
         0,                                                                                                 \
         "http|tls|signature|pubkey[,…]",                                                                   \
         false,                                                                                             \
         "Accept images over plain http, from servers whose certificate is not valid, "                     \
         "without a "                                                                                       \
         "signature, or signed by keys that discovery offers",                                              \
         "http|tls|signature|pubkey|none|all",                                                              \
         option_insecure,                                                                                   \
         (offset) + offsetof(FetchOptions, insecure),                                                       \
         OPTION_WORDS},                                                                                     \
                        {NULL,                                                                              \
                         "min-speed",                                                                       \
                         0,                                                                                 \
                         "BYTES",                                                                           \
                         false,                                                                             \
                         "Abort a transfer that is slower than this, in bytes per second on average (512; " \
                         "0: "                                                                              \
                         "no limit)",                                                                       \
                         NULL,                                                                              \
                         option_min_speed,                                                                  \
                         (offset) + offsetof(FetchOptions, speed_min)},                                     \
        {                                                                                                   \
                NULL, "passphrase-file", 0, "FILE", false, "Decrypt images with the passphrase in FILE",    \
                                "file", option_word, (offset) + offsetof(FetchOptions, passphrase_file)     \
        }

/* Fills in the configuration directories, and shows progress of the context's operation on stderr from now on, until
 * context_end_fetching(). */
int context_show_fetching(Context *c, FetchOptions *o);
/* Removes the lines of what is not done. Also valid if nothing is shown. */
void context_end_fetching(Context *c);

/* Fetches the images that REFERENCES name, as O says and with that output: their IDs, in this order (strv). */
int context_fetch_images(Context *c, FetchOptions *o, const char *const *references, char ***ret_ids);

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/discovery/: finds the URLs from which the image of a name may be fetched (spec: discovery.md).
 *
 * The first two parts are pure: parsing a page, and expanding its templates for a name. */

#include "prepare/transfer/transfer.h"
#include "schema/schema.h"

/* --- Pages (page.c) ------------------------------------------------------------------------------------ */

/* Only this part of a page is parsed: the meta elements are in its head. */
#define DISCOVERY_PAGE_MAX (128U * 1024U)
#define DISCOVERY_META_MAX 256U     /* number of elements of a page that are stored */
#define DISCOVERY_CONTENT_MAX 8192U /* size of the content of one of them */

typedef enum DiscoveryKind { DISCOVERY_IMAGE, DISCOVERY_PUBKEYS, _DISCOVERY_KIND_MAX } DiscoveryKind;

/* <meta name="ac-discovery" content="PREFIX VALUE">, or ac-discovery-pubkeys. */
typedef struct DiscoveryMeta {
        DiscoveryKind kind;
        char *prefix; /* of the names that VALUE applies to */
        char *value;  /* a template; for keys, a URL */
} DiscoveryMeta;

typedef struct DiscoveryPage {
        DiscoveryMeta *items; /* in the order of the page, without duplicates */
        size_t n, allocated;
} DiscoveryPage;

void discovery_page_done(DiscoveryPage *p);
#define _cleanup_discovery_page_ _cleanup_(discovery_page_done)

/* Reads the meta elements of an HTML page, at any position. Text that is not HTML has none, which is no
 * error; the only error is -ENOMEM. */
int discovery_page_parse(const char *text, size_t size, DiscoveryPage *ret, Error *e);

/* --- Templates (template.c) ---------------------------------------------------------------------------- */

/* Whether PREFIX applies to the image NAME: they are equal, or NAME is below PREFIX. Only at component
 * boundaries: "example.com/app" does not apply to "example.com/apple". */
bool discovery_prefix_covers(const char *prefix, const char *name) _pure_;

/* Puts name, labels and EXT ("aci", "aci.asc") into a template: {name}, {ext}, and {LABEL} for any label.
 * What is not a letter, a digit or one of "-._~" is percent-encoded (RFC 6570, simple expansion), except the
 * slashes of the name. Returns 1; or 0 if the template has a variable without a value, which is returned in
 * *RET_MISSING (may be NULL). */
int discovery_expand(const char *template, const char *name, const PairList *labels, const char *ext,
                     char **ret, char **ret_missing);

typedef struct DiscoveryEndpoint {
        char *image_url, *signature_url;
} DiscoveryEndpoint;

/* Possible locations of an image. */
typedef struct Discovery {
        DiscoveryEndpoint *endpoints; /* https before http, else in the order of the page */
        size_t n_endpoints, endpoints_allocated;
        char **pubkeys;  /* URLs of public keys */
        char **unusable; /* templates that apply to the image, but cannot be expanded, each with the
                          * reason */
} Discovery;

void discovery_done(Discovery *d);
#define _cleanup_discovery_ _cleanup_(discovery_done)

/* LABELS, completed by defaults: the version "latest", and the system and the architecture of this
 * machine. */
int discovery_labels(const PairList *labels, PairList *ret);
/* Adds the elements of the page that apply to the image. LABELS come from discovery_labels(). -ENOMEM. */
int discovery_add_page(Discovery *d, const DiscoveryPage *p, const char *name, const PairList *labels);
/* Adds the location of simple discovery: https://NAME-VERSION-OS-ARCH.aci, and, HTTP being true, http:// as
 * well. Nothing for a name without a slash, since the version would become part of the host name.
 * -ENOMEM. */
int discovery_add_simple(Discovery *d, const char *name, const PairList *labels, bool http);
/* Whether NAME begins with a possible host name. A single word without a dot is more likely a mistyped file
 * or pod. */
bool discovery_possible(const char *name) _pure_;

/* --- Requesting pages (walk.c)
 * ----------------------------------------------------------------------------------- */

#define DISCOVERY_BODY_MAX (4U << 20) /* bytes of a page that are received */
#define DISCOVERY_ATTEMPTS_MAX 24U    /* number of attempts listed in a message */

/* Requests the pages of the name, and of the paths above it up to the host, by https, and by http as well
 * with INSECURE_HTTP, until one has elements of kind WANT, and adds all its elements to D. LABELS come from
 * discovery_labels(). Returns 1; 0 if none has them; or -EINTR, -ETIME, -ENOMEM. *ATTEMPTS gets a line for every
 * failed attempt. */
int discovery_walk(Transfer *t, const char *name, const PairList *labels, DiscoveryKind want,
                   unsigned insecure, Discovery *d, char ***attempts, Error *e);
/* Adds the message of E to the list, unless that is full. -ENOMEM. */
int discovery_note_attempt(char ***attempts, int error, const Error *e);

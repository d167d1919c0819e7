/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/discovery/: from the name of an image to the places where it may be fetched (spec: discovery.md).
 *
 * The first two parts are pure: what a page says, and what its templates come to for a name. */

#include "prepare/transfer/transfer.h"
#include "schema/schema.h"

/* --- Pages (page.c) ------------------------------------------------------------------------------------ */

/* Of a page no more is looked at: a page that has anything to say does so in its head. */
#define DISCOVERY_PAGE_MAX (128U * 1024U)
#define DISCOVERY_META_MAX 256U     /* elements of a page that are kept */
#define DISCOVERY_CONTENT_MAX 8192U /* bytes of what one of them says */

typedef enum DiscoveryKind { DISCOVERY_IMAGE, DISCOVERY_PUBKEYS, _DISCOVERY_KIND_MAX } DiscoveryKind;

/* <meta name="ac-discovery" content="PREFIX VALUE">, or ac-discovery-pubkeys. */
typedef struct DiscoveryMeta {
        DiscoveryKind kind;
        char *prefix; /* of names that VALUE is for */
        char *value;  /* a template; of keys, a URL */
} DiscoveryMeta;

typedef struct DiscoveryPage {
        DiscoveryMeta *items; /* in the order of the page, no two of them alike */
        size_t n, allocated;
} DiscoveryPage;

void discovery_page_done(DiscoveryPage *p);
#define _cleanup_discovery_page_ _cleanup_(discovery_page_done)

/* Reads the meta elements of an HTML page, wherever in it they are. What is no HTML has none, which is no
 * error; the only one is -ENOMEM. */
int discovery_page_parse(const char *text, size_t size, DiscoveryPage *ret, Error *e);

/* --- Templates (template.c) ---------------------------------------------------------------------------- */

/* Whether what is said of PREFIX is said of the image NAME: they are the same, or NAME is below PREFIX. At
 * component boundaries only: "example.com/app" says nothing of "example.com/apple". */
bool discovery_prefix_covers(const char *prefix, const char *name) _pure_;

/* Puts name, labels and EXT ("aci", "aci.asc") into a template: {name}, {ext}, and {LABEL} for any label.
 * What is not a letter, a digit or one of "-._~" is percent-encoded (RFC 6570, simple expansion), but the
 * slashes of the name stay. Returns 1; or 0, if the template has a variable that there is no value for,
 * which *RET_MISSING (or NULL) then is. */
int discovery_expand(const char *template, const char *name, const PairList *labels, const char *ext,
                     char **ret, char **ret_missing);

typedef struct DiscoveryEndpoint {
        char *image_url, *signature_url;
} DiscoveryEndpoint;

/* Where an image may be. */
typedef struct Discovery {
        DiscoveryEndpoint *endpoints; /* https before http, else in the order of the page */
        size_t n_endpoints, endpoints_allocated;
        char **pubkeys;  /* URLs of public keys */
        char **unusable; /* templates that are for the image, but lead nowhere, each with the reason */
} Discovery;

void discovery_done(Discovery *d);
#define _cleanup_discovery_ _cleanup_(discovery_done)

/* LABELS and the defaults for what is not in them: the version "latest", and the system and the architecture
 * of this machine. */
int discovery_labels(const PairList *labels, PairList *ret);
/* Adds what the page says of the image. LABELS come from discovery_labels(). -ENOMEM. */
int discovery_add_page(Discovery *d, const DiscoveryPage *p, const char *name, const PairList *labels);
/* Adds the place that needs no page: https://NAME-VERSION-OS-ARCH.aci, and, HTTP being true, http:// as
 * well. Nothing for a name without a slash, which would make a host of the version. -ENOMEM. */
int discovery_add_simple(Discovery *d, const char *name, const PairList *labels, bool http);
/* Whether NAME begins like something that has a place on the network. What is a single word without a dot is
 * a mistyped file or pod rather than a host. */
bool discovery_possible(const char *name) _pure_;

/* --- Asking (walk.c) ----------------------------------------------------------------------------------- */

#define DISCOVERY_BODY_MAX (4U << 20) /* bytes of a page that are received */
#define DISCOVERY_ATTEMPTS_MAX 24U    /* that a message tells of */

/* Asks for the pages of the name, and of the paths above it up to the host, by https, and by http as well
 * with INSECURE_HTTP, until one says what is WANTed, and adds all it says to D. LABELS come from
 * discovery_labels(). Returns 1; 0 if none does; or -EINTR, -ENOMEM. *ATTEMPTS gets a line for everything
 * that was tried in vain. */
int discovery_walk(Transfer *t, const char *name, const PairList *labels, DiscoveryKind want,
                   unsigned insecure, Discovery *d, char ***attempts, Error *e);
/* Adds what E says to the list, unless it is long enough. -ENOMEM. */
int discovery_note_attempt(char ***attempts, int error, const Error *e);

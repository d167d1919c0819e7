/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses the meta elements of a discovery page.
 *
 * libxml2's HTML parser parses the page as browsers do, and reports every start tag; no tree is built, so
 * that memory is bounded by the page, and elements that are never closed need not be stored. The parser
 * neither opens files nor accesses the network.
 *
 * Neither the specification nor its reference code requires the elements to be in the head of the page, so
 * they may be anywhere. Elements inside of raw text elements are ignored, as in the reference: the parser
 * handles scripts and styles, the others are handled here.
 *
 * The page is untrusted. The parser compares each attribute of an element with those before it, and each end
 * of an element with all that are open, which makes its time quadratic: therefore a page is truncated
 * (DISCOVERY_PAGE_MAX) and parsing ends if elements are nested deeper than in any real page.
 */

#include "library/libxml.h"
#include "prepare/discovery/discovery.h"

#define OPEN_MAX 256 /* nesting depth of elements */

typedef struct Reader {
        htmlParserCtxtPtr parser;
        DiscoveryPage page;
        const char *text_only; /* the enclosing raw text element, or NULL */
        unsigned depth;        /* of the elements that are open */
        int error;
} Reader;

static const char *const kinds[_DISCOVERY_KIND_MAX] = {
                [DISCOVERY_IMAGE] = "ac-discovery",
                [DISCOVERY_PUBKEYS] = "ac-discovery-pubkeys",
};

static const char *const text_elements[] = {"title",    "textarea", "iframe", "noembed",
                                            "noframes", "noscript", "xmp",    "plaintext"};

static void meta_done(DiscoveryMeta *m)
{
        free(m->prefix);
        free(m->value);
}

void discovery_page_done(DiscoveryPage *p)
{
        for (size_t i = 0; i < p->n; i++)
                meta_done(&p->items[i]);
        free(p->items);
        *p = (DiscoveryPage){};
}

static bool has_meta(const DiscoveryPage *p, const DiscoveryMeta *m)
{
        for (size_t i = 0; i < p->n; i++)
                if (p->items[i].kind == m->kind && streq(p->items[i].prefix, m->prefix) &&
                    streq(p->items[i].value, m->value))
                        return true;
        return false;
}

/* Takes ownership of what M points to. */
static int add_meta(DiscoveryPage *p, DiscoveryMeta m)
{
        if (m.prefix && m.value && has_meta(p, &m)) {
                meta_done(&m);
                return 0;
        }
        if (!m.prefix || !m.value || GREEDY_REALLOC(p->items, p->allocated, p->n + 1) < 0) {
                meta_done(&m);
                return -ENOMEM;
        }
        p->items[p->n++] = m;
        return 0;
}

/* "prefix value", ignoring surrounding white space. */
static int read_content(Reader *r, DiscoveryKind kind, const char *content)
{
        static const char space[] = " \t\r\n\f";
        const char *prefix = content + strspn(content, space);
        size_t n = strcspn(prefix, space);
        const char *value = prefix + n + strspn(prefix + n, space);
        size_t m = strlen(value);

        while (m > 0 && strchr(space, value[m - 1]))
                m--;
        if (n == 0 || m == 0 || n + m > DISCOVERY_CONTENT_MAX || r->page.n >= DISCOVERY_META_MAX)
                return 0;
        return add_meta(&r->page, (DiscoveryMeta){.kind = kind,
                                                  .prefix = strndup(prefix, n),
                                                  .value = strndup(value, m)});
}

static const char *attribute(const xmlChar **attributes, const char *name)
{
        for (; attributes && attributes[0]; attributes += 2)
                if (streq((const char *) attributes[0], name))
                        return (const char *) attributes[1];
        return NULL;
}

static void read_meta(Reader *r, const xmlChar **attributes)
{
        const char *name = attribute(attributes, "name"), *content = attribute(attributes, "content");

        for (size_t i = 0; name && content && i < ELEMENTSOF(kinds); i++)
                if (streq(name, kinds[i]) && r->error >= 0)
                        r->error = read_content(r, (DiscoveryKind) i, content);
}

static void element_begins(void *userdata, const xmlChar *name, const xmlChar **attributes)
{
        Reader *r = userdata;

        if (++r->depth > OPEN_MAX)
                xmlStopParser(r->parser);
        if (r->text_only)
                return;
        if (streq((const char *) name, "meta"))
                read_meta(r, attributes);
        for (size_t i = 0; i < ELEMENTSOF(text_elements); i++)
                if (streq((const char *) name, text_elements[i]))
                        r->text_only = text_elements[i];
}

static void element_ends(void *userdata, const xmlChar *name)
{
        Reader *r = userdata;

        r->depth -= r->depth > 0 ? 1 : 0;
        if (r->text_only && streq((const char *) name, r->text_only))
                r->text_only = NULL;
}

static void initialize(void)
{
        xmlInitParser();
}

/* A truncated tag at the end would be parsed like a complete one. */
static size_t whole_tags(const char *text, size_t size)
{
        const char *end = memrchr(text, '>', size);

        return end ? (size_t) (end - text) + 1 : 0;
}

int discovery_page_parse(const char *text, size_t size, DiscoveryPage *ret, Error *e)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        const htmlSAXHandler handler = {.startElement = element_begins, .endElement = element_ends};
        Reader r = {};

        int k = library_load(&xml_library, e);
        if (k < 0)
                return k;
        (void) pthread_once(&once, initialize); /* the parser's own initialization is not thread-safe */
        size = whole_tags(text, MIN(size, (size_t) DISCOVERY_PAGE_MAX));
        if (size == 0) {
                *ret = (DiscoveryPage){};
                return 0;
        }
        r.parser = htmlCreateMemoryParserCtxt(text, (int) size);
        if (!r.parser)
                return error_oom(e);
        memcpy(r.parser->sax, &handler, sizeof(handler));
        r.parser->userData = &r;
        (void) htmlCtxtUseOptions(r.parser, HTML_PARSE_NONET | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                                                            HTML_PARSE_RECOVER);
        (void) htmlParseDocument(r.parser); /* text that is not HTML has no elements */
        if (r.parser->errNo == XML_ERR_NO_MEMORY)
                r.error = -ENOMEM;
        htmlFreeParserCtxt(r.parser);
        if (r.error < 0) {
                discovery_page_done(&r.page);
                return error_oom(e);
        }
        *ret = r.page;
        return 0;
}

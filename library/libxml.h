/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libxml2, loaded when one of these functions is called for the first time; see library.h. */

#include <libxml/HTMLparser.h>

#include "library/library.h"

#define XML_FUNCTIONS(F)                                                                                    \
        F(htmlCreateMemoryParserCtxt)                                                                       \
        F(htmlCtxtUseOptions)                                                                               \
        F(htmlFreeParserCtxt)                                                                               \
        F(htmlParseDocument)                                                                                \
        F(xmlInitParser)                                                                                    \
        F(xmlStopParser)

typedef struct XmlFunctions {
        XML_FUNCTIONS(LIBRARY_MEMBER)
} XmlFunctions;

extern XmlFunctions xml_functions;
extern Library xml_library;

#define XML_CALL(function, ...) LIBRARY_CALL(xml_library, xml_functions.function, __VA_ARGS__)

#define htmlCreateMemoryParserCtxt(...) XML_CALL(htmlCreateMemoryParserCtxt, __VA_ARGS__)
#define htmlCtxtUseOptions(...) XML_CALL(htmlCtxtUseOptions, __VA_ARGS__)
#define htmlFreeParserCtxt(...) XML_CALL(htmlFreeParserCtxt, __VA_ARGS__)
#define htmlParseDocument(...) XML_CALL(htmlParseDocument, __VA_ARGS__)
#define xmlInitParser(...) XML_CALL(xmlInitParser, __VA_ARGS__)
#define xmlStopParser(...) XML_CALL(xmlStopParser, __VA_ARGS__)

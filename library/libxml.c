/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libxml2 that are used. */

#include "config.h"
#include "library/libxml.h"

XmlFunctions xml_functions;

#define LIBRARY_TABLE xml_functions
static const LibraryFunction functions[] = {XML_FUNCTIONS(LIBRARY_ENTRY)};

Library xml_library = {
                .file = XML_FILE,
                .package = "libxml2",
                .purpose = "reading web pages",
                .functions = functions,
                .n_functions = ELEMENTSOF(functions),
};

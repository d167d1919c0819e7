/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions of libxml2 that are used. */

#include "config.h"
#include "library/libxml.h"

XmlFunctions xml_functions;

#define LIBRARY_TABLE xml_functions
DEFINE_LIBRARY(xml_library, XML_FUNCTIONS, LIBRARY_RECOMMENDED, XML_FILE, "libxml2", "reading web pages");

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Files in the syntax of systemd's units and configuration files (systemd.syntax(7)): sections, KEY=VALUE, lines
 * that are continued after a backslash, comments that begin with # or ;. */

#include "basic/basic.h"

#define INI_LINE_MAX (256U * 1024U) /* bytes of a line, with those that continue it */

typedef enum IniMistake {
        INI_SECTION_WITHOUT_END,
        INI_NO_ASSIGNMENT,
        INI_LINE_TOO_LONG,
        INI_NO_TEXT,
} IniMistake;
/* "the line is not KEY=VALUE" */
const char *ini_mistake_to_string(IniMistake m);

/* Each returns a negative errno to end reading. LINE is the number of the (first) line, from 1. */
typedef struct IniEvents {
        int (*section)(const char *name, unsigned line, void *userdata);
        /* KEY is not empty; VALUE may be. Before the first section as well. */
        int (*assignment)(const char *key, const char *value, unsigned line, void *userdata);
        /* What is wrong with a line, which is left out. */
        int (*mistake)(IniMistake what, unsigned line, void *userdata);
        void *userdata;
} IniEvents;

/* Reads TEXT. Returns the first negative errno of an event, or -ENOMEM. */
int ini_parse(const char *text, size_t size, const IniEvents *events);

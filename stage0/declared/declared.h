/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* stage0/declared/: pods that are declared in files, as an administrator writes them (acnspawn.pod(5)).
 *
 *     /etc/acnspawn/pods/NAME.pod         takes precedence over
 *     /run/acnspawn/pods/NAME.pod         and that over
 *     /usr/lib/acnspawn/pods/NAME.pod
 *     …/NAME.pod.d/(any).conf             added in the order of their names, from all three directories
 *
 * The syntax is that of systemd's units. This folder finds and reads the files, and parses sections, words and
 * specifiers; the options of prepare and run interpret the keys of [Pod] and [App]. It depends on basic/ alone, which needs
 * only libc, because acnspawn-generator(8) reads the files as well. */

#include "basic/basic.h"

#define DECLARED_SUFFIX ".pod"
#define DECLARED_FILE_MAX (1024U * 1024U) /* bytes of a file */
#define DECLARED_SETTINGS_MAX 16384U      /* of a pod, with its drop-ins */
#define DECLARED_APPS_MAX 4096U
#define DECLARED_DROP_INS_MAX 256U
#define DECLARED_FINDINGS_MAX 256U
#define DECLARED_PODS_MAX 16384U

typedef enum DeclaredSection {
        DECLARED_NONE, /* outside of known sections */
        DECLARED_POD,
        DECLARED_APP,
        DECLARED_UNIT, /* this and the following: for the unit of the host */
        DECLARED_SERVICE,
        DECLARED_SOCKET,
        DECLARED_UPDATE,
        DECLARED_INSTALL,
        _DECLARED_SECTION_MAX,
} DeclaredSection;

typedef struct DeclaredPlace {
        const char *file; /* one of the files */
        unsigned line;    /* 0: the file as a whole */
} DeclaredPlace;

typedef struct DeclaredSetting {
        DeclaredPlace place;
        DeclaredSection section;
        size_t app;  /* of DECLARED_APP: its index */
        char *key;   /* not empty */
        char *value; /* may be empty: what was set before by this key does not count */
} DeclaredSetting;

typedef struct DeclaredApp {
        DeclaredPlace place; /* its first section */
        char *name;
} DeclaredApp;

/* A mistake, or (not ERROR) what is ignored. */
typedef struct DeclaredFinding {
        DeclaredPlace place;
        bool error;
        char *text, *hint; /* HINT may be NULL */
} DeclaredFinding;

typedef struct Declared {
        char *name;   /* of the pod */
        char **files; /* the pod's, then its drop-ins, in the order in which they were read */
        char **texts; /* their content */
        DeclaredApp *apps;
        size_t n_apps, apps_allocated;
        DeclaredSetting *settings;
        size_t n_settings, settings_allocated;
        DeclaredFinding *findings;
        size_t n_findings, findings_allocated, n_more_findings;
        bool has_errors;
        bool has_update; /* there is a section [Update], be it an empty one */
} Declared;

Declared *declared_free(Declared *d);
DEFINE_TRIVIAL_CLEANUP_FUNC(Declared *, declared_free);

/* --- Finding and reading (find.c) ---------------------------------------------------------------------- */

/* The directories with .pod files, the first takes precedence: those above, or the one in CONFIG_DIR (--config-dir).
 * To be freed. */
int declared_dirs(const char *config_dir, char ***ret);
/* The same; it is an error that CONFIG_DIR does not exist: nothing is known about what is declared then. */
int declared_find_dirs(const char *config_dir, char ***ret, Error *e);
/* Whether a file of this name can declare a pod: letters in lower case, digits, '-' and '.', at most 63. */
bool declared_name_is_valid(const char *name);
/* The names of the pods that are declared, sorted; those that are masked are left out. Directories that do not
 * exist are empty; a link that leads nowhere, here and for files, is an error: -ENOLINK. */
int declared_list(char *const *dirs, char ***ret, Error *e);
/* The same, with those that are masked by an empty file: it may be what an interrupted change has left. */
int declared_list_to_keep(char *const *dirs, char ***ret, Error *e);
/* For who has to go on with the rest: those of the directories that can be read, or do not exist, and why others cannot be. -ENOMEM. */
int declared_readable_dirs(char *const *dirs, char ***ret, char ***ret_failures);
/* The names of files beside those of pods that declare none, as they are not named like a pod. */
int declared_list_misnamed(char *const *dirs, char ***ret, Error *e);
/* 1: a file declares or masks the pod, also one that cannot be read; 0: none does; negative: that is not known, as one of DIRS cannot be
 * read. */
int declared_exists(char *const *dirs, const char *name, Error *e);
/* Reads a pod with its drop-ins. Mistakes in the files are findings. -ENOENT: no file declares it; -ERFKILL: it is masked
 * (an empty file, or a link to /dev/null); other errors are of the system. */
int declared_load(char *const *dirs, const char *name, Declared **ret, Error *e);
/* The same, for who removes what no pod declares: an empty file, also a drop-in, is an error, -ENODATA. */
int declared_load_to_keep(char *const *dirs, const char *name, Declared **ret, Error *e);
/* The same, but drop-ins, directories of them, and links that lead to nothing, are findings: D is not all that declares the pod then. */
int declared_load_partly(char *const *dirs, const char *name, Declared **ret, Error *e);
/* A file at any place, with the drop-ins beside it. */
int declared_load_file(const char *path, Declared **ret, Error *e);

/* --- Syntax (parse.c) ---------------------------------------------------------------------------------- */

Declared *declared_new(const char *name); /* NULL: out of memory */
/* Appends the settings of a file to D. -ENOMEM. */
int declared_parse(Declared *d, const char *path, const char *text, size_t size);
int declared_add_finding(Declared *d, const DeclaredPlace *place, bool error, const char *hint,
                         const char *format, ...) _printf_(5, 6); /* -ENOMEM */

/* Sorts the findings by file and line. */
void declared_sort_findings(Declared *d);

/* --- Units of the host (units.c) ----------------------------------------------------------------------- */

/* Why a setting of one of their sections is refused; NULL: it is not. */
const char *declared_refused(const DeclaredSetting *s);
/* "wants", "requires" or "upholds", for a key of [Install]; NULL: it is none. */
const char *declared_install_suffix(const char *key);
bool declared_is_unit_name(const char *s);
/* True if the pod can be started with TARGET, of [Install]: those that come before every service are for its socket, or none. */
bool declared_may_start_with(const Declared *d, const char *target);
/* Adds findings about these sections. -ENOMEM. */
int declared_check_units(Declared *d);

#define DECLARED_GENERATED                                                                                  \
        "/run/systemd/generator" /* where the host's systemd keeps the output of its generators */
#define DECLARED_DROP_IN "50-declared.conf"

bool declared_has_section(const Declared *d, DeclaredSection section);
/* Adds the section to T under NAME, in systemd's syntax; nothing if D has no such section. */
void declared_add_section(const Declared *d, DeclaredSection section, const char *name, Text *t);
/* Adds the sections of the drop-in of acnspawn@NAME.service. */
void declared_add_service(const Declared *d, Text *t);
/* True if that drop-in, below GENERATED, has the settings that the files have now; or -ENOMEM. */
int declared_service_is_known(const Declared *d, const char *generated);

/* --- Sockets of the host (listen.c) -------------------------------------------------------------------- */

/* True if [Socket] has addresses, which replace those of the ports. */
bool declared_has_addresses(const Declared *d);
/* True if the host's systemd has a socket unit for the pod: of [Socket], or of its ports. */
bool declared_has_socket(const Declared *d);
/* Adds ListenStream= and ListenDatagram= for the ports of the host at which Port= of [Pod] exposes ports that
 * SocketActivated= of an app names. -ENOMEM. */
int declared_add_ports(const Declared *d, Text *t);
/* Adds warnings about apps whose ports have no socket, and about a [Socket] without an address. -ENOMEM. */
int declared_check_sockets(Declared *d);

/* --- What the pod needs of the host (needs.c) ---------------------------------------------------------- */

/* Adds RequiresMountsFor= for the files of the host that the pod uses: sources of its volumes, images, and others. -ENOMEM. */
int declared_add_mounts(const Declared *d, Text *t);
/* The line itself, in a unit. -ENOMEM. */
int declared_add_mount(const char *path, Text *t);
/* 1: a start of the pod may fetch an image from the network; 0: it does not; or -ENOMEM. NEVER: the host has PullPolicy=never. */
int declared_uses_network(const Declared *d, bool never);

/* --- Words and specifiers (words.c) -------------------------------------------------------------------- */

/* Splits at spaces; quotes and backslashes as in units. -EINVAL with the reason. */
int declared_words(const char *value, char ***ret, const char **reason);
/* A value as a whole: as it is, or, if all of it is in quotes, what these contain. */
int declared_value(const char *value, char **ret, const char **reason);
/* WORD, or with WHOLE a value, as it has to be written to be read again as it is; '%' is doubled. */
int declared_quote(const char *word, bool whole, char **ret);
/* Replaces specifiers of the pod NAME. -EINVAL: an unknown one, that is *RET_BAD, or 0 at the end of the
 * text; other errors: its value cannot be found out. */
int declared_expand(const char *s, const char *name, char **ret, char *ret_bad);
/* The words, or the value as a whole, of a setting with their specifiers replaced. *RET stays if it is not valid. -ENOMEM. */
int declared_setting_words(const Declared *d, const DeclaredSetting *s, char ***ret);
int declared_setting_value(const Declared *d, const DeclaredSetting *s, char **ret);

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets of a declared pod, by its own words: Port= says where the host listens for a port of an app, and
 * SocketActivated= that connections start the app. So the host's systemd can listen there, and start the pod as well.
 *
 * Images are not looked at: a port has to have the same name, or number, in both settings. Ranges are left out, and so
 * is what is not valid: that is said when the pod is started, and by 'acnspawn pod verify'. */

#include "stage0/declared/declared.h"

typedef struct Exposed {
        char *word;            /* what Port= has, in pieces */
        const char *ip;        /* or NULL */
        const char *host_port; /* a number */
        const char *port;      /* a name, or a number */
        bool udp;
} Exposed;

static bool is_number(const char *s)
{
        return *s && s[strspn(s, "0123456789")] == 0;
}

/* "IP:REST" or "[IP]:REST": ends the address, and returns the rest; S itself if there is none. */
static char *take_ip(char *s, const char **ret)
{
        char *end = *s == '[' ? strchr(s, ']') : s, *colon = end ? strchr(end, ':') : NULL;

        if (!colon || (*s != '[' && !memchr(s, '.', (size_t) (colon - s))))
                return s;
        *colon = 0;
        *ret = s;
        return colon + 1;
}

/* PORT[/udp] */
static void take_protocol(char *s, bool *ret_udp)
{
        char *slash = strchr(s, '/');

        *ret_udp = slash && streq(slash, "/udp");
        if (slash && (*ret_udp || streq(slash, "/tcp")))
                *slash = 0;
}

/* NAME:[IP:]PORT, or [IP:]PORT:APPPORT[/udp]. */
static bool read_exposed(Exposed *x)
{
        char *s = take_ip(x->word, &x->ip), *colon = strchr(s, ':');

        if (!colon)
                return false;
        *colon++ = 0;
        if (!is_number(s)) {
                x->port = s;
                x->host_port = take_ip(colon, &x->ip);
                return *s >= 'a' && *s <= 'z' && is_number(x->host_port);
        }
        take_protocol(colon, &x->udp);
        x->host_port = s;
        x->port = colon;
        return is_number(colon);
}

/* Whether SocketActivated= names it by WORD. */
static bool is_meant(const Exposed *x, const char *word)
{
        size_t n = strcspn(word, "/");

        if (strncmp(x->port, word, n) != 0 || x->port[n])
                return false;
        return !word[n] ? !x->udp : streq(word + n, x->udp ? "/udp" : "/tcp") && is_number(x->port);
}

/* The words of a setting, split once more; none if they are not valid. */
static int words_of(const Declared *d, const DeclaredSetting *s, const char *separators, char ***ret)
{
        _cleanup_strv_free_ char **words = NULL;

        int r = declared_setting_words(d, s, &words);
        STRV_FOREACH (joined, words) {
                _cleanup_strv_free_ char **split = NULL;
                r = r < 0 ? r : strv_split(*joined, separators, &split);
                STRV_FOREACH (word, split)
                        if (r >= 0)
                                r = strv_extend(ret, *word);
        }
        return r;
}

/* All words of the settings with one of the names in the section. */
static int collect(const Declared *d, DeclaredSection section, const char *const *keys,
                   const char *separators, char ***ret)
{
        for (size_t k = 0; keys[k]; k++)
                for (size_t i = 0; i < d->n_settings; i++) {
                        const DeclaredSetting *s = &d->settings[i];
                        int r = s->section == section && streq(s->key, keys[k])
                                                ? words_of(d, s, separators, ret)
                                                : 0;
                        if (r < 0)
                                return r;
                }
        return 0;
}

static void add_line(Text *t, const Exposed *x)
{
        if (x->ip && x->ip[strspn(x->ip, "0123456789abcdefABCDEF.:[]")])
                return;
        text_addf(t, "%s=%s%s%s\n", x->udp ? "ListenDatagram" : "ListenStream", x->ip ?: "",
                  x->ip ? ":" : "", x->host_port);
        if (x->ip) /* which the host may not have yet while it boots */
                text_add(t, "FreeBind=yes\n");
}

bool declared_has_addresses(const Declared *d)
{
        for (size_t i = 0; i < d->n_settings; i++)
                if (d->settings[i].section == DECLARED_SOCKET && startswith(d->settings[i].key, "Listen"))
                        return true;
        return false;
}

static int collect_exposed(const Declared *d, char ***ret)
{
        static const char *const exposing[] = {"Port", "Publish", NULL};

        return collect(d, DECLARED_POD, exposing, " ", ret);
}

int declared_add_ports(const Declared *d, Text *t)
{
        static const char *const activating[] = {"SocketActivated", NULL};
        _cleanup_strv_free_ char **exposed = NULL, **activated = NULL;

        int r = collect_exposed(d, &exposed);
        if (r >= 0)
                r = collect(d, DECLARED_APP, activating, ", ", &activated);
        if (r < 0)
                return r;
        STRV_FOREACH (port, exposed) {
                Exposed x = {.word = *port};
                if (!read_exposed(&x))
                        continue;
                bool meant = false;
                STRV_FOREACH (word, activated)
                        meant = meant || is_meant(&x, *word);
                if (meant)
                        add_line(t, &x);
        }
        return 0;
}

bool declared_has_socket(const Declared *d)
{
        _cleanup_text_ Text ports = {};

        return declared_has_section(d, DECLARED_SOCKET) ||
               (!declared_has_addresses(d) && declared_add_ports(d, &ports) >= 0 && ports.size > 0);
}

/* --- Checking ------------------------------------------------------------------------------------------ */

static int is_exposed(char *const *exposed, const char *word)
{
        STRV_FOREACH (port, exposed) {
                _cleanup_free_ char *copy = strdup(*port);
                Exposed x = {.word = copy};

                if (!copy)
                        return -ENOMEM;
                if (read_exposed(&x) && is_meant(&x, word))
                        return 1;
        }
        return 0;
}

static int check_activated(Declared *d, const DeclaredSetting *s, char *const *exposed)
{
        const DeclaredPlace place = s->place;
        _cleanup_strv_free_ char **words = NULL;

        int r = words_of(d, s, ", ", &words);
        STRV_FOREACH (word, words) {
                r = r < 0 ? r : is_exposed(exposed, *word);
                if (r == 0)
                        r = declared_add_finding(
                                        d, &place, false,
                                        "Expose the port with Port= in [Pod], by this name or number and not in a range, or "
                                        "list addresses in [Socket] or in a socket unit of your own.",
                                        "SocketActivated=: the host's systemd gets no socket for '%s'",
                                        *word);
        }
        return r < 0 ? r : 0;
}

int declared_check_sockets(Declared *d)
{
        _cleanup_strv_free_ char **exposed = NULL;
        const DeclaredSetting *socket = NULL;
        _cleanup_text_ Text ports = {};

        if (declared_has_addresses(d))
                return 0;
        int r = collect_exposed(d, &exposed);
        if (r >= 0)
                r = declared_add_ports(d, &ports);
        for (size_t i = 0; r >= 0 && i < d->n_settings; i++) {
                const DeclaredSetting *s = &d->settings[i];
                if (s->section == DECLARED_APP && streq(s->key, "SocketActivated"))
                        r = check_activated(d, s, exposed);
                else if (s->section == DECLARED_SOCKET && !socket)
                        socket = s;
        }
        if (r >= 0 && socket && ports.size == 0) {
                const DeclaredPlace place = socket->place;
                r = declared_add_finding(
                                d, &place, false, /* as a drop-in of the unit may have an address */
                                "Add ListenStream= or another one here, or a port that Port= exposes and "
                                "SocketActivated= names. Without any systemd refuses the unit, unless a drop-in of the "
                                "unit has one.",
                                "[Socket]: no address to listen on");
        }
        if (r >= 0)
                declared_sort_findings(d);
        return r;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The content of /etc/hostname, /etc/hosts and /etc/resolv.conf of a pod's apps (spec: OS-SPEC.md, "Linux"):
 * the same for all of them, made when the pod's networks are up, and again for the next root of an app if files of the host were
 * changed meanwhile.
 *
 * Name servers are those of the options; else those that the pod's networks provide; else those of the host,
 * as far as they can be reached from the pod: a resolver on the host's loopback cannot, unless the pod
 * shares the host's network. If that resolver is systemd-resolved, the servers are read from its file of
 * upstream servers. A pod without any network has none. Search domains and options of the command line
 * replace those found. */

#include <arpa/inet.h>
#include <sys/stat.h>

#include "stage0/mounts/mounts-internal.h"

#define HOST_FILE_MAX (1024U * 1024U)
#define WORDS_MAX 256U

static const char *const paths[_NAME_FILE_MAX] = {
                [NAME_HOSTNAME] = "/etc/hostname",
                [NAME_HOSTS] = "/etc/hosts",
                [NAME_RESOLV_CONF] = "/etc/resolv.conf",
};

/* The first two have name servers. */
static const char *const host_files[HOST_NAME_FILES] = {"/etc/resolv.conf",
                                                        "/run/systemd/resolve/resolv.conf", "/etc/hosts"};

const char *name_file_path(NameFile f)
{
        return paths[f];
}

void name_files_done(NameFiles *f)
{
        for (size_t i = 0; i < _NAME_FILE_MAX; i++)
                free(f->text[i]);
        *f = (NameFiles){};
}

/* --- resolv.conf --------------------------------------------------------------------------------------- */

/* Neither loopback, nor "this host", nor an address of one link only. */
static bool is_reachable(const char *server)
{
        struct in6_addr six;
        struct in_addr four;

        if (inet_pton(AF_INET, server, &four) == 1)
                return ntohl(four.s_addr) >> 24 != 127 && four.s_addr != 0;
        if (inet_pton(AF_INET6, server, &six) != 1) /* an address with the name of an interface */
                return false;
        if (IN6_IS_ADDR_V4MAPPED(&six))
                return six.s6_addr[12] != 127 && six.s6_addr[12] != 0;
        return !IN6_IS_ADDR_LOOPBACK(&six) && !IN6_IS_ADDR_UNSPECIFIED(&six) && !IN6_IS_ADDR_LINKLOCAL(&six);
}

static int take_line(char *line, bool reachable, NetworkDns *d)
{
        _cleanup_strv_free_ char **words = NULL;

        line[strcspn(line, "#;")] = 0;
        int r = strv_split(line, " \t\r", &words);
        if (r < 0 || strv_length(words) < 2 || strv_length(words) > WORDS_MAX)
                return r;
        if (streq(words[0], "nameserver"))
                return reachable && !is_reachable(words[1]) ? 0 : strv_extend(&d->servers, words[1]);
        char ***l = streq(words[0], "options") ? &d->options : &d->search;
        if (!streq(words[0], "options")) {
                if (!streq(words[0], "search") && !streq(words[0], "domain"))
                        return 0;
                d->search = strv_free(d->search); /* the last line counts */
        }
        for (char **w = words + 1; r >= 0 && *w; w++)
                r = strv_extend(l, *w);
        return r;
}

int resolv_conf_parse(const char *text, bool reachable, NetworkDns *ret)
{
        _cleanup_(network_dns_done) NetworkDns d = {};
        _cleanup_strv_free_ char **lines = NULL;
        int r = strv_split(text, "\n", &lines);

        for (char **l = lines; r >= 0 && l && *l; l++)
                r = take_line(*l, reachable, &d);
        if (r < 0)
                return r;
        *ret = d;
        d = (NetworkDns){};
        return 0;
}

static void add_words(Text *t, const char *key, char *const *words)
{
        _cleanup_free_ char *joined = words ? strv_join(words, " ") : NULL;

        if (words && !joined)
                t->failed = true;
        if (joined)
                text_addf(t, "%s %s\n", key, joined);
}

int resolv_conf_format(const NetworkDns *d, char **ret)
{
        _cleanup_text_ Text t = {};

        /* A domain is a list of one, which a longer list replaces. */
        if (d->search)
                add_words(&t, "search", d->search);
        else if (d->domain)
                text_addf(&t, "search %s\n", d->domain);
        STRV_FOREACH (s, d->servers)
                text_addf(&t, "nameserver %s\n", *s);
        add_words(&t, "options", d->options);
        if (t.size == 0 && !t.failed) {
                *ret = NULL;
                return 0;
        }
        return text_take(&t, ret, NULL);
}

/* 1: read; 0: it is not there, or is /dev/null, as in containers. */
static int read_host_file(const char *path, bool required, char **ret, Error *e)
{
        int r = read_file_at(AT_FDCWD, path, HOST_FILE_MAX, ret, NULL);

        if ((r == -ENOENT || r == -EBADMSG) && !required)
                return 0;
        return r < 0 ? error_set_errno(e, r, "Cannot read %s of the host", path) : 1;
}

static int host_servers(bool required, bool reachable, NetworkDns *ret, Error *e)
{
        for (size_t i = 0; i < 2 && !ret->servers; i++) {
                _cleanup_free_ char *text = NULL;

                int r = read_host_file(host_files[i], required && i == 0, &text, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;
                network_dns_done(ret);
                if (resolv_conf_parse(text, reachable, ret) < 0)
                        return error_oom(e);
                if (!reachable)
                        break;
        }
        /* Search domains of a resolver that cannot be reached are of no use. */
        if (!ret->servers)
                network_dns_done(ret);
        return 0;
}

static bool dns_is(const PodConfig *c, const char *word)
{
        return c->dns && streq(c->dns[0], word);
}

/* The configuration without search domains and options of the user. */
static int find_servers(Pod *p, NetworkDns *ret, Error *e)
{
        const PodConfig *c = &p->config;
        bool host = dns_is(c, "host");

        if (c->dns && !host)
                return strv_copy(c->dns, &ret->servers) < 0 ? error_oom(e) : 0;
        if (!host && c->net == NET_NETWORKS) {
                int r = network_dns(p, ret, e);
                if (r < 0 || ret->servers)
                        return r;
                network_dns_done(ret);
        }
        if (!host && c->net == NET_NONE)
                return 0;
        return host_servers(host, c->net == NET_NETWORKS, ret, e);
}

static int replace(char *const *with, char ***l)
{
        if (!with)
                return 0;
        *l = strv_free(*l);
        return with[0] && streq(with[0], ".") && !with[1] ? 0 : strv_copy(with, l);
}

static int make_resolv_conf(Pod *p, NameFiles *f, Error *e)
{
        _cleanup_(network_dns_done) NetworkDns d = {};
        const PodConfig *c = &p->config;

        if (dns_is(c, "none"))
                return 0;
        f->asked[NAME_RESOLV_CONF] = c->dns || c->dns_search || c->dns_options;
        /* Lines are passed on unchanged, including unknown ones. */
        if (!c->dns_search && !c->dns_options && c->net != NET_NETWORKS && (c->net == NET_HOST || c->dns) &&
            (!c->dns || dns_is(c, "host"))) {
                int r = read_host_file(paths[NAME_RESOLV_CONF], c->dns, &f->text[NAME_RESOLV_CONF], e);
                return MIN(r, 0);
        }
        int r = find_servers(p, &d, e);
        if (r < 0)
                return r;
        f->lacks_servers = c->net == NET_NETWORKS && !d.servers;
        if (c->dns_search) {
                free(d.domain);
                d.domain = NULL;
        }
        if (replace(c->dns_search, &d.search) < 0 || replace(c->dns_options, &d.options) < 0 ||
            resolv_conf_format(&d, &f->text[NAME_RESOLV_CONF]) < 0)
                return error_oom(e);
        return 0;
}

/* --- hosts --------------------------------------------------------------------------------------------- */

/* The pod's own name: by the addresses of its first network, else by an address of loopback that has no
 * other name. */
static int add_own_name(Pod *p, const char *hostname, Text *t, Error *e)
{
        NetworkReport *l = NULL;
        size_t n = 0, added = 0;
        int r = p->config.net == NET_NETWORKS ? network_report(p, &l, &n, e) : 0;

        if (r < 0)
                return r;
        for (size_t i = 0; i < n && added == 0; i++)
                for (size_t k = 0; k < l[i].n_addresses; k++, added++) {
                        const char *address = l[i].addresses[k].address;
                        text_addf(t, "%.*s\t%s\n", (int) strcspn(address, "/"), address, hostname);
                }
        network_report_free(l, n);
        if (added == 0)
                text_addf(t, "127.0.1.1\t%s\n", hostname);
        return 0;
}

static bool is_host_entry(char *const *entries)
{
        return strv_contains(entries, "host");
}

static int add_host_lines(bool host, Text *t, Error *e)
{
        _cleanup_free_ char *text = NULL;

        if (!host) {
                text_add(t, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
                return 0;
        }
        int r = read_host_file(paths[NAME_HOSTS], true, &text, e);
        if (r < 0)
                return r;
        text_add(t, text);
        if (t->size > 0 && t->data[t->size - 1] != '\n')
                text_add(t, "\n");
        return 0;
}

static int make_hosts(Pod *p, const char *hostname, NameFiles *f, Error *e)
{
        char *const *entries = p->config.hosts_entries;
        _cleanup_text_ Text t = {};

        f->asked[NAME_HOSTS] = entries;
        int r = add_host_lines(is_host_entry(entries), &t, e);
        if (r >= 0)
                r = add_own_name(p, hostname, &t, e);
        if (r < 0)
                return r;
        STRV_FOREACH (s, entries) {
                if (streq(*s, "host"))
                        continue;
                text_addf(&t, "%.*s\t", (int) strcspn(*s, "="), *s);
                for (const char *c = strchr(*s, '=') + 1; *c; c++)
                        text_add_bytes(&t, *c == ',' ? " " : c, 1);
                text_add(&t, "\n");
        }
        return text_take(&t, &f->text[NAME_HOSTS], NULL) < 0 ? error_oom(e) : 0;
}

static void note_host_files(NameFiles *f)
{
        for (size_t i = 0; i < HOST_NAME_FILES; i++) {
                struct stat st = {};

                (void) stat(host_files[i], &st); /* it may come later */
                f->read[i].device = st.st_dev;
                f->read[i].inode = st.st_ino;
                f->read[i].changed = st.st_mtim;
        }
}

bool name_files_are_old(const NameFiles *f)
{
        NameFiles now = {};

        note_host_files(&now);
        for (size_t i = 0; i < HOST_NAME_FILES; i++)
                if (now.read[i].device != f->read[i].device || now.read[i].inode != f->read[i].inode ||
                    now.read[i].changed.tv_sec != f->read[i].changed.tv_sec ||
                    now.read[i].changed.tv_nsec != f->read[i].changed.tv_nsec)
                        return true;
        return false;
}

int name_files_make(Pod *p, NameFiles *ret, Error *e)
{
        _cleanup_(name_files_done) NameFiles f = {};
        _cleanup_free_ char *hostname = NULL;

        note_host_files(&f);
        if (pod_hostname(p, &hostname) < 0 || xasprintf(&f.text[NAME_HOSTNAME], "%s\n", hostname) < 0)
                return error_oom(e);
        f.asked[NAME_HOSTNAME] = p->config.hostname;
        int r = make_hosts(p, hostname, &f, e);
        if (r >= 0)
                r = make_resolv_conf(p, &f, e);
        if (r < 0)
                return r;
        *ret = f;
        f = (NameFiles){};
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The file "config" of a pod: properties of a pod beyond the specification's manifest, as one JSON object.
 *
 * Although acnspawn writes the file itself, it is parsed like untrusted input: a full or failing disk must
 * lead to an error, not to a pod that runs with wrong settings. So every member has to be present, but for
 * those that earlier versions did not have, with the right type and a valid value, and no others are allowed.
 */

#include "prepare/pods/pods-internal.h"

static const char *const exit_policies[_EXIT_POLICY_MAX] = {
                [EXIT_ON_FAILURE] = "on-failure", [EXIT_ON_ALL] = "all",     [EXIT_ON_ANY] = "any",
                [EXIT_NEVER] = "never",           [EXIT_ON_TASKS] = "tasks",
};

static const char *const net_modes[_NET_MODE_MAX] = {
                [NET_NONE] = "none",
                [NET_HOST] = "host",
                [NET_NETWORKS] = "networks",
};

static int table_lookup(const char *const *table, size_t n, const char *s)
{
        for (size_t i = 0; s && i < n; i++)
                if (streq(table[i], s))
                        return (int) i;
        return -EINVAL;
}

const char *exit_policy_to_string(ExitPolicy p)
{
        return (unsigned) p < _EXIT_POLICY_MAX ? exit_policies[p] : NULL;
}

int exit_policy_from_string(const char *s)
{
        return table_lookup(exit_policies, _EXIT_POLICY_MAX, s);
}

const char *net_mode_to_string(NetMode m)
{
        return (unsigned) m < _NET_MODE_MAX ? net_modes[m] : NULL;
}

int net_mode_from_string(const char *s)
{
        return table_lookup(net_modes, _NET_MODE_MAX, s);
}

/* Names as in the CNI specification; arguments in printable characters other than those that separate
 * networks. They are passed to plugins in an environment variable. */
int pod_network_check(const char *s, Error *e)
{
        static const char alnum[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        size_t n = strcspn(s, ":"), k = 0;

        while (k < n && (strchr(alnum, s[k]) || (k > 0 && strchr("_.-", s[k]))))
                k++;
        if (n == 0 || k < n || n > 255)
                return error_set(e, -EINVAL,
                                 "'%.*s' is not a valid name of a network: letters, digits, and '_', '.', "
                                 "'-' after the first",
                                 (int) MIN(n, (size_t) 255), s);
        for (const char *p = s + n; *p; p += strcspn(p, ";")) {
                size_t name = strspn(++p, alnum), length = strcspn(p, ";");

                if (name == 0 || p[name] != '=' || length > 1024)
                        return error_set(e, -EINVAL,
                                         "what follows the name of network '%.*s' must be ARG=VALUE[;…]",
                                         (int) n, s);
                for (size_t i = 0; i < length; i++)
                        if ((unsigned char) p[i] <= ' ' || (unsigned char) p[i] >= 0x7f || p[i] == ',')
                                return error_set(e, -EINVAL,
                                                 "the arguments of network '%.*s' contain a character that "
                                                 "is not allowed in them",
                                                 (int) n, s);
        }
        return 0;
}

void pod_config_done(PodConfig *c)
{
        free(c->name);
        free(c->hostname);
        free(c->stage1);
        free(c->predecessor);
        free(c->name_from);
        free(c->owner);
        free(c->boot_id);
        free(c->cgroup_parent);
        free(c->declared_run);
        strv_free(c->networks);
        strv_free(c->dns);
        strv_free(c->dns_search);
        strv_free(c->dns_options);
        strv_free(c->hosts_entries);
        *c = (PodConfig){};
}

/* --- Members ------------------------------------------------------------------------------------------- */

typedef enum MemberType {
        MEMBER_TEXT,
        MEMBER_TEXTS,
        MEMBER_NUMBER,
        MEMBER_U32,
        MEMBER_BOOLEAN,
        MEMBER_NET,
        MEMBER_EXIT_POLICY
} MemberType;

static const struct Member {
        const char *key;
        MemberType type;
        size_t offset;
        bool optional; /* missing in pods of earlier versions */
        bool sparse;   /* written only if it is not 0: a version that does not know it refuses the pod */
} members[] = {
                {"name", MEMBER_TEXT, offsetof(PodConfig, name)},
                {"hostname", MEMBER_TEXT, offsetof(PodConfig, hostname)},
                {"uidBase", MEMBER_U32, offsetof(PodConfig, uid_base)},
                {"uidRanges", MEMBER_U32, offsetof(PodConfig, n_uid_ranges), true},
                {"uidCount", MEMBER_U32, offsetof(PodConfig, n_uids), true, .sparse = true},
                {"privateUsers", MEMBER_BOOLEAN, offsetof(PodConfig, private_users)},
                {"strict", MEMBER_BOOLEAN, offsetof(PodConfig, strict), true},
                {"reducedMetadata", MEMBER_BOOLEAN, offsetof(PodConfig, reduced_metadata), true},
                {"noMetadata", MEMBER_BOOLEAN, offsetof(PodConfig, no_metadata), true},
                {"net", MEMBER_NET, offsetof(PodConfig, net)},
                {"dns", MEMBER_TEXTS, offsetof(PodConfig, dns), true},
                {"dnsSearch", MEMBER_TEXTS, offsetof(PodConfig, dns_search), true},
                {"dnsOptions", MEMBER_TEXTS, offsetof(PodConfig, dns_options), true},
                {"hostsEntries", MEMBER_TEXTS, offsetof(PodConfig, hosts_entries), true},
                {"exitPolicy", MEMBER_EXIT_POLICY, offsetof(PodConfig, exit_policy)},
                {"stopTimeoutUSec", MEMBER_NUMBER, offsetof(PodConfig, stop_timeout_usec)},
                {"exitIdleUSec", MEMBER_NUMBER, offsetof(PodConfig, exit_idle_usec), true},
                {"createdUSec", MEMBER_NUMBER, offsetof(PodConfig, created_usec)},
                {"stage1", MEMBER_TEXT, offsetof(PodConfig, stage1)},
                {"predecessor", MEMBER_TEXT, offsetof(PodConfig, predecessor), true},
                {"nameFrom", MEMBER_TEXT, offsetof(PodConfig, name_from), true},
                {"owner", MEMBER_TEXT, offsetof(PodConfig, owner), true},
                {"bootID", MEMBER_TEXT, offsetof(PodConfig, boot_id), true},
                {"hostPID", MEMBER_BOOLEAN, offsetof(PodConfig, host_pid), true},
                {"hostIPC", MEMBER_BOOLEAN, offsetof(PodConfig, host_ipc), true},
                {"capabilities", MEMBER_NUMBER, offsetof(PodConfig, capabilities), true},
                {"cgroupParent", MEMBER_TEXT, offsetof(PodConfig, cgroup_parent), true},
                {"declaredRun", MEMBER_TEXT, offsetof(PodConfig, declared_run), true},
};

static const void *member_of(const PodConfig *c, const struct Member *m)
{
        return (const char *) c + m->offset;
}

/* A mode, or the list of networks. */
static json_object *net_format(const PodConfig *c)
{
        return c->net == NET_NETWORKS ? json_new_string_list(c->networks)
                                      : json_object_new_string(net_mode_to_string(c->net));
}

static json_object *member_format(const PodConfig *c, const struct Member *m)
{
        const void *p = member_of(c, m);

        switch (m->type) {
        case MEMBER_TEXT:
                return json_object_new_string(*(char *const *) p);
        case MEMBER_TEXTS:
                return json_new_string_list(*(char **const *) p);
        case MEMBER_NUMBER:
                return json_object_new_uint64(*(const uint64_t *) p);
        case MEMBER_U32:
                return json_object_new_uint64(*(const uint32_t *) p);
        case MEMBER_BOOLEAN:
                return json_object_new_boolean(*(const bool *) p);
        case MEMBER_NET:
                return net_format(c);
        case MEMBER_EXIT_POLICY:
                return json_object_new_string(exit_policy_to_string(*(const ExitPolicy *) p));
        }
        return NULL;
}

static int number_parse(json_object *v, uint64_t max, uint64_t *ret)
{
        if (!json_object_is_type(v, json_type_int) || (json_object_get_int64(v) < 0))
                return -EINVAL;
        uint64_t n = json_object_get_uint64(v);
        if (n > max)
                return -ERANGE;
        *ret = n;
        return 0;
}

static int word_parse(json_object *v, int (*from_string)(const char *s))
{
        return json_object_is_type(v, json_type_string) ? from_string(json_object_get_string(v)) : -EINVAL;
}

static int text_parse(json_object *v, char **ret)
{
        if (!v) /* null */
                return 0;
        if (!json_object_is_type(v, json_type_string) || json_object_get_string_len(v) == 0)
                return -EINVAL;
        *ret = strdup(json_object_get_string(v));
        return *ret ? 0 : -ENOMEM;
}

static int texts_parse(json_object *v, char ***ret)
{
        if (!v) /* null */
                return 0;
        if (!json_object_is_type(v, json_type_array))
                return -EINVAL;
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                json_object *item = json_object_array_get_idx(v, i);

                if (!json_object_is_type(item, json_type_string))
                        return -EINVAL;
                if (strv_extend(ret, json_object_get_string(item)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int net_parse(json_object *v, PodConfig *c)
{
        if (!json_object_is_type(v, json_type_array)) {
                int r = word_parse(v, net_mode_from_string);
                c->net = r < 0 ? NET_NONE : (NetMode) r;
                return r == NET_NETWORKS ? -EINVAL : r;
        }
        c->net = NET_NETWORKS;
        return texts_parse(v, &c->networks);
}

static int member_parse(const struct Member *m, json_object *v, PodConfig *c)
{
        void *p = (char *) c + m->offset;
        uint64_t n = 0;
        int r;

        switch (m->type) {
        case MEMBER_TEXT:
                return text_parse(v, p);
        case MEMBER_TEXTS:
                return texts_parse(v, p);
        case MEMBER_NUMBER:
                return number_parse(v, UINT64_MAX, p);
        case MEMBER_U32:
                r = number_parse(v, UINT32_MAX, &n);
                *(uint32_t *) p = (uint32_t) n;
                return r;
        case MEMBER_BOOLEAN:
                if (!json_object_is_type(v, json_type_boolean))
                        return -EINVAL;
                *(bool *) p = json_object_get_boolean(v);
                return 0;
        case MEMBER_NET:
                return net_parse(v, c);
        case MEMBER_EXIT_POLICY:
                r = word_parse(v, exit_policy_from_string);
                *(ExitPolicy *) p = r < 0 ? EXIT_ON_FAILURE : (ExitPolicy) r;
                return r;
        }
        return -EINVAL;
}

/* --- The whole ----------------------------------------------------------------------------------------- */

/* Bytes other than UTF-8 would be changed by writing and reading JSON. */
static int check_texts(const PodConfig *c, Error *e)
{
        for (size_t i = 0; i < ELEMENTSOF(members); i++) {
                if (members[i].type != MEMBER_TEXT)
                        continue;
                const char *s = *(char *const *) member_of(c, &members[i]);
                if (s && !utf8_is_valid(s, strlen(s)))
                        return error_set(e, -EINVAL, "The pod's %s is not valid UTF-8", members[i].key);
        }
        return 0;
}

/* The checks of every configuration, before writing and after reading it. */
static int check_values(const PodConfig *c, Error *e)
{
        if (c->name && pod_name_check(c->name, e) < 0)
                return -EINVAL;
        if (c->hostname && hostname_check(c->hostname, e) < 0)
                return -EINVAL;
        if (c->n_uid_ranges > UID_RANGES_MAX || (c->n_uids == 0 && c->uid_base % UID_RANGE_SIZE != 0) ||
            !pod_uids_are_valid(c->uid_base, pod_n_uids(c)))
                return error_set(e, -EINVAL, "%u is not the base of a range of uids for pods", c->uid_base);
        if (c->predecessor && uuid_check(c->predecessor, NULL) < 0)
                return error_set(e, -EINVAL, "predecessor is not a UUID: '%s'", c->predecessor);
        if (c->name_from && uuid_check(c->name_from, NULL) < 0)
                return error_set(e, -EINVAL, "nameFrom is not a UUID: '%s'", c->name_from);
        if (c->owner && ac_name_check(c->owner, NULL) < 0)
                return error_set(e, -EINVAL, "owner is not an AC name: '%s'", c->owner);
        if (!c->owner != !c->boot_id)
                return error_set(e, -EINVAL, "owner and bootID are given together");
        if (c->cgroup_parent && pod_cgroup_parent_check(c->cgroup_parent, e) < 0)
                return -EINVAL;
        if (c->stage1 && !path_is_absolute(c->stage1))
                return error_set(e, -EINVAL, "stage1 is not an absolute path: '%s'", c->stage1);
        if ((c->net == NET_NETWORKS) != (strv_length(c->networks) > 0))
                return error_set(e, -EINVAL, "the list of networks does not match the mode '%s'",
                                 net_mode_to_string(c->net));
        STRV_FOREACH (s, c->networks)
                if (pod_network_check(*s, e) < 0)
                        return -EINVAL;
        return pod_resolver_check(c, e);
}

static bool is_left_out(const PodConfig *c, const struct Member *m)
{
        return m->sparse && *(const uint32_t *) member_of(c, m) == 0;
}

/* Members without a value are null. */
static bool is_null(const PodConfig *c, const struct Member *m)
{
        return (m->type == MEMBER_TEXT || m->type == MEMBER_TEXTS) && !*(void *const *) member_of(c, m);
}

int pod_config_format(const PodConfig *c, char **ret, Error *e)
{
        _cleanup_json_ json_object *o = json_object_new_object();

        int r = check_texts(c, e);
        if (r >= 0)
                r = check_values(c, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(members); i++) {
                const struct Member *m = &members[i];
                if (is_left_out(c, m))
                        continue;
                r = is_null(c, m) ? json_member_add_nullable(o, m->key, NULL)
                                  : json_member_add(o, m->key, member_format(c, m));
                if (r < 0)
                        return error_oom(e);
        }
        const char *text = json_print_pretty(o);
        return !text || xasprintf(ret, "%s\n", text) < 0 ? error_oom(e) : 0;
}

static int check_keys(json_object *o, Error *e)
{
        json_object_object_foreach (o, key, v) {
                bool known = false;

                (void) v;
                for (size_t i = 0; i < ELEMENTSOF(members) && !known; i++)
                        known = streq(members[i].key, key);
                if (!known)
                        return error_set(e, -EINVAL, "unknown member '%s'", key);
        }
        return 0;
}

int pod_config_parse(const char *text, size_t size, PodConfig *ret, Error *e)
{
        _cleanup_(pod_config_done) PodConfig c = {};
        _cleanup_json_ json_object *o = NULL;

        int r = json_parse_strict(text, size, &o, NULL, e);
        if (r < 0)
                return r;
        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "it is not a JSON object");
        r = check_keys(o, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(members); i++) {
                json_object *v;

                bool there = json_object_object_get_ex(o, members[i].key, &v);
                if (!there && members[i].optional)
                        continue;
                if (!there)
                        return error_set(e, -EINVAL, "'%s' is missing", members[i].key);
                r = member_parse(&members[i], v, &c);
                if (r == -ENOMEM)
                        return error_oom(e);
                const char *value = r < 0 && v ? json_print(v) : "null";
                if (r < 0)
                        return error_set(e, -EINVAL, "'%s' cannot be %s", members[i].key, value ?: "that");
        }
        r = check_values(&c, e);
        if (r < 0)
                return r;
        *ret = c;
        c = (PodConfig){};
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writing and reading the launch file. The first pair is the format's name and version; then come pairs in
 * any order, those of lists once per element, and one that marks the end, so that a truncated file cannot
 * lack a restriction unnoticed. Unknown keys are an error: writer and reader are always of the same
 * build. */

#include "stage1/launch-config.h"

#define FORMAT_KEY "acnspawn-launch"
#define FORMAT_VERSION "1"
#define END_KEY "end"

void launch_config_done(LaunchConfig *c)
{
        free(c->app);
        strv_free(c->exec);
        strv_free(c->pre_start);
        strv_free(c->post_stop);
        strv_free(c->health);
        strv_free(c->environment);
        free(c->user);
        free(c->group);
        free(c->gids);
        free(c->working_directory);
        strv_free(c->mounts);
        strv_free(c->sockets);
        strv_free(c->masked);
        strv_free(c->read_only);
        free(c->apparmor_profile);
        free(c->selinux_context);
        free(c->filter);
        *c = (LaunchConfig){};
}

static int set_string(LaunchConfig *c, size_t offset, const char *value)
{
        char **p = (char **) ((char *) c + offset);
        char *copy = strdup(value);

        if (!copy)
                return -ENOMEM;
        free(*p);
        *p = copy;
        return 0;
}

static int set_list(LaunchConfig *c, size_t offset, const char *value)
{
        return strv_extend((char ***) ((char *) c + offset), value);
}

static int set_flag(LaunchConfig *c, size_t offset, const char *value)
{
        int b = parse_boolean(value);

        if (b < 0)
                return b;
        *(bool *) ((char *) c + offset) = b > 0;
        return 0;
}

static int set_number(LaunchConfig *c, size_t offset, const char *value)
{
        return parse_u64(value, (uint64_t *) ((char *) c + offset));
}

static int add_gid(LaunchConfig *c, size_t offset, const char *value)
{
        uint32_t gid;
        int r = parse_u32(value, &gid);

        (void) offset;
        if (r < 0)
                return r;
        if (GREEDY_REALLOC(c->gids, c->gids_allocated, c->n_gids + 1) < 0)
                return -ENOMEM;
        c->gids[c->n_gids++] = gid;
        return 0;
}

/* The filter in the kernel's format, in hex; empty: none. */
static int set_filter(LaunchConfig *c, size_t offset, const char *value)
{
        size_t length = strlen(value), size = length / 2;
        struct sock_filter *filter = NULL;

        (void) offset;
        if (length % (2 * sizeof(struct sock_filter)) != 0 ||
            size / sizeof(struct sock_filter) > BPF_MAXINSNS || c->has_filter)
                return -EBADMSG;
        if (size > 0) {
                filter = malloc(size);
                int r = filter ? hex_decode(value, size, filter) : -ENOMEM;
                if (r < 0) {
                        free(filter);
                        return r;
                }
        }
        c->filter = filter;
        c->n_filter = size / sizeof(struct sock_filter);
        c->has_filter = true;
        return 0;
}

static const struct {
        const char *key;
        int (*set)(LaunchConfig *c, size_t offset, const char *value);
        size_t offset;
} keys[] = {
                {"app", set_string, offsetof(LaunchConfig, app)},
                {"arg", set_list, offsetof(LaunchConfig, exec)},
                {"pre-start", set_list, offsetof(LaunchConfig, pre_start)},
                {"post-stop", set_list, offsetof(LaunchConfig, post_stop)},
                {"health", set_list, offsetof(LaunchConfig, health)},
                {"env", set_list, offsetof(LaunchConfig, environment)},
                {"user", set_string, offsetof(LaunchConfig, user)},
                {"group", set_string, offsetof(LaunchConfig, group)},
                {"gid", add_gid, 0},
                {"merges-groups", set_flag, offsetof(LaunchConfig, merges_groups)},
                {"strict-groups", set_flag, offsetof(LaunchConfig, strict_groups)},
                {"working-directory", set_string, offsetof(LaunchConfig, working_directory)},
                {"mount", set_list, offsetof(LaunchConfig, mounts)},
                {"socket", set_list, offsetof(LaunchConfig, sockets)},
                {"has-masked", set_flag, offsetof(LaunchConfig, has_masked)},
                {"masked", set_list, offsetof(LaunchConfig, masked)},
                {"has-read-only", set_flag, offsetof(LaunchConfig, has_read_only)},
                {"read-only", set_list, offsetof(LaunchConfig, read_only)},
                {"capabilities", set_number, offsetof(LaunchConfig, capabilities)},
                {"ambient", set_number, offsetof(LaunchConfig, ambient)},
                {"filter", set_filter, 0},
                {"apparmor-profile", set_string, offsetof(LaunchConfig, apparmor_profile)},
                {"selinux-context", set_string, offsetof(LaunchConfig, selinux_context)},
                {"control", set_flag, offsetof(LaunchConfig, control)},
                {"hostname", set_flag, offsetof(LaunchConfig, hostname)},
                {"notify", set_flag, offsetof(LaunchConfig, notify)},
                {"no-new-privileges", set_flag, offsetof(LaunchConfig, no_new_privileges)},
                {"may-mount", set_flag, offsetof(LaunchConfig, may_mount)},
                {"writable-sys", set_flag, offsetof(LaunchConfig, writable_sys)},
                {"read-only-root", set_flag, offsetof(LaunchConfig, read_only_root)},
                {"landlock-optional", set_flag, offsetof(LaunchConfig, landlock_optional)},
                {"shares-processes", set_flag, offsetof(LaunchConfig, shares_processes)},
};

static int set_key(LaunchConfig *c, const char *key, const char *value)
{
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (streq(keys[i].key, key))
                        return keys[i].set(c, keys[i].offset, value);
        return -EBADMSG;
}

/* The NUL-terminated string at *P, which is advanced past it; NULL at the end or if the terminator is
 * missing. */
static const char *next_string(const char **p, const char *end)
{
        const char *s = *p;
        const char *nul = s < end ? memchr(s, 0, (size_t) (end - s)) : NULL;

        if (!nul)
                return NULL;
        *p = nul + 1;
        return s;
}

int launch_config_parse(const char *data, size_t size, LaunchConfig *ret)
{
        _cleanup_launch_config_ LaunchConfig c = {};
        const char *p = data, *end = data + size;
        const char *key = next_string(&p, end), *value = next_string(&p, end);

        if (!key || !value || !streq(key, FORMAT_KEY) || !streq(value, FORMAT_VERSION))
                return -EBADMSG;
        for (;;) {
                key = next_string(&p, end);
                value = key ? next_string(&p, end) : NULL;
                if (!value)
                        return -EBADMSG;
                if (streq(key, END_KEY))
                        break;
                int r = set_key(&c, key, value);
                if (r < 0)
                        return r;
        }
        if (p != end || !c.app || !c.exec || !c.user || !c.group || !c.working_directory || !c.has_filter)
                return -EBADMSG;
        *ret = c;
        c = (LaunchConfig){};
        return 0;
}

static void add_pair(Text *t, const char *key, const char *value)
{
        text_add_bytes(t, key, strlen(key) + 1);
        text_add_bytes(t, value, strlen(value) + 1);
}

static void add_list(Text *t, const char *key, char *const *values)
{
        STRV_FOREACH (v, values)
                add_pair(t, key, *v);
}

/* Left out if it is not set: launchers of earlier versions, which pods that were started by them have, do not know it. */
static void add_flag(Text *t, const char *key, bool value)
{
        if (value)
                add_pair(t, key, "yes");
}

static void add_number(Text *t, const char *key, uint64_t value)
{
        char s[24];

        snprintf(s, sizeof(s), "%llu", (unsigned long long) value);
        add_pair(t, key, s);
}

int launch_config_format(const LaunchConfig *c, char **ret, size_t *ret_size)
{
        _cleanup_text_ Text t = {};
        _cleanup_free_ char *filter = hex_encode(c->filter, c->n_filter * sizeof(struct sock_filter));

        if (!filter)
                return -ENOMEM;
        add_pair(&t, FORMAT_KEY, FORMAT_VERSION);
        add_pair(&t, "app", c->app);
        add_list(&t, "arg", c->exec);
        add_list(&t, "pre-start", c->pre_start);
        add_list(&t, "post-stop", c->post_stop);
        add_list(&t, "health", c->health);
        add_list(&t, "env", c->environment);
        add_pair(&t, "user", c->user);
        add_pair(&t, "group", c->group);
        for (size_t i = 0; i < c->n_gids; i++)
                add_number(&t, "gid", c->gids[i]);
        add_flag(&t, "merges-groups", c->merges_groups);
        add_flag(&t, "strict-groups", c->strict_groups);
        add_pair(&t, "working-directory", c->working_directory);
        add_list(&t, "mount", c->mounts);
        add_list(&t, "socket", c->sockets);
        add_flag(&t, "has-masked", c->has_masked);
        add_list(&t, "masked", c->masked);
        add_flag(&t, "has-read-only", c->has_read_only);
        add_list(&t, "read-only", c->read_only);
        add_number(&t, "capabilities", c->capabilities);
        if (c->ambient > 0)
                add_number(&t, "ambient", c->ambient);
        add_pair(&t, "filter", filter);
        if (c->apparmor_profile)
                add_pair(&t, "apparmor-profile", c->apparmor_profile);
        if (c->selinux_context)
                add_pair(&t, "selinux-context", c->selinux_context);
        add_flag(&t, "control", c->control);
        add_flag(&t, "hostname", c->hostname);
        add_pair(&t, "notify", c->notify ? "yes" : "no");
        add_pair(&t, "no-new-privileges", c->no_new_privileges ? "yes" : "no");
        add_pair(&t, "may-mount", c->may_mount ? "yes" : "no");
        add_pair(&t, "read-only-root", c->read_only_root ? "yes" : "no");
        add_flag(&t, "writable-sys", c->writable_sys);
        add_flag(&t, "landlock-optional", c->landlock_optional);
        add_pair(&t, "shares-processes", c->shares_processes ? "yes" : "no");
        add_pair(&t, END_KEY, "");
        return text_take(&t, ret, ret_size);
}

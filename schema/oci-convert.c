/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Converts the config of an OCI image to an image manifest (see the table in oci.h).
 *
 * Each part has a function of its own; the result is written as text and parsed again as strictly as the
 * manifest of any image, so that an untrusted config can only become a valid manifest.
 */

#include "schema/oci-internal.h"

#define NAME_MAX_MANGLED 128U /* length of names that are derived from paths and labels */
#define TRIES_MAX 100U        /* number of names that may be mapped to the same one */
#define ENVIRONMENT_MAX 4096U
#define LABELS_MAX 1024U
#define STOP_SIGNAL "org.opencontainers.image.stopsignal"
#define HEALTHCHECK "org.opencontainers.image.healthcheck"

typedef struct Conversion {
        const OciConfig *config;
        App *app;
        Findings *findings; /* gets warnings; or NULL */
} Conversion;

/* Notes that VALUE of config.MEMBER is left out. */
static int leave_out(const Conversion *x, const char *member, const char *value, const char *why, Error *e)
{
        _cleanup_free_ char *quoted = quote_value(value), *path = NULL, *message = NULL;

        if (!x->findings)
                return 0;
        if (!quoted || xasprintf(&path, "config.%s", member) < 0 ||
            xasprintf(&message, "%s %s, and is ignored", quoted, why) < 0 ||
            findings_add_warning(x->findings, path, message) < 0)
                return error_oom(e);
        return 0;
}

int oci_clean_path(const char *path, char **ret)
{
        char *clean = malloc(strlen(path) + 2), *end = clean;

        if (!clean)
                return -ENOMEM;
        for (size_t n; *path; path += n) {
                path += strspn(path, "/");
                n = strcspn(path, "/");
                if (n == 2 && strncmp(path, "..", n) == 0) {
                        while (end > clean && *--end != '/')
                                ;
                        continue;
                }
                if (n == 0 || (n == 1 && *path == '.'))
                        continue;
                *end++ = '/';
                end = mempcpy(end, path, n);
        }
        if (end == clean)
                *end++ = '/';
        *end = 0;
        *ret = clean;
        return 0;
}

static int refuse_value(Error *e, const char *what, const char *value, const char *why)
{
        _cleanup_free_ char *quoted = quote_value(value);

        return error_set(e, -EINVAL, "The %s %s of the image %s", what, quoted ?: "?", why);
}

/* --- Command and user
 * --------------------------------------------------------------------------------------- */

/* Arguments given by the user replace Cmd, so its position in exec has to be recorded. */
static int record_entrypoint_size(const OciConfig *c, PairList *annotations, Error *e)
{
        char n[24];

        snprintf(n, sizeof(n), "%zu", strv_length(c->entrypoint));
        return pair_list_set(annotations, OCI_ENTRYPOINT_SIZE, n) < 0 ? error_oom(e) : 0;
}

static int convert_exec(const Conversion *x, Error *e)
{
        const OciConfig *c = x->config;
        App *a = x->app;
        size_t n = strv_length(c->entrypoint), m = strv_length(c->cmd);

        if (n + m == 0)
                return 0;
        a->exec = calloc(n + m + 1, sizeof(char *));
        for (size_t i = 0; a->exec && i < n + m; i++) {
                a->exec[i] = strdup(i < n ? c->entrypoint[i] : c->cmd[i - n]);
                if (!a->exec[i])
                        return error_oom(e);
        }
        return a->exec ? 0 : error_oom(e);
}

/* "user", "user:group", "" */
static int convert_user(const Conversion *x, Error *e)
{
        const char *s = x->config->user ?: "", *colon = strchr(s, ':');
        App *a = x->app;

        a->user = colon ? strndup(s, (size_t) (colon - s)) : strdup(s);
        a->group = strdup(colon && colon[1] ? colon + 1 : GROUPS_OF_USER);
        if (a->user && !a->user[0]) {
                free(a->user);
                a->user = strdup("0");
        }
        if (!a->user || !a->group)
                return error_oom(e);
        /* In an image manifest a path means the owner of that file, but in a config it is not valid. */
        if (path_is_absolute(a->user) || path_is_absolute(a->group) || strpbrk(s, "\n") ||
            (colon && strchr(colon + 1, ':')))
                return refuse_value(e, "User", s, "is neither \"user\" nor \"user:group\"");
        return 0;
}

static int convert_variable(const Conversion *x, const char *entry, Error *e)
{
        const char *equals = strchr(entry, '=');
        _cleanup_error_ Error why = ERROR_NULL;
        _cleanup_free_ char *name = NULL;

        if (!equals)
                return leave_out(x, "Env", entry, "has no \"=\"", e);
        name = strndup(entry, (size_t) (equals - entry));
        if (!name)
                return error_oom(e);
        if (environment_name_check(name, &why) < 0)
                return leave_out(x, "Env", entry, "has no valid name", e);
        return pair_list_set(&x->app->environment, name, equals + 1) < 0 ? error_oom(e) : 0;
}

static int convert_environment(const Conversion *x, Error *e)
{
        const OciConfig *c = x->config;
        int r = 0;

        if (strv_length(c->env) > ENVIRONMENT_MAX)
                return error_set(e, -E2BIG, "The image sets more than %u environment variables",
                                 ENVIRONMENT_MAX);
        for (char *const *v = c->env; v && *v && r >= 0; v++)
                r = convert_variable(x, *v, e);
        return r;
}

static int convert_directory(const Conversion *x, Error *e)
{
        const char *directory = x->config->working_directory;

        return directory && oci_clean_path(directory, &x->app->working_directory) < 0 ? error_oom(e) : 0;
}

/* --- Ports --------------------------------------------------------------------------------------------- */

static const char *const protocols[] = {"tcp", "udp", "sctp"};

/* "80/tcp", "80", "8000-8010/udp" */
static int parse_port(char *s, Port *ret)
{
        char *slash = strchr(s, '/'), *dash;
        const char *protocol = slash ? slash + 1 : "tcp";
        uint32_t last;

        if (slash)
                *slash = 0;
        dash = strchr(s, '-');
        if (dash)
                *dash = 0;
        if (parse_u32(s, &ret->port) < 0 || ret->port == 0)
                return -EINVAL;
        last = ret->port;
        if (dash && parse_u32(dash + 1, &last) < 0)
                return -EINVAL;
        if (last > 65535 || last < ret->port)
                return -EINVAL;
        ret->count = last - ret->port + 1;
        for (size_t i = 0; i < ELEMENTSOF(protocols); i++)
                if (strcasecmp(protocol, protocols[i]) == 0 && !(ret->protocol = strdup(protocols[i])))
                        return -ENOMEM;
        if (!ret->protocol)
                return -EINVAL;
        if (ret->count > 1)
                return xasprintf(&ret->name, "%u-%u-%s", ret->port, last, ret->protocol);
        return xasprintf(&ret->name, "%u-%s", ret->port, ret->protocol);
}

static bool has_port(const App *a, const char *name)
{
        for (size_t i = 0; i < a->n_ports; i++)
                if (streq(a->ports[i].name, name))
                        return true;
        return false;
}

static int convert_ports(const Conversion *x, Error *e)
{
        const OciConfig *c = x->config;
        App *a = x->app;

        a->ports = calloc(strv_length(c->exposed_ports) + 1, sizeof(Port));
        if (!a->ports)
                return error_oom(e);
        STRV_FOREACH (s, c->exposed_ports) {
                _cleanup_free_ char *copy = strdup(*s);
                Port port = {};

                int r = copy ? parse_port(copy, &port) : -ENOMEM;
                if (r >= 0 && !has_port(a, port.name)) /* "80" and "80/tcp" */
                        a->ports[a->n_ports++] = port;
                else {
                        free(port.name);
                        free(port.protocol);
                }
                if (r == -ENOMEM)
                        return error_oom(e);
                if (r < 0 && leave_out(x, "ExposedPorts", *s, "is not a port such as \"80/tcp\"", e) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* --- Volumes ------------------------------------------------------------------------------------------- */

static bool has_mount_point(const App *a, const char *name)
{
        for (size_t i = 0; i < a->n_mount_points; i++)
                if (streq(a->mount_points[i].name, name))
                        return true;
        return false;
}

/* "/var/lib/My_App" becomes "var-lib-my-app", the second of that name "var-lib-my-app-2". */
static int name_mount_point(const App *a, const char *path, char **ret, Error *e)
{
        _cleanup_free_ char *base = NULL;

        if (ac_name_from(path, NAME_MAX_MANGLED, &base) == -ENOMEM)
                return error_oom(e);
        for (unsigned i = 1; i <= TRIES_MAX; i++) {
                _cleanup_free_ char *name = NULL;
                int r = i == 1 ? xasprintf(&name, "%s", base ?: "volume")
                               : xasprintf(&name, "%s-%u", base ?: "volume", i);
                if (r < 0)
                        return error_oom(e);
                if (!has_mount_point(a, name)) {
                        *ret = TAKE_PTR(name);
                        return 0;
                }
        }
        return refuse_value(e, "volume", path, "cannot be made unique: too many have the same name");
}

/* Where a pod has mounts of its own: no volume can be there. */
static bool is_of_pod(const char *path)
{
        return streq(path, "/") || streq(path, "/dev") || path_has_prefix(path, "/dev/credentials") ||
               path_has_prefix(path, "/proc");
}

static int convert_volume(const Conversion *x, const char *volume, Error *e)
{
        _cleanup_free_ char *path = NULL;
        App *a = x->app;

        if (oci_clean_path(volume, &path) < 0)
                return error_oom(e);
        if (is_of_pod(path))
                return leave_out(x, "Volumes", volume, "cannot be the place of a volume", e);
        for (size_t i = 0; i < a->n_mount_points; i++)
                if (streq(a->mount_points[i].path, path))
                        return 0;
        MountPoint *p = &a->mount_points[a->n_mount_points];
        int r = name_mount_point(a, path, &p->name, e);
        if (r < 0)
                return r;
        p->path = TAKE_PTR(path);
        a->n_mount_points++;
        return 0;
}

static int convert_volumes(const Conversion *x, Error *e)
{
        const OciConfig *c = x->config;
        App *a = x->app;
        int r = 0;

        a->mount_points = calloc(strv_length(c->volumes) + 1, sizeof(MountPoint));
        if (!a->mount_points)
                return error_oom(e);
        for (char *const *v = c->volumes; v && *v && r >= 0; v++)
                r = convert_volume(x, *v, e);
        return r;
}

/* --- Annotations --------------------------------------------------------------------------------------- */

/* These names have a defined meaning as annotations, but not as labels. */
static const char *const reserved[] = {"created",       "authors",   "homepage",
                                       "documentation", STOP_SIGNAL, HEALTHCHECK};

static bool is_reserved(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(reserved); i++)
                if (streq(name, reserved[i]))
                        return true;
        return startswith(name, "appc.io/") || startswith(name, "acnspawn/");
}

static int convert_label(const Pair *label, PairList *annotations, Error *e)
{
        _cleanup_free_ char *base = NULL;

        int r = oci_mangle_identifier(label->name, '-', &base);
        if (r == -EINVAL)
                base = strdup("label");
        if (!base)
                return error_oom(e);
        const char *prefix = is_reserved(base) ? "label/" : "";
        for (unsigned i = 1; i <= TRIES_MAX; i++) {
                _cleanup_free_ char *name = NULL;

                r = i == 1 ? xasprintf(&name, "%s%s", prefix, base)
                           : xasprintf(&name, "%s%s-%u", prefix, base, i);
                if (r < 0)
                        return error_oom(e);
                if (!pair_list_get(annotations, name))
                        return pair_list_set(annotations, name, label->value) < 0 ? error_oom(e) : 0;
        }
        return refuse_value(e, "label", label->name, "cannot be made unique: too many have the same name");
}

static int convert_annotations(const OciConfig *c, PairList *annotations, Error *e)
{
        const Pair own[] = {
                        {(char *) "created", c->created},
                        {(char *) "authors", c->author},
                        {(char *) STOP_SIGNAL, c->stop_signal},
                        {(char *) HEALTHCHECK, c->healthcheck},
        };

        if (c->labels.n > LABELS_MAX)
                return error_set(e, -E2BIG, "The image has more than %u labels", LABELS_MAX);
        for (size_t i = 0; i < ELEMENTSOF(own); i++)
                if (own[i].value && pair_list_set(annotations, own[i].name, own[i].value) < 0)
                        return error_oom(e);
        for (size_t i = 0; i < c->labels.n; i++) {
                int r = convert_label(&c->labels.items[i], annotations, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- The manifest
 * ----------------------------------------------------------------------------------------- */

static int convert_labels(const OciConfig *c, const char *version, PairList *labels, Error *e)
{
        const char *os = NULL, *arch = NULL;

        int r = oci_platform_to_labels(&c->platform, &os, &arch, e);
        if (r < 0)
                return r;
        if ((version && pair_list_set(labels, "version", version) < 0) ||
            pair_list_set(labels, "os", os) < 0 || (arch && pair_list_set(labels, "arch", arch) < 0))
                return error_oom(e);
        return 0;
}

static int convert_app(const Conversion *x, Error *e)
{
        static int (*const parts[])(const Conversion *, Error *) = {
                        convert_exec,      convert_user,  convert_environment,
                        convert_directory, convert_ports, convert_volumes,
        };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(parts) && r >= 0; i++)
                r = parts[i](x, e);
        return r;
}

int oci_config_to_image_manifest(const OciConfig *c, const char *name, const char *version,
                                 ImageManifest **ret, Findings *findings, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *m = calloc(1, sizeof(ImageManifest));
        _cleanup_free_ char *text = NULL;

        if (!m)
                return error_oom(e);
        m->ac_version = strdup(SCHEMA_VERSION);
        m->name = strdup(name);
        m->app = calloc(1, sizeof(App));
        if (!m->ac_version || !m->name || !m->app)
                return error_oom(e);
        int r = convert_labels(c, version, &m->labels, e);
        if (r >= 0)
                r = convert_app(&(Conversion){.config = c, .app = m->app, .findings = findings}, e);
        if (r >= 0)
                r = convert_annotations(c, &m->annotations, e);
        if (r >= 0)
                r = record_entrypoint_size(c, &m->annotations, e);
        if (r < 0)
                return r;
        r = image_manifest_format(m, &text);
        if (r < 0)
                return error_set_errno(e, r, "Cannot write the image's manifest");
        r = image_manifest_parse(text, strlen(text), ret, NULL, e);
        return r < 0 ? error_prefix(e, r, "The image's config cannot be converted to an image manifest") : 0;
}

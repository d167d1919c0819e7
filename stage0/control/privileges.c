/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An image does not choose its own confinement: privileges that its isolators request beyond the defaults
 * (stage1/privileges.c) are granted only by the operator: by another isolator, on the command line or in the
 * pod manifest, which replaces that of the image; or with the app's setting "grant", which lists the allowed
 * privileges (--grant= after the image, or the annotation acnspawn/grant in a pod manifest). Any other
 * request prevents the pod from being prepared, with one message about all apps.
 *
 * A set of system calls of an image without the grant "seccomp" is limited by the default filter, even if it
 * requests no further call: the argument checks stay in force. --grant=none withholds all privileges beyond
 * the defaults and runs the app with the rest.
 *
 * The decisions are written to the pod directory for 'acnspawn status'.
 */

#include "schema/settings.h"
#include "stage0/control/control-internal.h"

typedef struct Decision {
        const PodRequest *request;
        size_t first; /* index in the pod of the first app of the request */
        PodGrants grants;
        Text refused; /* lines about apps */
} Decision;

static const Isolator *find_isolator(const IsolatorList *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return &l->items[i];
        return NULL;
}

/* L: what the request has in the place of what OTHERWISE has. */
static GrantSource source_among(const IsolatorList *l, const char *name, GrantSource otherwise)
{
        const Isolator *i = find_isolator(l, name);

        return !i ? otherwise : i->of_conf ? GRANT_CONFIGURATION : GRANT_COMMAND_LINE;
}

/* Where the isolator NAME of the app INDEX comes from. Isolators of a command line have replaced those of the
 * image that have their name or contradict them. */
static GrantSource source_of(const PodRequest *q, size_t index, const char *name)
{
        if (q->template)
                return q->template->apps[index]->app ? GRANT_POD_MANIFEST : GRANT_IMAGE;
        return source_among(&q->apps[index].isolators, name, GRANT_IMAGE);
}

/* What listens on a port that the command line names is no request of the image. */
static bool is_given_port(const PodApp *a, char *const *given, const char *name)
{
        for (size_t i = 0; name && i < a->app->n_ports; i++)
                STRV_FOREACH (word, given)
                        if (streq(a->app->ports[i].name, name) && socket_port_is(*word, &a->app->ports[i]))
                                return true;
        return false;
}

static GrantSource source_of_privilege(const PodRequest *q, size_t index, const PodApp *a,
                                       const AppSettings *s, const Privilege *p)
{
        if (is_given_port(a, s->socket_activated, startswith(p->name, "port:")))
                return q->template ? GRANT_POD_MANIFEST : GRANT_COMMAND_LINE;
        return source_of(q, index, isolator_type_to_string(p->type) ?: "");
}

static int record(Decision *d, const PodApp *a, const Privilege *p, GrantDecision decision, GrantSource by)
{
        const Grant grant = {.app = a->name,
                             .isolator = (char *) isolator_type_to_string(p->type),
                             .name = p->name,
                             .text = p->text,
                             .decision = decision,
                             .by = by};

        return pod_grants_add(&d->grants, &grant);
}

/* --- Refused ------------------------------------------------------------------------------------------- */

static void add_escaped(Text *t, const char *s)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(s);

        if (shown)
                text_add(t, shown);
        else
                t->failed = true;
}

/* Parameters that only the operator may set. */
static bool needs_sysctl_options(const PrivilegeList *l)
{
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].option && !l->items[i].grantable)
                        return true;
        return false;
}

/* "--grant=CAP_SYS_ADMIN,seccomp --sysctl=net.ipv4.ip_forward=1". Kernel parameters of the command line
 * replace all those of the image: if one must be given there, the others of ALL are listed, too. */
static void add_options(Text *t, const PrivilegeList *refused, const PrivilegeList *all)
{
        bool as_options = needs_sysctl_options(refused), first = true;

        for (size_t i = 0; i < refused->n; i++) {
                const Privilege *p = &refused->items[i];
                if (!p->grantable || (p->option && as_options))
                        continue;
                text_add(t, first ? "granted by --grant=" : ",");
                add_escaped(t, p->name);
                first = false;
        }
        for (size_t i = 0; as_options && i < all->n; i++) {
                if (!all->items[i].option)
                        continue;
                text_add(t, first ? "granted by " : " ");
                add_escaped(t, all->items[i].option);
                first = false;
        }
        text_add(t, first ? "cannot be granted" : " after its image");
}

static void add_annotation(Text *t, const PrivilegeList *refused)
{
        bool first = true;

        for (size_t i = 0; i < refused->n; i++) {
                if (!refused->items[i].grantable)
                        continue;
                text_add(t, first ? "granted by the app's annotation " SETTING_PREFIX "grant=" : ",");
                add_escaped(t, refused->items[i].name);
                first = false;
        }
        if (needs_sysctl_options(refused))
                text_addf(t, "%sby an isolator os/unix/sysctl of the pod manifest",
                          first ? "granted " : " and ");
        else if (first)
                text_add(t, "cannot be granted");
}

static void refuse(Decision *d, const PodApp *a, const PrivilegeList *refused, const PrivilegeList *all)
{
        Text *t = &d->refused;

        text_addf(t, "\n  App %s (%s): ", a->name, a->image_name);
        for (size_t i = 0; i < refused->n; i++) {
                text_add(t, i > 0 ? ", " : "");
                add_escaped(t, refused->items[i].text);
        }
        text_add(t, "\n    ");
        if (d->request->template)
                add_annotation(t, refused);
        else
                add_options(t, refused, all);
}

/* --- Granted ------------------------------------------------------------------------------------------- */

/* Those that come from the image and are not granted; they remain owned by ALL. */
static int find_refused(Decision *d, const PodApp *a, size_t index, const PrivilegeList *all,
                        const AppSettings *s, PrivilegeList *ret)
{
        char *const *grants = s->grants;
        GrantSource by = d->request->template ? GRANT_POD_MANIFEST : GRANT_COMMAND_LINE;
        bool withhold = strv_contains(grants, "none");

        for (size_t i = 0; i < all->n; i++) {
                const Privilege *p = &all->items[i];
                bool granted = privilege_is_granted(p, grants);
                if (source_of_privilege(d->request, index, a, s, p) != GRANT_IMAGE)
                        continue;
                if ((granted || withhold) &&
                    record(d, a, p, granted ? GRANT_GRANTED : GRANT_WITHHELD, by) < 0)
                        return -ENOMEM;
                if (granted || withhold)
                        continue;
                if (GREEDY_REALLOC(ret->items, ret->allocated, ret->n + 1) < 0)
                        return -ENOMEM;
                ret->items[ret->n++] = *p;
        }
        return 0;
}

/* Isolators of the image, as bits. */
static uint32_t image_types(const PodRequest *q, size_t index, const IsolatorList *l)
{
        uint32_t types = 0;

        for (size_t i = 0; i < l->n; i++)
                if (source_of(q, index, l->items[i].name) == GRANT_IMAGE)
                        types |= UINT32_C(1) << l->items[i].type;
        return types;
}

static int bound(const PodRequest *q, size_t index, PodApp *a, char *const *grants, Error *e)
{
        uint32_t types = image_types(q, index, &a->app->isolators);
        int r = 0;

        if (strv_contains(grants, "none"))
                r = stage1_withhold_privileges(&a->app->isolators, types, e);
        if (r >= 0 && types & UINT32_C(1) << ISOLATOR_SECCOMP_RETAIN_SET &&
            !strv_contains(grants, "seccomp") && !strv_contains(grants, "all"))
                r = stage1_bound_system_calls(&a->app->isolators, e);
        return r;
}

/* If a port is not granted, the app has to listen on it itself. */
static void withhold_ports(const Decision *d, PodApp *a, size_t index, const PrivilegeList *all,
                           const AppSettings *s)
{
        for (size_t i = 0; i < all->n; i++) {
                const char *name = startswith(all->items[i].name, "port:");

                if (!name || privilege_is_granted(&all->items[i], s->grants) ||
                    source_of_privilege(d->request, index, a, s, &all->items[i]) != GRANT_IMAGE)
                        continue;
                for (size_t k = 0; k < a->app->n_ports; k++)
                        if (streq(a->app->ports[k].name, name))
                                a->app->ports[k].socket_activated = false;
        }
}

static int record_origins(Decision *d, const PodApp *a, size_t index)
{
        const IsolatorList *l = &a->app->isolators;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < l->n; i++)
                r = pod_grants_add_origin(&d->grants, a->name, l->items[i].name,
                                          source_of(d->request, index, l->items[i].name));
        return r;
}

/* --- Replaced ------------------------------------------------------------------------------------------ */

static int read_image_manifest(const Pod *p, const PodApp *a, ImageManifest **ret, Error *e)
{
        _cleanup_free_ char *path = NULL, *text = NULL;
        size_t size;

        if (pod_app_path(p, a, "manifest", &path) < 0)
                return error_oom(e);
        int r = read_file_at(p->dir_fd, path, MANIFEST_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read the manifest of the image of app %s", a->name);
        return image_manifest_parse(text, size, ret, NULL, e);
}

static bool is_in_force(const PodRequest *q, const PodApp *a, size_t index, const Privilege *p)
{
        const char *name = isolator_type_to_string(p->type);

        return find_isolator(&a->app->isolators, name) && source_of(q, index, name) == GRANT_IMAGE;
}

/* Requests of the image's isolators that the command line has replaced. */
static int record_replaced(Decision *d, const Pod *p, const PodApp *a, size_t index, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *image = NULL;
        _cleanup_(privilege_list_done) PrivilegeList requested = {};

        if (d->request->template || d->request->apps[index].isolators.n == 0)
                return 0;
        int r = read_image_manifest(p, a, &image, e);
        if (r < 0 || !image->app)
                return r;
        r = stage1_load_isolator_libraries(&image->app->isolators, e);
        if (r < 0)
                return r;
        r = stage1_privileges(&image->app->isolators, &requested);
        for (size_t i = 0; r >= 0 && i < requested.n; i++)
                if (!is_in_force(d->request, a, index, &requested.items[i]))
                        r = record(d, a, &requested.items[i], GRANT_REPLACED, GRANT_COMMAND_LINE);
        return r < 0 ? error_oom(e) : 0;
}

/* --- Granted for nothing -------------------------------------------------------------------------------- */

static bool is_requested(const PrivilegeList *requested, char *grant)
{
        char *const grants[] = {grant, NULL};

        for (size_t i = 0; i < requested->n; i++)
                if (privilege_is_granted(&requested->items[i], grants))
                        return true;
        return false;
}

/* What the image asks for, also if the command line replaces it. */
static int list_requests(const Pod *p, const PodApp *a, PrivilegeList *ret, Error *e)
{
        _cleanup_(image_manifest_freep) ImageManifest *image = NULL;

        int r = read_image_manifest(p, a, &image, e);
        if (r < 0 || !image->app)
                return r;
        r = stage1_load_isolator_libraries(&image->app->isolators, e);
        if (r < 0)
                return r;
        r = stage1_privileges(&image->app->isolators, ret);
        if (r >= 0 && p->config.net == NET_HOST && p->config.private_users)
                r = stage1_port_privileges(p->manifest, a->app, ret);
        return r < 0 ? error_oom(e) : 0;
}

static int warn_app(const Pod *p, const PodApp *a, char ***warnings, Error *e)
{
        _cleanup_(privilege_list_done) PrivilegeList requested = {};
        _cleanup_app_settings_ AppSettings settings = {};

        int r = app_settings_read(a, &settings, e);
        if (r >= 0 && settings.grants)
                r = list_requests(p, a, &requested, e);
        if (r < 0)
                return r;
        STRV_FOREACH (grant, settings.grants) {
                bool is_capability = strncasecmp(*grant, "CAP_", 4) == 0;
                if (streq(*grant, "all") || streq(*grant, "none") || is_requested(&requested, *grant))
                        continue;
                _cleanup_free_ char *shown = text_escape_for_terminal(*grant);
                if (strv_extendf(warnings,
                                 "App %s: --grant=%s has no effect: its image does not ask for that%s",
                                 pod_app_path_name(a), shown ?: "?",
                                 is_capability ? "; --caps-retain= says which capabilities it has" : "") < 0)
                        return error_oom(e);
        }
        return 0;
}

int warn_of_grants(Pod *p, const PodRequest *request, size_t first, char ***warnings, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && warnings && !request->template && i < request->n_apps; i++)
                r = warn_app(p, p->manifest->apps[first + i], warnings, e);
        return r;
}

/* --- All apps ------------------------------------------------------------------------------------------ */

static int decide_app(Decision *d, const Pod *p, size_t index, Error *e)
{
        _cleanup_(privilege_list_done) PrivilegeList requested = {};
        _cleanup_app_settings_ AppSettings settings = {};
        PodApp *a = p->manifest->apps[d->first + index];
        PrivilegeList refused = {};

        bool host_ports = p->config.net == NET_HOST && p->config.private_users;
        int r = record_replaced(d, p, a, index, e);
        if (r < 0 || (a->app->isolators.n == 0 && !host_ports))
                return r;
        r = app_settings_read(a, &settings, e);
        if (r < 0)
                return r;
        r = stage1_privileges(&a->app->isolators, &requested);
        if (r >= 0 && host_ports)
                r = stage1_port_privileges(p->manifest, a->app, &requested);
        if (r < 0)
                return error_oom(e);
        r = find_refused(d, a, index, &requested, &settings, &refused);
        if (r >= 0 && refused.n > 0)
                refuse(d, a, &refused, &requested);
        free(refused.items);
        if (r < 0)
                return error_oom(e);
        if (strv_contains(settings.grants, "none"))
                withhold_ports(d, a, index, &requested, &settings);
        r = bound(d->request, index, a, settings.grants, e);
        if (r < 0)
                return r;
        return record_origins(d, a, index) < 0 ? error_oom(e) : 0;
}

static int record_pod_origins(Decision *d, const PodManifest *m)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < m->isolators.n; i++) {
                const char *name = m->isolators.items[i].name;
                r = pod_grants_add_origin(&d->grants, NULL, name,
                                          source_among(&d->request->isolators, name, GRANT_POD_MANIFEST));
        }
        return r;
}

/* APP: the only one that was decided on; NULL: all were. */
static int conclude(Decision *d, const Pod *p, const PodApp *app, Error *e)
{
        _cleanup_free_ char *text = NULL;

        if (!d->refused.failed && d->refused.size == 0)
                return app ? pod_grants_write_app(p, app, &d->grants, e)
                           : pod_grants_write(p, &d->grants, e);
        if (text_take(&d->refused, &text, NULL) < 0)
                return error_oom(e);
        int r = error_set(e, -EPERM, "Images request more privileges than apps get by default:%s", text);
        return error_hint(e, r,
                          "Grant what the images may be trusted with; %s runs an app without it. See "
                          "acnspawn-pods(7).",
                          d->request->template ? SETTING_PREFIX "grant=none" : "--grant=none");
}

int decide_privileges(Pod *p, const PodRequest *request, Error *e)
{
        Decision d = {.request = request};
        int r = record_pod_origins(&d, p->manifest) < 0 ? error_oom(e) : 0;

        for (size_t i = 0; r >= 0 && i < p->manifest->n_apps; i++)
                r = decide_app(&d, p, i, e);
        if (r >= 0)
                r = conclude(&d, p, NULL, e);
        text_done(&d.refused);
        pod_grants_done(&d.grants);
        return r;
}

int decide_app_privileges(Pod *p, const PodRequest *request, Error *e)
{
        Decision d = {.request = request, .first = p->manifest->n_apps - 1};
        int r = decide_app(&d, p, 0, e);

        if (r >= 0)
                r = conclude(&d, p, p->manifest->apps[d.first], e);
        text_done(&d.refused);
        pod_grants_done(&d.grants);
        return r;
}

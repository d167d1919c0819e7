/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A pod as the text of a .pod file: of options as they were given, or of what an existing pod was made of.
 *
 * What is written is read back to the same pod: each value is the value of an option, quoted as far as the
 * reader needs it. */

#include "schema/settings.h"
#include "stage0/arguments/pod-declared.h"
#include "stage0/arguments/pod-values.h"

struct PodWriter {
        Text text;
        bool in_app;
};

int pod_writer_new(const char *name, PodWriter **ret)
{
        PodWriter *w = calloc(1, sizeof(PodWriter));

        if (!w)
                return -ENOMEM;
        text_addf(&w->text, "# The pod %s: acnspawn.pod(5)\n[Pod]\n", name);
        *ret = w;
        return 0;
}

PodWriter *pod_writer_free(PodWriter *w)
{
        if (w)
                text_done(&w->text);
        free(w);
        return NULL;
}

int pod_writer_take(PodWriter *w, char **ret)
{
        return text_take(&w->text, ret, NULL);
}

static int add_line(PodWriter *w, const char *key, const char *value, bool whole)
{
        _cleanup_free_ char *quoted = NULL;

        int r = declared_quote(value, whole, &quoted);
        if (r >= 0)
                text_addf(&w->text, "%s=%s\n", key, quoted);
        return r;
}

static const Option *find_option(const PodWriter *w, const char *name)
{
        const Option *const *tables = declared_options[w->in_app ? KEY_IN_APP : KEY_IN_POD];

        for (size_t t = 0; tables[t]; t++)
                for (const Option *o = tables[t]; !option_is_end(o); o++)
                        if (streq_ptr(o->name, name))
                                return o;
        return NULL;
}

int pod_writer_add(PodWriter *w, const char *option, const char *value, Error *e)
{
        const Option *o = find_option(w, option);
        char key[KEY_MAX];

        if (!o)
                return error_set(e, -EINVAL, "There is no key for the option --%s", option);
        option_key(o, key);
        if (!o->value)
                text_addf(&w->text, "%s=yes\n", key);
        else if (add_line(w, key, value, o->repeat == OPTION_ONCE || o->repeat == OPTION_LINES) < 0)
                return error_oom(e);
        return 0;
}

int pod_writer_app(PodWriter *w, const char *name, const char *image)
{
        w->in_app = true;
        text_addf(&w->text, "\n[App %s]\n", name);
        return add_line(w, "Image", image, true);
}

int pod_writer_arguments(PodWriter *w, char *const *args)
{
        if (!args)
                return 0;
        text_add(&w->text, "Arguments=");
        STRV_FOREACH (arg, args) {
                _cleanup_free_ char *quoted = NULL;
                int r = declared_quote(*arg, false, &quoted);
                if (r < 0)
                        return r;
                text_addf(&w->text, "%s%s", arg == args ? "" : " ", quoted);
        }
        text_add(&w->text, "\n");
        return 0;
}

/* --- Values of options, of what they were parsed to ---------------------------------------------------- */

static int _printf_(4, 5) add(PodWriter *w, const char *option, Error *e, const char *format, ...)
{
        _cleanup_free_ char *value = NULL;
        va_list ap;

        va_start(ap, format);
        int r = xvasprintf(&value, format, ap);
        va_end(ap);
        if (r < 0)
                return error_oom(e);
        return pod_writer_add(w, option, value, e);
}

static int add_if(PodWriter *w, const char *option, const char *value, Error *e)
{
        return value ? pod_writer_add(w, option, value, e) : 0;
}

static int add_flag(PodWriter *w, const char *option, bool b, Error *e)
{
        return b ? pod_writer_add(w, option, NULL, e) : 0;
}

static int add_list(PodWriter *w, const char *option, char *const *l, Error *e)
{
        STRV_FOREACH (s, l) {
                int r = pod_writer_add(w, option, *s, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_pairs(PodWriter *w, const char *option, const PairList *l, Error *e)
{
        for (size_t i = 0; i < l->n; i++) {
                int r = add(w, option, e, "%s=%s", l->items[i].name, l->items[i].value);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Settings of apps are annotations that have options. */
static int add_app_annotations(PodWriter *w, const PairList *l, Error *e)
{
        for (size_t i = 0; i < l->n; i++) {
                const char *name = startswith(l->items[i].name, SETTING_PREFIX);
                const Option *o = name ? find_option(w, name) : NULL;
                bool is_setting = o && (o->handler == option_setting || o->handler == option_setting_add);
                int r = is_setting ? pod_writer_add(w, name, l->items[i].value, e)
                                   : add(w, "annotation", e, "%s=%s", l->items[i].name, l->items[i].value);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_isolators(PodWriter *w, const IsolatorList *l, Error *e)
{
        for (size_t i = 0; i < l->n; i++) {
                const char *json = json_print(l->items[i].value);
                int r = json ? add(w, "isolator", e, "%s=%s", l->items[i].name, json) : error_oom(e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_credentials(PodWriter *w, const CredentialList *l, Error *e)
{
        for (size_t i = 0; i < l->n; i++) {
                const Credential *k = &l->items[i];
                if (k->source != CREDENTIAL_FILE || !k->path) {
                        int r = error_set(e, -ENODATA,
                                          "The credential '%s' was %s, and secrets are not recorded",
                                          k->name,
                                          k->source == CREDENTIAL_GIVEN
                                                          ? "given on the command line"
                                                          : "read from standard input or a pipe");
                        return error_hint(e, r, "A declared pod has it from a file: LoadCredential=%s:FILE.",
                                          k->name);
                }
                int r = add(w, "load-credential", e, "%s:%s", k->name, k->path);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Volumes, mounts and ports ------------------------------------------------------------------------- */

static void add_escaped(Text *t, const char *s)
{
        for (; *s; s++)
                text_addf(t, "%s%c", *s == ',' || *s == '\\' ? "\\" : "", *s);
}

static const char *bool_text(bool b)
{
        return b ? "true" : "false";
}

/* Settings are KEY=VALUE,… already; those that only the parser sets are left out. */
static void add_volume_settings(Text *t, const Volume *v, bool *ret_has_kind)
{
        _cleanup_strv_free_ char **settings = NULL;

        if (v->settings && strv_split_fields(v->settings, &settings) < 0)
                t->failed = true;
        *ret_has_kind = false;
        STRV_FOREACH (s, settings) {
                *ret_has_kind = *ret_has_kind || startswith(*s, "kind=");
                if (startswith(*s, "owner="))
                        continue;
                text_add(t, ",");
                add_escaped(t, *s);
        }
}

static int add_volume(PodWriter *w, const Volume *v, Error *e)
{
        bool owner_of_image = v->settings && strstr(v->settings, "owner=image"), has_kind = false;
        _cleanup_text_ Text t = {}, settings = {};

        add_volume_settings(&settings, v, &has_kind);
        text_add(&t, v->name);
        if (!has_kind)
                text_addf(&t, ",kind=%s", v->kind == VOLUME_HOST ? "host" : "empty");
        if (settings.data)
                text_add(&t, settings.data);
        if (v->source) {
                text_add(&t, ",source=");
                add_escaped(&t, v->source);
        }
        if (v->kind == VOLUME_EMPTY && !owner_of_image && !startswith(v->settings ?: "", "kind=image,"))
                text_addf(&t, ",mode=%04o,uid=%u,gid=%u", v->mode, v->uid, v->gid);
        if (v->has_read_only)
                text_addf(&t, ",readOnly=%s", bool_text(v->read_only));
        if (v->has_recursive)
                text_addf(&t, ",recursive=%s", bool_text(v->recursive));
        if (t.failed || settings.failed)
                return error_oom(e);
        return pod_writer_add(w, "volume", t.data, e);
}

static int add_host_mount(PodWriter *w, const Mount *m, Error *e)
{
        const Volume *v = m->app_volume;
        _cleanup_text_ Text t = {};
        const char *separator = ":";

        text_addf(&t, "%s:%s", v->source, m->path);
        if (v->has_read_only) {
                text_addf(&t, "%sreadOnly=%s", separator, bool_text(v->read_only));
                separator = ",";
        }
        if (v->has_recursive) {
                text_addf(&t, "%srecursive=%s", separator, bool_text(v->recursive));
                separator = ",";
        }
        if (v->settings)
                text_addf(&t, "%s%s", separator, v->settings);
        if (t.failed)
                return error_oom(e);
        return pod_writer_add(w, "volume", t.data, e);
}

static int add_mount(PodWriter *w, const Mount *m, Error *e)
{
        if (m->app_volume && m->app_volume->kind == VOLUME_HOST)
                return add_host_mount(w, m, e);
        if (m->app_volume) /* a named volume */
                return add(w, "volume", e, "%s:%s%s", m->volume, m->path, m->read_only ? ":ro" : "");
        _cleanup_text_ Text t = {};
        text_addf(&t, "volume=%s,target=", m->volume);
        add_escaped(&t, m->path);
        text_add(&t, m->read_only ? ",readOnly=true" : "");
        if (t.failed)
                return error_oom(e);
        return pod_writer_add(w, "mount", t.data, e);
}

static int add_mounts(PodWriter *w, const Mount *mounts, size_t n, Error *e)
{
        for (size_t i = 0; i < n; i++) {
                int r = add_mount(w, &mounts[i], e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_port(PodWriter *w, const ExposedPort *x, Error *e)
{
        const char *ip = x->host_ip ?: "";
        bool v6 = strchr(ip, ':');
        char address[80];

        snprintf(address, sizeof(address), "%s%s%s%s", v6 ? "[" : "", ip, v6 ? "]" : "", *ip ? ":" : "");
        if (!x->pod_port)
                return add(w, "port", e, "%s:%s%u", x->name, address, x->host_port);
        const Port *p = x->pod_port;
        if (p->count <= 1)
                return add(w, "port", e, "%s%u:%u/%s", address, x->host_port, p->port, p->protocol);
        return add(w, "port", e, "%s%u-%u:%u-%u/%s", address, x->host_port, x->host_port + p->count - 1,
                   p->port, p->port + p->count - 1, p->protocol);
}

/* --- The pod ------------------------------------------------------------------------------------------- */

static int add_config(PodWriter *w, const PodConfig *c, Error *e)
{
        PodArguments defaults;
        int r;

        pod_arguments_init(&defaults);
        if (c->net == NET_HOST && (r = pod_writer_add(w, "net", "host", e)) < 0)
                return r;
        if (c->exit_policy != defaults.options.exit_policy &&
            (r = pod_writer_add(w, "exit-policy", exit_policy_to_string(c->exit_policy), e)) < 0)
                return r;
        if (c->stop_timeout_usec == UINT64_MAX)
                r = pod_writer_add(w, "stop-timeout", "infinity", e);
        else if (c->stop_timeout_usec != defaults.options.stop_timeout_usec)
                r = add(w, "stop-timeout", e, "%" PRIu64 "us", c->stop_timeout_usec);
        else
                r = 0;
        if (r >= 0 && c->exit_idle_usec > 0)
                r = add(w, "exit-idle-time", e, "%" PRIu64 "us", c->exit_idle_usec);
        if (r >= 0 && (c->reduced_metadata || c->no_metadata))
                r = pod_writer_add(w, "metadata", c->no_metadata ? "no" : "reduced", e);
        if (r < 0 || (r = add_list(w, "net", c->networks, e)) < 0 ||
            (r = add_if(w, "hostname", c->hostname, e)) < 0 || (r = add_list(w, "dns", c->dns, e)) < 0 ||
            (r = add_list(w, "dns-search", c->dns_search, e)) < 0 ||
            (r = add_list(w, "dns-option", c->dns_options, e)) < 0 ||
            (r = add_list(w, "hosts-entry", c->hosts_entries, e)) < 0 ||
            (r = add_if(w, "stage1", c->stage1, e)) < 0 ||
            (r = add_flag(w, "no-userns", !c->private_users, e)) < 0)
                return r;
        return add_flag(w, "strict", c->strict, e);
}

static int add_request(PodWriter *w, const PodRequest *q, Error *e)
{
        int r = add_flag(w, "verify", q->verify, e);

        for (size_t i = 0; r >= 0 && i < q->n_volumes; i++)
                r = add_volume(w, &q->volumes[i], e);
        for (size_t i = 0; r >= 0 && i < q->n_ports; i++)
                r = add_port(w, &q->ports[i], e);
        if (r < 0 || (r = add_mounts(w, q->mounts, q->n_mounts, e)) < 0 ||
            (r = add_pairs(w, "environment", &q->environment, e)) < 0 ||
            (r = add_credentials(w, &q->credentials, e)) < 0 ||
            (r = add_pairs(w, "annotation", &q->annotations, e)) < 0 ||
            (r = add_pairs(w, "user-annotation", &q->user_annotations, e)) < 0 ||
            (r = add_pairs(w, "user-label", &q->user_labels, e)) < 0)
                return r;
        return add_isolators(w, &q->isolators, e);
}

static int add_command(PodWriter *w, const AppOverrides *a, Error *e)
{
        _cleanup_strv_free_ char **args = NULL;

        if (a->exec) {
                int r = pod_writer_add(w, "exec", a->exec[0], e);
                if (r < 0)
                        return r;
        }
        for (size_t i = 1; a->exec && a->exec[i - 1] && a->exec[i]; i++)
                if (strv_extend(&args, a->exec[i]) < 0)
                        return error_oom(e);
        STRV_FOREACH (arg, a->args)
                if (strv_extend(&args, *arg) < 0)
                        return error_oom(e);
        return pod_writer_arguments(w, args) < 0 ? error_oom(e) : 0;
}

static int add_app(PodWriter *w, const AppOverrides *a, const DefinedImage *image, Error *e)
{
        const char *reference = streq(a->reference, "-") && image ? image->id : a->reference;
        int r = pod_writer_app(w, a->name, reference) < 0 ? error_oom(e) : 0;

        if (r < 0 || (r = add_command(w, a, e)) < 0 || (r = add_if(w, "user", a->user, e)) < 0 ||
            (r = add_if(w, "group", a->group, e)) < 0 ||
            (r = add_if(w, "working-directory", a->working_directory, e)) < 0)
                return r;
        for (size_t i = 0; i < a->n_supplementary_gids; i++)
                if ((r = add(w, "supplementary-gids", e, "%u", a->supplementary_gids[i])) < 0)
                        return r;
        if ((r = add_pairs(w, "environment", &a->environment, e)) < 0 ||
            (r = add_credentials(w, &a->credentials, e)) < 0 ||
            (r = add_mounts(w, a->mounts, a->n_mounts, e)) < 0 ||
            (r = add_flag(w, "read-only", a->read_only_rootfs, e)) < 0 ||
            (r = add_app_annotations(w, &a->annotations, e)) < 0 ||
            (r = add_pairs(w, "user-annotation", &a->user_annotations, e)) < 0 ||
            (r = add_pairs(w, "user-label", &a->user_labels, e)) < 0)
                return r;
        return add_isolators(w, &a->isolators, e);
}

/* What was given for all apps, from which some are excepted by now, becomes a part of each. */
static int separate(PodRequest *q, Error *e)
{
        bool any = false;

        for (size_t i = 0; i < q->n_apps; i++)
                any = any || q->apps[i].separate;
        if (!any)
                return 0;
        if (pod_request_separate(q) < 0)
                return error_oom(e);
        pair_list_done(&q->environment);
        credential_list_done(&q->credentials);
        for (; q->n_mounts > 0; q->n_mounts--)
                mount_done(&q->mounts[q->n_mounts - 1]);
        return 0;
}

static int refuse_template(const Pod *p, Error *e)
{
        int r = error_set(e, -EINVAL, "Pod %s was made of a pod manifest", pod_display_name(p));

        return error_hint(e, r,
                          "'acnspawn cat-manifest %s' writes one, and PodManifest=FILE in [Pod] makes the "
                          "pod of it.",
                          pod_display_name(p));
}

int pod_writer_add_pod(PodWriter *w, const Pod *p, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};

        int r = pod_definition_read_current(p, &d, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot read what pod %s was made of", pod_display_name(p));
        if (d.request.template)
                return refuse_template(p, e);
        r = separate(&d.request, e);
        if (r >= 0)
                r = add_config(w, &p->config, e);
        if (r >= 0)
                r = add_request(w, &d.request, e);
        for (size_t i = 0; r >= 0 && i < d.request.n_apps; i++)
                r = add_app(w, &d.request.apps[i], i < d.n_images ? &d.images[i] : NULL, e);
        return r;
}

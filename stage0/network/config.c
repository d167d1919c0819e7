/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds the configuration of a network, in the format of the CNI specification, in directories net.d.
 *
 * A file *.conflist holds a list of plugins that build on one another, a file *.conf a single one. A network
 * is identified by the "name" in the file, not by the file name, so files are read until one has it, those
 * of the first directory before those of the next, in the order of their names. Although they are written by
 * the administrator, they are size-limited and checked, as an incorrect file would result in a pod that is
 * connected incompletely. An invalid file does not affect other networks.
 */

#include <limits.h>

#include "stage0/network/network-internal.h"

#define DEFAULT_NETWORK_FILE "99-default.conflist"
#define CNI_FILES_MAX 1024U /* per directory */

CniNetwork *cni_network_free(CniNetwork *n)
{
        if (!n)
                return NULL;
        free(n->name);
        free(n->file);
        strv_free(n->versions);
        json_object_put(n->plugins);
        free(n->note);
        free(n);
        return NULL;
}

/* --- Versions ------------------------------------------------------------------------------------------ */

/* From the lowest to the highest: their differences do not affect the caller of plugins, except that from
 * 0.4.0 on DEL gets the result. */
static const char *const known_versions[] = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};

static size_t version_index(const char *s)
{
        size_t i = 0;

        while (i < ELEMENTSOF(known_versions) && !streq(known_versions[i], s))
                i++;
        return i;
}

bool cni_version_is_known(const char *version)
{
        return version_index(version) < ELEMENTSOF(known_versions);
}

bool cni_version_at_least(const char *a, const char *b)
{
        return cni_version_is_known(a) && version_index(a) >= version_index(b);
}

/* --- One configuration --------------------------------------------------------------------------------- */

/* The member as text, or NULL. Strict JSON has no text with a NUL in it. */
static const char *text_member(json_object *o, const char *key)
{
        json_object *v;

        return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string)
                               ? json_object_get_string(v)
                               : NULL;
}

const char *cni_plugin_type(json_object *plugin)
{
        return text_member(plugin, "type");
}

/* The type becomes part of a path. */
static bool type_is_valid(const char *s)
{
        return !isempty(s) && s[0] != '.' && strlen(s) <= 255 &&
               s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == 0;
}

static int check_plugin(json_object *plugin, size_t number, Error *e)
{
        json_object *v;

        if (!json_object_is_type(plugin, json_type_object))
                return error_set(e, -EINVAL, "plugin %zu is not a JSON object", number);
        if (!type_is_valid(cni_plugin_type(plugin)))
                return error_set(e, -EINVAL, "the \"type\" of plugin %zu is not the name of a program",
                                 number);
        if (json_object_object_get_ex(plugin, "capabilities", &v) &&
            !json_object_is_type(v, json_type_object))
                return error_set(e, -EINVAL, "the \"capabilities\" of plugin %zu are not a JSON object",
                                 number);
        if (!json_object_object_get_ex(plugin, "ipam", &v) || !v)
                return 0;
        if (!json_object_is_type(v, json_type_object))
                return error_set(e, -EINVAL, "the \"ipam\" of plugin %zu is not a JSON object", number);
        if (json_object_object_length(v) > 0 && !type_is_valid(cni_plugin_type(v)))
                return error_set(e, -EINVAL,
                                 "the \"type\" in the \"ipam\" of plugin %zu is not the name of a program",
                                 number);
        return 0;
}

static int check_plugins(json_object *list, Error *e)
{
        int r = 0;

        if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) == 0)
                return error_set(e, -EINVAL, "\"plugins\" is not a list of plugins");
        if (json_object_array_length(list) > CNI_PLUGINS_MAX)
                return error_set(e, -E2BIG, "it has more than %u plugins", CNI_PLUGINS_MAX);
        for (size_t i = 0; r >= 0 && i < json_object_array_length(list); i++)
                r = check_plugin(json_object_array_get_idx(list, i), i + 1, e);
        return r;
}

/* The plugin of a .conf as a list of one; members of the network as a whole are added again later. */
static int take_plugins(json_object *o, bool list, CniNetwork *n, Error *e)
{
        json_object *v = NULL;

        if (list) {
                (void) json_object_object_get_ex(o, "plugins", &v);
                n->plugins = json_object_get(v);
                return check_plugins(n->plugins, e);
        }
        if (json_object_object_get_ex(o, "plugins", &v))
                return error_set(e, -EINVAL,
                                 "it has \"plugins\", and so its file name has to end in .conflist");
        n->plugins = json_object_new_array();
        if (json_list_append(n->plugins, json_object_get(o)) < 0)
                return error_oom(e);
        return check_plugins(n->plugins, e);
}

static int add_known_versions(json_object *list, CniNetwork *n, Error *e)
{
        if (!json_object_is_type(list, json_type_array))
                return error_set(e, -EINVAL, "\"cniVersions\" is not a list");
        for (size_t k = ELEMENTSOF(known_versions); k-- > 0;)
                for (size_t i = 0; i < json_object_array_length(list); i++) {
                        const char *s = json_object_get_string(json_object_array_get_idx(list, i));

                        if (!s || !streq(s, known_versions[k]))
                                continue;
                        if (!strv_contains(n->versions, s) && strv_extend(&n->versions, s) < 0)
                                return error_oom(e);
                }
        return 0;
}

static int take_versions(json_object *o, CniNetwork *n, Error *e)
{
        const char *version = text_member(o, "cniVersion");
        json_object *list;

        if (json_object_object_get_ex(o, "cniVersions", &list)) {
                int r = add_known_versions(list, n, e);
                if (r < 0)
                        return r;
        }
        if (version && cni_version_is_known(version) && !strv_contains(n->versions, version) &&
            strv_extend(&n->versions, version) < 0)
                return error_oom(e);
        if (n->versions)
                return 0;
        if (!version)
                return error_set(e, -EINVAL, "it has no \"cniVersion\"");
        _cleanup_free_ char *shown = text_escape_for_terminal(version);
        return error_set(e, -EINVAL, "\"cniVersion\" is %.40s; supported are %s to %s", shown ?: "?",
                         known_versions[0], known_versions[ELEMENTSOF(known_versions) - 1]);
}

static int take_members(json_object *o, bool list, CniNetwork *n, Error *e)
{
        const char *name = text_member(o, "name"), *ipv6 = text_member(o, "acnspawn/ipv6");
        const char *outside = text_member(o, "acnspawn/outside");
        bool has_ipv6 = json_object_object_get_ex(o, "acnspawn/ipv6", NULL);
        bool has_outside = json_object_object_get_ex(o, "acnspawn/outside", NULL);

        if (!name || pod_network_check(name, NULL) < 0 || strchr(name, ':'))
                return error_set(e, -EINVAL, "\"name\" is not a valid name of a network");
        if (has_ipv6 && !streq_ptr(ipv6, "optional"))
                return error_set(e, -EINVAL, "\"acnspawn/ipv6\" can only be \"optional\"");
        if (has_outside && !streq_ptr(outside, "published"))
                return error_set(e, -EINVAL, "\"acnspawn/outside\" can only be \"published\"");
        n->optional_ipv6 = has_ipv6;
        n->published_only = has_outside;
        n->name = strdup(name);
        if (!n->name)
                return error_oom(e);
        int r = take_versions(o, n, e);
        return r < 0 ? r : take_plugins(o, list, n, e);
}

int cni_network_parse(const char *text, size_t size, bool list, const char *file, CniNetwork **ret, Error *e)
{
        _cleanup_(cni_network_freep) CniNetwork *n = calloc(1, sizeof(CniNetwork));
        _cleanup_json_ json_object *o = NULL;

        if (!n || !(n->file = strdup(file)))
                return error_oom(e);
        if (size > CNI_CONFIG_SIZE_MAX)
                return error_set(e, -EFBIG, "Cannot use '%s': it is larger than %u bytes", file,
                                 CNI_CONFIG_SIZE_MAX);
        int r = json_parse_strict(text, size, &o, NULL, e);
        if (r >= 0 && !json_object_is_type(o, json_type_object))
                r = error_set(e, -EINVAL, "it is not a JSON object");
        if (r >= 0)
                r = take_members(o, list, n, e);
        if (r < 0)
                return error_prefix(e, r, "Cannot use '%s'", file);
        *ret = TAKE_PTR(n);
        return 0;
}

/* A member "dataDir" may name another directory than that of which PRESENT says whether it is below /run. */
static bool data_is_volatile(json_object *o, bool present)
{
        const char *directory = text_member(o, "dataDir");

        return directory ? path_has_prefix(directory, "/run") : present;
}

static json_object *get_ipam(json_object *plugin)
{
        json_object *ipam;

        return json_object_object_get_ex(plugin, "ipam", &ipam) && ipam &&
                                               json_object_object_length(ipam) > 0
                               ? ipam
                               : NULL;
}

/* Of the packaged plugins only those for addresses keep files outside /run. Others may keep any, and may have
 * addresses assigned by a configuration of theirs. */
bool cni_state_is_volatile(json_object *plugins)
{
        for (size_t i = 0; i < json_object_array_length(plugins); i++) {
                json_object *plugin = json_object_array_get_idx(plugins, i), *ipam = get_ipam(plugin);

                if (!cni_plugin_is_packaged(cni_plugin_type(plugin)) || !data_is_volatile(plugin, true) ||
                    (ipam && !data_is_volatile(ipam, false)))
                        return false;
        }
        return true;
}

bool cni_plugin_keeps_leases(json_object *plugin, const char **ret_directory)
{
        json_object *ipam = get_ipam(plugin);

        if (!ipam || !streq_ptr(cni_plugin_type(ipam), "host-local") || data_is_volatile(ipam, false))
                return false;
        *ret_directory = text_member(ipam, "dataDir");
        return true;
}

bool cni_plugin_can(json_object *plugin, const char *capability)
{
        json_object *all, *v;

        return json_object_object_get_ex(plugin, "capabilities", &all) &&
               json_object_object_get_ex(all, capability, &v) && json_object_is_type(v, json_type_boolean) &&
               json_object_get_boolean(v);
}

bool cni_network_can(const CniNetwork *n, const char *capability)
{
        for (size_t i = 0; i < json_object_array_length(n->plugins); i++)
                if (cni_plugin_can(json_object_array_get_idx(n->plugins, i), capability))
                        return true;
        return false;
}

/* --- Finding one --------------------------------------------------------------------------------------- */

/* A search: its result, and information for the message if nothing is found. */
typedef struct Search {
        const char *name;
        CniNetwork *found;
        char **names;  /* of other networks found */
        Error problem; /* of the first invalid file */
} Search;

static void search_done(Search *s)
{
        cni_network_free(s->found);
        strv_free(s->names);
        error_done(&s->problem);
}

static int read_network(int dir_fd, const char *directory, const char *name, CniNetwork **ret, Error *e)
{
        _cleanup_free_ char *file = NULL, *text = NULL;
        size_t size = 0;

        if (xasprintf(&file, "%s/%s", directory, name) < 0)
                return error_oom(e);
        int r = read_file_at(dir_fd, name, CNI_CONFIG_SIZE_MAX, &text, &size);
        if (r < 0)
                return error_set_errno(e, r, "Cannot read '%s'", file);
        return cni_network_parse(text, size, endswith(name, ".conflist") != NULL, file, ret, e);
}

static int look_at_file(Search *s, int dir_fd, const char *directory, const char *name)
{
        _cleanup_(cni_network_freep) CniNetwork *n = NULL;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = read_network(dir_fd, directory, name, &n, &e);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                if (!s->problem.message) {
                        s->problem = e;
                        e = ERROR_NULL;
                }
                return 0;
        }
        if (streq(n->name, s->name)) {
                s->found = TAKE_PTR(n);
                return 0;
        }
        return strv_contains(s->names, n->name) ? 0 : strv_extend(&s->names, n->name);
}

static int look_in_directory(Search *s, const char *directory)
{
        _cleanup_close_ int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        size_t n_files = 0;

        if (dir_fd < 0)
                return 0;
        int r = list_names(dir_fd, &names);
        if (r < 0)
                return r;
        strv_sort(names);
        STRV_FOREACH (name, names) {
                if ((*name)[0] == '.' || (!endswith(*name, ".conf") && !endswith(*name, ".conflist")))
                        continue;
                if (++n_files > CNI_FILES_MAX)
                        return -E2BIG;
                r = look_at_file(s, dir_fd, directory, *name);
                if (r < 0 || s->found)
                        return r;
        }
        return 0;
}

/* A build that is not installed has the default network beside the program (see meson.build), and prefers it
 * to that of an installed version. */
static int add_built(char ***l)
{
        _cleanup_free_ char *directory = NULL, *file = NULL;
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (n < 0)
                return 0;
        self[n] = 0;
        *strrchr(self, '/') = 0;
        if (xasprintf(&directory, "%s/network", self) < 0 ||
            xasprintf(&file, "%s/" DEFAULT_NETWORK_FILE, directory) < 0)
                return -ENOMEM;
        return access(file, F_OK) < 0 ? 0 : strv_extend(l, directory);
}

int cni_config_directories(const char *const *config_dirs, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;
        int r = 0;

        for (const char *const *d = config_dirs ?: usual_config_dirs; r >= 0 && *d; d++) {
                if (!config_dirs && !d[1])
                        r = add_built(&l);
                const char *itself = startswith(*d, NETWORK_DIRECTORY_ITSELF);
                if (r >= 0)
                        r = itself ? strv_extend(&l, itself) : strv_extendf(&l, "%s/net.d", *d);
        }
        /* The usual directory of CNI configurations. */
        if (r >= 0 && !config_dirs)
                r = strv_extend(&l, "/etc/cni/net.d");
        if (r >= 0)
                *ret = TAKE_PTR(l);
        return r;
}

static int explain_missing(const Search *s, char *const *directories, Error *e)
{
        _cleanup_free_ char *names = s->names ? strv_join(s->names, ", ") : NULL;
        _cleanup_free_ char *places = strv_join(directories, ", ");

        int r = error_set(e, -ENOENT, "There is no network '%s'", s->name);
        if (s->problem.message)
                return error_hint(e, r, "One file could not be used: %s.", s->problem.message);
        if (names)
                return error_hint(e, r, "Available networks: %s.", names);
        return error_hint(e, r, "Networks are configured by files *.conflist and *.conf in %s.",
                          places ?: "net.d");
}

int cni_network_find(char *const *directories, const char *name, CniNetwork **ret, Error *e)
{
        _cleanup_(search_done) Search s = {.name = name};

        STRV_FOREACH (d, directories) {
                int r = look_in_directory(&s, *d);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot search for network '%s' in '%s'", name, *d);
                if (s.found) {
                        *ret = TAKE_PTR(s.found);
                        return 0;
                }
        }
        return explain_missing(&s, directories, e);
}

int network_names(const char *const *config_dirs, char ***ret)
{
        _cleanup_(search_done) Search s = {.name = ""};
        _cleanup_strv_free_ char **directories = NULL;

        int r = cni_config_directories(config_dirs, &directories);
        STRV_FOREACH (d, directories) {
                if (r < 0)
                        return r;
                r = look_in_directory(&s, *d);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s.names);
        return 0;
}

/* --- The first one ------------------------------------------------------------------------------------- */

static int first_in_directory(const char *directory, CniNetwork **ret, Error *problem)
{
        _cleanup_close_ int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        size_t n_files = 0;

        int r = dir_fd < 0 ? -errno : list_names(dir_fd, &names);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        strv_sort(names);
        STRV_FOREACH (name, names) {
                _cleanup_error_ Error e = ERROR_NULL;
                if ((*name)[0] == '.' || (!endswith(*name, ".conf") && !endswith(*name, ".conflist")))
                        continue;
                if (++n_files > CNI_FILES_MAX)
                        return -E2BIG;
                r = read_network(dir_fd, directory, *name, ret, &e);
                if (r >= 0)
                        return 1;
                if (!problem->message)
                        (void) error_move(problem, &e);
        }
        return 0;
}

int network_first(char *const *directories, char *const *plugin_directories, char **ret_name, Error *e)
{
        _cleanup_free_ char *places = strv_join(directories, ", "),
                            *path = strv_join(plugin_directories, ":");
        _cleanup_(cni_network_freep) CniNetwork *n = NULL;
        _cleanup_error_ Error problem = ERROR_NULL;
        int r = 0;

        if (!places || !path)
                return error_oom(e);
        STRV_FOREACH (d, directories) {
                r = first_in_directory(*d, &n, &problem);
                if (r < 0)
                        return error_set_errno(e, r, "Cannot read the network configurations in '%s'", *d);
                if (r > 0)
                        break;
        }
        if (r == 0)
                return problem.message ? error_move(e, &problem)
                                       : error_set(e, -ENOENT, "There is no network configuration in %s",
                                                   places);
        r = cni_check_programs(n->plugins, n->name, path, e);
        if (r < 0)
                return r;
        *ret_name = TAKE_PTR(n->name);
        return 0;
}

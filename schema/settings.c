/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Settings of apps: one table has an entry for each, with the function that reads its value and the
 * description of valid values. */

#include <limits.h>
#include <signal.h>

#include "schema/hooks.h"
#include "schema/seccomp-profile.h"
#include "schema/settings.h"

#define DEFAULT_RESTART_USEC (100U * 1000U)
#define RESTART_USEC_MIN 1000U
#define DEFAULT_RESTART_MAX_USEC (60U * 1000000U)
#define DEFAULT_RESTART_LIMIT 10U
#define LIMIT_MAX 100000U
#define HEALTH_USEC_MIN (100U * 1000U)
#define SECOND UINT64_C(1000000)

/* The defaults of an app without settings. */
static const AppSettings defaults = {
                .restart_usec = DEFAULT_RESTART_USEC,
                .restart_max_usec = DEFAULT_RESTART_MAX_USEC,
                .restart_limit = DEFAULT_RESTART_LIMIT,
                .log_rate = LOG_RATE_DEFAULT,
                .log_file.max_size = UINT64_MAX,
                .start_timeout_usec = UINT64_MAX,
                .health.interval_usec = 30 * SECOND,
                .health.timeout_usec = 30 * SECOND,
                .health.start_interval_usec = 5 * SECOND,
                .health.retries = 3,
};

#define LOG_SIZE_MIN (UINT64_C(64) << 10)
#define LOG_BYTES_MAX (UINT64_C(1) << 50)

/* --- Values: each function reads VALUE into TARGET, the member that the table entry names
 * ------------------------------- */

static const char *const log_targets[_LOG_TARGET_MAX] = {"auto", "pod", "journal", "both", "none"};

const char *log_target_to_string(LogTarget t)
{
        return log_targets[t];
}

static int read_log_target(const char *value, void *target)
{
        int r = word_index(log_targets, ELEMENTSOF(log_targets), value);

        if (r >= 0)
                *(int *) target = r;
        return r;
}

static int read_restart(const char *value, void *target)
{
        static const char *const words[_RESTART_POLICY_MAX] = {"no", "on-failure", "always"};
        int r = word_index(words, ELEMENTSOF(words), value);

        if (r >= 0)
                *(int *) target = r;
        return r;
}

static int read_input(const char *value, void *target)
{
        static const char *const words[_APP_INPUT_MAX] = {"null", "pipe", "terminal"};
        int r = word_index(words, ELEMENTSOF(words), value);

        if (r >= 0)
                *(int *) target = r;
        return r;
}

static const char *const image_policies[_IMAGE_POLICY_MAX] = {"none", "registry", "local"};

const char *image_policy_to_string(ImagePolicy p)
{
        return image_policies[p];
}

static int read_image_policy(const char *value, void *target)
{
        int r = word_index(image_policies, ELEMENTSOF(image_policies), value);

        if (r >= 0)
                *(int *) target = r;
        return r;
}

static const char *const group_policies[_GROUP_POLICY_MAX] = {"auto", "merge", "strict"};

const char *group_policy_to_string(GroupPolicy p)
{
        return group_policies[p];
}

static int read_group_policy(const char *value, void *target)
{
        int r = word_index(group_policies, ELEMENTSOF(group_policies), value);

        if (r >= 0)
                *(int *) target = r;
        return r;
}

static int read_pid(const char *value, void *target)
{
        static const char *const words[] = {"pod", "private", "shared"};
        const char *app = startswith(value, "app:");
        PidSetting p = {.mode = app ? PID_APP : word_index(words, ELEMENTSOF(words), value)};
        PidSetting *result = target;

        if (p.mode < 0 || (app && ac_name_check(app, NULL) < 0))
                return -EINVAL;
        if (app && !(p.app = strdup(app)))
                return -ENOMEM;
        free(result->app);
        *result = p;
        return 0;
}

static int copy_checked(const char *value, bool valid, void *target)
{
        char **result = target;

        if (!valid)
                return -EINVAL;
        char *copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        free(*result);
        *result = copy;
        return 0;
}

static int read_name(const char *value, void *target)
{
        return copy_checked(value, ac_name_check(value, NULL) >= 0, target);
}

static int read_nested_path(const char *value, void *target)
{
        return copy_checked(value, nested_is_path(value), target);
}

static int read_share_cgroups(const char *value, void *target)
{
        int r = parse_boolean(value);

        if (r >= 0)
                *(bool *) target = r == 0;
        return MIN(r, 0);
}

/* The root itself is not one. */
static bool is_path_below_root(const char *s)
{
        return path_is_normalized(s) && !streq(s, "/");
}

static int read_paths(const char *value, void *target)
{
        PathsSetting p = {.given = !streq(value, "default")}, *result = target;
        _cleanup_strv_free_ char **l = NULL;

        if (p.given && !streq(value, "none")) {
                int r = strv_split(value, ",", &l);
                if (r < 0)
                        return r;
                if (strv_length(l) == 0 || strv_length(l) > SETTING_PATHS_MAX)
                        return -EINVAL;
                STRV_FOREACH (path, l)
                        if (!is_path_below_root(*path))
                                return -EINVAL;
                p.paths = TAKE_PTR(l);
        }
        strv_free(result->paths);
        *result = p;
        return 0;
}

static void devices_done(DevicesSetting *d)
{
        for (size_t i = 0; i < d->n; i++) {
                free(d->items[i].source);
                free(d->items[i].target);
        }
        free(d->items);
        *d = (DevicesSetting){};
}

/* Letters of "rwm", each once at most; 0: S is something else. */
static unsigned read_device_access(const char *s)
{
        static const char letters[] = "rwm";
        unsigned access = 0;

        for (; *s; s++) {
                const char *letter = strchr(letters, *s);
                unsigned bit = letter ? 1U << (letter - letters) : 0;
                if (!letter || (access & bit))
                        return 0;
                access |= bit;
        }
        return access;
}

/* "SOURCE[:TARGET][:ACCESS]"; paths may have colons, so the target begins with the last ":/". */
static int read_device(const char *text, DeviceSetting *ret)
{
        const char *colon = NULL, *last = strrchr(text, ':');
        unsigned access = last ? read_device_access(last + 1) : 0;
        _cleanup_free_ char *word = access ? strndup(text, (size_t) (last - text)) : strdup(text);

        if (!word)
                return -ENOMEM;
        for (const char *p = word; (p = strstr(p, ":/")); p++)
                colon = p;
        _cleanup_free_ char *source = colon ? strndup(word, (size_t) (colon - word)) : strdup(word);
        _cleanup_free_ char *target = strdup(colon ? colon + 1 : word);
        if (!source || !target)
                return -ENOMEM;
        if (!is_path_below_root(source) || !is_path_below_root(target) || !startswith(target, "/dev/"))
                return -EINVAL;
        *ret = (DeviceSetting){TAKE_PTR(source), TAKE_PTR(target), access};
        return 0;
}

static int add_devices(char *const *words, DevicesSetting *d)
{
        size_t n = strv_length(words);
        bool with_access = false;

        if (n == 0 || n > SETTING_DEVICES_MAX)
                return -EINVAL;
        d->items = calloc(n, sizeof(DeviceSetting));
        if (!d->items)
                return -ENOMEM;
        STRV_FOREACH (word, words) {
                int r = 0;
                if (streq(*word, "all"))
                        d->all = true;
                else
                        r = read_device(*word, &d->items[d->n]);
                if (r < 0)
                        return r;
                if (!streq(*word, "all"))
                        with_access |= d->items[d->n++].access != 0;
        }
        return d->all && with_access ? -EINVAL : 0; /* nothing is filtered then */
}

static int read_devices(const char *value, void *target)
{
        _cleanup_strv_free_ char **words = NULL;
        DevicesSetting d = {}, *result = target;

        int r = streq(value, "none") ? 0 : strv_split(value, ",", &words);
        if (r >= 0 && !streq(value, "none"))
                r = add_devices(words, &d);
        if (r < 0) {
                devices_done(&d);
                return r;
        }
        devices_done(result);
        *result = d;
        return 0;
}

bool app_settings_filter_devices(const AppSettings *s)
{
        bool filter = s->device_policy == DEVICE_POLICY_CLOSED;

        for (size_t i = 0; i < s->devices.n; i++)
                filter = filter || s->devices.items[i].access != 0;
        return filter && !s->devices.all;
}

static int read_device_policy(const char *value, void *target)
{
        static const char *const names[] = {
                        [DEVICE_POLICY_AUTO] = "auto", [DEVICE_POLICY_CLOSED] = "closed"};

        int r = word_index(names, ELEMENTSOF(names), value);

        if (r >= 0)
                *(int *) target = r;
        return r;
}

static int read_hooks(const char *value, void *target)
{
        _cleanup_hook_list_ HookList l = {};
        char **text = target, *copy = NULL;

        int r = streq(value, "none") ? 0 : hook_list_parse(value, &l, NULL);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        if (l.n > 0 && !(copy = strdup(value)))
                return -ENOMEM;
        free(*text);
        *text = copy;
        return 0;
}

static int read_seccomp_profile(const char *value, void *target)
{
        _cleanup_(seccomp_profile_freep) SeccompProfile *p = NULL;
        char **text = target, *copy = NULL;

        int r = streq(value, "none") ? 0 : seccomp_profile_parse(value, strlen(value), &p, NULL);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        if (p && !(copy = strdup(value)))
                return -ENOMEM;
        free(*text);
        *text = copy;
        return 0;
}

static int read_sys(const char *value, void *target)
{
        static const char *const words[] = {"read-only", "writable"};
        int r = word_index(words, ELEMENTSOF(words), value);

        if (r >= 0)
                *(bool *) target = r > 0;
        return r;
}

static int read_landlock(const char *value, void *target)
{
        static const char *const words[] = {"required", "optional"};
        int r = word_index(words, ELEMENTSOF(words), value);

        if (r >= 0)
                *(bool *) target = r > 0;
        return r;
}

static int read_bytes(const char *value, uint64_t min, void *target)
{
        uint64_t v = UINT64_MAX;
        int r = streq(value, "infinity") ? 0 : quantity_parse(value, 1, &v, NULL);

        if (r == -ENOMEM)
                return r;
        if (r < 0 || v < min || (v > LOG_BYTES_MAX && v != UINT64_MAX))
                return -EINVAL;
        *(uint64_t *) target = v;
        return 0;
}

static int read_log_size(const char *value, void *target)
{
        return read_bytes(value, LOG_SIZE_MIN, target);
}

static int read_log_rate(const char *value, void *target)
{
        return read_bytes(value, 0, target);
}

/* One word behind the path of a log file. */
static int read_log_file_word(const char *word, LogFileSettings *f)
{
        static const char *const formats[_LOG_FORMAT_MAX] = {"cri", "plain"};
        const char *format = startswith(word, "format="), *max_size = startswith(word, "max-size=");

        if (max_size)
                return read_bytes(max_size, LOG_SIZE_MIN, &f->max_size);
        int r = word_index(formats, ELEMENTSOF(formats), format);
        if (r >= 0)
                f->format = r;
        return r;
}

static bool is_file_path(const char *path)
{
        return path_is_absolute(path) && !endswith(path, "/") && strlen(path) < PATH_MAX;
}

static int read_log_file(const char *value, void *target)
{
        LogFileSettings f = {.max_size = UINT64_MAX}, *result = target;
        _cleanup_strv_free_ char **words = NULL;
        _cleanup_free_ char *path = NULL;

        int r = strv_split(value, ",", &words);
        if (r < 0)
                return r;
        if (strv_length(words) == 0 || *value == ',' || !is_file_path(words[0]))
                return -EINVAL;
        r = path_normalize(words[0], &path);
        if (r < 0 || streq(path, "/"))
                return r < 0 ? r : -EINVAL;
        STRV_FOREACH (word, words + 1) {
                r = read_log_file_word(*word, &f);
                if (r < 0)
                        return r;
        }
        free(result->path);
        *result = f;
        result->path = TAKE_PTR(path);
        return 0;
}

static int read_span(const char *value, uint64_t min, void *target)
{
        uint64_t usec;
        int r = parse_usec(value, &usec);

        if (r < 0 || usec < min || usec == UINT64_MAX)
                return -EINVAL;
        *(uint64_t *) target = usec;
        return 0;
}

static int read_delay(const char *value, void *target)
{
        return read_span(value, RESTART_USEC_MIN, target);
}

static int read_health_time(const char *value, void *target)
{
        return read_span(value, HEALTH_USEC_MIN, target);
}

static int read_period(const char *value, void *target)
{
        return read_span(value, 0, target);
}

static int read_number(const char *value, uint32_t min, uint32_t *ret)
{
        uint32_t n;

        if (parse_u32(value, &n) < 0 || n < min || n > LIMIT_MAX)
                return -EINVAL;
        *ret = n;
        return 0;
}

static int read_limit(const char *value, void *target)
{
        if (!streq(value, "infinity"))
                return read_number(value, 0, target);
        *(uint32_t *) target = RESTART_LIMIT_NONE;
        return 0;
}

static int read_retries(const char *value, void *target)
{
        return read_number(value, 1, target);
}

static int read_health_command(const char *value, void *target)
{
        char ***command = target, **l = NULL;
        int r = health_command_parse(value, &l);

        if (r < 0)
                return r;
        strv_free(*command);
        *command = l;
        return 0;
}

static int read_health_action(const char *value, void *target)
{
        static const char *const words[_HEALTH_ACTION_MAX] = {"none", "kill", "restart", "stop"};
        int r = word_index(words, ELEMENTSOF(words), value);

        if (r >= 0)
                *(int *) target = r;
        return r;
}

static int read_timeout(const char *value, void *target)
{
        uint64_t usec;
        int r = parse_usec(value, &usec);

        if (r < 0 || usec == 0)
                return -EINVAL;
        *(uint64_t *) target = usec;
        return 0;
}

int signal_from_string(const char *s)
{
        const char *name = strncasecmp(s, "SIG", 3) == 0 ? s + 3 : s;
        uint32_t n;

        if (parse_u32(s, &n) >= 0)
                return n < (uint32_t) _NSIG ? (int) n : -EINVAL;
        for (int i = 1; i < _NSIG; i++) {
                const char *known = sigabbrev_np(i);
                if (known && strcasecmp(known, name) == 0)
                        return i;
        }
        bool from_end = strncasecmp(name, "RTMAX", 5) == 0;
        if (!from_end && strncasecmp(name, "RTMIN", 5) != 0)
                return -EINVAL;
        name += 5;
        n = 0;
        if (*name && (*name != (from_end ? '-' : '+') || parse_u32(name + 1, &n) < 0))
                return -EINVAL;
        if (n > (uint32_t) (SIGRTMAX - SIGRTMIN))
                return -EINVAL;
        return from_end ? SIGRTMAX - (int) n : SIGRTMIN + (int) n;
}

static int read_signal(const char *value, void *target)
{
        int r = signal_from_string(value);

        if (r <= 0)
                return -EINVAL;
        *(int *) target = r;
        return 0;
}

static int read_boolean(const char *value, void *target)
{
        int r = parse_boolean(value);

        if (r >= 0)
                *(bool *) target = r > 0;
        return r;
}

static int read_apps(const char *value, void *target)
{
        _cleanup_strv_free_ char **l = NULL;
        char ***list = target;

        int r = strv_split(value, ",", &l);
        if (r < 0)
                return r;
        STRV_FOREACH (name, l)
                if (ac_name_check(*name, NULL) < 0)
                        return -EINVAL;
        strv_free(*list);
        *list = TAKE_PTR(l);
        return 0;
}

int socket_port_parse(const char *word, uint32_t *ret_port, const char **ret_protocol)
{
        size_t n = strspn(word, "0123456789");
        char number[8] = {};

        if (n == 0 || (word[n] && word[n] != '/'))
                return ac_name_check(word, NULL) < 0 ? -EINVAL : 0;
        if (n >= sizeof(number) || (word[n] && !streq(word + n, "/tcp") && !streq(word + n, "/udp")))
                return -EINVAL;
        memcpy(number, word, n);
        if (parse_u32(number, ret_port) < 0 || *ret_port == 0 || *ret_port > UINT16_MAX)
                return -EINVAL;
        *ret_protocol = streq(word + n, "/udp") ? "udp" : "tcp";
        return 1;
}

bool socket_port_is(const char *word, const Port *p)
{
        const char *protocol;
        uint32_t port;

        if (streq_ptr(p->name, word))
                return true;
        return socket_port_parse(word, &port, &protocol) > 0 && p->port == port &&
               streq_ptr(p->protocol, protocol);
}

static int read_socket_ports(const char *value, void *target)
{
        _cleanup_strv_free_ char **l = NULL;
        char ***list = target;

        int r = strv_split(value, ",", &l);
        if (r < 0)
                return r;
        STRV_FOREACH (word, l) {
                const char *protocol;
                uint32_t port;
                if (socket_port_parse(*word, &port, &protocol) < 0)
                        return -EINVAL;
        }
        if (!l)
                return -EINVAL;
        strv_free(*list);
        *list = TAKE_PTR(l);
        return 0;
}

/* Privileges without a parameter. */
static const char *const grant_words[] = {"seccomp", "oom-score-adj", "tasks-max", "apparmor-profile",
                                          "selinux-context"};

/* The set of capabilities depends on the kernel; only the form of the name is checked. */
static bool is_capability(const char *s)
{
        if (strncasecmp(s, "CAP_", 4) != 0 || !s[4])
                return false;
        for (const char *c = s; *c; c++)
                if (!(*c >= 'A' && *c <= 'Z') && !(*c >= 'a' && *c <= 'z') && !(*c >= '0' && *c <= '9') &&
                    *c != '_')
                        return false;
        return true;
}

/* The prefix is optional, as in sets of capabilities. */
static int read_capabilities(const char *value, void *target)
{
        _cleanup_strv_free_ char **words = NULL, **l = NULL;
        char ***list = target;

        int r = streq(value, "none") ? 0 : strv_split(value, ",", &words);
        if (r >= 0 && !streq(value, "none") && strv_length(words) == 0)
                r = -EINVAL;
        STRV_FOREACH (word, words) {
                _cleanup_free_ char *name = NULL;
                if (r >= 0)
                        r = xasprintf(&name, "%s%s", strncasecmp(*word, "CAP_", 4) == 0 ? "" : "CAP_",
                                      *word);
                if (r >= 0 && !is_capability(name))
                        r = -EINVAL;
                for (char *c = name; r >= 0 && *c; c++)
                        *c = to_upper(*c);
                if (r >= 0)
                        r = strv_extend(&l, name);
        }
        if (r < 0)
                return r;
        strv_free(*list);
        *list = TAKE_PTR(l);
        return 0;
}

static bool is_grant(const char *s)
{
        const char *name = startswith(s, "sysctl:") ?: startswith(s, "port:");

        if (name)
                return !isempty(name);
        return word_index(grant_words, ELEMENTSOF(grant_words), s) >= 0 || is_capability(s);
}

int grants_parse(const char *value, char ***ret)
{
        _cleanup_strv_free_ char **l = NULL;

        int r = strv_split(value, ", ", &l);
        if (r < 0)
                return r;
        if (strv_length(l) == 0)
                return -EINVAL;
        bool alone = strv_contains(l, "all") || strv_contains(l, "none");
        if (alone && strv_length(l) > 1)
                return -EINVAL;
        for (char **word = l; !alone && *word; word++)
                if (!is_grant(*word))
                        return -EINVAL;
        strv_free(*ret);
        *ret = TAKE_PTR(l);
        return 0;
}

static int read_grants(const char *value, void *target)
{
        return grants_parse(value, target);
}

static int read_patterns(const char *value, void *target)
{
        _cleanup_strv_free_ char **l = NULL;
        char ***list = target;

        int r = strv_split(value, ", ", &l);
        if (r < 0)
                return r;
        if (strv_length(l) == 0)
                return -EINVAL;
        strv_free(*list);
        *list = TAKE_PTR(l);
        return 0;
}

/* --- The table ----------------------------------------------------------------------------------------- */

typedef struct Setting {
        const char *name;
        size_t offset;
        int (*read)(const char *value, void *target);
        const char *expected;
} Setting;

#define MEMBER(m) offsetof(AppSettings, m)
#define PATHS_EXPECTED "must be default, none, or absolute paths without '..', separated by commas"

static const Setting settings[] = {
                {"after", MEMBER(after), read_apps, "must be names of apps of the pod, separated by commas"},
                {"caps-ambient", MEMBER(caps_ambient), read_capabilities,
                 "must be names of capabilities, as CAP_NET_BIND_SERVICE, separated by commas; or none"},
                {"control", MEMBER(control), read_boolean, "must be true or false"},
                {"control-images", MEMBER(control_images), read_patterns,
                 "must be names of images, or patterns of them, as example.com/jobs/*, separated by commas"},
                {"device", MEMBER(devices), read_devices,
                 "must be none, or all, or absolute paths of devices, each with ':' and a path below /dev "
                 "if it is to have another, and ':' and letters of rwm if not all of this is to be allowed, "
                 "separated by commas; all is without such letters"},
                {"device-policy", MEMBER(device_policy), read_device_policy, "must be auto or closed"},
                {"fate-group", MEMBER(fate_group), read_name,
                 "must be a name of lower-case letters, digits and '-'"},
                {"grant", MEMBER(grants), read_grants,
                 "must be names of what the image requests, such as CAP_SYS_PTRACE, seccomp or "
                 "sysctl:NAME, separated by commas; or all, or none"},
                {"group-policy", MEMBER(group_policy), read_group_policy, "must be auto, merge or strict"},
                {"hooks", MEMBER(hooks), read_hooks,
                 "must be none, or a list of hooks in JSON, each with an absolute \"path\", and \"args\", \"env\" and \"timeout\" if it has some"},
                {"hostname-variable", MEMBER(hostname_variable), read_boolean, "must be true or false"},
                {"image-policy", MEMBER(image_policy), read_image_policy, "must be registry, local or none"},
                {"input", MEMBER(input), read_input, "must be null, pipe or terminal"},
                {"health-cmd", MEMBER(health.command), read_health_command,
                 "must be a command line, a JSON array of strings, or none"},
                {"health-interval", MEMBER(health.interval_usec), read_health_time,
                 "must be a time of at least 100ms"},
                {"health-on-failure", MEMBER(health.action), read_health_action,
                 "must be none, kill, restart or stop"},
                {"health-retries", MEMBER(health.retries), read_retries,
                 "must be a number from 1 to 100000"},
                {"health-start-interval", MEMBER(health.start_interval_usec), read_health_time,
                 "must be a time of at least 100ms"},
                {"health-start-period", MEMBER(health.start_period_usec), read_period,
                 "must be a time, as 30s"},
                {"health-timeout", MEMBER(health.timeout_usec), read_health_time,
                 "must be a time of at least 100ms"},
                {"landlock", MEMBER(landlock_optional), read_landlock, "must be required or optional"},
                {"log", MEMBER(log), read_log_target, "must be auto, pod, journal, both or none"},
                {"log-file", MEMBER(log_file), read_log_file,
                 "must be the absolute path of a file, which format=cri or format=plain, and max-size= of "
                 "at least 64Ki may follow, with commas between"},
                {"log-rate", MEMBER(log_rate), read_log_rate,
                 "must be a number of bytes a second, as 100Ki, or infinity"},
                {"log-size", MEMBER(log_size), read_log_size,
                 "must be a number of bytes of at least 64Ki, as 100Mi, or infinity"},
                {"masked-paths", MEMBER(masked), read_paths, PATHS_EXPECTED},
                {"max-runtime", MEMBER(max_runtime_usec), read_timeout,
                 "must be a time, as 30s, or infinity"},
                {"nested-path", MEMBER(nested_path), read_nested_path,
                 "must be names of apps, each nested under the one before, with '/' between"},
                {"notify", MEMBER(notify), read_boolean, "must be true or false"},
                {"oom-group", MEMBER(oom_group), read_boolean, "must be true or false"},
                {"pid", MEMBER(pid), read_pid,
                 "must be pod, private, shared, or app: and the name of another app of the pod"},
                {"read-only-paths", MEMBER(read_only), read_paths, PATHS_EXPECTED},
                {"restart", MEMBER(restart), read_restart, "must be no, on-failure or always"},
                {"restart-delay", MEMBER(restart_usec), read_delay,
                 "must be a time of at least a millisecond, as 100ms or 5s"},
                {"restart-delay-max", MEMBER(restart_max_usec), read_delay,
                 "must be a time of at least a millisecond, as 1min"},
                {"restart-limit", MEMBER(restart_limit), read_limit,
                 "must be a number of restarts up to 100000, or infinity"},
                {"seccomp-profile", MEMBER(seccomp_profile), read_seccomp_profile,
                 "must be a profile of system calls in JSON, as the runtime specification of OCI has it, or "
                 "none"},
                {"share-cgroups", MEMBER(own_limits), read_share_cgroups, "must be true or false"},
                {"socket-activated", MEMBER(socket_activated), read_socket_ports,
                 "must be ports, by their names in the image, or as 80 or 53/udp, separated by commas"},
                {"start-timeout", MEMBER(start_timeout_usec), read_timeout,
                 "must be a time, as 30s, or infinity"},
                {"stop-signal", MEMBER(stop_signal), read_signal, "must be a signal, as SIGTERM or 15"},
                {"stop-timeout", MEMBER(stop_timeout_usec), read_timeout,
                 "must be a time, as 30s, or infinity"},
                {"sys", MEMBER(writable_sys), read_sys, "must be read-only or writable"},
                {"transient", MEMBER(transient), read_boolean, "must be true or false"},
};

static const Setting *find_setting(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(settings); i++)
                if (streq(settings[i].name, name))
                        return &settings[i];
        return NULL;
}

void app_settings_done(AppSettings *s)
{
        s->after = strv_free(s->after);
        s->socket_activated = strv_free(s->socket_activated);
        s->grants = strv_free(s->grants);
        s->health.command = strv_free(s->health.command);
        free(s->log_file.path);
        free(s->pid.app);
        s->masked.paths = strv_free(s->masked.paths);
        s->read_only.paths = strv_free(s->read_only.paths);
        s->caps_ambient = strv_free(s->caps_ambient);
        s->control_images = strv_free(s->control_images);
        devices_done(&s->devices);
        free(s->fate_group);
        free(s->seccomp_profile);
        free(s->nested_path);
        free(s->hooks);
        s->fate_group = s->seccomp_profile = s->nested_path = s->hooks = NULL;
        s->log_file.path = s->pid.app = NULL;
}

static int read_setting(const char *name, const char *value, AppSettings *s, Error *e)
{
        const Setting *row = find_setting(name);

        if (!row) {
                int r = error_set(e, -EINVAL, "There is no setting " SETTING_PREFIX "%s", name);
                return error_hint(e, r,
                                  "Annotations whose names begin with " SETTING_PREFIX
                                  " are acnspawn's own; see acnspawn-pods(7).");
        }
        int r = row->read(value, (char *) s + row->offset);
        if (r == -ENOMEM)
                return error_oom(e);
        if (r < 0) {
                _cleanup_free_ char *shown = text_escape_for_terminal(value);
                return error_set(e, -EINVAL, "The setting " SETTING_PREFIX "%s is '%s', but %s", name,
                                 shown ?: "?", row->expected);
        }
        return 0;
}

int app_setting_check(const char *name, const char *value, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};
        const Setting *row = find_setting(name);

        int r = row ? row->read(value, (char *) &s + row->offset) : -EINVAL;
        if (r == -ENOMEM)
                return error_oom(e);
        return r < 0 ? error_set(e, -EINVAL, "%s", row ? row->expected : "there is no such setting") : 0;
}

int pod_setting_check(const char *name, Error *e)
{
        const char *setting = startswith(name, SETTING_PREFIX);

        if (!setting || startswith(name, VOLUME_SETTINGS_PREFIX))
                return 0;
        _cleanup_free_ char *shown = text_escape_for_terminal(name);
        if (find_setting(setting))
                return error_set(e, -EINVAL, "%s is a setting of apps, not of the pod", shown ?: "?");
        int r = error_set(e, -EINVAL, "There is no setting %s of a pod", shown ?: "?");
        return error_hint(e, r,
                          "Annotations whose names begin with " SETTING_PREFIX
                          " are acnspawn's own; see acnspawn-pods(7).");
}

int app_settings_read(const PodApp *app, AppSettings *ret, Error *e)
{
        AppSettings s = defaults;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < app->annotations.n; i++) {
                const char *name = startswith(app->annotations.items[i].name, SETTING_PREFIX);
                if (name)
                        r = read_setting(name, app->annotations.items[i].value, &s, e);
        }
        /* The longest delay is that of the first restart, too; unless it is given it is no shorter than that. */
        if (pair_list_get(&app->annotations, SETTING_PREFIX "restart-delay-max"))
                s.restart_usec = MIN(s.restart_usec, s.restart_max_usec);
        else
                s.restart_max_usec = MAX(s.restart_usec, s.restart_max_usec);
        /* There has to be a process before its namespace can be joined. */
        if (r >= 0 && s.pid.app && !strv_contains(s.after, s.pid.app) &&
            strv_extend(&s.after, s.pid.app) < 0)
                r = error_oom(e);
        if (r < 0) {
                app_settings_done(&s);
                return error_prefix(e, r, "App %s", app->name);
        }
        *ret = s;
        return 0;
}

/* --- All apps ------------------------------------------------------------------------------------------ */

static ssize_t app_index(const PodManifest *m, const char *name)
{
        for (size_t i = 0; i < m->n_apps; i++)
                if (streq(m->apps[i]->name, name))
                        return (ssize_t) i;
        return -ENOENT;
}

/* Removes the apps that wait for none of the remaining ones, until nothing changes: the remaining apps are
 * part of a cycle. */
static int check_order(const PodManifest *m, const AppSettings *all, bool *done, Error *e)
{
        for (bool progress = true; progress;) {
                progress = false;
                for (size_t i = 0; i < m->n_apps; i++) {
                        bool waits = false;
                        STRV_FOREACH (name, all[i].after)
                                waits |= !done[app_index(m, *name)];
                        if (!done[i] && !waits)
                                progress = done[i] = true;
                }
        }
        for (size_t i = 0; i < m->n_apps; i++)
                if (!done[i])
                        return error_set(e, -ELOOP,
                                         "App %s is to start after an app that is to start after it",
                                         m->apps[i]->name);
        return 0;
}

static int no_such_app(const PodManifest *m, const char *app, const char *name, Error *e)
{
        _cleanup_strv_free_ char **names = NULL;
        _cleanup_free_ char *list = NULL;

        for (size_t i = 0; i < m->n_apps; i++)
                if (strv_extend(&names, m->apps[i]->name) < 0)
                        return error_oom(e);
        list = strv_join(names, ", ");
        int r = error_set(e, -ENOENT, "App %s is to start after %s, but the pod has no such app", app, name);
        return error_hint(e, r, "Its apps are: %s", list ?: "");
}

static int check_names(const PodManifest *m, const AppSettings *all, Error *e)
{
        for (size_t i = 0; i < m->n_apps; i++)
                STRV_FOREACH (name, all[i].after)
                        if (app_index(m, *name) < 0)
                                return no_such_app(m, m->apps[i]->name, *name, e);
        return 0;
}

/* Lines of the log format do not say which app they are of. */
static int check_log_files(const PodManifest *m, const AppSettings *all, Error *e)
{
        for (size_t i = 0; i < m->n_apps; i++)
                for (size_t j = 0; all[i].log_file.path && j < i; j++)
                        if (all[j].log_file.path && streq(all[i].log_file.path, all[j].log_file.path))
                                return error_set(e, -EEXIST, "Apps %s and %s have the same log file, %s",
                                                 m->apps[j]->name, m->apps[i]->name, all[i].log_file.path);
        return 0;
}

static int check_pid_of(const PodManifest *m, const AppSettings *all, size_t i, Error *e)
{
        const char *name = all[i].pid.app, *app = m->apps[i]->name;
        ssize_t target = name ? app_index(m, name) : 0;

        if (!name)
                return 0;
        if (target < 0)
                return error_set(e, -ENOENT,
                                 "App %s is to share the processes of app %s, but the pod has no such app",
                                 app, name);
        if ((size_t) target == i)
                return error_set(e, -ELOOP, "App %s is to share its own processes", app);
        if (all[target].pid.mode == PID_PRIVATE)
                return 0;
        int r = error_set(
                        e, -EINVAL,
                        "App %s is to share the processes of app %s, which has no pid namespace of its own",
                        app, name);
        return error_hint(e, r, "Give app %s the option --pid=private, or both --pid=shared.", name);
}

static int check_pids(const PodManifest *m, const AppSettings *all, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = check_pid_of(m, all, i, e);
        return r;
}

/* The name of a nested app says which app it is nested under, and so does its path. */
static int check_nested(const PodManifest *m, const AppSettings *all, size_t i, Error *e)
{
        const char *name = m->apps[i]->name, *path = all[i].nested_path;
        size_t n = nested_parent_length(name);
        _cleanup_free_ char *parent = n > 0 ? strndup(name, n) : NULL;
        const PodApp *above = parent ? pod_manifest_find_app(m, parent) : NULL;
        const char *own = path ? strrchr(path, '/') : NULL, *prefix = above ? pod_app_path_name(above) : "";

        if (n == 0 && !path && !all[i].own_limits)
                return 0;
        if (n == 0 && !path)
                return error_set(e, -EINVAL,
                                 "App %s is not nested under another one, and so cannot have the "
                                 "setting " SETTING_PREFIX "share-cgroups",
                                 name);
        if (above && own && strlen(prefix) == (size_t) (own - path) && startswith(path, prefix))
                return 0;
        if (n > 0 && !path)
                return error_set(e, -EINVAL,
                                 "The name '%s' is one of nested apps, whose names are given to them", name);
        return error_set(e, -EINVAL,
                         "App %s has the setting " SETTING_PREFIX NESTED_PATH_SETTING
                         ", but is not nested there",
                         name);
}

int pod_annotations_check(const PodManifest *m, Error *e)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < m->annotations.n; i++)
                r = pod_setting_check(m->annotations.items[i].name, e);
        return r;
}

int pod_settings_check(const PodManifest *m, Error *e)
{
        AppSettings *all = calloc(m->n_apps + 1, sizeof(*all));
        _cleanup_free_ bool *done = calloc(m->n_apps + 1, sizeof(*done));
        int r = all && done ? 0 : error_oom(e);

        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = app_settings_read(m->apps[i], &all[i], e);
        for (size_t i = 0; r >= 0 && i < m->n_apps; i++)
                r = check_nested(m, all, i, e);
        if (r >= 0)
                r = check_pids(m, all, e);
        if (r >= 0)
                r = check_names(m, all, e);
        if (r >= 0)
                r = check_order(m, all, done, e);
        if (r >= 0)
                r = check_log_files(m, all, e);
        if (r >= 0)
                r = pod_volume_settings_check(m, e);
        for (size_t i = 0; all && i < m->n_apps; i++)
                app_settings_done(&all[i]);
        free(all);
        return r;
}

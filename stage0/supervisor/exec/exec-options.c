/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parameters of a call that runs a command beside an app. All of them come from the caller; what they mean in the
 * app is decided by the launcher. Of the descriptors of a call only pipes are taken: the command gets them, and any
 * other kind of open file would be a way to something of the host.
 */

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "stage0/supervisor/exec/exec-internal.h"

void exec_options_done(ExecOptions *o)
{
        strv_free(o->argv);
        strv_free(o->environment);
        free(o->user);
        free(o->identity);
        free(o->directory);
        free(o->terminal_type);
        for (size_t i = 0; i < ELEMENTSOF(o->fds); i++)
                safe_close(o->fds[i]);
        *o = EXEC_OPTIONS_NULL;
}

static json_object *find(json_object *parameters, const char *key)
{
        json_object *value = NULL;

        return json_object_object_get_ex(parameters, key, &value) ? value : NULL;
}

/* Bytes that are no text come as hexadecimal digits. */
static int take_word(json_object *parameters, json_object *value, char **ret)
{
        const char *s = json_object_get_string(value);
        size_t n = strlen(s) / 2;

        if (!json_object_get_boolean(find(parameters, "hex"))) {
                *ret = strdup(s);
                return *ret ? 0 : -ENOMEM;
        }
        _cleanup_free_ char *word = calloc(1, n + 1);
        if (!word)
                return -ENOMEM;
        if (strlen(s) % 2 != 0 || hex_decode(s, n, word) < 0 || strlen(word) != n)
                return -EINVAL;
        *ret = TAKE_PTR(word);
        return 0;
}

static int take_list(json_object *parameters, const char *key, char ***ret)
{
        json_object *list = find(parameters, key);

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                _cleanup_free_ char *word = NULL;
                int r = take_word(parameters, json_object_array_get_idx(list, i), &word);
                if (r >= 0)
                        r = strv_extend(ret, word);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* -EINVAL: it is empty. */
static int take_text(json_object *parameters, const char *key, char **ret)
{
        const char *s = json_object_get_string(find(parameters, key));

        if (!s)
                return 0;
        if (!*s)
                return -EINVAL;
        *ret = strdup(s);
        return *ret ? 0 : -ENOMEM;
}

static int take_command(json_object *parameters, ExecOptions *o)
{
        int r = take_list(parameters, "command", &o->argv);

        return r >= 0 && o->argv && !*o->argv[0] ? -EINVAL : r;
}

static int take_environment(json_object *parameters, ExecOptions *o)
{
        int r = take_list(parameters, "environment", &o->environment);

        STRV_FOREACH (assignment, o->environment)
                if (r >= 0 && (**assignment == '=' || !strchr(*assignment, '=')))
                        r = -EINVAL;
        return r;
}

static int take_user(json_object *parameters, ExecOptions *o)
{
        int r = take_text(parameters, "user", &o->user);

        if (r >= 0 && o->user && streq(o->user, ":"))
                r = -EINVAL;
        return r;
}

static int take_group(json_object *parameters, ExecOptions *o)
{
        _cleanup_free_ char *group = NULL, *both = NULL;

        int r = take_text(parameters, "group", &group);
        if (r < 0 || !group)
                return r;
        if (o->user && (*o->user == '/' || strchr(o->user, ':')))
                return -EINVAL;
        if (xasprintf(&both, "%s:%s", o->user ?: "", group) < 0)
                return -ENOMEM;
        free(o->user);
        o->user = TAKE_PTR(both);
        return 0;
}

static int take_directory(json_object *parameters, ExecOptions *o)
{
        json_object *value = find(parameters, "workingDirectory");

        int r = value ? take_word(parameters, value, &o->directory) : 0;
        return r >= 0 && o->directory && !path_is_absolute(o->directory) ? -EINVAL : r;
}

int exec_read_size(json_object *parameters, const char *key, unsigned short *ret)
{
        json_object *value = find(parameters, key);

        if (!value)
                return 0;
        int64_t n = json_object_get_int64(value);
        if (n < 1 || n > UINT16_MAX)
                return -EINVAL;
        *ret = (unsigned short) n;
        return 0;
}

static int take_rows(json_object *parameters, ExecOptions *o)
{
        return exec_read_size(parameters, "rows", &o->size.ws_row);
}

static int take_columns(json_object *parameters, ExecOptions *o)
{
        return exec_read_size(parameters, "columns", &o->size.ws_col);
}

static int take_terminal(json_object *parameters, ExecOptions *o)
{
        json_object *value = find(parameters, "terminal");

        o->terminal = value && json_object_get_boolean(value);
        o->terminal_errors = o->terminal && !find(parameters, "stderr");
        return 0;
}

static int take_terminal_type(json_object *parameters, ExecOptions *o)
{
        int r = take_text(parameters, "terminalType", &o->terminal_type);

        return r >= 0 && o->terminal_type && strlen(o->terminal_type) >= 64 ? -EINVAL : r;
}

static int take_timeout(json_object *parameters, ExecOptions *o)
{
        json_object *value = find(parameters, "timeoutUSec");

        if (!value)
                return 0;
        int64_t n = json_object_get_int64(value);
        if (n < 1)
                return -EINVAL;
        o->timeout_usec = (uint64_t) n;
        return 0;
}

static const struct {
        const char *key;
        int (*take)(json_object *parameters, ExecOptions *o);
} members[] = {
                {"command", take_command},
                {"environment", take_environment},
                {"user", take_user},
                {"group", take_group},
                {"workingDirectory", take_directory},
                {"terminal", take_terminal},
                {"terminalType", take_terminal_type},
                {"rows", take_rows},
                {"columns", take_columns},
                {"timeoutUSec", take_timeout},
};

/* One without a name: that of a FIFO on disk would be changed. */
static bool is_pipe(int fd)
{
        struct statfs fs;
        struct stat st;

        return fstat(fd, &st) >= 0 && S_ISFIFO(st.st_mode) && fstatfs(fd, &fs) >= 0 &&
               fs.f_type == PIPEFS_MAGIC;
}

static const char *const streams[] = {"stdin", "stdout", "stderr"};

int exec_read_stream(json_object *parameters, FdList *fds, size_t i, int *ret, const char **ret_wrong)
{
        json_object *value = find(parameters, streams[i]);

        *ret_wrong = streams[i];
        if (!value)
                return 0;
        int64_t n = json_object_get_int64(value);
        if (n < 0)
                return -EINVAL;
        *ret = fd_list_take(fds, (size_t) n);
        return *ret < 0 || !is_pipe(*ret) ? -EINVAL : 0;
}

static int take_stream(json_object *parameters, FdList *fds, size_t i, ExecOptions *o,
                       const char **ret_wrong)
{
        *ret_wrong = streams[i];
        if (o->terminal && i < STDERR_FILENO)
                return find(parameters, streams[i]) ? -EINVAL : 0;
        return exec_read_stream(parameters, fds, i, &o->fds[i], ret_wrong);
}

int exec_options_read(json_object *parameters, FdList *fds, ExecOptions *ret, const char **ret_wrong)
{
        ExecOptions o = EXEC_OPTIONS_NULL;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(members); i++) {
                r = members[i].take(parameters, &o);
                *ret_wrong = members[i].key;
        }
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(streams); i++) {
                r = take_stream(parameters, fds, i, &o, ret_wrong);
        }
        if (r < 0) {
                exec_options_done(&o);
                return r;
        }
        *ret = o;
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of how apps are and how they ended.
 *
 * A record is a small file of KEY=VALUE lines, a line with their sum, and newlines up to a fixed size. It is
 * written in place by one write(): replacing it by rename would have every process of every app wait for one
 * directory. So a reader may see half of an old and half of a new one; then the sum is wrong, and it looks
 * again.
 *
 * Records are written inside the pod by the launcher, and by stage0 for apps that the pod took down with it.
 * Since they come out of the pod, reading them is bounded and every value is checked; what cannot be
 * understood is refused, never guessed.
 */

#include <sys/stat.h>

#include "stage1/app-status.h"

#define MESSAGE_SIZE_MAX 2048U /* what is longer is cut, so that every record fits its size */
#define READ_TRIES 20U
#define READ_PAUSE_USEC 1000U

static const char *const states[_APP_STATE_MAX] = {
                [APP_WAITING] = "waiting",     [APP_PRE_START] = "pre-start", [APP_RUNNING] = "running",
                [APP_POST_STOP] = "post-stop", [APP_ENDED] = "ended",
};

static const char *const causes[_APP_CAUSE_MAX] = {
                [CAUSE_NONE] = "none",
                [CAUSE_EXITED] = "exited",
                [CAUSE_SIGNAL] = "signal",
                [CAUSE_OOM_KILL] = "oom-kill",
                [CAUSE_TIMEOUT] = "timeout",
                [CAUSE_PRE_START] = "pre-start-failed",
                [CAUSE_COMMAND_NOT_FOUND] = "command-not-found",
                [CAUSE_COMMAND_NOT_EXECUTABLE] = "command-not-executable",
                [CAUSE_WORKING_DIRECTORY] = "working-directory-missing",
                [CAUSE_USER] = "user-not-found",
                [CAUSE_SETUP] = "setup-failed",
                [CAUSE_SOCKETS] = "sockets-failed",
                [CAUSE_NOT_STARTED] = "not-started",
                [CAUSE_POD_KILLED] = "pod-killed",
};

static int lookup(const char *const *names, size_t n, const char *s)
{
        for (size_t i = 0; i < n; i++)
                if (streq(names[i], s))
                        return (int) i;
        return -EINVAL;
}

const char *app_state_to_string(AppState s)
{
        return (size_t) s < ELEMENTSOF(states) ? states[s] : NULL;
}

const char *app_cause_to_string(AppCause c)
{
        return (size_t) c < ELEMENTSOF(causes) ? causes[c] : NULL;
}

void app_status_done(AppStatus *s)
{
        free(s->message);
        *s = (AppStatus){};
}

/* --- Fields: one row each, used for reading and for writing -------------------------------------------- */

typedef enum FieldType { FIELD_STATE, FIELD_CAUSE, FIELD_INT, FIELD_BOOL, FIELD_NUMBER, FIELD_TEXT } FieldType;

static const struct {
        const char *key;
        FieldType type;
        size_t offset;
} fields[] = {
                {"STATE", FIELD_STATE, offsetof(AppStatus, state)},
                {"CAUSE", FIELD_CAUSE, offsetof(AppStatus, cause)},
                {"EXIT_STATUS", FIELD_INT, offsetof(AppStatus, exit_status)},
                {"SIGNAL", FIELD_INT, offsetof(AppStatus, signal)},
                {"CORE_DUMPED", FIELD_BOOL, offsetof(AppStatus, core_dumped)},
                {"STARTED", FIELD_NUMBER, offsetof(AppStatus, started_usec)},
                {"ENDED", FIELD_NUMBER, offsetof(AppStatus, ended_usec)},
                {"STARTS", FIELD_NUMBER, offsetof(AppStatus, starts)},
                {"PRE_START_RAN", FIELD_BOOL, offsetof(AppStatus, pre_start.ran)},
                {"PRE_START_TIMED_OUT", FIELD_BOOL, offsetof(AppStatus, pre_start.timed_out)},
                {"PRE_START_EXIT_STATUS", FIELD_INT, offsetof(AppStatus, pre_start.exit_status)},
                {"PRE_START_SIGNAL", FIELD_INT, offsetof(AppStatus, pre_start.signal)},
                {"POST_STOP_RAN", FIELD_BOOL, offsetof(AppStatus, post_stop.ran)},
                {"POST_STOP_TIMED_OUT", FIELD_BOOL, offsetof(AppStatus, post_stop.timed_out)},
                {"POST_STOP_EXIT_STATUS", FIELD_INT, offsetof(AppStatus, post_stop.exit_status)},
                {"POST_STOP_SIGNAL", FIELD_INT, offsetof(AppStatus, post_stop.signal)},
                {"MESSAGE", FIELD_TEXT, offsetof(AppStatus, message)},
};

/* A number from -1 to 255: an exit status, a signal, or "none". */
static int read_small_int(const char *value, int *ret)
{
        uint32_t v;

        if (streq(value, "-1")) {
                *ret = -1;
                return 0;
        }
        int r = parse_u32(value, &v);
        if (r < 0)
                return r;
        if (v > 255)
                return -ERANGE;
        *ret = (int) v;
        return 0;
}

static int read_text(const char *value, char **ret)
{
        char *copy;

        if (!value[0])
                return 0;
        copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        free(*ret);
        *ret = copy;
        return 0;
}

static int read_field(FieldType type, void *p, const char *value)
{
        int n;

        switch (type) {
        case FIELD_STATE:
                n = lookup(states, ELEMENTSOF(states), value);
                if (n >= 0)
                        *(AppState *) p = (AppState) n;
                return n;
        case FIELD_CAUSE:
                n = lookup(causes, ELEMENTSOF(causes), value);
                if (n >= 0)
                        *(AppCause *) p = (AppCause) n;
                return n;
        case FIELD_INT:
                return read_small_int(value, p);
        case FIELD_BOOL:
                n = parse_boolean(value);
                if (n >= 0)
                        *(bool *) p = n > 0;
                return n;
        case FIELD_NUMBER:
                return parse_u64(value, p);
        case FIELD_TEXT:
                return read_text(value, p);
        }
        return -EINVAL;
}

static int read_line(AppStatus *s, char *line)
{
        char *value = strchr(line, '=');

        if (!value)
                return -EBADMSG;
        *value++ = 0;
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                if (streq(fields[i].key, line))
                        return read_field(fields[i].type, (char *) s + fields[i].offset, value) < 0
                                               ? -EBADMSG
                                               : 0;
        return -EBADMSG;
}

static AppStatus status_initial(void)
{
        return (AppStatus){
                        .exit_status = -1,
                        .pre_start.exit_status = -1,
                        .post_stop.exit_status = -1,
        };
}

/* FNV-1a: against halves of records, not against malice. */
static uint64_t sum_of(const char *text, size_t size)
{
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < size; i++)
                h = (h ^ (unsigned char) text[i]) * UINT64_C(0x100000001b3);
        return h;
}

/* Cuts the line with the sum off, if it is right. */
static int check_sum(char *text, size_t size)
{
        char expected[32];
        char *sum = strstr(text, "SUM=");

        if (strlen(text) != size || !sum || (sum > text && sum[-1] != '\n'))
                return -EBADMSG;
        snprintf(expected, sizeof(expected), "SUM=%016llx\n",
                 (unsigned long long) sum_of(text, (size_t) (sum - text)));
        if (!startswith(sum, expected))
                return -EBADMSG;
        *sum = 0;
        return 0;
}

static int read_whole_record(int fd, char **ret)
{
        for (unsigned i = 0;; i++) {
                _cleanup_free_ char *text = NULL;
                size_t size;

                int r = read_fd_bounded(fd, APP_RECORD_SIZE, &text, &size);
                if (r < 0)
                        return r;
                r = check_sum(text, size);
                if (r >= 0) {
                        *ret = TAKE_PTR(text);
                        return 0;
                }
                if (i + 1 >= READ_TRIES)
                        return r;
                (void) usleep(READ_PAUSE_USEC);
        }
}

static int parse_record(char *text, AppStatus *s)
{
        _cleanup_strv_free_ char **lines = NULL;
        int r = strv_split(text, "\n", &lines);

        for (char **line = lines; r >= 0 && line && *line; line++)
                r = read_line(s, *line);
        return r;
}

int app_status_read(int status_dir_fd, const char *app, AppStatus *ret)
{
        _cleanup_app_status_ AppStatus s = status_initial();
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *text = NULL;

        fd = open_beneath(status_dir_fd, app, O_RDONLY | O_NONBLOCK);
        if (fd < 0 && fd != -ENOENT)
                return fd;
        int r = fd >= 0 ? read_whole_record(fd, &text) : 0;
        if (r >= 0 && text)
                r = parse_record(text, &s);
        if (r < 0)
                return r;
        *ret = s;
        s = (AppStatus){};
        return 0;
}

static void write_message(Text *t, const char *message)
{
        for (size_t i = 0; message[i] && i < MESSAGE_SIZE_MAX; i++)
                text_add_bytes(t, message[i] == '\n' ? " " : &message[i], 1);
}

static void write_field(Text *t, FieldType type, const void *p)
{
        switch (type) {
        case FIELD_STATE:
                text_add(t, states[*(const AppState *) p]);
                return;
        case FIELD_CAUSE:
                text_add(t, causes[*(const AppCause *) p]);
                return;
        case FIELD_INT:
                text_addf(t, "%d", *(const int *) p);
                return;
        case FIELD_BOOL:
                text_add(t, *(const bool *) p ? "yes" : "no");
                return;
        case FIELD_NUMBER:
                text_addf(t, "%llu", (unsigned long long) *(const uint64_t *) p);
                return;
        case FIELD_TEXT:
                write_message(t, *(char *const *) p ?: "");
                return;
        }
}

int app_status_seal(const char *lines, char ret[static APP_RECORD_SIZE])
{
        size_t n = strlen(lines);
        char sum[32];

        int k = snprintf(sum, sizeof(sum), "SUM=%016llx\n", (unsigned long long) sum_of(lines, n));
        if (k < 0 || n + (size_t) k > APP_RECORD_SIZE)
                return -E2BIG;
        memset(ret, '\n', APP_RECORD_SIZE);
        memcpy(ret, lines, n);
        memcpy(ret + n, sum, (size_t) k);
        return 0;
}

int app_status_format(const AppStatus *s, char ret[static APP_RECORD_SIZE])
{
        _cleanup_free_ char *lines = NULL;
        _cleanup_text_ Text t = {};

        for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                text_addf(&t, "%s=", fields[i].key);
                write_field(&t, fields[i].type, (const char *) s + fields[i].offset);
                text_add(&t, "\n");
        }
        int r = text_take(&t, &lines, NULL);
        return r < 0 ? r : app_status_seal(lines, ret);
}

int app_status_write(int status_dir_fd, const char *app, const AppStatus *s)
{
        char record[APP_RECORD_SIZE];
        _cleanup_close_ int fd = -EBADF;

        int r = app_status_format(s, record);
        if (r < 0)
                return r;
        fd = openat(status_dir_fd, app, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
                    0644);
        if (fd < 0)
                return -errno;
        ssize_t n = pwrite(fd, record, sizeof(record), 0);
        return n < 0 ? -errno : (size_t) n == sizeof(record) ? 0 : -ENOSPC;
}

int app_status_to_exit_code(const AppStatus *s)
{
        switch (s->cause) {
        case CAUSE_NONE:
                return 0;
        case CAUSE_COMMAND_NOT_FOUND:
                return 127;
        case CAUSE_COMMAND_NOT_EXECUTABLE:
                return 126;
        case CAUSE_EXITED:
        case CAUSE_SIGNAL:
        case CAUSE_OOM_KILL:
        case CAUSE_TIMEOUT:
                if (s->signal > 0)
                        return MIN(128 + s->signal, 255);
                return s->exit_status >= 0 ? s->exit_status : 125;
        default:
                return 125;
        }
}

bool app_status_failed(const AppStatus *s)
{
        return s->cause != CAUSE_NONE && app_status_to_exit_code(s) != 0;
}

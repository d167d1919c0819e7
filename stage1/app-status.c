/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The status of apps and of their health checks, and the records of it.
 *
 * A record is a small file of KEY=VALUE lines. The supervisor of the pod is the only process that writes it; it is
 * replaced by rename, or on a full disk exchanged with the reserve, and a reader gets all of one record (read_file_reserved_at()).
 * Whatever is wrong with a file, reading it is bounded and every value is checked; a record that does not parse is refused. The
 * space for records is reserved before an app is started, so that they can be written on a full disk: a record without any line is
 * reserved, and stands for none.
 */

#include "stage1/app-status.h"

#define MESSAGE_SIZE_MAX 2048U /* longer messages are cut */
#define RECORD_OWNER "RECORD=" /* the first line: the name of the file */

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
                [CAUSE_NOT_READY] = "not-ready",
                [CAUSE_UNHEALTHY] = "unhealthy",
                [CAUSE_HOST_REBOOTED] = "host-rebooted",
};

static const char *const readiness_words[_APP_READINESS_MAX] = {"none", "starting", "ready"};
static const char *const health_states[_HEALTH_STATE_MAX] = {"starting", "healthy", "unhealthy"};

const char *app_state_to_string(AppState s)
{
        return (size_t) s < ELEMENTSOF(states) ? states[s] : NULL;
}

const char *app_cause_to_string(AppCause c)
{
        return (size_t) c < ELEMENTSOF(causes) ? causes[c] : NULL;
}

const char *health_state_to_string(HealthState s)
{
        return (size_t) s < ELEMENTSOF(health_states) ? health_states[s] : NULL;
}

void health_status_done(HealthStatus *s)
{
        free(s->message);
        *s = (HealthStatus){};
}

void app_status_done(AppStatus *s)
{
        free(s->message);
        free(s->identity);
        *s = (AppStatus){};
}

/* --- Fields: one entry each, used for reading and for writing ------------------------------------------ */

typedef enum FieldType {
        FIELD_STATE,
        FIELD_CAUSE,
        FIELD_READINESS,
        FIELD_HEALTH,
        FIELD_INT,
        FIELD_BOOL,
        FIELD_NUMBER,
        FIELD_TEXT,
        _FIELD_TYPE_MAX,
} FieldType;

/* Types whose values are words. */
static const struct {
        const char *const *words;
        size_t n;
} enums[_FIELD_TYPE_MAX] = {
                [FIELD_STATE] = {states, ELEMENTSOF(states)},
                [FIELD_CAUSE] = {causes, ELEMENTSOF(causes)},
                [FIELD_READINESS] = {readiness_words, ELEMENTSOF(readiness_words)},
                [FIELD_HEALTH] = {health_states, ELEMENTSOF(health_states)},
};

typedef struct Field {
        const char *key; /* NULL: end of the table */
        FieldType type;
        size_t offset;
} Field;

static const Field status_fields[] = {
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
                {"ROW", FIELD_NUMBER, offsetof(AppStatus, consecutive_starts)},
                {"BEGINS", FIELD_BOOL, offsetof(AppStatus, restarting)},
                {"READINESS", FIELD_READINESS, offsetof(AppStatus, readiness)},
                {"MESSAGE", FIELD_TEXT, offsetof(AppStatus, message)},
                {"IDENTITY", FIELD_TEXT, offsetof(AppStatus, identity)},
                {},
};

static const Field replacement_fields[] = {
                {"IMAGE_ID", FIELD_TEXT, offsetof(ReplacementStatus, image_id)},
                {"IMAGE_NAME", FIELD_TEXT, offsetof(ReplacementStatus, image_name)},
                {},
};

static const Field health_fields[] = {
                {"STATE", FIELD_HEALTH, offsetof(HealthStatus, state)},
                {"FAILURES", FIELD_NUMBER, offsetof(HealthStatus, failures)},
                {"CHECKED", FIELD_NUMBER, offsetof(HealthStatus, checked_usec)},
                {"RAN", FIELD_BOOL, offsetof(HealthStatus, last.ran)},
                {"TIMED_OUT", FIELD_BOOL, offsetof(HealthStatus, last.timed_out)},
                {"EXIT_STATUS", FIELD_INT, offsetof(HealthStatus, last.exit_status)},
                {"SIGNAL", FIELD_INT, offsetof(HealthStatus, last.signal)},
                {"ACTED", FIELD_BOOL, offsetof(HealthStatus, action_sent)},
                {"MESSAGE", FIELD_TEXT, offsetof(HealthStatus, message)},
                {},
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
        default:
                n = word_index(enums[type].words, enums[type].n, value);
                if (n >= 0)
                        *(unsigned *) p = (unsigned) n;
                return n;
        }
}

static int read_line(const Field *fields, void *target, char *line)
{
        char *value = strchr(line, '=');

        if (!value)
                return -EBADMSG;
        *value++ = 0;
        for (const Field *f = fields; f->key; f++)
                if (streq(f->key, line)) {
                        int r = read_field(f->type, (char *) target + f->offset, value);
                        return r >= 0 ? 0 : r == -ENOMEM ? r : -EBADMSG;
                }
        return -EBADMSG;
}

AppStatus app_status_initial(void)
{
        return (AppStatus){
                        .exit_status = -1,
                        .pre_start.exit_status = -1,
                        .post_stop.exit_status = -1,
        };
}

static int read_whole_record(int dir_fd, const char *name, char **ret)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_file_reserved_at(dir_fd, name, APP_RECORD_SIZE_MAX, &text, &size);
        if (r < 0)
                return r;
        if (strlen(text) != size || (size > 0 && text[size - 1] != '\n'))
                return -EBADMSG;
        *ret = TAKE_PTR(text);
        return 0;
}

/* -ENOENT: there is no such record, or nothing in it yet. */
static int read_record(int dir_fd, const char *name, const Field *fields, void *target)
{
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *text = NULL;

        int r = read_whole_record(dir_fd, name, &text);
        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        if (r >= 0 && text[0] && !lines)
                r = -ENOENT;
        const char *owner = lines ? startswith(lines[0], RECORD_OWNER) : NULL;
        if (r >= 0 && owner && !streq(owner, name)) /* a loss of power has undone a part of an exchange */
                return -ENOENT;
        for (char **line = owner ? lines + 1 : lines; r >= 0 && line && *line; line++)
                r = read_line(fields, target, *line);
        return r;
}

int app_status_read(int status_dir_fd, const char *app, AppStatus *ret)
{
        _cleanup_app_status_ AppStatus s = app_status_initial();

        int r = read_record(status_dir_fd, app, status_fields, &s);
        if (r < 0 && r != -ENOENT)
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
        default:
                text_add(t, enums[type].words[*(const unsigned *) p]);
        }
}

static int write_record(int dir_fd, const char *name, const Field *fields, const void *source, bool reserved)
{
        _cleanup_free_ char *lines = NULL;
        _cleanup_text_ Text t = {};
        size_t size;

        text_addf(&t, RECORD_OWNER "%s\n", name);
        for (const Field *f = fields; f->key; f++) {
                text_addf(&t, "%s=", f->key);
                write_field(&t, f->type, (const char *) source + f->offset);
                text_add(&t, "\n");
        }
        int r = text_take(&t, &lines, &size);
        if (r < 0)
                return r;
        if (size > APP_RECORD_SIZE_MAX)
                return -E2BIG;
        return reserved ? write_file_reserved_at(dir_fd, name, STATUS_RESERVE, lines, size)
                        : write_file_atomic_at(dir_fd, name, lines, size, 0600, false);
}

int app_status_write(int status_dir_fd, const char *app, const AppStatus *s)
{
        return write_record(status_dir_fd, app, status_fields, s, true);
}

/* A file name that is not a valid app name, so that it cannot collide with an app's record. */
static int health_name(const char *app, char **ret)
{
        return xasprintf(ret, "%s.health", app);
}

int app_status_reserve(int status_dir_fd, const char *app, bool has_health)
{
        _cleanup_free_ char *name = NULL;

        int r = file_reserve_at(status_dir_fd, STATUS_RESERVE);
        if (r >= 0)
                r = file_reserve_at(status_dir_fd, app);
        if (r >= 0 && has_health)
                r = health_name(app, &name);
        return r < 0 || !has_health ? r : file_reserve_at(status_dir_fd, name);
}

int health_status_read(int status_dir_fd, const char *app, HealthStatus *ret)
{
        _cleanup_health_status_ HealthStatus s = {.last.exit_status = -1};
        _cleanup_free_ char *name = NULL;

        int r = health_name(app, &name);
        if (r >= 0)
                r = read_record(status_dir_fd, name, health_fields, &s);
        if (r < 0)
                return r;
        *ret = s;
        s = (HealthStatus){};
        return 0;
}

int health_status_write(int status_dir_fd, const char *app, const HealthStatus *s)
{
        _cleanup_free_ char *name = NULL;
        int r = health_name(app, &name);

        return r < 0 ? r : write_record(status_dir_fd, name, health_fields, s, true);
}

void health_status_remove(int status_dir_fd, const char *app)
{
        _cleanup_free_ char *name = NULL;

        if (health_name(app, &name) >= 0)
                (void) unlinkat(status_dir_fd, name, 0);
}

void app_status_remove(int status_dir_fd, const char *app)
{
        (void) unlinkat(status_dir_fd, app, 0);
        health_status_remove(status_dir_fd, app);
        (void) replacement_status_write(status_dir_fd, app, NULL);
}

static int replacement_name(const char *app, char **ret)
{
        return xasprintf(ret, "%s.replacement", app);
}

void replacement_status_done(ReplacementStatus *s)
{
        free(s->image_id);
        free(s->image_name);
        *s = (ReplacementStatus){};
}

int replacement_status_read(int status_dir_fd, const char *app, ReplacementStatus *ret)
{
        _cleanup_(replacement_status_done) ReplacementStatus s = {};
        _cleanup_free_ char *name = NULL;

        int r = replacement_name(app, &name);
        if (r >= 0)
                r = read_record(status_dir_fd, name, replacement_fields, &s);
        if (r < 0)
                return r;
        *ret = s;
        s = (ReplacementStatus){};
        return 0;
}

int replacement_status_write(int status_dir_fd, const char *app, const ReplacementStatus *s)
{
        _cleanup_free_ char *name = NULL;
        int r = replacement_name(app, &name);

        if (r < 0)
                return r;
        if (s)
                return write_record(status_dir_fd, name, replacement_fields, s, false);
        return unlinkat(status_dir_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
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
                if (s->signal > 0)
                        return MIN(128 + s->signal, 255);
                return s->exit_status >= 0 ? s->exit_status : 125;
        case CAUSE_TIMEOUT: /* it has failed, whatever it says itself when it is stopped for that */
                if (s->signal > 0)
                        return MIN(128 + s->signal, 255);
                return s->exit_status > 0 ? s->exit_status : 125;
        default:
                return 125;
        }
}

bool app_status_failed(const AppStatus *s)
{
        return s->cause != CAUSE_NONE && app_status_to_exit_code(s) != 0;
}

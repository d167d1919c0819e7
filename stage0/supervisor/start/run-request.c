/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a client asks of the supervisor that it starts: one JSON object with a version, and descriptors by
 * the numbers that they have in the supervisor.
 *
 * Both come from one package, but the package may be replaced between the start of the one and of the other.
 * A supervisor takes requests of its own version and of older ones, whose members it all knows, and refuses
 * the rest by name: an unknown option is never ignored silently. */

#include "stage0/supervisor/start/foreground.h"

static const char *const register_modes[] = {
                [REGISTER_AUTO] = "auto",
                [REGISTER_NO] = "no",
                [REGISTER_YES] = "yes",
};

static const char *const inputs[_APP_INPUT_MAX] = {
                [INPUT_NULL] = "null",
                [INPUT_PIPE] = "pipe",
                [INPUT_TERMINAL] = "terminal",
};

static const char *const log_levels[] = {
                [LOG_LEVEL_NOTICE] = "notice", [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARNING] = "warning",
                [LOG_LEVEL_INFO] = "info",     [LOG_LEVEL_DEBUG] = "debug",
};

const char *register_mode_to_string(RegisterMode m)
{
        return (unsigned) m < ELEMENTSOF(register_modes) ? register_modes[m] : NULL;
}

int register_mode_from_string(const char *s)
{
        return word_index(register_modes, ELEMENTSOF(register_modes), s);
}

void foreground_done(ForegroundProxy *f)
{
        free(f->app);
        safe_close(f->in_fd);
        safe_close(f->socket);
        safe_close(f->report_fd);
        *f = FOREGROUND_PROXY_NULL;
}

void run_request_done(RunRequest *q)
{
        passed_sockets_done(&q->sockets);
        foreground_done(&q->front);
        safe_close(q->pod_fd);
        *q = RUN_REQUEST_NULL;
}

/* --- Members ------------------------------------------------------------------------------------------- */

/* A word of a table, stored as an enumeration or an int. */
typedef struct Words {
        const char *const *words;
        size_t n;
} Words;

#define WORDS(table) (&(const Words){table, ELEMENTSOF(table)})

typedef enum MemberType {
        MEMBER_BOOLEAN,
        MEMBER_NUMBER,
        MEMBER_PID,
        MEMBER_WORD,
        MEMBER_TEXT,
        MEMBER_FD
} MemberType;

typedef struct Member {
        const char *key;
        MemberType type;
        size_t offset;
        const Words *words;
} Member;

/* A missing member keeps the value of RUN_REQUEST_NULL. */
static const Member request_members[] = {
                {"detach", MEMBER_BOOLEAN, offsetof(RunRequest, options.detach)},
                {"remove", MEMBER_BOOLEAN, offsetof(RunRequest, options.remove)},
                {"quiet", MEMBER_BOOLEAN, offsetof(RunRequest, options.quiet)},
                {"raw", MEMBER_BOOLEAN, offsetof(RunRequest, options.raw)},
                {"strict", MEMBER_BOOLEAN, offsetof(RunRequest, options.strict)},
                {"keepUnit", MEMBER_BOOLEAN, offsetof(RunRequest, options.keep_unit)},
                {"register", MEMBER_WORD, offsetof(RunRequest, options.registration), WORDS(register_modes)},
                {"readyTimeoutUSec", MEMBER_NUMBER, offsetof(RunRequest, options.ready_timeout_usec)},
                {"startWaitUSec", MEMBER_NUMBER, offsetof(RunRequest, options.start_wait_usec)},
                {"logLevel", MEMBER_WORD, offsetof(RunRequest, log_level), WORDS(log_levels)},
                {"byUUID", MEMBER_BOOLEAN, offsetof(RunRequest, by_uuid)},
                {"client", MEMBER_PID, offsetof(RunRequest, client)},
                {"foreignPID", MEMBER_PID, offsetof(RunRequest, sockets.foreign_pid)},
                {"podFD", MEMBER_FD, offsetof(RunRequest, pod_fd)},
                {"reportFD", MEMBER_FD, offsetof(RunRequest, front.report_fd)},
                {"inputApp", MEMBER_TEXT, offsetof(RunRequest, front.app)},
                {"input", MEMBER_WORD, offsetof(RunRequest, front.kind), WORDS(inputs)},
                {"inputFD", MEMBER_FD, offsetof(RunRequest, front.in_fd)},
                {"attachFD", MEMBER_FD, offsetof(RunRequest, front.socket)},
};

static const Member socket_members[] = {
                {"fd", MEMBER_FD, offsetof(PassedSocket, fd)},
                {"number", MEMBER_PID, offsetof(PassedSocket, number)},
                {"name", MEMBER_TEXT, offsetof(PassedSocket, name)},
};

#define SOCKETS_KEY "sockets"
#define VERSION_KEY "version"

/* --- Formatting ---------------------------------------------------------------------------------------- */

/* 0: the member is missing. */
static int member_format(const Member *m, const void *data, json_object **ret)
{
        const void *p = (const char *) data + m->offset;

        switch (m->type) {
        case MEMBER_BOOLEAN:
                *ret = json_object_new_boolean(*(const bool *) p);
                break;
        case MEMBER_NUMBER:
                *ret = json_object_new_uint64(*(const uint64_t *) p);
                break;
        case MEMBER_PID:
                *ret = json_object_new_int(*(const int *) p);
                break;
        case MEMBER_WORD:
                *ret = json_object_new_string(m->words->words[*(const unsigned *) p]);
                break;
        case MEMBER_TEXT:
                if (!*(const char *const *) p)
                        return 0;
                *ret = json_new_string_lossy(*(const char *const *) p);
                break;
        case MEMBER_FD:
                if (*(const int *) p < 0)
                        return 0;
                *ret = json_object_new_int(*(const int *) p);
                break;
        }
        return 1;
}

static int members_format(const Member *members, size_t n, const void *data, json_object *o)
{
        for (size_t i = 0; i < n; i++) {
                json_object *v = NULL;

                if (member_format(&members[i], data, &v) > 0 && json_member_add(o, members[i].key, v) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int sockets_format(const PassedSockets *l, json_object *list)
{
        for (size_t i = 0; i < l->n; i++) {
                json_object *o = json_object_new_object();

                if (json_list_append(list, o) < 0 ||
                    members_format(socket_members, ELEMENTSOF(socket_members), &l->items[i], o) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int run_request_format(const RunRequest *q, char **ret)
{
        _cleanup_json_ json_object *o = json_object_new_object();
        json_object *list = json_object_new_array();

        int r = json_member_add(o, SOCKETS_KEY, list);
        if (r >= 0)
                r = json_member_add(o, VERSION_KEY, json_object_new_int(RUN_REQUEST_VERSION));
        if (r >= 0)
                r = members_format(request_members, ELEMENTSOF(request_members), q, o);
        if (r >= 0)
                r = sockets_format(&q->sockets, list);
        if (r < 0)
                return r;
        const char *text = json_print(o);
        char *copy = text ? strdup(text) : NULL;
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 0;
}

/* --- Parsing ------------------------------------------------------------------------------------------- */

/* A passed descriptor has no O_CLOEXEC yet; so no two members can name the same one. */
static int take_fd(int fd, int *ret)
{
        int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;

        if (flags < 0 || flags & FD_CLOEXEC || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                return -EBADF;
        safe_close(*ret);
        *ret = fd;
        return 0;
}

static int int_parse(json_object *v, int *ret)
{
        if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < -1 ||
            json_object_get_int64(v) > INT32_MAX)
                return -EINVAL;
        *ret = json_object_get_int(v);
        return 0;
}

static int member_parse(const Member *m, json_object *v, void *data)
{
        void *p = (char *) data + m->offset;
        const char *text = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
        int n, r;

        switch (m->type) {
        case MEMBER_BOOLEAN:
                if (!json_object_is_type(v, json_type_boolean))
                        return -EINVAL;
                *(bool *) p = json_object_get_boolean(v);
                return 0;
        case MEMBER_NUMBER:
                if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < 0)
                        return -EINVAL;
                *(uint64_t *) p = json_object_get_uint64(v);
                return 0;
        case MEMBER_PID:
                return int_parse(v, p);
        case MEMBER_WORD:
                n = word_index(m->words->words, m->words->n, text);
                if (n < 0)
                        return n;
                *(unsigned *) p = (unsigned) n;
                return 0;
        case MEMBER_TEXT:
                if (!text || *(char **) p)
                        return -EINVAL;
                *(char **) p = strdup(text);
                return *(char **) p ? 0 : -ENOMEM;
        case MEMBER_FD:
                r = int_parse(v, &n);
                return r < 0 ? r : take_fd(n, p);
        }
        return -EINVAL;
}

static int refuse(const char *key, int code, Error *e)
{
        if (code == -ENOMEM)
                return error_oom(e);
        if (code == -EBADF)
                return error_set(e, code, "The descriptor of '%s' was not passed to the supervisor", key);
        return error_set(e, code, "The value of '%s' is not one that this supervisor knows", key);
}

static int unknown(const char *key, Error *e)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(key);
        int r = error_set(e, -EPROTONOSUPPORT, "This supervisor does not know the option '%s'", shown ?: "");

        return error_hint(e, r, "acnspawn was installed anew meanwhile: try again.");
}

static int object_parse(const Member *members, size_t n, json_object *o, void *data, Error *e)
{
        json_object_object_foreach (o, key, v) {
                const Member *m = members;

                if (members == request_members && (streq(key, VERSION_KEY) || streq(key, SOCKETS_KEY)))
                        continue;
                while (m < members + n && !streq(m->key, key))
                        m++;
                if (m == members + n)
                        return unknown(key, e);
                int r = member_parse(m, v, data);
                if (r < 0)
                        return refuse(key, r, e);
        }
        return 0;
}

static int sockets_parse(json_object *list, PassedSockets *l, Error *e)
{
        size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : SIZE_MAX;

        if (n > STAGE1_SOCKETS_MAX)
                return refuse(SOCKETS_KEY, -EINVAL, e);
        l->items = calloc(n + 1, sizeof(PassedSocket));
        if (!l->items)
                return error_oom(e);
        for (size_t i = 0; i < n; i++) {
                json_object *o = json_object_array_get_idx(list, i);
                PassedSocket *s = &l->items[i];

                *s = (PassedSocket){.fd = -EBADF, .number = -1};
                l->n = i + 1;
                if (!json_object_is_type(o, json_type_object))
                        return refuse(SOCKETS_KEY, -EINVAL, e);
                int r = object_parse(socket_members, ELEMENTSOF(socket_members), o, s, e);
                if (r >= 0)
                        r = socket_describe(s, e);
                if (r < 0)
                        return error_prefix(e, r, "Socket %d, passed to the supervisor, cannot be used",
                                            s->number);
        }
        return 0;
}

static int check_version(json_object *o, Error *e)
{
        json_object *v = NULL;
        int version = -1;

        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, VERSION_KEY, &v) ||
            int_parse(v, &version) < 0 || version < 1)
                return error_set(e, -EINVAL, "The request to the supervisor is not valid");
        if ((unsigned) version <= RUN_REQUEST_VERSION)
                return 0;
        int r = error_set(e, -EPROTONOSUPPORT,
                          "This supervisor knows requests up to version %u, and this one is of version %d",
                          RUN_REQUEST_VERSION, version);
        return error_hint(e, r, "acnspawn was installed anew meanwhile: try again.");
}

int run_request_parse(const char *text, size_t size, RunRequest *ret, Error *e)
{
        _cleanup_(run_request_done) RunRequest q = RUN_REQUEST_NULL;
        _cleanup_json_ json_object *o = NULL;
        json_object *list = NULL;

        int r = json_parse_strict(text, size, &o, NULL, e);
        if (r < 0)
                return error_prefix(e, r, "The request to the supervisor is not valid");
        r = check_version(o, e);
        if (r >= 0)
                r = object_parse(request_members, ELEMENTSOF(request_members), o, &q, e);
        if (r >= 0 && json_object_object_get_ex(o, SOCKETS_KEY, &list))
                r = sockets_parse(list, &q.sockets, e);
        if (r < 0)
                return r;
        q.sockets.pid = q.client;
        *ret = q;
        q = RUN_REQUEST_NULL;
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of apps and of their health checks, which may be damaged: every status that is accepted can be written and
 * reads back the same. The first byte selects the kind: h, a record of a health check. */

#include "stage1/app-status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_status(const AppStatus *s, int dir_fd)
{
        _cleanup_app_status_ AppStatus again = {};

        if ((unsigned) s->state >= _APP_STATE_MAX || (unsigned) s->cause >= _APP_CAUSE_MAX ||
            (unsigned) s->readiness >= _APP_READINESS_MAX || s->exit_status < -1 || s->exit_status > 255 ||
            !app_state_to_string(s->state) || !app_cause_to_string(s->cause))
                abort();
        int code = app_status_to_exit_code(s);
        if (code < 0 || code > 255)
                abort();
        (void) app_status_failed(s);
        if (app_status_write(dir_fd, "again", s) < 0)
                return; /* it may be too long */
        if (app_status_read(dir_fd, "again", &again) < 0 || again.state != s->state ||
            again.cause != s->cause || again.exit_status != s->exit_status || again.starts != s->starts)
                abort();
}

static void check_health(int dir_fd)
{
        _cleanup_health_status_ HealthStatus h = {};

        if (health_status_read(dir_fd, "app", &h) < 0)
                return;
        if ((unsigned) h.state >= _HEALTH_STATE_MAX || !health_state_to_string(h.state))
                abort();
        (void) health_status_write(dir_fd, "app", &h);
}

static int put(int dir_fd, const char *name, const void *data, size_t size)
{
        (void) unlinkat(dir_fd, name, 0);
        return write_file_new_at(dir_fd, name, data, size, 0600);
}

static void try(int dir_fd, bool health, const void *data, size_t size)
{
        _cleanup_app_status_ AppStatus s = {};

        if (put(dir_fd, health ? "app.health" : "app", data, size) < 0)
                return;
        if (health)
                check_health(dir_fd);
        else if (app_status_read(dir_fd, "app", &s) >= 0)
                check_status(&s, dir_fd);
}

static char directory_path[] = "/tmp/fuzz-app-status-XXXXXX";

static void remove_directory(void)
{
        (void) rm_rf_at(AT_FDCWD, directory_path);
}

static int open_directory(void)
{
        static int fd = -EBADF;

        if (fd < 0 && mkdtemp(directory_path)) {
                (void) atexit(remove_directory);
                fd = open(directory_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        int dir_fd = open_directory();

        if (size > 0 && dir_fd >= 0)
                try(dir_fd, data[0] == 'h', data + 1, size - 1);
        return 0;
}

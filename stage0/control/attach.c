/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Being attached to an app: our standard streams are connected to its, by way of the process that runs the
 * pod, which has the other ends of all of them.
 *
 * Nothing of ours gets into the pod, neither our terminal nor what we have open: what is typed and written
 * goes through pipes, and what else there is to say is in packets beside them.
 */

#include "schema/settings.h"
#include "stage0/control/control-internal.h"
#include "stage0/report/report.h"

typedef struct Attachment {
        const AttachOptions *options;
        Forward forward;
        bool terminal;       /* the app's */
        AttachMessage reply; /* once it has ended */
} Attachment;

/* --- Which app? ---------------------------------------------------------------------------------------- */

static int input_of(const PodApp *app, AppInput *ret, Error *e)
{
        _cleanup_app_settings_ AppSettings s = {};
        int r = app_settings_read(app, &s, e);

        if (r >= 0)
                *ret = (AppInput) s.input;
        return r;
}

/* Of several apps the one that can be attached to at all. */
static const char *only_app(const Pod *p)
{
        const char *found = NULL;

        for (size_t i = 0; i < p->manifest->n_apps; i++) {
                AppInput input = INPUT_NULL;

                if (input_of(p->manifest->apps[i], &input, NULL) < 0 || input == INPUT_NULL)
                        continue;
                if (found)
                        return NULL;
                found = p->manifest->apps[i]->name;
        }
        return found;
}

static int find_app(Pod *p, const char *name, const PodApp **ret, AppInput *ret_input, Error *e)
{
        AppInput input = INPUT_NULL;

        int r = pod_find_app(p, name ?: only_app(p), ret, e);
        if (r >= 0)
                r = input_of(*ret, &input, e);
        if (r < 0)
                return r;
        *ret_input = input;
        if (input != INPUT_NULL)
                return 0;
        r = error_set(e, -ENOTCONN,
                      "App %s of pod %s cannot be attached to: its standard input is /dev/null",
                      (*ret)->name, pod_display_name(p));
        return error_hint(e, r,
                          "It takes --interactive or --stdin when the pod is made; 'acnspawn logs --follow "
                          "%s' shows what is written, and 'acnspawn enter %s' runs a command beside the "
                          "app.",
                          pod_display_name(p), pod_display_name(p));
}

/* --- The request --------------------------------------------------------------------------------------- */

static int refused(Pod *p, const PodApp *app, const AttachMessage *m, Error *e)
{
        if (m->status == -ESRCH)
                return app_not_running(p, app, e);
        return error_set(e, m->status < 0 ? m->status : -EBADMSG,
                         "Cannot be attached to app %s of pod %s: %s", app->name, pod_display_name(p),
                         m->text);
}

static int request(Attachment *a, Pod *p, const PodApp *app, Error *e)
{
        AttachMessage m = {.event = ATTACH_REQUEST};
        Forward *f = &a->forward;
        size_t n = 0;

        if (strlen(app->name) >= sizeof(m.text))
                return error_set(e, -ENAMETOOLONG, "The name of app %s is too long", app->name);
        memcpy(m.text, app->name, strlen(app->name));
        if (a->terminal)
                forward_get_size(&m.size);
        int r = attach_send(f->socket, &m, NULL, 0);
        if (r >= 0)
                r = attach_receive(f->socket, &m, f->fds, ELEMENTSOF(f->fds), &n);
        if (r <= 0)
                return error_set_errno(e, r < 0 ? r : -ECONNRESET,
                                       "The process that runs pod %s does not answer", pod_display_name(p));
        if (m.event == ATTACH_ACCEPTED && n == (a->terminal ? 2 : 3))
                return 0;
        return refused(p, app, &m, e);
}

static int connect_to(Attachment *a, Pod *p, const PodApp *app, Error *e)
{
        int r = attach_connect(p, &a->forward.socket);

        if (r == -ENOENT || r == -ECONNREFUSED)
                return app_not_running(p, app, e);
        if (r < 0)
                return error_set_errno(e, r, "Cannot reach the process that runs pod %s",
                                       pod_display_name(p));
        return request(a, p, app, e);
}

/* --- While it lasts ------------------------------------------------------------------------------------ */

static int on_event(Forward *f)
{
        Attachment *a = f->userdata;
        AttachMessage m;
        size_t n = 0;

        int r = attach_receive(f->socket, &m, NULL, 0, &n);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0)
                return -ECONNRESET;
        if (m.event == ATTACH_SKIPPED)
                a->options->skipped(m.n, f->terminal && isatty(STDIN_FILENO));
        if (m.event != ATTACH_ENDED)
                return 0;
        a->reply = m;
        return 1;
}

/* The app has its own ways of being signalled. */
static int on_signal(Forward *f, int sig)
{
        return 1;
}

static void on_resized(Forward *f, const struct winsize *size)
{
        const AttachMessage m = {.event = ATTACH_SIZE, .size = *size};

        (void) attach_send(f->socket, &m, NULL, 0);
}

static void on_last(Forward *f)
{
        const AttachMessage m = {.event = ATTACH_LAST};
        const Attachment *a = f->userdata;

        if (!a->options->keep_input)
                (void) attach_send(f->socket, &m, NULL, 0);
}

static const ForwardOps ops = {
                .what = "The app",
                .event = on_event,
                .signal = on_signal,
                .resized = on_resized,
                .last = on_last,
};

static int show_before(Pod *p, const PodApp *app, uint64_t lines, Error *e)
{
        const LogOptions o = {.app = app->name, .lines = lines};

        return lines > 0 ? pod_logs(p, &o, e) : 0;
}

static int stay(Attachment *a, Pod *p, const PodApp *app, Error *e)
{
        Forward *f = &a->forward;

        f->ops = &ops;
        f->userdata = a;
        f->terminal = a->terminal;
        f->leave_when_unread = true;
        f->keys = a->options->keys;
        int r = forward_streams(f, e);
        if (r == -ECONNRESET)
                return error_set(e, r, "The process that runs pod %s was killed, and app %s with it",
                                 pod_display_name(p), app->name);
        return r;
}

int attach_app(Pod *p, const AttachOptions *o, int *ret_status, bool *ret_left, Error *e)
{
        Attachment a = {.options = o, .forward = FORWARD_NULL};
        const PodApp *app = NULL;
        AppInput input = INPUT_NULL;

        int r = pod_check_running(p, e);
        if (r >= 0)
                r = find_app(p, o->app, &app, &input, e);
        if (r < 0)
                return r;
        a.terminal = input == INPUT_TERMINAL;
        r = connect_to(&a, p, app, e);
        if (r >= 0)
                r = show_before(p, app, o->lines, e);
        if (r >= 0)
                r = stay(&a, p, app, e);
        forward_done(&a.forward);
        if (r < 0)
                return r;
        *ret_left = a.forward.left;
        *ret_status = a.forward.signal > 0 ? 128 + a.forward.signal : a.forward.left ? 0 : a.reply.status;
        return 0;
}

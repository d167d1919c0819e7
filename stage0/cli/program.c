/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Common to all programs: initialization, messages of their operations, and the help of helper programs. */

#include <locale.h>
#include <signal.h>
#include <sys/prctl.h>

#include "stage0/cli/options.h"

/* If a program is started with a standard stream closed, the next file it opens would take its place. The
 * replacement fails on every use, as a closed descriptor does. */
static int open_standard_streams(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
                if (fcntl(fd, F_GETFD) >= 0)
                        continue;
                /* Without O_CLOEXEC: executed programs need standard streams as well. */
                if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
                        return -errno;
        }
        return 0;
}

static void ignore_signal(int sig) {}

/* If a reader closes the pipe, write() fails instead of killing the process. A handler, unlike SIG_IGN, is
 * not inherited by executed programs. */
static void catch_sigpipe(void)
{
        const struct sigaction sa = {.sa_handler = ignore_signal, .sa_flags = SA_RESTART};

        (void) sigaction(SIGPIPE, &sa, NULL);
}

/* What some parents hand on by mistake. Signals that stop a pod may be pending for the supervisor, which WAITS for them; ignored
 * ones are the caller's words (nohup). */
static void leave_parent(bool waits)
{
        static const int kept[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT};
        sigset_t set;

        umask_set_own();
        (void) signal(SIGCHLD, SIG_DFL); /* ignored, no child could be waited for */
        sigfillset(&set);
        for (size_t i = 0; waits && i < ELEMENTSOF(kept); i++)
                sigdelset(&set, kept[i]);
        (void) sigprocmask(SIG_UNBLOCK, &set, NULL);
        /* With SECBIT_NO_SETUID_FIXUP a process would keep its capabilities with another user. */
        (void) prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
        (void) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

void program_message(LogLevel level, const char *line, void *userdata)
{
        _cleanup_free_ char *shown = text_escape_for_terminal(line);

        log_message(level, "%s", shown ?: "");
}

int program_start(bool waits_for_signals)
{
        int r = open_standard_streams();

        if (r < 0)
                return r;
        leave_parent(waits_for_signals);
        (void) setlocale(LC_CTYPE, "");
        catch_sigpipe();
        return 0;
}

/* The width of the name of an option and of its value in the help. */
static size_t label_width(const Option *o)
{
        return strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0);
}

int program_show_help(const char *introduction, const Option *options)
{
        size_t width = 0;

        for (const Option *o = options; !option_is_end(o); o++)
                width = MAX(width, label_width(o));
        fputs(introduction, stdout);
        for (const Option *o = options; !option_is_end(o); o++)
                printf("     --%s%s%s%*s %s\n", o->name, o->value ? "=" : "", o->value ?: "",
                       (int) (width - label_width(o)), "", o->help);
        return fflush(stdout) == 0 ? 0 : -errno;
}

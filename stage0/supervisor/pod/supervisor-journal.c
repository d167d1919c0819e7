/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages about the life of a pod, for the journal of the host: of a pod whose apps have their output there. Their
 * identifiers are explained in units/acnspawn.catalog. */

#include <inttypes.h>
#include <syslog.h>

#include "stage0/supervisor/pod/supervisor-internal.h"
#include "stage1/backoff.h"

#define POD_UP_ID "393ac93cb9794588a4811b77d7ab0316"
#define POD_ENDED_ID "52dd2764ea91455589b22c8aff7c0b9c"
#define APP_STARTED_ID "3c7b66498c244d12823a1d732b97a3d7"
#define APP_ENDED_ID "c35fdd9ed7ed4ae0ab12db353e96e818"
#define APP_UNHEALTHY_ID "7393da689ecf47119be12488bbad2b60"

_printf_(6, 7) static void report(Supervisor *s, const AppInstance *app, const char *id, int priority,
                                  int exit_status, const char *format, ...)
{
        _cleanup_free_ char *message = NULL;
        va_list ap;

        va_start(ap, format);
        int r = xvasprintf(&message, format, ap);
        va_end(ap);
        if (r < 0)
                return;
        forwarders_report(s->forwarders, app,
                          &(HostRecord){.message_id = id,
                                        .priority = priority,
                                        .exit_status = exit_status,
                                        .message = message,
                                        .size = strlen(message)});
}

void supervisor_journal_up(Supervisor *s)
{
        report(s, NULL, POD_UP_ID, LOG_INFO, -1, "Pod %s is up.", pod_display_name(s->pod));
}

void supervisor_journal_end(Supervisor *s, int status)
{
        const char *name = pod_display_name(s->pod);

        if (status < 0)
                report(s, NULL, POD_ENDED_ID, LOG_ERR, -1, "Pod %s has failed.", name);
        else
                report(s, NULL, POD_ENDED_ID, status == 0 ? LOG_INFO : LOG_WARNING, status,
                       "Pod %s has ended with status %d.", name, status);
        forwarders_sync_host(s->forwarders); /* "logs" finds all lines when the pod has ended */
}

void supervisor_journal_app_started(Supervisor *s, const AppInstance *app)
{
        const AppStatus *status = &app->status;

        if (status->state != APP_RUNNING)
                return;
        if (status->starts > 1)
                report(s, app, APP_STARTED_ID, LOG_INFO, -1,
                       "App %s has started, for the %" PRIu64 ". time.", app_instance_path(app),
                       status->starts);
        else
                report(s, app, APP_STARTED_ID, LOG_INFO, -1, "App %s has started.", app_instance_path(app));
}

void supervisor_journal_app_ended(Supervisor *s, const AppInstance *app)
{
        const AppStatus *status = &app->status;
        bool failed = !backoff_ended_successfully(status);
        int priority = failed ? LOG_WARNING : LOG_INFO;

        if (status->message)
                report(s, app, APP_ENDED_ID, priority, status->exit_status, "App %s has ended: %s.",
                       app_instance_path(app), status->message);
        else if (status->signal > 0)
                report(s, app, APP_ENDED_ID, priority, -1, "App %s was ended by SIG%s (%s).",
                       app_instance_path(app), sigabbrev_np(status->signal) ?: "?",
                       app_cause_to_string(status->cause));
        else if (status->exit_status >= 0)
                report(s, app, APP_ENDED_ID, priority, status->exit_status,
                       "App %s has exited with status %d.", app_instance_path(app), status->exit_status);
        else
                report(s, app, APP_ENDED_ID, priority, -1, "App %s has ended (%s).", app_instance_path(app),
                       app_cause_to_string(status->cause));
}

void supervisor_journal_app_unhealthy(Supervisor *s, const AppInstance *app)
{
        report(s, app, APP_UNHEALTHY_ID, LOG_WARNING, -1, "App %s is unhealthy%s%s.", app_instance_path(app),
               app->health.message ? ": " : "", app->health.message ?: "");
}

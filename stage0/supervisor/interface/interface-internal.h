/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the files of the interface share: interface*.c. */

#include "stage0/supervisor/exec/exec.h"
#include "stage0/supervisor/interface/interface.h"
#include "varlink/varlink.h"

#define EVENTS_KEPT 512U

typedef struct Monitor {
        struct Monitor *next;
        VarlinkCall *call;
} Monitor;

struct Interface {
        Pod *pod;
        sd_event *event;
        AppTable *apps;
        FileKeeper *keeper;
        InterfaceOps ops;
        void *userdata;
        VarlinkServer *server;
        Monitor *monitors;
        struct AppCall *starts; /* calls whose job is done, and whose app is not executed yet */
        struct AppCall *lost; /* calls whose job was lost with the connection to systemd, the oldest first */
        Monitor *stops;       /* calls that wait for the end of the pod */
        struct Attachment *attachments;
        struct LogReader *log_readers;
        struct DeferredCall *
                        deferred; /* calls that wait for the connection to the pod's systemd, the oldest first */
        struct PauseCall *pauses; /* the first one is being processed */
        enum {
                PAUSES_IDLE,    /* or there is none */
                PAUSES_REQUEST, /* passed to pod-pause.c, which may answer at once */
                PAUSES_WAIT,    /* waits for the answer */
        } pausing;
        sd_event_source *kill_timer;
        int freezer_fd; /* negative: not open yet, or there is none */
        bool ended;
        bool killed;               /* by a call, or since it did not stop in time */
        Execs *execs;              /* NULL: the pod has ended */
        char *events[EVENTS_KEPT]; /* a ring of JSON texts: event N is at N % EVENTS_KEPT */
        uint64_t sequence;         /* of the last event; 0: there was none */
};

/* --- interface.c --------------------------------------------------------------------------------------- */

bool interface_pod_is_paused(Interface *i);
/* Listens on the socket of an interface that is made. */
int interface_serve(Interface *i, Error *e);

/* --- interface-apps.c ---------------------------------------------------------------------------------- */

/* The pod has ended: answers the calls that wait for an exec, or for a connection to the pod's systemd. */
void interface_drop_starts(Interface *i);
/* There is a new connection to the pod's systemd: repeats the calls whose jobs were lost with the last one. */
void interface_repeat_calls(Interface *i);
/* "created", "starting", "running", "stopping" or "exited". */
const char *interface_app_state(const Interface *i, const AppInstance *app);
/* Whether it is a task of an executor's pod that has ended before the app was started. */
bool interface_task_is_lost(const Interface *i, const AppInstance *app);
/* The App of the interface; NULL: out of memory. */
json_object *interface_app_json(const Interface *i, const AppInstance *app);

/* The app of this name, or NULL. One that is being added is there for clients when its event has been sent. */
AppInstance *interface_find_app(const Interface *i, const char *name);

/* The app that a call names, if something can be done to it now; STARTS: if it could be started. 1: the call was answered
 * with an error, or waits for the connection to the pod's systemd, from when on METHOD is called again. */
int interface_begin(Interface *i, VarlinkCall *call, json_object *parameters, bool starts,
                    VarlinkMethodFunction method, AppInstance **ret);
/* Answers with an error that has up to two texts as parameters; KEY and KEY2 may be NULL. */
int interface_reply_error(VarlinkCall *call, const char *error, const char *key, const char *value,
                          const char *key2, const char *value2);
/* Answers with an error that has message, hint and errno of E as parameters. CODE is negative. */
int interface_reply_failure(VarlinkCall *call, const char *error, int code, const Error *e);
/* Answers with AppRefused. CODE is negative. */
int interface_refuse(VarlinkCall *call, int code, const char *format, ...) _printf_(3, 4);
int interface_wrong_state(Interface *i, VarlinkCall *call, const AppInstance *app);

int interface_start_app(VarlinkCall *call, json_object *parameters, void *userdata);
int interface_stop_app(VarlinkCall *call, json_object *parameters, void *userdata);
int interface_restart_app(VarlinkCall *call, json_object *parameters, void *userdata);

/* --- interface-deferred.c ------------------------------------------------------------------------------ */

/* Calls METHOD, with these arguments, when the connection to the pod's systemd stands and the states of the apps are
 * known. If the pod ends before, the call is answered with an error. */
int interface_defer(Interface *i, VarlinkCall *call, json_object *parameters, VarlinkMethodFunction method);
/* Replies with an error to the calls that wait. */
void interface_drop_deferred(Interface *i);

/* --- interface-pause.c --------------------------------------------------------------------------------- */

int interface_pause_pod(VarlinkCall *call, json_object *parameters, void *userdata);
int interface_resume_pod(VarlinkCall *call, json_object *parameters, void *userdata);

/* --- interface-set.c ----------------------------------------------------------------------------------- */

int interface_add_app(VarlinkCall *call, json_object *parameters, void *userdata);
int interface_launch_group(VarlinkCall *call, json_object *parameters, void *userdata);
int interface_remove_app(VarlinkCall *call, json_object *parameters, void *userdata);
int interface_replace_app(VarlinkCall *call, json_object *parameters, void *userdata);

/* --- interface-credentials.c --------------------------------------------------------------------------- */

int interface_compare_credentials(VarlinkCall *call, json_object *parameters, void *userdata);

/* --- interface-signal.c -------------------------------------------------------------------------------- */

int interface_signal_app(VarlinkCall *call, json_object *parameters, void *userdata);

/* --- interface-exec.c ---------------------------------------------------------------------------------- */

int interface_open_execs(Interface *i, Error *e);
int interface_exec(VarlinkCall *call, json_object *parameters, void *userdata);
int interface_resize_terminal(VarlinkCall *call, json_object *parameters, void *userdata);

/* --- interface-attach.c -------------------------------------------------------------------------------- */

int interface_attach(VarlinkCall *call, json_object *parameters, void *userdata);
/* The same for an app that may launch others. To disconnect is the end of the standard input; there can be fewer such clients. */
int interface_attach_of_app(VarlinkCall *call, json_object *parameters, void *userdata);
/* NULL: no client has this id. */
const AppInstance *interface_attached_app(const Interface *i, int64_t id);
int interface_close_stdin(VarlinkCall *call, json_object *parameters, void *userdata);
/* -ENOTTY: no client with this id is attached to a terminal. */
int interface_resize_attached(Interface *i, int64_t id, const struct winsize *size);
void interface_drop_attachments(Interface *i);

/* --- interface-logs.c ---------------------------------------------------------------------------------- */

int interface_logs(VarlinkCall *call, json_object *parameters, void *userdata);
/* The pod has ended, and all output is logged: replies to the calls whose clients read, within some
 * seconds. */
void interface_end_logs(Interface *i);

/* --- interface-stats.c --------------------------------------------------------------------------------- */

int interface_stats(VarlinkCall *call, json_object *parameters, void *userdata);

/* --- interface-limits.c -------------------------------------------------------------------------------- */

int interface_update_app(VarlinkCall *call, json_object *parameters, void *userdata);
/* Pure. The differences of AFTER, the text of a slice, from BEFORE. */
size_t interface_limit_properties(const char *before, const char *after,
                                  UnitProperty ret[static UNIT_PROPERTIES_MAX]);

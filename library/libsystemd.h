/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* libsystemd, loaded when one of these functions is called for the first time; see library.h. */

#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include "library/library.h"

#define SYSTEMD_FUNCTIONS(F)                                                                                \
        F(sd_bus_add_match)                                                                                 \
        F(sd_bus_attach_event)                                                                              \
        F(sd_bus_call)                                                                                      \
        F(sd_bus_call_async)                                                                                \
        F(sd_bus_call_method)                                                                               \
        F(sd_bus_call_method_async)                                                                         \
        F(sd_bus_close_unref)                                                                               \
        F(sd_bus_error_copy)                                                                                \
        F(sd_bus_error_free)                                                                                \
        F(sd_bus_error_has_name)                                                                            \
        F(sd_bus_flush_close_unref)                                                                         \
        F(sd_bus_get_property_string)                                                                       \
        F(sd_bus_get_property_trivial)                                                                      \
        F(sd_bus_get_unique_name)                                                                           \
        F(sd_bus_match_signal)                                                                              \
        F(sd_bus_message_append)                                                                            \
        F(sd_bus_message_append_array)                                                                      \
        F(sd_bus_message_append_strv)                                                                       \
        F(sd_bus_message_close_container)                                                                   \
        F(sd_bus_message_enter_container)                                                                   \
        F(sd_bus_message_exit_container)                                                                    \
        F(sd_bus_message_get_error)                                                                         \
        F(sd_bus_message_get_path)                                                                          \
        F(sd_bus_message_get_sender)                                                                        \
        F(sd_bus_message_new_method_call)                                                                   \
        F(sd_bus_message_open_container)                                                                    \
        F(sd_bus_message_read)                                                                              \
        F(sd_bus_message_ref)                                                                               \
        F(sd_bus_message_skip)                                                                              \
        F(sd_bus_is_open)                                                                                   \
        F(sd_bus_message_unref)                                                                             \
        F(sd_bus_new)                                                                                       \
        F(sd_bus_open_system)                                                                               \
        F(sd_bus_path_encode)                                                                               \
        F(sd_bus_process)                                                                                   \
        F(sd_bus_set_address)                                                                               \
        F(sd_bus_set_fd)                                                                                    \
        F(sd_bus_set_method_call_timeout)                                                                   \
        F(sd_bus_slot_unref)                                                                                \
        F(sd_bus_start)                                                                                     \
        F(sd_bus_wait)                                                                                      \
        F(sd_event_add_defer)                                                                               \
        F(sd_event_add_io)                                                                                  \
        F(sd_event_add_signal)                                                                              \
        F(sd_event_add_time_relative)                                                                       \
        F(sd_event_exit)                                                                                    \
        F(sd_event_get_fd)                                                                                  \
        F(sd_event_loop)                                                                                    \
        F(sd_event_new)                                                                                     \
        F(sd_event_run)                                                                                     \
        F(sd_event_set_watchdog)                                                                            \
        F(sd_event_source_disable_unref)                                                                    \
        F(sd_event_source_get_enabled)                                                                      \
        F(sd_event_source_set_enabled)                                                                      \
        F(sd_event_source_set_io_events)                                                                    \
        F(sd_event_source_set_io_fd_own)                                                                    \
        F(sd_event_source_set_priority)                                                                     \
        F(sd_event_source_set_ratelimit)                                                                    \
        F(sd_event_source_set_time_relative)                                                                \
        F(sd_event_unref)                                                                                   \
        F(sd_id128_from_string)                                                                             \
        F(sd_id128_to_string)                                                                               \
        F(sd_journal_add_match)                                                                             \
        F(sd_journal_close)                                                                                 \
        F(sd_journal_get_cursor)                                                                            \
        F(sd_journal_get_data)                                                                              \
        F(sd_journal_get_realtime_usec)                                                                     \
        F(sd_journal_next)                                                                                  \
        F(sd_journal_open_files_fd)                                                                         \
        F(sd_journal_previous)                                                                              \
        F(sd_journal_previous_skip)                                                                         \
        F(sd_journal_seek_cursor)                                                                           \
        F(sd_journal_seek_head)                                                                             \
        F(sd_journal_seek_realtime_usec)                                                                    \
        F(sd_journal_seek_tail)                                                                             \
        F(sd_journal_set_data_threshold)                                                                    \
        F(sd_journal_test_cursor)                                                                           \
        F(sd_listen_fds)                                                                                    \
        F(sd_pid_notify)

typedef struct SystemdFunctions {
        SYSTEMD_FUNCTIONS(LIBRARY_MEMBER)
} SystemdFunctions;

extern SystemdFunctions systemd_functions;
extern Library systemd_library;

#define SYSTEMD_CALL(function, ...) LIBRARY_CALL(systemd_library, systemd_functions.function, __VA_ARGS__)

#define sd_bus_add_match(...) SYSTEMD_CALL(sd_bus_add_match, __VA_ARGS__)
#define sd_bus_attach_event(...) SYSTEMD_CALL(sd_bus_attach_event, __VA_ARGS__)
#define sd_bus_call(...) SYSTEMD_CALL(sd_bus_call, __VA_ARGS__)
#define sd_bus_call_async(...) SYSTEMD_CALL(sd_bus_call_async, __VA_ARGS__)
#define sd_bus_call_method(...) SYSTEMD_CALL(sd_bus_call_method, __VA_ARGS__)
#define sd_bus_call_method_async(...) SYSTEMD_CALL(sd_bus_call_method_async, __VA_ARGS__)
#define sd_bus_close_unref(...) SYSTEMD_CALL(sd_bus_close_unref, __VA_ARGS__)
#define sd_bus_error_copy(...) SYSTEMD_CALL(sd_bus_error_copy, __VA_ARGS__)
#define sd_bus_error_free(...) SYSTEMD_CALL(sd_bus_error_free, __VA_ARGS__)
#define sd_bus_error_has_name(...) SYSTEMD_CALL(sd_bus_error_has_name, __VA_ARGS__)
#define sd_bus_flush_close_unref(...) SYSTEMD_CALL(sd_bus_flush_close_unref, __VA_ARGS__)
#define sd_bus_get_property_string(...) SYSTEMD_CALL(sd_bus_get_property_string, __VA_ARGS__)
#define sd_bus_get_property_trivial(...) SYSTEMD_CALL(sd_bus_get_property_trivial, __VA_ARGS__)
#define sd_bus_get_unique_name(...) SYSTEMD_CALL(sd_bus_get_unique_name, __VA_ARGS__)
#define sd_bus_match_signal(...) SYSTEMD_CALL(sd_bus_match_signal, __VA_ARGS__)
#define sd_bus_message_append(...) SYSTEMD_CALL(sd_bus_message_append, __VA_ARGS__)
#define sd_bus_message_append_array(...) SYSTEMD_CALL(sd_bus_message_append_array, __VA_ARGS__)
#define sd_bus_message_append_strv(...) SYSTEMD_CALL(sd_bus_message_append_strv, __VA_ARGS__)
#define sd_bus_message_close_container(...) SYSTEMD_CALL(sd_bus_message_close_container, __VA_ARGS__)
#define sd_bus_message_enter_container(...) SYSTEMD_CALL(sd_bus_message_enter_container, __VA_ARGS__)
#define sd_bus_message_exit_container(...) SYSTEMD_CALL(sd_bus_message_exit_container, __VA_ARGS__)
#define sd_bus_message_get_error(...) SYSTEMD_CALL(sd_bus_message_get_error, __VA_ARGS__)
#define sd_bus_message_get_path(...) SYSTEMD_CALL(sd_bus_message_get_path, __VA_ARGS__)
#define sd_bus_message_get_sender(...) SYSTEMD_CALL(sd_bus_message_get_sender, __VA_ARGS__)
#define sd_bus_message_new_method_call(...) SYSTEMD_CALL(sd_bus_message_new_method_call, __VA_ARGS__)
#define sd_bus_message_open_container(...) SYSTEMD_CALL(sd_bus_message_open_container, __VA_ARGS__)
#define sd_bus_message_read(...) SYSTEMD_CALL(sd_bus_message_read, __VA_ARGS__)
#define sd_bus_message_ref(...) SYSTEMD_CALL(sd_bus_message_ref, __VA_ARGS__)
#define sd_bus_message_skip(...) SYSTEMD_CALL(sd_bus_message_skip, __VA_ARGS__)
#define sd_bus_message_unref(...) SYSTEMD_CALL(sd_bus_message_unref, __VA_ARGS__)
#define sd_bus_new(...) SYSTEMD_CALL(sd_bus_new, __VA_ARGS__)
#define sd_bus_open_system(...) SYSTEMD_CALL(sd_bus_open_system, __VA_ARGS__)
#define sd_bus_path_encode(...) SYSTEMD_CALL(sd_bus_path_encode, __VA_ARGS__)
#define sd_bus_process(...) SYSTEMD_CALL(sd_bus_process, __VA_ARGS__)
#define sd_bus_set_address(...) SYSTEMD_CALL(sd_bus_set_address, __VA_ARGS__)
#define sd_bus_set_fd(...) SYSTEMD_CALL(sd_bus_set_fd, __VA_ARGS__)
#define sd_bus_set_method_call_timeout(...) SYSTEMD_CALL(sd_bus_set_method_call_timeout, __VA_ARGS__)
#define sd_bus_slot_unref(...) SYSTEMD_CALL(sd_bus_slot_unref, __VA_ARGS__)
#define sd_bus_is_open(...) SYSTEMD_CALL(sd_bus_is_open, __VA_ARGS__)
#define sd_bus_start(...) SYSTEMD_CALL(sd_bus_start, __VA_ARGS__)
#define sd_bus_wait(...) SYSTEMD_CALL(sd_bus_wait, __VA_ARGS__)
#define sd_event_add_defer(...) SYSTEMD_CALL(sd_event_add_defer, __VA_ARGS__)
#define sd_event_add_io(...) SYSTEMD_CALL(sd_event_add_io, __VA_ARGS__)
#define sd_event_add_signal(...) SYSTEMD_CALL(sd_event_add_signal, __VA_ARGS__)
#define sd_event_add_time_relative(...) SYSTEMD_CALL(sd_event_add_time_relative, __VA_ARGS__)
#define sd_event_exit(...) SYSTEMD_CALL(sd_event_exit, __VA_ARGS__)
#define sd_event_get_fd(...) SYSTEMD_CALL(sd_event_get_fd, __VA_ARGS__)
#define sd_event_loop(...) SYSTEMD_CALL(sd_event_loop, __VA_ARGS__)
#define sd_event_new(...) SYSTEMD_CALL(sd_event_new, __VA_ARGS__)
#define sd_event_run(...) SYSTEMD_CALL(sd_event_run, __VA_ARGS__)
#define sd_event_set_watchdog(...) SYSTEMD_CALL(sd_event_set_watchdog, __VA_ARGS__)
#define sd_event_source_disable_unref(...) SYSTEMD_CALL(sd_event_source_disable_unref, __VA_ARGS__)
#define sd_event_source_get_enabled(...) SYSTEMD_CALL(sd_event_source_get_enabled, __VA_ARGS__)
#define sd_event_source_set_enabled(...) SYSTEMD_CALL(sd_event_source_set_enabled, __VA_ARGS__)
#define sd_event_source_set_io_events(...) SYSTEMD_CALL(sd_event_source_set_io_events, __VA_ARGS__)
#define sd_event_source_set_io_fd_own(...) SYSTEMD_CALL(sd_event_source_set_io_fd_own, __VA_ARGS__)
#define sd_event_source_set_priority(...) SYSTEMD_CALL(sd_event_source_set_priority, __VA_ARGS__)
#define sd_event_source_set_ratelimit(...) SYSTEMD_CALL(sd_event_source_set_ratelimit, __VA_ARGS__)
#define sd_event_source_set_time_relative(...) SYSTEMD_CALL(sd_event_source_set_time_relative, __VA_ARGS__)
#define sd_event_unref(...) SYSTEMD_CALL(sd_event_unref, __VA_ARGS__)
#define sd_id128_from_string(...) SYSTEMD_CALL(sd_id128_from_string, __VA_ARGS__)
#define sd_id128_to_string(...) SYSTEMD_CALL(sd_id128_to_string, __VA_ARGS__)
#define sd_journal_add_match(...) SYSTEMD_CALL(sd_journal_add_match, __VA_ARGS__)
#define sd_journal_close(...) SYSTEMD_CALL(sd_journal_close, __VA_ARGS__)
#define sd_journal_get_cursor(...) SYSTEMD_CALL(sd_journal_get_cursor, __VA_ARGS__)
#define sd_journal_get_data(...) SYSTEMD_CALL(sd_journal_get_data, __VA_ARGS__)
#define sd_journal_get_realtime_usec(...) SYSTEMD_CALL(sd_journal_get_realtime_usec, __VA_ARGS__)
#define sd_journal_next(...) SYSTEMD_CALL(sd_journal_next, __VA_ARGS__)
#define sd_journal_open_files_fd(...) SYSTEMD_CALL(sd_journal_open_files_fd, __VA_ARGS__)
#define sd_journal_previous(...) SYSTEMD_CALL(sd_journal_previous, __VA_ARGS__)
#define sd_journal_previous_skip(...) SYSTEMD_CALL(sd_journal_previous_skip, __VA_ARGS__)
#define sd_journal_seek_cursor(...) SYSTEMD_CALL(sd_journal_seek_cursor, __VA_ARGS__)
#define sd_journal_seek_head(...) SYSTEMD_CALL(sd_journal_seek_head, __VA_ARGS__)
#define sd_journal_seek_realtime_usec(...) SYSTEMD_CALL(sd_journal_seek_realtime_usec, __VA_ARGS__)
#define sd_journal_seek_tail(...) SYSTEMD_CALL(sd_journal_seek_tail, __VA_ARGS__)
#define sd_journal_set_data_threshold(...) SYSTEMD_CALL(sd_journal_set_data_threshold, __VA_ARGS__)
#define sd_journal_test_cursor(...) SYSTEMD_CALL(sd_journal_test_cursor, __VA_ARGS__)
#define sd_listen_fds(...) SYSTEMD_CALL(sd_listen_fds, __VA_ARGS__)
#define sd_pid_notify(...) SYSTEMD_CALL(sd_pid_notify, __VA_ARGS__)

/* For _cleanup_(), which needs a function, not one of the above macros. */
static inline void bus_error_done(sd_bus_error *error)
{
        sd_bus_error_free(error);
}

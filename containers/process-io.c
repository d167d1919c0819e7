/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of the input of an app, after the first, which is a call: bytes for its standard input, the size of a terminal, or a
 * heartbeat, which has no effect. Strict as calls are. */

#include "containers/call-internal.h"

static const char place[] = "process_io";

void process_io_done(ProcessIo *p)
{
        free(p->data);
        *p = (ProcessIo){};
}

static int read_data(json_object *io, ProcessIo *p, Error *e)
{
        static const char *const keys[] = {"data", "type", NULL};
        const char *type = NULL, *text = NULL;
        json_object *data = NULL;

        int r = call_get(io, place, "data", json_type_object, true, &data, e);
        if (r >= 0)
                r = call_check_keys(data, "data", keys, e);
        if (r >= 0)
                r = call_get_text(data, "data", "type", true, &type, e);
        if (r >= 0 && !streq(type, "STDIN"))
                return call_wrong(e, "data", "type", "has to be STDIN");
        if (r >= 0)
                r = call_get_text(data, "data", "data", true, &text, e);
        if (r < 0)
                return r;
        r = base64_decode(text, strlen(text), &p->data, &p->size);
        if (r == -EINVAL)
                return call_wrong(e, "data", "data", "is not base64");
        return r < 0 ? error_oom(e) : 0;
}

static int read_number(json_object *size, const char *key, unsigned short *ret, Error *e)
{
        json_object *v = NULL;
        int r = call_get(size, "window_size", key, json_type_int, true, &v, e);

        if (r < 0)
                return r;
        int64_t n = json_object_get_int64(v);
        if (n < 1 || n > UINT16_MAX)
                return call_wrong(e, "window_size", key, "is not the size of a terminal");
        *ret = (unsigned short) n;
        return 0;
}

int call_read_window(json_object *tty_info, bool needed, unsigned short *ret_rows,
                     unsigned short *ret_columns, Error *e)
{
        static const char *const keys[] = {"window_size", NULL}, *const size_keys[] = {"columns", "rows",
                                                                                       NULL};
        json_object *size = NULL;

        int r = call_check_keys(tty_info, "tty_info", keys, e);
        if (r >= 0)
                r = call_get(tty_info, "tty_info", "window_size", json_type_object, needed, &size, e);
        if (r < 0 || !size)
                return r;
        r = call_check_keys(size, "window_size", size_keys, e);
        if (r >= 0)
                r = read_number(size, "rows", ret_rows, e);
        return r < 0 ? r : read_number(size, "columns", ret_columns, e);
}

static int read_control(json_object *io, ProcessIo *p, Error *e)
{
        static const char *const keys[] = {"heartbeat", "tty_info", "type", NULL};
        json_object *control = NULL, *info = NULL;
        const char *type = NULL;

        int r = call_get(io, place, "control", json_type_object, true, &control, e);
        if (r >= 0)
                r = call_check_keys(control, "control", keys, e);
        if (r >= 0)
                r = call_get_text(control, "control", "type", true, &type, e);
        if (r < 0)
                return r;
        if (streq(type, "HEARTBEAT")) {
                p->kind = IO_HEARTBEAT;
                return 0;
        }
        if (!streq(type, "TTY_INFO"))
                return call_wrong(e, "control", "type", "has to be TTY_INFO or HEARTBEAT");
        p->kind = IO_SIZE;
        r = call_get(control, "control", "tty_info", json_type_object, true, &info, e);
        return r < 0 ? r : call_read_window(info, true, &p->rows, &p->columns, e);
}

static int read_io(json_object *input, ProcessIo *p, Error *e)
{
        static const char *const keys[] = {"process_io", "type", NULL}, *const io_keys[] = {"control",
                                                                                            "data", "type",
                                                                                            NULL};
        json_object *io = NULL;
        const char *type = NULL;

        int r = call_check_keys(input, "attach_container_input", keys, e);
        if (r >= 0)
                r = call_get_text(input, "attach_container_input", "type", true, &type, e);
        if (r >= 0 && !streq(type, "PROCESS_IO"))
                return call_wrong(e, "attach_container_input", "type",
                                  "has to be PROCESS_IO after the first record");
        if (r >= 0)
                r = call_get(input, "attach_container_input", place, json_type_object, true, &io, e);
        if (r >= 0)
                r = call_check_keys(io, place, io_keys, e);
        if (r >= 0)
                r = call_get_text(io, place, "type", true, &type, e);
        if (r < 0)
                return r;
        if (streq(type, "DATA"))
                return read_data(io, p, e);
        return streq(type, "CONTROL") ? read_control(io, p, e)
                                      : call_wrong(e, place, "type", "has to be DATA or CONTROL");
}

int process_io_parse(const char *text, size_t size, ProcessIo *ret, Error *e)
{
        static const char *const keys[] = {"attach_container_input", "type", NULL};
        _cleanup_json_ json_object *o = NULL;
        json_object *input = NULL;
        const char *type = NULL;
        ProcessIo p = {};

        int r = json_parse_bounded(text, size, CONTROL_DEPTH_MAX, CONTROL_VALUES_MAX, &o, NULL, e);
        if (r < 0)
                return r;
        if (!json_object_is_type(o, json_type_object))
                return error_set(e, -EINVAL, "The record is not an object");
        r = call_check_keys(o, "", keys, e);
        if (r >= 0)
                r = call_get_text(o, "", "type", true, &type, e);
        if (r >= 0 && !streq(type, "ATTACH_CONTAINER_INPUT"))
                return call_wrong(e, "", "type", "has to be ATTACH_CONTAINER_INPUT");
        if (r >= 0)
                r = call_get(o, "", "attach_container_input", json_type_object, true, &input, e);
        if (r >= 0)
                r = read_io(input, &p, e);
        if (r < 0) {
                process_io_done(&p);
                return r;
        }
        *ret = p;
        return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Units that a pod has only if it is registered with the host's systemd-machined: systemctl -M reaches the
 * pod's systemd through them.
 *
 *     default.target  --Wants, After-->  acnspawn-bus.socket
 *                                       with every connection: acnspawn-bus@….service, see launch/bus.c
 *
 * They are not stopped with the pod's apps, so that a client that requests the end of the pod over this bus
 * gets its reply. The signal that machinectl reboot sends to PID 1 ends the pod like any other stop request,
 * as a pod runs once.
 */

#include <sys/stat.h>

#include "stage1/stage1-internal.h"

#define UNITS "acnspawn/units/"
#define DROP_INS "default.target.d"

static const struct {
        const char *name, *text;
} bus_units[] = {
                {"acnspawn-bus.socket", "[Unit]\n"
                                        "Description=Bus of the Pod\n"
                                        "DefaultDependencies=no\n"
                                        "IgnoreOnIsolate=yes\n"
                                        "\n"
                                        "[Socket]\n"
                                        "ListenStream=/run/dbus/system_bus_socket\n"
                                        "SocketMode=0600\n"
                                        "DirectoryMode=0700\n"
                                        "Accept=yes\n"
                                        "MaxConnections=32\n"
                                        /* Without this, many clients in quick succession would make the
                                         * socket unit fail. */
                                        "TriggerLimitIntervalSec=0\n"},
                {"acnspawn-bus@.service", "[Unit]\n"
                                          "Description=Client of the Bus of the Pod\n"
                                          "DefaultDependencies=no\n"
                                          "IgnoreOnIsolate=yes\n"
                                          "CollectMode=inactive-or-failed\n"
                                          "\n"
                                          "[Service]\n"
                                          "Type=simple\n"
                                          "Slice=system.slice\n"
                                          "ExecStart=/acnspawn/launch bus\n"
                                          "StandardInput=null\n"
                                          "StandardOutput=null\n"
                                          "StandardError=null\n"},
                {DROP_INS "/bus.conf", "[Unit]\n"
                                       "Wants=acnspawn-bus.socket\n"
                                       "After=acnspawn-bus.socket\n"},
};

static const struct {
        const char *path, *target;
} bus_links[] = {
                {UNITS "ctrl-alt-del.target", "exit.target"},
                /* Clients look for the bus below this path. */
                {"var/run", "../run"},
};

int stage1_generate_bus(Stage1Files *ret)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        int r = stage1_files_add(&files, UNITS DROP_INS, NULL, 0, S_IFDIR | 0755);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(bus_units); i++)
                r = stage1_add_unit(&files, bus_units[i].name, bus_units[i].text);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(bus_links); i++)
                r = stage1_files_add_symlink(&files, bus_links[i].path, bus_links[i].target);
        if (r < 0)
                return r;
        *ret = files;
        files = (Stage1Files){};
        return 0;
}

/* The file may exist from an earlier attempt to run the pod. */
static int write_one(int root_fd, const Stage1File *f)
{
        int r = 0;

        if (f->target)
                r = symlinkat(f->target, root_fd, f->path) < 0 ? -errno : 0;
        else if (S_ISDIR(f->mode))
                r = mkdir_at(root_fd, f->path, f->mode & 07777);
        else
                r = write_file_atomic_at(root_fd, f->path, f->content, f->size, f->mode, false);
        return r == -EEXIST ? 0 : r;
}

int stage1_write_bus(int root_fd)
{
        _cleanup_stage1_files_ Stage1Files files = {};
        int r = stage1_generate_bus(&files);

        for (size_t i = 0; r >= 0 && i < files.n; i++)
                r = write_one(root_fd, &files.items[i]);
        return r;
}

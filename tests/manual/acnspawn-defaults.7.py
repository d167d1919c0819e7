#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-defaults(7), sentence by sentence. The table of system calls is compared with the filter by tests/unit/test-filter-table.py."""

from manual import *

PAGE = page("acnspawn-defaults.7", "206687aa2755cbda")


@once
def pod(host):
    """Of one app with the defaults, and one that may administrate its network."""
    return host.detach("--name=site", "--exit-policy=never", "--net=none", host.shell("sleep 1000", name="example.com/web"),
                       host.shell("sleep 1000", name="example.com/db"), "--tasks-max=77", "--caps-retain=CAP_NET_ADMIN,CAP_CHOWN")


def inside(host, script, app="web"):
    pod(host)
    return host.acnspawn("enter", "--app=" + app, "site", "sh", "-c", script).out


@sentence("CAPABILITIES", "The bounding set of an app holds the fourteen capabilities that the App Container specification names: CAP_AUDIT_WRITE, CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, "
                          "CAP_FSETID, CAP_KILL, CAP_MKNOD, CAP_NET_BIND_SERVICE, CAP_NET_RAW, CAP_SETFCAP, CAP_SETGID, CAP_SETPCAP, CAP_SETUID and CAP_SYS_CHROOT.")
@sentence("CAPABILITIES", "They are valid in the user namespace of the pod only. no_new_privs is not set,")
@sentence("SYSTEM CALLS", "Every process of an app has a filter of system calls.")
def of_a_process(host):
    status = dict(l.split(":\t", 1) for l in inside(host, "cat /proc/self/status").splitlines() if ":\t" in l)
    bits = int(status["CapBnd"], 16)
    named = {c[len("CAP_"):] for c in re.findall(r"CAP_\w+", dict(PAGE.sections)["CAPABILITIES"])}
    equal({c for i, c in enumerate(CAPABILITIES) if bits >> i & 1}, named)
    equal(named, set(DEFAULT_CAPABILITIES))
    equal((status["NoNewPrivs"], status["Seccomp"]), ("0", "2"))
    true(inside(host, "cat /proc/self/uid_map").split()[1] != "0", "root of the pod is root of the host")


@sentence("RESOURCE LIMITS", "limit|soft|hard _ RLIMIT_NOFILE|1024|524288 RLIMIT_MEMLOCK|8 MiB|8 MiB RLIMIT_CORE|0|unlimited")
def limits(host):
    text = inside(host, "cat /proc/self/limits")
    hard = min(524288, int(re.search(r"(?m)^Max open files +\d+ +(\d+)", read_text("/proc/self/limits")).group(1)))
    for name, values in ("Max open files", [str(min(1024, hard)), None]), ("Max locked memory", [str(8 << 20)] * 2), ("Max core file size", ["0", "unlimited"]):
        found = re.search(r"(?m)^%s +(\S+) +(\S+)" % name, text).groups()
        equal([f for f, v in zip(found, values) if v], [v for v in values if v], name)


@sentence("PROCESSES AND THREADS", "An app may have 2048 processes and threads, all apps of a pod together 8192. Another limit is set by --tasks-max= for an app or for the pod,")
@sentence("PROCESSES AND THREADS", "acnspawn status shows the limits among the Defaults, or, where they were set, among the Isolators, and how they are enforced.")
@sentence("EXAMPLES", "Show what is in force for the apps of a running pod: # acnspawn status site")
def processes(host):
    pod(host)
    text = host.acnspawn("status", "site").expect(0).out
    defaults, isolators = text.split("Defaults:")[1], text.split("Isolators:")[1].split("Defaults:")[0]
    contains(defaults, "all apps together at most 8192 processes and threads")
    contains(defaults, "at most 2048 processes and threads")
    contains(isolators, "77")


@sentence("MASKED PATHS", "These are empty in every app, as far as they exist: /proc/acpi /proc/sched_debug /proc/asound /proc/scsi /proc/config.gz /proc/sysrq-trigger /proc/interrupts "
                          "/proc/timer_list /proc/kallsyms /proc/timer_stats /proc/kcore /sys/dev/block /proc/keys /sys/devices/virtual/powercap /proc/latency_stats /sys/firmware "
                          "/sys/fs/selinux /sys/kernel/vmcoreinfo")
@sentence("MASKED PATHS", "/sys, /proc/bus, /proc/fs, /proc/irq and /proc/sys are read-only; of the latter an app with CAP_NET_ADMIN can write to /proc/sys/net if the pod has a network of its own.")
def masked_paths(host):
    text = dict(PAGE.sections)["MASKED PATHS"].split("thermal_throttle")[0]
    paths = re.findall(r"/(?:proc|sys)/\S+", text)[:-1]
    true(len(paths) > 15, "paths: %s" % paths)
    shown = inside(host, "for p in %s; do test -e $p || continue; if test -d $p; then ls -A $p; else cat $p; fi 2>&1; done" % " ".join(paths))
    equal(shown, "", "what is in masked paths")
    for path in "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward":
        equal(inside(host, "(: >%s) 2>/dev/null && echo writable" % path), "", path)
    equal(inside(host, "(: >/proc/sys/net/ipv4/ip_forward) 2>/dev/null && echo writable", app="db"), "writable\n")


@sentence("EXAMPLES", "# acnspawn run web.aci --caps-remove=all --no-new-privileges")
@sentence("MASKED PATHS", "--masked-paths= and --read-only-paths= replace these lists.")
def without_any_capability(host):
    image = host.shell("grep -e CapBnd -e NoNewPrivs /proc/self/status; cat /proc/kallsyms | head -c 1 | wc -c", name="example.com/bare")
    out = host.run(image, "--caps-remove=all", "--no-new-privileges", "--masked-paths=/proc/keys").out.split()
    equal((int(out[1], 16), out[3], out[4]), (0, "1", "1"))


elsewhere(
    ("SYSTEM CALLS", "Refused calls fail with EPERM; calls without a name in the version of acnspawn fail with ENOSYS,", "system-calls/default_filter"),
    ("SYSTEM CALLS", "On x86-64 programs of 32 bits can be executed. They are filtered in the same way.", "system-calls/programs_of_32_bits"),
    ("SYSTEM CALLS", "creating sockets with it fails with ENOSYS.", "system-calls/sockets_of_32_bit_programs_by_name"),
    ("SYSTEM CALLS", "Additional capabilities of an app also allow the calls that require them:", "system-calls/capability_opens_its_calls"),
    ("PROCESSES AND THREADS", "An image that requests more than 2048 has to be granted that (--grant=tasks-max).", "isolators/an_image_does_not_lift_its_limit_of_processes"),
    ("CAP_SYS_ADMIN", "There are at most 2048 cgroups, on 64 levels, in the slice of an app that may mount,", "reach/cgroups_of_an_app_that_may_mount_are_bounded"),
    ("CAP_SYS_ADMIN", "those of nested apps count for the apps above them, and an app with --control has 16384.", "reach/a_nested_app_takes_no_cgroups_from_those_beside_it"),
    ("PROCESSES AND THREADS", "then the kernel counts processes per user of the pod, in all of its apps, so that a fork bomb is confined to its pod,",
     "isolators/fork_bomb_without_a_controller"),
    ("APPARMOR", "Apps without an explicit profile run in the profile acnspawn-app, or acnspawn-app-mounts if they may mount.", "vm/apparmor/apps_have_a_profile_by_default"),
)

main()

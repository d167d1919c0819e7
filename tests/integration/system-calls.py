#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls: the default filter, the two isolators, and that an app does not inherit the privileges that the
launcher needs to install a filter. Numbers of calls are those of the machine that the test runs on."""

import errno
import hashlib
import platform

from harness import *

# name: number on x86-64, on 64-bit ARM
NUMBERS = {"getppid": (110, 173), "keyctl": (250, 219), "reboot": (169, 142), "unshare": (272, 97), "mount": (165, 40),
           "setns": (308, 268), "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "bpf": (321, 280),
           "socket": (41, 198), "sync": (162, 81), "openat2": (437, 437), "beyond": (1000, 1000), "personality": (135, 92),
           "clone3": (435, 435), "kcmp": (312, 272), "vmsplice": (278, 75), "adjtimex": (159, 171), "move_pages": (279, 239),
           "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "fanotify_mark": (301, 263), "socketpair": (53, 199)}
CLONE_NEWUSER, AF_VSOCK, AF_INET, AF_ALG, AF_CAN = 0x10000000, 40, 2, 38, 29
ADDR_NO_RANDOMIZE = 0x40000
SIGSYS = 31


def number(call):
    index = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
    if index is None:
        raise Skip("the numbers of system calls on this machine are not in the test")
    return NUMBERS[call][index]


def poke(call, argument=0):
    return ["/bin/poke", "call", "%d:%d" % (number(call), argument)]


def retain(*names, **more):
    return {"name": "os/linux/seccomp-retain-set", "value": dict({"set": list(names)}, **more)}


def remove(*names, **more):
    return {"name": "os/linux/seccomp-remove-set", "value": dict({"set": list(names)}, **more)}


def capabilities(*names):
    return {"name": "os/linux/capabilities-retain-set", "value": {"set": list(names)}}


def image(host, argv, *isolators, files=None, **app):
    return host.image(argv, name="example.com/a", files=files, app=dict({"isolators": list(isolators)}, **app))


def outcome(host, argv, *isolators, **app):
    """The errno of the call, or 0. The image is granted all that it requests; privileges.py tests images without
    grants."""
    return host.acnspawn("run", image(host, argv, *isolators, **app), "--grant=all").rc


def seccomp_verdict(host):
    return [i for i in host.status("p")["isolators"] if "seccomp" in i["name"]][0]


@case
def default_filter(host):
    script = "; ".join("%s; echo $?" % " ".join(poke(c, a)) for c, a in (
        ("getppid", 0), ("openat2", 0), ("keyctl", 0), ("reboot", 0), ("mount", 0), ("setns", 0), ("bpf", 0), ("userfaultfd", 0),
        ("io_uring_setup", 0), ("unshare", CLONE_NEWUSER), ("unshare", 0), ("socket", AF_INET), ("socket", AF_VSOCK),
        ("beyond", 0)))
    r = host.run(host.shell("exec 2>&1; " + script.replace("/bin/poke", ">/dev/null /bin/poke")))
    expected = [0, errno.EINVAL] + [errno.EPERM] * 8 + [0, errno.ESOCKTNOSUPPORT, errno.EAFNOSUPPORT, errno.ENOSYS]
    equal([int(line) for line in r.out.split()], expected, "errors of the calls")


@case
def default_filter_refuses_the_same_as_container_engines(host):
    """Families of sockets, personalities, and calls that access or move other processes; in all variants."""
    tried = (("socket", AF_ALG, errno.EAFNOSUPPORT), ("socket", AF_CAN, errno.EAFNOSUPPORT), ("socketpair", AF_ALG, errno.EAFNOSUPPORT),
             ("personality", ADDR_NO_RANDOMIZE, errno.EPERM), ("personality", 0xffffffff, 0), ("personality", 8, 0),
             ("kcmp", 0, errno.EPERM), ("vmsplice", 0, errno.EPERM), ("adjtimex", 0, errno.EPERM), ("move_pages", 0, errno.EPERM),
             ("pidfd_getfd", 0, errno.EPERM), ("process_madvise", 0, errno.EPERM), ("fanotify_mark", 0, errno.EPERM),
             ("clone3", 0, errno.ENOSYS))
    script = "; ".join(">/dev/null %s; echo $?" % " ".join(poke(c, a)) for c, a, _ in tried)
    if platform.machine() == "x86_64":  # socketcall(socket), whose family no filter can see
        script += "; >/dev/null /bin/poke call32 102:1; echo $?"
        tried += ("socketcall", 1, errno.ENOSYS),
    r = host.run(host.shell("exec 2>&1; " + script))
    for (call, argument, expected), got in zip(tried, r.out.split()):
        equal(int(got), expected, "%s(%#x)" % (call, argument))


@case
def sockets_of_32_bit_programs_by_name(host):
    if platform.machine() != "x86_64":
        raise Skip("for x86-64")
    allowed = retain("@acnspawn/default", "socketcall", errno="EPERM")
    equal(outcome(host, ["/bin/poke", "call32", "102:1"], allowed), errno.EFAULT)
    equal(outcome(host, poke("socket", AF_ALG), allowed), errno.EAFNOSUPPORT)
    equal(outcome(host, poke("clone3"), allowed), errno.ENOSYS)


@case
def programs_of_32_bits(host):
    if platform.machine() != "x86_64":
        raise Skip("for x86-64")
    # getppid, keyctl, unshare, beyond
    for call, expected in (("64", 0), ("288", errno.EPERM), ("310:%d" % CLONE_NEWUSER, errno.EPERM), ("1000", errno.ENOSYS)):
        equal(outcome(host, ["/bin/poke", "call32", call]), expected, "32-bit call " + call)


@case
def filter_without_no_new_privileges(host):
    """A filter is there for root and for others; set-uid programs of the image still work, with the privileges of
    root."""
    for user in "0", "1000":
        host.run(host.image(["/bin/show"], name="example.com/a", app={"user": user, "group": user}))
        show = host.show("a")
        equal((show.status_field("Seccomp"), show.status_field("NoNewPrivs")), ("2", "0"))
        equal(show.capabilities("Inh"), frozenset())
        equal(show.capabilities("Amb"), frozenset())
        for which in "Prm", "Eff":
            equal(show.capabilities(which), show.capabilities("Bnd") if user == "0" else frozenset(), which)
        true("CAP_SYS_ADMIN" not in show.capabilities("Bnd"), "CAP_SYS_ADMIN is in the bounding set")
        host.acnspawn("rm", os.path.basename(host.one_pod())).expect(0)
    show = File(_read_helper("show"), 0o4755)
    host.run(host.image(["/bin/show-as-root"], name="example.com/a", files={"bin/show-as-root": show},
                        app={"user": "1000", "group": "1000"}))
    show = host.show("a")
    equal((show.uids[0], show.uids[1]), (1000, 0))
    equal(show.capabilities("Eff"), show.capabilities("Bnd"))


def _read_helper(name):
    with open(os.path.join(HELPERS, name), "rb") as f:
        return f.read()


@case
def no_new_privileges_does_not_take_roots_capabilities(host):
    host.run(image(host, ["/bin/show"], {"name": "os/linux/no-new-privileges", "value": True}))
    show = host.show("a")
    equal((show.status_field("Seccomp"), show.status_field("NoNewPrivs")), ("2", "1"))
    equal(show.capabilities("Eff"), show.capabilities("Bnd"))
    true(show.capabilities("Eff"), "root has no capabilities")


@case
def capability_opens_its_calls(host):
    mount = ["/bin/poke", "mount", "/srv"]
    equal(outcome(host, mount, capabilities("CAP_SYS_ADMIN", "CAP_CHOWN")), 0)
    equal(outcome(host, mount, capabilities("CAP_CHOWN")), errno.EPERM)


@both
def profile_in_the_form_of_oci(host, *options):
    """In the place of the default filter, and of the one that the image asks for."""
    number("getppid")
    path = host.path("profile.json")
    with open(path, "w") as f:
        json.dump({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["getppid"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOTNAM},
            {"names": ["personality"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "value": ADDR_NO_RANDOMIZE, "op": "SCMP_CMP_EQ"}]}]}, f)
    calls = [poke("getppid"), poke("personality", ADDR_NO_RANDOMIZE), poke("personality", 0), poke("io_uring_setup", 0)]
    script = "; ".join(" ".join(c) for c in calls) + "; true"
    image = host.shell(script, app={"isolators": [remove("sync", errno="EPERM")], "user": "1000", "group": "1000"})
    out = lambda *more: [line.rsplit(": ", 1)[-1] for line in host.run(*options, image, *more).out.splitlines()]
    default = out()
    equal(len(default), 4, default)
    given = out("--seccomp-profile=" + path)
    true(given[:2] == [os.strerror(errno.ENOTNAM), os.strerror(errno.EPERM)] and given[2] == default[2] and given[3] != default[3],
         (default, given))
    # The status says what the filter comes from.
    with open(path, "rb") as f:
        digest = "sha256:" + hashlib.sha256(f.read()).hexdigest()
    for n, (more, word, line) in enumerate(((["--seccomp-profile=" + path], "profile", "profile of system calls " + digest[:19]),
                                            ([], "isolators", "filter of system calls by isolators"),
                                            (["--seccomp=mode=retain,@appc.io/all"], "none", "system calls are not filtered"))):
        name = "filtered%d" % n
        host.prepare(*options, "--name=" + name, image, *more)
        status = host.app_status(name, "image1")
        equal((status["seccomp"], status["seccompProfile"]), (word, digest if word == "profile" else None))
        contains(host.acnspawn("status", name).expect(0).out, line + "\n")
    host.prepare(*options, "--name=default", host.shell("true", name="example.com/default"))
    equal(host.app_status("default", "default")["seccomp"], "default")
    lacks(host.acnspawn("status", "default").expect(0).out, "system calls")
    for text, message in (("{", "Invalid JSON"), ('{"defaultAction": "SCMP_ACT_NOTIFY"}', "which is not supported")):
        with open(path, "w") as f:
            f.write(text)
        contains(host.acnspawn("prepare", image, "--seccomp-profile=" + path).expect(2).err, message)


@case
def remove_set_with_error(host):
    isolator = remove("getppid", "reboot", errno="ENOTTY")
    r = host.acnspawn("run", "--name=p", image(host, poke("getppid"), isolator))
    equal(r.rc, errno.ENOTTY)
    equal(seccomp_verdict(host)["verdict"], "enforced")
    equal(outcome(host, poke("reboot"), isolator), errno.ENOTTY)
    equal(outcome(host, poke("keyctl"), isolator), errno.EPERM)
    equal(outcome(host, ["/bin/poke", "modern"], isolator), 0)


@case
def remove_set_kills(host):
    r = host.acnspawn("run", "--name=p", image(host, poke("sync"), remove("sync")))
    equal(r.rc, 128 + SIGSYS)
    app = host.app_status("p", "a")
    equal((app["cause"], app["signal"]), ("signal", SIGSYS))


@case
def retain_set(host):
    few = "write", "writev", "ioctl", "fstat", "newfstatat", "readlink", "readlinkat"
    equal(outcome(host, poke("getppid"), retain(*few, errno="EDOM")), 0)
    equal(outcome(host, poke("sync"), retain(*few, errno="EDOM")), errno.EDOM)
    equal(outcome(host, poke("sync"), retain(*few)), 128 + SIGSYS)
    equal(outcome(host, poke("beyond"), retain(*few)), 128 + SIGSYS)


@case
def wildcards(host):
    equal(outcome(host, poke("keyctl"), retain("@acnspawn/default", "keyctl")) == errno.EPERM, False)
    equal(outcome(host, poke("reboot"), retain("@acnspawn/default", errno="EDOM")), errno.EDOM)
    equal(outcome(host, poke("unshare", CLONE_NEWUSER), retain("@appc.io/all")), 0)
    equal(outcome(host, poke("getppid"), remove("getppid", "@appc.io/empty")), 0)
    equal(outcome(host, poke("socket", AF_INET), remove("@systemd/network-io", errno="EDOM")), errno.EDOM)


@case
def opting_out_leaves_no_filter(host):
    host.run(image(host, ["/bin/show"], retain("@appc.io/all"), user="1000", group="1000"), "--grant=seccomp")
    show = host.show("a")
    equal(show.status_field("Seccomp"), "0")
    equal(show.capabilities("Eff"), frozenset())
    equal(show.capabilities("Prm"), frozenset())


@case
def names_that_mean_nothing(host):
    host.run("--name=p", image(host, ["/bin/true"], remove("reboot", "rebot", errno="EPERM")))
    verdict = seccomp_verdict(host)
    equal(verdict["verdict"], "modified")
    contains(verdict["detail"], "rebot")
    for isolator, text in ((remove("rebot"), "rebot"), (remove("execve"), "execve"), (retain("read", errno="EFOO"), "EFOO")):
        r = host.acnspawn("run", image(host, ["/bin/true"], isolator))
        true(r.rc != 0, "the app ran")
        contains(r.err, text, "message")
        contains(r.err, "seccomp", "message")


@case
def causes_are_known_behind_a_filter(host):
    """If exec fails the filter is already in force; also a filter that kills at every call."""
    garbage = {"garbage": File(b"\x7fELF and no more", 0o755)}
    for n, isolator in enumerate((retain("read"), retain("read", errno="EPERM"), remove("reboot"))):
        name = "p%d" % n
        r = host.acnspawn("run", "--name=" + name, image(host, ["/garbage"], isolator, files=garbage)).expect(126)
        contains(r.err, "/garbage", "message")
        contains(r.err, "another kind of machine", "message")
        equal(host.app_status(name, "a")["cause"], "command-not-executable")
    long = {"name": "LONG", "value": "x" * 200000}
    r = host.acnspawn("run", image(host, ["/bin/true"], retain("read"), environment=[long])).expect(126)
    contains(r.err, "too long", "message")
    r = host.acnspawn("run", image(host, ["nosuch"], retain("read"))).expect(127)
    contains(r.err, "nosuch", "message")


@case
def handlers_are_filtered_too(host):
    handlers = [{"name": "pre-start", "exec": poke("sync")}]
    r = host.acnspawn("run", "--name=p", image(host, ["/bin/true"], remove("sync"), eventHandlers=handlers))
    true(r.rc != 0, "the app ran")
    app = host.app_status("p", "a")
    equal((app["cause"], app["preStart"]["signal"]), ("pre-start-failed", SIGSYS))
    handlers = [{"name": "pre-start", "exec": ["/garbage"]}]
    r = host.acnspawn("run", image(host, ["/bin/true"], retain("read"), eventHandlers=handlers,
                                   files={"garbage": File(b"\x7fELF and no more", 0o755)}))
    true(r.rc != 0, "the app ran")
    contains(r.err, "/garbage", "message")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""SELinux in all its states, in a guest that has it (run.py --lsm=selinux): without a policy, then permissive and
enforcing.

The policy is minimal: files have no specific labels, and unknown classes are allowed. Processes of the host are host_t;
app_t may be entered, and may not remove directories, mount or remount; nnp_t may also be entered with no_new_privs."""

from harness import *

FS = "/sys/fs/selinux"
INITIAL = ("kernel security unlabeled fs file file_labels init any_socket port netif netmsg node igmp_packet icmp_socket tcp_socket "
           "sysctl_modprobe sysctl sysctl_fs sysctl_kernel sysctl_net sysctl_net_unix sysctl_vm sysctl_dev kmod policy scmp_packet devnull").split()
CLASSES = {"process": "transition dyntransition", "process2": "nnp_transition nosuid_transition", "dir": "rmdir", "file": "entrypoint", "filesystem": "mount remount"}
POLICY = "\n".join(
    ["class " + c for c in CLASSES] + ["sid " + s for s in INITIAL] + ["class %s { %s }" % c for c in CLASSES.items()] +
    ["sensitivity s0;", "dominance { s0 }", "category c0;", "level s0:c0;", "mlsconstrain dir { rmdir } ( h1 dom h2 );",
     "policycap nnp_nosuid_transition;",
     *["type %s_t;" % t for t in ("host", "app", "nnp", "lax", "closed", "file")], "permissive lax_t;",
     "role r;", "role r types { host_t app_t nnp_t lax_t closed_t file_t };",
     "allow host_t { app_t nnp_t lax_t }:process transition;", "allow host_t nnp_t:process2 nnp_transition;",
     "allow host_t self:process { transition dyntransition };",
     "allow { host_t app_t nnp_t lax_t } file_t:file entrypoint;", "allow host_t file_t:dir rmdir;",
     "allow { host_t nnp_t } file_t:filesystem { mount remount };",
     "user u roles r level s0 range s0 - s0:c0;", "sid kernel u:r:host_t:s0"] +
    ["sid %s u:r:file_t:s0" % s for s in INITIAL[1:]]) + "\n"
LOOK = "cat /proc/self/attr/current; echo; mkdir /out/d; rmdir /out/d 2>&1 && echo removed; true"
DENIED = "rmdir: '/out/d': Permission denied\n"


def put(name, data):
    with open(FS + "/" + name, "wb", buffering=0) as f:
        f.write(data)


def context(kind="app", level="s0"):
    return "--selinux-context=u:r:%s_t:%s" % (kind, level)


def verdict(host, pod):
    for i in host.status(pod)["isolators"]:
        if i["name"] == "os/linux/selinux-context":
            return i["verdict"], i["detail"]
    fail("the context is not reported")


def looker(host, **more):
    return host.shell(LOOK, name="example.com/a", **more)


def strict_refuses(host, why):
    for verb in "prepare", "run":
        r = host.acnspawn(verb, "--strict", looker(host), context()).expect(1)
        contains(r.err, why)
        equal(r.out, "")


@case
def without_a_policy(host):
    """The kernel would then accept any context, without effect."""
    if not os.path.exists(FS + "/enforce"):
        subprocess.run(["mount", "-t", "selinuxfs", "none", FS], check=True)
    equal(read_text(FS + "/initial_contexts/kernel").rstrip("\0"), "kernel", "context without a policy")
    contains(host.run("--name=p", looker(host), context("none")).out, "removed\n")
    equal(verdict(host, "p"), ("ignored", "SELinux is active on this host, but has no policy"))
    strict_refuses(host, "SELinux is active on this host, but has no policy")


@case
def permissive(host):
    with open(host.path("policy.conf"), "w") as f:
        f.write(POLICY)
    subprocess.run(["checkpolicy", "-M", "-U", "allow", "-c", "31", "-o", host.path("policy"), host.path("policy.conf")], check=True, stdout=subprocess.DEVNULL)
    put("load", open(host.path("policy"), "rb").read())
    contains(read_text("/proc/self/attr/current"), "u:r:host_t:s0", "our own context")
    for options in (), ("--no-userns",):
        r = host.run("--name=p", *options, looker(host), context())
        contains(r.out, "u:r:app_t:s0\0\n")
        contains(r.out, "removed\n")
        equal(verdict(host, "p"), ("modified", "the app is executed in the context u:r:app_t:s0, but SELinux is permissive: "
                                               "violations of the policy are logged, but allowed"))
        host.acnspawn("rm", "p").expect(0)
    strict_refuses(host, "SELinux is permissive")


@case
def enforcing(host):
    """Also with no_new_privs, which restricts changes of context."""
    put("enforce", b"1")
    for options in (), ("--no-userns",):
        r = host.run("--name=p", "--strict", *options, looker(host), context("app", "s0:c0"))
        equal(r.out, "u:r:app_t:s0:c0\0\n" + DENIED)
        equal(verdict(host, "p"), ("enforced", "the app is executed in the context u:r:app_t:s0:c0"))
        host.acnspawn("rm", "p").expect(0)
        equal(host.run("--rm", *options, looker(host)).out, "u:r:host_t:s0\0\nremoved\n")
        r = host.run("--rm", "--strict", *options, looker(host, app={"user": "1000", "group": "1000"}), context("nnp"), "--no-new-privileges",
                     "--seccomp=mode=remove,reboot")
        equal(r.out, "u:r:nnp_t:s0\0\n" + DENIED)


@case
def an_app_with_cap_sys_admin_mounts_what_the_policy_allows(host):
    """The policy limits an app with CAP_SYS_ADMIN within its namespaces: it mounts and remounts only what the policy
    allows."""
    tries = "mount -t tmpfs none /tmp", "mount -t tmpfs -o remount,size=1m none /tmp"
    image = host.shell("cat /proc/self/attr/current; echo; " + "; ".join("%s 2>/dev/null && echo '%s'" % (t, t) for t in tries) + "; true", name="example.com/a")
    for kind, done in ("nnp", "".join(t + "\n" for t in tries)), ("app", ""):
        r = host.run("--rm", image, "--caps-retain=CAP_SYS_ADMIN", context(kind))
        equal(r.out, "u:r:%s_t:s0\0\n%s" % (kind, done))


@case
def contexts_that_may_not_be_entered(host):
    """The policy has no such context; no process may enter it; none may with no_new_privs."""
    for verb in "prepare", "run":
        r = host.acnspawn(verb, looker(host), context("none")).expect(1)
        contains(r.err, "App a is to run in the SELinux context u:r:none_t:s0, which the policy of this host does not have")
        equal(r.out, "")
    equal(host.pods(), [], "pods")
    for args in ((context("closed"),), (context("app"), "--no-new-privileges")):
        r = host.acnspawn("run", "--rm", looker(host), *args)
        true(r.rc != 0 and r.out == "", "it ran")
        contains(r.err, "Cannot execute /bin/sh in the SELinux context u:r:%s_t:s0: " % ("closed" if len(args) == 1 else "app"))


@case
def a_permissive_domain_is_not_enforced(host):
    r = host.run("--name=p", looker(host), context("lax"))
    contains(r.out, "removed\n")
    equal(verdict(host, "p"), ("modified", "the app is executed in the context u:r:lax_t:s0, but its domain is permissive: "
                                           "violations of the policy are logged, but allowed"))
    contains(host.acnspawn("run", "--strict", looker(host), context("lax")).expect(1).err, "its domain is permissive")


@case
def handlers_checks_and_commands_have_the_same_context(host):
    log = "{ %s; } >>/out/%%s" % LOOK
    app = {"eventHandlers": [{"name": n, "exec": ["/bin/sh", "-c", log % n]} for n in ("pre-start", "post-stop")]}
    image = host.shell("touch /out/up; sleep 1000 & wait", name="example.com/a", app=app)
    uuid = host.detach("--name=p", image, context(), "--health-cmd=" + log % "health")
    host.wait_up("a")
    contains(host.acnspawn("enter", "p", "sh", "-c", LOOK).expect(0).out, "u:r:app_t:s0\0\n")
    host.acnspawn("stop", "p").expect(0)
    for name in "pre-start", "post-stop", "health":
        contains(host.written("a", "out/" + name, host.pod_dir(uuid)).decode(), "u:r:app_t:s0\0\n", name)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""An image does not choose its own confinement: requests beyond the defaults are refused, granted or withheld, and
reported."""

import errno

from harness import *

ADMIN = {"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_KILL", "CAP_DAC_OVERRIDE"]}}
UNFILTERED = {"name": "os/linux/seccomp-retain-set", "value": {"set": ["@appc.io/all"]}}
SAFE = {"name": "os/unix/sysctl", "value": {"net.core.somaxconn": "123", "kernel.msgmax": "4321"}}
FORWARDING = {"name": "os/unix/sysctl", "value": {"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.proxy_arp_pvlan": "1", "kernel.msgmax": "4321"}}
SCORE = {"name": "os/linux/oom-score-adj", "value": -1000}
PROFILE = {"name": "os/linux/apparmor-profile", "value": "unconfined"}
CONTEXT = {"name": "os/linux/selinux-context", "value": {"user": "u", "role": "r", "type": "t", "level": "s0"}}


def greedy(host, *isolators, name="example.com/a", exec=("/bin/show",)):
    return host.image(list(exec), name=name, app={"isolators": list(isolators)})


def refusal(host, *args):
    r = host.acnspawn("prepare", *args).expect(1)
    equal((r.out, host.pods()), ("", []), "output and pods")
    contains(r.err, "Error: Images request more privileges than apps get by default:")
    again = host.acnspawn("run", *args).expect(1)
    equal((again.out, again.err), ("", r.err), "what run says")
    equal(host.pods(), [], "pods")
    return r.err


def privileges(host, pod):
    return [(p["app"], p["name"], p["decision"], p["by"]) for p in host.status(pod)["privileges"]]


def seccomp(host, app="a"):
    show = host.show(app)
    return show.status_field("Seccomp"), show.capabilities("Bnd")


DEFAULT = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "KILL", "MKNOD", "NET_RAW", "NET_BIND_SERVICE", "SETUID", "SETGID",
           "SETPCAP", "SETFCAP", "SYS_CHROOT"}


@case
def all_of_it_is_refused_at_once(host):
    """One message for all apps, with the options, which are sufficient."""
    one = greedy(host, ADMIN, UNFILTERED, SAFE, SCORE, PROFILE, CONTEXT, name="example.com/one")
    two = greedy(host, FORWARDING, name="example.com/two")
    err = refusal(host, one, two)
    contains(err, "\n  App one (example.com/one): CAP_SYS_PTRACE, CAP_SYS_ADMIN, no system call filter, the kernel parameter "
             "net.core.somaxconn=123, the kernel parameter kernel.msgmax=4321, the OOM score -1000, the AppArmor profile unconfined, "
             "the SELinux context u:r:t:s0\n    granted by --grant=CAP_SYS_PTRACE,CAP_SYS_ADMIN,seccomp,sysctl:net.core.somaxconn,"
             "sysctl:kernel.msgmax,oom-score-adj,apparmor-profile,selinux-context after its image\n")
    contains(err, "\n  App two (example.com/two): the kernel parameter net.ipv4.ip_forward=1, the kernel parameter "
             "net.ipv4.conf.all.proxy_arp_pvlan=1, the kernel parameter kernel.msgmax=4321\n    granted by --sysctl=net.ipv4.ip_forward=1 "
             "--sysctl=net.ipv4.conf.all.proxy_arp_pvlan=1 --sysctl=kernel.msgmax=4321 after its image.\n")
    contains(err, "--grant=none runs an app without it")
    options = [re.findall(r"--\S+", line) for line in err.splitlines() if "granted by" in line]
    host.prepare("--name=p", one, *options[0], two, *options[1])
    equal({p[0:1] + p[2:] for p in privileges(host, "p")},
          {("one", "granted", "command line"), ("two", "replaced", "command line")})
    # The remaining ones are still refused.
    err = host.acnspawn("prepare", one, "--grant=CAP_SYS_PTRACE,seccomp", "--grant=sysctl:net/core/somaxconn", two, "--grant=none").expect(1).err
    contains(err, "App one (example.com/one): CAP_SYS_ADMIN, the kernel parameter kernel.msgmax=4321, the OOM score -1000, ")
    lacks(err, "App two")


@both
def an_image_without_a_filter_cannot_take_the_neighbours_memory(host, *options):
    """CAP_SYS_PTRACE, CAP_SYS_ADMIN and no filter: refused; within the defaults it sees nothing; with a grant it has
    access to all."""
    secret = host.image(["/bin/sleep", "30"], name="example.com/secret", app={"environment": [{"name": "TOKEN", "value": "secret-word"}]})
    script = ("until pidof sleep >/dev/null; do sleep 0.05; done; sleep 0.3; for p in $(pidof sleep); do cat /proc/$p/environ; done 2>/dev/null; "
              "mount -t tmpfs none /srv 2>/dev/null && echo mounted; echo done")
    spy = greedy(host, ADMIN, UNFILTERED, exec=("/bin/sh", "-c", script))
    contains(refusal(host, *options, "--exit-policy=any", spy, secret), "App a (example.com/a): CAP_SYS_PTRACE, CAP_SYS_ADMIN, no system call filter")
    r = host.run("--name=p", "--rm", "--exit-policy=any", *options, spy, "--grant=none", secret)
    contains(r.out, "done")
    lacks(r.out, "secret-word")
    lacks(r.out, "mounted")
    contains(host.run("--rm", "--exit-policy=any", *options, spy, "--grant=all", secret).out, "mounted")


@case
def capabilities_are_granted_by_each_way(host):
    image = greedy(host, ADMIN)
    granted = frozenset(("SYS_ADMIN", "SYS_PTRACE", "KILL", "DAC_OVERRIDE"))
    contains(refusal(host, image), "granted by --grant=CAP_SYS_PTRACE,CAP_SYS_ADMIN after its image")
    contains(refusal(host, image, "--grant=CAP_SYS_PTRACE"), "App a (example.com/a): CAP_SYS_ADMIN\n")
    asked = [("a", "CAP_SYS_PTRACE"), ("a", "CAP_SYS_ADMIN")]
    for n, (grant, expected, decision) in enumerate((
            (("--grant=all",), granted, "granted"),
            (("--grant=CAP_SYS_PTRACE,cap_sys_admin",), granted, "granted"),
            (("--grant=CAP_SYS_PTRACE", "--grant=CAP_SYS_ADMIN"), granted, "granted"),
            (("--annotation=acnspawn/grant=all",), granted, "granted"),
            (("--caps-retain=CAP_SYS_PTRACE,CAP_NET_ADMIN",), {"SYS_PTRACE", "NET_ADMIN"}, "replaced"),
            (("--caps-remove=CAP_KILL",), DEFAULT - {"KILL"}, "replaced"),
            (("--grant=none",), {"KILL", "DAC_OVERRIDE"}, "withheld"))):
        pod = "p%d" % n
        uuid = host.prepare("--name=" + pod, image, *grant)
        host.run(uuid)
        equal(host.show("a", pod=host.pod_dir(uuid)).capabilities("Bnd"), frozenset(expected), " ".join(grant))
        equal(privileges(host, pod), [a + (decision, "command line") for a in asked], "privileges with " + " ".join(grant))


@case
def pod_manifests_grant_what_they_say(host):
    """By isolators of their own, or by the annotation; an app object that is only in the image is not sufficient."""
    image = greedy(host, ADMIN, SAFE)
    image_id = host.acnspawn("fetch", "--insecure-options=signature", image).expect(0).out.strip()

    def manifest(app=None, annotations=None, **more):
        entry = {"name": "a", "image": {"id": image_id}}
        if app:
            entry["app"] = app
        if annotations:
            entry["annotations"] = annotations
        path = host.path("manifest")
        with open(path, "w") as f:
            json.dump(dict({"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [entry]}, **more), f)
        return "--pod-manifest=" + path

    def grant(value):
        return [{"name": "acnspawn/grant", "value": value}]

    err = refusal(host, manifest())
    contains(err, "granted by the app's annotation acnspawn/grant=CAP_SYS_PTRACE,CAP_SYS_ADMIN,sysctl:net.core.somaxconn,sysctl:kernel.msgmax.\n")
    contains(err, "acnspawn/grant=none runs an app without it")
    refusal(host, manifest(annotations=grant("CAP_SYS_ADMIN")))
    contains(host.acnspawn("prepare", manifest(annotations=grant("everything"))).expect(1).err, "acnspawn/grant is 'everything', but must be names")
    host.prepare("--name=one", manifest(annotations=grant("all")))
    equal(privileges(host, "one")[0], ("a", "CAP_SYS_PTRACE", "granted", "pod manifest"))
    equal({i["source"] for i in host.status("one")["isolators"]}, {"image"})
    app = {"exec": ["/bin/show"], "user": "0", "group": "0", "isolators": [ADMIN, UNFILTERED, FORWARDING, SCORE]}
    host.prepare("--name=two", manifest(app=app, isolators=[{"name": "resource/memory", "value": {"limit": "1G"}}]))
    equal(privileges(host, "two"), [])
    equal([(i["app"], i["source"]) for i in host.status("two")["isolators"]], [(None, "pod manifest")] + [("a", "pod manifest")] * 4)


@case
def images_do_not_touch_the_pods_interfaces(host):
    """proxy_arp_pvlan, forwarding and neighbour entries could redirect other pods' traffic on the bridge: no grant
    allows them, only options of the operator."""
    for name in ("net.ipv4.conf.all.proxy_arp_pvlan", "net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding", "net/ipv4/conf/eth0/proxy_arp",
                 "net.ipv4.neigh.default.proxy_delay", "net.ipv6.conf.all.forwarding", "net.ipv4.tcp_congestion_control", "kernel.hostname"):
        image = greedy(host, {"name": "os/unix/sysctl", "value": {name: "1"}})
        for grant in (), ("--grant=all",), ("--grant=sysctl:" + name,):
            contains(refusal(host, image, *grant), "App a (example.com/a): the kernel parameter %s=1\n    granted by --sysctl=%s=1 after its image" %
                     (name, name))
    for name in "kernel.core_pattern", "vm.overcommit_memory", "kernel.shmmaxx":
        image = greedy(host, {"name": "os/unix/sysctl", "value": {name: "1"}})
        contains(refusal(host, image, "--grant=all"), "the kernel parameter %s=1, which is the host's\n    cannot be granted" % name)
        host.prepare("--name=" + name.replace(".", "-").replace("_", "-"), image, "--grant=none")
        host.acnspawn("rm", "--force", host.pods()[0].split("/")[-1]).expect(0)
    image = host.shell("cat /proc/sys/net/ipv4/conf/all/proxy_arp_pvlan /proc/sys/net/core/somaxconn /proc/sys/kernel/msgmax", name="example.com/a",
                       app={"isolators": [{"name": "os/unix/sysctl", "value": dict(SAFE["value"], **FORWARDING["value"])}]})
    own = host.run("--name=own", image, "--sysctl=net.ipv4.conf.all.proxy_arp_pvlan=1", "--sysctl=kernel.msgmax=5000").out.split()
    equal((own[0], own[1] == "123", own[2]), ("1", False, "5000"), "parameters of the command line alone")
    none = host.run("--name=none", image, "--grant=none").out.split()
    equal((none[0], none[1] == "123", none[2] == "4321"), ("0", False, False), "parameters with --grant=none")


@case
def safe_parameters_can_be_granted(host):
    image = host.shell("cat /proc/sys/net/core/somaxconn /proc/sys/kernel/msgmax", name="example.com/a", app={"isolators": [SAFE]})
    contains(refusal(host, image), "granted by --grant=sysctl:net.core.somaxconn,sysctl:kernel.msgmax after its image")
    equal(host.run(image, "--grant=sysctl:net.core.somaxconn,sysctl:kernel.msgmax").out.split(), ["123", "4321"])


@case
def restrictions_need_no_grant(host):
    """Fewer capabilities and system calls, limits, a higher OOM score; the sets that images have from rkt and docker."""
    narrow = [{"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_KILL"]}},
              {"name": "os/linux/no-new-privileges", "value": True}, {"name": "os/linux/oom-score-adj", "value": 500},
              {"name": "resource/memory", "value": {"limit": "1G"}}, {"name": "resource/cpu", "value": {"limit": "1"}}]
    for names in (["@docker/default-whitelist"], ["@rkt/default-whitelist"], ["@systemd/system-service"], ["@acnspawn/default"],
                               ["@systemd/aio", "@systemd/process", "@systemd/basic-io", "@systemd/file-system", "@systemd/io-event",
                                "@systemd/network-io", "@systemd/resources", "@systemd/setuid", "@systemd/signal", "@systemd/system-service"]):
        image = greedy(host, *narrow, {"name": "os/linux/seccomp-retain-set", "value": {"set": names, "errno": "EDOM"}})
        uuid = host.prepare(image)
        host.run(uuid)
        equal(host.show("a", pod=host.pod_dir(uuid)).capabilities("Bnd"), frozenset(("KILL",)))
        equal(privileges(host, uuid), [], "privileges with %s" % names)


@case
def a_set_of_an_image_is_bounded_by_the_default_filter(host):
    """It may name calls whose arguments the default filter checks; the checks still apply. It may not name keyctl."""
    usual = ["@acnspawn/default", "clone", "unshare", "socket", "socketcall", "@systemd/aio"]
    calls = ["%s 2>/dev/null; echo $?" % c for c in ("poke call 425:0", "poke call 41:40", "poke call 272:268435456", "poke call 110:0")]
    if os.uname().machine != "x86_64":
        raise Skip("the numbers of system calls are those of x86-64")

    def image(names):
        return host.shell("; ".join(">/dev/null " + c for c in calls), name="example.com/a",
                          app={"isolators": [{"name": "os/linux/seccomp-retain-set", "value": {"set": names, "errno": "EDOM"}}]})

    bounded = [errno.EPERM, errno.EAFNOSUPPORT, errno.EPERM, 0]
    equal([int(x) for x in host.run("--name=p", image(usual)).out.split()], bounded)
    i = host.status("p")["isolators"][0]
    equal(i["verdict"], "modified")
    contains(i["detail"], "the default filter refuses or limits")
    contains(i["detail"], "io_uring_setup")
    contains(i["detail"], "unshare")
    host.acnspawn("rm", "p").expect(0)
    contains(refusal(host, image(usual + ["keyctl", "mount"])), "the system calls keyctl, mount\n    granted by --grant=seccomp")
    equal([int(x) for x in host.run(image(usual + ["keyctl"]), "--grant=none").out.split()], bounded)
    free = [int(x) for x in host.run("--name=q", image(usual), "--grant=seccomp").out.split()]
    equal(free[2:], [0, 0], "with the set as it is")
    true(free[0] != errno.EPERM, "io_uring_setup is refused: %r" % free)


@case
def it_is_shown_by_status_and_image_show(host):
    image = greedy(host, ADMIN, UNFILTERED, {"name": "resource/memory", "value": {"limit": "1G"}})
    host.run("--name=p", "--memory=2G", image, "--grant=CAP_SYS_PTRACE,CAP_SYS_ADMIN", "--seccomp=mode=retain,@acnspawn/default", "--cpu=1")
    status = host.status("p")
    equal({(i["app"], i["name"]): i["source"] for i in status["isolators"]},
          {(None, "resource/memory"): "command line", ("a", "os/linux/capabilities-retain-set"): "image", ("a", "resource/memory"): "image",
           ("a", "os/linux/seccomp-retain-set"): "command line", ("a", "resource/cpu"): "command line"})
    equal(status["privileges"], [
        {"app": "a", "isolator": "os/linux/seccomp-retain-set", "name": "seccomp", "text": "no system call filter", "decision": "replaced", "by": "command line"},
        {"app": "a", "isolator": "os/linux/capabilities-retain-set", "name": "CAP_SYS_PTRACE", "text": "CAP_SYS_PTRACE", "decision": "granted", "by": "command line"},
        {"app": "a", "isolator": "os/linux/capabilities-retain-set", "name": "CAP_SYS_ADMIN", "text": "CAP_SYS_ADMIN", "decision": "granted", "by": "command line"}])
    text = host.acnspawn("status", "p").expect(0).out
    contains(text, "Privileges: a no system call filter: asked for by its image, replaced on the command line\n")
    contains(text, "a CAP_SYS_PTRACE: asked for by its image, granted on the command line\n")
    contains(text, "the launcher bounds the app's capabilities [image]\n")
    shown = json.loads(host.acnspawn("image", "show", "--json=short", "example.com/a").expect(0).out)[0]["privileges"]
    equal([(p["name"], p["text"], p["option"], p["isolator"]) for p in shown], [
        ("CAP_SYS_PTRACE", "CAP_SYS_PTRACE", "--grant=CAP_SYS_PTRACE", "os/linux/capabilities-retain-set"),
        ("CAP_SYS_ADMIN", "CAP_SYS_ADMIN", "--grant=CAP_SYS_ADMIN", "os/linux/capabilities-retain-set"),
        ("seccomp", "no system call filter", "--grant=seccomp", "os/linux/seccomp-retain-set")])
    contains(host.acnspawn("image", "show", "example.com/a").expect(0).out, "Asks For: CAP_SYS_PTRACE (--grant=CAP_SYS_PTRACE)\n")
    # What update-app changes is the image's no more; the rest, with its grants, stays.
    tasks = {"name": "resource/tasks", "value": {"limit": "100"}}
    sleeper = host.shell("sleep 1000", name="example.com/s", app={"isolators": [ADMIN, tasks]})
    uuid = host.detach("--name=s", sleeper, "--grant=CAP_SYS_PTRACE,CAP_SYS_ADMIN")
    sources = lambda: {i["name"]: i["source"] for i in host.status(uuid)["isolators"] if i["app"]}
    before, granted = sources(), host.status(uuid)["privileges"]
    equal((before["resource/tasks"], len(granted)), ("image", 2))
    host.acnspawn("update-app", uuid, "s", "--tasks-max=50").expect(0)
    equal((sources(), host.status(uuid)["privileges"]), ({**before, "resource/tasks": "command line"}, granted))
    host.acnspawn("stop", "--force", uuid).expect(0)
    plan = json.loads(host.acnspawn("prepare", "--dry-run", "--json=short", image, "--grant=all").expect(0).out)
    equal({i["source"] for i in plan["isolators"]}, {"image"})


@case
def an_image_cannot_grant_itself(host):
    """Neither by annotations, of the image or of its app, nor by members of a pod manifest in the image."""
    own = [{"name": "acnspawn/grant", "value": "all"}]
    image = host.image(["/bin/show"], name="example.com/a", annotations=own,
                       app={"isolators": [ADMIN], "userAnnotations": {"acnspawn/grant": "all"}, "userLabels": {"acnspawn/grant": "all"}})
    contains(refusal(host, image), "CAP_SYS_PTRACE, CAP_SYS_ADMIN")


@case
def it_is_shown_by_validate(host):
    """With the place in the document; the manifest and the image are still valid."""
    image = greedy(host, {"name": "resource/memory", "value": {"limit": "1G"}}, ADMIN, UNFILTERED, FORWARDING)
    manifest = host.path("m")
    with open(manifest, "w") as f:
        json.dump(image_manifest("example.com/a", {"exec": ["/x"], "user": "0", "group": "0", "isolators": [ADMIN]}), f)
    more = "which is more than apps get by default and needs "
    r = host.acnspawn("validate", image, manifest).expect(0)
    for line in ("%s: app.isolators[1]: asks for CAP_SYS_ADMIN, %s--grant=CAP_SYS_ADMIN" % (image, more),
                 "%s: app.isolators[2]: asks for no system call filter, %s--grant=seccomp" % (image, more),
                 "%s: app.isolators[3]: asks for the kernel parameter net.ipv4.ip_forward=1, %s--sysctl=net.ipv4.ip_forward=1" % (image, more),
                 "%s: valid image" % image, "%s: app.isolators[0]: asks for CAP_SYS_PTRACE, %s--grant=CAP_SYS_PTRACE" % (manifest, more),
                 "%s: valid image manifest" % manifest):
        contains(r.out, line + "\n")
    found = json.loads(host.acnspawn("validate", "--json=short", image).expect(0).out)
    equal({f["severity"] for f in found}, {"notice"})
    equal(host.acnspawn("validate", greedy(host, {"name": "os/linux/oom-score-adj", "value": 5})).expect(0).out.count("asks for"), 0)


@case
def validate_finds_what_prepare_refuses(host):
    """In pod manifests, by the same code and in the same words."""
    image_id = host.acnspawn("fetch", "--insecure-options=signature", host.image(["/bin/true"], name="example.com/a")).expect(0).out.strip()
    path = host.path("pod")
    app = {"exec": ["/bin/true"], "user": "0", "group": "0"}

    def isolated(name, value):
        return {"app": dict(app, isolators=[{"name": name, "value": value}])}

    for entry, more, why in (
            ({"app": {"user": "0", "group": "0"}}, {}, "The app object of app a has no command"),
            (isolated("os/unix/sysctl", {"kernel.panic": "1"}), {}, "App a requests the kernel parameter kernel.panic, which is the host's"),
            (isolated("os/linux/seccomp-remove-set", {"set": ["execve"]}), {}, "App a: Isolator os/linux/seccomp-remove-set blocks execve"),
            (isolated("os/linux/seccomp-retain-set", {"set": ["read"], "errno": "EFOO"}), {}, "this system has no error code EFOO"),
            ({"app": dict(app, ports=[{"name": "p", "protocol": "sctp", "port": 80, "socketActivated": True}])}, {}, "cannot be socket-activated"),
            ({"app": app}, {"ports": [{"name": "web", "hostPort": 80}]}, "The port 'web' cannot be exposed: no app has a port of that name"),
            ({}, {"isolators": [{"name": "os/unix/sysctl", "value": {"vm.swappiness": "1"}}]}, "The pod requests the kernel parameter vm.swappiness"),
            ({"annotations": [{"name": "acnspawn/restart", "value": "perhaps"}]}, {}, "acnspawn/restart is 'perhaps'"),
            ({"annotations": [{"name": "acnspawn/grant", "value": "perhaps"}]}, {}, "acnspawn/grant is 'perhaps'"),
            ({}, {"volumes": [{"name": "v", "kind": "host", "source": "/a/../b"}]}, "must be an absolute path without '..'")):
        with open(path, "w") as f:
            json.dump(dict({"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [dict({"name": "a", "image": {"id": image_id}}, **entry)]}, **more), f)
        contains(host.acnspawn("prepare", "--pod-manifest=" + path).expect(1).err, why, "prepare")
        r = host.acnspawn("validate", path).expect(1)
        contains(r.out, why, "validate")
        lacks(r.out, "valid pod manifest")
        equal(json.loads(host.acnspawn("validate", "--json=short", path).expect(1).out)[0]["severity"], "error")
    with open(path, "w") as f:
        json.dump({"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [{"name": "a", "image": {"id": image_id}, "app": app}]}, f)
    equal(host.acnspawn("validate", path).expect(0).out, path + ": valid pod manifest\n")
    equal(host.pods(), [], "pods")


@case
def ports_of_the_host_are_not_the_images(host):
    """With --net=host root of the host listens for socket-activated ports; below 1024 the app could not listen by itself."""
    def image(port):
        return host.image(["/bin/true"], name="example.com/a", app={"ports": [
            {"name": "dns", "protocol": "udp", "port": port, "socketActivated": True}]})
    contains(refusal(host, "--net=host", image(53)), "App a (example.com/a): the host's port 53/udp\n    granted by --grant=port:dns after its image")
    for options in (("--net=host", image(53), "--grant=port:dns"), ("--net=host", image(53), "--grant=none"), ("--net=host", image(5353)),
                    ("--net=host", "--no-userns", image(53)), ("--net=host", "--port=dns:53", image(53)), (image(53),)):
        uuid = host.prepare(*options)
        port = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)["apps"][0]["app"]["ports"][0]
        equal(port.get("socketActivated", False), "--grant=none" not in options, "socketActivated with %s" % (options,))


@case
def options_are_checked(host):
    image = greedy(host)
    for value, why in (("everything", "must be names of what the image requests"), ("", "must be names"), ("all,seccomp", "must be names"),
                       ("SYS_ADMIN", "must be names")):
        contains(host.acnspawn("prepare", image, "--grant=" + value).expect(2).err, "Invalid value '%s' for --grant: %s" % (value, why))
    contains(host.acnspawn("prepare", "--grant=all", image).expect(2).err, "--grant is for an app: put it after its image")
    host.prepare(image, "--grant=CAP_SYS_ADMIN")  # which requests nothing


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The generator of the host's systemd: which files it makes of declared pods, and that systemd accepts them.

usage: test-generator.py GENERATOR

Every case prints "ok NAME", "not ok NAME: why" or "skip NAME: why" on a line of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from pace import patience

GENERATOR = os.path.abspath(sys.argv[1])
failures = 0


def case(function):
    global failures
    try:
        with tempfile.TemporaryDirectory() as d:
            function(d)
        print(f"ok {function.__name__}", flush=True)
    except AssertionError as e:
        failures += 1
        print(f"not ok {function.__name__}: {e}".replace("\n", "~"), flush=True)


def check(what, actual, expected):
    if actual != expected:
        raise AssertionError(f"{what} is {actual!r}, expected {expected!r}")


def write(d, name, text):
    path = os.path.join(d, "pods", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def generate(d, **env):
    """All that is made, by path: the text of a file, or "-> TARGET" for a link. And the messages."""
    out = os.path.join(d, "out")
    os.makedirs(out, exist_ok=True)
    env = {"PATH": os.environ["PATH"], "ACNSPAWN_CONFIG_DIR": d, **env}
    r = subprocess.run([GENERATOR, out, out, out], env=env, text=True, capture_output=True, timeout=60)
    check("what is written to standard output", r.stdout, "")
    made = {}
    for directory, _, files in os.walk(out):
        for name in files:
            path = os.path.join(directory, name)
            content = "-> " + os.readlink(path) if os.path.islink(path) else open(path).read()
            made[os.path.relpath(path, out)] = content.replace(d, "CONFIG")
    return made, r.stderr.replace(d, "CONFIG").splitlines(), r.returncode


NEEDS = "# Made by acnspawn-generator\n[Unit]\n"
NETWORK = "Wants=network-online.target\nAfter=network-online.target\n"


def needs(made):
    """Takes the drop-ins about file systems and the network out of MADE: unit and lines."""
    taken = {path.split(".d/")[0]: made.pop(path) for path in list(made) if path.rpartition("/")[2] in ("40-store.conf", "41-needs.conf")}
    for unit, text in taken.items():
        check("the begin of the needs of " + unit, text[:len(NEEDS)], NEEDS)
    return {unit: text[len(NEEDS):] for unit, text in taken.items()}


def file_systems_of_a_pod(d):
    """Sources of volumes of the host, and other files; not those of other kinds, nor what is not valid."""
    write(d, "web.pod", "[Pod]\nVolume=data,kind=host,source=/srv/data,readOnly=yes tmp,kind=empty named,kind=named,source=x /srv/%i:/x:ro vol:/y\n"
          "Volume='odd,kind=host,source=/srv/a b\\\\,c' ../rel:/z a,kind=host,source=/a/../b a,kind=host,source=srv\n"
          "EnvironmentFile=/etc/web.env\nLoadCredential=key:/srv/secret/key\n"
          "[App web]\nImage=/srv/old.aci\nImage=oci:/srv/images/web:1.0\nMount=/srv/data:/data /mnt/100%%:/p data:/d\nLogFile=/log/web.log,format=plain\n"
          "[App db]\nImage=OCI:/srv/db:1\nSeccompProfile=/srv/calls.json\nVolume=/gone:/x\nVolume=\nVolume=/var/lib/db//:/x\n")
    made, said, status = generate(d)
    check("messages", (said, status), ([], 0))
    check("what it needs", needs(made), {"acnspawn@web.service": "".join("RequiresMountsFor=%s\n" % p for p in (
        "/srv/data", "/srv/web", '"/srv/a b,c"', "/etc/web.env", "/srv/secret/key", "/srv/images/web", "/mnt/100%%", "/log/web.log", "/srv/db", "/srv/calls.json",
        "/var/lib/db"))})
    check("the rest", made, {})


def the_network_of_a_pod(d):
    """Where an image may come from it."""
    remote = ["docker://example.com/a:1", "example.com/a", "https://example.com/a.aci"]
    local = ["/a.aci", "oci:/a:1", "OCI:/a:1", "oci-archive:/a", "docker-archive:/a", "sha512-" + 128 * "0"]
    for i, image in enumerate(remote + local):
        write(d, f"p{i}.pod", f"[App a]\nImage={image}\n")
    write(d, "last.pod", "[App a]\nImage=/a.aci\n[App a]\nImage=example.com/a\n")
    write(d, "never.pod", "[Pod]\nPullPolicy=never\n[App a]\nImage=example.com/a\n")
    write(d, "update.pod", "[Pod]\nPullPolicy=never\nPullPolicy=update\n[App a]\nImage=example.com/a\n")
    write(d, "before.pod", "[App a]\nImage=example.com/a\n[Unit]\nBefore=network-online.target x.service\n")
    write(d, "wanted.pod", "[App a]\nImage=example.com/a\n[Install]\nWantedBy=network-online.target\n")
    write(d, "volume.pod", "[Pod]\nVolume=v,kind=image,source=example.com/v\n[App a]\nImage=sha512-00\n")
    write(d, "manifest.pod", "[Pod]\nPodManifest=/m\n")
    made, said, status = generate(d)
    waiting = {unit for unit, text in needs(made).items() if NETWORK in text}
    made.pop("acnspawn@before.service.d/50-declared.conf")
    made.pop("network-online.target.wants/acnspawn@wanted.service")
    check("pods that wait", sorted(waiting), sorted(f"acnspawn@{n}.service" for n in ("p0", "p1", "p2", "last", "update", "volume", "manifest")))
    check("the rest", (made, said, status), ({}, [], 0))
    with open(os.path.join(d, "acnspawn.conf"), "w") as f:
        f.write("[Image]\nPullPolicy=never\n")
    shutil.rmtree(os.path.join(d, "out"))
    write(d, "reset.pod", "[Pod]\nPullPolicy=new\nPullPolicy=\n[App a]\nImage=example.com/a\n")
    made, said, status = generate(d)
    check("pods that wait on a host that never fetches", [unit for unit, text in needs(made).items() if NETWORK in text], ["acnspawn@update.service"])


UNITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "units")
STORE_UNITS = sorted(name[:-3] for name in os.listdir(UNITS) if name.endswith(".service.in"))


def the_file_system_of_the_store(d):
    """All units that use the store have that of acnspawn.conf, beside the usual one, which is in the units."""
    for unit in STORE_UNITS:
        with open(f"{UNITS}/{unit}.in") as f:
            check(f"whether {unit} waits for the usual store", "\nRequiresMountsFor=@statedir@\n" in f.read(), True)
    conf = os.path.join(d, "acnspawn.conf")
    with open(conf, "w") as f:
        f.write("[Store]\nDirectory=/srv/100% pods\n[Pod]\nNet=nonsense\n")
    made, said, status = generate(d)
    check("what is made", needs(made), {unit: 'RequiresMountsFor="/srv/100%% pods"\n' for unit in STORE_UNITS})
    check("the rest", (made, said, status), ({}, [], 0))
    write(d, "web.pod", "[App web]\nImage=/a.aci\n")
    made, said, status = generate(d)
    check("drop-ins of the template and its instance", sorted(p for p in made if p.startswith("acnspawn@")),
          ["acnspawn@.service.d/40-store.conf", "acnspawn@web.service.d/41-needs.conf"])


def a_store_that_is_not_known(d):
    """Pods have their units all the same."""
    write(d, "web.pod", "[App web]\nImage=sha512-0\n[Install]\nWantedBy=x.target\n")
    with open(os.path.join(d, "acnspawn.conf"), "w") as f:
        f.write("[Store]\nDirectory=srv\n")
    made, said, status = generate(d)
    check("what is made", sorted(made), ["x.target.wants/acnspawn@web.service"])
    check("messages", (said, status), (["acnspawn-generator: Units do not wait for the file system of the store: CONFIG/acnspawn.conf:2: "
                                        "Directory= must be an absolute path"], 1))


def units_of_a_pod(d):
    write(d, "web.pod", "[Pod]\nNet=host\n[App web]\nImage=x\n[Unit]\nDescription=The web of %i\nAfter=a.service \\\n b.service\n"
          "[Service]\nWatchdogSec=1min\nMemoryMax=\n[Install]\nWantedBy=multi-user.target other.target\nRequiredBy=a.service\n")
    write(d, "web.pod.d/x.conf", "[Unit]\nAfter=\nAfter=c.service\n[Install]\nWantedBy=\nWantedBy=graphical.target\n")
    write(d, "plain.pod", "[App web]\nImage=x\n")
    made, said, status = generate(d)
    check("what they need", needs(made), {f"acnspawn@{name}.service": NETWORK for name in ("web", "plain")})
    check("what is made", (made, said, status), ({
        "acnspawn@web.service.d/50-declared.conf":
            "# Made by acnspawn-generator\n[Unit]\nDocumentation=file:CONFIG/pods/web.pod\n\n[Unit]\nDescription=The web of %i\nAfter=a.service  b.service\n"
            "After=\nAfter=c.service\n\n[Service]\nWatchdogSec=1min\nMemoryMax=\n",
        "graphical.target.wants/acnspawn@web.service": "-> ../acnspawn@web.service",
        "a.service.requires/acnspawn@web.service": "-> ../acnspawn@web.service"}, [], 0))


SOCKET_DROP_IN = "# Made by acnspawn-generator\n[Unit]\nDocumentation=file:CONFIG/pods/%(name)s.pod\n\n[Service]\nSockets=acnspawn@%(name)s.socket\n"
SOCKET_HEAD = ("# Made by acnspawn-generator\n[Unit]\nDescription=Sockets of Pod %(name)s\nDocumentation=man:acnspawn.pod(5)\n"
               "SourcePath=CONFIG/pods/%(name)s.pod\n")


def sockets_of_ports(d):
    """Ports that are exposed and socket-activated, by the same name or number."""
    write(d, "web.pod", "[Pod]\nPort=http:8080 127.0.0.1:8443:443\nPublish=[::1]:53:53/udp dns:[fe80::1]:54\nPort=9000-9001:90-91 9100:91\n"
          "[App web]\nImage=sha512-0\nSocketActivated=http, 443\nSocketActivated=90 91/udp\n[App dns]\nImage=sha512-0\nSocketActivated=53/udp dns\n"
          "[Install]\nWantedBy=sockets.target multi-user.target\n")
    write(d, "own.pod", "[Pod]\nPort=80:80\n[App web]\nImage=sha512-0\nSocketActivated=80\n[Socket]\nListenStream=/run/own\n")
    write(d, "more.pod", "[Pod]\nPort=8%%0:80 80:80/tcp x:y: 1:2:3 a\\nb.c:1:2 :80 80: 7.7.7.7\\n:80:80\nPort=81:81\nPort=\nPort=82:82\n"
          "[App web]\nImage=sha512-0\nSocketActivated=80/tcp 81 82\nSocketActivated=y c 2 a\\nb.c\n[Socket]\nBacklog=5\n")
    write(d, "none.pod", "[Pod]\nPort=80:80 http:81 82:82/udp\n[App web]\nImage=sha512-0\nSocketActivated=81 82 8 udp\n[App b]\nImage=sha512-0\nSocketActivated=80\nSocketActivated=\n")
    made, said, status = generate(d)
    check("messages", (said, status), ([], 0))
    check("the socket of web", made.pop("acnspawn@web.socket"), SOCKET_HEAD % {"name": "web"} +
          "\n[Socket]\nListenStream=8080\nListenStream=127.0.0.1:8443\nFreeBind=yes\nListenStream=[fe80::1]:54\nFreeBind=yes\n"
          .replace("ListenStream=[fe80", "ListenDatagram=[::1]:53\nFreeBind=yes\nListenStream=[fe80"))
    check("the socket of own", made.pop("acnspawn@own.socket"), SOCKET_HEAD % {"name": "own"} + "\n[Socket]\nListenStream=/run/own\n")
    check("the socket of more", made.pop("acnspawn@more.socket"), SOCKET_HEAD % {"name": "more"} + "\n[Socket]\nListenStream=82\n\n[Socket]\nBacklog=5\n")
    for name in "web", "own", "more":
        check("the drop-in of " + name, made.pop(f"acnspawn@{name}.service.d/50-declared.conf"), SOCKET_DROP_IN % {"name": name})
    check("the rest", made, {"sockets.target.wants/acnspawn@web.socket": "-> ../acnspawn@web.socket",
                             "multi-user.target.wants/acnspawn@web.service": "-> ../acnspawn@web.service"})


def sockets_of_a_pod(d):
    write(d, "web.pod", "[App web]\nImage=sha512-0\n[Socket]\nListenStream=80\nListenStream=443\nAccept=yes\n[Install]\nWantedBy=sockets.target\n")
    check("what is made", generate(d), ({
        "acnspawn@web.service.d/50-declared.conf": SOCKET_DROP_IN % {"name": "web"},
        "acnspawn@web.socket": "# Made by acnspawn-generator\n[Unit]\nDescription=Sockets of Pod web\nDocumentation=man:acnspawn.pod(5)\n"
                               "SourcePath=CONFIG/pods/web.pod\n\n[Socket]\nListenStream=80\nListenStream=443\n",
        "sockets.target.wants/acnspawn@web.socket": "-> ../acnspawn@web.socket"},
        ["acnspawn-generator: CONFIG/pods/web.pod:6: Accept=: the sockets are those of one pod, and cannot be given to another unit"], 1))


def targets_before_services(d):
    """They are for the socket of a pod; a service would be an ordering cycle."""
    write(d, "web.pod", "[App web]\nImage=sha512-0\n[Install]\nWantedBy=sockets.target multi-user.target\n")
    write(d, "Web.pod", "[App web]\nImage=x\n")
    check("what is made", generate(d), ({"multi-user.target.wants/acnspawn@web.service": "-> ../acnspawn@web.service"},
        ["acnspawn-generator: CONFIG/pods/web.pod:4: WantedBy=: the pod has no socket for sockets.target, before which no service starts",
         "acnspawn-generator: 'Web.pod' declares no pod: it is not named like one"], 1))


def timers_of_updates(d):
    write(d, "web.pod", "[App web]\nImage=sha512-0\nImagePolicy=registry\n[Update]\nOnCalendar=Sun 03:00\nUnit=x.service\nPersistent=no\n")
    write(d, "db.pod", "[App db]\nImage=sha512-0\n[Update]\n")
    write(d, "late.pod", "[App a]\nImage=sha512-0\n[Update]\nRandomizedDelaySec=1h\nOnCalendar=\n")
    head = "# Made by acnspawn-generator\n[Unit]\nSourcePath=CONFIG/pods/%s.pod\n"
    check("what is made", generate(d), ({
        "acnspawn-update@web.timer.d/50-declared.conf": head % "web" + "\n[Timer]\nOnCalendar=\n\n[Timer]\nOnCalendar=Sun 03:00\nPersistent=no\n",
        "acnspawn-update@db.timer.d/50-declared.conf": head % "db",
        "acnspawn-update@late.timer.d/50-declared.conf": head % "late" + "\n[Timer]\nRandomizedDelaySec=1h\nOnCalendar=\n",
        **{f"timers.target.wants/acnspawn-update@{n}.timer": f"-> ../acnspawn-update@{n}.timer" for n in ("web", "db", "late")}},
        ["acnspawn-generator: CONFIG/pods/web.pod:6: Unit=: the timer is that of acnspawn-update@.service"], 1))


def nothing_declared(d):
    check("without a directory", generate(d), ({}, [], 0))
    os.mkdir(os.path.join(d, "pods"))
    check("with an empty one", generate(d), ({}, [], 0))


def one_broken_pod_does_not_hinder_others(d):
    write(d, "a.pod", "[Install]\nWantedBy=x.target\nnonsense\n")
    write(d, "b.pod", "\0")
    os.mkdir(os.path.join(d, "pods", "c.pod"))
    os.mkfifo(os.path.join(d, "pods", "d.pod"))
    write(d, "e.pod", "[Install]\nWantedBy=y.target\n")
    made, messages, rc = generate(d)
    check("what is made", sorted(made), ["x.target.wants/acnspawn@a.service", "y.target.wants/acnspawn@e.service"])
    check("what is said", messages, [
        "acnspawn-generator: CONFIG/pods/a.pod:3: the line is not KEY=VALUE",
        "acnspawn-generator: CONFIG/pods/b.pod:0: the file is not text: it has NUL bytes",
        "acnspawn-generator: c: 'CONFIG/pods/c.pod' is not a regular file",
        "acnspawn-generator: d: 'CONFIG/pods/d.pod' is not a regular file"])
    check("the exit status", rc, 1)


def what_cannot_be_read_does_not_hinder_the_rest(d):
    """A drop-in, and a directory of them: what is known of the pod stays in force."""
    write(d, "web.pod", "[Service]\nMemoryMax=1G\nIPAddressDeny=any\n")
    write(d, "web.pod.d/a.conf/x", "")
    write(d, "web.pod.d/b.conf", "[Service]\nTasksMax=9\n")
    write(d, "db.pod", "[Service]\nMemoryMax=2G\n")
    write(d, "db.pod.d", "")
    made, said, status = generate(d)
    needs(made)
    head = "# Made by acnspawn-generator\n[Unit]\nDocumentation=file:CONFIG/pods/%s.pod\n\n[Service]\n"
    check("what is made", made, {"acnspawn@web.service.d/50-declared.conf": head % "web" + "MemoryMax=1G\nIPAddressDeny=any\nTasksMax=9\n",
                                 "acnspawn@db.service.d/50-declared.conf": head % "db" + "MemoryMax=2G\n"})
    check("messages", (said, status), ([
        "acnspawn-generator: CONFIG/pods/db.pod:0: Cannot open 'CONFIG/pods/db.pod.d': Not a directory",
        "acnspawn-generator: CONFIG/pods/web.pod:0: 'CONFIG/pods/web.pod.d/a.conf' is not a regular file"], 1))


def hostile_names_and_words(d):
    for name in "../x.pod", "A.pod", "a b.pod", ".hidden.pod", "-x.pod", "x@y.pod", "a\n.pod", "a" * 64 + ".pod":
        write(d, name, "[Install]\nWantedBy=x.target\n")
    write(d, "web.pod", "[Pod]\nVolume='/a\\nWants=b.service:/x' /d/../../e:/x\nVolume=/c:/x\n[Unit]\nDescription=x\\\n[Install]\n[Install]\nWantedBy=../../etc/x.target a/b.target .target x 'a b.target' \"\nAlias=y.service\n"
          "WantedBy=..target @.service ok.target\n[Service]\nExecStart=/bin/false\nUser=nobody\n")
    made, messages, rc = generate(d)
    check("what is made", sorted(made), ["acnspawn@web.service.d/41-needs.conf", "acnspawn@web.service.d/50-declared.conf", "ok.target.wants/acnspawn@web.service"])
    check("what it needs", needs({"acnspawn@web.service.d/41-needs.conf": made["acnspawn@web.service.d/41-needs.conf"]}),
          {"acnspawn@web.service": 'RequiresMountsFor="/a\\x0aWants=b.service"\nRequiresMountsFor=/c\n'})
    for part in "[Install]", "ExecStart", "User":
        lines = made["acnspawn@web.service.d/50-declared.conf"].splitlines()
        check(f"whether the drop-in has a line with {part}", any(line.startswith(part) for line in lines), False)
    check("how many messages there are", len([m for m in messages if "declares no pod" not in m]), 6)
    check("the files that declare no pod", sorted(m.split("'")[1] for m in messages if "declares no pod" in m),
          sorted(["A.pod", "a b.pod", "-x.pod", "x@y.pod", "a\\x0a.pod", "a" * 64 + ".pod"]))
    check("the exit status", rc, 1)


def masked_pods(d):
    write(d, "a.pod", "")
    os.symlink("/dev/null", os.path.join(d, "pods", "b.pod"))
    check("what is made", generate(d), ({}, [], 0))


def it_is_quick(d):
    for i in range(500):
        write(d, f"p{i}.pod", "[App web]\nImage=x\n[Unit]\nAfter=x\n[Install]\nWantedBy=multi-user.target\n")
    before = os.times()
    made, messages, rc = generate(d)
    used = os.times()
    check("how much is made", (len(made), messages, rc), (1500, [], 0))
    seconds = used.children_user + used.children_system - before.children_user - before.children_system
    check(f"whether {seconds} s of processor time for 500 pods are few enough", seconds < patience(2), True)


def usage(d):
    r = subprocess.run([GENERATOR], text=True, capture_output=True)
    check("without arguments", (r.returncode, "acnspawn-generator(8)" in r.stderr), (1, True))
    r = subprocess.run([GENERATOR, d + "/none"], text=True, capture_output=True)
    check("without a directory", (r.returncode, r.stderr), (1, f"acnspawn-generator: Cannot open '{d}/none': No such file or directory\n"))


for test in (units_of_a_pod, file_systems_of_a_pod, the_network_of_a_pod, the_file_system_of_the_store, a_store_that_is_not_known,
             what_cannot_be_read_does_not_hinder_the_rest, sockets_of_a_pod, targets_before_services, sockets_of_ports, timers_of_updates, nothing_declared, one_broken_pod_does_not_hinder_others, hostile_names_and_words, masked_pods,
             it_is_quick, usage):
    case(test)
sys.exit(1 if failures else 0)

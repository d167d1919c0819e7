#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""/etc/hostname, /etc/hosts and /etc/resolv.conf of apps; with networks in network.py."""

import ctypes
import tarfile
import tempfile

from harness import *

CLONE_NEWNS = 0x00020000
HOST_RESOLV = "# of the host\nnameserver 127.0.0.53\nnameserver 192.0.2.53\noptions edns0 trust-ad\nsearch example.org\n"
LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
CAT = "for f in hostname hosts resolv.conf; do echo == $f; cat /etc/$f 2>/dev/null; done; true"


def be_a_host():
    """With name servers of its own; the change is not visible outside."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) < 0:
        print("SKIP: cannot make a mount namespace")
        sys.exit(77)
    subprocess.run(["mount", "--make-rslave", "/"], check=True)
    with tempfile.NamedTemporaryFile("w", dir="/var/tmp") as f:
        f.write(HOST_RESOLV)
        f.flush()
        os.chmod(f.name, 0o644)
        subprocess.run(["mount", "--bind", f.name, os.path.realpath("/etc/resolv.conf")], check=True)


def files_of(out):
    parts = re.split(r"^== (.*)\n", out, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def without_etc():
    return {k: v for k, v in base_rootfs().items() if not re.match("etc(/|$)", k)}


def show(host, *options, files=None, script=CAT, app=(), **more):
    r = host.run(*options, host.shell(script, name="example.com/a", files=files, **more), *app)
    return files_of(r.out), r


@both
def a_pod_without_network_resolves_only_itself(host, *options):
    got, r = show(host, "--name=web", *options, script="grep -q ^127.0.1.1 /etc/hosts && ls -ln /etc; " + CAT)
    equal(got["hostname"], "web\n")
    equal(got["hosts"], LOCALHOST + "127.0.1.1\tweb\n")
    equal(got["resolv.conf"], "")
    lacks(r.out.split("==")[0], "resolv.conf")
    for line in r.out.split("==")[0].splitlines():
        if line.endswith((" hosts", " hostname")):
            true(re.match(r"-rw-r--r--\s+1 0\s+0 ", line), line)


@case
def they_are_the_apps_to_write(host):
    host.run(host.shell("echo more >>/etc/hosts && sed -i s/localhost/other/ /etc/hosts && grep -q other /etc/hosts && "
                        "mv /etc/hostname /etc/x && rm /etc/x"))


@case
def files_of_the_image_stay(host):
    own = {"etc/hosts": File("192.0.2.1 own\n"), "etc/hostname": File("own\n"), "etc/resolv.conf": File("nameserver 192.0.2.2\n")}
    got, r = show(host, "--net=host", files=own)
    equal(got, {"hosts": "192.0.2.1 own\n", "hostname": "own\n", "resolv.conf": "nameserver 192.0.2.2\n"})
    lacks(r.err, "replaced")


@case
def empty_files_and_links_that_lead_nowhere_are_nothing(host):
    nothing = {"etc/hosts": File(""), "etc/hostname": Link("../run/none/hostname"),
               "etc/resolv.conf": Link("../run/systemd/resolve/stub-resolv.conf")}
    got, _ = show(host, "--net=host", "--hostname=h", files=nothing)
    equal(got["hosts"], LOCALHOST + "127.0.1.1\th\n")
    equal(got["hostname"], "h\n")
    equal(got["resolv.conf"], HOST_RESOLV)


@case
def options_replace_the_images_files(host):
    own = {"etc/hosts": File("192.0.2.1 own\n"), "etc/hostname": File("own\n"), "etc/resolv.conf": File("nameserver 192.0.2.2\n")}
    got, r = show(host, "--hostname=mine", "--dns=192.0.2.7", "--dns=2001:db8::7", "--dns-search=example.com", "--dns-search=example.net",
                  "--dns-option=ndots:2", "--hosts-entry=192.0.2.9=nine,nine.example.com", "--hosts-entry=2001:db8::9=nine", files=own)
    equal(got["hostname"], "mine\n")
    equal(got["hosts"], LOCALHOST + "127.0.1.1\tmine\n192.0.2.9\tnine nine.example.com\n2001:db8::9\tnine\n")
    equal(got["resolv.conf"], "search example.com example.net\nnameserver 192.0.2.7\nnameserver 2001:db8::7\noptions ndots:2\n")
    for path, option in ("hostname", "--hostname="), ("hosts", "--hosts-entry="), ("resolv.conf", "--dns="):
        contains(r.err, "App a: /etc/%s of its image is replaced, because of %s" % (path, option))


@case
def the_hosts_own(host):
    got, _ = show(host, "--net=host", "--dns-option=ndots:3", "--dns-search=.", "--hosts-entry=host", "--hosts-entry=192.0.2.9=nine")
    equal(got["resolv.conf"], "nameserver 127.0.0.53\nnameserver 192.0.2.53\noptions ndots:3\n")
    true(got["hosts"].startswith(read_text("/etc/hosts").rstrip("\n")), got["hosts"])
    true(got["hosts"].endswith("\n192.0.2.9\tnine\n"), got["hosts"])
    equal(show(host, "--dns=host")[0]["resolv.conf"], HOST_RESOLV)
    equal(show(host, "--net=host", "--dns=none")[0]["resolv.conf"], "")


@case
def special_files_of_the_host_are_ignored(host):
    image = host.shell(CAT, name="example.com/a")
    setup = "umount {0}; mount --bind /dev/null {0}; exec \"$@\"".format(os.path.realpath("/etc/resolv.conf"))

    def run(*options):
        return subprocess.run(["unshare", "--mount", "sh", "-c", setup, "sh", *host.argv("run", "--net=host", *options, image)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    r = run()
    equal((r.returncode, r.stderr), (0, ""))
    equal(files_of(r.stdout)["resolv.conf"], "")
    r = run("--dns=host")
    equal(r.returncode, 1)
    contains(r.stderr, "Cannot read /etc/resolv.conf of the host")


@case
def nothing_leads_out_of_the_root(host):
    """A marker outside, links of every kind that would lead to it."""
    marker = host.path("marker")
    for target in marker, "../" * 30 + marker[1:], "/proc/self/root" + marker, "/proc/1/root" + marker:
        with open(marker, "w") as f:
            f.write("untouched")
        host.run("--hostname=h", "--dns=192.0.2.1", "--hosts-entry=192.0.2.9=nine",
                 host.shell("grep -q 192.0.2.1 /etc/resolv.conf && grep -q nine /etc/hosts && ls -l /etc",
                            files={"etc/" + n: Link(target) for n in ("hosts", "hostname", "resolv.conf")}))
        equal(read_text(marker), "untouched")
    for target in host.path("outside"), "../" * 30 + host.path("outside")[1:], "/proc/self/cwd":
        os.makedirs(host.path("outside"), exist_ok=True)
        host.acnspawn("run", "--hostname=h", host.image(["/bin/true"], files={"etc": Link(target)}))
        equal(os.listdir(host.path("outside")), [])
    host.run(host.image(["/bin/true"], files={"etc/resolv.conf": Dir()}))
    r = host.run("--dns=192.0.2.1", host.image(["/bin/true"], files={"etc/resolv.conf": Dir()}), rc=125)
    contains(r.err, "Cannot write /etc/resolv.conf of app")


@case
def an_etc_that_is_a_link_is_followed_inside(host):
    files = {"etc": Link("/usr/etc"), "usr/etc": Dir()}
    got, _ = show(host, "--hostname=h", base=False, files={**without_etc(), **files})
    equal(got["hostname"], "h\n")
    show(host, base=False, files={**without_etc(), "etc": Link("nowhere")})
    show(host, base=False, files={**without_etc(), "etc": File("x")})


@case
def an_image_without_etc(host):
    got, _ = show(host, "--name=p", base=False, files=without_etc())
    contains(got["hosts"], "127.0.1.1\tp\n")


@case
def volumes_are_left_alone(host):
    volume = host.path("volume")
    os.makedirs(volume)
    for name in "hosts", "resolv.conf":
        with open(os.path.join(volume, name), "w") as f:
            f.write("of the volume\n")
    before = sorted(os.listdir(volume))
    got, r = show(host, "--volume=v,kind=host,source=" + volume, "--mount=v:/etc", "--hosts-entry=192.0.2.9=nine")
    equal(got["hosts"], "of the volume\n")
    contains(r.err, "App a does not use the file for --hosts-entry=: /etc/hosts is on or in a volume, mounted at /etc")
    got, _ = show(host, "--net=host", "--volume=v,kind=host,source=" + volume, "--mount=v:/vol",
                  files={"etc/resolv.conf": Link("../vol/resolv.conf"), "etc/hosts": Link("/vol/hosts")})
    equal((got["resolv.conf"], got["hosts"]), ("of the volume\n", "of the volume\n"))
    equal((sorted(os.listdir(volume)), read_text(os.path.join(volume, "hosts"))), (before, "of the volume\n"))


@case
def a_read_only_root_and_a_restart_have_them_too(host):
    got, _ = show(host, "--hostname=h", "--hosts-entry=192.0.2.9=nine", app=["--read-only"])
    contains(got["hosts"], "nine")
    script = "cat /etc/hosts; echo spoiled >/etc/hosts; echo run >>/data/runs; test $(wc -l </data/runs) -ge 2"
    r = host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", host.shell(script),
                 "--restart=on-failure", "--restart-delay=10ms")
    equal(r.out, 2 * (LOCALHOST + "127.0.1.1\tp\n"))


@case
def enter_sees_the_same(host):
    host.detach("--name=p", "--net=host", "--hosts-entry=192.0.2.9=nine", host.shell("touch /out/up; sleep 1000", name="example.com/a"))
    host.wait_up("a")
    contains(host.acnspawn("enter", "p", "cat", "/etc/hosts").expect(0).out, "nine")
    equal(host.acnspawn("enter", "p", "cat", "/etc/resolv.conf").expect(0).out, HOST_RESOLV)
    host.acnspawn("stop", "p").expect(0)


@both
def they_are_no_part_of_an_export_unless_changed(host, *options):
    own = {"etc/resolv.conf": File("nameserver 192.0.2.2\n"), "etc/hosts": File("")}
    host.run("--name=p", "--net=host", "--dns=192.0.2.9", *options, host.shell("true", files=own))
    host.acnspawn("export", "p", "-o", host.path("x.aci")).expect(0)
    with tarfile.open(host.path("x.aci")) as t:
        equal([n for n in t.getnames() if n.endswith(("etc/hosts", "etc/hostname", "etc/resolv.conf"))], ["rootfs/etc/resolv.conf"])
    host.run("--name=q", *options, host.shell("echo 192.0.2.1 x >>/etc/hosts; touch /etc/other"))
    host.acnspawn("export", "q", "-o", host.path("y.aci")).expect(0)
    with tarfile.open(host.path("y.aci")) as t:
        equal([n for n in t.getnames() if n.endswith(("etc/hosts", "etc/hostname", "etc/other"))], ["rootfs/etc/hosts", "rootfs/etc/other"])


@case
def files_copied_into_a_prepared_pod_stay(host):
    uuid = host.prepare(host.shell("cat /etc/hosts"))
    with open(host.path("hosts"), "w") as f:
        f.write("192.0.2.1 copied\n")
    host.acnspawn("cp", host.path("hosts"), uuid + ":/etc/hosts").expect(0)
    equal(host.run(uuid).out, "192.0.2.1 copied\n")


@case
def a_restarted_app_has_the_name_servers_that_the_host_has_then(host):
    image = host.shell("cp /etc/resolv.conf /seen; touch /up; trap 'exit 0' TERM; while :; do sleep 0.05; done", name="example.com/a")
    host.detach("--net=host", "--name=p", image)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("a"), "up")), "the app")
    equal(host.written("a", "seen").decode(), HOST_RESOLV)
    try:
        with open("/etc/resolv.conf", "w") as f:
            f.write("nameserver 192.0.2.54\n")
        host.acnspawn("restart-app", "p", "a").expect(0)
        wait_for(lambda: os.path.exists(os.path.join(host.upper("a"), "up")), "the app again")
        equal(host.written("a", "seen").decode(), "nameserver 192.0.2.54\n")
        with open("/etc/resolv.conf", "w") as f:
            f.write("# the host has no connection\n")
        host.acnspawn("restart-app", "p", "a").expect(0)
        wait_for(lambda: os.path.exists(os.path.join(host.upper("a"), "up")), "the app once more")
        equal(host.written("a", "seen").decode(), "nameserver 192.0.2.54\n", "what it had before")
        host.acnspawn("stop", "p").expect(0)
    finally:
        with open("/etc/resolv.conf", "w") as f:
            f.write(HOST_RESOLV)


@case
def they_are_kept_with_the_pod_and_shown(host):
    uuid = host.prepare("--dns=192.0.2.7", "--dns-search=example.com", "--dns-option=ndots:2", "--hosts-entry=192.0.2.9=nine,n9",
                        host.shell(CAT, name="example.com/a"))
    status = host.status(uuid)
    equal(status["dns"], {"servers": ["192.0.2.7"], "search": ["example.com"], "options": ["ndots:2"]})
    equal(status["hostsEntries"], ["192.0.2.9=nine,n9"])
    text = host.acnspawn("status", uuid).out
    contains(text, "DNS: 192.0.2.7, search example.com, options ndots:2\n")
    contains(text, "Hosts: 192.0.2.9=nine,n9\n")
    got = files_of(host.run(uuid).out)
    contains(got["hosts"], "192.0.2.9\tnine n9\n")


@case
def impossible_values_are_refused(host):
    for options, message in (["--dns=example.com"], "is not a valid IP address"), (["--dns=none", "--dns=192.0.2.1"], "'none' cannot be combined with others"), \
            (["--dns=192.0.2.1\nsearch x"], "is not a valid IP address"), (["--dns-search=a b"], "is not a valid domain"), (["--dns-search=../x"], "is not a valid domain"), \
            (["--dns-option=a b"], "is not a valid option of resolv.conf"), (["--hosts-entry=x=y"], "is not a valid IP address"), (["--hosts-entry=192.0.2.1"], "neither"), \
            (["--hosts-entry=192.0.2.1=a,,b"], "neither"), (["--hosts-entry=192.0.2.1=a\n1.1.1.1 b"], "is not a valid host name"), \
            (["--dns=none", "--dns-search=example.com"], "--dns=none leaves"):
        r = host.acnspawn("prepare", *options, "example.com/a").expect(2)
        contains(r.err, message, options)


if __name__ == "__main__":
    if os.geteuid() == 0:
        be_a_host()
    main()

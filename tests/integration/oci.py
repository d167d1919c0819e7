#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""OCI images made by umoci, skopeo and buildah, from layouts and archives, run in real pods: whiteouts of layers,
conversion of configs, sharing of layers and their removal."""

import gzip
import hashlib
import stat

from harness import *

PASSWD = "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n"
GROUP = "root:x:0:\napp:x:1001:\nextra:x:2000:app\nother:x:2001:nobody\n"


def tool(*argv, **more):
    if not shutil.which(argv[0]):
        raise Skip("%s is not installed" % argv[0])
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **more)
    if r.returncode != 0:
        fail("%s: %s" % (" ".join(argv), r.stdout))
    return r.stdout


class Builder:
    """An OCI layout made by umoci, layer by layer."""

    def __init__(self, host, name="layout"):
        self.host, self.dir = host, host.path(name)
        self.image = self.dir + ":1.0"
        tool("umoci", "init", "--layout", self.dir)
        tool("umoci", "new", "--image", self.image)

    def layer(self, change):
        bundle = self.host.path("bundle")
        tool("umoci", "unpack", "--image", self.image, bundle)
        change(os.path.join(bundle, "rootfs"))
        tool("umoci", "repack", "--image", self.image, bundle)
        shutil.rmtree(bundle)
        return self

    def config(self, *options):
        tool("umoci", "config", "--image", self.image, *options)
        return self

    def base(self):
        def change(root):
            for d in "bin", "etc", "tmp", "home/app", "d", "o", "dev":
                os.makedirs(os.path.join(root, d))
            os.chmod(os.path.join(root, "tmp"), 0o1777)
            shutil.copy(BUSYBOX, os.path.join(root, "bin/busybox"))
            for applet in "sh", "ls", "cat", "id", "env", "pwd", "stat", "echo", "find":
                os.link(os.path.join(root, "bin/busybox"), os.path.join(root, "bin", applet))
            put(root, "etc/passwd", PASSWD)
            put(root, "etc/group", GROUP)
            put(root, "d/one", "1")
            put(root, "d/two", "2")
            put(root, "o/old", "old")
            os.mknod(os.path.join(root, "dev/null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        return self.layer(change)

    def runs(self, script):
        return self.config("--config.entrypoint", "/bin/sh", "--config.cmd", "-c", "--config.cmd", script)

    def reference(self):
        return "oci:" + self.image


def put(root, name, text):
    with open(os.path.join(root, name), "w") as f:
        f.write(text)


def fetch(host, reference):
    return host.acnspawn("fetch", reference).expect(0).out.split()[0]


def layers_in_store(host):
    return sorted(os.listdir(os.path.join(host.dir, "layers")))


@case
def config_is_taken_as_it_is_meant(host):
    b = Builder(host).base().config("--config.user", "app", "--config.env", "A=b c", "--config.workingdir", "/d")
    b.runs("id; pwd; echo A=$A; echo $0 $1")
    image = fetch(host, b.reference())
    r = host.run(image)
    contains(r.out, "uid=1000(app) gid=1001(app) groups=1001(app),2000(extra)", "output")
    contains(r.out, "\n/d\nA=b c\n", "output")
    b.config("--config.user", "1000:0")
    r = host.run(b.reference())
    contains(r.out, "uid=1000(app) gid=0(root)", "output")
    lacks(r.out, "extra", "output")
    b.config("--config.user", "4242")
    contains(host.run(b.reference()).out, "uid=4242 gid=0(root)", "output")


@case
def an_app_without_a_terminal_has_no_console(host):
    """Entrypoints write to /dev/console where it is. App Container images have the null device, which their specification asks for."""
    reference = Builder(host).base().runs("while :; do sleep 1; done").reference()
    with open(host.path("secret"), "w") as f:
        f.write("x")
    host.acnspawn("run", "--detach", "--name=p", "--exit-policy=never", reference, "--name=a", "---", reference, "--name=terminal", "--input=terminal",
                  "---", reference, "--name=device", "--device=/dev/full:/dev/more", "---", host.shell("exec sleep 600"), "--name=appc").expect(0)
    host.acnspawn("add-app", "p", reference, "--name=later", "--credential=secret:" + host.path("secret")).expect(0)
    host.acnspawn("start-app", "p", "later").expect(0)
    found = {}
    for app in "a", "terminal", "device", "appc", "later":
        r = host.acnspawn("enter", "--app=" + app, "p", "--", "/bin/sh", "-c",
                          "test -c /dev/null && test -c /dev/tty || exit 1; ls -l /dev/console 2>/dev/null; exit 0").expect(0)
        found[app] = r.out.split()[4:6]
    equal((found["a"], found["device"], found["later"]), ([], [], []))
    equal(found["appc"], ["1,", "3"])
    equal(found["terminal"][0], "136,")
    equal(host.acnspawn("enter", "--app=later", "p", "--", "/bin/cat", "/dev/credentials/secret").out, "x")
    host.acnspawn("stop", "--timeout=0", "p").expect(0)


@case
def a_dev_that_could_not_be_made_is_made_by_the_next_start(host):
    need_strace()
    reference = Builder(host).base().runs("while :; do sleep 1; done").reference()
    host.acnspawn("run", "--detach", "--name=p", "--exit-policy=never", host.shell("exec sleep 600"), "--name=appc").expect(0)
    host.acnspawn("add-app", "p", reference, "--name=later").expect(0)
    supervisor = host.supervisor(host.status("p")["uuid"])
    strace = subprocess.Popen(["strace", "-qq", "-o", host.path("trace"), "-e", "trace=mknodat", "-e", "inject=mknodat:error=ENOSPC:when=1",
                               "-p", str(supervisor)], stderr=subprocess.DEVNULL)
    wait_for(lambda: tracer_of(supervisor) != 0, "strace to attach")
    contains(host.acnspawn("start-app", "p", "later").expect(1).err, "Cannot clone /dev: No space left on device")
    strace.send_signal(signal.SIGINT)
    strace.wait()
    host.acnspawn("start-app", "p", "later").expect(0)
    host.acnspawn("enter", "--app=later", "p", "--", "/bin/sh", "-c", "test -c /dev/urandom && test ! -e /dev/console").expect(0)
    host.acnspawn("stop", "--timeout=0", "p").expect(0)


@case
def arguments_take_the_place_of_cmd(host):
    b = Builder(host).base().config("--config.entrypoint", "/bin/echo", "--config.entrypoint", "entry", "--config.cmd", "default")
    b.config("--config.user", "0")
    equal(host.run(b.reference()).out, "entry default\n", "output without arguments")
    equal(host.run(b.reference(), "--", "mine", "too").out, "entry mine too\n", "output with arguments")
    equal(host.run(b.reference(), "--exec=/bin/echo").out, "\n", "output of another program")
    equal(host.run(b.reference(), "--exec=/bin/echo", "--", "x").out, "x\n", "output of another program with arguments")
    b.config("--clear=config.entrypoint", "--config.cmd", "/bin/sh")
    equal(host.run(b.reference(), "--", "/bin/echo", "a").out, "a\n", "output of an image with a Cmd alone")
    b.config("--clear=config.cmd")
    equal(host.run(b.reference(), "--", "/bin/echo", "b").out, "b\n", "output of an image with neither")
    contains(host.run(b.reference(), rc=1).err, "has no command", "message")
    # Those of App Container images are appended.
    aci = host.image(exec=["/bin/echo", "a"])
    equal(host.run(aci, "--", "b").out, "a b\n", "output of an App Container image")


@case
def archives_and_layouts_by_path(host):
    b = Builder(host).base().runs("echo here")
    archive, docker, compressed = host.path("oci.tar"), host.path("docker.tar"), host.path("docker.tar.gz")
    tool("skopeo", "copy", b.reference(), "oci-archive:" + archive + ":1.0")
    tool("skopeo", "copy", b.reference(), "docker-archive:" + docker + ":example.com/team/app:1.0")
    with open(docker, "rb") as f, gzip.open(compressed, "wb", 1) as z:
        shutil.copyfileobj(f, z)
    image = fetch(host, b.dir)
    equal(fetch(host, archive), image, "the image in an OCI archive")
    saved = fetch(host, docker)
    equal(fetch(host, compressed), saved, "the image in a compressed Docker archive")
    equal(host.run(docker).out, "here\n", "output")
    with open(docker, "rb") as f:
        contains(host.acnspawn("fetch", "-", input=f.read()).expect(1).err, "docker-archive:-", "message")
    os.mkdir(host.path("empty"))
    contains(host.acnspawn("fetch", host.path("empty")).expect(1).err, "is a directory, not an image", "message")


@case
def a_truncated_archive_is_reported_as_such(host):
    """Also if the document at its end, which names all other members, is missing."""
    path = host.path("cut.tar")
    with tarfile.open(path, "w") as t:
        for name, content in ("layer.tar", b"x" * 100000), ("manifest.json", b"[]"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            t.addfile(member, io.BytesIO(content))
    os.truncate(path, 50000)
    for verb in "fetch", "run":
        contains(host.acnspawn(verb, "docker-archive:" + path).expect(1).err, "truncated")


@case
def names_that_are_meant_for_registries(host):
    for name in "nginx", "localhost:5000/x", "registry.invalid/library/nginx:1.0":
        contains(host.acnspawn("fetch", name).expect(1).err, "'docker://%s'" % name, "message")
        contains(host.acnspawn("run", name).expect(1).err, "docker://%s'" % name, "message")
    contains(host.acnspawn("run", "containers-storage:x").expect(1).err, "skopeo copy 'containers-storage:x'", "message")
    contains(host.acnspawn("fetch", "docker-daemon:x:1").expect(1).err, "skopeo copy 'docker-daemon:x:1'", "message")


@case
def odd_parts_of_a_config_are_ignored(host):
    """With a warning each, as other engines do; the image runs."""
    b = Builder(host).base().runs("pwd; env")
    index = json.load(open(os.path.join(b.dir, "index.json")))
    blob = lambda d: os.path.join(b.dir, "blobs", d["digest"].replace(":", "/"))
    manifest = json.load(open(blob(index["manifests"][0])))
    config = json.load(open(blob(manifest["config"])))

    def add(document, descriptor):
        text = json.dumps(document).encode()
        descriptor.update(digest="sha256:" + hashlib.sha256(text).hexdigest(), size=len(text))
        with open(blob(descriptor), "wb") as f:
            f.write(text)

    config["config"].update({"ExposedPorts": {"0/tcp": {}, "abc": {}, "80/tcp": {}}, "Volumes": {"/dev": {}, "/a/../..": {}, "/x/../o": {}},
                             "Env": ["=x", "NAME", "A=1"], "Labels": {"nul": "a\0b"}, "WorkingDir": "/o/../d/.", "StopSignal": "sigrtmax-1"})
    config["rootfs"]["type"] = "other"
    config["history"] = [{"created_by": "\0"}]
    add(config, manifest["config"])
    add(manifest, index["manifests"][0])
    with open(os.path.join(b.dir, "index.json"), "w") as f:
        json.dump(index, f)
    r = host.run(b.reference())
    contains(r.out, "/d\n")
    contains(r.out, "A=1\n")
    checked = host.acnspawn("validate", b.dir).expect(0)
    equal((checked.out, checked.err.count("and is ignored")), (b.dir + ": valid OCI layout\n", 8), checked.err)
    contains(checked.err, 'Warning: %s/blobs/' % b.dir)
    equal(host.acnspawn("validate", "--strict", b.dir).expect(1).out.count("and is ignored"), 8)
    for what in ('config.ExposedPorts: "0/tcp" is not a port', '"abc"', 'config.Volumes: "/dev" cannot be the place of a volume', '"/a/../.."',
                 'config.Env: "=x" has no valid name', '"NAME" has no "="', "config.Labels.nul: contains a NUL", "rootfs.type: is not"):
        contains(r.err, what)
    equal(r.err.count("and is ignored"), 8, r.err)
    app = json.loads(host.acnspawn("cat-manifest", os.path.basename(host.one_pod())).expect(0).out)["apps"][0]
    equal([p["path"] for p in app["app"]["mountPoints"]], ["/o"])
    contains(json.dumps(app), "sigrtmax-1")


@case
def another_user_has_its_own_groups(host):
    """Not the group of the image, which is for the image's user; and root has the groups of root."""
    b = Builder(host).base().layer(lambda root: put(root, "etc/group", GROUP + "adm:x:4:root\n"))
    b.runs("echo $(id -u) $(id -g) $(id -G)")
    for image in "", "1234:2000":
        if image:
            b.config("--config.user", image)
        own = image.replace(":", " ") or "0 0"
        for user, is_ in (("", own + (" 2000" if image else " 0 4")), ("app", "1000 1001 1001 2000"), ("app:", "1000 1001 1001 2000"),
                          ("1000", "1000 1001 1001 2000"), ("app:5", "1000 5 5"), (":5", own.split()[0] + " 5 5"), ("77", "77 0 0")):
            equal(host.run(*(["-u", user] if user else []), b.reference()).out, is_ + "\n", "user '%s' of an image with '%s'" % (user, image))


@case
def labels_of_a_config_give_no_rights(host):
    """Even if they have names of acnspawn's annotations: they become annotations with separate names, and no setting
    of the app."""
    b = Builder(host).base().config("--config.label", "acnspawn/grant=all", "--config.label", "acnspawn/restart=always",
                                    "--config.label", "appc.io/executor/supports-systemd-notify=true")
    b.runs("while read name value; do case $name in CapBnd:|Seccomp:) echo $name $value;; esac; done </proc/self/status")
    uuid = host.prepare(b.reference())
    equal(host.run(uuid).out, "CapBnd: 00000000a80425fb\nSeccomp: 2\n", "output")
    status = host.status(uuid)
    equal((status["isolators"], status["privileges"]), ([], []))
    entry = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)["apps"][0]
    # The variables that each app of an OCI image has.
    equal([a["name"] for a in entry["annotations"] if a["name"].startswith("acnspawn/")], ["acnspawn/hostname-variable"])


@case
def volumes_begin_as_the_directory_of_the_image(host):
    def change(root):
        os.mkdir(os.path.join(root, "data"))
        os.chown(os.path.join(root, "data"), 1000, 1001)
        os.chmod(os.path.join(root, "data"), 0o750)

    b = Builder(host).base().layer(change).config("--config.user", "app", "--config.volume", "/data")
    b.runs("stat -c '%a %u %g' /data; echo x > /data/x && cat /data/x")
    equal(host.run(b.reference()).out, "750 1000 1001\nx\n", "output")
    # A new named volume as well, at a mount point or elsewhere, unless its mode or owner is given.
    equal(host.run("--volume=named:/data", b.reference()).out, "750 1000 1001\nx\n", "output")
    st = os.stat(os.path.join(host.dir, "volumes", "named", "data"))
    equal((st.st_mode & 0o7777, st.st_uid, st.st_gid), (0o750, 1000, 1001), "the named volume")
    r = host.run("--volume=d,kind=named,source=given,mode=0777", b.reference(), "--mount=d:/data")
    equal(r.out, "777 0 0\nx\n", "output")


@case
def layers_hide_what_they_remove(host):
    b = Builder(host).base()

    def change(root):
        os.unlink(os.path.join(root, "d/one"))
        put(root, "d/three", "3")
        put(root, "tmp/x", "x")
        shutil.rmtree(os.path.join(root, "o"))

    b.layer(change)

    def again(root):
        os.mkdir(os.path.join(root, "o"))
        put(root, "o/new", "new")

    b.layer(again).runs("ls /d /o; stat -c %a /tmp; find / -xdev -name '.wh.*'")
    r = host.run(b.reference())
    equal(r.out.split(), ["/d:", "three", "two", "/o:", "new", "1777"], "output")


def raw_layer(files):
    """A layer that umoci would not write: opaque directories by their marker."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def add_raw_layers(b, layers):
    for i, data in enumerate(layers):
        path = b.host.path("raw%d.tar" % i)
        with open(path, "wb") as f:
            f.write(data)
        tool("umoci", "raw", "add-layer", "--image", b.image, path)
    return b


@case
def opaque_directories_hide_all(host):
    b = Builder(host).base()
    add_raw_layers(b, [raw_layer([("o/before", b""), ("o/.wh..wh..opq", b""), ("o/after", b"")])])
    b.runs("ls /o; ls /d")
    equal(host.run(b.reference()).out.split(), ["after", "before", "one", "two"], "output")


@case
@with_timeout(400)
def many_layers(host):
    b = Builder(host).base()
    add_raw_layers(b, [raw_layer([("n/%d" % i, b"x"), ("n/last", b"%d" % i)] +
                                 ([("n/.wh.%d" % (i - 1), b"")] if i % 2 else [])) for i in range(130)])
    b.runs("ls /n | busybox wc -l; cat /n/last")
    equal(host.run(b.reference(), timeout=120).out.split(), ["66", "129"], "output")


@case
def transports_and_compressions_come_to_the_same(host):
    b = Builder(host).base().runs("echo hello")
    image = fetch(host, b.reference())
    tool("skopeo", "copy", "-q", b.reference(), "oci-archive:%s:1.0" % host.path("a.oci.tar"))
    tool("skopeo", "copy", "-q", b.reference(), "docker-archive:%s:example.com/hello:2.0" % host.path("d.tar"))
    equal(fetch(host, "oci-archive:" + host.path("a.oci.tar")), image, "ID from the OCI archive")
    docker = fetch(host, "docker-archive:" + host.path("d.tar"))
    equal(host.run(docker).out, "hello\n", "output")
    equal(host.run("docker-archive:%s:example.com/hello:2.0" % host.path("d.tar")).out, "hello\n", "output")
    tool("gzip", host.path("a.oci.tar"))
    equal(fetch(host, "oci-archive:" + host.path("a.oci.tar.gz")), image, "ID from the compressed archive")
    tool("skopeo", "copy", "-q", "--dest-compress-format", "zstd", b.reference(), "oci:%s:z" % host.path("zstd"))
    host.acnspawn("image", "rm", image).expect(0)
    host.acnspawn("gc", "--grace-period=0").expect(0)
    equal(host.run("oci:%s:z" % host.path("zstd")).out, "hello\n", "output of the image compressed with zstd")


@case
def an_archive_that_comes_through_a_fifo(host):
    b = Builder(host).base().runs("echo hello")
    archive, fifo = host.path("a.tar"), host.path("fifo")
    tool("skopeo", "copy", "-q", b.reference(), "oci-archive:%s:1.0" % archive)
    os.mkfifo(fifo)
    p = host.start("fetch", "oci-archive:" + fifo)
    wait_for(lambda: fifo in descriptors_of(p.pid).values() and at_rest(p.pid), "that it waits for a writer")
    p.send_signal(signal.SIGINT)  # no writer: that does not prevent it from ending
    p.wait(patience(10))
    p = host.start("fetch", "oci-archive:" + fifo)
    with open(archive, "rb") as f, open(fifo, "wb") as to:
        to.write(f.read())
    r = host.finish(p)
    equal(r.rc, 0, r.err)
    equal(fetch(host, b.reference()), r.out.strip(), "ID")
    contains(host.acnspawn("image", "show", b.reference()).expect(0).out, r.out.strip())
    for name, why in (("/dev/null", "neither a regular file nor a pipe"), (host.path(), "directory")):
        contains(host.acnspawn("fetch", "docker-archive:" + name).expect(1).err, why)


@case
def images_saved_by_podman(host):
    """Archives of "podman save", with one image or several, by each of their names."""
    if not shutil.which("podman"):
        raise Skip("podman is not installed")
    archive = Builder(host).base().layer(lambda root: put(root, "d/two", "second layer")).runs("cat /d/two; echo")
    tool("skopeo", "copy", "-q", archive.reference(), "oci-archive:%s:1.0" % host.path("in.tar"))
    podman = ("podman", "--root", host.path("podman"), "--runroot", host.path("podman.run"), "--storage-driver", "vfs")
    tool(*podman, "load", "-i", host.path("in.tar"))
    id = tool(*podman, "images", "-q", "--no-trunc").strip()
    names = "example.com/team/app:1.0", "localhost/other:2.0"
    for name in names:
        tool(*podman, "tag", id, name)
    ids = set()
    for format in "docker-archive", "oci-archive":
        file = host.path(format + ".tar")
        tool(*podman, "save", "--format", format, "-o", file, names[0])
        reference = "%s:%s" % (format, file)
        equal(host.run(reference).out.strip(), "second layer", "output of the app in the %s" % format)
        ids.add(fetch(host, reference))
        contains(host.acnspawn("image", "show", reference).expect(0).out, "example.com/team/app" if format == "docker-archive" else format)
        host.acnspawn("validate", file).expect(0)
    equal(len(ids), 1, "IDs of one image in two formats")
    tool(*podman, "save", "-m", "-o", host.path("both.tar"), *names)
    for name in names:
        equal(fetch(host, "docker-archive:%s:%s" % (host.path("both.tar"), name)), ids.copy().pop(), "ID of " + name)
    directory = host.path("directory")
    tool(*podman, "save", "--format", "oci-dir", "-o", directory, names[0])
    equal(fetch(host, "oci:" + directory), ids.pop(), "ID of the image in a directory")
    tool(*podman, "rmi", "-a", "-f")


@case
def all_images_of_a_docker_archive(host):
    """As 'podman load' takes them; one of them by its name or number."""
    archive, id_of = host.path("all.tar"), {}
    for i, name in enumerate(("one", "two", "three")):
        b = Builder(host, name).base().runs("echo " + name)
        tool("skopeo", "copy", "-q", b.reference(), "docker-archive:%s:example.com/%s:1.0" % (host.path(name + ".tar"), name))
        id_of[name] = fetch(host, "docker-archive:" + host.path(name + ".tar"))
    # One archive of the three: their members, and one manifest.json that lists all.
    images, members = [], {}
    for name in id_of:
        with tarfile.open(host.path(name + ".tar")) as tar:
            for m in tar:
                data = tar.extractfile(m).read() if m.isfile() else None
                if m.name == "manifest.json":
                    images += json.loads(data)
                elif m.name != "repositories":
                    members[m.name] = (m, data)
    with tarfile.open(archive, "w") as tar:
        for m, data in [*members.values(), (tarfile.TarInfo("manifest.json"), json.dumps(images).encode())]:
            if data is not None:
                m.size = len(data)
            tar.addfile(m, io.BytesIO(data) if data is not None else None)
    for id in id_of.values():
        host.acnspawn("image", "rm", id).expect(0)
    r = host.acnspawn("fetch", "docker-archive:" + archive).expect(1)
    contains(r.err, "There are several images in it")
    contains(r.err, "'acnspawn fetch --all'")
    equal(host.acnspawn("fetch", "--all", "docker-archive:" + archive).expect(0).out.split(), list(id_of.values()))
    equal(host.acnspawn("fetch", "--all", archive).expect(0).out.split(), list(id_of.values()))
    names = host.acnspawn("image", "list", "--format={name}:{version}").expect(0).out.split()
    equal(sorted(names), ["example.com/one:1.0", "example.com/three:1.0", "example.com/two:1.0"])
    equal(host.run("docker-archive:%s:two:1.0" % archive).out, "two\n")
    contains(host.acnspawn("fetch", "--all", "-").expect(2).err, "cannot be standard input")
    contains(host.acnspawn("fetch", "--all", host.path("one")).expect(1).err, "Cannot read docker-archive:")
    for wrong in "oci:" + host.path("one"), "docker-archive:%s:two:1.0" % archive:
        contains(host.acnspawn("fetch", "--all", wrong).expect(1).err, "--all takes docker-archive:FILE, or FILE alone")


@case
def an_image_made_by_buildah(host):
    storage = ["--root", host.path("storage"), "--runroot", host.path("run"), "--storage-driver", "vfs"]
    base = Builder(host).base()
    container = tool("buildah", *storage, "from", base.reference(), env={**os.environ, "STORAGE_DRIVER": "vfs"}).split()[-1]
    put(host.path(), "f", "from buildah")
    tool("buildah", *storage, "copy", container, host.path("f"), "/d/f")
    tool("buildah", *storage, "config", "--entrypoint", '["/bin/cat"]', "--cmd", "/d/f", container)
    tool("buildah", *storage, "commit", "-q", container, "oci:%s:made" % host.path("made"))
    equal(host.run("oci:" + host.path("made")).out, "from buildah", "output")


@case
def layers_are_shared_and_go_with_the_last_image(host):
    b = Builder(host).base().runs("echo one")
    one = fetch(host, b.reference())
    base = layers_in_store(host)
    equal(len(base), 1, "number of layers")
    b.layer(lambda root: put(root, "d/more", "")).runs("echo two")
    two = fetch(host, b.reference())
    true(set(base) < set(layers_in_store(host)), "the second image shares the layer of the first")
    pod = host.prepare(two)
    # The first image can be removed without its layer.
    df = {k["kind"]: k for k in json.loads(host.acnspawn("df", "--json=short").expect(0).out)}
    equal([(df[k]["count"], df[k]["reclaimable"] > 0) for k in ("images", "layers")], [(2, True), (len(layers_in_store(host)), False)], "disk usage")
    equal([i["id"] for i in json.loads(host.acnspawn("prune", "--dry-run", "--json=short").expect(0).out) if i["kind"] == "image"], [one], "what pruning removes")
    r = host.acnspawn("image", "rm", two).expect(1)
    contains(r.err, "is needed by the pod", "message")
    host.acnspawn("image", "rm", one).expect(0)
    true(set(base) <= set(layers_in_store(host)), "the layer stays for the second image")
    host.acnspawn("rm", pod).expect(0)
    os.mkdir(os.path.join(host.dir, "layers", "sha256-" + "0" * 64))
    host.acnspawn("gc").expect(0)
    lacks(" ".join(layers_in_store(host)), "0" * 64, "layers after gc")
    host.acnspawn("image", "rm", two).expect(0)
    equal(layers_in_store(host), [], "layers")


@case
def a_layer_made_of_several_stays_for_its_pod(host):
    """It has a name of its own, by which gc finds it in pods and images."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("linked")
        info.type, info.linkname = tarfile.LNKTYPE, "d/two"
        tar.addfile(info)
    b = add_raw_layers(Builder(host).base(), [out.getvalue()]).runs("cat /linked")
    image = fetch(host, b.reference())
    before = layers_in_store(host)
    true(sum(l.startswith("merged-") for l in before) >= 1 and any(l.startswith("sha256-") for l in before), "names of layers: %r" % before)
    pod = host.prepare(image)
    host.acnspawn("gc", "--grace-period=0").expect(0)
    host.acnspawn("image", "gc", "--grace-period=0").expect(0)
    equal(layers_in_store(host), before, "layers after gc")
    equal(host.acnspawn("run", pod).expect(0).out, "2", "output")
    host.acnspawn("rm", pod).expect(0)
    host.acnspawn("image", "rm", image).expect(0)
    equal(layers_in_store(host), [], "layers")


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


@case
def an_archive_by_contents_makes_no_blobs_known(host):
    """docker-archive: names layers by their uncompressed content, which the registry of another image need not have."""
    layer = raw_layer([("secret", b"of the archive")])
    config = json.dumps({"os": "linux", "architecture": "amd64", "config": {"Cmd": ["/x"]},
                         "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]}}).encode()
    for packed in layer, gzip.compress(layer):
        archive = host.path("saved.tar")
        with open(archive, "wb") as f:
            f.write(raw_layer([("config.json", config), ("1/layer.tar", packed), ("manifest.json", json.dumps(
                [{"Config": "config.json", "RepoTags": ["example.com/private:1"], "Layers": ["1/layer.tar"]}]).encode())]))
        image = fetch(host, "docker-archive:" + archive)
        equal(fetch(host, "docker-archive:" + archive), image, "ID of the archive, read again")
        # The same layer, in an image that does not have it: with the same config, and with another one.
        for more in {}, {"author": "somebody else"}:
            layout = host.path("claims")
            shutil.rmtree(layout, ignore_errors=True)
            os.makedirs(layout + "/blobs/sha256")

            def blob(media_type, data, there=True):
                if there:
                    with open("%s/blobs/sha256/%s" % (layout, digest_of(data)[7:]), "wb") as f:
                        f.write(data)
                return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}
            own = json.dumps({**json.loads(config), **more}).encode() if more else config
            manifest = {"schemaVersion": 2, "config": blob("application/vnd.oci.image.config.v1+json", own),
                        "layers": [blob("application/vnd.oci.image.layer.v1.tar", layer, there=False)]}
            index = {"schemaVersion": 2, "manifests": [blob("application/vnd.oci.image.manifest.v1+json", json.dumps(manifest).encode())]}
            put(layout, "oci-layout", '{"imageLayoutVersion": "1.0.0"}')
            put(layout, "index.json", json.dumps(index))
            contains(host.acnspawn("fetch", "oci:" + layout).expect(1).err, "has no blob " + digest_of(layer), "message")
        host.acnspawn("image", "rm", image).expect(0)
        equal(layers_in_store(host), [], "layers")


@case
def an_aci_depends_on_an_oci_image(host):
    b = Builder(host).base()
    fetch(host, b.reference())
    aci = host.image(exec=["/bin/cat", "/d/two", "/mine"], base=False, files={"mine": File(b" and mine")},
                     dependencies=[{"imageName": "layout"}])
    equal(host.run(aci).out, "2 and mine", "output")
    aci = host.image(exec=["/bin/cat", "/d/two"], base=False, name="example.com/listed", dependencies=[{"imageName": "layout"}],
                     pathWhitelist=["/bin/cat", "/d/two"])
    equal(host.run(aci).out, "2", "output")


@case
def errors_are_reported_and_leave_nothing(host):
    b = Builder(host).base()
    tool("umoci", "tag", "--image", b.image, "2.0")
    r = host.acnspawn("fetch", "oci:" + b.dir).expect(1)
    contains(r.err, "1.0, 2.0", "message")
    r = host.acnspawn("fetch", "oci:%s:3.0" % b.dir).expect(1)
    contains(r.err, "There is no image '3.0'", "message")
    blobs = os.path.join(b.dir, "blobs/sha256")
    largest = max(os.listdir(blobs), key=lambda n: os.path.getsize(os.path.join(blobs, n)))
    with open(os.path.join(blobs, largest), "r+b") as f:
        f.seek(100000)
        f.write(b"damaged")
    r = host.acnspawn("fetch", b.reference()).expect(1)
    contains(r.err, "Layer 1 (sha256:%s" % largest, "message")
    equal(layers_in_store(host), [], "layers")
    equal(os.listdir(os.path.join(host.dir, "tmp")), [], "temporary files")
    equal(os.listdir(os.path.join(host.dir, "images")), [], "images")



main()

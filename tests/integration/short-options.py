#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The options that podman and docker have in common, by their names and letters: each has the effect of the option
that acnspawn has for it, before the first image and after an image."""

from harness import *
from terminals import Terminal

SHOW = ("echo A=$A B=$B; echo user $(id -u):$(id -g); echo dir $(pwd); "
        "if test -t 0; then echo terminal; else echo no terminal; fi")


def shown(host, *args, **more):
    return host.run(*args, **more).out


@case
def before_the_image_for_the_only_app(host):
    out = shown(host, "-e", "A=1", "--env", "B", "-u", "7:8", "-w", "/tmp", "-m", "64Mi", host.shell(SHOW, name="example.com/a"),
                env={**os.environ, "B": "of the caller"})
    contains(out, "A=1 B=of the caller")
    contains(out, "user 7:8")
    contains(out, "dir /tmp")
    contains(out, "no terminal")
    manifest = json.loads(host.acnspawn("cat-manifest", os.path.basename(host.one_pod())).expect(0).out)
    equal([i["value"]["limit"] for i in manifest["isolators"] if i["name"] == "resource/memory"], ["64Mi"])


@case
def after_the_image_for_that_app(host):
    image = host.shell(SHOW, name="example.com/a")
    out = shown(host, "--exit-policy=all", "-e", "A=pod", image, "--name=one", "-u", "9", "--workdir=/tmp", "---", image, "--name=two",
                "--env=A=two", "-w", "/bin")
    for line in "A=pod B=", "A=two B=", "user 9:0", "dir /tmp", "dir /bin":
        contains(out, line)


@case
def what_is_given_after_the_image_takes_precedence(host):
    out = shown(host, "-u", "7", "-w", "/tmp", host.shell(SHOW, name="example.com/a"), "--user=9", "--workdir=/bin")
    contains(out, "user 9:")
    contains(out, "dir /bin")


@case
def entrypoint_replaces_program_and_arguments(host):
    image = host.image(["/bin/false", "of the image"], name="example.com/a")
    equal(shown(host, "--entrypoint=/bin/echo", image, "--", "one", "two").strip(), "one two")
    equal(shown(host, image, "--entrypoint", "/bin/echo", "--", "three").strip(), "three")


@case
def environment_from_a_file(host):
    path = host.path("env")
    with open(path, "w") as f:
        f.write("A='from the file'\n")
    image = host.shell(SHOW, name="example.com/a")
    contains(shown(host, "--env-file", path, image), "A='from the file'")
    contains(shown(host, image, "--environment-file", path), "A=from the file")


@case
def network_of_the_host(host):
    image = host.shell("readlink /proc/self/ns/net", name="example.com/a")
    equal(shown(host, "--network=host", image).strip(), os.readlink("/proc/self/ns/net"))


@case
def publish_is_port(host):
    """A pod without a network cannot have one, by whatever name."""
    image = host.shell("true", name="example.com/a")
    messages = [host.acnspawn("prepare", *option, image).expect(1).err
                for option in (("-p", "18080:80"), ("--publish=18080:80",), ("--port=18080:80",))]
    contains(messages[0], "18080")
    equal(messages[1:], messages[:1] * 2)


@case
def a_terminal_by_letters(host):
    t = Terminal(host, "run", "-it", "--rm", host.shell("test -t 0 && test -t 1 && echo it is", name="example.com/a"))
    t.expect(b"it is")
    equal(t.end(), 0)
    # -t alone gives one even where there is none outside
    out = shown(host, "-t", host.shell(SHOW, name="example.com/b"))
    contains(out, "terminal")
    lacks(out, "no terminal")


@case
def commands_in_an_app(host):
    host.detach("--name=p", host.shell("sleep 1000", name="example.com/a"))
    r = host.acnspawn("enter", "-e", "A=1", "-u", "7:8", "-w", "/tmp", "p", "sh", "-c", SHOW).expect(0)
    for line in "A=1 B=", "user 7:8", "dir /tmp":
        contains(r.out, line)
    contains(host.acnspawn("enter", "--env=A=2", "--workdir=/bin", "p", "sh", "-c", SHOW).expect(0).out, "dir /bin")
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_is_added(host):
    host.detach("--exit-policy=never", "--name=p")
    image = host.shell(SHOW, name="example.com/a")
    host.acnspawn("add-app", "p", "--start", image, "--name=x", "-e", "A=1", "-u", "7", "-w", "/tmp", "-m", "64Mi").expect(0)
    host.acnspawn("wait", "p", "x").expect(0)
    out = host.acnspawn("logs", "--app=x", "p").expect(0).out
    for line in "A=1 B=", "user 7:", "dir /tmp":
        contains(out, line)
    host.acnspawn("stop", "p").expect(0)


@case
def what_other_tools_read_is_named(host):
    """Errors point to what reads the file, instead of listing what is wrong with it."""
    files = {"Dockerfile": "FROM debian\nRUN true\n", "x.pod": "[Pod]\nExitPolicy=never\n", "auth.json": '{"auths": {"docker.io": {"auth": "eDp5"}}}'}
    for name, text in files.items():
        with open(host.path(name), "w") as f:
            f.write(text)
    for name, why in ("Dockerfile", "from which buildah and others build an image"), ("x.pod", "which 'acnspawn pod verify' checks"), \
            ("auth.json", "acnspawn-auth.d(5) says where acnspawn reads them"):
        out = host.acnspawn("validate", host.path(name)).expect(1).out
        contains(out, why)
        equal(out.count("\n"), 1, out)
    for where in host.path("Dockerfile"), host.path():
        contains(host.acnspawn("build", where).expect(1).err, "'buildah build -t oci-archive:FILE' builds an image from a Dockerfile")
    for scheme in "oci-archive", "docker-archive":
        r = host.acnspawn("fetch", scheme + ":/no/such.tar:x").expect(1)
        contains(r.err, "No such file or directory")
        contains(r.err, "Check the path.")
        lacks(r.err, "copied or downloaded")


@case
def a_name_that_a_running_pod_has(host):
    """The hint is a command that is not refused."""
    image = host.shell("sleep 1000", name="example.com/a")
    host.prepare("--name=p", image)
    contains(host.acnspawn("prepare", "--name=p", image).expect(1).err, "or with: acnspawn rm p\n")
    host.acnspawn("run", "--detach", "p").expect(0)
    contains(host.acnspawn("prepare", "--name=p", image).expect(1).err, "or with: acnspawn rm --force p\n")
    host.acnspawn("rm", "--force", "p").expect(0)


@case
def a_pod_is_not_an_image(host):
    host.prepare("--name=p", host.shell("true", name="example.com/a"))
    r = host.acnspawn("run", "-u", "7", "p").expect(1)
    contains(r.err, "'p' is a pod, not an image, and does not accept options or arguments")


@case
def a_manifest_says_it_itself(host):
    uuid = host.prepare(host.shell("true", name="example.com/a"))
    path = host.path("manifest")
    with open(path, "w") as f:
        f.write(host.acnspawn("cat-manifest", uuid).expect(0).out)
    r = host.acnspawn("prepare", "-u", "7", "--pod-manifest=" + path).expect(2)
    contains(r.err, "Program, user and working directory of the apps are those of the pod manifest")


main()

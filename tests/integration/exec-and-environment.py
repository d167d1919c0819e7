#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every byte of exec and environment is passed as in the manifest; the environment has the variables of the
specification and none of acnspawn, systemd or the host."""

import random

from harness import *

NASTY = [
    "", " ", "  leading and trailing  ", "\t", "\n", "a\nb", "a\n", "\r\n", "a\\nb", "\\", "\\\\", "\\x41", "\\", "a\\",
    "%", "%%", "%n", "%h", "a%nb", "%i%I%u%U%H%%", "$", "$$", "$HOME", "${HOME}", "${HOME:-x}", "$(id)", "`id`", "\"",
    "\"\"", "'", "''", "\"a b\"", "'a b'", "a\"b", "a'b", ";", ";;", " ; ", "&", "&&", "|", "||", ">", "<", "(", ")", "#",
    "# comment", "!", "!!", "~", "~root", "*", "?", "[a-z]", "{a,b}", "-", "--", "---", "-x", "--help", "--version", "+", "+x",
    "!x", "@x", ":x", "|x", "=", "=x", "x=", "x=y", "/", "//", ".", "..", "../../etc/passwd", "/etc/passwd",
    "[Service]", "[Service]\nExecStart=/bin/false", "\nExecStartPre=/bin/false", "ExecStart=", "Environment=X=1",
    "a,b", "a:b", "\x01", "\x02\x03", "\x1b[31mred\x1b[0m", "\x7f", "\x0b\x0c", "\u00e9", "\u20ac", "\U0001f427",
    "\u202eabc", "\ufeff", "\u0080", "\u2028", "e\u0301", "\uffff", "\U0010ffff", "x" * 4000, "nul?", "null", "true", "0", "-1",
    "specifier %%n and $$ and \\$ and \\%", "'\"'\"'", "\"'\"'\"", "\\\"", "\\'", "\\n\\t\\0", "\\u0041", "\\101", "^", "a  b",
]


def nasty_strings():
    """The list above and a few hundred random strings of characters that are special to systemd, shells or
    terminals."""
    rng = random.Random(4711)
    alphabet = "%$\"'\\ \n\t;&|<>()#!~*?[]{}-+@:=,./ab01nh\u00e9\u20ac\x01\x1f\x7f"
    return NASTY + ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 24))) for _ in range(250)]


@case
def arguments_of_the_manifest_arrive_byte_for_byte(host):
    strings = nasty_strings()
    host.run(host.image(["/bin/show"] + strings, name="example.com/a"))
    got = host.show("a").argv[1:]
    equal(len(got), len(strings), "number of arguments")
    for i, (is_, should) in enumerate(zip(got, strings)):
        equal(is_, should.encode(), "argument %d" % i)


@case
def arguments_of_the_command_line_arrive_byte_for_byte(host):
    """Any byte but NUL, valid UTF-8 or not."""
    strings = [bytes([b]) for b in range(1, 256)] + [bytes(range(1, 256)), b"\xff\xfe", b"\xc3", b"\xed\xa0\x80",
                                                     b"--", b"-", b"", b"%n\xff$HOME"]
    strings += [s.encode() for s in nasty_strings()[:150]]
    strings = [s for s in strings if s != b"---"]
    host.run(host.image(["/bin/show"], name="example.com/a"), "--", *strings)
    got = host.show("a").argv[1:]
    equal(len(got), len(strings), "number of arguments")
    for i, (is_, should) in enumerate(zip(got, strings)):
        equal(is_, should, "argument %d" % i)


@case
def handler_arguments_arrive_byte_for_byte(host):
    strings = NASTY
    for event in ("pre-start", "post-stop"):
        name = event.replace("-", "")
        host.run("--name=" + name, host.image(["/bin/true"], name="example.com/" + name, app={
            "eventHandlers": [{"name": event, "exec": ["/bin/show"] + strings}]}))
        got = host.show(name, pod=host.pod_dir(host.status(name)["uuid"])).argv[1:]
        equal(got, [s.encode() for s in strings], "arguments of " + event)


@case
def environment_of_the_manifest_arrives_byte_for_byte(host):
    strings = nasty_strings()
    environment = [{"name": "V%d" % i, "value": s} for i, s in enumerate(strings)]
    host.run(host.image(["/bin/show"], name="example.com/a", app={"environment": environment}))
    got = host.show("a").environ
    for i, s in enumerate(strings):
        equal(got.get(b"V%d" % i), s.encode(), "value %d" % i)


@case
def environment_of_the_command_line_arrives_byte_for_byte(host):
    strings = [bytes([b]) for b in range(1, 256)] + [bytes(range(1, 256)), b"\xff", b"a=b", b"", b"\n"]
    options = [b"--environment=V%d=%s" % (i, s) for i, s in enumerate(strings)]
    host.run(host.image(["/bin/show"], name="example.com/a"), *options)
    got = host.show("a").environ
    for i, s in enumerate(strings):
        equal(got.get(b"V%d" % i), s, "value %d" % i)


@case
def command_line_takes_precedence_over_the_image(host):
    image = host.image(["/bin/show"], name="example.com/a", app={"environment": [{"name": "A", "value": "image"},
                                                                                {"name": "B", "value": "image"}]})
    host.run(image, "--environment=A=command line")
    got = host.show("a").environ
    equal((got[b"A"], got[b"B"]), (b"command line", b"image"))


@case
def variables_of_the_specification_are_there(host):
    host.run("--name=p", host.image(["/bin/show"], name="example.com/a"))
    got = host.show("a").environ
    equal(got.get(b"PATH"), b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PATH")
    equal(got.get(b"AC_APP_NAME"), b"a", "AC_APP_NAME")
    true(re.fullmatch(rb"http://\S+", got.get(b"AC_METADATA_URL", b"")), "AC_METADATA_URL is %r" % got.get(b"AC_METADATA_URL"))
    true(got.get(b"container"), "container is %r" % got.get(b"container"))


@case
def image_may_set_path(host):
    image = host.image(["show"], name="example.com/a", app={"environment": [{"name": "PATH", "value": "/nowhere:/bin"}]})
    host.run(image)
    equal(host.show("a").environ[b"PATH"], b"/nowhere:/bin")


@case
def variables_of_the_specification_cannot_be_overridden(host):
    """Variables of an image cannot override the name of the app, or the URL of the metadata service."""
    host.run(host.image(["/bin/show"], name="example.com/a", app={"environment": [
        {"name": "AC_METADATA_URL", "value": "http://evil.example.com"}]}))
    got = host.show("a").environ
    true(got[b"AC_METADATA_URL"] != b"http://evil.example.com", "AC_METADATA_URL is the image's")
    equal(got[b"AC_APP_NAME"], b"a")


@case
def nothing_leaks_into_the_environment(host):
    """Exactly the specification's variables, those of the image, and at most those from the user's entry in the image's
    passwd."""
    env = dict(os.environ, LANG="xx_YY.UTF-8", NOTIFY_SOCKET="/run/nowhere", LISTEN_FDS="1", SECRET_OF_THE_HOST="x",
               LISTEN_PID="1", LC_ALL="C", INVOCATION_ID="0" * 32, JOURNAL_STREAM="1:2", XDG_RUNTIME_DIR="/run/x",
               container_uuid="x", TERM="vt100", MANAGERPID="1")
    image = host.image(["/bin/show"], name="example.com/a", app={"environment": [{"name": "MINE", "value": "1"}]})
    host.acnspawn("run", image, env=env).expect(0)
    show = host.show("a")
    allowed = {b"PATH", b"AC_APP_NAME", b"AC_METADATA_URL", b"container", b"MINE", b"HOME", b"USER", b"LOGNAME", b"SHELL"}
    equal(set(show.environ) - allowed, set(), "variables beyond those allowed")
    equal(len(show.environ_list), len(show.environ), "number of variables: one is there twice")


@case
def home_is_that_of_the_user_or_absent(host):
    """HOME and USER of an app that does not run as root are those of its user."""
    host.run("--name=p", host.image(["/bin/show"], name="example.com/a", app={"user": "app", "group": "app"}))
    got = host.show("a").environ
    true(got.get(b"HOME") in (None, b"/home/app"), "HOME is %r" % got.get(b"HOME"))
    true(got.get(b"USER") in (None, b"app"), "USER is %r" % got.get(b"USER"))


@case
def executable_is_searched_in_path(host):
    files = {"opt": Dir(), "opt/tool": File("#!/bin/sh\necho found >/out/log\n", 0o755)}
    host.run(host.image(["tool"], name="example.com/a", files=files,
                        app={"environment": [{"name": "PATH", "value": "/srv:/opt:/bin"}]}))
    equal(host.written("a", "out/log"), b"found\n")


@case
def search_in_path_passes_over_directories_and_plain_files(host):
    files = {"opt": Dir(), "opt/tool": File("#!/bin/sh\necho right >/out/log\n", 0o755), "srv/tool": Dir(),
             "tmp/tool": File("not executable", 0o644)}
    host.run(host.image(["tool"], name="example.com/a", files=files,
                        app={"environment": [{"name": "PATH", "value": "/srv:/tmp:/opt"}]}))
    equal(host.written("a", "out/log"), b"right\n")


@case
def first_argument_is_as_written(host):
    host.run(host.image(["show", "x"], name="example.com/a"))
    show = host.show("a")
    true(show.argv[0] in (b"show", b"/bin/show"), "argv[0] is %r" % show.argv[0])
    equal(show.argv[1:], [b"x"])


@case
def exec_replaced_on_the_command_line(host):
    image = host.image(["/bin/false", "a"], name="example.com/a")
    host.run(image, "--exec=/bin/show", "--", "b", "c")
    equal(host.show("a").argv, [b"/bin/show", b"b", b"c"])


@case
def working_directory(host):
    host.run("--name=one", host.image(["/bin/show"], name="example.com/a"))
    equal(host.show("a", pod=host.pod_dir(host.status("one")["uuid"])).cwd, "/")
    host.run("--name=two", host.image(["/bin/show"], name="example.com/a", app={"workingDirectory": "/srv"}))
    equal(host.show("a", pod=host.pod_dir(host.status("two")["uuid"])).cwd, "/srv")


@case
def a_working_directory_that_the_image_has_not_is_made(host):
    """Owned by root and for all, as with other runtimes; also below a volume, and in a root that is read-only then."""
    for more in ({}, {"user": "1000"}):
        r = host.run(host.shell("pwd; stat -c '%a %u' .", app={"workingDirectory": "/not/there", **more}))
        equal(r.out, "/not/there\n755 0\n")
    r = host.run("--volume=v,kind=empty", host.shell("pwd; ls /v", app={"workingDirectory": "/v/in", "mountPoints": [{"name": "v", "path": "/v"}]}))
    equal(r.out, "/v/in\nin\n")
    r = host.run(host.shell("pwd; touch x 2>/dev/null || echo refused", app={"workingDirectory": "/not/there"}), "--readonly-rootfs")
    equal(r.out, "/not/there\nrefused\n")


@case
def names_of_environment_variables(host):
    """Whatever has no "=" in it is a name, as for the kernel."""
    names = ("ProgramFiles(x86)", "a.b/c", "1A", "a b", "\u00e9")
    host.run(host.image(["/bin/show"], name="example.com/a", app={"environment": [{"name": n, "value": "of the image"} for n in names[:3]]}),
             *("--environment=%s=given" % n for n in names[2:]))
    have = host.show("a").environ
    equal([have.get(n.encode()) for n in names], [b"of the image"] * 2 + [b"given"] * 3)


@case
def hostile_app_names_and_paths_stay_text(host):
    """Directives in the name of a working directory are part of the name, of a directory that is made."""
    image = host.image(["/bin/true"], app={"workingDirectory": "/x\nExecStartPre=/bin/touch /out/smuggled"})
    host.run(image)
    for pod in host.pods():
        for root, dirs, files in os.walk(pod):
            true("smuggled" not in files, "the smuggled directive ran")


@case
def thousand_arguments_and_large_environment(host):
    args = ["%d" % i * 20 for i in range(1000)]
    environment = [{"name": "E%d" % i, "value": "x" * 100} for i in range(1000)]
    host.run(host.image(["/bin/show"] + args, name="example.com/a", app={"environment": environment}))
    show = host.show("a")
    equal(show.argv[1:], [a.encode() for a in args])
    equal(sum(1 for k in show.environ if re.fullmatch(rb"E\d+", k)), 1000)


main()

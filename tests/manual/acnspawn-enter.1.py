#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-enter(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-enter.1", "8c05d141a3e22da1")


@once
def pod(host):
    """Of an app with users who have shells of their own, and a second one."""
    files = {"etc/passwd": File("root:x:0:0:root:/root:/bin/mine\napp:x:1000:1000::/:\n"), "bin/mine": File("#!/bin/sh\necho mine; exit 4\n", 0o755)}
    script = "while ! test -e /out/end; do sleep 0.05; done"
    return host.detach("--name=site", "--exit-policy=never", host.shell(script, name="example.com/web", files=files), "--environment=A=app",
                       host.shell("sleep 1000", name="example.com/db", app={"user": "app", "group": "app"}))


def enter(host, *args, verb="enter", **more):
    pod(host)
    return host.acnspawn(verb, *args, **more)


@sentence("DESCRIPTION", "or without one the shell of the image (of the user's line in its /etc/passwd, else /bin/sh)")
def without_a_command_it_is_the_shell(host):
    equal(enter(host, "--app=web", "site", input=b"").expect(4).out, "mine\n")
    equal(enter(host, "--app=db", "site", input=b"echo $0; id -u\n").expect(0).out, "/bin/sh\n1000\n")


@sentence("DESCRIPTION", "processes that a command leaves running when it ends by itself continue in the app.")
def what_a_command_leaves_running_continues(host):
    enter(host, "--app=web", "site", "sh", "-c", "(while ! test -e /out/go; do sleep 0.05; done; touch /out/gone) >/dev/null 2>&1 &").expect(0)
    enter(host, "--app=web", "site", "touch", "/out/go").expect(0)
    wait_for(lambda: os.path.exists(host.upper("web") + "/out/gone"), "what the process does after the command has ended")


@sentence("DESCRIPTION", "Options have to be given before the pod; all words after it belong to the command.")
def options_stand_before_the_pod(host):
    equal(enter(host, "--app=web", "site", "echo", "--app=db", "-u", "--", "x").expect(0).out, "--app=db -u -- x\n")


@sentence("enter", "-a APP, --app=APP The app, if the pod has several.")
def an_app_of_several(host):
    for words in ("-a", "db"), ("--app=db",):
        equal(enter(host, *words, "site", "id", "-u").expect(0).out, "1000\n")


@sentence("enter", "with the groups that this user has in the image; :GROUP is another group for the app's user.")
def another_user_by_name_or_number(host):
    for user, shown in ("app", "1000 1000"), ("1000", "1000 1000"), ("7:8", "7 8"), (":8", "0 8"):
        equal(enter(host, "--app=web", "--user=" + user, "site", "sh", "-c", "echo $(id -u) $(id -g)").expect(0).out, shown + "\n")


@sentence("enter", "Set a variable in the command's environment, in place of the app's; without a value, to its value in the environment of acnspawn. "
                   "May be given several times.")
@sentence("enter", "in the command's environment. May be given several times. -t TIME")
def variables(host):
    for i in "12":
        with open(host.path("variables" + i), "w") as f:
            f.write("F%s=%s\n" % (i, i))
    words = ["-e", "A=command", "-E", "HERE", "--env=B=1", "--environment=C=2", "--env-file=" + host.path("variables1"), "--environment-file=" + host.path("variables2")]
    r = enter(host, "--app=web", *words, "site", "sh", "-c", "echo $A $HERE $B $C $F1 $F2", env={**os.environ, "HERE": "caller"}).expect(0)
    equal(r.out, "command caller 1 2 1 2\n")
    equal(enter(host, "--app=web", "site", "sh", "-c", "echo $A").expect(0).out, "app\n")


@sentence("enter", "Kill the command, and all that it has started, when it has not ended after TIME, which is longer than 0. The exit status is 124 then.")
@sentence("EXIT STATUS", "124 if it did not end in the time of --timeout=")
def after_the_time_all_is_killed(host):
    enter(host, "--app=web", "-t", "300ms", "site", "sh", "-c", "sleep 100003 & sleep 100004").expect(124)
    equal(enter(host, "--app=web", "site", "sh", "-c", "ps | grep -c '[1]0000[34]'").out, "0\n")
    enter(host, "--app=web", "--timeout=0", "site", "true").expect(2)


@sentence("exec", "A command is needed; its standard input is empty, and it has no terminal, unless they are asked for.")
@sentence("exec", "It is an error if standard input or output is not one.")
def exec_needs_a_command(host):
    enter(host, "--app=web", "site", verb="exec").expect(2)
    equal(enter(host, "--app=web", "site", "sh", "-c", "wc -c; tty", verb="exec", input=b"in").out, "0\nnot a tty\n")
    contains(enter(host, "-t", "--app=web", "site", "true", verb="exec").expect(2).err, "not both a terminal")


@sentence("EXIT STATUS", "That of the command; 128 and the number of the signal that killed it;")
@sentence("EXIT STATUS", "or 125 to 127 if it could not be started.")
def the_status(host):
    for rc, *words in (7, "sh", "-c", "exit 7"), (137, "sh", "-c", "kill -9 $$"), (127, "nothing"), (126, "/etc/passwd"):
        enter(host, "--app=web", "site", *words).expect(rc)
    enter(host, "--app=web", "--workdir=/nothing", "site", "true").expect(125)


@sentence("EXAMPLES", "# acnspawn exec -i site tar -x -C /srv <files.tar")
def the_example_with_an_archive(host):
    with tarfile.open(host.path("files.tar"), "w") as tar:
        tar.add("/etc/hostname", "name")
    with open(host.path("files.tar"), "rb") as f:
        enter(host, "-a", "web", "-i", "site", "tar", "-x", "-C", "/srv", verb="exec", input=f.read()).expect(0)
    equal(enter(host, "-a", "web", "site", "cat", "/srv/name").expect(0).out, read_text("/etc/hostname"))


@sentence("DESCRIPTION", "The command is killed when the app or enter ends, with all processes that it has started;")
def it_is_killed_when_the_app_ends(host):
    pod(host)
    p = host.start("enter", "--app=web", "site", "sh", "-c", "(sleep 100005; echo no) & echo up; sleep 100006")
    equal(p.stdout.readline(), b"up\n")
    enter(host, "--app=web", "site", "touch", "/out/end")
    r = host.finish(p)
    true(r.rc in (137, 143) and r.out == "", str(r))


elsewhere(
    ("DESCRIPTION", "confined exactly as the app is: in its namespaces and below its cgroup, with its user, groups, capabilities, filter of system "
                    "calls, limits, environment and working directory.", "enter/the_command_is_as_the_app_is"),
    ("DESCRIPTION", "The user is the one that the app was started as, even if its /etc/passwd has changed since.",
     "enter/the_app_cannot_change_its_user_for_enter"),
    ("DESCRIPTION", "Nothing of the caller's environment is passed on.", "enter/the_command_is_as_the_app_is"),
    ("DESCRIPTION", "If standard input and output are a terminal, the command gets a terminal of the pod, and TERM of the caller;", "enter/a_terminal_is_one"),
    ("DESCRIPTION", "else its streams are pipes.", "enter/the_caller_hands_nothing_on"),
    ("DESCRIPTION", "Signals are passed on.", "enter/streams_and_status_are_the_commands"),
    ("enter", "Only for apps that are root and may change their user; the command never has more privileges than the app.",
     "enter/only_users_that_the_app_could_become"),
    ("enter", "Start in PATH of the app's root.", "enter/streams_and_status_are_the_commands"),
    ("enter", "read as acnspawn-prepare(1) describes for each of these options", "enter/exec_has_the_options_of_other_tools"),
    ("exec", "Pass standard input on to the command.", "enter/exec_has_the_options_of_other_tools"),
    ("exec", "Give the command a terminal, and with it standard input, as enter does on a terminal.", "enter/exec_has_the_options_of_other_tools"),
    ("exec", "--timeout= As for enter.", "enter/exec_has_the_options_of_other_tools"),
)

main()

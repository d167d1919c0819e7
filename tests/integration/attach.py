#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Terminals and open standard inputs of apps: run --interactive, --stdin and attach. The app has a full terminal;
attached and detached clients neither harm the app nor block it; changes that the app makes to the terminal are
undone at detach; and Ctrl-Z stops only "run"."""

import fcntl
import hashlib
import struct
import termios
import threading

from harness import *
from terminals import Terminal

DETACH = b"\x1d\x1d\x1d"
ECHO = "touch /out/up; while read x; do echo got $x; done; echo end; exit 5"


def attached(host, *args, **more):
    """"acnspawn attach" with a pipe as standard input that stays open; returns once it is connected to the app's
    streams."""
    p = subprocess.Popen(host.argv("attach", *args), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=default_signals, **more)
    host.children.append(p)
    wait_for(lambda: passes_on(p.pid) or p.poll() is not None, "attach")
    return p


def type_to(p, data):
    p.stdin.write(data)
    p.stdin.flush()


# --- Terminals ----------------------------------------------------------------------------------------------------------

@both
def a_terminal_is_one(host, *options):
    script = ("tty; test $(tty) -ef /dev/tty || ls -l $(tty); stty size; echo term $TERM; test -t 0 && test -t 1 && test -t 2 && echo all; "
              "echo here >/dev/tty; echo there >$(tty); echo err >&2; trap 'echo size $(stty size)' WINCH; trap 'echo interrupted' INT; "
              "echo ready; while ! read x; do :; done; echo got $x; cut -d' ' -f5-8 /proc/$$/stat; exit 7")
    for user in "0", "app":
        t = Terminal(host, "run", "--rm", "--interactive", *options, host.shell(script, name="example.com/a", app={"user": user, "group": user}))
        for words in b"/dev/pts/", b"33 77", b"term xterm-test", b"all", b"here", b"there", b"err", b"ready":
            t.expect(words)
        t.wait_raw()
        t.send(b"\x03")
        t.expect(b"interrupted")
        t.resize(44, 88)
        t.process.send_signal(signal.SIGWINCH)
        t.expect(b"size 44 88")
        t.send(b"word\r")
        t.expect(b"got word")
        equal(t.end(), 7)
        session = t.text.split(b"got word\r\n")[1].split()
        true(session[1] != b"0" and session[0] != b"-1", "the app has no controlling terminal: %r" % session)
        lacks(t.text, b"\033[?1047l", "what was shown of a plain app")


@both
def a_terminal_is_its_apps_own(host, *options):
    """The terminal is not in /dev/pts of another app of the pod, even for root."""
    spy = host.shell("sleep 1; for t in /dev/pts/[0-9]*; do echo found $t; echo stolen >$t; done; touch /out/up; while :; do sleep 1; done",
                     name="example.com/spy")
    one = host.shell("tty; echo ready; while ! read x; do :; done; echo got $x", name="example.com/a")
    t = Terminal(host, "run", "--name=p", "--exit-policy=any", *options, one, "--interactive", "---", spy)
    t.expect(b"/dev/pts/")
    t.expect(b"ready")
    host.wait_up("spy")
    t.send(b"word\r")
    t.expect(b"got word")
    t.end()
    out = host.acnspawn("logs", "p").expect(0).out
    lacks(t.text.decode() + out, "stolen")
    true(not re.search(r"found /dev/pts/\d", out), "a terminal was found: %r" % out)


@case
def a_shell_has_job_control(host):
    t = Terminal(host, "run", "-i", "--name=p", host.image(["/bin/sh", "-i"], name="example.com/a"))
    t.wait_raw()
    t.send(b"sleep 1000\r")
    wait_for(lambda: "sleep 1000" in dict(find_processes(host)).values(), "the command")
    t.send(b"\x1a")
    t.expect(b"Stopped")
    t.send(b"kill -9 %1; echo do''ne\r")
    t.expect(b"done")
    t.send(b"sleep 1001\r")
    wait_for(lambda: "sleep 1001" in dict(find_processes(host)).values(), "the command")
    t.send(b"\x03")
    t.send(b"echo al''ive; exit 3\r")
    t.expect(b"alive")
    equal(t.end(), 3)
    contains(host.acnspawn("logs", "p").expect(0).out, "alive\n")
    lacks(host.acnspawn("logs", "p").out, "\r\n")


@case
def an_app_that_has_a_terminal_name_keeps_it(host):
    app = {"environment": [{"name": "TERM", "value": "vt52"}]}
    t = Terminal(host, "run", "-i", host.shell("echo term $TERM", name="example.com/a", app=app))
    equal(t.end(), 0)
    contains(t.text, b"term vt52")


@case
def the_last_output_on_a_terminal_is_shown(host):
    t = Terminal(host, "run", "-i", "--name=p", host.shell("seq 1 20000; echo last", name="example.com/a"))
    equal(t.end(), 0)
    contains(t.text, b"\r\n20000\r\nlast\r\n")
    equal(host.acnspawn("logs", "p").expect(0).out, "".join("%d\n" % i for i in range(1, 20001)) + "last\n")


@case
def only_the_app_with_the_terminal_is_shown(host):
    one = host.shell("echo on terminal; read x", name="example.com/a")
    other = host.shell("echo elsewhere; touch /out/up; sleep 1000", name="example.com/b")
    t = Terminal(host, "run", "--name=p", "--exit-policy=any", one, "--interactive", "---", other)
    t.expect(b"on terminal\r\n")
    host.wait_up("b")
    t.send(b"\r")
    equal(t.end(), 0)
    lacks(t.text, b"elsewhere")
    contains(host.acnspawn("logs", "p").out, "elsewhere")


# --- Pipes --------------------------------------------------------------------------------------------------------------

@case
def standard_input_goes_in_and_ends(host):
    data = os.urandom(3000000)
    digest = hashlib.sha256(data).hexdigest()
    image = host.shell("sha256sum", name="example.com/a")
    contains(host.acnspawn("run", "--rm", "--stdin", image, input=data).expect(0).out, digest)
    contains(host.acnspawn("run", "--rm", "--interactive", image, input=data).expect(0).out, digest)
    contains(host.acnspawn("run", "--rm", image, "--stdin", input=data).expect(0).out, digest)
    lacks(host.acnspawn("run", "--rm", image, input=data).expect(0).out, digest)
    host.prepare("--name=p", image, "--input=pipe")
    contains(host.acnspawn("run", "p", input=data).expect(0).out, digest)


@case
def bytes_come_out_as_they_are(host):
    data = os.urandom(1000000)
    host.detach("--name=p", "--stdin", host.image(["/bin/cat"], name="example.com/a"))
    r = host.acnspawn("attach", "p", input=data).expect(0)
    true(r.out_bytes == data, "%d bytes came out" % len(r.out_bytes))


@case
def a_pod_manifest_says_it_as_well(host):
    image = host.shell(ECHO, name="example.com/a")
    uuid = host.prepare(image)
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).out)
    for app in manifest["apps"]:
        app["annotations"] = [{"name": "acnspawn/input", "value": "pipe"}]
    path = host.path("pod.json")
    with open(path, "w") as f:
        json.dump(manifest, f)
    equal(host.acnspawn("run", "--rm", "--pod-manifest=" + path, input=b"x\n").expect(5).out, "got x\nend\n")
    del manifest["apps"][0]["annotations"]
    with open(path, "w") as f:
        json.dump(manifest, f)
    equal(host.acnspawn("run", "--rm", "--stdin", "--pod-manifest=" + path, input=b"x\n").expect(5).out, "got x\nend\n")
    manifest["apps"][0]["annotations"] = [{"name": "acnspawn/input", "value": "tty"}]
    with open(path, "w") as f:
        json.dump(manifest, f)
    contains(host.acnspawn("run", "--pod-manifest=" + path).expect(1).err, "must be null, pipe or terminal")


@case
def signals_end_the_pod_in_the_foreground(host):
    """As without a standard input."""
    image = host.shell("trap 'echo asked; exit 4' TERM; echo up; while :; do sleep 0.1; done", name="example.com/a")
    for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        p = subprocess.Popen(host.argv("run", "--rm", "--stdin", image), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, preexec_fn=default_signals)
        host.children.append(p)
        equal(p.stdout.readline(), b"up\n")
        p.send_signal(sig)
        equal(p.stdout.read(), b"asked\n")
        equal(p.wait(), 4)


@case
def pod_ends_if_its_supervisor_is_killed(host):
    p = subprocess.Popen(host.argv("run", "--stdin", "--name=p", host.shell(ECHO, name="example.com/a")), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default_signals)
    host.children.append(p)
    host.wait_up("a")
    p.kill()
    p.wait()
    wait_for(lambda: host.state("p") == "exited", "end of the pod")
    host.acnspawn("gc", "--grace-period=0").expect(0)


# --- Being attached -----------------------------------------------------------------------------------------------------

@case
def attach_is_there_until_the_app_ends(host):
    host.detach("--name=p", "--stdin", host.shell(ECHO, name="example.com/a"))
    one, two = attached(host, "p"), attached(host, "p", "--keep-stdin")
    type_to(one, b"one\n")
    equal(one.stdout.readline(), b"got one\n")
    equal(two.stdout.readline(), b"got one\n")
    type_to(two, b"two\n")
    two.stdin.close()
    equal(one.stdout.readline(), b"got two\n")
    one.terminate()
    equal(one.wait(), 128 + signal.SIGTERM)
    equal(host.state("p"), "running")
    r = host.acnspawn("attach", "--lines=all", "p", input=b"three\n").expect(5)
    equal(r.out, "got one\ngot two\ngot three\nend\n")
    equal(two.stdout.read(), b"got two\ngot three\nend\n")
    equal(two.wait(), 5)
    wait_for(lambda: host.state("p") == "exited", "end of the pod")


@case
def the_status_is_the_apps(host):
    for how, status in (("kill -9 $$", 137), ("exit 0", 0), ("exit 255", 255)):
        uuid = host.detach("--stdin", host.shell("read x; " + how, name="example.com/a"))
        host.acnspawn("attach", uuid, input=b"\n").expect(status)
    uuid = host.detach("--stdin", host.shell(ECHO, name="example.com/a"))
    p = attached(host, uuid)
    host.acnspawn("stop", "--force", uuid).expect(0)
    equal(p.wait(timeout=patience(20)), 125)


@case
def an_app_that_is_started_again_has_a_new_one(host):
    image = host.shell("echo up; read x && echo got $x; exit 3", name="example.com/a")
    host.detach("--name=p", image, "--stdin", "--restart=always")
    for word in b"one", b"two":
        r = wait_for(lambda: [r for r in [host.acnspawn("attach", "p", input=word + b"\n")] if r.rc == 3], "a new start")[0]
        contains(r.out_bytes, b"got " + word)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def keys_leave_a_terminal(host):
    host.prepare("--name=p", host.shell(ECHO, name="example.com/a"), "--input=terminal")
    t = Terminal(host, "run", "--rm", "p")
    host.wait_up("a")
    t.wait_raw()
    t.send(DETACH + b"rubbish\n")
    equal(t.end(), 0)
    contains(t.text, b"keeps running")
    equal(host.state("p"), "running")
    t = Terminal(host, "attach", "p", rows=20, columns=40)
    t.wait_raw()
    t.skip()
    t.send(b"\x1d")
    t.expect(b"^]")  # the client has read it, and the app's terminal shows it
    time.sleep(1.2)  # The three keys have to come within a second
    t.send(b"\x1d\x1d")
    t.expect(b"^]^]^]")
    t.send(b"\x15word\r")
    t.expect(b"got word\r\n")
    t.send(b"\x1d\x1d\x1d")
    equal(t.end(), 0)
    contains(t.text, b"Detached from pod p")
    t = Terminal(host, "attach", "--detach-keys=ctrl-p,q", "p")
    t.wait_raw()
    t.send(b"\x10q")
    equal(t.end(), 0)
    t = Terminal(host, "attach", "--detach-keys=", "p")
    t.wait_raw()
    t.send(DETACH + b"\x15last\r")
    t.expect(b"got last")
    t.send(b"\x04")
    equal(t.end(), 5)
    wait_for(lambda: host.pods() == [], "removal of the pod")


@case
def the_mode_is_put_back_whatever_ends_it(host):
    host.detach("--name=p", host.shell(ECHO, name="example.com/a"), "--input=terminal")
    for sig in signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1:
        t = Terminal(host, "attach", "p")
        t.wait_raw()
        t.process.send_signal(sig)
        equal(t.end(), 128 + sig)
    t = Terminal(host, "attach", "p")
    t.wait_raw()
    host.acnspawn("stop", "--force", "p").expect(0)
    equal(t.end(), 125)


@case
def several_sit_at_one_terminal(host):
    host.detach("--name=p", host.shell("while :; do read x; stty size; done", name="example.com/a"), "--input=terminal")
    one, two = Terminal(host, "attach", "p"), Terminal(host, "attach", "p", rows=11, columns=22)
    one.wait_raw()
    two.wait_raw()
    host.wait_at_rest("p", one.process.pid, two.process.pid)
    two.resize(12, 23)
    two.process.send_signal(signal.SIGWINCH)
    wait_for(lambda: (one.send(b"hello\r"), one.read(0.2)) and b"hello\r\n12 23" in one.text, lambda: "the new size on the terminal: %r" % one.text)
    two.expect(b"hello\r\n12 23")
    one.send(DETACH)
    equal(one.end(), 0)
    two.send(DETACH)
    equal(two.end(), 0)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_terminal_without_one_of_ours(host):
    host.detach("--name=p", host.shell(ECHO, name="example.com/a"), "--input=terminal")
    r = host.acnspawn("attach", "p", input=b"word\n\x04").expect(5)
    contains(r.out, "got word\r\n")


# --- Attached clients cannot harm the app -------------------------------------------------------------------------------

@case
def a_client_that_does_not_read_does_not_block(host):
    script = "touch /out/up; read x; head -c 30000000 /dev/zero | tr '\\0' x; echo; touch /out/done; read x; echo last; exit 6"
    host.detach("--name=p", "--stdin", host.shell(script, name="example.com/a"))
    slow, dead = attached(host, "p"), attached(host, "p")
    dead.kill()
    type_to(slow, b"go\n")
    pod = host.one_pod()
    wait_for(lambda: os.path.exists(os.path.join(host.upper("a", pod), "out/done")), "end of what is written", timeout=60)
    type_to(slow, b"go\n")
    out, err = slow.communicate(timeout=patience(30))
    equal(slow.returncode, 6)
    true(len(out) < 5000000, "%d bytes came" % len(out))
    left_out = re.search(rb"(\d+) bytes of output are left out", err)
    true(left_out, "nothing is said of what was left out: %r" % err)


@case
def an_endless_writer_blocks(host):
    host.detach("--name=p", "--stdin", host.shell("touch /out/up; sleep 1000", name="example.com/a"))
    writer = subprocess.Popen(host.argv("attach", "p"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              bufsize=0, preexec_fn=default_signals)
    host.children.append(writer)
    thread = threading.Thread(target=lambda: swallow(writer), daemon=True)
    thread.start()
    wait_for(lambda: passes_on(writer.pid) and unread(writer.stdin) > 4096 and at_rest(writer.pid), "that nothing more is taken")
    with within(15, "all that"):
        host.acnspawn("status", "p").expect(0)
        contains(host.acnspawn("enter", "p", "echo", "well").expect(0).out, "well")
        host.acnspawn("stop", "--force", "p").expect(0)
    equal(writer.wait(timeout=patience(20)), 125)
    thread.join(20)


def swallow(p):
    with contextlib.suppress(OSError, ValueError):
        while True:
            p.stdin.write(bytes(65536))


@case
def an_app_closes_its_input(host):
    host.detach("--name=p", "--stdin", host.shell("exec <&-; touch /out/up; sleep 2; exit 8", name="example.com/a"))
    host.wait_up("a")
    host.acnspawn("attach", "p", input=bytes(1000000)).expect(8)


@case
def a_client_that_stops_reading_is_detached(host):
    host.detach("--name=p", "--stdin", host.shell("while :; do echo x; sleep 0.1; done", name="example.com/a"))
    p = attached(host, "p")
    equal(p.stdout.readline(), b"x\n")
    p.stdout.close()
    equal(p.wait(timeout=patience(20)), 0)
    equal(host.state("p"), "running")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def sixty_five_are_too_many(host):
    host.detach("--name=p", "--stdin", host.shell(ECHO, name="example.com/a"))
    host.wait_up("a")
    many = [attached(host, "--lines=all", "p") for _ in range(64)]
    type_to(many[0], b"x\n")
    for p in many:
        equal(p.stdout.readline(), b"got x\n")
    contains(host.acnspawn("attach", "p", input=b"").expect(1).err, "Too many clients are attached")
    for p in many:
        p.kill()
        p.wait()
    wait_for(lambda: host.acnspawn("attach", "p", input=b"").rc == 5, "room")


# --- Changes of the terminal by the app ---------------------------------------------------------------------------------

@case
def a_terminal_that_was_changed_is_put_back(host):
    script = r"printf '\033[?1049h\033[?25l\033[?1003hdrawn'; touch /out/up; read x; exit 2"
    t = Terminal(host, "run", "-i", "--name=p", host.shell(script, name="example.com/a"))
    t.expect(b"drawn")
    t.wait_raw()
    t.send(DETACH)
    equal(t.end(), 0)
    contains(t.text.split(b"drawn")[1], b"\033[?1047l\033[?25h")
    contains(t.text, b"\033[?1003l")
    t = Terminal(host, "attach", "--lines=1", "p")
    t.wait_raw()
    t.send(b"\r")
    equal(t.end(), 2)


@case
def replies_of_the_terminal_reach_no_shell(host):
    """An app queries the terminal just before the client detaches; the reply is not passed to the next program."""
    host.detach("--name=p", host.shell(ECHO, name="example.com/a"), "--input=terminal")
    t = Terminal(host, "attach", "p")
    t.wait_raw()
    t.send(DETACH + b"answer\r")
    rc = t.process.wait(timeout=patience(20))
    size = struct.pack("i", 0)
    equal(struct.unpack("i", fcntl.ioctl(t.slave, termios.FIONREAD, size))[0], 0, "what is left to be read")
    equal(rc, 0)
    t.end()
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def an_app_closes_its_terminal_and_opens_it_again(host):
    script = ("T=$(tty); exec 3>/out/log; exec </dev/null >/dev/null 2>/dev/null; sleep 1; echo again >/dev/tty; echo by name >$T; "
              "exec <$T >$T 2>&1; echo back; read x; echo got $x; exit 4")
    t = Terminal(host, "run", "-i", "--name=p", host.shell(script, name="example.com/a"))
    for words in b"again", b"by name", b"back":
        t.expect(words)
    t.send(b"word\r")
    t.expect(b"got word")
    equal(t.end(), 4)
    equal(host.acnspawn("logs", "p").out.splitlines()[:3], ["again", "by name", "back"])


@both
def an_app_types_on_its_own_terminal(host, *options):
    """TIOCSTI: it affects only the app's own terminal, if the kernel allows it at all, and never the terminal of the
    client."""
    script = "poke type word; poke type rm; stty raw -echo; stty sane; echo ready; touch /out/up; read x; exit 0"
    t = Terminal(host, "run", "-i", "--name=p", *options, host.shell(script, name="example.com/a"))
    t.expect(b"ready")
    t.send(DETACH)
    rc = t.process.wait(timeout=patience(20))
    size = struct.pack("i", 0)
    equal(struct.unpack("i", fcntl.ioctl(t.slave, termios.FIONREAD, size))[0], 0, "what was typed on our terminal")
    equal((rc, t.end()), (0, 0))
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def endless_output_can_be_left(host):
    host.detach("--name=p", host.shell("touch /out/up; yes", name="example.com/a"), "--input=terminal")
    t = Terminal(host, "attach", "p")
    t.wait_raw()
    t.skip()
    t.expect(b"y\r\ny\r\n")
    t.send(DETACH)
    equal(t.end(), 0)
    p = attached(host, "p")
    wait_for(lambda: unread(p.stdout) > 4096 and at_rest(p.pid), "a client whose output is not read")
    p.kill()
    host.acnspawn("status", "p").expect(0)
    host.acnspawn("stop", "--force", "p").expect(0)


# --- Access and errors --------------------------------------------------------------------------------------------------

@case
def errors_of_attach(host):
    sleeper = host.shell("sleep 1000", name="example.com/a")
    host.prepare("--name=p", sleeper)
    contains(host.acnspawn("attach", "p").expect(1).err,
             "Pod p is not running: it is prepared.\n'acnspawn run p' runs it")
    host.acnspawn("run", "--detach", "p").expect(0)
    r = host.acnspawn("attach", "p").expect(1)
    contains(r.err, "App a of pod p cannot be attached to: its standard input is /dev/null")
    contains(r.err, "--interactive or --stdin")
    contains(host.acnspawn("attach", "--app=b", "p").expect(1).err, "has no app 'b'")
    contains(host.acnspawn("attach").expect(2).err, "needs a pod")
    contains(host.acnspawn("attach", "nope").expect(1).err, "nope")
    contains(host.acnspawn("attach", "--detach-keys=ctrl-1", "p").expect(2).err, "must be at most eight keys")
    contains(host.acnspawn("attach", "--lines=x", "p").expect(2).err, "--lines")
    host.acnspawn("stop", "--force", "p").expect(0)
    image = host.shell("exit 0", name="example.com/c")
    host.detach("--name=q", host.shell(ECHO, name="example.com/a"), "--stdin", "---", host.shell(ECHO, name="example.com/b"), "--stdin", "---", image,
                "--stdin", "---", sleeper, "--name=d")
    contains(host.acnspawn("attach", "q").expect(1).err, "has several apps: say which one with --app=")
    wait_for(lambda: host.app_status("q", "c")["state"] == "ended", "end of app c")
    # Its status is written before the unit is down.
    wait_for(lambda: "is not running: it has ended" in host.acnspawn("attach", "--app=c", "q").expect(1).err, "the end of its unit")
    host.acnspawn("pause", "q")
    if host.state("q") == "paused":
        contains(host.acnspawn("attach", "--app=a", "q").expect(1).err, "is paused")
        host.acnspawn("resume", "q").expect(0)
    equal(host.acnspawn("attach", "--app=b", "q", input=b"x\n").expect(5).out, "got x\nend\n")
    host.acnspawn("stop", "--force", "q")


@case
def options_that_mean_no_app_are_refused(host):
    one, two = host.shell(ECHO, name="example.com/a"), host.shell(ECHO, name="example.com/b")
    contains(host.acnspawn("run", "--stdin", one, "---", two).expect(2).err,
             "With several apps, --stdin has to be given for one of them: put it after its image")
    contains(host.acnspawn("prepare", "--interactive", one, "---", two).expect(2).err,
             "With several apps, --interactive has to be given for one of them")
    contains(host.acnspawn("run", one, "--input=tty").expect(2).err, "must be null, pipe or terminal")
    contains(host.acnspawn("run", "--detach-keys=wrong", one).expect(2).err, "must be at most eight keys")
    host.prepare("--name=p", one)
    contains(host.acnspawn("run", "--stdin", "p").expect(1).err, "is a pod, not an image")


@case
def only_root_may(host):
    uuid = host.detach("--name=p", "--stdin", host.shell(ECHO, name="example.com/a"))
    path = os.path.join(host.pod_dir(uuid), "interface")
    equal(os.stat(path).st_mode & 0o7777, 0o600, "mode of the socket")
    r = host.acnspawn("attach", "p", preexec_fn=lambda: os.setuid(65534))
    equal(r.rc, 1)
    contains(r.err, "root")
    host.acnspawn("stop", "--force", "p").expect(0)


# --- Ctrl-Z -------------------------------------------------------------------------------------------------------------

def shell(host):
    t = Terminal(host, argv=[BUSYBOX, "sh", "-i"])
    t.send(b"stty -echo\n")
    wait_for(lambda: termios.tcgetattr(t.slave)[3] & termios.ECHO == 0, "the terminal without an echo")
    t.read(0.3)
    t.skip()
    return t


def type_line(t, host, *args):
    t.send((" ".join("'%s'" % a for a in host.argv(*args)) + "\n").encode())


def run_in_shell(host, *args):
    """A shell with a pod in its foreground, whose app is up."""
    t = shell(host)
    type_line(t, host, "run", *args)
    t.expect(b"up\r\n")
    return t


def press_ctrl_z(t):
    t.send(b"\x1a")
    t.expect(b"Stopped")


def leave(t):
    t.send(b"exit\n")
    t.process.wait(timeout=patience(20))


@case
def ctrl_z_stops_nothing_but_run(host):
    image = host.shell("echo up; touch /out/up; trap 'exit 3' TERM; while :; do sleep 0.1; done", name="example.com/a",
                       app={"eventHandlers": [{"name": "post-stop", "exec": ["/bin/touch", "/out/stopped"]}]})
    host.prepare("--name=p", image)
    t = run_in_shell(host, "p")
    press_ctrl_z(t)
    # Each of these takes answers to launchers.
    host.acnspawn("restart-app", "p", "a").expect(0)
    host.acnspawn("enter", "p", "true").expect(0)
    t.skip()
    t.send(b"fg\n")
    t.expect(b"up\r\n")
    press_ctrl_z(t)
    host.acnspawn("stop", "p").expect(0)
    true(os.path.exists(os.path.join(host.upper("a"), "out/stopped")), "the handler did not run")
    t.send(b"fg; echo status $?\n")
    t.expect(b"status 3")
    leave(t)


@case
def ctrl_c_on_a_terminal_ends_the_pod_once(host):
    t = run_in_shell(host, "--name=p", host.shell("echo up; trap 'sleep 1; echo asked; exit 3' INT TERM; while :; do sleep 0.1; done", name="example.com/a"))
    t.send(b"\x03")
    t.expect(b"asked")
    t.send(b"echo status $?\n")
    t.expect(b"status 3")
    leave(t)


@case
def run_goes_on_in_the_background(host):
    t = run_in_shell(host, "--name=p", host.shell("echo up; while [ ! -e /out/go ]; do sleep 0.1; done; echo gone", name="example.com/a"))
    press_ctrl_z(t)
    t.send(b"bg\n")
    host.acnspawn("enter", "p", "touch", "/out/go").expect(0)
    t.expect(b"gone")
    wait_for(lambda: host.state("p") == "exited", "end of the pod")
    t.process.kill()
    t.process.wait()


@case
def attach_is_stopped_and_the_mode_put_back(host):
    host.detach("--name=p", host.shell(ECHO, name="example.com/a"), "--input=terminal")
    t = shell(host)
    before = termios.tcgetattr(t.slave)
    type_line(t, host, "attach", "p")
    t.wait_raw()
    pid, = wait_for(lambda: processes_where(lambda p: "\0attach\0" in read_text("/proc/%d/cmdline" % p), host.processes()), "attach")
    os.kill(pid, signal.SIGTSTP)
    t.expect(b"Stopped")
    true(not t.is_raw(), "the terminal is raw")
    t.send(b"fg\n")
    t.wait_raw()
    t.send(b"word\r")
    t.expect(b"got word")
    t.send(DETACH)
    t.expect(b"Detached")
    leave(t)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_terminal_whose_input_is_none_ends(host):
    """Nobody can type, which is said; what is there is read, and then the end, with and without a newline before it."""
    image = host.shell("cat; echo cat has ended; sh; echo sh has ended", name="example.com/a")
    for data in b"", b"line\n", b"part":
        r = host.acnspawn("run", "--rm", "-it", image, input=data).expect(0)
        contains(r.err, "Standard input is not a terminal, as app a has one")
        contains(r.out, "cat has ended")
        contains(r.out, "sh has ended")
        contains(r.out, data.decode().strip())


main()

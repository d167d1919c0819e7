#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of apps: shown in the foreground, stored in the pod's journal, complete to the last line."""

import datetime

from harness import *
from terminals import Terminal


@case
def one_app_is_shown_raw(host):
    r = host.run(host.shell("echo one; echo two; printf 'no newline'"))
    equal(r.out, "one\ntwo\nno newline")


@case
def several_apps_are_distinguished(host):
    r = host.run(host.shell("echo from first", name="example.com/first"),
                 host.shell("echo from second", name="example.com/second"))
    lines = sorted(r.out.splitlines())
    equal(len(lines), 2, "lines")
    for line, name in zip(lines, ("first", "second")):
        true(re.match(r"\[?%s\b" % name, line.strip()) and line.endswith("from " + name), "line %r" % line)


@case
def nothing_but_the_apps_output_on_stdout(host):
    """No word of systemd, nspawn or ours."""
    r = host.run(host.shell("true"))
    equal(r.out, "")
    equal(r.err, "", "messages of a run without a warning")


@case
def quiet_shows_nothing_but_keeps_it(host):
    r = host.acnspawn("--quiet", "run", "--name=p", host.shell("echo x")).expect(0)
    equal(r.out, "")
    equal(host.acnspawn("logs", "p").expect(0).out, "x\n")


@case
def output_errors_are_reported_once(host):
    """... and kept; the status is the pod's. A closed pipe is not reported, and gives the status of SIGPIPE."""
    image = host.shell("seq 1 5; exit 3")
    with open("/dev/full", "w") as full:
        p = subprocess.run(host.argv("run", "--name=p", image), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    host.note_pods()
    equal(p.returncode, 3, "status")
    equal(p.stderr, "Warning: Output of the apps is not shown any more: No space left on device; "
                    "'acnspawn logs' has all of it\n", "message")
    equal(host.acnspawn("logs", "p").expect(0).out, "1\n2\n3\n4\n5\n")
    reader, writer = os.pipe()
    os.close(reader)
    p = subprocess.run(host.argv("run", image), stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    host.note_pods()
    equal((p.returncode, p.stderr), (128 + signal.SIGPIPE, ""))


def to_full(host, *args):
    with open("/dev/full", "w") as full:
        p = subprocess.run(host.argv(*args), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    host.note_pods()
    return p


@case
def a_pod_whose_uuid_cannot_be_written_is_not_left(host):
    message = "Error: Cannot write to standard output: No space left on device.\n"
    image, uuid_file = host.shell("sleep 1000", name="example.com/a"), host.path("uuid")
    for words in ["prepare"], ["--json", "prepare"], ["prepare", "--uuid-file=" + uuid_file]:
        p = to_full(host, *words, "--name=p", image)
        equal((p.returncode, p.stderr, host.pods(), os.path.exists(uuid_file)), (1, message, [], False), " ".join(words))
    equal(host.acnspawn("prepare", "--uuid-file=" + host.path("no/such"), image).expect(1).out, "")
    equal(host.pods(), [], "pods")
    p = to_full(host, "run", "--detach", "--name=p", image)
    uuid = host.status("p")["uuid"]
    equal((p.returncode, p.stderr), (1, message + "Pod %s was started nevertheless; 'acnspawn stop %s' ends it.\n" % (uuid, uuid)))
    for words in ["list"], ["status", "p"], ["cat", "p"], ["cat-manifest", "p"], ["image", "list"]:
        p = to_full(host, *words)
        equal((p.returncode, p.stderr), (1, message), " ".join(words))
    for words in ["export", "p"], ["image", "export", "example.com/a"]:
        p = to_full(host, *words)
        equal(p.returncode, 1, "status of " + " ".join(words))
        contains(p.stderr, "Error: Cannot write standard output: No space left on device.\n")
    host.acnspawn("stop", "p").expect(0)


@case
@with_timeout(300)
def last_line_is_never_lost(host):
    image = host.shell("echo first; echo last")
    for _ in range(25):
        equal(host.run("--rm", image).out, "first\nlast\n")


@case
def output_of_a_killed_app_arrives(host):
    r = host.run(host.shell("echo before; kill -9 $$"), rc=137)
    equal(r.out, "before\n")


@case
def many_lines_arrive_in_order(host):
    r = host.run(host.shell("seq 1 20000"), timeout=90)
    equal(r.out.split(), [str(i) for i in range(1, 20001)])


@case
def packets_arrive(host):
    """An app may have set its standard output to packet mode: each read returns only one packet."""
    r = host.run(host.image(["/bin/poke", "packets", "1000"]))
    equal(r.out.split()[:1000], [str(i) for i in range(1000)])
    equal(len(host.acnspawn("logs", host.status(os.path.basename(host.one_pod()))["uuid"]).out.split()), len(r.out.split()))


@case
def long_line_arrives(host):
    """The journal splits lines at 48 KiB; no part of them may be lost."""
    r = host.run(host.shell("head -c 200000 /dev/zero | tr '\\0' x; echo"))
    equal(r.out.count("x"), 200000, "characters")


@case
def bytes_that_are_no_text_arrive(host):
    r = host.run(host.shell("printf '\\377\\376\\001\\033[31mred\\n'"))
    equal(r.out_bytes, b"\xff\xfe\x01\x1b[31mred\n")


@case
def standard_error_is_shown(host):
    r = host.run(host.shell("echo out; echo err >&2"))
    equal(sorted((r.out + r.err).split()), ["err", "out"])


@case
def standard_input_is_empty(host):
    r = host.run(host.shell("cat; echo end"), timeout=30)
    equal(r.out, "end\n")


@case
def output_of_handlers_is_shown(host):
    r = host.run(host.shell("echo main", app={"eventHandlers": [
        {"name": "pre-start", "exec": ["/bin/echo", "pre"]}, {"name": "post-stop", "exec": ["/bin/echo", "post"]}]}))
    equal(r.out, "pre\nmain\npost\n")


@case
def logs_after_the_end(host):
    host.run("--name=p", host.shell("echo a1; echo a2", name="example.com/a"), host.shell("echo b1", name="example.com/b"))
    equal(host.acnspawn("logs", "--app=a", "p").expect(0).out, "a1\na2\n")
    everything = host.acnspawn("logs", "p").expect(0).out
    for word in ("a1", "a2", "b1"):
        contains(everything, word)
    equal(host.acnspawn("logs", "--app=a", "--lines=1", "p").expect(0).out, "a2\n")
    r = host.acnspawn("logs", "--app=c", "p").expect(1)
    contains(r.err, "c", "message")


@case
def logs_of_a_time(host):
    host.run("--name=p", host.shell("echo a1; sleep 0.3; echo a2; sleep 0.3; printf a3", name="example.com/a"))
    rows = [json.loads(line) for line in host.acnspawn("logs", "--json=short", "p").expect(0).out.splitlines()]
    t = ["@%d" % (row["timestamp"] // 1000000) for row in rows]
    lines = host.acnspawn("logs", "--timestamps", "p").expect(0).out.splitlines()
    equal([l.split()[1] for l in lines], ["a1", "a2", "a3"])
    shown = [l.split()[0] for l in lines]
    for when, row in zip(shown, rows):
        equal(datetime.datetime.fromisoformat(when).timestamp(), row["timestamp"] / 1e6, "time shown")

    def logs(*words):
        return host.acnspawn("logs", *words, "p").expect(0).out.split()
    equal(logs("--since=" + shown[1]), ["a2", "a3"])
    equal(logs("--until=" + shown[1]), ["a1", "a2"])
    equal(logs("--since=" + shown[1], "--until=" + shown[1]), ["a2"])
    equal(logs("--until=" + shown[1], "--lines=1"), ["a2"])
    equal(logs("--since=" + shown[1], "--lines=10"), ["a2", "a3"])
    equal(logs("--since=" + shown[1], "--lines=1"), ["a3"])
    equal(logs("--since=" + t[0], "--follow"), ["a1", "a2", "a3"])
    equal(logs("--since=1h", "--until=now"), ["a1", "a2", "a3"])
    equal(logs("--since=now"), [])
    equal(logs("--until=1h ago"), [])


@case
def logs_as_json(host):
    host.run("--name=p", host.shell("echo /a1; echo a2", name="example.com/a"))
    contains(host.acnspawn("logs", "--json=short", "p").expect(0).out, '"/a1"')
    rows = [json.loads(line) for line in host.acnspawn("logs", "--json=short", "p").expect(0).out.splitlines()]
    equal(len(rows), 2)
    for row in rows:
        true("a" in row.values(), "no name of the app in %r" % row)


@case
def logs_of_a_running_pod(host):
    uuid = host.detach(host.shell("echo early; touch /out/up; exec sleep 1000", name="example.com/a"))
    host.wait_up("a")
    wait_for(lambda: host.acnspawn("logs", uuid).expect(0).out == "early\n", "line in the log", timeout=10)
    host.acnspawn("stop", uuid).expect(0)


@case
def following_logs_ends_with_the_pod(host):
    uuid = host.detach(host.shell("for i in 1 2 3; do echo $i; sleep 0.3; done; exit 3"))
    r = host.acnspawn("logs", "--follow", uuid, timeout=30).expect(0)
    equal(r.out, "1\n2\n3\n")


@case
def reader_that_goes_away_does_not_hold_up_the_pod(host):
    p = host.start("run", "--name=p", host.shell("seq 1 5000; touch /out/done", name="example.com/a"))
    p.stdout.close()
    p.stdout = None
    wait_for(lambda: p.poll() is not None, "the end of acnspawn", timeout=40)
    host.note_pods()
    wait_for(lambda: host.state("p") == "exited", "end of the pod")


@case
def journal_of_the_pod_stays_with_the_pod(host):
    """Nothing in the host's journal directory; removed with the pod."""
    host.run("--name=p", host.shell("echo x"))
    pod = host.one_pod()
    true(any(f.endswith(".journal") for _, _, files in os.walk(pod) for f in files), "no journal in the pod directory")
    host.acnspawn("rm", "p").expect(0)
    true(not os.path.exists(pod), "the pod's directory is still there")
    for root, dirs, files in os.walk("/var/log/journal"):
        lacks(root + " ".join(dirs), os.path.basename(pod).replace("-", ""), "the host's journal directory")


@case
def the_journal_of_an_ended_pod_keeps_what_it_uses(host):
    """journald allocates 4 MiB; the file is as long as before, and complete."""
    host.run("--name=p", host.shell("echo x"))
    journal, = [os.path.join(d, f) for d, _, files in os.walk(host.one_pod()) for f in files if f.endswith(".journal")]
    st = os.stat(journal)
    true(st.st_blocks * 512 < 1 << 20 <= st.st_size, "%d blocks of a file of %d bytes" % (st.st_blocks, st.st_size))
    r = subprocess.run(["journalctl", "--verify", "--file=" + journal], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    equal(r.returncode, 0, r.stdout)
    equal(host.acnspawn("logs", "p").expect(0).out, "x\n")


# Escape sequences that would affect the user's terminal: clear it, set its title and clipboard, request replies, move
# up.
ORDERS = r"printf 'one\033[2J\033]0;title\007\033]52;c;eA==\033\\two\033[6n\033[1A\302\233A\377\342\200\256end\n'"
SHOWN = rb"one\x1b[2J\x1b]0;title\x07\x1b]52;c;eA==\x1b\two\x1b[6n\x1b[1A\xc2\x9bA\xff\u202eend"
WRITTEN = b"one\033[2J\033]0;title\007\033]52;c;eA==\033\\two\033[6n\033[1A\302\233A\377\342\200\256end\n"


def on_terminal(host, verb, *args):
    """The output on a terminal; a pod is prepared before, so that there are no messages about images."""
    if verb == "run":
        options = [a for a in args if a == "--raw"]
        args = options + [host.prepare(*(a for a in args if a not in options))]
    t = Terminal(host, verb, *args)
    t.end()
    host.note_pods()
    return t.text.replace(b"\r\n", b"\n")


@case
def a_terminal_takes_no_orders_from_apps(host):
    """In the foreground, and in logs; without a terminal, and with --raw, it is unchanged."""
    image = host.shell(ORDERS, name="example.com/a")
    equal(on_terminal(host, "run", "--name=p", image), SHOWN + b"\n")
    equal(on_terminal(host, "logs", "p"), SHOWN + b"\n")
    equal(host.acnspawn("logs", "p").expect(0).out_bytes, WRITTEN)
    equal(on_terminal(host, "logs", "--raw", "p"), WRITTEN)
    equal(host.run(image).out_bytes, WRITTEN)
    equal(on_terminal(host, "run", "--raw", image), WRITTEN)
    equal(on_terminal(host, "run", host.shell(ORDERS + " >&2")), SHOWN + b"\n")


@case
def a_name_in_front_of_a_line_stays_there(host):
    """... and all output is after it: a line cannot move the cursor back or up, or imitate the prefix of another
    app."""
    other = host.shell("sleep 0.1", name="example.com/b")
    image = host.shell(r"printf 'x\rb: forged\n\033[1Ab: forged\n\b\b\bb: forged\342\200\250b: forged\nwindows\r\n'",
                       name="example.com/a")
    shown = [rb"x\x0db: forged", rb"\x1b[1Ab: forged", rb"\x08\x08\x08b: forged\u2028b: forged", b"windows"]
    for words in ("run", "--name=p", image, other), ("logs", "p"), ("logs", "--app=a", "--timestamps", "p"):
        text = re.sub(rb"\033\[[0-9;]*m", b"", on_terminal(host, *words))
        lines = text.split(b"\n")[:-1]
        equal([line.split(b"a: " if b"a: " in line else b"+00:00 ", 1)[-1] for line in lines], shown, "lines of %s" % (words,))
        true(all(line.startswith((b"a: ", b"20")) for line in lines), "prefixes of %r" % lines)


@case
def colours_end_with_their_line(host):
    """They are kept, except for the one that hides text; a line of several apps, and the whole output, reset the
    colours."""
    image = host.shell(r"printf '\033[1;31mred\033[8mhidden\nmore'", name="example.com/a")
    equal(on_terminal(host, "run", "--name=p", image), b"\033[1;31mred\\x1b[8mhidden\nmore\033[0m")
    text = on_terminal(host, "run", "--name=q", image, host.shell("true", name="example.com/b"))
    contains(text, b"\033[1;31mred\\x1b[8mhidden\033[0m\n")
    equal(host.acnspawn("logs", "p").expect(0).out_bytes, b"\033[1;31mred\033[8mhidden\nmore")
    t = Terminal(host, "logs", "p", argv=["env", "NO_COLOR=1"] + host.argv("logs", "p"))
    t.end()
    equal(t.text, b"\\x1b[1;31mred\\x1b[8mhidden\r\nmore")


@case
def output_comes_at_once(host):
    """Text that is not the beginning of a sequence is not delayed, nor is a prompt without a newline."""
    t = Terminal(host, "run", host.prepare(host.shell(r"printf 'name? \342'; sleep 1; printf '\202\254 10%%\r20%%'; sleep 0.5; echo")))
    t.expect(b"name? ")
    lacks(t.text, b"20%")
    t.expect("\u20ac 10%\r20%".encode())
    t.end()
    host.note_pods()


@case
def json_of_output_is_json_and_no_order(host):
    host.run("--name=p", host.shell(ORDERS, name="example.com/a"))
    out = host.acnspawn("logs", "--json=short", "p").expect(0).out_bytes
    true(re.fullmatch(rb"([\x20-\x7e]|\xef\xbf\xbd)*\n", out), "bytes of %r" % out)
    equal(json.loads(out)["message"].split("\x9b")[0], WRITTEN.decode(errors="ignore").split("\x9b")[0])
    contains(json.loads(out)["message"], "\u202eend")


@case
def names_that_look_like_others(host):
    """Invisible characters, and characters that reverse a line, are made visible where images are listed and shown;
    JSON has them as escapes."""
    label, note = "1\u200b\u202e2\u2066", "by\u2028x\U000e0041\ufeff\x9b2J"
    image = host.shell("true", name="example.com/a", labels=[
        {"name": "version", "value": label}, {"name": "os", "value": "linux"}, {"name": "arch", "value": os_arch()}],
        annotations=[{"name": "authors", "value": note}])
    host.run("--name=p", image)
    shown = {label: "1\\u200b\\u202e2\\u2066", note: "by\\u2028x\\U000e0041\\ufeff\\xc2\\x9b2J"}
    bad = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
    for words, values in ((("image", "list"), [label]), (("image", "show", "example.com/a"), [label, note]), (("status", "p"), [label]),
                          (("list",), [])):
        out = host.acnspawn(*words).expect(0).out_bytes.decode()
        true(not bad.search(out), "%s has %r" % (words, bad.search(out)))
        for value in values:
            contains(out, shown[value], "output of %s" % (words,))
        out = host.acnspawn(*words, "--json=short").expect(0).out_bytes.decode()
        true(not bad.search(out.strip()), "JSON of %s has %r" % (words, bad.search(out)))
        for value in values:
            contains(json.dumps(json.loads(out), ensure_ascii=False), json.dumps(value, ensure_ascii=False)[1:-1], "JSON of %s" % (words,))


@case
def a_reader_that_is_gone_ends_the_pod(host):
    """As in "run ... | head": with the status that SIGPIPE gives, after an orderly end, by whichever stream."""
    for redirection in "1", "2":
        p = host.start("run", "--name=p" + redirection, host.shell(
            "trap ': >/out/term; exit 3' TERM; i=0; while :; do i=$((i+1)); echo $i >&%s; sleep 0.02; done" % redirection, name="example.com/a"))
        stream = p.stdout if redirection == "1" else p.stderr
        equal(stream.readline(), b"1\n")
        stream.close()
        equal(p.wait(patience(60)), 128 + signal.SIGPIPE)
        status = host.app_status("p" + redirection, "a")
        equal((status["state"], status["exitStatus"]), ("ended", 3))
    # A pod that ends by itself has its own status.
    p = host.start("run", "--rm", host.shell("exit 7"))
    p.stdout.close()
    equal(p.wait(patience(60)), 7)


main()

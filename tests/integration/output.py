#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What apps write: shown in the foreground, kept in the pod's journal, complete to the last line."""

import datetime

from harness import *


@case
def one_app_is_shown_raw(host):
    r = host.run(host.shell("echo one; echo two; printf 'no newline'"))
    equal(r.out, "one\ntwo\nno newline")


@case
def several_apps_are_told_apart(host):
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
def output_that_cannot_be_written_is_said_once(host):
    """... and kept; the status is the pod's. A reader that has gone needs no message."""
    image = host.shell("seq 1 5; exit 3")
    with open("/dev/full", "w") as full:
        p = subprocess.run(host.argv("run", "--name=p", image), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    host.note_pods()
    equal(p.returncode, 3, "status")
    equal(p.stderr, "Warning: What the apps write is not shown any more: No space left on device; "
                    "'acnspawn logs' has all of it\n", "message")
    equal(host.acnspawn("logs", "p").expect(0).out, "1\n2\n3\n4\n5\n")
    reader, writer = os.pipe()
    os.close(reader)
    p = subprocess.run(host.argv("run", image), stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    host.note_pods()
    equal((p.returncode, p.stderr), (3, ""))


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
    """An app may have made a pipe of packets of its standard output: each read brings only one."""
    r = host.run(host.image(["/bin/poke", "packets", "1000"]))
    equal(r.out.split()[:1000], [str(i) for i in range(1000)])
    equal(len(host.acnspawn("logs", host.status(os.path.basename(host.one_pod()))["uuid"]).out.split()), len(r.out.split()))


@case
def long_line_arrives(host):
    """The journal cuts lines at 48 KiB; nothing of them may get lost."""
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
    host.run("--name=p", host.shell("echo a1; echo a2", name="example.com/a"))
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
    end = time.monotonic() + 40
    while p.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    true(p.poll() is not None, "acnspawn hangs")
    host.note_pods()
    wait_for(lambda: host.state("p") == "exited", "end of the pod")


@case
def journal_of_the_pod_stays_with_the_pod(host):
    """Nothing in the host's own journal directory; gone with the pod."""
    host.run("--name=p", host.shell("echo x"))
    pod = host.one_pod()
    true(any(f.endswith(".journal") for _, _, files in os.walk(pod) for f in files), "no journal in the pod directory")
    host.acnspawn("rm", "p").expect(0)
    true(not os.path.exists(pod), "the pod's directory is still there")
    for root, dirs, files in os.walk("/var/log/journal"):
        lacks(root + " ".join(dirs), os.path.basename(pod).replace("-", ""), "the host's journal directory")


main()

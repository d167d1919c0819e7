#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pod's journal is written by the pod: how "logs" handles malformed files, and with which privileges it reads them.
Log files of apps: their format, and that they are complete."""

import calendar
import random
import struct

from harness import *


def journal_dir(host, uuid):
    return os.path.join(host.pod_dir(uuid), "root/var/log/journal", uuid.replace("-", ""))


def ended_pod(host, script="seq 1 50", name="p"):
    """The UUID of a pod that has ended, and the path of its journal."""
    host.run("--name=" + name, host.shell(script, name="example.com/a"))
    uuid = host.status(name)["uuid"]
    return uuid, os.path.join(journal_dir(host, uuid), "system.journal")


def logs(host, *words, timeout=60):
    return host.acnspawn("logs", *words, timeout=timeout)


def journalds(host):
    """Those of the pod p."""
    return processes_where(lambda pid: name_of(pid).startswith("systemd-journal"), children_of(host.leader("p")))


EXACT = (b"\n\n  first\nblank \ntab\t\n\r\nreturn\r\n \n\t \r\n\xe2\x80\x8b\nmark\xe2\x80\x8b\n\xff\xfe \n\n" + b"x" * 49149 + b" \n" +
         b" " * 98304 + b"\n" + b"y " * 60000 + b"\nlast ")


@case
def every_byte_is_kept(host):
    """Empty lines, blanks and carriage returns at the ends of lines, lines that are longer than those of journald, and a last line without
    an end, while the app runs and afterwards."""
    script = "cat /data; touch /out/up; trap exit TERM; while :; do sleep 1000 & wait $!; done"
    uuid = host.detach("--name=p", host.shell(script, name="example.com/a", files={"data": File(EXACT)}))
    host.wait_up("a", uuid)
    whole = EXACT[:EXACT.rindex(b"\n") + 1]
    wait_for(lambda: logs(host, "p").out_bytes[:len(whole)] == whole, "the lines so far", timeout=60)
    host.acnspawn("stop", "p").expect(0)
    got = logs(host, "p").out_bytes
    first = next((i for i, (a, b) in enumerate(zip(got, EXACT)) if a != b), min(len(got), len(EXACT)))
    equal((len(got), got[first:first + 40]), (len(EXACT), EXACT[first:first + 40]), "output from byte %d on" % first)


@case
def symlink_for_the_directory_is_not_followed(host):
    other, _ = ended_pod(host, "echo secret", "other")
    uuid, path = ended_pod(host)
    directory = os.path.dirname(path)
    os.rename(directory, directory + ".old")
    os.symlink(journal_dir(host, other), directory)
    r = logs(host, "p").expect(1)
    equal(r.out, "")
    contains(r.err, "Cannot open the journal of pod p: there is a symbolic link in its place, which is not followed.")
    # ... nor one further up.
    os.remove(directory)
    os.rename(directory + ".old", directory)
    log = os.path.dirname(os.path.dirname(directory))
    os.rename(log, log + ".old")
    os.symlink(log + ".old", log)
    contains(logs(host, "p").expect(1).err, "there is a symbolic link in its place")


@case
def special_files_are_left_out(host):
    """A link leads to the journal of another pod, a FIFO has no writer; the rest is shown."""
    _, secret = ended_pod(host, "echo secret", "other")
    uuid, path = ended_pod(host, "echo mine")
    directory = os.path.dirname(path)
    os.symlink(secret, os.path.join(directory, "a\033[2J.journal"))
    r = logs(host, "p", timeout=20).expect(0)
    equal(r.out, "mine\n")
    equal(r.err, "Warning: The file 'a\\x1b[2J.journal' in the journal of pod p is left out: it is not a regular file\n")
    os.remove(os.path.join(directory, "a\033[2J.journal"))
    os.mkfifo(os.path.join(directory, "system@1.journal"))
    r = logs(host, "p", timeout=20).expect(0)
    equal(r.out, "mine\n")
    contains(r.err, "'system@1.journal'")
    os.remove(path)
    os.symlink(secret, path)
    equal(logs(host, "p", timeout=20).expect(0).out, "")


@case
def damaged_file_is_left_out(host):
    uuid, path = ended_pod(host, "echo mine")
    with open(os.path.join(os.path.dirname(path), "system@1.journal"), "wb") as f:
        f.write(b"LPKSHHRH" + os.urandom(100000))
    with open(os.path.join(os.path.dirname(path), "short.journal~"), "wb") as f:
        f.write(b"x" * 10)
    r = logs(host, "p").expect(0)
    equal(r.out, "mine\n")
    for name in "system@1.journal", "short.journal~":
        contains(r.err, "Warning: The file '%s' in the journal of pod p is left out: " % name)


def patch(path, offset, data):
    with open(path, "r+b") as f:
        f.seek(offset)
        f.write(data)


@case
def endless_files_end(host):
    """Wrong sizes and counts in a header; a circular list of entries; a file that is almost entirely sparse."""
    uuid, path = ended_pod(host)
    with open(path, "rb") as f:
        original = f.read()
    first_array = struct.unpack_from("<Q", original, 176)[0]  # Header.entry_array_offset
    changes = [
        [(152, struct.pack("<Q", 1 << 60))],                                        # n_entries
        [(152, struct.pack("<Q", 1 << 60)), (first_array + 16, struct.pack("<Q", first_array))],
        [(first_array + 8, struct.pack("<Q", 1 << 50))],                            # size of the array
        [(96, struct.pack("<Q", 1 << 62))],                                         # arena_size
    ]
    for change in changes:
        with open(path, "wb") as f:
            f.write(original)
        for offset, data in change:
            patch(path, offset, data)
        r = logs(host, "p", timeout=90)
        true(r.rc in (0, 1) and len(r.out.splitlines()) <= 50, "logs of a changed header: %s" % r)
        true(r.rc == 0 or "the journal of pod p" in r.err.lower() or "The journal of pod p" in r.err, "message: %s" % r)
    with open(path, "wb") as f:
        f.write(original)
    os.truncate(path, 1 << 40)
    r = logs(host, "p", timeout=90)
    equal(r.out.split(), [str(i) for i in range(1, 51)])


@case
@with_timeout(600)
def flipped_bytes_harm_nothing(host):
    """Whatever the files contain, "logs" terminates, with the readable entries, or with a message about this pod."""
    uuid, path = ended_pod(host, "seq 1 30; head -c 3000 /dev/zero | tr '\\0' x; echo; printf 'no end'")
    with open(path, "rb") as f:
        original = bytearray(f.read())
    used = struct.unpack_from("<Q", original, 136)[0]  # Header.tail_object_offset
    dice = random.Random(1)
    for _ in range(60):
        data = bytearray(original)
        for _ in range(dice.choice((1, 3, 30, 1000))):
            data[dice.randrange(16, min(used + 4096, len(data)))] = dice.choice((0, 1, 0x7f, 0xff, dice.randrange(256)))
        with open(path, "wb") as f:
            f.write(data)
        for words in ([], ["--lines=3"], ["--app=a", "--since=1h"]):
            r = logs(host, *words, "p")
            true(r.rc in (0, 1), "status: %s" % r)
            if r.rc:
                true(re.search(r"^Error: .*journal of pod p", r.err, re.M), "message: %s" % r)


@case
def truncated_file_is_reported(host):
    """The reader has mapped it, and is blocked in the middle of it; its next access then fails."""
    uuid, path = ended_pod(host, "i=0; while [ $i -lt 50 ]; do head -c 40000 /dev/zero | tr '\\0' x | fold -w 20; i=$((i+1)); done")
    p = host.start("logs", "p")
    wait_for(lambda: children_of(p.pid), "reader")
    first = p.stdout.read(10)
    wait_for(lambda: unread(p.stdout) > 4096 and at_rest(p.pid, *children_of(p.pid)), "that the reader is blocked")
    os.truncate(path, 4096)
    r = host.finish(p, timeout=30)
    equal(first, b"x" * 10)
    equal(r.rc, 1, "status: %s" % r)
    true(re.fullmatch(r"Error: (The journal of pod p could not be read to its end: .* signal 7 \(Bus error\), because a file "
                      r"of it is damaged, or was changed meanwhile|Cannot read the journal of pod p: .*)\.\n", r.err),
         "message %r" % r.err)


@case
def too_many_files_are_refused(host):
    uuid, path = ended_pod(host)
    for i in range(600):
        shutil.copyfile(path, os.path.join(os.path.dirname(path), "system@%d.journal" % i))
    contains(logs(host, "p").expect(1).err, "The journal of pod p has more than 512 files")
    for i in range(600):
        os.remove(os.path.join(os.path.dirname(path), "system@%d.journal" % i))
    for i in range(5000):
        open(os.path.join(os.path.dirname(path), "x%d" % i), "w").close()
    contains(logs(host, "p").expect(1).err, "has more than 4096 entries")


@case
def reader_has_no_rights(host):
    """The parser of the files runs as a user of its own, with the overflow ID where that is missing, without capabilities, with few system calls, and
    only with these descriptors."""
    host.detach("--name=p", host.shell("echo up; exec sleep 1000", name="example.com/a"))
    user = [l.split(":")[2:4] for l in read_text("/etc/passwd").splitlines() if l.startswith("acnspawn-journal:")] or [["65534"] * 2]
    p = host.start("logs", "--follow", "p")
    equal(p.stdout.readline(), b"up\n")
    pid, = children_of(p.pid)
    status = dict(line.split(":\t", 1) for line in read_text("/proc/%d/status" % pid).splitlines() if ":\t" in line)
    equal(status["Uid"].split(), [user[0][0]] * 4, "users")
    equal(status["Gid"].split(), [user[0][1]] * 4, "groups")
    equal(status["Groups"].split(), [], "supplementary groups")
    for which in "CapInh", "CapPrm", "CapEff", "CapAmb":
        equal(int(status[which], 16), 0, which)
    equal(status["NoNewPrivs"], "1")
    equal(status["Seccomp"], "2")
    for fd in os.listdir("/proc/%d/fd" % pid):
        target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        true(target == "/dev/null" or target.startswith("socket:") or target.endswith(".journal"), "descriptor %s" % target)
    true(re.search(r"^Max data size +\d", read_text("/proc/%d/limits" % pid), re.M), "no limit of memory")
    # It ends with its parent.
    p.kill()
    p.wait()
    wait_for(lambda: not os.path.exists("/proc/%d" % pid), "end of the reader")
    host.acnspawn("stop", "p").expect(0)


@case
def the_reader_has_the_user_of_the_package(host):
    """With lines in /etc/passwd that are not for it: of another user, incomplete, without a number, of root."""
    host.detach("--name=p", host.shell("echo up; exec sleep 1000", name="example.com/a"))
    lines = ("root:x:0:0::/:/bin/sh", "acnspawn-journal-x:x:1:1::/:/", "acnspawn-journal:x", "acnspawn-journal:x:a:b::/:/",
             "acnspawn-journal:x:0:0::/:/")
    for added, uid, gid in ("acnspawn-journal:x:991:992::/:/usr/sbin/nologin", "991", "992"), ("last:x:5:5::/:/", "65534", "65534"):
        passwd = host.path("passwd-" + uid)
        with open(passwd, "w") as f:
            f.write("\n".join(lines + (added,)) + "\n")
        p = subprocess.Popen(["unshare", "--mount", "sh", "-c", 'mount --bind "$1" /etc/passwd && shift && exec "$@"', "sh", passwd,
                              ACNSPAWN, "--dir=" + host.dir, "logs", "--follow", "p"], stdout=subprocess.PIPE)
        try:
            equal(p.stdout.readline(), b"up\n")
            pid, = children_of(p.pid)
            ids = re.findall(r"(?m)^[UG]id:\t(\d+)", read_text("/proc/%d/status" % pid))
            equal(ids, [uid, gid], "user and group")
        finally:
            p.kill()
            p.wait()
            p.stdout.close()
    host.acnspawn("stop", "p").expect(0)


@case
def killed_reader_is_reported(host):
    host.detach("--name=p", host.shell("echo up; exec sleep 1000", name="example.com/a"))
    p = host.start("logs", "--follow", "p")
    equal(p.stdout.readline(), b"up\n")
    reader, = children_of(p.pid)
    os.kill(reader, signal.SIGSEGV)
    host.acnspawn("stop", "p").expect(0)
    r = host.finish(p)
    equal(r.rc, 1, "status")
    contains(r.err, "the process that read it was ended by signal 11 (Segmentation fault)")


def follow_through(host, p, rotate):
    """P shows 40 lines as they are written; after every eighth of the first 32 that came, ROTATE is called with its number."""
    lines = []
    for i in range(4):
        lines += [p.stdout.readline() for _ in range(8)]
        rotate(i)
    lines += p.stdout.readlines()
    equal((p.wait(), p.stderr.read()), (0, b""))
    equal([int(line) for line in lines], list(range(1, 41)))
    host.note_pods()


@case
def following_goes_on_in_new_files(host):
    """journald rotates: output before, during and after it is shown once and in order."""
    uuid = host.detach("--name=p", host.shell("for i in $(seq 1 40); do echo $i; sleep 0.1; done", name="example.com/a"))
    p = host.start("logs", "--follow", "p")
    journald, = wait_for(lambda: journalds(host), "journald")
    follow_through(host, p, lambda i: os.kill(journald, signal.SIGUSR2))
    true(len(os.listdir(journal_dir(host, uuid))) >= 4, "journald did not rotate")
    equal(logs(host, "p").expect(0).out.split(), [str(i) for i in range(1, 41)])
    equal(logs(host, "--lines=3", "p").expect(0).out.split(), ["38", "39", "40"])


@case
def output_survives_a_crash_of_journald(host):
    """On a stream that was used before, and on one that was not."""
    host.detach("--name=p", host.shell("trap 'echo two >&2; echo three' USR1; echo one; while :; do sleep 0.1; done", name="example.com/a"))
    wait_for(lambda: logs(host, "p").out == "one\n", "the first line")
    first, = wait_for(lambda: journalds(host), "journald")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: any(x != first for x in journalds(host)), "another journald")
    host.acnspawn("kill", "--signal=USR1", "p").expect(0)
    wait_for(lambda: sorted(logs(host, "p").out.split() + logs(host, "p").err.split()) == ["one", "three", "two"], "all lines")
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_does_not_displace_the_output_of_others(host):
    """An app with a small share: its output is shown, but not all of it stored; this is reported, and the other app's
    lines are complete."""
    noisy = host.shell("yes %s | head -n 20000; echo last" % ("x" * 50), name="example.com/noisy")
    quiet = host.shell("echo first; sleep 1; echo second", name="example.com/quiet")
    r = host.run("--name=p", noisy, "--log-size=1Mi", "--log-rate=0", "---", quiet)
    shown = r.out.splitlines()
    equal(len([l for l in shown if l.startswith("noisy: x")]), 20000, "lines shown")
    true("noisy: last" in shown and "quiet: second" in shown, "the last lines are shown")
    equal(host.acnspawn("logs", "--app=quiet", "p").expect(0).out, "first\nsecond\n")
    lines = host.acnspawn("logs", "--app=noisy", "p").expect(0).out.splitlines()
    stored = [l for l in lines if l == "x" * 50]
    true(1500 < len(stored) < 2000, "%d lines are stored" % len(stored))  # of 1 MiB, 562 bytes each
    equal(len(lines), len(stored) + 1, "lines and one that tells of the others")
    n = 20001 - len(stored)
    equal(lines[-1], "acnspawn: %d lines (%d bytes) of app noisy were not stored: it writes more than --log-size= and --log-rate= "
                     "allow" % (n, (n - 1) * 51 + 5))
    app = host.app_status("p", "noisy")
    equal((app["droppedLines"], app["droppedSize"]), (n, (n - 1) * 51 + 5))
    equal(host.app_status("p", "quiet")["droppedLines"], 0)
    contains(host.acnspawn("status", "p").expect(0).out, "%d lines (" % n)
    directory = os.path.join(host.one_pod(), "root/var/log/journal")
    used = sum(os.lstat(os.path.join(root, f)).st_blocks * 512 for root, _, files in os.walk(directory) for f in files)
    true(used < 10 << 20, "the journal has %d bytes" % used)


@case
def dropped_output_is_reported_while_the_pod_runs(host):
    """... and the app's output is stored again after a pause."""
    script = "yes %s | head -n 5000; touch /out/up; sleep 6; echo again; exec sleep 1000" % ("x" * 50)
    host.detach("--name=p", host.shell(script, name="example.com/a"), "--log-size=64Ki", "--log-rate=10Ki", "---",
                host.shell("sleep 1000", name="example.com/b"))
    host.wait_up("a")
    wait_for(lambda: host.app_status("p", "a")["droppedLines"] > 4000, "lines that were dropped")
    wait_for(lambda: "again" in host.acnspawn("logs", "--app=a", "p").expect(0).out.split(), "the app being heard again", timeout=30)
    lines = host.acnspawn("logs", "--app=a", "p").expect(0).out.splitlines()
    true(re.match(r"acnspawn: \d+ lines \(\d+ bytes\) of app a were not stored", lines[-2]) and lines[-1] == "again", "the last of %r" % lines[-3:])
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def an_app_that_is_alone_is_not_bounded(host):
    host.acnspawn("--quiet", "run", "--name=p", host.shell("seq 1 100000", name="example.com/a"), timeout=120).expect(0)
    equal(logs(host, "p").expect(0).out.count("\n"), 100000)
    equal(host.app_status("p", "a")["droppedSize"], 0)


@case
def invalid_bounds_are_refused(host):
    for option in "--log-size=1", "--log-size=much", "--log-rate=-1", "--log-rate=":
        r = host.acnspawn("prepare", host.shell("true"), option)
        true(r.rc in (1, 2) and option.split("=")[0] in r.err and "must be a number of bytes" in r.err, "message of %s: %r" % (option, r.err))


# --- Log files -------------------------------------------------------------------------------------------------------------


CRI = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([FP]) (.*)", re.S)


def records(path):
    """(time, stream, tag, text) of each record, as the kubelet reads them: nothing else may be in the file."""
    with open(path, "rb") as f:
        content = f.read()
    true(not content or content.endswith(b"\n"), "the file ends in %r" % content[-100:])
    found = []
    for line in content.split(b"\n")[:-1]:
        m = CRI.fullmatch(line)
        true(m and len(line) < 16384, "%r is no record" % line[:200])
        found.append((m[1].decode(), m[2].decode(), m[3].decode(), m[4]))
    return found


def text_of(found, stream):
    """The content of one stream: parts of lines joined."""
    return b"".join(text + (b"\n" if tag == "F" else b"") for _, s, tag, text in found if s == stream)


def numbers(text):
    return [int(n) for n in text.split()]


@case
def log_file_has_both_streams_in_cri_format(host):
    log = host.path("a.log")
    begin = time.time()
    script = "printf 'one\\n\\nbin\\000ary \\377\\n'; echo error >&2; head -c 40000 /dev/zero | tr '\\0' x; echo; printf rest; printf '\\nno end' >&2"
    r = host.acnspawn("run", "--name=p", host.shell(script, name="example.com/a"), "--log-file=" + log).expect(0)
    contains(r.out, "one\n")
    found = records(log)
    equal(text_of(found, "stdout"), b"one\n\nbin\0ary \xff\n" + b"x" * 40000 + b"\nrest")
    equal(text_of(found, "stderr"), b"error\n\nno end")
    equal([tag for _, s, tag, text in found if text.startswith(b"xx")], ["P", "P", "F"])
    for when, _, _, _ in found:
        moment = calendar.timegm(time.strptime(when[:19], "%Y-%m-%dT%H:%M:%S"))
        true(begin - 2 < moment < time.time() + 2, "time %s" % when)
    st = os.stat(log)
    equal((st.st_mode & 0o777 & ~0o640, st.st_uid), (0, 0), "rights of the file")
    contains(logs(host, "p").expect(0).out, "one\n")
    app = host.app_status("p", "a")
    equal((app["logFile"], app["logFileDroppedLines"], app["log"]), (log, 0, "auto"))
    contains(host.acnspawn("status", "p").expect(0).out, "log file " + log)


LONG_LINE = "x" * 150000
LONG_SCRIPT = "echo first; head -c 150000 /dev/zero | tr '\\0' x; echo; echo last"


def shows_whole_lines(host, *args):
    for n, shown in (1, ["last"]), (2, [LONG_LINE, "last"]), (3, ["first", LONG_LINE, "last"]), (9, ["first", LONG_LINE, "last"]):
        equal(logs(host, "--lines=%d" % n, *args).expect(0).out.splitlines(), shown, "the last %d lines" % n)
    found = [l.split(" ", 1) for l in logs(host, "--timestamps", *args).expect(0).out.splitlines()]
    equal([l[1] for l in found], ["first", LONG_LINE, "last"], "lines with their times")
    true(all(re.fullmatch(r"\d{4}-\d\d-\d\dT\S+", l[0]) for l in found), "times")


@case
def long_lines_are_shown_and_counted_as_lines(host):
    """journald and log files store long lines in several records."""
    host.run("--name=p", host.shell(LONG_SCRIPT, name="example.com/a"))
    shows_whole_lines(host, "p")
    host.run("--name=q", host.shell(LONG_SCRIPT, name="example.com/a"), "--log=none", "--log-file=" + host.path("q.log"))
    shows_whole_lines(host, "--quiet", "q")
    # With the names of the apps.
    host.run("--name=r", "--exit-policy=all", host.shell(LONG_SCRIPT + "; printf unfinished", name="example.com/a"), host.shell("sleep 0.3; echo other", name="example.com/b"))
    lines = logs(host, "r").expect(0).out.splitlines()
    equal(sorted(lines), sorted(["a: first", "a: " + LONG_LINE, "a: last", "a: unfinished", "b: other"]))


@case
def log_file_is_complete_when_the_app_has_ended(host):
    """300 000 lines: they are complete and in order before status shows the end; and a restart appends."""
    log = host.path("a.log")
    host.detach("--name=p", "--exit-policy=all", host.shell("seq 1 300000", name="example.com/a"), "--log-file=" + log, "--log=none", "---",
                host.shell("exec sleep 1000", name="example.com/b"))
    wait_for(lambda: host.app_status("p", "a")["state"] == "ended", "end of the app", timeout=120)
    equal(numbers(text_of(records(log), "stdout")), list(range(1, 300001)))
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def restarted_app_appends(host):
    log = host.path("a.log")
    script = "echo start; printf 'no end'; exit 1"
    host.run("--name=p", host.shell(script, name="example.com/a"), "--restart=on-failure", "--restart-limit=2", "--restart-delay=1ms",
             "--log-file=" + log, rc=1)
    # The unterminated last line of one start is not joined with the first line of the next.
    equal(text_of(records(log), "stdout"), (b"start\nno end\n" * 3)[:-1])
    # Plain: the file of one pod, and of the next one.
    plain = host.path("b.log")
    for i in range(2):
        host.run(host.shell("echo out; echo err >&2; printf end", name="example.com/b"), "--log-file=%s,format=plain" % plain)
    with open(plain) as f:
        equal(sorted(f.read().split("\n")), [""] + ["end"] * 2 + ["err"] * 2 + ["out"] * 2)


@case
def rotation_neither_loses_nor_doubles_lines(host):
    """While the app writes at full speed, the file is renamed and reopened, 20 times."""
    log = host.path("a.log")
    host.detach("--name=p", host.shell("seq 1 3000000 & seq 1 3000000 >&2; wait", name="example.com/a"), "--log-file=" + log, "--log=none")
    wait_for(lambda: os.path.exists(log) and os.path.getsize(log) > 0, "the log file")
    files = []
    for i in range(20):
        files.append("%s.%d" % (log, i))
        os.rename(log, files[-1])
        host.acnspawn("logs", "--reopen", *(["--app=a"] if i % 2 else []), "p").expect(0)
        size = os.path.getsize(files[-1])
        true(os.path.exists(log), "the new file is there")
        wait_for(lambda: os.path.getsize(log) > 0, "lines in the new file")
        equal(os.path.getsize(files[-1]), size, "size of the old file after the request was answered")
    true(host.app_status("p", "a")["state"] == "running", "the app writes all the time")
    wait_for(lambda: host.state("p") == "exited", "end of the pod", timeout=120)
    files.append(log)
    found = [r for f in files for r in records(f)]
    for stream in "stdout", "stderr":
        equal(numbers(text_of(found, stream)) == list(range(1, 3000001)), True, "all numbers on " + stream)
    true(len([f for f in files if os.path.getsize(f) > 0]) > 10, "the app was too fast")
    equal(host.app_status("p", "a")["logFileDroppedLines"], 0)


@case
def reopening_that_fails_keeps_the_file(host):
    log = host.path("a.log")
    host.detach("--name=p", host.shell("while sleep 0.05; do echo x; done", name="example.com/a"), "--log-file=" + log, "---",
                host.shell("exec sleep 1000", name="example.com/b"))
    os.rename(log, log + ".1")
    os.mkdir(log)
    contains(host.acnspawn("logs", "--reopen", "p").expect(1).err, "Cannot write the log of app a to %s: it is a directory" % log)
    size = os.path.getsize(log + ".1")
    wait_for(lambda: os.path.getsize(log + ".1") > size, "lines in the old file")
    contains(host.acnspawn("logs", "--reopen", "--app=b", "p").expect(1).err, "App b has no log file")
    os.rmdir(log)
    host.acnspawn("logs", "--reopen", "p").expect(0)
    wait_for(lambda: os.path.getsize(log) > 0, "lines in the new file")
    host.acnspawn("stop", "--force", "p").expect(0)
    contains(host.acnspawn("logs", "--reopen", "p").expect(1).err, "is not running")


@case
def only_regular_files_are_logs(host):
    image = host.shell("echo x", name="example.com/a")
    target = host.path("target")
    for name, make, what in (("link", lambda p: os.symlink(target, p), "it is a symbolic link"),
                             ("fifo", os.mkfifo, "it is a FIFO"),
                             ("directory", os.mkdir, "it is a directory"),
                             ("missing/file", lambda p: None, "No such file or directory")):
        path = host.path(name)
        make(path)
        r = host.acnspawn("run", image, "--log-file=" + path).expect(1)
        contains(r.err, "Cannot write the log of app a to %s: %s" % (path, what))
        equal(r.out, "")
    true(not os.path.exists(target), "the target of the link was made")
    for value in "log", "/", "/x,format=json", "/x,max-size=1", "/a/../b":
        contains(host.acnspawn("prepare", image, "--log-file=" + value).err, "must be the absolute path of a file")
    r = host.acnspawn("prepare", image, "--log-file=" + target, "---", image, "--name=b", "--log-file=" + target).expect(1)
    contains(r.err, "have the same log file")


@case
def full_file_system_does_not_stop_the_app(host):
    """A tmpfs of 256 KiB: the app keeps running, records in the file are complete, the rest is counted; space freed
    later is used."""
    directory = host.path("small")
    os.mkdir(directory)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", directory], check=True)
    try:
        log = os.path.join(directory, "a.log")
        script = "trap 'echo later' USR1; seq 1 50000; touch /out/up; while :; do sleep 0.05; done"
        host.detach("--name=p", host.shell(script, name="example.com/a"), "--log-file=" + log, "---",
                    host.shell("exec sleep 1000", name="example.com/b"))
        host.wait_up("a")
        wait_for(lambda: host.app_status("p", "a")["logFileDroppedLines"] > 0, "lines that were dropped")
        got = numbers(text_of(records(log), "stdout"))
        true(len(got) > 3000 and got == sorted(set(got)), "lines in the file")
        wait_for(lambda: host.app_status("p", "a")["logFileDroppedLines"] == 50000 - len(got), "count of lines that were dropped")
        app = host.app_status("p", "a")
        equal(app["logFileDroppedSize"], sum(len("%d\n" % i) for i in range(1, 50001)) - sum(len("%d\n" % i) for i in got))
        contains(host.acnspawn("status", "p").expect(0).out, "%d lines (" % app["logFileDroppedLines"])
        said = [l for l in host.acnspawn("logs", "--app=a", "p").expect(0).out.splitlines() if l.startswith("acnspawn: ")]
        equal(len(said), 1, "what the journal says")
        contains(said[0], "acnspawn: the log file %s of app a takes no more: No space left on device." % log)
        os.truncate(log, 0)
        host.acnspawn("kill", "--signal=USR1", "--app=a", "p").expect(0)
        wait_for(lambda: b"later\n" in text_of(records(log), "stdout"), "the line that fits again")
        host.acnspawn("stop", "--force", "p").expect(0)
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


@case
def without_the_journal_logs_reads_the_file(host):
    log = host.path("a.log")
    script = "echo one; echo two >&2; sleep 0.3; echo three"  # one pipe may be read before the other
    host.run("--name=p", host.shell(script, name="example.com/a"), "--log-file=" + log, "--log=none")
    r = logs(host, "p").expect(0)
    equal((r.out, sorted(r.err.splitlines())),
          ("one\nthree\n", sorted(["two", "The output of app a is not in the journal: this is its log file %s." % log])))
    equal(logs(host, "--lines=1", "p").expect(0).out, "three\n")
    true(re.fullmatch(r"\d{4}-\d\d-\d\dT\S+ one\n\d{4}-\S+ three\n", logs(host, "--timestamps", "p").expect(0).out), "times")
    entries = [json.loads(l) for l in logs(host, "--json", "p").expect(0).out.splitlines()]
    equal([(x["stream"], x["message"]) for x in entries if x["stream"] == "stderr"], [("stderr", "two")])
    equal(logs(host, "--until=@1000000000", "p").expect(0).out, "")
    # Another pod with the same file: each shows its own.
    host.run("--name=q", host.shell("echo four", name="example.com/a"), "--log-file=" + log, "--log=none")
    equal(logs(host, "q").expect(0).out, "four\n")
    # The end of a line that the previous pod left open is not a line of the next pod.
    host.run("--name=s", host.shell("printf five", name="example.com/a"), "--log-file=" + log, "--log=none")
    equal(logs(host, "s").expect(0).out, "five")
    host.run("--name=t", host.shell("echo; echo six", name="example.com/a"), "--log-file=" + log, "--log=none")
    equal([logs(host, *words, "t").expect(0).out for words in ((), ("--lines=2",), ("--lines=3",))], ["\nsix\n"] * 3)
    os.remove(log)
    contains(logs(host, "p").expect(1).err, "Cannot read the log file %s of app a" % log)
    os.symlink("/etc/passwd", log)
    equal(logs(host, "p").expect(1).out, "")
    # The journal has nothing.
    host.run("--name=r", host.shell("echo nowhere", name="example.com/a"), "--log=none", "---", host.shell("echo b", name="example.com/b"))
    r = logs(host, "r").expect(0)
    equal(r.out, "b: b\n")
    contains(r.err, "The output of app a is not in the journal, and it has no log file.")
    contains(logs(host, "--app=a", "r").expect(1).err, "neither the journal nor a log file")


@case
def output_in_a_journal_that_the_host_has_not_is_reported(host):
    """With one, see tests/vm/units.py."""
    with contextlib.suppress(FileNotFoundError):
        if any(os.path.exists(os.path.join(d, read_text("/etc/machine-id").strip())) for d in ("/var/log/journal", "/run/log/journal")):
            raise Skip("this host has a journal")
    log = host.path("a.log")
    host.run("--name=p", host.shell("echo one", name="example.com/a"), "--log=journal")
    contains(logs(host, "p").expect(1).err, "The output of app a of pod p is in the journal of the host, and this host has none in "
             "/var/log/journal or /run/log/journal")
    host.run("--name=q", host.shell("echo one", name="example.com/a"), "--log=journal", "--log-file=" + log, "---",
             host.shell("echo two", name="example.com/b"))
    r = logs(host, "q").expect(0)
    equal(r.out, "b: two\n")
    contains(r.err, "The output of app a is in the journal of the host, and this host has none: 'acnspawn logs --app=a q' shows its log file " + log)
    equal(logs(host, "--app=a", "q").expect(0).out, "one\n")


@case
def log_file_is_followed_through_rotation(host):
    log = host.path("a.log")
    host.detach("--name=p", host.shell("for i in $(seq 1 40); do echo $i; sleep 0.1; done", name="example.com/a"), "--log-file=" + log,
                "--log=none")
    p = host.start("--quiet", "logs", "--follow", "p")

    def rotate(i):
        os.rename(log, "%s.%d" % (log, i))
        host.acnspawn("logs", "--reopen", "p").expect(0)
    follow_through(host, p, rotate)


@case
def log_file_has_a_limit(host):
    log = host.path("a.log")
    host.run("--name=p", host.shell("seq 1 100000", name="example.com/a"), "--log-file=%s,max-size=100Ki" % log)
    true(100 * 1024 - 60 < os.path.getsize(log) <= 100 * 1024, "size of the file")
    n = len(numbers(text_of(records(log), "stdout")))
    equal(host.app_status("p", "a")["logFileDroppedLines"], 100000 - n)
    contains(logs(host, "p").expect(0).out, "takes no more: it has its max-size=.")


main()

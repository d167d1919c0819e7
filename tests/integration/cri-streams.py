#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exec and Attach of the CRI: the URLs, and what clients open there."""

from cri_client import *
from stream_client import *

BOTH = (STDIN, STDOUT, STDERR)
SUCCESS = {"metadata": {}, "status": "Success"}


def failure(code):
    return {"metadata": {}, "status": "Failure", "message": "command terminated with exit code %d" % code, "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}


def started(host, c, script=SLEEP, **more):
    sandbox = run_sandbox(c)
    container = create(c, sandbox, "app", image(host), script, **more)
    c.call("StartContainer", container_id=container)
    return sandbox, container


def exec_url(c, container, script, stdin=False, stdout=True, stderr=True, tty=False):
    return c.call("Exec", container_id=container, cmd=["/bin/sh", "-c", script], stdin=stdin, stdout=stdout, stderr=stderr and not tty,
                  tty=tty).url


def clients(url_of, stdin=False, tty=False):
    """The same stream, of each protocol."""
    streams = ([STDIN] if stdin else []) + [STDOUT] + ([RESIZE] if tty else [STDERR])
    yield WebSocket(url_of())
    yield WebSocket(url_of(), "v4.channel.k8s.io")
    yield Spdy(url_of(), *streams)


@case
def a_command_has_its_streams_and_its_exit_code(host):
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        for x in clients(lambda: exec_url(c, container, "echo out; echo err >&2; exit 3")):
            equal(x.finish(), failure(3))
            equal((x.data[STDOUT], x.data[STDERR]), (b"out\n", b"err\n"))
        for x in clients(lambda: exec_url(c, container, "while read x; do echo got $x; done; echo end", stdin=True), stdin=True):
            x.send(STDIN, b"one\n")
            x.until_said(b"got one\n")
            x.send(STDIN, b"two\nthr")
            x.send(STDIN, b"ee\n")
            x.until_said(b"got three\n")
            if getattr(x, "protocol") == "v4.channel.k8s.io" and isinstance(x, WebSocket):
                x.close()  # there is no end of a stream but that of all
                continue
            x.end(STDIN)
            equal((x.finish(), x.data[STDOUT]), (SUCCESS, b"got one\ngot two\ngot three\nend\n"))
        x = WebSocket(c.call("Exec", container_id=container, cmd=["/none"], stdout=True).url)
        status = x.finish()
        equal((status["status"], status["reason"]), ("Failure", "InternalError"))
        contains(status["message"], "/none")
        remove(c, sandbox)


@case
def a_command_on_a_terminal(host):
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        script = "trap 'echo changed $(stty size)' WINCH; tty; while :; do read x && echo got $x; done"
        for x in clients(lambda: exec_url(c, container, script, stdin=True, tty=True), stdin=True, tty=True):
            x.until_said(b"/dev/pts/")
            x.send(RESIZE, b'{"Width":101,"Height":33}\n')
            x.send(STDIN, b"word\n")
            x.until_said(b"got word\r\n")
            x.send(STDIN, b"more\n")
            x.until_said(b"changed 33 101")
            x.close()
        wait_for(lambda: len(s.children()) == 0, "the processes of the streams to end")
        remove(c, sandbox)


@case
def urls_are_for_one_use_and_one_stream(host):
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        url = exec_url(c, container, "echo x")
        equal(WebSocket(url).finish(), SUCCESS)
        status, message = refusal(url, "Upgrade: websocket", "Connection: Upgrade")
        equal((status, message), ("404 Not Found", "There is no such stream: its URL was used, or is older than a minute"))
        url = exec_url(c, container, "echo x")
        equal(refusal(url.replace("/exec/", "/attach/"))[0], "404 Not Found")
        equal(refusal(url[:-1] + ("0" if url[-1] != "0" else "1"))[0], "404 Not Found")
        equal(refusal(url[:-1])[0], "404 Not Found")
        equal(refusal(url), ("400 Bad Request", "Streams are served by an upgrade to websocket or SPDY/3.1"))
        status, message = refusal(url, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                                  "Sec-WebSocket-Key: " + "A" * 22 + "==", "Sec-WebSocket-Protocol: v9.channel.k8s.io")
        equal(status, "400 Bad Request")
        contains(message, "No protocol that the client names is served")
        equal(refusal(url, "X: " + "x" * 20000)[0], "431 Request Header Fields Too Large")
        equal(refusal(url, "X y: z")[0], "400 Bad Request")
        equal(WebSocket(url).finish(), SUCCESS, "what was refused has not used it up")
        for wrong, why in ({"stdout": False, "stderr": False}, "None of the fields"), ({"cmd": []}, "no command"):
            status, message = c.refused("Exec", **dict({"container_id": container, "cmd": ["x"], "stdout": True}, **wrong))
            equal(status, "INVALID_ARGUMENT")
            contains(message, why)
        equal(c.refused("Exec", container_id=container, cmd=["x"], stderr=True, tty=True)[0], "INVALID_ARGUMENT")
        equal(c.refused("Attach", container_id="f" * 64, stdout=True)[0], "NOT_FOUND")
        for _ in range(1000):
            c.call("Exec", container_id=container, cmd=["true"], stdout=True)
        status, message = c.refused("Exec", container_id=container, cmd=["true"], stdout=True)
        equal(status, "RESOURCE_EXHAUSTED")
        contains(message, "Too many streams were requested and not opened")
        remove(c, sandbox)


def memory(pid):
    """Kilobytes; of a process that has ended, none."""
    with contextlib.suppress(OSError):
        return sum(int(n) for n in re.findall(r"^VmRSS:\s*(\d+)", read_text("/proc/%s/status" % pid), re.M))
    return 0


@case
def much_data_and_many_streams(host):
    """Neither side keeps more than a little of it."""
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        size = 200 << 20
        for kind in WebSocket, Spdy:
            url = exec_url(c, container, "head -c %d /dev/zero" % size)
            x = kind(url) if kind == WebSocket else kind(url, STDOUT, STDERR)
            seen, peak = 0, 0
            while not x.closed:
                x.receive()
                seen += len(x.data[STDOUT])
                x.data[STDOUT] = b""
                peak = max([peak] + [memory(child) for child in s.children()])
            equal((seen, json.loads(x.data[ERROR])), (size, SUCCESS))
            true(peak < 40000, "the process of the stream had %d KiB" % peak)
        url = exec_url(c, container, "wc -c", stdin=True)
        x = WebSocket(url)
        for _ in range(50):
            x.send(STDIN, bytes(1 << 19))
        x.end(STDIN)
        equal((x.finish(), x.data[STDOUT].strip()), (SUCCESS, b"%d" % (50 << 19)))
        many = [WebSocket(exec_url(c, container, "read x; echo $x; exit 1", stdin=True)) for _ in range(50)]
        for i, x in enumerate(many):
            x.send(STDIN, b"%d\n" % i)
        for i, x in enumerate(many):
            equal((x.finish(), x.data[STDOUT]), (failure(1), b"%d\n" % i))
        remove(c, sandbox)


@case
def a_client_that_goes_takes_its_command_with_it(host):
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        for x in clients(lambda: exec_url(c, container, "echo $$; exec sleep 1234")):
            x.until_said(b"\n")
            number = int(x.data[STDOUT])
            command = lambda: c.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", "kill -0 %d" % number]).exit_code == 0
            true(command(), "the command runs")
            x.close()
            wait_for(lambda: not command(), "the end of the command")
        remove(c, sandbox)


@case
def attached_to_a_container(host):
    with Service(host) as s:
        c = s.client()
        script = "while read x; do echo got $x; echo err $x >&2; done; echo end; exit 5"
        sandbox, container = started(host, c, script, stdin=True)
        url = lambda: c.call("Attach", container_id=container, stdin=True, stdout=True, stderr=True).url
        for i, x in enumerate(clients(url, stdin=True)):
            x.send(STDIN, b"%d\n" % i)
            x.until_said(b"got %d\n" % i)
            x.until_said(b"err %d\n" % i, STDERR)
            x.close()
            equal(state(c, container), "RUNNING")
        x = Spdy(url(), STDIN, STDOUT, STDERR)
        x.send(STDIN, b"last\n")
        x.until_said(b"got last\n")
        x.end(STDIN)  # which is the end of the client's input, not of the container's
        other = WebSocket(url())
        other.send(STDIN, b"again\n")
        other.until_said(b"got again\n")
        x.until_said(b"got again\n")
        stop(c, container, 0)
        equal((x.finish(), other.finish()), (SUCCESS, SUCCESS))
        remove(c, sandbox)


@case
def input_for_one_client(host):
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c, "while read x; do echo got $x; done; echo end; sleep 0.2; exit 5", stdin=True, stdin_once=True)
        x = WebSocket(c.call("Attach", container_id=container, stdin=True, stdout=True).url)
        x.send(STDIN, b"one\n")
        x.until_said(b"got one\n")
        x.end(STDIN)
        x.until_said(b"end\n")
        equal(x.finish(), SUCCESS)
        wait_for(lambda: state(c, container) == "EXITED", "the end of the container")
        equal(status(c, container).exit_code, 5)
        remove(c, sandbox)


@case
def streams_go_on_without_the_server(host):
    with Service(host, "--stream-port=0") as s:
        c = s.client()
        sandbox, container = started(host, c)
        x = WebSocket(exec_url(c, container, "while read x; do echo got $x; done", stdin=True))
        x.send(STDIN, b"one\n")
        x.until_said(b"got one\n")
        s.process.kill()
        s.stop()
        x.send(STDIN, b"two\n")
        x.until_said(b"got two\n")
        s.start()
        c = s.client()
        x.end(STDIN)
        equal(x.finish(), SUCCESS)
        remove(c, sandbox)
    r = subprocess.run([PROGRAM, "--stream-port=70000"], capture_output=True, text=True)
    equal(r.returncode, 2)
    contains(r.stderr, "70000")


@case
def what_is_not_valid_harms_nobody(host):
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        for data in (b"\x82\x01x", b"\x82\xff" + b"\xff" * 8, b"\x8f\x80" + bytes(4), b"\x89\xfe" + bytes(20), b"\x80\x80" + bytes(4)):
            x = WebSocket(exec_url(c, container, "sleep 100", stdin=True))
            x.socket.sendall(data)
            x.finish()
        for data in (b"\x80\x02\x00\x01" + bytes(4), b"\x80\x03\x00\x01\x00\x00\x00\x02xx", b"\x80\x03\x00\xff" + bytes(4), b"\xff" * 64,
                     b"\x00\x00\x00\x01\x00\xff\xff\xff"):
            x = Spdy(exec_url(c, container, "sleep 100"), STDOUT, STDERR)
            x.socket.sendall(data)
            x.finish()
        x = Spdy(exec_url(c, container, "echo done"), STDOUT, STDERR)
        x.control(6, struct.pack(">I", 7))
        x.open(9, 99, name="other")
        equal((x.finish(), x.pong, x.refused), (SUCCESS, struct.pack(">I", 7), {99}))
        wait_for(lambda: len(s.children()) == 0, "the processes of the streams to end")
        equal(WebSocket(exec_url(c, container, "echo x")).finish(), SUCCESS)
        remove(c, sandbox)


if __name__ == "__main__":
    if missing():
        print("SKIP: " + missing())
        sys.exit(77)
    main()

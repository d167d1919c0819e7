#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exec, Attach and PortForward of the CRI: the URLs, and what clients open there."""

import warnings

from cri_client import *
import stream_client
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
    yield WebSocket(url_of(), "v4.base64.channel.k8s.io")
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
            if isinstance(x, WebSocket) and x.protocol.startswith("v4."):
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
def the_older_subprotocols_of_websocket(host):
    """channel.k8s.io, also in base64, and requests without a subprotocol: an error is plain text, and success sends
    nothing."""
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        for names in ("channel.k8s.io",), ("base64.channel.k8s.io",), ("v9.channel.k8s.io", "channel.k8s.io"), None:
            if names is None:
                x = WebSocket(exec_url(c, container, "echo out"), protocols=False)
            else:
                x = WebSocket(exec_url(c, container, "echo out"), *names)
                equal(x.protocol, names[-1])
            equal((x.finish(), x.data[STDOUT]), ("", b"out\n"))
            x = WebSocket(exec_url(c, container, "read x; echo got $x; head -c 100000 /dev/zero; exit 3", stdin=True), *(names or ("channel.k8s.io",)))
            x.send(STDIN, b"some ")
            x.send(STDIN, b"words\n")
            equal(x.finish(), "command terminated with exit code 3")
            equal((x.data[STDOUT][:15], len(x.data[STDOUT])), (b"got some words\n", 100015))
        remove(c, sandbox)


@case
def streams_end_with_their_command(host):
    """Also if it leaves processes behind that hold its streams open, or write without an end: what it has written itself arrives."""
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        for left in "sleep 60 &", "(while sleep 0.01; do echo x; done) &", "trap '' HUP; (while :; do sleep 60; done) &":
            for tty in False, True:
                for x in clients(lambda: exec_url(c, container, "%s echo out; exit 3" % left, tty=tty), tty=tty):
                    begun = time.monotonic()
                    equal(x.finish(), failure(3), (left, tty))
                    true(time.monotonic() - begun < patience(15), "it ends in time: %s" % left)
                    contains(x.data[STDOUT].decode(), "out")
        # More than the client can read in time: what comes after the two seconds is not waited for.
        x = WebSocket(exec_url(c, container, "(while :; do echo x; done) & echo out; exit 5"))
        equal(x.finish(), failure(5))
        contains(x.data[STDOUT].decode(), "out")
        # A client that does not read meanwhile.
        x = WebSocket(exec_url(c, container, "sleep 60 & head -c 60000 /dev/zero; exit 4"))
        time.sleep(3)  # longer than the two seconds that there are after the end of the command
        equal((x.finish(), len(x.data[STDOUT])), (failure(4), 60000))
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
        contains(message, "The client requests no supported protocol")
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
def input_and_its_end_can_precede_the_attach(host):
    """Input and its end can arrive before the attach is done, as with "echo one | kubectl run -i"."""
    with Service(host) as s:
        c, sandbox, image_id = s.client(), None, image(host)
        sandbox = run_sandbox(c)
        kinds = {"websocket": lambda url: WebSocket(url, input=b"one\n"), "spdy": lambda url: Spdy(url, STDIN, STDOUT, input=b"one\n")}
        for name, kind in kinds.items():
            for attempt in range(2):
                container = create(c, sandbox, name, image_id, "while read x; do echo got $x; done; echo end; exit 5", attempt=attempt, stdin=True,
                                   stdin_once=True)
                c.call("StartContainer", container_id=container)
                x = kind(c.call("Attach", container_id=container, stdin=True, stdout=True).url)
                wait_for(lambda: state(c, container) == "EXITED", "the end of the container")
                equal((x.finish(), x.data[STDOUT]), (SUCCESS, b"got one\nend\n"))
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
    r = subprocess.run([PROGRAM, "--cgroup-driver=other"], capture_output=True, text=True)
    equal(r.returncode, 2)
    contains(r.stderr, "it is neither systemd nor cgroupfs")


def make_certificate(path, name="IP:127.0.0.1"):
    """Signed by itself."""
    run = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                          "-subj", "/CN=streams", "-addext", "subjectAltName=" + name, "-keyout", path + ".key", "-out", path + ".pem"],
                         capture_output=True, text=True)
    equal(run.returncode, 0, run.stderr)
    return ["--stream-tls-cert=" + path + ".pem", "--stream-tls-key=" + path + ".key"]


def trust(path):
    """What clients accept from now on."""
    stream_client.TLS = ssl.create_default_context(cafile=path + ".pem")
    return stream_client.TLS


def need_openssl():
    if not shutil.which("openssl"):
        raise Skip("openssl is missing")


@case
def streams_by_tls(host):
    """All protocols, much data in both directions, more in one record than the head of the request has room for."""
    need_openssl()
    options = make_certificate(host.path("streams"))
    trust(host.path("streams"))
    with Service(host, *options) as s:
        c = s.client()
        sandbox, container = started(host, c)
        url = exec_url(c, container, "true")
        contains(url, "https://127.0.0.1:")
        equal(refusal(url), ("400 Bad Request", "Streams are served by an upgrade to websocket or SPDY/3.1"))
        equal(refusal(url, "X: " + "x" * 20000)[0], "431 Request Header Fields Too Large")
        equal(refusal(url[:-1] + ("0" if url[-1] != "0" else "1"))[0], "404 Not Found")
        for x in clients(lambda: exec_url(c, container, "echo out; echo err >&2; exit 3")):
            equal(x.finish(), failure(3))
            equal((x.data[STDOUT], x.data[STDERR]), (b"out\n", b"err\n"))
        for x in clients(lambda: exec_url(c, container, "while read x; do echo got $x; done; echo end", stdin=True), stdin=True):
            x.send(STDIN, b"one\n")
            x.until_said(b"got one\n")
            if isinstance(x, WebSocket) and x.protocol.startswith("v4."):
                x.close()  # there is no end of a stream but that of all
                continue
            x.end(STDIN)
            equal((x.finish(), x.data[STDOUT]), (SUCCESS, b"got one\nend\n"))
        size = 50 << 20
        x = WebSocket(exec_url(c, container, "head -c %d /dev/zero" % size))
        seen = 0
        while not x.closed:
            x.receive()
            seen += len(x.data[STDOUT])
            x.data[STDOUT] = b""
        equal((seen, json.loads(x.data[ERROR])), (size, SUCCESS))
        x = WebSocket(exec_url(c, container, "wc -c", stdin=True))
        for _ in range(20):
            x.send(STDIN, bytes(1 << 19))
        x.end(STDIN)
        equal((x.finish(), x.data[STDOUT].strip()), (SUCCESS, b"%d" % (20 << 19)))
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


def handshake(port, **versions):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    for name, version in versions.items():
        setattr(context, name, version)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain, context.wrap_socket(plain) as tls:
        return tls.version()


@case
def versions_and_certificates_of_tls(host):
    need_openssl()
    options = make_certificate(host.path("streams"))
    trust(host.path("streams"))
    with Service(host, *options) as s:
        c = s.client()
        sandbox, container = started(host, c)
        url = exec_url(c, container, "echo x")
        port = int(url.split("/")[2].rsplit(":", 1)[1])
        equal(handshake(port), "TLSv1.3")
        equal(handshake(port, maximum_version=ssl.TLSVersion.TLSv1_2), "TLSv1.2")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fail("the server has accepted %s" % handshake(port, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1))
            except (ssl.SSLError, ConnectionError):
                pass
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:  # a client without TLS
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while plain.recv(4096):
                    pass
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:  # a record that is larger than records can be
            plain.sendall(b"\x16\x03\x01\xff\xff" + bytes(70000))
            with contextlib.suppress(ConnectionError):
                while plain.recv(4096):
                    pass
        silent = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(300)]
        for x in silent:
            with contextlib.suppress(OSError):
                x.sendall(b"\x16\x03\x01")
        equal(WebSocket(url).finish(), SUCCESS)
        for x in silent:
            x.close()
        # A certificate that is renewed; one that is not valid changes nothing.
        make_certificate(host.path("new"))
        for end in ".key", ".pem":
            os.rename(host.path("new" + end), host.path("streams" + end))
        trust(host.path("streams"))
        equal(WebSocket(exec_url(c, container, "echo x")).finish(), SUCCESS)
        with open(host.path("streams.pem"), "w") as f:
            f.write("damaged")
        equal(WebSocket(exec_url(c, container, "echo x")).finish(), SUCCESS)
        contains(s.said(), "Cannot use '%s' as the certificate of the streams" % host.path("streams.pem"))
        remove(c, sandbox)
        os.truncate(host.path("cri-errors"), 0)
    make_certificate(host.path("streams"))
    make_certificate(host.path("other"))
    cert, key = "--stream-tls-cert=" + host.path("streams.pem"), "--stream-tls-key=" + host.path("streams.key")
    for words, status, message in (([cert], 2, "--stream-tls-cert and --stream-tls-key are needed together"),
                                   ([cert, "--stream-tls-key=relative"], 2, "it is not an absolute path"),
                                   ([cert, "--stream-tls-key=/none"], 1, "Cannot open '/none', the key of the streams"),
                                   ([cert, "--stream-tls-key=" + host.path("other.key")], 1, "as the key of the streams: key values mismatch"),
                                   (["--stream-tls-cert=" + host.path("other.key"), key], 1, "as the certificate of the streams: ")):
        r = subprocess.run([PROGRAM, "--dir=" + host.dir, "--socket=" + host.path("x.sock"), *words], capture_output=True, text=True)
        equal(r.returncode, status)
        contains(r.stderr, message)


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


ATTACK = """for i in $(seq 300); do (sleep 1000 | nc 127.0.0.1 PORT >/dev/null 2>&1) & done
for i in $(seq 50); do printf 'GET /exec/%064d HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n' $i | nc 127.0.0.1 PORT | head -n 1; done | sort | uniq -c
head -c 100000 /dev/zero | nc 127.0.0.1 PORT | head -n 1
echo done; sleep 1000"""


@case
def a_container_in_the_network_of_the_host_attacks_the_server(host):
    """It can connect; but it has no URL, and what others open is served."""
    with Service(host) as s:
        c = s.client()
        sandbox, container = started(host, c)
        port = exec_url(c, container, "true").split("/")[2].rsplit(":", 1)[1]
        own = WebSocket(exec_url(c, container, ATTACK.replace("PORT", port)))
        own.until_said(b"done")
        lines = own.data[STDOUT].decode().splitlines()
        equal(lines[0].split(None, 1)[0], "50")
        contains(lines[0], "HTTP/1.1 404 Not Found")
        # Connections that say nothing are not served before those that do.
        for _ in range(20):
            equal(WebSocket(exec_url(c, container, "echo x")).finish(), SUCCESS)
        true(len(os.listdir("/proc/%d/fd" % s.process.pid)) < 350, "descriptors of the server")
        equal(state(c, container), "RUNNING")
        remove(c, sandbox)


# Forwarded ports.

LOOPBACK = r"""#!/bin/sh
set -e
case $CNI_COMMAND in
ADD) nsenter --net="$CNI_NETNS" ip link set lo up >&2; echo '{"cniVersion": "1.0.0", "ips": []}' ;;
esac
"""
SERVERS = """trap 'exit 0' TERM
nc -ll -p 1 -e cat &
nc -ll -p 3 -e sh -c 'head -c 100000000 /dev/zero' &
nc -ll -p 4 -e sh -c 'wc -c' &
nc -ll -p 5 -e sh -c 'echo $$; exec sleep 1000' &
while :; do sleep 0.05; done"""


@contextlib.contextmanager
def forwarding(host):
    """(service, client, sandbox, container): a sandbox with a network of its own, where servers listen."""
    os.mkdir(host.path("plugins"))
    with open(host.path("plugins/own"), "w") as f:
        f.write(LOOPBACK)
    os.chmod(host.path("plugins/own"), 0o755)
    with Service(host, "--cni-bin-dir=" + host.path("plugins")) as s:
        with open(s.conf + "/10-net.conflist", "w") as f:
            json.dump({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "own"}]}, f)
        c = s.client()
        sandbox = c.call("RunPodSandbox", config=sandbox_config(linux={})).pod_sandbox_id
        container = create(c, sandbox, "app", image(host), SERVERS)
        c.call("StartContainer", container_id=container)
        listening = "test $(grep -c ' 0A ' /proc/net/tcp6) = 4"
        wait_for(lambda: c.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", listening]).exit_code == 0, "servers to listen")
        yield s, c, sandbox, container
        remove(c, sandbox)


def forward_url(c, sandbox, *ports):
    return c.call("PortForward", pod_sandbox_id=sandbox, port=ports).url


SIX = """import socket
s = socket.create_server(("::1", 2), family=socket.AF_INET6)
print("listens", flush=True)
while True:
    peer, _ = s.accept()
    peer.sendall(b"six\\n")
    peer.recv(1)"""


@contextlib.contextmanager
def served_by_ipv6(c, sandbox):
    pid = json.loads(c.call("PodSandboxStatus", pod_sandbox_id=sandbox, verbose=True).info["info"])["pid"]
    with subprocess.Popen(["nsenter", "--net=/proc/%d/ns/net" % pid, sys.executable, "-c", SIX], stdout=subprocess.PIPE) as p:
        equal(p.stdout.readline(), b"listens\n")
        yield
        p.kill()


@case
def ports_are_forwarded(host):
    with forwarding(host) as (s, c, sandbox, container), served_by_ipv6(c, sandbox):
        refused = "Cannot connect to port 9 of sandbox %s: Connection refused" % sandbox
        for tunnel in False, True:
            x = Forward(forward_url(c, sandbox), tunnel)
            one, two, six = x.connect(1), x.connect(1), x.connect(2)  # the last is served by IPv6 only
            x.send(one, b"first")
            x.send(two, b"second")
            x.until_said(b"first", one)
            x.until_said(b"second", two)
            x.until_said(b"six\n", six)
            equal(x.until_ended(x.connect(9)), (b"", refused))
            x.send(one, b", more")
            x.end(one)  # the server reads to the end, and then answers
            equal(x.until_ended(one), (b"first, more", ""))
            x.send(two, b", still")
            x.until_said(b"second, still", two)
            x.reset(six)
            old = x.connect(1, requestID="")  # the number of the stream counts
            x.send(old, b"old")
            x.until_said(b"old", old)
            for number, headers in (1001, {"port": "0"}), (1003, {"port": "70000"}), (1005, {}), (1007, {"name": "stdin"}):
                x.open("wrong", number, **dict({"name": "data", "requestID": "w"}, **({"port": "http"} if not headers else headers)))
            x.until(lambda: x.refused == {1001, 1003, 1005, 1007}, "refusals")
            for _ in range(150):  # more than at a time
                x.connections += 300
                last = x.connect(1)
                x.end(last)
                equal(x.until_ended(last), (b"", ""))
            x.close()
            wait_for(lambda: len(s.children()) == 0, "the process of the stream to end")
        x = WebSocket(forward_url(c, sandbox, 1, 9, 258), "v4.channel.k8s.io")
        x.data = {i: b"" for i in range(6)}
        x.send(0, b"word")
        x.until_said(b"word", 0)
        for port, channel in (1, 0), (1, 1), (9, 2), (9, 3), (258, 4), (258, 5):
            equal(x.data[channel][:2], struct.pack("<H", port))
        x.until_said(refused.encode(), 3)
        x.close()
        # Clients that go away.
        x = Forward(forward_url(c, sandbox))
        sleeping = x.connect(5)
        x.until_said(b"\n", sleeping)
        x.close()
        wait_for(lambda: len(s.children()) == 0, "the process of the stream to end")


@case
def ports_that_are_not_forwarded(host):
    with forwarding(host) as (s, c, sandbox, container):
        for ports, why in ([0], "has 0, which is not the number of a port"), ([70000], "has 70000"), ([-1], "has -1"), ([1] * 101, "has 101 ports"):
            status, message = c.refused("PortForward", pod_sandbox_id=sandbox, port=ports)
            equal(status, "INVALID_ARGUMENT")
            contains(message, why)
        equal(c.refused("PortForward", pod_sandbox_id="f" * 64)[0], "NOT_FOUND")
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + "A" * 22 + "==")
        url = forward_url(c, sandbox)
        status, message = refusal(url, *upgrade, "Sec-WebSocket-Protocol: v4.channel.k8s.io")
        equal((status, message), ("400 Bad Request", "Ports are forwarded by v4.channel.k8s.io only if the call of PortForward has listed them"))
        for wrong in ((*upgrade, "Sec-WebSocket-Protocol: v5.channel.k8s.io"),
                      ("Upgrade: SPDY/3.1", "Connection: Upgrade", "X-Stream-Protocol-Version: v4.channel.k8s.io")):
            status, message = refusal(url, *wrong)
            equal(status, "400 Bad Request")
            contains(message, "portforward.k8s.io over SPDY/3.1")
        x = Forward(url)
        equal(refusal(url)[0], "404 Not Found")
        x.close()
        x = Forward(forward_url(c, sandbox, 4, 5))
        equal(x.until_ended(x.connect(1)), (b"", "Port 1 of sandbox %s was not requested by the call of PortForward" % sandbox))
        counted = x.connect(4)
        x.end(counted)
        equal(x.until_ended(counted), (b"0\n", ""))
        for data in b"\x80\x02\x00\x01" + bytes(4), b"\xff" * 64:
            for tunnel in False, True:
                y = Forward(forward_url(c, sandbox), tunnel)
                y.connect(1)
                y.socket.sendall(data)
                y.finish_session()
        # The sandbox ends while a port is forwarded.
        sleeping = x.connect(5)
        x.until_said(b"\n", sleeping)
        late = forward_url(c, sandbox)
        c.call("StopPodSandbox", pod_sandbox_id=sandbox)
        _, message = x.until_ended(sleeping)
        true(message in ("", "Sandbox %s has ended" % sandbox, "The connection to port 5 has failed: Connection reset by peer"), message)
        x.finish_session()
        Forward(late).finish_session()
        status, message = c.refused("PortForward", pod_sandbox_id=sandbox)
        equal((status, message), ("FAILED_PRECONDITION", "Sandbox %s is not ready" % sandbox))
        wait_for(lambda: len(s.children()) == 0, "the processes of the streams to end")


@case
def much_data_by_forwarded_ports(host):
    """In both directions, over several connections; neither side keeps more than a little of it."""
    with forwarding(host) as (s, c, sandbox, container):
        for tunnel in False, True:
            x = Forward(forward_url(c, sandbox), tunnel)
            channels, seen, peak = [x.connect(3), x.connect(3)], 0, 0
            while not set(channels) <= x.ended:
                x.receive()
                for channel in channels:
                    seen += len(x.data[channel])
                    x.data[channel] = b""
                peak = max([peak] + [memory(child) for child in s.children()])
            equal(seen, 200000000)
            counted = x.connect(4)
            for _ in range(50):
                x.send(counted, bytes(1 << 20))
            x.end(counted)
            equal(x.until_ended(counted), (b"%d\n" % (50 << 20), ""))
            peak = max([peak] + [memory(child) for child in s.children()])
            true(peak < 40000, "the process of the stream had %d KiB" % peak)
            x.close()


@case
def ports_of_sandboxes_in_the_network_of_the_host(host):
    import socket
    with Service(host) as s, socket.create_server(("127.0.0.1", 0)) as server:
        c = s.client()
        sandbox = run_sandbox(c)
        x = Forward(forward_url(c, sandbox))
        data = x.connect(server.getsockname()[1])
        server.settimeout(30)
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"hello")
            x.until_said(b"hello", data)
            c.call("StopPodSandbox", pod_sandbox_id=sandbox)
            equal(x.until_ended(data), (b"hello", "Sandbox %s has ended" % sandbox))
            equal(peer.recv(1), b"")
        x.close()
        remove(c, sandbox)


if __name__ == "__main__":
    main_of_cri()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The input of apps that another app has launched: ATTACH_CONTAINER_INPUT and LAUNCH_NESTED_CONTAINER_SESSION of the v1 agent API
of Mesos."""

from container_client import *
from harness import *

def nest(host, name, script, *more):
    """By the operator, with a pipe as standard input."""
    host.acnspawn("launch", "p", "--parent=web", "example.com/stay", "--name=" + name, "--stdin", "--exec=/bin/sh", *more, "--", "-c",
                  script).expect(0)
    return "web/" + name


def logged(host, app, text):
    wait_for(lambda: text in host.acnspawn("logs", "--app=" + app, "p").out, "%r in the output of %s" % (text, app))


@case
def input_is_passed_on_until_it_ends(host):
    """By the end of the request, by a record without bytes, and by the end of the connection."""
    pod(host)
    c = Client(host)
    for n, end in enumerate((lambda i: equal(i.end(), (200, "")), lambda i: i.data(b""), lambda i: i.http.close())):
        app = nest(host, "a%d" % n, "cat; echo over")
        i = InputStream(c, app)
        i.data(b"first\n")
        logged(host, app, "first\n")
        i.control(type="HEARTBEAT", heartbeat={"interval": {"nanoseconds": 30000000000}})
        i.data(b"second\n")
        logged(host, app, "second\n")
        end(i)
        equal(c.wait(app)["exit_status"], 0)
        equal(host.acnspawn("logs", "--app=" + app, "p").out, "first\nsecond\nover\n")
    host.acnspawn("stop", "p").expect(0)


@case
def records_come_in_pieces_of_any_size(host):
    pod(host)
    c = Client(host)
    app = nest(host, "a", "cat")
    i = InputStream(c, None)
    records = []
    for p in ({"type": "CONTAINER_ID", "container_id": identity(app)},
              *({"type": "PROCESS_IO", "process_io": {"type": "DATA", "data": {"type": "STDIN", "data": base64.b64encode(b).decode()}}}
                for b in (b"a", b"bc", b"def", b"\n"))):
        text = json.dumps({"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": p}).encode()
        records.append(b"%d\n%s" % (len(text), text))
    whole = b"".join(records)
    for n in range(0, len(whole), 7):
        i.send_raw(whole[n:n + 7])
    equal(i.end(), (200, ""))
    equal(c.wait(app)["exit_status"], 0)
    equal(host.acnspawn("logs", "--app=" + app, "p").out, "abcdef\n")
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_does_not_read_keeps_the_client_waiting(host):
    """Nothing is lost, and little is kept: the supervisor and the service have a bounded part of it."""
    pod(host)
    c = Client(host)
    app = nest(host, "a", "until [ -e /dev/shm/go ]; do sleep 0.05; done; wc -c")
    i = InputStream(c, app)
    chunk, sent = b"x" * 30000, 0
    i.http.sock.settimeout(1)
    try:
        while sent < 64 * len(chunk):
            i.data(chunk)
            sent += len(chunk)
    except TimeoutError:
        pass
    true(3 * len(chunk) < sent < 40 * len(chunk), "%d bytes were taken" % sent)
    i.http.close()
    # The last record was not sent as a whole; what was before it counts.
    open(root_of(host, "web") + "/dev/shm/go", "w").close()
    equal(c.wait(app)["exit_status"], 0)
    n = int(host.acnspawn("logs", "--app=" + app, "p").out)
    true(3 * len(chunk) < n <= sent + len(chunk), "%d bytes have come" % n)
    # With a client that waits all of it comes.
    app = nest(host, "b", "sleep 0.3; wc -c")
    i = InputStream(c, app)
    for _ in range(50):
        i.data(chunk)
    equal(i.end(), (200, ""))
    equal(c.wait(app)["exit_status"], 0)
    equal(int(host.acnspawn("logs", "--app=" + app, "p").out), 50 * len(chunk))
    host.acnspawn("stop", "p").expect(0)


@case
def terminals_have_the_size_of_the_client(host):
    """Apps that are launched with tty_info have one; the end of the input does not end it."""
    pod(host)
    c = Client(host)
    script = "trap 'stty size; exit 0' WINCH; echo up; while :; do read x && echo got $x; done"
    equal(c.call("LAUNCH_NESTED_CONTAINER", "web/a", command={"value": script},
                 container={"type": "MESOS", "tty_info": {"window_size": {"rows": 24, "columns": 80}}}), (200, ""))
    logged(host, "web/a", "up")
    i = InputStream(c, "web/a")
    i.data(b"hello\n")
    logged(host, "web/a", "got hello")
    equal(i.end(), (200, ""))
    i = InputStream(c, "web/a")
    i.data(b"again\n")
    logged(host, "web/a", "got again")
    with contextlib.suppress(BrokenPipeError):  # the first size ends the app
        for n in range(3):
            i.control(type="TTY_INFO", tty_info={"window_size": {"rows": 40, "columns": 120 + n}})
        i.data(b"\n")  # shells differ in whether the signal ends "read"
    equal(c.wait("web/a")["exit_status"], 0)
    contains(host.acnspawn("logs", "--app=web/a", "p").out, "40 12")
    host.acnspawn("stop", "p").expect(0)


@case
def the_connection_ends_with_the_app(host):
    """While the client sends nothing; and input for an app that has closed it is dropped."""
    pod(host)
    c = Client(host)
    app = nest(host, "a", "exec <&-; until [ -e /dev/shm/go ]; do sleep 0.05; done")
    i = InputStream(c, app)
    for _ in range(10):
        i.data(b"x" * 30000)
    open(root_of(host, "web") + "/dev/shm/go", "w").close()
    equal(c.wait(app)["exit_status"], 0)
    equal(i.http.sock.recv(1), b"")
    i.http.close()
    host.acnspawn("stop", "p").expect(0)


def refused(client, path, *records, **headers):
    i = InputStream(client, path, **headers)
    try:
        for r in records:
            i.send_raw(r) if isinstance(r, bytes) else i.send(r)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it is refused already
    return i.answer()


@case
def what_is_not_valid_is_refused(host):
    """Within the request, and nothing reaches the app behind it."""
    pod(host)
    host.acnspawn("launch", "p", "example.com/stay", "--name=db", "--control=true", "--stdin").expect(0)
    host.acnspawn("launch", "p", "--parent=db", "example.com/stay", "--name=x", "--stdin").expect(0)
    c, other = Client(host), Client(host, "db")
    app = nest(host, "a", "cat")
    io = {"type": "PROCESS_IO", "process_io": {"type": "DATA", "data": {"type": "STDIN", "data": "eA=="}}}
    for path in "db/x", "db/y", "web/none":
        equal(refused(c, path)[0], 404)
    equal(refused(c, app, Authorization="Bearer " + other.token)[0], 401)
    equal(refused(c, None, Authorization=None)[0], 401)
    equal(c.launch("web/plain"), (200, ""))
    equal(refused(c, "web/plain"), (409, "The container has no standard input: launch it with container.tty_info\n"))
    equal(refused(c, None, b"x"), (400, "A record does not begin with its length and a line feed\n"))
    equal(refused(c, None, b"0\n")[0], 400)
    equal(refused(c, None, b"99999999\n"), (413, "The record is larger than 64 KiB\n"))
    equal(refused(c, None, b"2\n[]"), (400, "The call is not an object\n"))
    equal(refused(c, None, io)[0], 400)
    equal(refused(c, None, b'25\n{"type":"GET_CONTAINERS"}')[0], 415)
    data = lambda text: {"type": "PROCESS_IO", "process_io": {"type": "DATA", "data": {"type": "STDIN", "data": text}}}
    for record, why in ((data("x"), "data.data is not base64"), (data("ab=="), "data.data is not base64"), (data("=AAA"), "data.data is not base64"),
                        ({"type": "PROCESS_IO", "process_io": {"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": {
                            "window_size": {"rows": 0, "columns": 1}}}}}, "window_size.rows is not the size of a terminal"),
                        ({"type": "CONTAINER_ID"}, "attach_container_input.type has to be PROCESS_IO after the first record")):
        equal(refused(c, app, record), (400, why + "\n"))
        # The end of the connection was the end of the input.
        equal(c.wait(app)["exit_status"], 0)
        host.acnspawn("start-app", "p", app).expect(0)
    i = InputStream(c, app)
    i.send_raw(b"5\n{")
    equal(i.end(), (400, "The last record is not complete\n"))
    equal(c.raw('{"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": {"type": "CONTAINER_ID", "container_id": %s}}'
                % json.dumps(identity("web/plain")))[0], 415)
    equal(apps(host)["db/x"], "running")
    host.acnspawn("stop", "p").expect(0)


def session(client, path, script, **more):
    h = client.connect()
    call = "LAUNCH_NESTED_CONTAINER_SESSION"
    h.request("POST", "/api/v1", json.dumps({"type": call, call.lower(): {"container_id": identity(path), "command": {"value": script}, **more}}),
              {"Authorization": "Bearer " + client.token})
    return h


def output_of(http):
    """Standard output and error, until it ends."""
    rest, got = http.read().decode(), {"STDOUT": b"", "STDERR": b""}
    while rest:
        n, _, rest = rest.partition("\n")
        record, rest = json.loads(rest[:int(n)]), rest[int(n):]
        got[record["data"]["type"]] += base64.b64decode(record["data"]["data"])
    return got["STDOUT"], got["STDERR"]


@case
def a_session_has_all_of_the_output_and_the_input(host):
    """From the first byte, also of an app that ends at once; errors of the launch are answers."""
    pod(host)
    c = Client(host)
    for n in range(5):
        r = session(c, "web/s%d" % n, "echo out; echo err >&2; exit 3").getresponse()
        equal((r.status, *output_of(r)), (200, b"out\n", b"err\n"))
        equal(c.wait("web/s%d" % n)["exit_status"], 3 << 8)
    h = session(c, "web/cat", "cat; echo over")
    r = h.getresponse()
    equal(r.status, 200)
    i = InputStream(c, "web/cat")
    i.data(b"hello\n")
    equal(i.end(), (200, ""))
    equal(output_of(r), (b"hello\nover\n", b""))
    equal(session(c, "web/cat", "true").getresponse().status, 409)
    equal(session(c, "db/x", "true").getresponse().status, 404)
    r = session(c, "web/none", "true", container={"type": "MESOS", "mesos": {"image": {"type": "APPC", "appc": {"name": "example.com/none"}}}}).getresponse()
    true(r.status in (400, 404), "status %d" % r.status)
    lacks(apps(host), "web/none")
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_ends_with_its_session(host):
    uuid = pod(host)
    c = Client(host)
    held = lambda: len(descriptors_of(host.supervisor(uuid)))
    equal(c.launch("web/other"), (200, ""))
    before = steady(held)
    for n in range(3):
        h = session(c, "web/s", "echo up; " + STAY)
        r = h.getresponse()
        equal(r.status, 200)
        equal(apps(host)["web/s"], "running")
        r.close()
        h.close()
        equal(c.wait("web/s")["state"], "TASK_KILLED")
        equal(c.call("REMOVE_CONTAINER", "web/s"), (200, ""))
    # A client that does not wait for the launch, which is undone if the app has not begun.
    h = session(c, "web/s", STAY)
    wait_for(lambda: "web/s" in apps(host), "the app")
    h.close()
    wait_for(lambda: "web/s" not in apps(host) or c.call("REMOVE_CONTAINER", "web/s")[0] == 200, "the app to end, and to be removed")
    nothing_more(held, before, "descriptors of the supervisor")
    equal(apps(host), {"web": "running", "web/other": "running"})
    host.acnspawn("stop", "p").expect(0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hostile and careless clients of the API by which apps launch others: what is not HTTP, floods, clients that go away."""

import random
import select
import threading

from container_client import *
from harness import *

LIST = '{"type": "GET_CONTAINERS"}'


def service_of(host):
    """The process that serves the app."""
    service, = wait_for(lambda: processes_where(lambda pid: name_of(pid) == "acnspawn-contro", children_of(supervisor_of(host))), "the process of the API")
    return service


def exchange(client, data, half_close=True, read=True):
    """All that comes back for these bytes."""
    c = client.connect()
    c.sock.settimeout(40)
    got = b""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        c.sock.sendall(data)
        if half_close:
            c.sock.shutdown(socket.SHUT_WR)
        while read:
            part = c.sock.recv(65536)
            if not part:
                break
            got += part
    c.close()
    return got


def head(client, length, *more):
    return ("\r\n".join(["POST /api/v1 HTTP/1.1", "Host: x", "Authorization: Bearer " + client.token, "Content-Length: %d" % length, *more])
            + "\r\n\r\n").encode()


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def calm(client):
    """Calls are answered again, after those that were too many."""
    def answered():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return client.raw(LIST)[0] == 200
    wait_for(answered, "an answer")


@case
def what_is_not_http_is_refused(host):
    """The process that serves the app stays the same one, and so do the apps."""
    pod(host)
    c = Client(host)
    calm(c)
    process = service_of(host)
    token = b"Authorization: Bearer " + c.token.encode() + b"\r\n"
    start = b"POST /api/v1 HTTP/1.1\r\nHost: x\r\n" + token
    for data in (b"\0" * 100, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET", b"POST /api/v1\r\n\r\n", b"\r\n" * 500,
                 b"POST /api/v1 HTTP/9.9\r\n\r\n", b"POST " + b"/x" * 20000 + b" HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 start + b"X: " + b"y" * 40000 + b"\r\n\r\n", start + b"X: y\r\n" * 5000 + b"\r\n", start + b"\0\r\n\r\n",
                 start + b"Content-Length: -1\r\n\r\n", start + b"Content-Length: 99999999999999999999999\r\n\r\n",
                 start + b"Content-Length: x\r\n\r\n", start + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\n{}{}{}{}",
                 start + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
                 start + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n{}",
                 start + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
                 start + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
                 start + b"Content-Length: 200000\r\nExpect: 100-continue\r\n\r\n", start + b"Content-Length: 2000000000\r\n\r\n" + b"x" * 100000,
                 start + b"Content-Length: 40\r\n\r\n{"):
        answer = exchange(c, data)
        true(status_of(answer) not in (200, 500), "%r: %r" % (data[:80], answer[:200]))
        time.sleep(0.02)
    calm(c)
    equal(service_of(host), process)
    equal(apps(host), {"web": "running"})
    host.acnspawn("stop", "p").expect(0)


@case
def calls_that_were_changed_at_random_have_no_effect(host):
    """Neither do the supervisor and the service end, nor is an app launched that was not asked for."""
    pod(host)
    c = Client(host)
    calm(c)
    process = service_of(host)
    generator = random.Random(8)
    texts = [json.dumps({"type": "KILL_CONTAINER", "kill_container": {"container_id": identity("web/none"), "signal": 9}}),
             json.dumps({"type": "WAIT_CONTAINER", "wait_container": {"container_id": identity("web/none")}}),
             json.dumps({"type": "REMOVE_CONTAINER", "remove_container": {"container_id": identity("web/none")}})]
    for _ in range(150):
        body = bytearray(generator.choice(texts).encode())
        data = bytearray(head(c, len(body)) + body)
        for _ in range(generator.randrange(1, 8)):
            at = generator.randrange(len(data))
            if generator.random() < 0.5:
                data[at] = generator.randrange(256)
            else:
                del data[at:at + generator.randrange(1, 20)]
        answer = exchange(c, bytes(data))
        true(status_of(answer) not in (200, 500), "%r: %r" % (bytes(data), answer[:200]))
        time.sleep(0.02)
    calm(c)
    equal(service_of(host), process)
    equal(apps(host), {"web": "running"})
    host.acnspawn("stop", "p").expect(0)


@case
def content_types_and_tokens(host):
    pod(host)
    c = Client(host)
    for type, status in (("application/json", 200), ("application/json; charset=utf-8", 200), ("application/jsonx", 415), ("text/plain", 415),
                         ("application/x-protobuf", 415), ("multipart/form-data; boundary=x", 415), ("application", 415), ("APPLICATION/", 415)):
        equal((type, c.raw(LIST, Content_Type=type)[0]), (type, status))
    for token in (c.token[:-1], c.token + "0", c.token.upper() + "x", "", " ", c.token[::-1], "0" * len(c.token), "a" * 5000, "Bearer " + c.token):
        equal(status_of(exchange(c, ("POST /api/v1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                                     % (token, len(LIST), LIST)).encode())), 401)
    for scheme in "Basic", "bearer", "Token", "":
        equal(status_of(exchange(c, ("POST /api/v1 HTTP/1.1\r\nHost: x\r\nAuthorization: %s %s\r\nContent-Length: %d\r\n\r\n%s"
                                     % (scheme, c.token, len(LIST), LIST)).encode())), 401)
    equal(c.raw(LIST)[0], 200)
    host.acnspawn("stop", "p").expect(0)


@case
def requests_one_behind_the_other(host):
    """Each is answered in its order, on one connection; one that is cut off is not."""
    pod(host)
    c = Client(host)
    one = head(c, len(LIST)) + LIST.encode()
    answer = exchange(c, one * 5 + head(c, 2) + b"[]" + one + head(c, 100) + b"{")
    equal(re.findall(rb"HTTP/1.1 (\d+)", answer), [b"200"] * 5 + [b"400", b"200"])
    chunked = head(c, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    text = LIST.encode()
    answer = exchange(c, chunked + b"".join(b"1\r\n%c\r\n" % b for b in text) + b"0\r\n\r\n" + one)
    equal(re.findall(rb"HTTP/1.1 (\d+)", answer), [b"200"] * 2)
    host.acnspawn("stop", "p").expect(0)


@case
def slow_clients_lose_their_connections(host):
    """Whatever they have sent: nothing, half a head, half a body, half a record. Others are served meanwhile."""
    pod(host)
    c = Client(host)
    calm(c)
    records = head(c, 0, "Content-Type: application/recordio").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    held = []
    for data in b"", b"POST /api", head(c, 50)[:-2], head(c, 50) + b"{", records + b"3\r\n10\n\r\n":
        h = c.connect()
        h.sock.sendall(data)
        held.append(h)
    equal(c.raw(LIST)[0], 200)
    for h in held:
        h.sock.settimeout(60)
        while h.sock.recv(4096):
            pass
        h.close()
    equal(c.raw(LIST)[0], 200)
    host.acnspawn("stop", "p").expect(0)


@case
def a_flood_of_calls_is_answered_with_429(host):
    """With Retry-After; the operator's calls are answered meanwhile, and the app's when it has stopped."""
    pod(host)
    c = Client(host)
    seen, stop = {}, threading.Event()

    def flood():
        while not stop.is_set():
            try:
                h = c.connect()
                for _ in range(50):
                    h.request("POST", "/api/v1", LIST, {"Authorization": "Bearer " + c.token})
                    r = h.getresponse()
                    r.read()
                    seen[r.status] = seen.get(r.status, 0) + 1
                    if r.status == 429:
                        equal(r.getheader("Retry-After"), "1")
                h.close()
            except (OSError, http.client.HTTPException):
                pass

    threads = [threading.Thread(target=flood) for _ in range(8)]
    for t in threads:
        t.start()
    try:
        wait_for(lambda: seen.get(429, 0) > 500, "calls that are too many")
        host.acnspawn("launch", "p", "example.com/stay", "--name=db").expect(0)
        host.acnspawn("stop-app", "p", "db").expect(0)
    finally:
        stop.set()
        for t in threads:
            t.join()
    equal(set(seen), {200, 429})
    calm(c)
    host.acnspawn("stop", "p").expect(0)


@case
def calls_that_last_leave_room_for_others(host):
    """Ten may wait, or have output; more are refused, and short calls are served, until one of them ends."""
    pod(host)
    c = Client(host)
    equal(c.launch("web/a"), (200, ""))
    calls = 6 * ["WAIT_CONTAINER"] + 4 * ["ATTACH_CONTAINER_OUTPUT"]
    held = [c.open_stream(call, "web/a") for call in calls]

    def refusal():
        for n, h in enumerate(held):
            # The call below was served before this one, which was one too many then.
            if select.select([h.sock], [], [], 0)[0] and b" 429 " in h.sock.recv(32, socket.MSG_PEEK):
                h.close()
                held[n] = c.open_stream(calls[n], "web/a")
        status = c.call("ATTACH_CONTAINER_OUTPUT", "web/none")
        return status if status[0] == 429 else None
    status = wait_for(refusal, "a refusal")
    contains(status[1], "Too many calls wait, or have input or output")
    equal(c.raw(LIST)[0], 200)
    held.pop(0).close()
    wait_for(lambda: c.call("WAIT_CONTAINER", "web/none")[0] == 404, "room for another call")
    equal(c.call("KILL_CONTAINER", "web/a"), (200, ""))
    for h in held:
        r = h.getresponse()
        equal(r.status, 200)
        r.read()
        h.close()
    host.acnspawn("stop", "p").expect(0)


@case
def clients_that_go_away_leave_nothing(host):
    """While they wait, have output, or have sent half a call."""
    uuid = pod(host)
    c = Client(host)
    equal(c.launch("web/a"), (200, ""))
    equal(c.call("LAUNCH_CONTAINER", "web/t", command={"value": STAY}, container={"type": "MESOS", "tty_info": {}}), (200, ""))
    supervisor, service = host.supervisor(uuid), service_of(host)
    held = lambda: (len(descriptors_of(supervisor)), len(descriptors_of(service)), len(os.listdir("/proc/%d/task" % service)))

    def some():
        streams = [c.open_stream(t, "web/a") for t in ["WAIT_CONTAINER", "ATTACH_CONTAINER_OUTPUT"] * 3]
        streams.append(InputStream(c, "web/t").http)
        half = c.connect()
        half.sock.sendall(head(c, 100) + b"{")
        return streams + [half]

    for h in some():
        h.close()
    calm(c)
    before = steady(held)
    for _ in range(8):
        streams = some()
        wait_for(lambda: len(descriptors_of(supervisor)) > before[0] + 6, "the calls to be received")
        for h in streams:
            h.close()
        for n in range(3):
            nothing_more(lambda: held()[n], before[n], ("descriptors of the supervisor", "descriptors of the service", "threads of the service")[n])
    equal(c.call("KILL_CONTAINER", "web/a"), (200, ""))
    equal(c.wait("web/a")["exit_status"], 9)
    host.acnspawn("stop", "p").expect(0)


@case
def a_paused_pod_answers_503(host):
    """To calls that would change it. Those that wait get their answers when it goes on."""
    pod(host)
    c = Client(host)
    equal(c.launch("web/a", "while [ ! -e /dev/shm/go ]; do sleep 0.05; done; exit 4"), (200, ""))
    waiter = c.open_stream("WAIT_CONTAINER", "web/a")
    place = root_of(host, "web")
    host.acnspawn("pause", "p").expect(0)
    for r in c.launch("web/b"), c.call("KILL_CONTAINER", "web/a"), c.call("ATTACH_CONTAINER_OUTPUT", "web/a"):
        equal(r, (503, "The pod is paused\n"))
    equal(c.raw(LIST)[0], 200)
    open(place + "/dev/shm/go", "w").close()
    host.acnspawn("resume", "p").expect(0)
    equal(json.loads(waiter.getresponse().read())["wait_container"]["exit_status"], 4 << 8)
    equal(c.launch("web/b"), (200, ""))
    host.acnspawn("stop", "p").expect(0)


@case
def the_pod_ends_while_calls_wait(host):
    """In order, or killed: they are answered, or cut off."""
    for force in [], ["--force"]:
        pod(host)
        c = Client(host)
        equal(c.launch("web/a"), (200, ""))
        held = [c.open_stream(t, "web/a") for t in ["WAIT_CONTAINER", "ATTACH_CONTAINER_OUTPUT"] * 2]
        wait_for(lambda: len(descriptors_of(service_of(host))) > 12, "the calls to be received")
        host.acnspawn("stop", *force, "p").expect(0)
        for h in held:
            try:
                r = h.getresponse()
                true(r.status in (200, 404, 503), "status %d" % r.status)
                r.read()
            except (http.client.HTTPException, OSError):
                pass
            h.close()
        host.acnspawn("rm", "p").expect(0)


@case
def levels_are_bounded(host):
    """Apps are nested to level 32 by the app itself, and no deeper."""
    pod(host)
    c = Client(host)
    path = "web"
    for level in range(2, 33):
        path += "/n"
        launched = lambda: (lambda r: r[0] not in (429, 503) and r)(c.launch(path))
        equal((level, *wait_for(launched, "a launch")), (level, 200, ""))
    status, text = c.launch(path + "/n")
    equal(status, 400)
    contains(text, "is not the name of an app below another one")
    equal(len(apps(host)), 32)
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_has_launched_others_is_replaced(host):
    """Once they are removed; nothing changes before. The new one launches others."""
    pod(host)
    c = Client(host)
    equal(c.launch("web/a"), (200, ""))
    waiter = c.open_stream("WAIT_CONTAINER", "web/a")
    line = ["update-app", "p", "web", "--image=" + host.shell(STAY + " # other", name="example.com/web")]
    contains(host.acnspawn(*line).expect(1).err, "App web cannot be replaced: apps are nested under it.\nThey have to be removed first.\n")
    equal(apps(host), {"web": "running", "web/a": "running"})
    equal(c.call("KILL_CONTAINER", "web/a"), (200, ""))
    equal(json.loads(waiter.getresponse().read())["wait_container"]["state"], "TASK_KILLED")
    contains(host.acnspawn(*line).expect(1).err, "apps are nested under it")
    equal(c.call("REMOVE_CONTAINER", "web/a"), (200, ""))
    host.acnspawn(*line).expect(0)
    c = Client(host)
    equal(c.launch("web/a"), (200, ""))
    equal(apps(host), {"web": "running", "web/a": "running"})
    host.acnspawn("stop", "p").expect(0)


if __name__ == "__main__":
    main()

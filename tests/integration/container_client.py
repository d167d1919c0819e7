# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of the API by which apps launch others, for the programs that test it."""

import base64
import http.client
import json
import socket

from harness import *
from pod_interface import Connection

STAY = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
PLACE = "/dev/credentials/"


def pod(host, *more, script=STAY, options=()):
    host.acnspawn("fetch", host.shell(STAY, name="example.com/stay")).expect(0)
    host.uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", *options, host.shell(script, name="example.com/web"),
                              "--name=web", "--control=true", *more).expect(0).out.strip()
    return host.uuid


# What an app does by itself: it launches web/a and web/b, which is what its parent is confined to, and waits for the latter.
FROM_INSIDE = """
call() {
    printf 'POST /api/v1 HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer %s\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n%s' \
        "$(cat /dev/credentials/acnspawn.token)" ${#1} "$1" | poke talk $ACNSPAWN_CONTROL | tr '\\r\\n' '  '
    echo "ends with $?"
}
call '{"type":"LAUNCH_NESTED_CONTAINER","launch_nested_container":{"container_id":{"value":"a","parent":{"value":"web"}},"command":{"value":"cat /proc/self/attr/current; sleep 1000"}}}'
call '{"type":"LAUNCH_NESTED_CONTAINER","launch_nested_container":{"container_id":{"value":"b","parent":{"value":"web"}},"command":{"value":"exit 3"}}}'
call '{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{"container_id":{"value":"b","parent":{"value":"web"}}}}'
call '{"type":"KILL_NESTED_CONTAINER","kill_nested_container":{"container_id":{"value":"a","parent":{"value":"web"}}}}'
call '{"type":"GET_CONTAINERS"}'
"""


def calls_from_inside(host, *more, options=()):
    """The statuses and texts of the answers to these calls, which an app with only what images have has sent."""
    pod(host, *more, options=options, script=FROM_INSIDE + "echo done; " + STAY)
    out = lambda: host.acnspawn("logs", "--app=web", "p").expect(0).out
    wait_for(lambda: "done\n" in out(), lambda: "the calls of the app: " + out(), timeout=120)
    answers = [l for l in out().splitlines() if l.startswith("HTTP/1.1 ")]
    return [int(l.split()[1]) for l in answers], answers


def process_of(host, app):
    """The main process of the app, by the name of its unit: others may end."""
    def of_app(pid):
        return "AC_APP_NAME=" + app in read_text("/proc/%d/environ" % pid).split("\0")
    return wait_for(lambda: first_of(processes_where(of_app, host.processes())), "a process of app " + app)


def root_of(host, app):
    return "/proc/%d/root" % process_of(host, app)


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=patience(60))
        self.path = path

    def connect(self):
        fd = os.open(os.path.dirname(self.path), os.O_PATH | os.O_DIRECTORY)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(patience(60))
        self.sock.connect("/proc/self/fd/%d/%s" % (fd, os.path.basename(self.path)))
        os.close(fd)


class Client:
    """Speaks the JSON of Mesos over the socket of an app, with its token."""

    def __init__(self, host, app="web"):
        self.place = root_of(host, app) + PLACE
        self.token = read_text(self.place + "acnspawn.token")

    def raw(self, body, method="POST", path="/api/v1", token=None, **headers):
        c = Unix(self.place + "acnspawn.control")
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if token != "":
            headers["Authorization"] = "Bearer " + (token or self.token)
        c.request(method, path, body, headers, encode_chunked=not isinstance(body, str))
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, data.decode()

    def call(self, type, path=None, **more):
        parameters = dict(more)
        if path:
            parameters["container_id"] = identity(path)
        return self.raw(json.dumps({"type": type, type.lower(): parameters}), Content_Type="application/json")

    def open_stream(self, call, path):
        """A connection with an answer that lasts."""
        h = self.connect()
        h.request("POST", "/api/v1", json.dumps({"type": call, call.lower(): {"container_id": identity(path)}}),
                  {"Authorization": "Bearer " + self.token})
        return h

    def connect(self):
        c = Unix(self.place + "acnspawn.control")
        c.connect()
        return c

    def launch(self, container, script=STAY, **more):
        return self.call("LAUNCH_NESTED_CONTAINER", container, command={"value": LATE + script, **more})

    def wait(self, container):
        status, text = self.call("WAIT_NESTED_CONTAINER", container)
        equal((status, text if status != 200 else ""), (200, ""))
        return json.loads(text)["wait_nested_container"]


class InputStream:
    """ATTACH_CONTAINER_INPUT: records in a request that lasts."""

    def __init__(self, client, path, first=None, **headers):
        self.http = client.connect()
        self.http.putrequest("POST", "/api/v1")
        for key, value in {"Authorization": "Bearer " + client.token, "Content-Type": "application/recordio",
                           "Message-Content-Type": "application/json", "Transfer-Encoding": "chunked", **headers}.items():
            if value:
                self.http.putheader(key, value)
        self.http.endheaders()
        if path:
            self.send({"type": "CONTAINER_ID", "container_id": identity(path)})

    def send_raw(self, data):
        self.http.send(b"%x\r\n%s\r\n" % (len(data), data))

    def send(self, parameters):
        text = json.dumps({"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": parameters}).encode()
        self.send_raw(b"%d\n%s" % (len(text), text))

    def io(self, **io):
        self.send({"type": "PROCESS_IO", "process_io": io})

    def data(self, data):
        self.io(type="DATA", data={"type": "STDIN", "data": base64.b64encode(data).decode()})

    def control(self, **control):
        self.io(type="CONTROL", control=control)

    def end(self):
        """The end of the request: status and text of the answer."""
        self.http.send(b"0\r\n\r\n")
        return self.answer()

    def answer(self):
        r = self.http.getresponse()
        text = r.read().decode()
        self.http.close()
        return r.status, text


def identity(path):
    i = None
    for name in path.split("/"):
        i = {"value": name, **({"parent": i} if i else {})}
    return i


def apps(host):
    return {a["name"]: a["state"] for a in Connection(host, host.uuid).call("Describe")["apps"]}


def supervisor_of(host):
    return host.supervisor(host.uuid)

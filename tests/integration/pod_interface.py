# SPDX-License-Identifier: LGPL-2.1-or-later
"""A hand-written client of the Varlink interface of running pods. Replies are compared with the interface's
description."""

import re
import select
import socket

from harness import *

SERVICE = "org.varlink.service."
POD = "org.acnspawn.Pod."


class Description:
    """Checks values against the text of an interface, which is parsed independently of acnspawn."""

    def __init__(self, text):
        self.tokens = re.findall(r"->|\[\]|[\w.]+|[():,?]", re.sub(r"#.*", "", text))
        self.declared = {}
        self.at = 2
        while self.at < len(self.tokens):
            kind, name = self.tokens[self.at:self.at + 2]
            self.at += 2
            types = [self.type()]
            if kind == "method":
                self.skip("->")
                types.append(self.type())
            self.declared[kind, name] = types[-1]

    def skip(self, token):
        found = self.tokens[self.at] == token
        self.at += found
        return found

    def type(self):
        nullable = self.skip("?")
        if self.skip("[]"):
            return nullable, "list", self.type()
        token = self.tokens[self.at]
        self.at += 1
        if token != "(":
            return nullable, "name", token
        members = {}
        while not self.skip(")"):
            name = self.tokens[self.at]
            self.at += 1
            members[name] = self.type() if self.skip(":") else None
            self.skip(",")
        return nullable, "members", members

    def check(self, value, type, where):
        nullable, kind, of = type
        if value is None:
            return true(nullable, "%s is null" % where)
        if kind == "list":
            for x in value:
                self.check(x, of, where + "[]")
        elif kind == "members" and isinstance(value, str):
            true(value in of and of[value] is None, "%s is none of the enum: %s" % (where, value))
        elif kind == "members":
            equal(set(value) - set(of), set(), "unknown members of " + where)
            for name, member in of.items():
                self.check(value.get(name), member, "%s.%s" % (where, name))
        elif ("type", of) in self.declared:
            self.check(value, self.declared["type", of], where)
        else:
            true(type_is(value, of), "%s is no %s: %r" % (where, of, value))


def type_is(value, name):
    return type(value) is {"bool": bool, "int": int, "string": str, "object": dict}[name]


class Connection:
    descriptions = {}

    def __init__(self, host, uuid):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        fd = os.open(host.pod_dir(uuid), os.O_PATH | os.O_DIRECTORY)
        try:
            self.socket.connect("/proc/self/fd/%d/interface" % fd)
        finally:
            os.close(fd)
        self.socket.settimeout(patience(30))
        self.buffer = b""
        self.fds = []
        self.method = None
        for interface in POD, SERVICE:
            if interface not in self.descriptions:
                self.send(SERVICE + "GetInterfaceDescription", {"interface": interface.rstrip(".")})
                self.method = None
                self.descriptions[interface] = Description(self.receive()["parameters"]["description"])

    def send(self, method, parameters=None, fds=(), **more):
        if "." not in method:
            method = POD + method
        self.method = method
        text = json.dumps(dict(more, method=method, parameters=parameters or {})).encode() + b"\0"
        n = socket.send_fds(self.socket, [text], list(fds)) if fds else 0
        self.socket.sendall(text[n:])

    def receive(self):
        """Receives a message; descriptors that accompany it are added to self.fds."""
        while b"\0" not in self.buffer:
            part, fds, _, _ = socket.recv_fds(self.socket, 65536, 16)
            self.fds += fds
            if not part:
                return None
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        reply = json.loads(message)
        self.check(reply)
        return reply

    def check(self, reply):
        error = reply.get("error")
        if not self.method or error == "io.systemd.System":
            return
        interface, name = re.fullmatch(r"(.*\.)(.*)", error or self.method).groups()
        if interface in self.descriptions:
            description = self.descriptions[interface]
            description.check(reply["parameters"], description.declared["error" if error else "method", name], error or self.method)

    def call(self, method, **parameters):
        """The parameters of the reply; for an error, its name without the interface, and the parameters."""
        self.send(method, parameters)
        reply = self.receive()
        if "error" in reply:
            return reply["error"].replace(POD, ""), reply.get("parameters", {})
        return reply.get("parameters", {})

    def state(self, app):
        return [a for a in self.call("Describe")["apps"] if a["name"] == app][0]["state"]


def cgroup_of(host, uuid):
    """The cgroup by which the pod is frozen."""
    leader = host.leader(uuid)
    path = "/sys/fs/cgroup" + next(l for l in read_text("/proc/%d/cgroup" % leader).splitlines() if l.startswith("0::"))[3:]
    if not os.path.exists(path):
        path = path.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified", 1)
    while path.count("/") > 3 and not os.path.basename(path) == "payload":
        path = os.path.dirname(path)
    return os.path.dirname(path)


def is_answered(c, seconds):
    return bool(select.select([c.socket], [], [], seconds)[0])


# Parameters of each method, for an app.
CALLS = {
    "Describe": {}, "Monitor": {}, "Stats": {}, "Logs": {"stdout": 0}, "ReopenLogs": {"app": "a"}, "CompareCredentials": {"app": "a", "credentials": []},
    "Exec": {"app": "a", "command": ["true"]}, "Attach": {"app": "a", "stdout": 0}, "CloseStdin": {"id": 1}, "ResizeTerminal": {"id": 1, "rows": 1, "columns": 1},
    "SignalApp": {"app": "a", "signal": 28}, "UpdateApp": {"app": "a", "tasks": 1000}, "Pause": {}, "Resume": {},
    "AddApp": {"definition": {"apps": [{"image": "example.com/plain", "name": "b"}]}},
    "LaunchGroup": {"apps": [{"definition": {"apps": [{"image": "example.com/plain", "name": "c"}]}}]},
    "ReplaceApp": {"app": "x", "imageID": "", "image": "example.com/a"},
    "StartApp": {"app": "x"}, "RestartApp": {"app": "x"}, "StopApp": {"app": "x"}, "RemoveApp": {"app": "x", "stop": True}, "Stop": {},
}


class EachCall:
    """Calls all methods of the interface except some at once, each on a connection of its own. Pause is sent before
    Resume."""

    def __init__(self, host, uuid, without=()):
        self.calls = {}
        for method, parameters in CALLS.items():
            if method in without:
                continue
            c = self.calls[method] = Connection(host, uuid)
            r, w = os.pipe()
            c.send(method, parameters, [w] if "stdout" in parameters else (), **({"more": True} if method in ("Monitor", "Attach") else {}))
            os.close(w)
            os.close(r)
            if method == "Pause":
                c.answer = c.receive()

    def answers(self):
        """Checks that each call is answered; Monitor continues."""
        found = {}
        for method, c in self.calls.items():
            if method == "Monitor":
                continue
            reply = getattr(c, "answer", None) or c.receive()
            true(reply is not None, "%s is not answered" % method)
            found[method] = reply.get("error", "ok").replace(POD, "")
        for c in self.calls.values():
            c.socket.close()
        return found

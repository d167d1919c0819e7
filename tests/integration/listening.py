# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sockets for socket-activated apps: opened here, passed to acnspawn, and connected to, in the network of a pod, too; for images
with the helper "serve"."""

import ctypes
import socket

from harness import *


def listener(family=socket.AF_INET, type=socket.SOCK_STREAM, address=None):
    s = socket.socket(family, type)
    s.bind(address or (("127.0.0.1", 0) if family == socket.AF_INET else ("::1", 0)))
    if type != socket.SOCK_DGRAM:
        s.listen(128)
    return s


def free_port():
    """A port of the loopback interface on which nothing listens now."""
    with listener() as s:
        return s.getsockname()[1]


def start_with(host, sockets, *args, names=None, pid=None, count=None):
    """acnspawn in the background, with sockets. A child process sets the variables, as LISTEN_PID is its own pid."""
    fds = [s.fileno() for s in sockets]
    reader, writer = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            default_signals()
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(reader[1], 1)
            os.dup2(writer[1], 2)
            high = [os.dup(fd) for fd in fds]
            while high and min(high) < 3 + len(fds):
                high = [os.dup(fd) for fd in high]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)
            os.closerange(3 + len(fds), 4096)
            env = dict(os.environ, LISTEN_PID=str(pid or os.getpid()), LISTEN_FDS=str(len(fds) if count is None else count))
            if names is not None:
                env["LISTEN_FDNAMES"] = ":".join(names)
            argv = host.argv(*args)
            os.execvpe(argv[0], argv, env)
        finally:
            os._exit(120)
    os.close(reader[1])
    os.close(writer[1])
    return Started(host, child, host.argv(*args), reader[0], writer[0])


class Started:
    """The process started by start_with(), with the part of Popen's interface that the harness uses."""

    def __init__(self, host, pid, args, out, err):
        self.pid, self.args, self.returncode, self.stdin = pid, args, None, None
        self.stdout, self.stderr = os.fdopen(out, "rb"), os.fdopen(err, "rb")
        self.host = host
        host.children.append(self)

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout=RUN_TIMEOUT):
        wait_for(lambda: self.poll() is not None, "end of acnspawn (pid %d)" % self.pid, timeout)
        return self.returncode

    def finish(self, rc=None, timeout=RUN_TIMEOUT):
        self.wait(timeout)
        result = Result(self.args, self.returncode, self.stdout.read(), self.stderr.read(), 0)
        self.host.note_pods()
        return result if rc is None else result.expect(rc)


def ask(address, text="hello", family=socket.AF_INET, timeout=30):
    """Connects to the helper "serve", and returns its reply."""
    with socket.socket(family) as s:
        s.settimeout(timeout)
        s.connect(address)
        s.sendall(text.encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            more = s.recv(4096)
            if not more:
                fail("the connection to %r was closed after %r" % (address, data))
            data += more
    return dict(word.split("=", 1) for word in data.decode().split())


def ask_datagram(address, text="hello", family=socket.AF_INET, timeout=30):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.sendto(text.encode(), address)
        return dict(word.split("=", 1) for word in s.recv(4096).decode().split())


HTTP = {"name": "http", "protocol": "tcp", "port": 8080, "socketActivated": True}


def port(name, number, protocol="tcp", **more):
    return dict({"name": name, "protocol": protocol, "port": number, "socketActivated": True}, **more)


def server(host, *words, ports=None, name="example.com/web", **more):
    return host.image(["/bin/serve", *words], name=name, app=dict({"ports": ports or [HTTP]}, **more.pop("app", {})), **more)


def in_this_network(pid):
    """Enters the network namespace of the process."""
    with open("/proc/%d/ns/net" % pid) as f:
        if ctypes.CDLL(None, use_errno=True).setns(f.fileno(), 0) < 0:
            raise OSError("setns")


def in_network_of(host, uuid, function):
    """Calls FUNCTION in the network namespace of the pod, in a child; it returns something that JSON can hold."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            in_this_network(host.leader(uuid))
            os.write(writer, json.dumps(function()).encode())
        except BaseException as e:
            os.write(writer, json.dumps({"failure": str(e)}).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        answer = json.load(f)
    os.waitpid(child, 0)
    if isinstance(answer, dict) and "failure" in answer:
        fail(answer["failure"])
    return answer

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Apps that launch others over HTTP, with calls of the v1 agent API of Mesos."""

import base64
import http.client
import json
import threading

from container_client import *
from harness import *

@case
def an_app_launches_others_under_it(host):
    """Launched, listed, waited for, killed and removed, at two levels."""
    pod(host, "--control-images=example.com/none,example.com/st*")
    c = Client(host)
    equal(c.launch("web/a"), (200, ""))
    equal(c.launch("web/a/b", "exit $CODE", environment={"variables": [{"name": "CODE", "value": "3"}]}), (200, ""))
    equal(c.wait("web/a/b"), {"exit_status": 3 << 8, "state": "TASK_FAILED", "reason": "exited"})
    r = c.call("LAUNCH_CONTAINER", "web/c", container={"type": "MESOS", "mesos": {"image": {"type": "APPC", "appc": {"name": "example.com/stay"}}}})
    equal(r, (200, ""))
    status, text = c.raw('{"type": "GET_CONTAINERS"}')
    equal(status, 200)
    found = json.loads(text)["get_containers"]["containers"]
    equal([x["container_id"] for x in found], [identity(n) for n in ("web/a", "web/a/b", "web/c")])
    equal([x["state"] for x in found], ["TASK_RUNNING", "TASK_FAILED", "TASK_RUNNING"])
    equal(c.call("REMOVE_CONTAINER", "web/c")[0], 409)
    await_handler(process_of(host, "web-0n3"))  # the unit of web/c
    equal(c.call("KILL_CONTAINER", "web/c", signal=15), (200, ""))
    equal(c.wait("web/c")["exit_status"], 0)
    equal(c.call("REMOVE_CONTAINER", "web/c"), (200, ""))
    equal(c.call("KILL_NESTED_CONTAINER", "web/a"), (200, ""))
    equal(c.wait("web/a"), {"exit_status": 9, "state": "TASK_KILLED", "reason": "requested"})
    equal(apps(host), {"web": "running", "web/a": "exited", "web/a/b": "exited"})
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_calls_from_inside(host):
    """With its own rights, as any user."""
    for user, *options in ("0",), ("1000",), ("0", "--no-userns"):
        statuses, answers = calls_from_inside(host, "--user=" + user, "--group=" + user, options=options)
        equal(statuses, [200] * 5, answers)
        contains(answers[2], "TASK_FAILED")
        wait_for(lambda: apps(host) == {"web": "running", "web/a": "exited", "web/b": "exited"}, "the app that was killed to end")
        host.acnspawn("rm", "--force", "p").expect(0)


@case
def the_output_comes_in_records(host):
    pod(host)
    c = Client(host)
    equal(c.launch("web/a", "until [ -e /dev/shm/go ]; do sleep 0.05; done; echo out; echo err >&2"), (200, ""))
    h = Unix(c.place + "acnspawn.control")
    h.request("POST", "/api/v1", json.dumps({"type": "ATTACH_CONTAINER_OUTPUT", "attach_container_output": {"container_id": identity("web/a")}}),
              {"Authorization": "Bearer " + c.token})
    r = h.getresponse()
    equal(r.status, 200)
    open(root_of(host, "web") + "/dev/shm/go", "w").close()
    rest, got = r.read().decode(), {"STDOUT": b"", "STDERR": b""}
    while rest:
        n, _, rest = rest.partition("\n")
        record, rest = json.loads(rest[:int(n)]), rest[int(n):]
        got[record["data"]["type"]] += base64.b64decode(record["data"]["data"])
    equal(got, {"STDOUT": b"out\n", "STDERR": b"err\n"})
    host.acnspawn("stop", "p").expect(0)


@case
def only_what_is_below_the_app_is_reached(host):
    """Neither the app itself, nor its parent, nor those beside it; nor with the token of another one."""
    pod(host)
    host.acnspawn("launch", "p", "example.com/stay", "--name=db", "--control=true").expect(0)
    host.acnspawn("launch", "p", "--parent=db", "example.com/stay", "--name=x").expect(0)
    c, other = Client(host), Client(host, "db")
    before = apps(host)
    for name in "db/x", "web/none", "db/y":
        for call in "KILL_CONTAINER", "REMOVE_CONTAINER", "WAIT_CONTAINER", "ATTACH_CONTAINER_OUTPUT":
            equal(c.call(call, name)[0], 404)
    equal(c.call("KILL_CONTAINER", "web")[0], 400)
    equal(c.launch("db/y")[0], 404)
    equal(json.loads(c.raw('{"type": "GET_CONTAINERS"}')[1])["get_containers"], {"containers": []})
    body = json.dumps({"type": "LAUNCH_CONTAINER", "launch_container": {"container_id": identity("web/y")}})
    for token in other.token, "0" * 32, "x", "":
        status, text = c.raw(body, token=token)
        equal(status, 401)
    equal(apps(host), before)
    host.acnspawn("stop", "p").expect(0)


@case
def calls_that_are_not_valid_change_nothing(host):
    pod(host)
    c = Client(host)
    for body in "", "{", "[]", "null", '{"type":1}', '{"type":"X"}', "\0" * 10, '{"type":"LAUNCH_CONTAINER"}', "[" * 60000:
        equal(c.raw(body)[0], 400)
    equal(c.raw("x" * 70000)[0], 413)
    equal(c.raw(iter([b"x" * 40000, b"x" * 40000]), Transfer_Encoding="chunked")[0], 413)
    equal(c.raw("{}", method="PUT")[0], 405)
    equal(c.raw("{}", path="/")[0], 404)
    equal(c.raw("{}", Content_Type="application/x-protobuf")[0], 415)
    for more, why in (({"resources": []}, "launch_container.resources is not known"),
                      ({"container": {"type": "MESOS", "volumes": []}}, "container.volumes is not known"),
                      ({"container": {"type": "DOCKER"}}, "container.type has to be MESOS")):
        status, text = c.call("LAUNCH_CONTAINER", "web/a", **more)
        equal((status, text), (400, why + "\n"))
    for image in "/etc/passwd", "./x.aci", "docker://example.com/x", "https://example.com/x.aci", "oci:/", "-", "example.com/none":
        status, text = c.call("LAUNCH_CONTAINER", "web/a", container={"type": "MESOS", "mesos": {"image": {"type": "APPC", "appc": {"name": image}}}})
        true(status in (400, 404), "%s: %d %s" % (image, status, text))
    equal(apps(host), {"web": "running"})
    equal(c.launch("web/a"), (200, ""))
    status, text = c.launch("web/a")
    true(status in (400, 409), "%d %s" % (status, text))
    host.acnspawn("stop", "p").expect(0)


def of_image(name, **more):
    return dict({"container": {"type": "MESOS", "mesos": {"image": {"type": "APPC", "appc": {"name": name}}}}}, **more)


@case
def other_images_take_the_word_of_the_operator(host):
    """By default an app launches apps of its own image alone, whatever the store has."""
    other = host.shell("cat /srv/private", name="example.com/other", files={"srv/private": File("private", 0o600)})
    host.acnspawn("fetch", other).expect(0)
    for options, allowed in ((), ["example.com/web"]), (("--control-images=example.com/stay,example.org/*",), ["example.com/web", "example.com/stay"]), \
            (("--control-images=*",), ["example.com/web", "example.com/stay", "example.com/other"]):
        pod(host, *options)
        c = Client(host)
        for i, name in enumerate(("example.com/web", "example.com/stay", "example.com/other")):
            status, text = c.call("LAUNCH_CONTAINER", "web/a%d" % i, **of_image(name))
            if name in allowed:
                equal((status, text), (200, ""), "launch of %s with %s" % (name, options))
            else:
                equal(status, 403, "launch of %s with %s" % (name, options))
                contains(text, "may not launch apps of image %s, which --control-images= does not name" % name)
        image = json.loads(host.acnspawn("image", "list", "--json=short").expect(0).out)
        if options == ():
            for i in image:
                if i["name"] == "example.com/other": # by its ID, too
                    equal(c.call("LAUNCH_CONTAINER", "web/id", **of_image(i["id"]))[0], 403)
        host.acnspawn("stop", "--force", "p").expect(0)
        host.acnspawn("rm", "p").expect(0)


@case
def programs_of_other_images_give_no_privileges(host):
    """Of an app that is not root: a set-user-ID program of an image that it launches would make it root, with the capabilities that apps have."""
    script = "grep NoNewPrivs /proc/self/status; exit 5"
    for options, expected in ((("--user=1000", "--group=1000"), "1"), ((), "0"),
                              (("--user=1000", "--group=1000", "--isolator=os/linux/no-new-privileges=false"), "0")):
        pod(host, *options)
        c = Client(host)
        equal(c.launch("web/a", script), (200, ""))
        equal(c.wait("web/a")["exit_status"], 5 << 8)
        equal(host.acnspawn("logs", "--app=web/a", "p").expect(0).out.split()[-1], expected, "no_new_privs of an app under one with %s" % (options,))
        host.acnspawn("stop", "--force", "p").expect(0)
        host.acnspawn("rm", "p").expect(0)


@case
def it_has_the_rights_of_its_parent(host):
    """The user, too; and the token is readable for that user alone."""
    pod(host, "--user=1000", "--group=1000")
    c = Client(host)
    for name in "acnspawn.token", "acnspawn.control":
        st = os.lstat(c.place + name)
        equal(st.st_uid, os.stat(os.path.dirname(c.place.split("root")[0])).st_uid)
        equal(st.st_mode & 0o077, 0)
    equal(c.launch("web/a", "exit $(id -u | sed s/1000/7/)"), (200, ""))
    equal(c.wait("web/a")["exit_status"], 7 << 8)
    status, text = c.launch("web/b", user="0")
    equal(status, 403)
    contains(text, "cannot have more rights than app web")
    r = host.acnspawn("launch", "p", "--parent=web/a", "example.com/stay", "--name=n", "--user=1000", "--group=1000", "--control=true").expect(1)
    contains(r.err, "app web/a, which it is nested under: to launch apps")
    host.acnspawn("stop", "p").expect(0)


@case
def apps_without_it_have_no_socket(host):
    pod(host)
    host.acnspawn("launch", "p", "example.com/stay", "--name=db").expect(0)
    root = root_of(host, "db")
    true(not os.path.exists(root + PLACE + "acnspawn.control"), "no socket")
    lacks(read_text(root.replace("root", "environ")), "ACNSPAWN_CONTROL")
    contains(read_text(root_of(host, "web").replace("root", "environ")), "ACNSPAWN_CONTROL=/dev/credentials/acnspawn.control\0")
    show = "echo $ACNSPAWN_CONTROL,$CREDENTIALS_DIRECTORY"
    equal(host.acnspawn("enter", "--app=web", "p", "sh", "-c", show).expect(0).out, "/dev/credentials/acnspawn.control,/dev/credentials\n")
    equal(host.acnspawn("enter", "--app=db", "p", "sh", "-c", show).expect(0).out, ",\n")
    host.acnspawn("stop", "p").expect(0)


@case
def a_flood_is_refused_and_the_pod_goes_on(host):
    """Launches beyond the bounds get 429, connections beyond them are closed, and the operator's calls are answered."""
    pod(host)
    c = Client(host)
    seen = set()

    def flood(n):
        try:
            seen.add(c.launch("web/f%d" % n, "exit 0")[0])
        except (OSError, http.client.HTTPException):
            seen.add("closed")

    def answered():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return c.raw('{"type": "GET_CONTAINERS"}')[0] == 200

    threads = [threading.Thread(target=flood, args=(n,)) for n in range(60)]
    for t in threads:
        t.start()
    host.acnspawn("launch", "p", "example.com/stay", "--name=db").expect(0)
    for t in threads:
        t.join()
    true(200 in seen and seen <= {200, 429, "closed"}, "launches, or refusals: %s" % seen)
    equal(apps(host)["db"], "running")
    held = [Unix(c.place + "acnspawn.control") for i in range(20)]
    for h in held:
        h.connect()
    for h in held:
        h.close()
    wait_for(answered, "an answer when the others have gone")
    n = 0
    while c.launch("web/g%d" % n, "exit 0")[0] == 200:
        n += 1
        true(n <= 64, "no more than the bound")
    host.acnspawn("stop", "p").expect(0)


@case
def it_serves_after_its_process_was_killed_and_after_the_app_was_restarted(host):
    pod(host)
    c = Client(host)
    equal(c.launch("web/a", "exit 0"), (200, ""))
    service, = processes_where(lambda pid: name_of(pid) == "acnspawn-contro", children_of(supervisor_of(host)))
    os.kill(service, 9)
    equal(c.wait("web/a")["exit_status"], 0)
    host.acnspawn("restart-app", "p", "web").expect(0)
    c = Client(host)
    equal(c.launch("web/b", "exit 0"), (200, ""))
    equal(c.wait("web/b")["exit_status"], 0)
    host.acnspawn("stop", "p").expect(0)


@case
def credentials_of_the_user_stay_beside_it(host):
    """Also when the app is replaced; names that are taken are refused."""
    secret = host.path("secret")
    with open(secret, "w") as f:
        f.write("x")
    pod(host, "--credential=password:" + secret)
    c = Client(host)
    equal(read_text(c.place + "password"), "x")
    equal(c.launch("web/a", "exit 0"), (200, ""))
    equal(c.wait("web/a")["exit_status"], 0)
    r = host.acnspawn("launch", "p", "example.com/stay", "--name=db", "--control=true", "--credential=acnspawn.control:" + secret).expect(1)
    contains(r.err, "cannot be named acnspawn.control or acnspawn.token")
    equal(c.call("REMOVE_CONTAINER", "web/a"), (200, ""))
    host.acnspawn("update-app", "p", "web", "--image=" + host.shell("while :; do sleep 0.05; done", name="example.com/web")).expect(0)
    c = Client(host)
    equal(read_text(c.place + "password"), "x")
    equal(c.launch("web/b", "exit 0"), (200, ""))
    equal(c.wait("web/b")["exit_status"], 0)
    host.acnspawn("stop", "p").expect(0)


if __name__ == "__main__":
    main()

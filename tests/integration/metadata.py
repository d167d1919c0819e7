#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The metadata service as apps see it: every endpoint with its content type, signatures, the token, and time to answer."""

from harness import *

BASE = "$AC_METADATA_URL/acMetadata/v1"


def pod_with_script(host, script, **more):
    """SCRIPT may use "get PATH" and "post PATH DATA": status line and headers go to stderr, the body to stdout."""
    functions = ("get() { wget -q -S -O - --header 'Metadata-Flavor: AppContainer' %s/$1; }; "
                 "post() { wget -q -S -O - --header 'Metadata-Flavor: AppContainer' --post-data \"$2\" %s/$1; }; " % (BASE, BASE))
    return host.shell(functions + script, name="example.com/a", **more)


def fetch(host, uuid_options, paths, **more):
    """PATH -> (status and headers, body), fetched by an app from inside."""
    script = "".join("get %s >/out/%d.body 2>/out/%d.head; " % (p, i, i) for i, p in enumerate(paths))
    host.run(*uuid_options, pod_with_script(host, script + "true", **more))
    return {p: (host.written("a", "out/%d.head" % i).decode(), host.written("a", "out/%d.body" % i))
            for i, p in enumerate(paths)}


def content_type(head):
    found = re.findall(r"(?im)^\s*content-type:\s*(.*?)\s*$", head)
    return found[-1] if found else None


@case
def every_endpoint_with_its_content_type(host):
    paths = ["pod/annotations", "pod/manifest", "pod/uuid", "apps/a/annotations", "apps/a/image/manifest", "apps/a/image/id"]
    got = fetch(host, ["--name=p", "--annotation=example.com/pod=1"], paths,
                annotations=[{"name": "authors", "value": "somebody"}])
    status = host.status("p")
    for path in paths:
        contains(got[path][0], " 200 ", "status of " + path)
        expected = "text/plain; charset=us-ascii" if path in ("pod/uuid", "apps/a/image/id") else "application/json"
        equal(content_type(got[path][0]), expected, "content type of " + path)
    equal(got["pod/uuid"][1].decode(), status["uuid"])
    equal(got["apps/a/image/id"][1].decode(), status["apps"][0]["imageID"])
    equal(json.loads(got["pod/annotations"][1]), [{"name": "example.com/pod", "value": "1"}])
    equal(json.loads(got["apps/a/annotations"][1]), [{"name": "authors", "value": "somebody"}])
    equal(json.loads(got["pod/manifest"][1]), json.loads(host.acnspawn("cat-manifest", "p").expect(0).out))
    manifest = host.acnspawn("image", "cat-manifest", status["apps"][0]["imageID"]).expect(0).out_bytes
    equal(got["apps/a/image/manifest"][1], manifest, "image manifest")


@case
def annotations_are_merged(host):
    """The image's, with the pod manifest's taking precedence."""
    image = pod_with_script(host, "get apps/a/annotations >/out/body",
                            annotations=[{"name": "example.com/one", "value": "image"},
                                         {"name": "example.com/two", "value": "image"}])
    host.run(image, "--annotation=example.com/two=pod", "--annotation=example.com/three=pod")
    got = {a["name"]: a["value"] for a in json.loads(host.written("a", "out/body"))}
    equal(got, {"example.com/one": "image", "example.com/two": "pod", "example.com/three": "pod"})


@case
def sign_and_verify(host):
    host.run("--name=p", pod_with_script(
        host, "post pod/hmac/sign content=hello%20world >/out/sig 2>/out/head; "
        "sig=$(sed 's/+/%2B/g; s,/,%2F,g; s/=/%3D/g' /out/sig); uuid=$(get pod/uuid 2>/dev/null); "
        "post pod/hmac/verify \"content=hello%20world&uuid=$uuid&signature=$sig\" 2>/out/good; "
        "post pod/hmac/verify \"content=hello%20wurld&uuid=$uuid&signature=$sig\" 2>/out/bad; true"))
    contains(host.written("a", "out/head").decode(), " 200 ")
    equal(content_type(host.written("a", "out/head").decode()), "text/plain; charset=us-ascii")
    true(re.fullmatch(rb"[A-Za-z0-9+/]{86}==", host.written("a", "out/sig").strip()), "signature")
    contains(host.written("a", "out/good").decode(), " 200 ")
    contains(host.written("a", "out/bad").decode(), " 403 ")


@case
def signature_of_another_pod_is_verified(host):
    """... as long as that pod exists; and not under the UUID of a third one."""
    host.run("--name=signer", pod_with_script(host, "post pod/hmac/sign content=x >/out/sig 2>/dev/null"))
    signer = host.status("signer")["uuid"]
    signature = host.written("a", "out/sig", host.pod_dir(signer)).decode().strip()
    quoted = signature.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    other = host.prepare(host.shell("true"))
    host.run("--name=verifier", pod_with_script(
        host, "post pod/hmac/verify 'content=x&uuid=%s&signature=%s' 2>/out/good; "
        "post pod/hmac/verify 'content=x&uuid=%s&signature=%s' 2>/out/bad; "
        "post pod/hmac/verify 'content=x&uuid=00000000-0000-4000-8000-000000000000&signature=%s' 2>/out/unknown; true"
        % (signer, quoted, other, quoted, quoted)))
    pod = host.pod_dir(host.status("verifier")["uuid"])
    contains(host.written("a", "out/good", pod).decode(), " 200 ")
    contains(host.written("a", "out/bad", pod).decode(), " 403 ")
    contains(host.written("a", "out/unknown", pod).decode(), " 403 ")


@case
def signatures_outlive_the_pod_and_end_with_it(host):
    """... however it ended, until it is removed."""
    uuid = host.detach("--name=signer", pod_with_script(host, "post pod/hmac/sign content=x >/out/sig 2>/dev/null; touch /out/up; sleep 1000"))
    host.wait_up("a")
    host.kill_pods()
    wait_for(lambda: host.state(uuid) == "exited", "end of the signer")
    signature = host.written("a", "out/sig", host.pod_dir(uuid)).decode().strip()
    quoted = signature.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    image = pod_with_script(host, "post pod/hmac/verify 'content=x&uuid=%s&signature=%s' 2>&1; true" % (uuid, quoted))
    contains(host.run(image).out, " 200 ")
    host.acnspawn("gc", "--grace-period=0").expect(0)
    contains(host.run(image).out, " 403 ")


@case
def a_reduced_manifest_shows_no_environment_or_paths_of_the_host(host):
    """With `--metadata=reduced`, also in the endpoints for annotations; by default all of it is shown, as the specification has it."""
    path = host.path("of-the-host")
    os.mkdir(path)
    for option, shown in ((), True), (("--metadata=reduced",), False):
        uuid = host.prepare("--exit-policy=all", *option, "--annotation=example.com/mine=visible", "--volume=v,kind=host,readOnly=true,suid=true,source=" + path,
                     pod_with_script(host, "get pod/manifest >/out/manifest 2>/dev/null; (cat /out/manifest; for p in pod apps/secretive apps/a; do "
                                           "get $p/annotations; done) 2>/dev/null >/out/seen"),
                     host.shell("true", name="example.com/secretive"), "--environment=PASSWORD=hunter2", "--mount=v:/v")
        host.run(uuid)
        seen = host.written("a", "out/seen", host.pod_dir(uuid)).decode()
        manifest = json.loads(host.written("a", "out/manifest", host.pod_dir(uuid)))
        equal([a["name"] for a in manifest["apps"]], ["a", "secretive"], "apps")
        contains(seen, "visible", "what apps see")
        for text in "hunter2", path, "acnspawn/":
            equal(text in seen, shown, "%s in what apps see with %r" % (text, option))
    contains(host.acnspawn("prepare", "--metadata=none", host.shell("true")).expect(2).err, "must be full, reduced or no", "message")


@case
def a_pod_without_metadata(host):
    """No port listens, and apps have no variables of App Containers."""
    script = "env | grep ^AC_ >/out/env; tail -n +2 /proc/net/tcp | grep ' 0A ' >>/out/env; true"
    for option, there in ((), True), (("--metadata=no",), False):
        uuid = host.prepare(*option, host.shell(script, name="example.com/a"))
        host.run(uuid)
        seen = host.written("a", "out/env", host.pod_dir(uuid)).decode()
        for text in "AC_APP_NAME=a", "AC_METADATA_URL=", "0100007F:46C0":
            equal(text in seen, there, "%s with %r" % (text, option))
        equal(host.status(uuid)["metadata"], "full" if there else "no")


@case
def an_app_gets_the_port_of_the_service(host):
    """If an app declares the port of the service, the service takes the next one."""
    ports = [{"name": "mine", "protocol": "tcp", "port": 18112, "count": 2}]
    uuid = host.prepare(pod_with_script(host, "echo $AC_METADATA_URL >/out/url; get pod/uuid >/out/uuid", app={"ports": ports}))
    host.run(uuid)
    contains(host.written("a", "out/url", host.pod_dir(uuid)).decode(), "http://127.0.0.1:18114/")
    equal(host.written("a", "out/uuid", host.pod_dir(uuid)).decode().strip(), uuid)


def service_of(host):
    return next(iter(processes_where(lambda pid: "acnspawn-metadata" in read_text("/proc/%d/cmdline" % pid), host.processes())), None)


@case
def a_service_that_is_killed_goes_on_where_it_was(host):
    """Same address, same token, same key; requests in between wait."""
    script = ("sign() { post pod/hmac/sign content=x 2>/dev/null || echo failed; }; sign >/out/first; touch /out/up; "
              "while [ ! -e /out/go ]; do sign >>/out/all; done; get pod/uuid 2>/dev/null >/out/uuid; touch /out/done; sleep 1000")
    uuid = host.detach("--name=p", pod_with_script(host, script))
    host.wait_up("a")
    for _ in range(3):
        pid = wait_for(lambda: service_of(host), "the service")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: service_of(host) not in (None, pid), "another service")
    size = len(host.written("a", "out/all"))
    wait_for(lambda: len(host.written("a", "out/all")) > size + 2000, "answers of the new service")
    host.acnspawn("enter", "p", "touch", "/out/go").expect(0)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("a"), "out/done")), "the end")
    equal(host.written("a", "out/uuid").decode().strip(), uuid)
    signatures = re.findall(rb"[A-Za-z0-9+/]{86}==", host.written("a", "out/all"))
    equal(set(signatures), {host.written("a", "out/first").strip()}, "signatures")
    true(host.written("a", "out/all").count(b"failed") <= 3, "more failed than were under way: %d" % host.written("a", "out/all").count(b"failed"))
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def a_pod_that_does_not_ask_has_no_service(host):
    uuid = host.detach("--name=p", pod_with_script(host, "touch /out/up; while [ ! -e /out/go ]; do sleep 0.05; done; get pod/uuid 2>/dev/null >/out/uuid; "
                                                   "touch /out/done; exec sleep 1000"))
    host.wait_up("a")
    host.wait_at_rest("p")
    equal(service_of(host), None, "the service")
    true(not os.path.exists(os.path.join(host.pod_dir(uuid), "hmac-key")), "a key was made for nobody")
    host.acnspawn("enter", "p", "touch", "/out/go").expect(0)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("a"), "out/done")), "the answer")
    equal(host.written("a", "out/uuid").decode().strip(), uuid)
    true(service_of(host), "no service is left for the next question")
    host.acnspawn("stop", uuid).expect(0)


@case
def the_service_is_the_one_that_was_there_when_the_pod_began(host):
    """A package that is upgraded meanwhile may contain one with another protocol."""
    built = os.path.dirname(os.path.dirname(os.path.realpath(ACNSPAWN)))
    helpers = host.path("helpers")
    os.mkdir(helpers)
    for program in ("stage0/supervise", "stage1/launch", "metadata/acnspawn-metadata"):
        shutil.copy(os.path.join(built, program), helpers)
    image = pod_with_script(host, "while [ ! -e /out/go ]; do sleep 0.05; done; get pod/uuid 2>/dev/null >/out/uuid; touch /out/done; exec sleep 1000")
    uuid = host.prepare(image)
    host.acnspawn("run", "--detach", uuid, env=dict(os.environ, ACNSPAWN_LIBEXECDIR=helpers)).expect(0)
    os.unlink(helpers + "/acnspawn-metadata")
    with open(helpers + "/acnspawn-metadata", "w") as f:
        f.write("#!/bin/false\n")
    os.chmod(f.name, 0o755)
    host.acnspawn("enter", uuid, "touch", "/out/go").expect(0)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("a"), "out/done")), "the answer")
    equal(host.written("a", "out/uuid").decode().strip(), uuid)
    host.acnspawn("stop", uuid).expect(0)


@case
def token_is_needed_and_differs_per_pod(host):
    tokens = set()
    for number in range(2):
        host.run("--name=p%d" % number, pod_with_script(
            host, "echo $AC_METADATA_URL >/out/url; origin=$(echo $AC_METADATA_URL | sed 's,\\(http://[^/]*\\).*,\\1,'); "
            "wget -q -S -O - $origin/acMetadata/v1/pod/uuid 2>/out/without; "
            "wget -q -S -O - $origin/x/acMetadata/v1/pod/uuid 2>/out/wrong; true"))
        pod = host.pod_dir(host.status("p%d" % number)["uuid"])
        url = host.written("a", "out/url", pod).decode().strip()
        token = url.rstrip("/").split("/")[-1]
        true(len(token) >= 22, "token of %d characters" % len(token))
        tokens.add(token)
        for name in ("without", "wrong"):
            head = host.written("a", "out/" + name, pod).decode()
            lacks(head, " 200 ", "answer " + name + " token")
    equal(len(tokens), 2, "number of different tokens")


@case
def unknown_paths_are_404_and_wrong_methods_405(host):
    got = fetch(host, ["--name=p"], ["nonsense", "apps/nobody/image/id", "pod/hmac/sign"])
    contains(got["nonsense"][0], " 404 ")
    contains(got["apps/nobody/image/id"][0], " 404 ")
    contains(got["pod/hmac/sign"][0], " 405 ")


@case
def answers_in_time(host):
    """Well under the 100 ms that the specification's validator grants, on average of fifty requests in a row."""
    r = host.run(pod_with_script(host, "s=$(cut -d' ' -f1 /proc/uptime); for i in $(seq 50); do get pod/uuid >/dev/null 2>&1; done; "
                                 "e=$(cut -d' ' -f1 /proc/uptime); echo $s $e"))
    start, end = map(float, r.out.split())
    true((end - start) / 50 < 0.1, "%.0f ms per request" % ((end - start) * 20))


@case
def service_runs_unprivileged_and_ends_with_the_pod(host):
    uuid = host.detach(pod_with_script(host, "get pod/uuid >/dev/null 2>&1; touch /out/up; exec sleep 1000"))
    host.wait_up("a")
    pid = service_of(host)
    true(pid, "no process acnspawn-metadata")
    status = read_text("/proc/%d/status" % pid)
    true(re.search(r"Uid:\s+(\d+)", status).group(1) != "0", "metadata service runs as root")
    equal(int(re.search(r"CapEff:\s+(\w+)", status).group(1), 16), 0, "capabilities")
    equal(re.search(r"NoNewPrivs:\s+(\d)", status).group(1), "1", "no_new_privs")
    host.acnspawn("stop", uuid).expect(0)
    wait_for(lambda: has_ended(pid), "end of the metadata service")


@case
def the_key_is_on_disk_before_the_first_signature(host):
    """... and a pod without signatures does not wait for the disk."""
    if not shutil.which("strace"):
        raise Skip("strace is missing (Debian package strace)")
    uuid = host.detach("--name=p", pod_with_script(host, "touch /out/up; sleep 1000"))
    host.wait_up("a")

    def ask(path, data=""):
        script = "wget -q -O - %s %s/%s" % (data and "--post-data " + data, BASE, path)
        return host.acnspawn("enter", "p", "/bin/sh", "-c", script).expect(0).out
    equal(ask("pod/uuid"), uuid)  # the service is there, and not traced
    log = host.path("strace.log")
    supervisor = host.supervisor(uuid)
    tracer = subprocess.Popen(["strace", "-f", "-yy", "-qq", "-o", log, "-e", "trace=fsync,fdatasync,sendmsg", "-p", str(supervisor)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    host.children.append(tracer)
    wait_for(lambda: tracer_of(supervisor) == tracer.pid or tracer.poll() is not None, "strace")
    if tracer.poll() is not None:
        raise Skip("strace cannot attach to processes here")

    equal(ask("pod/uuid"), uuid)
    lacks(read_text(log), "sync(", "what was done")
    first = ask("pod/hmac/sign", "content=x")
    equal(ask("pod/hmac/sign", "content=x"), first)
    tracer.send_signal(signal.SIGINT)
    tracer.wait(patience(20))
    calls = read_text(log).splitlines()
    synced = [i for i, c in enumerate(calls) if "fsync(" in c]
    equal(len(synced), 2, "synced: %r" % calls)
    contains(calls[synced[0]], "/hmac-key>")
    true(calls[synced[1]].rstrip(" =0)").endswith(uuid + ">"), "what is synced then: %s" % calls[synced[1]])
    # The rest is requested by commands: by their launchers, and by calls of the interface; or said to the pod's systemd.
    answers = [i for i, c in enumerate(calls) if re.match(r"%d +sendmsg\(" % supervisor, c) and "launch-file>" not in c and "/interface\"" not in c
               and "/org/fre" not in c]
    true(answers and synced[1] < answers[-1], "the answer came before: %r" % calls)
    equal([calls[i] for i in answers if i < synced[1]], [], "answers before, of %r" % calls)
    host.acnspawn("stop", "-f", "p").expect(0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn.conf: which files count, what they change, what takes precedence over them, and what is said about mistakes."""

from harness import *


def write(host, text, name="acnspawn.conf"):
    path = os.path.join(host.path("etc"), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    return path


def acnspawn(host, *args, **more):
    """With the configuration of the host of this case alone."""
    return host.acnspawn(*args, env={**os.environ, "ACNSPAWN_CONFIG_DIR": host.path("etc")}, **more)


def config(host, rc=0):
    r = acnspawn(host, "config", "--json=short").expect(rc)
    return {"%s.%s" % (row["section"], row["key"]): (row["value"], row["origin"]) for row in json.loads(r.out)}, r.err


def pod(host, *args):
    """The pod manifest and the status of a pod that is prepared so."""
    uuid = acnspawn(host, "prepare", *args).expect(0).out.strip()
    host.note_pods()
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)
    return uuid, manifest, {i["name"]: i["value"] for i in manifest.get("isolators", [])}


def network(host, uuid):
    return json.loads(host.acnspawn("list", "--json=short", "--format=uuid,networks").expect(0).out)[-1]["networks"]


@case
def without_files_all_is_default(host):
    values, err = config(host)
    equal(err, "")
    equal({origin for key, (value, origin) in values.items() if key != "Store.Directory"}, {"default"})
    equal(values["Store.Directory"], (host.dir, "--dir"))
    equal((values["Image.PullPolicy"][0], values["Pod.Network"][0], values["Pod.TasksMax"][0]), ("new", "none", "8192"))
    r = acnspawn(host, "config", "--cat").expect(0)
    equal(r.out, "")
    contains(r.err, "There is no acnspawn.conf, nor a file in acnspawn.conf.d.")


@case
def reading_costs_next_to_nothing(host):
    """A few calls per directory."""
    need_strace()
    trace = host.path("trace")
    subprocess.run(["strace", "-f", "-o", trace] + host.argv("list"), check=True, capture_output=True)
    calls = [line for line in read_text(trace).splitlines() if "acnspawn.conf" in line]
    true(0 < len(calls) <= 6, "calls: %r" % calls)


@case
def drop_ins_in_the_order_of_their_names(host):
    main_file = write(host, "[Image]\nPullPolicy=update\n[Pod]\nTasksMax=100\nMemory=1G\n")
    first = write(host, "[Pod]\nTasksMax=200\nMemory=\n", "acnspawn.conf.d/10-first.conf")
    second = write(host, "# comment\n[Pod]\nTasksMax = 300\n", "acnspawn.conf.d/20-second.conf")
    write(host, "[Pod]\nTasksMax=400\n", "acnspawn.conf.d/90-other.txt")
    write(host, "[Pod]\nTasksMax=400\n", "acnspawn.conf.d/.90-hidden.conf")
    values, err = config(host)
    equal(err, "")
    equal(values["Pod.TasksMax"], ("300", second + ":3"))
    equal(values["Pod.Memory"], ("infinity", "default"))
    equal(values["Image.PullPolicy"], ("update", main_file + ":2"))
    out = acnspawn(host, "config", "--cat").expect(0).out
    equal([line for line in out.splitlines() if line.startswith("# /")], ["# " + f for f in (main_file, first, second)])
    contains(out, "TasksMax = 300\n")
    contains(acnspawn(host, "config").expect(0).out, "TasksMax     300")


@case
def pods_get_what_is_set(host):
    write(host, "[Pod]\nNetwork=host\nTasksMax=300\nMemory=64Mi\nCPU=500m\nStopTimeout=33s\n[App]\nLogSize=1Mi\n")
    image = host.shell("true", name="example.com/a")
    uuid, manifest, isolators = pod(host, image)
    equal(isolators["resource/memory"]["limit"], "64Mi")
    equal(isolators["resource/cpu"]["limit"], "500m")
    true("300" in json.dumps(isolators["resource/tasks"]), "the limit of tasks is %r" % isolators)
    equal(network(host, uuid), ["host"])
    contains(json.dumps(manifest["apps"][0]["annotations"]), '"acnspawn/log-size", "value": "1Mi"')
    # the command line takes precedence, and does not add
    uuid, manifest, isolators = pod(host, "--network=none", "-m", "32Mi", image, "--log-size=2Mi")
    equal(isolators["resource/memory"]["limit"], "32Mi")
    equal(isolators["resource/cpu"]["limit"], "500m")
    equal(network(host, uuid), ["none"])
    contains(json.dumps(manifest["apps"][0]["annotations"]), '"acnspawn/log-size", "value": "2Mi"')
    # each app of several
    uuid, manifest, isolators = pod(host, image, "--name=one", "--log-size=2Mi", "---", image, "--name=two")
    equal([a["value"] for app in manifest["apps"] for a in app["annotations"] if a["name"] == "acnspawn/log-size"], ["2Mi", "1Mi"])


def app_isolators(manifest, app=0):
    return {i["name"]: i["value"] for i in manifest["apps"][app]["app"].get("isolators", [])}


def annotations(manifest, app=0):
    return {a["name"]: a["value"] for a in manifest["apps"][app].get("annotations", [])}


@case
def each_app_has_its_limits(host):
    write(host, "[App]\nMemory=64Mi\nCPU=500m\nCPUShares=77\nTasksMax=55\nLog=none\n")
    image = host.shell("true", name="example.com/a")
    uuid, manifest, isolators = pod(host, image, "--name=plain", "---", image, "--name=own", "--memory=32Mi", "--log=pod", "---", image,
                                    "--name=other", '--isolator=resource/memory={"limit":"16Mi"}')
    equal(isolators.get("resource/memory"), None)
    equal([app_isolators(manifest, n)["resource/memory"]["limit"] for n in range(3)], ["64Mi", "32Mi", "16Mi"])
    equal([app_isolators(manifest, n)["resource/cpu"]["limit"] for n in range(3)], ["500m"] * 3)
    equal((app_isolators(manifest)["os/linux/cpu-shares"], app_isolators(manifest)["resource/tasks"]["limit"]), (77, "55"))
    equal([annotations(manifest, n)["acnspawn/log"] for n in range(3)], ["none", "pod", "none"])
    # A declared pod: its file takes precedence in the same way.
    write(host, "[App one]\nImage=%s\n[App two]\nImage=%s\nIsolator=resource/memory={\"limit\":\"16Mi\"}\nLog=both\n" % (image, image),
          "pods/web.pod")
    uuid, manifest, isolators = pod(host, "--declared=web")
    equal([app_isolators(manifest, n)["resource/memory"]["limit"] for n in range(2)], ["64Mi", "16Mi"])
    equal([annotations(manifest, n)["acnspawn/log"] for n in range(2)], ["none", "both"])


@case
def status_says_what_comes_from_here(host):
    """Also of a declared pod, and of a pod that is run again."""
    write(host, "[Pod]\nMemory=64Mi\nCPU=2\n[App]\nMemory=32Mi\nTasksMax=55\n")
    sources = lambda uuid: {(i["app"], i["name"]): i["source"] for i in host.status(uuid)["isolators"]}
    image = host.shell("true", name="example.com/a", app={"isolators": [{"name": "resource/tasks", "value": {"limit": "9"}}]})
    expected = {(None, "resource/memory"): "acnspawn.conf", (None, "resource/cpu"): "command line",
                ("a", "resource/memory"): "command line", ("a", "resource/tasks"): "acnspawn.conf"}
    uuid, manifest, isolators = pod(host, "--name=p", "--cpu=1", image, "--memory=16Mi")
    equal(sources(uuid), expected)
    host.acnspawn("run", uuid).expect(0)
    host.acnspawn("run", "p").expect(0) # without that acnspawn.conf
    equal(sources("p"), expected)
    contains(host.acnspawn("status", "p").expect(0).out, "[acnspawn.conf]\n")
    write(host, "[Pod]\nCPU=1\n[App a]\nImage=%s\nMemory=16Mi\n" % image, "pods/web.pod")
    equal(sources(pod(host, "--declared=web")[0]), expected)


@case
def apps_that_are_launched_have_these_limits_too(host):
    write(host, "[App]\nMemory=64Mi\nLog=none\n")
    image = host.shell("sleep 1000", name="example.com/a")
    uuid = host.detach("--exit-policy=never")
    acnspawn(host, "add-app", uuid, image, "--name=added").expect(0)
    acnspawn(host, "launch", uuid, image, "--name=launched").expect(0)
    acnspawn(host, "launch-group", uuid, image, "--name=one", "---", image, "--name=two", "--memory=32Mi").expect(0)
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)
    names = [a["name"] for a in manifest["apps"]]
    equal({name: (app_isolators(manifest, n).get("resource/memory", {}).get("limit"), annotations(manifest, n).get("acnspawn/log"))
           for n, name in enumerate(names)},
          {"added": ("64Mi", "none"), "launched": ("64Mi", "none"), "one": ("64Mi", "none"), "two": ("32Mi", "none")})
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def limits_of_a_pod_by_another_option_stay(host):
    write(host, "[Pod]\nMemory=64Mi\n")
    uuid, manifest, isolators = pod(host, '--isolator=resource/memory={"limit":"16Mi"}', host.shell("true", name="example.com/a"))
    equal(isolators["resource/memory"]["limit"], "16Mi")


def resolver(host, uuid):
    c = json.loads(read_text(os.path.join(host.pod_dir(uuid), "config")))
    return [c[k] for k in ("dns", "dnsSearch", "dnsOptions", "hostsEntries")]


@case
def name_resolution(host):
    path = write(host, "[Pod]\nDNS=192.0.2.1  192.0.2.2\nDNSSearch=a.example b.example\nDNSOption=ndots:2\nHostsEntry=192.0.2.3=db,x 192.0.2.4=y\n")
    image = host.shell("true", name="example.com/a")
    equal(config(host)[0]["Pod.DNS"], ("192.0.2.1  192.0.2.2", path + ":2"))
    equal(resolver(host, pod(host, image)[0]), [["192.0.2.1", "192.0.2.2"], ["a.example", "b.example"], ["ndots:2"], ["192.0.2.3=db,x", "192.0.2.4=y"]])
    # The command line replaces, and does not add.
    equal(resolver(host, pod(host, "--dns=192.0.2.9", "--dns-search=.", image)[0])[:3], [["192.0.2.9"], ["."], ["ndots:2"]])
    # Without a resolv.conf nothing of it is left.
    equal(resolver(host, pod(host, "--dns=none", image)[0])[:3], [["none"], None, None])
    write(host, "[Pod]\nDNS=none\n")
    contains(acnspawn(host, "prepare", "--dns-search=x.example", image).expect(1).err, "With the defaults of acnspawn.conf: --dns=none ")
    path = write(host, "[Pod]\nDNS=192.0.2.1 host\n")
    contains(acnspawn(host, "prepare", image).expect(1).err, path + ":2: DNS=: ")
    contains(config(host, rc=1)[1], path + ":2: DNS=: ")


@case
def the_policy_for_images(host):
    write(host, "[Pod]\nImagePolicy=local\n")
    image = host.shell("true", name="example.com/a")
    policy = lambda *args: annotations(pod(host, *args)[1]).get("acnspawn/image-policy")
    equal((policy(image), policy(image, "--image-policy=none"), policy("--image-policy=none", image)), ("local", "none", "none"))


@case
def a_pod_manifest_has_its_own_limits(host):
    image = host.shell("true", name="example.com/a")
    uuid = host.prepare(image)
    path = host.path("manifest")
    with open(path, "w") as f:
        f.write(host.acnspawn("cat-manifest", uuid).expect(0).out)
    write(host, "[Pod]\nNetwork=host\nMemory=64Mi\n")
    uuid, manifest, isolators = pod(host, "--pod-manifest=" + path)
    true("resource/memory" not in isolators, "isolators: %r" % isolators)
    equal(network(host, uuid), ["host"])


@case
def the_pull_policy(host):
    write(host, "[Image]\nPullPolicy=never\n")
    for verb in "fetch", "prepare":
        contains(acnspawn(host, verb, "example.invalid/a").expect(1).err, "example.invalid/a")
        lacks(acnspawn(host, verb, "example.invalid/a").expect(1).err, "resolve")
    uuid = host.detach("--exit-policy=never", host.shell("sleep 1000", name="example.com/a"), "--name=a")
    for args in ("add-app", uuid), ("launch", uuid), ("launch-group", uuid), ("update-app", uuid, "a"):
        image = "--image=example.invalid/a" if args[0] == "update-app" else "example.invalid/a"
        err = acnspawn(host, *args, image).expect(1).err
        contains(err, "example.invalid/a")
        lacks(err, "resolve", "message of %s" % args[0])
    host.acnspawn("stop", "--force", uuid).expect(0)
    contains(acnspawn(host, "fetch", "--pull-policy=nevr", "example.invalid/a").expect(2).err, "for --pull-policy: must be new, update or never")


@case
def the_directory_of_the_store(host):
    other = host.path("other")
    path = write(host, "[Store]\nDirectory=%s\n" % other)
    env = {**os.environ, "ACNSPAWN_CONFIG_DIR": host.path("etc")}
    env.pop("ACNSPAWN_DIR", None)

    def run(*args, **more):
        return subprocess.run([host.argv()[0], *args], env={**env, **more}, capture_output=True, text=True)

    def directory(*args, **more):
        rows = json.loads(run("config", "--json=short", *args, **more).stdout)
        return [(r["value"], r["origin"]) for r in rows if r["key"] == "Directory"]

    contains(run("list").stderr, "No pods in the store %s." % other)
    equal(directory(), [(other, path + ":2")])
    equal(directory(ACNSPAWN_DIR="/x"), [("/x", "ACNSPAWN_DIR")])
    equal(directory("--dir=/y", ACNSPAWN_DIR="/x"), [("/y", "--dir")])
    r = run("volume", "create", "v")
    equal((r.returncode, r.stderr), (0, ""))
    true(os.path.isdir(other + "/volumes/v"), "the volume is there")
    write(host, "[Store]\nDirectory=here\n")
    contains(run("list").stderr, path + ":2: Directory= must be an absolute path")


@case
def mistakes(host):
    path = write(host, "x=1\n[Pod]\nTaskMax=1\nbad\n[Pods]\na=b\n[X-Mine]\nc=d\n[Image]\nX-Key=1\nPullPolicy=nevr\n[Run\n")
    values, err = config(host, rc=1)
    for line in ("%s:1: the line belongs to no section, and is ignored" % path,
                 "%s:3: the key 'TaskMax' is unknown, and ignored; did you mean 'TasksMax'?" % path,
                 "%s:4: the line is not KEY=VALUE" % path,
                 "%s:5: the section 'Pods' is unknown, and ignored; did you mean 'Pod'?" % path,
                 "%s:12: the name of the section does not end with ']'" % path,
                 "%s:11: PullPolicy=: Invalid value 'nevr' for --pull-policy: must be new, update or never." % path):
        contains(err, line)
    equal(len(err.splitlines()), 6, "messages: %r" % err)
    # an error of the commands that use it; a warning for others, unless they are quiet
    contains(acnspawn(host, "fetch", "x").expect(1).err, "%s:11: PullPolicy=: Invalid value" % path)
    contains(acnspawn(host, "list").expect(0).err, "%s:3: the key 'TaskMax'" % path)
    equal(acnspawn(host, "list", "--quiet").expect(0).err, "")
    # given on the command line, the value in the file is not used
    lacks(acnspawn(host, "fetch", "--pull-policy=never", "x").expect(1).err, "Invalid value")


@case
def files_that_cannot_be_read(host):
    directory = host.path("etc")
    os.makedirs(directory + "/acnspawn.conf")
    contains(acnspawn(host, "list").expect(1).err, "'%s/acnspawn.conf' is not a regular file" % directory)
    os.rmdir(directory + "/acnspawn.conf")
    os.symlink("/dev/null", directory + "/acnspawn.conf")
    equal(config(host)[1], "")
    os.unlink(directory + "/acnspawn.conf")
    write(host, "#" * (1024 * 1024 + 1))
    contains(acnspawn(host, "list").expect(1).err, "Cannot read '%s/acnspawn.conf'" % directory)


main()

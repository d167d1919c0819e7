#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-prepare(1), sentence by sentence. Most of these cases look at manifests of pods that are only prepared."""

from manual import *

PAGE = page("acnspawn-prepare.1", "fc1b48b8502f06d2")


def manifest(host, *words, **more):
    """The manifest of a pod that is prepared and removed again."""
    uuid = host.prepare(*words, **more)
    text = host.acnspawn("cat-manifest", uuid).expect(0).out
    host.acnspawn("rm", uuid).expect(0)
    return json.loads(text)


def annotations(app):
    return {a["name"]: a["value"] for a in app.get("annotations") or []}


@once
def talker(host):
    """An image with arguments of its own."""
    host.acnspawn("fetch", host.image(["/bin/echo", "of", "the", "image"], name="example.com/some/talker")).expect(0)
    return "example.com/some/talker"


@sentence("DESCRIPTION", "Options before the first image are for the pod, options after an image are for the app made from it. -- begins the "
                         "arguments of the app, which are added to those that the image has, or, if it is an OCI image, replace its Cmd; all words "
                         "up to --- or the end of the line belong to them, including options. After --- follows the image of the next app. An app "
                         "without arguments needs no ---")
@sentence("Options of an app, after its image",
          "--name=NAME Name the app. The default is the last part of the image's name. --exec=PATH, --entrypoint=PATH Run this program instead of "
          "the image's, without the image's arguments.")
def words_of_pods_and_apps(host):
    m = manifest(host, "--environment=A=pod", talker(host), "--environment=B=app", "--", "--name=x", "-v", "---", base(host), talker(host), "--name=last",
                 "--exec=/bin/cat", "--", "own")
    equal([(a["name"], a["app"]["exec"]) for a in m["apps"]],
          [("talker", ["/bin/echo", "of", "the", "image", "--name=x", "-v"]), ("base", ["/bin/true"]), ("last", ["/bin/cat", "own"])])
    equal([{e["name"] for e in a["app"].get("environment") or []} & {"A", "B"} for a in m["apps"]], [{"A", "B"}, {"A"}, {"A"}])


@sentence("DESCRIPTION", "The mount points of their apps are satisfied by volumes, or, with a warning, by empty volumes of their own.")
def mount_points_get_volumes(host):
    image = host.image(name="example.com/points", app={"mountPoints": [{"name": "one", "path": "/one"}, {"name": "two", "path": "/two"}]})
    r = host.acnspawn("prepare", "--volume=one,kind=empty", image).expect(0)
    true("'two'" in r.err or "two" in r.err and "/one" not in r.err, "the warning: %r" % r.err)
    m = json.loads(host.acnspawn("cat-manifest", r.out.strip()).expect(0).out)
    equal((len(m["volumes"]), {v["kind"] for v in m["volumes"]}, sorted(x["path"] for x in m["apps"][0]["mounts"])), (2, {"empty"}, ["/one", "/two"]))


@sentence("Options of the pod, before the first image",
          "--pod-manifest=FILE Make the pod from the pod manifest in FILE (- is standard input) instead of naming images.")
def a_manifest_from_standard_input(host):
    m = manifest(host, "--user-label=tier=front", talker(host))
    equal(manifest(host, "--pod-manifest=-", input=json.dumps(m).encode()), m)


@sentence("Options of the pod, before the first image", "90s and 1min 30s are the same; a plain number is in seconds. The default is 10 seconds.")
@sentence("Options of the pod, before the first image",
          "--hostname=NAME Set the host name of the pod. The default is made from the pod's name or its UUID.")
@sentence("Options of the pod, before the first image", "--uuid-file=FILE Also write the UUID of the pod to FILE.")
def settings_of_the_pod(host):
    for words, seconds in ([], 10), (["--stop-timeout=90s"], 90), (["--stop-timeout=1min 30s"], 90), (["--stop-timeout=7"], 7):
        uuid = host.prepare("--name=p", "--replace", "--uuid-file=" + host.path("uuid"), *words, base(host))
        s = host.status("p")
        equal((s["stopTimeout"], s["hostname"], read_text(host.path("uuid")).strip()), (seconds * 1000000, "p", uuid))
    contains(host.status(host.prepare(base(host)))["hostname"], "acn")
    equal(host.status(host.prepare("--hostname=else", base(host)))["hostname"], "else")


@sentence("Options of the pod, before the first image",
          "Set an environment variable in all apps; without a value, to its value in the environment of acnspawn. A variable that is set for a "
          "single app takes precedence.")
@sentence("Options of the pod, before the first image", "If several options set the same variable, the last one counts.")
def variables(host):
    with open(host.path("env"), "w") as f:
        f.write("C=file\n")
    m = manifest(host, "-E", "A=pod", "-e", "HERE", "--environment=C=first", "--env-file=" + host.path("env"), "--env=D=1", "-e", "D=2", base(host), "--name=one",
                 "-e", "A=app", base(host), "--name=two", env={**os.environ, "HERE": "caller"})
    shown = [{e["name"]: e["value"] for e in a["app"]["environment"]} for a in m["apps"]]
    expected = {"HERE": "caller", "C": "file", "D": "2"}
    equal(shown, [{**expected, "A": "app"}, {**expected, "A": "pod"}])


@sentence("Options of the pod, before the first image",
          "Define a volume. An empty volume is a new directory that lives as long as the pod does; mode=, uid= and gid= set its mode (octal, "
          "default 0755) and its owner, as user and group IDs of the pod.")
@sentence("Options of the pod, before the first image",
          "readOnly=true makes any kind read-only. A comma or a backslash in a value is escaped with a backslash.")
@sentence("Options of the pod, before the first image",
          "--mount=volume=VOLUME,target=PATH[,readOnly=BOOL] --mount=VOLUME:PATH[:ro] Mount a volume at PATH in all apps. The directory is created "
          "if it is missing.")
def volumes_of_a_pod(host):
    os.mkdir(host.path("a,b\\c"))
    script = "stat -c '%a %u:%g' /one /two; for d in /one /two /three /host; do touch $d/x 2>/dev/null || echo $d refused; done"
    r = host.acnspawn("run", "--rm", "--volume=v,kind=empty", "--volume=w,kind=empty,mode=1777,uid=5,gid=6,readOnly=true",
                      "--volume=h,kind=host,readOnly=true,source=" + host.path("a\\,b\\\\c"), "--mount=v:/one", "--mount=volume=w,target=/two",
                      "--mount=volume=v,target=/three,readOnly=true", "--mount=h:/host", *app(host, "a", script)).expect(0)
    equal(r.out.splitlines(), ["755 0:0", "1777 5:6", "/two refused", "/three refused", "/host refused"])


@sentence("Options of the pod, before the first image", "If it is read-only, so is what is mounted below it, unless read-only-below=false is given.")
def what_is_mounted_below(host):
    top = host.path("top")
    os.makedirs(os.path.join(top, "below"))
    subprocess.run(["mount", "-t", "tmpfs", "none", os.path.join(top, "below")], check=True)
    try:
        script = "for d in /a /a/below /b /b/below; do touch $d/x 2>/dev/null && echo $d; done; true"
        r = host.acnspawn("run", "--rm", *app(host, "a", script, "-v", top + ":/a:ro", "-v", top + ":/b:ro,read-only-below=false")).expect(0)
        equal(r.out, "/b/below\n")
    finally:
        subprocess.run(["umount", "--lazy", os.path.join(top, "below")], check=True)


@sentence("Options of prepare", "Show the apps and their images, the volumes, and the state that each isolator would have on this host, without "
                                "making a pod. Images are fetched as for a pod.")
@sentence("EXAMPLES", "# acnspawn prepare --dry-run example.com/web --memory=64Mi")
def nothing_is_made(host):
    before = sorted(host.pods())
    host.acnspawn("prepare", "--dry-run", host.image(name="example.com/fetched")).expect(0)
    host.acnspawn("image", "show", "example.com/fetched").expect(0)
    r = host.acnspawn("prepare", "--dry-run", "--volume=v,kind=empty", base(host), "--memory=64Mi", "--mount=v:/v").expect(0)
    for words in "base", "example.com/base", "resource/memory", "empty":
        contains(r.out, words)
    equal(sorted(host.pods()), before)


@sentence("Options of an app, after its image", "Use these supplementary groups, given by number, instead of the image's.")
@sentence("Options of an app, after its image", "It is made if it is not in the image; something else of that name is an error.")
@sentence("Options of an app, after its image", "Make the root directory of the app read-only.")
@sentence("Options of an app, after its image", "--caps-remove=all leaves none.")
@sentence("Options of an app, after its image", "Programs that the app executes cannot gain privileges (os/linux/no-new-privileges).")
def what_an_app_finds(host):
    script = "pwd; id -G; grep -E 'CapBnd|NoNewPrivs' /proc/self/status; touch /x 2>/dev/null || echo refused"
    r = host.acnspawn("run", "--rm", *app(host, "a", script, "--supplementary-gids=7,9", "--workdir=/made/here", "--read-only", "--caps-remove=all",
                                          "--no-new-privileges")).expect(0)
    equal(r.out.split(), ["/made/here", "0", "7", "9", "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "refused"])
    host.acnspawn("run", "--rm", *app(host, "a", "true", "--workdir=/etc/passwd")).expect(125)


@sentence("Options of an app, after its image", "--no-healthcheck Short for --health-cmd=none.")
@sentence("Options of an app, after its image",
          "The options for restarts, readiness, health, stopping, standard input and updates are kept in the pod manifest, as annotations of the app")
@sentence("Options of an app, after its image", "The maximum number of consecutive restarts, 10 by default, or infinity.")
def settings_are_annotations(host):
    m = manifest(host, base(host), "--name=one", "--restart=on-failure", "--restart-delay=2s", "--notify=true", "--no-healthcheck", "--stop-signal=SIGINT",
                 "--input=pipe", base(host), "--name=two", "--health-cmd=none", "--restart=always")
    kept = [annotations(a) for a in m["apps"]]
    for name, value in (("restart", "on-failure"), ("restart-delay", "2s"), ("notify", "true"), ("stop-signal", "SIGINT"), ("input", "pipe")):
        equal(kept[0].get("acnspawn/" + name), value, name)
    equal(kept[0]["acnspawn/health-cmd"], kept[1]["acnspawn/health-cmd"])
    uuid = host.prepare(base(host), "--restart=always", base(host), "--name=x", "--restart=always", "--restart-limit=infinity")
    equal([a["restartLimit"] for a in host.status(uuid)["apps"]], [10, None])


@sentence("Options of an app, after its image",
          "The longest delay, the first one included. The default is one minute, or the time of --restart-delay=, if that is longer.")
@sentence("Options of an app, after its image", "The default is 100 milliseconds.")
def delays_of_restarts(host):
    uuid = host.prepare(*(word for n, delay in enumerate(([], ["--restart-delay=2min"], ["--restart-delay=5s", "--restart-delay-max=1s"]))
                          for word in [base(host), "--name=a%d" % n, "--restart=on-failure", *delay]))
    delays = [re.search(r"(?m)^RestartSec=(\d+)us$", host.acnspawn("cat", uuid, "app-a%d.service" % n).expect(0).out).group(1) for n in range(3)]
    equal(delays, ["100000", "120000000", "1000000"])


@sentence("Options of an app, after its image", "Limit the memory of the app: 64Mi, 1G. The same as the isolator resource/memory.")
@sentence("Options of an app, after its image",
          "Limit the processor time of the app: 500m is half a processor, 2 are two. The same as the isolator resource/cpu.")
@sentence("Options of an app, after its image", "The same as the isolator resource/tasks; see acnspawn-defaults(7).")
@sentence("Options of an app, after its image", "the default weight is 1024 (os/linux/cpu-shares).")
@sentence("Options of an app, after its image",
          "From -1000 (never) to 1000: how soon the kernel kills the app when the host runs out of memory (os/linux/oom-score-adj).")
@sentence("Options of an app, after its image", "The same as the isolators os/linux/capabilities-retain-set and os/linux/capabilities-remove-set.")
@sentence("Options of the pod, before the first image", "The same as the options of an app of these names, for all apps of the pod together.")
def limits_are_isolators(host):
    words = ["--memory=64Mi", "--cpu=500m", "--tasks-max=50"]
    m = manifest(host, *words, base(host), *words, "--cpu-shares=2048", "--oom-score-adj=1000", "--caps-remove=CAP_KILL")
    of_pod, of_app = ({i["name"]: i["value"] for i in where["isolators"]} for where in (m, m["apps"][0]["app"]))
    for where in of_pod, of_app:
        equal((where["resource/memory"]["limit"], where["resource/cpu"]["limit"]), ("64Mi", "500m"))
        true("resource/tasks" in where, "the limit of tasks: %r" % where)
    equal(of_app["os/linux/capabilities-remove-set"], {"set": ["CAP_KILL"]})
    true({"os/linux/cpu-shares", "os/linux/oom-score-adj"} <= set(of_app), "%r" % of_app)
    for score in "1001", "-1001":
        host.acnspawn("prepare", base(host), "--oom-score-adj=" + score).expect(2)


@sentence("Options of an app, after its image", "(at least 64Ki)")
@sentence("Options of an app, after its image", "The path is absolute and has no comma. The directory has to exist")
@sentence("Options of an app, after its image", "A capability that the app does not have is an error.")
def values_that_are_refused(host):
    for words in (["--log-size=1Ki"], ["--log-file=relative"], ["--log-file=/var/tmp/x,max-size=1Ki"], ["--caps-ambient=CAP_SYS_TIME"], ["--restart=sometimes"],
                  ["--after=nothing"], ["--sys=writable"]):
        true(host.acnspawn("prepare", base(host), *words).rc in (1, 2), "%s is refused" % words)
    host.acnspawn("run", "--rm", base(host), "--log-file=" + host.path("missing", "log")).expect(1)


@sentence("Options of an app, after its image", "If one of them fails to start, and the pod keeps running, the app does not wait for it any longer.")
@sentence("Options of an app, after its image",
          "a line for /bin/sh of the image, or a JSON array of a program and its arguments. Exit status 0 means healthy.")
@sentence("Options of an app, after its image", "and how long it may take then, if it differs from the pod's setting.")
def apps_beside_each_other(host):
    uuid = host.prepare("--name=beside", "--exit-policy=never", "--stop-timeout=1h", *together(
        [base(host), "--name=bad", "--exec=/no/such"], app(host, "good", "exec sleep 1000", "--after=bad"),
        app(host, "checked", "exec sleep 1000", '--health-cmd=["/bin/test", "-e", "/bin/sh"]'),
        app(host, "ill", "exec sleep 1000", "--health-cmd=test -e /no/such || exit 3", "--health-interval=100ms", "--health-retries=1000"),
        app(host, "stubborn", "trap '' TERM; touch /out/up; exec sleep 1000", "--stop-timeout=200ms")))
    p = host.start("run", uuid)
    shown = lambda name: host.app_status(uuid, name)
    wait_for(lambda: shown("good")["state"] == "running", "the app that does not wait any longer")
    wait_for(lambda: (shown("checked")["health"] or {}).get("state") == "healthy", "the check without a shell")
    wait_for(lambda: (shown("ill")["health"] or {}).get("exitStatus") == 3, "the check that fails")
    host.wait_up("stubborn", uuid)
    host.acnspawn("stop-app", uuid, "stubborn").expect(0)
    equal(shown("stubborn")["signal"], 9)
    host.acnspawn("stop", "--force", uuid).expect(0)
    host.finish(p)


@sentence("Options of the pod, before the first image", "or with none no such file except that of the image.")
@sentence("Options of the pod, before the first image", "the single domain . means none.")
@sentence("Options of the pod, before the first image",
          "With no there is no metadata service, and apps have neither AC_METADATA_URL nor AC_APP_NAME.")
def names_and_metadata(host):
    image = host.shell("cat /etc/resolv.conf; echo [$AC_METADATA_URL$AC_APP_NAME]", name="example.com/resolves", files={"etc/resolv.conf": "of the image\n"})
    equal(host.acnspawn("run", "--rm", "--dns=none", "--metadata=no", image).expect(0).out, "of the image\n[]\n")
    r = host.acnspawn("run", "--rm", "--dns=192.0.2.1", "--dns-search=.", *app(host, "a", "cat /etc/resolv.conf")).expect(0)
    lacks([line.split()[0] for line in r.out.splitlines() if line.strip()], "search")


@sentence("Options of an app, after its image",
          "The pod keeps the profile, not the name of the file. Actions and flags that need another program are refused.")
def profiles_are_kept(host):
    path = host.path("profile.json")
    for action, rc in ("SCMP_ACT_ERRNO", 0), ("SCMP_ACT_NOTIFY", (1, 2)):
        with open(path, "w") as f:
            json.dump({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": action}]}, f)
        r = host.acnspawn("prepare", *app(host, "a", "mkdir /x || echo refused", "--seccomp-profile=" + path))
        true(r.rc == rc or rc and r.rc in rc, str(r))
        if not rc:
            os.unlink(path)
            lacks(host.acnspawn("cat-manifest", r.out.strip()).out, path)
            contains(host.acnspawn("run", r.out.strip()).expect(0).out, "refused")


elsewhere(
    ("DESCRIPTION", "Prepares a pod and prints its UUID alone on standard output, with --json an object of uuid and name",
     "lifecycle/pods_that_are_made_and_removed_as_json"),
    ("DESCRIPTION", "warnings go to standard error.", "volumes/mount_point_without_volume_gets_one_and_a_warning"),
    ("DESCRIPTION", "or, if it is an OCI image, replace its Cmd", "oci/arguments_take_the_place_of_cmd"),
    ("Options of prepare", "A pod of that name that has ended becomes its predecessor, one that was never run is removed.",
     "declared/a_declared_pod_runs_again_and_again"),
    ("Options of prepare", "Images and other options of the pod cannot be given.", "declared/what_cannot_be_combined"),
    ("Options of prepare", "Refuse the pod unless this host enforces all of its isolators, and make run check again.",
     "isolators/strict_refuses_what_is_not_enforced"),
    ("Options of the pod, before the first image", "No other pod can have the name until this one is removed.",
     "lifecycle/name_is_unique_and_free_again_after_rm"),
    ("Options of the pod, before the first image", "If another pod has that name, stop it, if it is running, and remove it. This is done last, after "
                                                   "the images are fetched and all checks have succeeded.",
     "lifecycle/replace_takes_the_name_of_another"),
    ("Options of the pod, before the first image", "or cp or export reads it, the old pod loses its name and stays, with a warning.",
     "files/a_pod_that_is_read_has_its_image_and_can_be_replaced"),
    ("Options of the pod, before the first image", "If only its networks cannot be undone",
     "network/a_declared_pod_whose_networks_cannot_be_undone_starts_again"),
    ("Options of the pod, before the first image", "If a file system is mounted below its directory, its processes cannot be ended, or another "
                                                   "command has it, the command fails and the old pod keeps its name.",
     "lifecycle/a_pod_with_a_mount_keeps_its_name"),
    ("Options of the pod, before the first image", "First compare every file of the images and of their dependencies with its original state, as "
                                                   "image verify does (except for the ID), and refuse the pod if anything was altered.",
     "image-verbs/altered_image_is_refused_with_verify"),
    ("Options of the pod, before the first image", "A tmpfs volume is the same in memory, with at most size= bytes",
     "volume-kinds/volume_in_memory_has_a_size"),
    ("Options of the pod, before the first image", "and nr_inodes= files.", "volume-kinds/volume_in_memory_has_so_many_files"),
    ("Options of the pod, before the first image", "A named volume is the one of the store with the name source= (default: NAME), which outlives the "
                                                   "pod", "named-volumes/content_outlives_pods"),
    ("Options of the pod, before the first image", "if it does not exist, it is made with mode=, uid= and gid=",
     "named-volumes/new_volume_has_mode_and_owner"),
    ("Options of the pod, before the first image", "by default those of the directory that an OCI image has there",
     "oci/volumes_begin_as_the_directory_of_the_image"),
    ("Options of the pod, before the first image", "and with quota=, the bytes that its files may use (as 10G)", "vm/quota/app_gets_edquot"),
    ("Options of the pod, before the first image", "An image volume is the image source=, which is fetched like that of an app",
     "image-volumes/image_is_read_only_in_a_pod"),
    ("Options of the pod, before the first image", "or with subpath= one file or directory in it", "image-volumes/part_of_an_image"),
    ("Options of the pod, before the first image", "A host volume is the file or directory of the host at the absolute path source=.",
     "volumes/host_volume_for_reading_and_writing"),
    ("Options of the pod, before the first image", "Symbolic links in it are resolved when the command is given, and never again",
     "volumes/symlinks_of_the_command_line_are_followed"),
    ("Options of the pod, before the first image", "with symlinks=true they are followed whenever the app starts, with symlinks=false there must not "
                                                   "be any, as in pod manifests.", "volume-kinds/links_on_the_way_to_a_source_have_to_be_allowed"),
    ("Options of the pod, before the first image", "File systems mounted below it are included unless recursive=false is given.",
     "volumes/host_volume_recursive_and_not"),
    ("Options of the pod, before the first image", "to the same numbers in the pod (yes, or the pod is refused",
     "volume-kinds/file_system_that_cannot_map_owners"),
    ("Options of the pod, before the first image", "to nobody (no)", "volume-kinds/owners_are_not_mapped_if_disabled"),
    ("Options of the pod, before the first image", "or by the ranges HOST:POD:COUNT[+...].", "volume-kinds/owners_are_mapped_as_ranges_say"),
    ("Options of the pod, before the first image", "Devices in it cannot be used, and set-user-ID bits have no effect, without dev=true and suid=true",
     "volumes/devices_and_set_user_id_bits_on_request"),
    ("Options of the pod, before the first image", "it can itself be a socket, a pipe, or a device that every app has, as /dev/null.",
     "volumes/sources_of_all_types"),
    ("Options of the pod, before the first image", "If it is read-only, so is what is mounted below it",
     "volumes/read_only_holds_for_mounts_below_as_well"),
    ("Options of the pod, before the first image", "The source is looked up on the host at each start of the app.",
     "volumes/sources_are_looked_up_on_the_host_at_each_start"),
    ("Options of the pod, before the first image", "unless propagation=slave is given, for which it has to be on a shared mount",
     "volumes/mounts_of_the_host_arrive_with_propagation_slave"),
    ("Options of the pod, before the first image", "with propagation=shared, in a pod without users of its own, what apps mount there is on the "
                                                   "host, too, and stays", "volumes/mounts_of_an_app_are_on_the_host_with_propagation_shared"),
    ("Options of the pod, before the first image", "With nested=true a volume of any kind is also in the apps that are nested under those that mount "
                                                   "it.", "nested/volumes_and_the_image_of_the_parent"),
    ("Options of the pod, before the first image", "Mount the path HOST of the host, which is absolute or has a slash or begins with a dot, at PATH "
                                                   "in all apps", "volume-kinds/short_form"),
    ("Options of the pod, before the first image", "or, with the name of a volume instead of HOST, the volume of the pod that has the name, or else "
                                                   "the named volume of the store, which is made if it does not exist.",
     "named-volumes/volume_of_the_pod_takes_precedence"),
    ("Options of the pod, before the first image", "cached, delegated, consistent, U, and where SELinux is not active z and Z, are accepted for the "
                                                   "command lines of other tools, and change nothing",
     "volumes/sources_and_options_as_podman_takes_them"),
    ("Options of the pod, before the first image", "a private one with only a loopback interface (the default)",
     "isolation/network_is_loopback_alone"),
    ("Options of the pod, before the first image", "that of the host", "isolation/host_network_by_name"),
    ("Options of the pod, before the first image", "one or more networks by name, each of which gives the pod an interface: eth0, eth1 and so on.",
     "network/several_networks_and_a_fixed_address"),
    ("Options of the pod, before the first image", "The network default is installed with acnspawn.", "network/a_pod_in_the_default_network"),
    ("Options of the pod, before the first image", "Expose a port of an app as PORT of the host, on all its addresses or on IP",
     "network/ports_of_one_address_of_the_host"),
    ("Options of the pod, before the first image", "(0.0.0.0: all of IPv4, [::]: all of IPv6)", "network/ports_of_one_family"),
    ("Options of the pod, before the first image", "with LAST a range of ports.", "network/ports_in_a_row"),
    ("Options of the pod, before the first image", "a pod without one (--net=none) is refused, unless the port is socket-activated.",
     "network/ports_without_a_network_are_refused"),
    ("Options of the pod, before the first image", "unless the port is socket-activated.",
     "sockets/a_port_that_is_exposed_by_its_number_needs_no_network"),
    ("Options of the pod, before the first image", "The name servers in /etc/resolv.conf of the apps, instead of those of the network: these "
                                                   "addresses (may be given several times); those of the host",
     "names/options_replace_the_images_files"),
    ("Options of the pod, before the first image", "Add an entry to /etc/hosts of the apps; with host the entries of the host's file.",
     "names/the_hosts_own"),
    ("Options of the pod, before the first image", "all that follows NAME= on a line is the value, also quotes and blanks at its end; nothing is "
                                                   "expanded. NAME alone takes the value from the environment of acnspawn, and is left out if it is "
                                                   "not set there; NAME* takes all variables whose names begin so. Blanks before a name, empty "
                                                   "lines, and lines that begin with # are ignored.",
     "unit/pod-arguments/environment_files_of_other_tools"),
    ("Options of the pod, before the first image", "A name is taken as it stands, as by podman(1), also with blanks in it",
     "exec-and-environment/names_of_environment_variables"),
    ("Options of the pod, before the first image", "values may be in quotes, also in parts and over several lines, and have escapes by backslashes",
     "unit/pod-arguments/environment_files_of_units"),
    ("Options of the pod, before the first image", "blanks around them are ignored, as are lines that begin with # or ;.",
     "unit/pod-arguments/environment_files"),
    ("Options of the pod, before the first image", "and what cannot be read, or a name with blanks in it, is an error.",
     "unit/pod-arguments/environment_files_that_are_wrong"),
    ("Options of the pod, before the first image", "Pass a secret to all apps: each finds it as the file NAME in the directory "
                                                   "$CREDENTIALS_DIRECTORY. FILE may be - for standard input, or a socket from which the secret is "
                                                   "read until end of file.", "credentials/where_it_comes_from"),
    ("Options of the pod, before the first image", "The credentials of an app, with those of the pod, have at most 1 MiB together.",
     "credentials/what_is_refused"),
    ("Options of the pod, before the first image", "Add an annotation to the pod.", "lifecycle/prepare_writes_a_reified_manifest"),
    ("Options of the pod, before the first image", "Add a user annotation or a user label to the pod.", "lists/pods_by_filters"),
    ("Options of the pod, before the first image", "Add an isolator for the pod as a whole", "isolators/every_isolator_is_reported"),
    ("Options of the pod, before the first image", "on-failure (the default) when all apps have ended, or as soon as one has failed",
     "lifecycle/pod_ends_when_one_app_fails"),
    ("Options of the pod, before the first image", "all only when all apps have ended", "lifecycle/policy_all_lets_others_go_on"),
    ("Options of the pod, before the first image", "any as soon as one app has ended", "lifecycle/policy_any_ends_with_the_first"),
    ("Options of the pod, before the first image", "never only when it is stopped, whatever becomes of its apps",
     "empty-pods/it_stays_when_its_apps_have_ended"),
    ("Options of the pod, before the first image", "tasks when all apps that were started have ended, not before the first was.",
     "nested/an_executor_ends_with_its_tasks"),
    ("Options of the pod, before the first image", "Only a pod with the policy never or tasks can be without apps",
     "empty-pods/other_policies_need_an_app"),
    ("Options of the pod, before the first image", "declare what apps of the pod can have, the first ones and those that are added to it: these "
                                                   "capabilities, besides the default set of an app. An app has them only if its own options or its "
                                                   "image say so; one that requires others is refused.",
     "empty-pods/what_is_declared_bounds_first_and_later_apps"),
    ("Options of the pod, before the first image", "Without this option apps that are added can have what the first apps of the pod have.",
     "empty-pods/a_pod_keeps_the_capabilities_of_its_first_apps_when_they_have_gone"),
    ("Options of the pod, before the first image", "How long an app may take to end after SIGTERM, before it is sent SIGKILL",
     "exit-status/app_that_ignores_term_is_killed_in_time"),
    ("Options of the pod, before the first image", "and how long a post-stop handler may run.", "handlers/post_stop_that_hangs_is_bounded"),
    ("Options of the pod, before the first image", "Stop the pod when all its apps have been inactive for this time", "sockets/an_idle_pod_ends"),
    ("Options of the pod, before the first image", "also the variables of all other apps, and paths of volumes on the host. With reduced these are "
                                                   "left out (environment is empty and source is /), and so are annotations for acnspawn",
     "metadata/a_reduced_manifest_shows_no_environment_or_paths_of_the_host"),
    ("Options of the pod, before the first image", "Credentials are never in the manifest.", "credentials/it_is_in_no_text"),
    ("Options of the pod, before the first image", "With no there is no metadata service, and apps have neither AC_METADATA_URL nor AC_APP_NAME.",
     "metadata/a_pod_without_metadata"),
    ("Options of the pod, before the first image", "The service listens on port 18112 of the pod's loopback, or on the next one that no app of the "
                                                   "pod declares.", "metadata/an_app_gets_the_port_of_the_service"),
    ("Options of the pod, before the first image", "Give the only app of the pod a terminal, if standard input of acnspawn is one, else an open "
                                                   "standard input.", "attach/standard_input_goes_in_and_ends"),
    ("Options of the pod, before the first image", "Give the only app a terminal, whatever standard input of acnspawn is. -it is the same.",
     "short-options/a_terminal_by_letters"),
    ("Options of the pod, before the first image", "If there are several apps, the option stands after the image of the one that it is for.",
     "attach/options_that_mean_no_app_are_refused"),
    ("Options of the pod, before the first image", "for the only app of the pod. What is given after its image takes precedence.",
     "short-options/what_is_given_after_the_image_takes_precedence"),
    ("Options of the pod, before the first image", "They cannot be combined with --pod-manifest=.", "short-options/a_manifest_says_it_itself"),
    ("Options of the pod, before the first image", "Do not use a user namespace.", "users/no_user_namespace_by_name"),
    ("Options of the pod, before the first image", "A store whose file system has no id-mapped mounts can have no other pods.",
     "images/store_without_id_mapped_mounts"),
    ("Options of the pod, before the first image", "Boot the systemd below DIR instead of the host's.", "lifecycle/pod_that_does_not_boot_says_why"),
    ("Options of the pod, before the first image", "Fetch images that are not in the store (new, the default), also check fetched images for newer "
                                                   "versions (update), or fetch nothing (never).", "fetch/update"),
    ("Options of the pod, before the first image", "if the server of an image cannot be reached or reports an error of its own (5xx, 429)",
     "update/a_pod_starts_while_the_registry_is_away"),
    ("Options of the pod, before the first image", "because the clock of the host is still before the time of acnspawn's source, the image of the "
                                                   "store is used, with a warning.", "update/a_host_whose_clock_is_not_set_yet"),
    ("Options of the pod, before the first image", "Accept images over plain http", "registry/plain_http_has_to_be_allowed"),
    ("Options of the pod, before the first image", "without a signature", "fetch/without_a_signature_by_option"),
    ("Options of the pod, before the first image", "or signed by keys that discovery offers.", "fetch/keys_that_are_offered"),
    ("Options of the pod, before the first image", "Abort a transfer that is slower than this", "unit/transfer/too_slow"),
    ("Options of the pod, before the first image", "Decrypt encrypted images with the passphrase in FILE.", "fetch/encrypted"),
    ("Options of an app, after its image", "a number, which is one also if the image has a user of that name", "users/a_number_is_a_number"),
    ("Options of an app, after its image", "a name in the image", "users/names"),
    ("Options of an app, after its image", "or an absolute path in the image whose owner is used.", "users/owner_of_a_path"),
    ("Options of an app, after its image", "A user without a group has the groups that /etc/passwd and /etc/group of the image have for it, whatever "
                                           "those of the image's user are (supplementaryGIDs, too)",
     "users/supplementary_groups_of_the_image_are_its_users"),
    ("Options of an app, after its image", ":GROUP is another group for the image's user.", "oci/another_user_has_its_own_groups"),
    ("Options of an app, after its image", "one of its own", "processes/a_private_app_is_process_1_and_sees_no_others"),
    ("Options of an app, after its image", "the one of all apps of the pod with shared", "processes/apps_share_a_namespace_without_the_pods_systemd"),
    ("Options of an app, after its image", "or that of another app, which has to have private.", "processes/an_app_joins_the_processes_of_another"),
    ("Options of an app, after its image", "with merge always, with strict never", "users/group_policies"),
    ("Options of an app, after its image", "It is made if it is not in the image",
     "exec-and-environment/a_working_directory_that_the_image_has_not_is_made"),
    ("Options of an app, after its image", "no (the default), on-failure or always.", "restarts/nothing_is_restarted_by_default"),
    ("Options of an app, after its image", "Each start gets a clean root; volumes keep their content.",
     "restarts/an_app_that_fails_is_started_again_with_a_clean_root"),
    ("Options of an app, after its image", "An end that is followed by a restart is ignored by the exit policy of the pod.",
     "restarts/exit_policies_and_restarts"),
    ("Options of an app, after its image", "Images cannot request this.", "restarts/an_image_cannot_ask_to_be_started_again"),
    ("Options of an app, after its image", "It is doubled for each further consecutive restart, up to --restart-delay-max=.",
     "restarts/an_app_that_crashes_again_and_again_waits_longer_and_is_given_up"),
    ("Options of an app, after its image", "After that the app is not restarted any more, and the exit policy of the pod treats it as ended.",
     "restarts/an_app_that_always_ends_is_given_up_as_well"),
    ("Options of an app, after its image", "status shows the number of restarts, the limit, and when the next one is due.",
     "restarts/status_shows_when_the_next_start_is"),
    ("Options of an app, after its image", "Start the app only when these apps of the pod are ready",
     "readiness/an_app_after_another_waits_until_that_is_ready"),
    ("Options of an app, after its image", "or a number, as 80 or 53/udp, which the image need not declare.", "sockets/ports_that_the_user_names"),
    ("Options of an app, after its image", "Whether the app reports readiness itself, with sd_notify(3).",
     "readiness/an_option_takes_it_from_an_image_or_gives_it"),
    ("Options of an app, after its image", "Then it is stopped, and has failed with the cause not-ready.",
     "readiness/an_app_that_is_not_ready_in_time_has_failed"),
    ("Options of an app, after its image", "Check whether the app is healthy by running this command beside it, confined as the app",
     "readiness/a_check_is_confined_as_the_app_is"),
    ("Options of an app, after its image", "This replaces the image's own check (images in Docker's format can have one); none disables it.",
     "readiness/images_health_checks_can_be_left_out_or_changed"),
    ("Options of an app, after its image", "the time that one may take (30 seconds) before it is killed and has failed",
     "readiness/a_check_that_takes_too_long_has_failed_and_is_killed"),
    ("Options of an app, after its image", "SIGKILL for its main process", "readiness/an_unhealthy_app_is_killed"),
    ("Options of an app, after its image", "an orderly restart, whatever the restart policy", "readiness/an_unhealthy_app_is_restarted"),
    ("Options of an app, after its image", "and not more often in a row than --restart-limit=, after which it is stopped",
     "readiness/an_app_without_restarts_left_is_stopped_alone"),
    ("Options of an app, after its image", "or an orderly stop, which also ends the pod unless its exit policy is all. The cause of the app's end is "
                                           "then unhealthy.", "readiness/an_unhealthy_app_is_stopped"),
    ("Options of an app, after its image", "The signal that requests the app to end (the default is SIGTERM)",
     "restarts/the_signal_that_stops_an_app_can_be_chosen"),
    ("Options of an app, after its image", "It has failed then, also if it ends with status 0, and is restarted if its restart policy says so.",
     "exit-status/an_app_that_has_used_up_its_time_has_failed"),
    ("Options of an app, after its image", "If the app runs out of memory, kill all its processes instead of one.",
     "vm/readiness/with_oom_group_all_of_the_app_is_killed"),
    ("Options of an app, after its image", "Otherwise the app ends only if the process that the kernel chooses is its main process.",
     "vm/readiness/one_process_that_is_killed_for_memory_does_not_end_the_app"),
    ("Options of an app, after its image", "Apps of the pod with the same NAME share their fate: if one of them fails, and is not started again, the "
                                           "others are stopped. It makes no difference to them when one ends with status 0.",
     "groups/apps_of_a_new_pod_can_share_their_fate"),
    ("Options of an app, after its image", "The end of the app has no effect on the pod, whatever its exit policy is, nor on the pod's exit status",
     "groups/transient_apps_do_not_end_the_pod"),
    ("Options of an app, after its image", "Let the app launch apps that are nested under it, and control them, by calls over a socket",
     "containers/an_app_launches_others_under_it"),
    ("Options of an app, after its image", "launch apps of images of the store with such names, besides its own image",
     "containers/other_images_take_the_word_of_the_operator"),
    ("Options of an app, after its image", "whether it counts against the limits of its parent alone, and has none of its own (true, the default). "
                                           "Apps with the same parent are alike.", "nested/apps_beside_each_other_are_alike_in_sharing_cgroups"),
    ("Options of an app, after its image", "Lines beyond that are not stored; the journal then has a line with their number, and status shows it, "
                                           "too.", "logs/dropped_output_is_reported_while_the_pod_runs"),
    ("Options of an app, after its image", "output of an app in the last hour is not lost, whatever the others write.",
     "logs/an_app_does_not_displace_the_output_of_others"),
    ("Options of an app, after its image", "A single app has no limit.", "logs/an_app_that_is_alone_is_not_bounded"),
    ("Options of an app, after its image", "and has to be a regular file.", "logs/only_regular_files_are_logs"),
    ("Options of an app, after its image", "each line is TIME stdout|stderr F|P TEXT with the time in UTC and nine digits of the second.",
     "logs/log_file_has_both_streams_in_cri_format"),
    ("Options of an app, after its image", "All output of an app is in the file before the app is reported as ended",
     "logs/log_file_is_complete_when_the_app_has_ended"),
    ("Options of an app, after its image", "An app that is started again, and other pods, append to it.", "logs/restarted_app_appends"),
    ("Options of an app, after its image", "Output that cannot be written, as on a full disk, is dropped, and neither the app nor the pod blocks: "
                                           "the journal has a line about it, and status shows the amount.",
     "logs/full_file_system_does_not_stop_the_app"),
    ("Options of an app, after its image", "the app waits once about half a megabyte of its output is not written, as with a full pipe; other apps, "
                                           "commands, and the end of the pod do not wait.",
     "stalls/a_log_file_system_that_hangs_delays_its_app_alone"),
    ("Options of an app, after its image", "When the pod ends, output that is not written after three seconds without any progress is given up, with "
                                           "a message.", "stalls/a_pod_ends_while_the_file_system_of_a_log_hangs"),
    ("Options of an app, after its image", "With max-size= (at least 64Ki), the file does not grow beyond that.", "logs/log_file_has_a_limit"),
    ("Options of an app, after its image", "that of its pod, that of the host, both or none.", "vm/units/output_in_the_journal_on_request"),
    ("Options of an app, after its image", "and also the host's if the output of acnspawn itself goes there, as in the unit acnspawn@NAME.service.",
     "vm/units/output_in_the_journal_of_the_host"),
    ("Options of an app, after its image", "and what is in neither from the log file, if there is one.",
     "logs/without_the_journal_logs_reads_the_file"),
    ("Options of an app, after its image", "Limit the processes and threads of the app, 2048 by default",
     "isolators/processes_are_limited_by_default"),
    ("Options of an app, after its image", "An app with CAP_SYS_ADMIN in a pod with a user namespace needs two to be started.",
     "neighbours/an_app_that_may_mount_needs_two_tasks_to_be_started"),
    ("Options of an app, after its image", "Further attributes of the app's cgroup are in the isolator os/linux/cgroup, by the names that they have "
                                           "in the kernel", "vm/cri/attributes_of_cgroups_change_while_the_container_runs"),
    ("Options of an app, after its image", "Keep only these capabilities, or remove these from the default set of an app",
     "users/retain_set_is_all_there_is"),
    ("Options of an app, after its image", "The weight of the app when the apps of the pod compete for processors",
     "vm/limits/shares_divide_what_apps_compete_for"),
    ("Options of an app, after its image", "Limit the bytes, or operations, per second that the app may read from each of the pod's disks, and as "
                                           "many that it may write", "vm/limits/bytes_and_operations_of_disks_keep_to_their_rates"),
    ("Options of an app, after its image", "Set a kernel parameter of the pod, which all its apps share",
     "isolators/kernel_parameters_are_the_pods_and_only_its"),
    ("Options of an app, after its image", "With the mode retain the app may use only these system calls, with remove all but these.",
     "system-calls/retain_set"),
    ("Options of an app, after its image", "Other calls fail with the error (such as EPERM), or, if none is given, kill the app.",
     "system-calls/remove_set_with_error"),
    ("Options of an app, after its image", "Otherwise such an image is refused, with the names in the message",
     "privileges/all_of_it_is_refused_at_once"),
    ("Options of an app, after its image", "what the image does not request is not given",
     "isolators/grants_of_what_is_not_requested_cause_warnings"),
    ("Options of an app, after its image", "none runs the app within the defaults.", "privileges/capabilities_are_granted_by_each_way"),
    ("Options of an app, after its image", "The system calls of the app are those of this profile, instead of the default filter or that of "
                                           "--seccomp=: JSON as the runtime specification of OCI has it", "system-calls/profile_in_the_form_of_oci"),
    ("Options of an app, after its image", "Give the app these of its capabilities even if its user is not root",
     "users/ambient_capabilities_are_those_of_any_user"),
    ("Options of an app, after its image", "Put this device of the host, or all devices in this directory, into the app's /dev",
     "isolation/devices_of_the_host_that_are_given"),
    ("Options of an app, after its image", "With letters the app can open the device for reading (r), writing (w), or neither, whatever its mode and "
                                           "owner say", "isolation/devices_that_are_filtered"),
    ("Options of an app, after its image", "an app cannot be started, unless this is optional; acnspawn status says exposed then.",
     "isolation/landlock_that_is_refused_from_outside"),
    ("Options of an app, after its image", "Whether root of the app can write to /sys", "isolation/sys_can_be_writable"),
    ("Options of an app, after its image", "Paths of the app's root that are hidden by empty files and directories, or read-only, with everything "
                                           "below. They replace the defaults", "isolation/paths_can_be_masked_and_read_only_instead"),
    ("Options of an app, after its image", "Run the app in this profile or context, if that security module is active on the host",
     "vm/apparmor/an_app_runs_in_exactly_its_profile"),
    ("Options of an app, after its image", "pipe is the same as --stdin, and terminal a terminal of the pod, which is also standard output and "
                                           "standard error", "attach/a_terminal_is_one"),
    ("Options of an app, after its image", "TERM is then that of the process that runs the pod, unless the app sets it.",
     "attach/an_app_that_has_a_terminal_name_keeps_it"),
    ("Options of an app, after its image", "in the registry, or on the server of the image's name or URL", "update/the_registry_has_a_newer_image"),
    ("Options of an app, after its image", "or only in the store and in local files.", "update/images_of_the_store_and_of_files"),
    ("Options of an app, after its image", "The default is none: it leaves the app alone.", "update/apps_without_a_policy_are_left_alone"),
    ("Options of an app, after its image", "Before the first image the option is for all apps that do not say it themselves.",
     "update/apps_without_a_policy_are_left_alone"),
    ("Options of the pod, before the first image", "Give the only app an open standard input, a pipe, instead of /dev/null: in the foreground that "
                                                   "of acnspawn", "attach/standard_input_goes_in_and_ends"),
    ("Options of the pod, before the first image", "and with exec=false without programs that can be executed.",
     "image-volumes/image_is_read_only_in_a_pod"),
    ("Options of an app, after its image", "A last line without a newline is P; an empty F then separates it from the output of the next start.",
     "logs/restarted_app_appends"),
    ("Options of an app, after its image", "In the format plain there is only the text.", "logs/restarted_app_appends"),
    ("Options of an app, after its image", "The default is the annotation appc.io/executor/supports-systemd-notify of the image.",
     "readiness/an_option_takes_it_from_an_image_or_gives_it"),
    ("Options of an app, after its image", "An app that is nested itself can have it only if its parent has.",
     "nested/a_nested_app_has_no_more_rights_than_its_parent"),
    ("Options of an app, after its image", "and its devices are filtered as with --device-policy=closed.", "isolation/devices_that_are_filtered"),
)

main()

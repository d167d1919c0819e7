#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn.conf(5), sentence by sentence."""

import tempfile

from manual import *

PAGE = page("acnspawn.conf.5", "0b33a3f17ac4ff0a")


def with_config(host, text, *words, **more):
    """A call with a configuration of its own."""
    directory = tempfile.mkdtemp(dir=host.tmp)
    with open(os.path.join(directory, "acnspawn.conf"), "w") as f:
        f.write(text)
    return host.acnspawn("--config-dir=" + directory, *words, **more)


def values(host, text, rc=0):
    return {"%s.%s" % (row["section"], row["key"]): row["value"] for row in json.loads(with_config(host, text, "config", "--json").expect(rc).out)}


@sentence("EXAMPLES", "[Store] Directory=/srv/acnspawn [Image] PullPolicy=update [Pod] Network=default Memory=2G TasksMax=1000")
@sentence("DESCRIPTION", "The keys are long options in the spelling of systemd; their values are those of the options.")
@sentence("DESCRIPTION", "An empty value resets a key to its default.")
def the_example(host):
    text = "[Store]\nDirectory=/srv/acnspawn\n\n[Image]\nPullPolicy=update\n\n[Pod]\nNetwork=default\nMemory=2G\nTasksMax=1000\n"
    v = values(host, text)
    equal([v[k] for k in ("Image.PullPolicy", "Pod.Network", "Pod.Memory", "Pod.TasksMax")], ["update", "default", "2G", "1000"])
    v = values(host, text + "PullPolicy=\n[Pod]\nTasksMax=\nNetwork=\n[Image]\nPullPolicy=\n")
    equal([v[k] for k in ("Image.PullPolicy", "Pod.Network", "Pod.Memory", "Pod.TasksMax")], ["new", "none", "2G", "8192"])


@sentence("[STORE] SECTION", "The default is /var/lib/acnspawn.")
@sentence("[IMAGE] SECTION", "new (the default), update or never, as --pull-policy=.")
@sentence("[IMAGE] SECTION", "The default is 512.")
@sentence("[POD] SECTION", "The networks of a pod, as --net=. The default is none.")
@sentence("[POD] SECTION", "The default is 10s.")
@sentence("[POD] SECTION", "By default there is a limit of tasks alone: 8192.")
@sentence("[APP] SECTION", "By default there is a limit of tasks alone: 2048.")
@sentence("[APP] SECTION", "The default is auto.")
@sentence("[RUN] SECTION", "The default is ctrl-] three times.")
@sentence("[RUN] SECTION", "The default is infinity.")
def defaults(host):
    env = {k: v for k, v in os.environ.items() if k != "ACNSPAWN_DIR"}
    rows = json.loads(subprocess.run([ACNSPAWN, "--config-dir=" + host.path("none"), "config", "--json"], env=env, capture_output=True, text=True).stdout)
    v = {"%s.%s" % (row["section"], row["key"]): row["value"] for row in rows}
    for key, value in (("Store.Directory", "/var/lib/acnspawn"), ("Image.PullPolicy", "new"), ("Image.MinSpeed", "512"), ("Pod.Network", "none"), ("Pod.StopTimeout", "10s"),
                       ("Pod.Memory", "infinity"), ("Pod.TasksMax", "8192"), ("App.TasksMax", "2048"), ("App.Log", "auto"), ("Run.DetachKeys", "ctrl-],ctrl-],ctrl-]"),
                       ("Run.ReadyTimeout", "infinity"), ("Pod.ImagePolicy", "none")):
        equal(v[key], value, key)


@sentence("[RUN] SECTION", "The time in which a pod has to be ready, as --ready-timeout= of run.")
@sentence("[RUN] SECTION", "The keys that detach from a terminal, as --detach-keys= of run and attach.")
@sentence("DESCRIPTION", "A value that is not valid is an error of the commands that use it.")
def settings_of_run(host):
    words = ["run", "--detach", "--name=late", *app(host, "a", "sleep 1000", "--health-cmd=test -e /never", "--health-retries=1000")]
    contains(with_config(host, "[Run]\nReadyTimeout=300ms\n", *words).expect(1).err, "was not ready in time")
    text = "[Run]\nDetachKeys=wrong\n"
    true(with_config(host, text, "run", "--rm", base(host)).rc in (1, 2), "keys that are not valid")
    with_config(host, text, "list").expect(0)


@sentence("[POD] SECTION", "For pods that prepare and run make; not for those that run runs again.")
@sentence("DESCRIPTION", "An option that can be given several times replaces the value here; it is not added to it.")
def pods_that_run_again_keep_theirs(host):
    text = "[Pod]\nDNS=192.0.2.1 192.0.2.2\nHostsEntry=192.0.2.3=three\n"
    servers = lambda pod: host.status(pod)["dns"]["servers"]
    with_config(host, text, "run", "--name=p", base(host)).expect(0)
    equal((servers("p"), host.status("p")["hostsEntries"] != []), (["192.0.2.1", "192.0.2.2"], True))
    with_config(host, "[Pod]\nDNS=192.0.2.9\n", "run", "p").expect(0)
    equal(servers("p"), ["192.0.2.1", "192.0.2.2"])
    uuid = with_config(host, text, "prepare", "--dns=192.0.2.8", base(host)).expect(0).out.strip()
    equal(servers(uuid), ["192.0.2.8"])


# As it would be with other contents of the three directories.
ELSEWHERE = """
for d in etc usr/lib; do
        mkdir -p "$0/$d/upper" "$0/$d/work"
        mount -t overlay none -o "lowerdir=/$d,upperdir=$0/$d/upper,workdir=$0/$d/work" "/$d"
        rm -rf "/$d/acnspawn"
done
mount -t tmpfs none /run
for d in etc run usr/lib; do
        mkdir -p "/$d/acnspawn"
        cp -a "$0/files/$d/." "/$d/acnspawn"
done
exec "$@"
"""


@sentence("DESCRIPTION", "Of the files acnspawn.conf the first that exists is read.")
@sentence("DESCRIPTION", "of drop-ins with the same name, the one in /etc takes precedence over that in /run, and that over the one in /usr/lib. A "
                         "link to /dev/null masks a file of the same name.")
def the_three_directories(host):
    top = host.path("elsewhere")
    files = {"run/acnspawn.conf": "[Pod]\nTasksMax=1\n", "usr/lib/acnspawn.conf": "[Pod]\nTasksMax=2\nMemory=2G\n",
             "usr/lib/acnspawn.conf.d/10-masked.conf": "[Pod]\nNetwork=host\n", "usr/lib/acnspawn.conf.d/20-both.conf": "[Pod]\nCPU=2\nStopTimeout=2s\n",
             "run/acnspawn.conf.d/20-both.conf": "[Pod]\nCPU=1\n", "usr/lib/acnspawn.conf.d/30-alone.conf": "[Image]\nMinSpeed=7\n"}
    for name, text in files.items():
        path = os.path.join(top, "files", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    os.makedirs(os.path.join(top, "files/etc/acnspawn.conf.d"))
    os.symlink("/dev/null", os.path.join(top, "files/etc/acnspawn.conf.d/10-masked.conf"))
    env = {k: v for k, v in os.environ.items() if k != "ACNSPAWN_CONFIG_DIR"}

    def read():
        r = subprocess.run(["unshare", "--mount", "--propagation=private", "sh", "-ec", ELSEWHERE, top, *host.argv("config", "--json")],
                           env=env, capture_output=True, text=True, timeout=patience(60))
        equal(r.returncode, 0, r.stderr)
        return [row["value"] for key in ("TasksMax", "Memory", "Network", "CPU", "StopTimeout", "MinSpeed") for row in json.loads(r.stdout)
                if row["key"] == key and row["section"] in ("Pod", "Image")]
    equal(read(), ["1", "infinity", "none", "1", "10s", "7"])
    with open(os.path.join(top, "files/etc/acnspawn.conf"), "w") as f:
        f.write("[Pod]\nTasksMax=3\n")
    equal(read(), ["3", "infinity", "none", "1", "10s", "7"])


elsewhere(
    ("DESCRIPTION", "Then the drop-ins of all directories are read in the order of their names, and a later file takes precedence",
     "config/drop_ins_in_the_order_of_their_names"),
    ("DESCRIPTION", "What is given on the command line takes precedence over the environment, and that over these files.",
     "config/the_directory_of_the_store"),
    ("DESCRIPTION", "Unknown sections and keys are ignored with a warning that names file and line, except those that begin with X-.",
     "config/mistakes"),
    ("DESCRIPTION", "acnspawn-config(1) shows and checks all of them.", "config/mistakes"),
    ("[STORE] SECTION", "The store, as --dir= and ACNSPAWN_DIR: an absolute path.", "config/the_directory_of_the_store"),
    ("[STORE] SECTION", "After a change systemctl daemon-reload lets the units of acnspawn wait for the file system of that place",
     "vm/units/unit_files"),
    ("[IMAGE] SECTION", "For prepare, run, add-app, launch, launch-group, update-app and fetch", "config/the_pull_policy"),
    ("[POD] SECTION", "Of declared pods apply compares what runs with the pod that run would make by now",
     "apply/defaults_of_the_host_are_part_of_what_is_declared"),
    ("[POD] SECTION", "How long an app may take to end, as --stop-timeout=.", "config/pods_get_what_is_set"),
    ("[POD] SECTION", "Limits for all apps of a pod together, as the options of a pod of these names. They are not applied to a pod that is made "
                      "from a pod manifest, which has its own.", "config/a_pod_manifest_has_its_own_limits"),
    ("[POD] SECTION", "as --dns=, --dns-search=, --dns-option= and --hosts-entry=: words with spaces between them.", "config/name_resolution"),
    ("[POD] SECTION", "Where acnspawn update looks for newer images of apps that do not say it themselves, as --image-policy= before the first image.",
     "config/the_policy_for_images"),
    ("[POD] SECTION", "With registry images of files are refused unless their apps say otherwise.", "config/the_policy_for_images"),
    ("[APP] SECTION", "For apps of prepare, run, add-app, launch and launch-group, unless they come from a pod manifest or a file of launch-group.",
     "config/apps_that_are_launched_have_these_limits_too"),
    ("[APP] SECTION", "They are in place of those in the manifest of an image, and an option of the app replaces them.",
     "config/each_app_has_its_limits"),
    ("[APP] SECTION", "The journals that have the output of an app, as --log=.", "config/each_app_has_its_limits"),
    ("[APP] SECTION", "How much of the pod's journal an app may fill, as --log-size= and --log-rate=.", "config/pods_get_what_is_set"),
)

main()

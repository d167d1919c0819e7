#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-pod(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-pod.1", "0b433013b0cd8c48")


def pod(host, *words, **more):
    os.makedirs(host.path("config/pods"), exist_ok=True)
    return host.acnspawn("--config-dir=" + host.path("config"), "pod", *words, **more)


@sentence("DESCRIPTION", 'Where these commands take a NAME they take a file as well: a word with a slash, or that ends in ".pod".')
@sentence("pod create", "Writes the file, and prints its path.")
@sentence("pod create", "Options that are only for one run, such as --detach, are left out; relative paths and variables of the environment are "
                        "written as they are now.")
@sentence("pod create", "A file with values of secrets or of the environment can be read by root alone.")
@sentence("pod create", "The file appears when it is complete; an existing one is not replaced.")
@sentence("pod create", "Replace the file if it exists.")
def a_command_line_becomes_a_file(host):
    path = host.path("config/pods/web.pod")
    os.makedirs(host.path("files"))
    words = ["web", "--", "--detach", "--environment=HERE", base(host), "-v", "./files:/v", "--", "a b"]
    equal(pod(host, "create", *words, cwd=host.tmp, env={**os.environ, "HERE": "caller"}).expect(0).out, path + "\n")
    text = read_text(path)
    for part in "HERE=caller", "Volume=" + host.tmp, "[App base]", '"a b"':
        contains(text, part)
    lacks(text, "etach")
    equal(os.stat(path).st_mode & 0o777, 0o600)
    pod(host, "create", "web", "--", base(host)).expect(1)
    equal(read_text(path), text)
    pod(host, "create", "-f", "web", "--", base(host)).expect(0)
    lacks(read_text(path), "HERE")
    equal(os.stat(path).st_mode & 0o777, 0o644)
    equal(pod(host, "cat", path).expect(0).out, pod(host, "cat", "web").expect(0).out)
    pod(host, "verify", path).expect(0)


@sentence("pod create", "The second form writes what an existing pod was made of, with what was changed while it ran.")
@sentence("pod create", "A pod of a pod manifest, or with secrets that were not in files, cannot be written.")
@sentence("pod create", 'Write to FILE, or with "-" to standard output, instead of /etc/acnspawn/pods.')
@sentence("EXAMPLES", "The file of a pod that runs: # acnspawn pod create web --from=web --output=-")
def an_existing_pod_becomes_a_file(host):
    host.detach("--name=web", "--exit-policy=never", "--user-label=a=b", base(host), "--name=one")
    host.acnspawn("add-app", "web", base(host), "--name=later", "--environment=A=1").expect(0)
    text = pod(host, "create", "web", "--from=web", "--output=-").expect(0).out
    for part in "ExitPolicy=never", "a=b", "[App one]", "[App later]", "A=1":
        contains(text, part)
    host.prepare("--name=secret", base(host), "--set-credential=a:b")
    pod(host, "create", "x", "--from=secret", "--output=-").expect(1)
    manifest = host.acnspawn("cat-manifest", "secret").expect(0).out
    host.prepare("--name=manifest", "--pod-manifest=-", input=manifest.encode())
    pod(host, "create", "x", "--from=manifest", "--output=-").expect(1)


@sentence("pod verify", "Checks declared pods with their drop-ins, and prints all mistakes and warnings with file and line")
@sentence("pod verify", "The exit status is 0 if there are no mistakes, else 1.")
@sentence("pod verify", "one that is not in the store is a warning, since it is fetched when the pod is started, and a file that cannot be read is "
                        "a mistake.")
def files_are_checked(host):
    os.makedirs(host.path("config/pods/x.pod.d"), exist_ok=True)
    files = host.path("config/pods/x.pod"), host.path("config/pods/x.pod.d/10.conf")
    for path, text in zip(files, ("[App a]\nImage=example.com/not-there\n[App b]\nImage=%s\n" % host.path("missing.aci"), "[Pod]\nNothing=1\nMemory=lots\n")):
        with open(path, "w") as f:
            f.write(text)
    lines = pod(host, "verify", "x").expect(1).out.splitlines()
    for start in files[0] + ":2: warning: ", files[0] + ":4: error: ", files[1] + ":2: warning: ", files[1] + ":3: error: ":
        true(any(line.startswith(start) for line in lines), "a line with %s: %r" % (start, lines))
    for path in files:
        os.unlink(path)
    os.rmdir(host.path("config/pods/x.pod.d"))


@sentence("EXAMPLES", "# acnspawn pod create web -- \\ --net=default --port=8080:80 \\ docker://registry.example.com/nginx")
@sentence("pod list", "Lists the declared pods with their files and drop-ins, and the state and the UUID of the pod that has the name now.")
@sentence("pod cat", "Shows the file of each pod and its drop-ins, in the order in which they are read.")
def the_example(host):
    pod(host, "create", "shop", "--", "--net=default", "--port=8080:80", "docker://registry.example.com/nginx").expect(0)
    text = pod(host, "cat", "shop").expect(0).out
    for part in "Net=default\n", "Port=8080:80\n", "[App nginx]\n", "Image=docker://registry.example.com/nginx\n":
        contains(text, part)
    contains(pod(host, "list").expect(0).out, "shop")


elsewhere(
    ("pod create", "The first form takes what acnspawn run would be given, and writes each option by its own name",
     "declared/every_option_survives_the_file"),
    ("pod create", "with what was changed while it ran.", "declared/the_pod_as_it_is_by_now"),
    ("pod verify", "also settings of the sections for units of the host that acnspawn refuses", "declared/verify"),
    ("pod verify", "what acnspawn prepare --dry-run finds is shown, too: ports, mount points, privileges and volumes that do not fit. Nothing of "
                   "that stays.", "declared/images_are_verified_as_far_as_they_are_there"),
    ("pod verify", "Networks are looked for in any case.", "declared/verify"),
    ("pod list", "Lists the declared pods with their files and drop-ins, and the state and the UUID of the pod that has the name now.",
     "declared/list_and_cat"),
    ("EXAMPLES", "# systemctl enable --now acnspawn@web", "vm/declared/enabled_by_its_template"),
)

main()

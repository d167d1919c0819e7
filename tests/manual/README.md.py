#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The commands of README.md, as they are written there, one after the other."""

from manual import *

PAGE = page("README.md", "46b658ba597a73de")

# What takes systemd as the init of the host (tests/vm/packages.py), or a terminal (tests/integration/attach.py).
NOT_HERE = "acnspawn list --all web", "acnspawn attach shell"
SHOWN = {
    "acnspawn image list": "example.com/greeter",
    "acnspawn logs --app=counter hello": "3 greetings were left on the board",
    "acnspawn list --filter state=exited --format='{name}\\t{exitStatus}'": "hello\t0\n",
    "acnspawn volume list --size": "notes",
    "acnspawn enter sleeper ps": "sleep 1000",
    "acnspawn pod verify web": "web.pod",
    "acnspawn update --dry-run": "current",
    "acnspawn df": "images",
}


def commands():
    with open(os.path.join(pages.TOP, "README.md"), encoding="utf-8") as f:
        return [line.strip() for line in f if line.startswith("    acnspawn ")]


@sentence("Step by step", "acnspawn fetch build/images/greeter.aci acnspawn image list acnspawn image cat-manifest example.com/greeter acnspawn "
                          "prepare --name=hello")
@sentence("Step by step", "acnspawn rm hello sleeper limited box watched acnspawn df acnspawn image rm example.com/greeter example.com/counter "
                          "acnspawn prune --force all volumes")
def its_commands_succeed(host):
    work, config = host.path("work"), host.path("config")
    os.makedirs(os.path.join(work, "build"))
    os.makedirs(os.path.join(config, "net.d"))
    shutil.copy(os.path.join(pages.TOP, "README.md"), work)
    shutil.copy(os.path.join(pages.TOP, "stage0/network/default.conflist"), os.path.join(config, "net.d"))
    subprocess.run([os.path.join(pages.TOP, "tools/make-example-images"), os.path.join(work, "build/images")], check=True, capture_output=True)
    env = {**os.environ, "ACNSPAWN_DIR": host.dir, "ACNSPAWN_CONFIG_DIR": config, "PROGRAM": ACNSPAWN}
    found = commands()
    true(set(SHOWN) | set(NOT_HERE) <= set(found), "commands that README.md has not any more: %r" % (set(SHOWN) | set(NOT_HERE)).difference(found))
    for line in found:
        if line not in NOT_HERE:
            r = subprocess.run(["sh", "-c", 'acnspawn() { "$PROGRAM" "$@"; }; ' + line], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=patience(60))
            host.note_pods()
            equal(r.returncode, 0, "status of %s, which says %r," % (line, r.stderr))
            contains(r.stdout, SHOWN.get(line, ""), "what %s shows" % line)


elsewhere(
    ("Step by step", "systemctl enable --now acnspawn@web", "vm/declared/enabled_by_its_template"),
    ("Step by step", "acnspawn list --all web", "declared/a_declared_pod_runs_again_and_again"),
    ("Step by step", "acnspawn attach shell", "attach/keys_leave_a_terminal"),
    ("Step by step", "varlinkctl call --more $S org.acnspawn.Host.ListPods '{}'", "vm/host-service/with_varlinkctl"),
    ("Packages", "dpkg-buildpackage --no-sign --build=binary", "vm/packages/the_first_steps_of_the_readme"),
)

main()

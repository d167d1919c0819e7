#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-config(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-config.1", "9c80b84e7179b0ad")


def config(host, text, *args, env=None):
    os.makedirs(host.path("etc"), exist_ok=True)
    with open(host.path("etc/acnspawn.conf"), "w") as f:
        f.write(text)
    return host.acnspawn("config", *args, env={**os.environ, "ACNSPAWN_CONFIG_DIR": host.path("etc"), **(env or {})})


@sentence("DESCRIPTION", "Shows all keys of acnspawn.conf(5) with the values that are in force, and where each comes from: file and line, --dir, ACNSPAWN_DIR, or default.")
@sentence("DESCRIPTION", "With --json each is an object with section, key, value and origin.")
def keys_with_values_and_origins(host):
    rows = json.loads(config(host, "[Pod]\n\nTasksMax=77\n", "--json=short").expect(0).out)
    equal({frozenset(r) for r in rows}, {frozenset(("section", "key", "value", "origin"))})
    found = {r["key"]: (r["value"], r["origin"]) for r in rows if r["section"] != "App"}
    equal(found["TasksMax"], ("77", host.path("etc/acnspawn.conf") + ":3"))
    equal(found["PullPolicy"][1], "default")
    equal(found["Directory"], (host.dir, "--dir"))
    with open(os.path.join(pages.MAN, "acnspawn.conf.5")) as f:
        documented = set(re.findall(r"([A-Z][A-Za-z]+)=", pages.plain(f.read())))
    equal({r["key"] for r in rows} - documented, set(), "keys that acnspawn.conf(5) lacks")
    env = {**os.environ, "ACNSPAWN_CONFIG_DIR": host.path("etc"), "ACNSPAWN_DIR": "/x"}
    rows = json.loads(subprocess.run([ACNSPAWN, "config", "-j"], env=env, stdout=subprocess.PIPE, check=True).stdout)
    equal([(r["value"], r["origin"]) for r in rows if r["key"] == "Directory"], [("/x", "ACNSPAWN_DIR")])


@sentence("DESCRIPTION", "What is ignored in the files is a warning; all values are checked, and each that is not valid is an error.")
@sentence("EXIT STATUS", "0 on success; 1 if a file cannot be read or a value is not valid; 2 if the command line is not valid.")
def mistakes(host):
    contains(config(host, "[Pod]\nNothing=1\n").expect(0).err, ":2: the key 'Nothing' is unknown, and ignored")
    err = config(host, "[Pod]\nTasksMax=x\n[Image]\nPullPolicy=y\n").expect(1).err
    contains(err, ":2: ")
    contains(err, ":4: ")
    config(host, "", "--nothing").expect(2)
    os.unlink(host.path("etc/acnspawn.conf"))
    os.mkdir(host.path("etc/acnspawn.conf"))
    host.acnspawn("config", env={**os.environ, "ACNSPAWN_CONFIG_DIR": host.path("etc")}).expect(1)
    os.rmdir(host.path("etc/acnspawn.conf"))


elsewhere(
    ("OPTIONS", "--cat Show the files that were read, in their order, each after a line with its name.", "config/drop_ins_in_the_order_of_their_names"),
)

main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn.pod(5), sentence by sentence."""

from manual import *

PAGE = page("acnspawn.pod.5", "b9bd0e926529d191")

SHOP = """[Pod]
Net=default
Port=8080:80
Volume=data,kind=named,source=shop-data
Memory=1Gi

[App db]
Image=docker://registry.example.com/postgres:16
Mount=data:/var/lib/postgresql/data
LoadCredential=password:%s
Environment=POSTGRES_PASSWORD_FILE=/dev/credentials/password
HealthCmd=pg_isready
Restart=on-failure

[App web]
Image=docker://registry.example.com/nginx:1.27
After=db
ReadOnly=yes
"""
WIKI = """[Pod]
Port=8080:80
ExitIdleTime=10min

[App web]
Image=docker://registry.example.com/wiki:3
SocketActivated=80

[Install]
WantedBy=sockets.target
"""


def write(host, name, text):
    path = host.path("config/pods", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    return path


def declared(host, *words):
    return host.acnspawn("--config-dir=" + host.path("config"), *words)


def verified(host, name, text, rc=0):
    """What is said about a file, without that images are not in the store."""
    write(host, name + ".pod", text)
    return [line for line in declared(host, "pod", "verify", name).expect(rc).out.splitlines() if "is not in the store" not in line]


def networks(host):
    """A network 'default', so that it is found wherever this runs."""
    os.makedirs(host.path("config/net.d"), exist_ok=True)
    with open(host.path("config/net.d/default.conflist"), "w") as f:
        json.dump({"cniVersion": "1.0.0", "name": "default", "plugins": [{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMappings": True}}]}, f)


@sentence("EXAMPLES", "[App db] Image=docker://registry.example.com/postgres:16 Mount=data:/var/lib/postgresql/data "
                      "LoadCredential=password:/etc/shop/password Environment=POSTGRES_PASSWORD_FILE=/dev/credentials/password "
                      "HealthCmd=pg_isready Restart=on-failure")
@sentence("EXAMPLES", "[Pod] Port=8080:80 ExitIdleTime=10min [App web] Image=docker://registry.example.com/wiki:3 SocketActivated=80 [Install] "
                      "WantedBy=sockets.target")
@sentence("EXAMPLES", "A drop-in of the administrator, which takes the port back and sets another: [Pod] Port= Port=127.0.0.1:8081:80")
@sentence("DESCRIPTION", "Files NAME.pod.d/*.conf in any of the three directories are read after it, in the order of their names")
def the_examples_are_valid(host):
    networks(host)
    with open(host.path("password"), "w") as f:
        f.write("secret")
    equal([line.split(": ")[-1] for line in verified(host, "shop", SHOP % host.path("password"))], ["valid"])
    equal([line.split(": ")[-1] for line in verified(host, "wiki", WIKI)], ["valid"])
    write(host, "local.pod", "[Pod]\nPort=8080:80\nNet=default\n[App base]\nImage=%s\n" % base(host))
    write(host, "local.pod.d/local.conf", "[Pod]\nPort=\nPort=127.0.0.1:8081:80\n")
    ports = json.loads(host.acnspawn("cat-manifest", declared(host, "prepare", "--declared=local").expect(0).out.strip()).expect(0).out)["ports"]
    equal([(p["hostPort"], p["hostIP"]) for p in ports], [(8081, "127.0.0.1")])


@sentence("DESCRIPTION", 'The name is that of a pod: letters in lower case, digits, "-" and ".". Other files are ignored, with a warning of pod list')
@sentence("DESCRIPTION", "A symbolic link to /dev/null, or an empty file, masks the pod, or the drop-in.")
@sentence("DESCRIPTION", "Only regular files are read; a link that leads to nothing is an error. With --config-dir=PATH the only directory is PATH/pods.")
def files(host):
    write(host, "a-1.b.pod", "[App a]\nImage=x\n")
    write(host, "Upper.pod", "[App a]\nImage=x\n")
    write(host, "empty.pod", "")
    for name, target in ("masked", "/dev/null"), ("dangling", "/no/such/file"):
        os.symlink(target, host.path("config/pods", name + ".pod"))
    r = declared(host, "pod", "list")
    contains(r.out, "a-1.b")
    lacks(r.out, "Upper")
    contains(r.err, "Upper.pod")
    for name in "masked", "empty":
        contains(declared(host, "run", "--declared=" + name).expect(1).err, "is masked")
    declared(host, "run", "--declared=dangling").expect(1)
    for name in "dangling", "Upper", "masked", "empty":
        os.unlink(host.path("config/pods", name + ".pod"))


@sentence("SYNTAX", 'Lines that begin with "#" or ";" are comments. A line that ends in a backslash is continued by the next one. Unknown sections '
                    'and keys are ignored with a warning, and those that begin with "X-" silently; everything else that cannot be understood is an '
                    "error with file and line, and the pod is not made.")
@sentence("SYNTAX", "Keys of options without a value are booleans.")
@sentence("SYNTAX", "An empty value takes back what was said by the key so far.")
@sentence("SYNTAX", "Isolator= and SetCredential= have one value in each line, and add up as well.")
@sentence("SYNTAX", "All others have one value, and the last line counts.")
@sentence("[App NAME]", "An app of the pod; the sections are in the order in which the apps are.")
@sentence("[App NAME]", 'Words that are arguments of the app, as those after "--" on the command line. Several lines are one list. There are no '
                        "variables.")
def lines_and_values(host):
    path = write(host, "lines.pod", "# comment\n; comment\n"
                 "[Pod]\nHostname=first\nHostname=last\nEnvironment=A=1 'B=two words' \\\n  C=3\nEnvironment=D=4\nX-Mine=1\nNothing=1\n"
                 "[App zebra]\nImage=%s\nExec=/bin/echo\nArguments=one \"two words\"\nArguments=$HOME\nReadOnly=yes\n[App ant]\nImage=%s\nEnvironment=E=5\nEnvironment=\n"
                 "Isolator=example.com/a=1\nIsolator=example.com/b=2\n[X-More]\nx=y\n" % (base(host), base(host)))
    r = declared(host, "prepare", "--declared=lines").expect(0)
    contains(r.err, path + ":10: ")
    lacks(r.err, "X-")
    m = json.loads(host.acnspawn("cat-manifest", r.out.strip()).expect(0).out)
    equal([a["name"] for a in m["apps"]], ["zebra", "ant"])
    equal((m["apps"][0]["app"]["exec"], m["apps"][0].get("readOnlyRootFS")), (["/bin/echo", "one", "two words", "$HOME"], True))
    equal([{e["name"]: e["value"] for e in a["app"]["environment"]} for a in m["apps"]], [{"A": "1", "B": "two words", "C": "3", "D": "4"}] * 2)
    equal({i["name"] for i in m["apps"][1]["app"]["isolators"]} & {"example.com/a", "example.com/b"}, {"example.com/a", "example.com/b"})
    equal(host.status("lines")["hostname"], "last")
    path = write(host, "wrong.pod", "[App a]\nImage=%s\nMemory=lots\n" % base(host))
    contains(declared(host, "prepare", "--declared=wrong").expect(1).err, path + ":3: ")


@sentence("SECTIONS", "What is only for one run cannot be declared: --detach, --detach-keys=, --raw, --keep-unit, --replace, --images=, --apps=, "
                      "--interactive; and names")
@sentence("SYNTAX", "Paths are absolute. Standard input cannot be read.")
@sentence("SYNTAX", "Others are errors.")
@sentence("[App NAME]", "The image, as acnspawn fetch takes it. Needed.")
@sentence("[Update]", "Unit= is refused.")
@sentence("[Install]", "Alias= is refused")
def what_cannot_be_declared(host):
    for key in "Detach", "DetachKeys", "Raw", "KeepUnit", "Replace", "Images", "Apps", "Interactive", "Name":
        write(host, "x.pod", "[Pod]\n%s=yes\n[App a]\nImage=x\n" % key)
        contains(declared(host, "pod", "verify", "x").out, key)
    for text in ("[App a]\nImage=x\nEnvironmentFile=relative\n", "[App a]\nImage=x\nEnvironmentFile=-\n", "[App a]\nImage=%y\n", "[App a]\nMemory=1G\n",
                 "[App a]\nImage=x\n[Update]\nUnit=x.service\n", "[App a]\nImage=x\n[Install]\nAlias=x.service\n"):
        true(any(": error: " in line for line in verified(host, "x", text, 1)), "an error of %r" % text)


@sentence("[Pod]", "Rm=yes removes the pod when it has ended, with its logs.")
@sentence("SYNTAX", "The names of After=, CapsRetain= and CapsRemove= may have spaces or commas between them.")
@sentence("SYNTAX", "%i, the name of the pod")
def a_pod_that_is_removed(host):
    write(host, "gone.pod", "[Pod]\nRm=yes\nHostname=host-of-%i\n[App base]\nImage={}\nExec=/bin/sh\nArguments=-c \"hostname; grep CapBnd /proc/self/status\"\n"
          "CapsRetain=CAP_CHOWN CAP_DAC_OVERRIDE,CAP_DAC_READ_SEARCH\nGrant=all\n".format(base(host)))
    equal(declared(host, "run", "--declared=gone").expect(0).out.split(), ["host-of-gone", "CapBnd:", "%016x" % 7])
    host.acnspawn("status", "gone").expect(1)


elsewhere(
    ("DESCRIPTION", "systemctl start acnspawn@NAME runs it as a service of the host", "vm/declared/started_stopped_and_restarted"),
    ("DESCRIPTION", "Each time it is started the pod is made of the file anew; the pod that had the name before has ended, and stays, with its logs "
                    "and its status", "declared/a_declared_pod_runs_again_and_again"),
    ("DESCRIPTION", "acnspawn pod create writes such a file of a command line of acnspawn run, or of an existing pod",
     "declared/create_writes_a_file"),
    ("DESCRIPTION", "A file in /etc takes precedence over one of the same name in /run, and that over one in /usr/lib.",
     "unit/declared/files_take_precedence"),
    ("DESCRIPTION", "prune, volume prune and image gc, which keep what is declared, fail at it, and remove nothing, so use the link.",
     "prune/what_an_empty_file_may_have_declared_stays"),
    ("DESCRIPTION", "and of the generator if they end in .pod.", "unit/generator/hostile_names_and_words"),
    ("SYNTAX", "Sections of the same name are one section, over all files.", "unit/declared/lines"),
    ("SYNTAX", "have words between spaces. Each word is what one option would be given; it may be in quotes, and has the escape sequences of systemd",
     "unit/declared/words"),
    ("SYNTAX", "It is taken as it is, unless it is in quotes as a whole.", "unit/declared/values_as_a_whole"),
    ("SYNTAX", "Specifiers are replaced in all values", "unit/declared/specifiers"),
    ("SECTIONS", "Their values are those of the options, which acnspawn-prepare(1) and acnspawn-run(1) describe, and are checked in the same way.",
     "unit/declared/keys_are_the_options"),
    ("[Pod]", "The options of the pod, for the images, and Strict=, ReadyTimeout=, Register= and Rm= of run.",
     "declared/every_option_survives_the_file"),
    ("[Unit]", "when the machine boots, and after systemctl daemon-reload.", "vm/declared/started_stopped_and_restarted"),
    ("[Service]", "What the unit of a pod depends on, such as ExecStart=, Type=, User=, Delegate= and KillMode=, is refused.", "declared/verify"),
    ("[Service]", "WatchdogSec=, which the process that runs the pod keeps", "vm/declared/a_watchdog_of_the_unit"),
    ("[Socket]", "A pod has this unit without the section, too, if Port= of [Pod] exposes a port that SocketActivated= of an app names in the same "
                 "way", "vm/sockets/ports_that_start_an_app_have_a_socket"),
    ("[Socket]", "Ranges of ports are not listened on", "declared/verify"),
    ("[Socket]", "which starts the pod at the first connection, and passes the sockets on to its socket-activated ports.",
     "vm/sockets/the_socket_of_a_declared_pod"),
    ("[Update]", "which replaces apps with ImagePolicy= for which there is a newer image", "vm/declared/updates_by_the_timer_of_a_pod"),
    ("[Install]", "to name one of these is an error, unless [Unit] has DefaultDependencies=no, or it is sockets.target and the pod has a socket",
     "declared/verify"),
    ("[Install]", "Other settings of this section do not apply either.", "declared/verify"),
    ("CHANGES", "acnspawn apply NAME and systemctl reload acnspawn@NAME change its apps", "vm/declared/each_kind_of_change_by_reload"),
    ("CHANGES", "systemctl restart acnspawn@NAME makes a new pod.", "vm/declared/started_stopped_and_restarted"),
)

main()

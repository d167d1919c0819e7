#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn(1), sentence by sentence."""

from manual import *
from terminals import Terminal

PAGE = page("acnspawn.1", "b9b49afb91147324")


@once
def pod(host):
    return host.prepare("--name=web", "--user-label=tier=front", base(host), "--name=one", base(host), "--name=two")


@sentence("How pods and images are named", "A pod is given by its UUID, by a unique prefix of the UUID, or by the name set with --name=.")
def pods_are_named(host):
    uuid = pod(host)
    for word in uuid, uuid[:8], "web":
        equal(host.status(word)["uuid"], uuid)


@sentence("How pods and images are named", "An image is given by its name and labels, its ID, a path, a URL, or a reference")
def images_are_named(host):
    path = host.image(name="example.com/named")
    image_id = host.acnspawn("fetch", path).expect(0).out.strip()
    for word in "example.com/named", "example.com/named:1", "example.com/named,version=1,os=linux", image_id, image_id[:20]:
        equal(json.loads(host.acnspawn("image", "show", "--json", word).expect(0).out)[0]["id"], image_id, word)
    equal(host.acnspawn("fetch", path).expect(0).out.strip(), image_id)


@sentence("Other", "Show the list of commands, or the help of one, as COMMAND --help does.")
@sentence("Other", "Show the version of acnspawn and of the App Container specification.")
@sentence("OPTIONS", "Show the help, of the command if there is one. --version Show the version.")
def help_and_version(host):
    for one, other in (["help"], ["--help"]), (["help", "run"], ["run", "--help"]), (["image", "list", "-h"], ["help", "image", "list"]), (["version"], ["--version"]):
        equal(host.acnspawn(*one).expect(0).out, host.acnspawn(*other).expect(0).out, "%s and %s" % (one, other))
    contains(host.acnspawn("version").out, "0.8.11")


@sentence("OPTIONS", "These options are understood by every command. Options may be given before or after the arguments of a command, except those "
                     "of prepare, run and enter, whose position matters. A value follows as --option=VALUE or as the next word; an optional value "
                     "only as --option=VALUE.")
def options_and_their_values(host):
    uuid = pod(host)
    for words in (["status", "--json=short", "web"], ["status", "web", "--json=short"], ["--json=short", "status", "web"], ["--json", "status", "web"]):
        equal(json.loads(host.acnspawn(*words).expect(0).out)["uuid"], uuid, str(words))
    equal(host.acnspawn("list", "--filter", "name=web", "-q").expect(0).out, host.acnspawn("list", "--filter=name=web", "-q").expect(0).out)
    contains(host.acnspawn("status", "--json", "short").expect(1).err, "'short'")


@sentence("OPTIONS", "Show results as JSON: short is on one line, pretty is indented, off is the default. Without a value the mode is short.")
@sentence("OPTIONS", "-j The same as --json=pretty on a terminal and as --json=short elsewhere.")
@sentence("OPTIONS", "Keys are spelled as in the specification, imageID and hostPort; an unknown value is null. Nothing is shortened or escaped for "
                     "terminals.")
def results_as_json(host):
    pod(host)
    shown = lambda *words: re.sub(r"; (now|[\w ]+ ago)\n", "\n", host.acnspawn("status", *words, "web").expect(0).out)
    equal(shown("--json=off"), shown())
    equal((shown("--json=short").count("\n"), shown("--json"), shown("-j")), (1, shown("--json=short"), shown("--json=short")))
    true(shown("--json=pretty").count("\n") > 10 and json.loads(shown("--json=pretty")) == json.loads(shown("-j")), "the same, indented")
    t = Terminal(host, "status", "-j", "web")
    equal(t.end(), 0)
    equal(t.text.decode().replace("\r\n", "\n"), shown("--json=pretty"))
    status = host.status("web")
    equal((len(status["apps"][0]["imageID"]), status["ended"]), (len("sha512-") + 128, None))
    host.acnspawn("status", "--json=long", "web").expect(2)


@sentence("OPTIONS", "Do not show the headers of tables.")
@sentence("OPTIONS", "Show errors only: no warnings, no hints, no progress. With run, the output of the apps is not shown either.")
def less_is_shown(host):
    pod(host)
    shown = lambda *words: [line.split()[:3] for line in host.acnspawn("list", *words).expect(0).out.splitlines()]
    equal((shown()[0], shown()[1:]), (["UUID", "NAME", "STATE"], shown("--no-legend")))
    image = host.image(["/bin/echo", "words"], name="example.com/points", app={"mountPoints": [{"name": "one", "path": "/one"}]})
    r = host.acnspawn("run", "--quiet", "--rm", image).expect(0)
    equal((r.out, r.err), ("", ""))
    usual, quiet = host.acnspawn("status", "wbe").expect(1).err, host.acnspawn("-q", "status", "wbe").expect(1).err
    true(usual.startswith(quiet) and quiet.count("\n") == 1 and usual != quiet, "%r and %r" % (usual, quiet))


@sentence("FILTERS AND FORMATS", "Filters with different keys must all match. Of several with the same key one must match; of labels and "
                                 "annotations all of them. In a pattern, * stands for any text, ? for one character, and [...] for one of several.")
def filters(host):
    pod(host)
    for words, found in ((["name=w?b"], True), (["name=[wx]eb"], True), (["name=no", "name=web"], True), (["name=web", "state=running"], False),
                         (["label=tier", "label=tier=front"], True), (["label=tier", "label=other"], False)):
        equal(host.acnspawn("list", "--format={name}", *("--filter=" + w for w in words)).expect(0).out, "web\n" if found else "", str(words))


@sentence("FILTERS AND FORMATS", "A text with fields in braces, as in '{name}\\t{state}', is written once for each object, and ends with a newline. "
                                 "Values are those of JSON in it: IDs in full, sizes in bytes, times in microseconds since 1970, lists and labels "
                                 "separated by commas, and nothing for an unknown value. \\t is a tab, \\n a newline, \\\\ a backslash; {{ and }} "
                                 "are braces.")
@sentence("FILTERS AND FORMATS", "Control characters in values are escaped.")
@sentence("FILTERS AND FORMATS", "A list of fields, as in name,state, selects the columns of the table, or with --json the members of the objects.")
def formats(host):
    uuid = pod(host)
    shown = lambda words, *more: host.acnspawn("list", "--filter=name=web", "--format=" + words, *more).expect(0).out
    equal(shown("{name}\\t{state}"), "web\tprepared\n")
    equal(shown("{uuid}|{apps}|{labels}|{exitStatus}|\\n\\\\{{{name}}}"), "%s|one,two|tier=front||\n\\{web}\n" % uuid)
    equal(shown("{created}"), "%d\n" % host.status("web")["created"])
    host.prepare("--name=odd", "--user-label=words=\x1b[31m\n", base(host))
    r = host.acnspawn("list", "--filter=name=odd", "--format={labels}").expect(0)
    true("\x1b" not in r.out and r.out.count("\n") == 1 and "words=" in r.out, "a label: %r" % r.out)
    host.acnspawn("rm", "odd").expect(0)
    equal([line.split() for line in shown("name,state").splitlines()], [["NAME", "STATE"], ["web", "prepared"]])
    equal(json.loads(shown("name,state", "--json")), [{"name": "web", "state": "prepared"}])


@sentence("EXIT STATUS", "Failure; a message on standard error describes what failed, on which object, why, and what can be done about it.")
@sentence("EXIT STATUS", "The command line is not valid.")
def exit_status(host):
    pod(host)
    r = host.acnspawn("stop", "web").expect(1)
    equal((r.out, r.err), ("", "Error: Pod web is not running: it is prepared.\n'acnspawn rm web' removes it.\n"))
    for words in ["stop"], ["stop", "--nothing", "web"], ["nothing"], []:
        equal(host.acnspawn(*words).rc, 2, str(words))


@sentence("ENVIRONMENT", "The directory of the store, if --dir= is not given.")
@sentence("ENVIRONMENT", "The directory of the configuration, if --config-dir= is not given.")
@sentence("OPTIONS", "Use the store at PATH instead of that of acnspawn.conf(5), by default /var/lib/acnspawn.")
def directories(host):
    uuid, config = pod(host), host.path("config")
    os.mkdir(config)
    with open(os.path.join(config, "acnspawn.conf"), "w") as f:
        f.write("[Pod]\nStopTimeout=33s\n")
    call = lambda *words, **env: subprocess.run([ACNSPAWN, *words], capture_output=True, text=True, env={**os.environ, **env}, timeout=patience(60))
    equal(call("list", "-q", ACNSPAWN_DIR=host.dir).stdout, uuid + "\n")
    equal(call("--dir=" + host.dir, "list", "-q", ACNSPAWN_DIR=host.path("nowhere")).stdout, uuid + "\n")
    contains(call("config", ACNSPAWN_DIR=host.dir, ACNSPAWN_CONFIG_DIR=config).stdout, "33s")
    lacks(call("config", "--config-dir=" + host.path(), ACNSPAWN_DIR=host.dir, ACNSPAWN_CONFIG_DIR=config).stdout, "33s")


@sentence("ENVIRONMENT", "Whether colors are used: according to the boolean SYSTEMD_COLORS if it is set; else on terminals, but not if NO_COLOR is "
                         "set or TERM is dumb.")
def colours(host):
    pod(host)
    def coloured(terminal=True, **env):
        words = ["env", "-u", "NO_COLOR", "-u", "SYSTEMD_COLORS", *(k + "=" + v for k, v in env.items()), *host.argv("list")]
        if not terminal:
            return "\x1b[" in subprocess.run(words, capture_output=True, text=True, timeout=patience(60)).stdout
        t = Terminal(host, argv=words)
        equal(t.end(), 0)
        return b"\x1b[" in t.text
    equal((coloured(), coloured(NO_COLOR="1"), coloured(TERM="dumb"), coloured(SYSTEMD_COLORS="0"), coloured(SYSTEMD_COLORS="1", NO_COLOR="1")),
          (True, False, False, False, True))
    equal((coloured(False), coloured(False, SYSTEMD_COLORS="1")), (False, True))


@sentence("FILES", "The images, each in a directory named by its ID.")
@sentence("FILES", "The pods, each in a directory named by its UUID below one named by its state.")
@sentence("FILES", "It is owned by root, and accessible only to root.")
def the_store(host):
    uuid = pod(host)
    true(os.path.isdir(os.path.join(host.dir, "pods/prepared", uuid)) and
         os.path.isdir(os.path.join(host.dir, "images", host.status("web")["apps"][0]["imageID"])), "the directories")
    equal((os.stat(host.dir).st_uid, os.stat(host.dir).st_mode & 0o777), (0, 0o700))


elsewhere(
    ("How pods and images are named", "Images that are not in the store are fetched.", "fetch/a_pod_of_an_image_not_fetched_yet"),
    ("COMMANDS", "Each command is described in the page given here", "unit/man/each_command_has_a_page_that_its_help_names"),
    ("COMMANDS", "man acnspawn-COMMAND finds it, but for help and version.", "unit/man/commands_lead_to_the_pages_that_have_them"),
    ("OPTIONS", "Times are in microseconds, points in time since 1970, and sizes in bytes; so no key has a unit in its name",
     "image-verbs/json_calls_things_the_same_everywhere"),
    ("OPTIONS", "Show in detail what is being done: requests to servers and their replies, executed programs, the directories and cgroups of the "
                "pod, and the configuration of its apps.", "lifecycle/debug_shows_each_step"),
    ("FILTERS AND FORMATS", "The commands that list objects (list, image list, volume list) have --filter=KEY=VALUE, which may be given several "
                            "times.", "lists/pods_by_filters"),
    ("SIGNALS", "SIGINT, SIGTERM and SIGHUP end fetch, prepare and run while an image is imported or a pod is prepared, and clean up",
     "interrupts/an_import_from_a_pipe"),
    ("SIGNALS", "a second signal ends them at once, and leftovers are removed by acnspawn gc.", "interrupts/a_second_signal_is_not_waited_for"),
    ("SIGNALS", "Once the pod runs, run in the foreground stops it in order on these signals",
     "lifecycle/interrupt_in_the_foreground_is_an_orderly_stop"),
    ("SIGNALS", "a second SIGINT or SIGTERM kills the pod.", "crash/interrupt_twice_is_force"),
    ("SIGNALS", "SIGTSTP, which Ctrl-Z on a terminal sends, stops run, attach and enter, not the pod.", "attach/ctrl_z_stops_nothing_but_run"),
    ("ENVIRONMENT", "Directories with CNI plugins", "network/a_plugin_of_the_users_own"),
    ("ENVIRONMENT", "Sockets that run passes to apps of the pod, as sd_listen_fds(3) describes",
     "sockets/a_socket_of_the_host_serves_a_pod_without_a_network"),
    ("ENVIRONMENT", "and the socket that it reports readiness to", "readiness/the_foreground_notifies_its_parent"),
    ("ENVIRONMENT", "Later modification times are replaced by this one in images that build and export write.",
     "build/owner_root_and_source_date_epoch"),
    ("ENVIRONMENT", "The width of the terminal for tables.", "image-verbs/names_in_a_list_are_distinct_on_a_narrow_terminal"),
    ("FILES", 'Without it they are read as "nobody".', "logs/the_reader_has_the_user_of_the_package"),
    ("FILES", "The ranges of user IDs of all pods of this host, in any store", "users/ranges_of_pods_are_disjoint"),
    ("EXAMPLES", "Remove every pod that has ended, and images that are not used any more:", "prune/pruning_frees_what_df_says"),
)

main()

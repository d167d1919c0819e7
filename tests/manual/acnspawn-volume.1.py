#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-volume(1), sentence by sentence."""

from manual import *
from terminals import Terminal

PAGE = page("acnspawn-volume.1", "af2bf9d3826d6256")


def show(host, name):
    return json.loads(host.acnspawn("volume", "show", "--json", name).expect(0).out)[0]


@once
def filled(host):
    """A volume with a file, of a pod that has ended."""
    host.acnspawn("run", "--name=user", "--volume=db-data:/v", *app(host, "a", "echo words >/v/file; mkfifo /v/fifo; chown 5:6 /v/file")).expect(0)
    return "db-data"


@sentence("DESCRIPTION", "Neither acnspawn rm nor acnspawn gc removes it. Any number of pods can use it, at the same time as well. Files in it "
                         "belong to the users of the apps, by the same numbers in each pod")
@sentence("DESCRIPTION", "one that does not exist is made then, empty")
def volumes_outlive_pods(host):
    host.acnspawn("run", "--name=short", "--volume=kept:/v", *app(host, "a", "ls /v; echo words >/v/file; chown 7:8 /v/file")).expect(0)
    host.acnspawn("rm", "short").expect(0)
    host.acnspawn("gc").expect(0)
    r = host.acnspawn("run", "--rm", "--volume=one,kind=named,source=kept", *app(host, "a", "cat /v/file; stat -c %u:%g /v/file", "--mount=one:/v")).expect(0)
    equal(r.out, "words\n7:8\n")


@sentence("DESCRIPTION", 'A NAME is at most 63 lower case letters and digits, with "-" between them.')
def names_of_volumes(host):
    for name, rc in ("a" * 63, 0), ("a-1", 0), ("a" * 64, 2), ("Bad", 2), ("-a", 2), ("a_b", 2), ("", 2):
        equal(host.acnspawn("volume", "create", "--", name).rc, rc, name)


@sentence("volume create", "Makes an empty volume, and prints its name. A volume that exists is an error.")
@sentence("volume create", "--mode=MODE The mode of its directory, octal (default: 0755).")
@sentence("volume create", "(default: 0:0).")
@sentence("volume create", "Add a label, which volume show shows. May be given several times.")
@sentence("volume show", "Shows when a volume was made, its labels, mode and owner, where its directory is on the host, how much disk space it "
                         "uses, its quota and whether that is in force, and the pods that use it.")
def volumes_are_made(host):
    equal(host.acnspawn("volume", "create", "plain").expect(0).out, "plain\n")
    host.acnspawn("volume", "create", "plain").expect(1)
    host.acnspawn("volume", "create", "--mode=1770", "--owner=33:34", "--label=a=b", "--label=c=d", "fancy").expect(0)
    plain, fancy = os.stat(os.path.join(host.dir, "volumes/plain/data")), os.stat(os.path.join(host.dir, "volumes/fancy/data"))
    equal([(s.st_mode & 0o7777, s.st_uid, s.st_gid) for s in (plain, fancy)], [(0o755, 0, 0), (0o1770, 33, 34)])
    text = host.acnspawn("volume", "show", "fancy").expect(0).out
    for words in "fancy", "a=b", "c=d", "1770", "33", "34", os.path.join(host.dir, "volumes/fancy/data"):
        contains(text, words)
    equal((show(host, "fancy")["labels"], show(host, "fancy")["quota"]), ({"a": "b", "c": "d"}, None))
    contains(host.acnspawn("volume", "show", filled(host)).expect(0).out, "user")


@sentence("volume list", "Lists the volumes with their quotas, the pods that use them, in whatever state these are, and when they were made.")
@sentence("volume list", "Show how much disk space each uses as well.")
def volumes_are_listed(host):
    filled(host)
    rows = {v["name"]: v for v in json.loads(host.acnspawn("volume", "list", "--json").expect(0).out)}
    equal((rows["db-data"]["pods"], rows["db-data"]["quota"], "size" in rows["db-data"]), (["user"], None, False))
    sizes = {v["name"]: v["size"] for v in json.loads(host.acnspawn("volume", "list", "-s", "--json").expect(0).out)}
    true(sizes["db-data"] > 0, "its size")


@sentence("volume rm", "Removes volumes with their files, and prints their names. A volume that a pod uses, whatever the pod's state, is kept, with "
                       "a message that names the pod.")
@sentence("volume prune", "Prints their names with their disk space, and the sum to standard error.")
@sentence("volume prune", "Only show what would be removed, and how much disk space that would free.")
def volumes_are_removed(host):
    filled(host)
    for name in "one", "two":
        host.acnspawn("volume", "create", name).expect(0)
    contains(host.acnspawn("volume", "rm", "db-data").expect(1).err, "user")
    equal(host.acnspawn("volume", "rm", "one").expect(0).out, "one\n")
    there = lambda: sorted(v["name"] for v in json.loads(host.acnspawn("volume", "list", "--json").expect(0).out))
    before = there()
    r = host.acnspawn("volume", "prune", "--dry-run").expect(0)
    contains(r.out, "two")
    lacks(r.out, "db-data")
    equal(there(), before)
    r = host.acnspawn("volume", "prune").expect(0)
    contains(r.out, "two")
    true(r.err, "the sum")
    equal(there(), ["db-data"])


@sentence("volume export", "Writes the files of a volume as a tar archive to a file or to standard output (not to a terminal), with the owners that "
                           "apps see")
@sentence("volume export", "Write to FILE instead of standard output. The file appears when it is complete; an existing file is not replaced.")
@sentence("volume export", "Replace FILE if it exists.")
@sentence("volume import", "Makes a volume with the files of a tar archive, which may be compressed, of FILE or standard input, and prints its name.")
@sentence("volume import", "The volume appears when it is complete. A volume that exists is an error.")
@sentence("EXAMPLES", "# acnspawn volume export db-data | \\ ssh host acnspawn volume import db-data")
def exported_and_imported(host):
    filled(host)
    path = host.path("volume.tar")
    r = host.acnspawn("volume", "export", "db-data").expect(0)
    equal(host.acnspawn("volume", "import", "again", input=r.out_bytes).expect(0).out, "again\n")
    host.acnspawn("volume", "import", "again", input=r.out_bytes).expect(1)
    data = os.path.join(host.dir, "volumes/again/data")
    s = os.stat(os.path.join(data, "file"))
    equal((read_text(os.path.join(data, "file")), s.st_uid, s.st_gid), ("words\n", 5, 6))
    for words, rc in (["-o", path], 0), (["--output=" + path], 1), (["-f", "-o", path], 0):
        equal(host.acnspawn("volume", "export", "db-data", *words).rc, rc, str(words))
    subprocess.run(["gzip", path], check=True)
    host.acnspawn("volume", "import", "--mode=0700", "--owner=9", "packed", path + ".gz").expect(0)
    equal([os.stat(os.path.join(host.dir, "volumes/packed/data")).st_mode & 0o7777, os.stat(os.path.join(host.dir, "volumes/packed/data")).st_uid], [0o700, 9])
    t = Terminal(host, "volume", "export", "db-data")
    true(t.end() != 0, "an archive on a terminal")
    host.acnspawn("volume", "rm", "again", "packed").expect(0)


@sentence("volume import", 'Mode and owner of its directory (default: those that the archive has for ".").')
@sentence("volume create", "What its files may use of the disk, as 500Mi or 10G, at least 64Ki (default: none, no limit).")
def defaults_of_archives_and_quotas(host):
    with tarfile.open(host.path("made.tar"), "w") as tar:
        info = tarfile.TarInfo(".")
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, 0o711, 3, 4
        tar.addfile(info)
    host.acnspawn("volume", "import", "made", host.path("made.tar")).expect(0)
    s = os.stat(os.path.join(host.dir, "volumes/made/data"))
    equal((s.st_mode & 0o7777, s.st_uid, s.st_gid), (0o711, 3, 4))
    host.acnspawn("volume", "create", "--quota=63Ki", "small").expect(2)
    host.acnspawn("volume", "create", "--quota=none", "unlimited").expect(0)


elsewhere(
    ("DESCRIPTION", "with the owner and mode of the directory that an OCI image has at PATH. Files that the image has there are not copied: they are "
                    "hidden, with a warning.", "oci/volumes_begin_as_the_directory_of_the_image"),
    ("volume create", "What its files may use of the disk, as 500Mi or 10G, at least 64Ki", "vm/quota/app_gets_edquot"),
    ("volume list", "A declared pod that does not run is not among them, though volume prune keeps its volumes.",
     "prune/volumes_of_declared_pods_stay"),
    ("volume list", "Only volumes that match: name= or pod= (a pod that uses it) with a pattern; label=NAME[=VALUE]; used=yes or used=no.",
     "lists/volumes"),
    ("volume list", "The fields are name, size, quota, pods, created and labels.", "lists/volumes"),
    ("volume prune", "neither one of the store, one that is still being prepared included", "prune/volumes_of_a_pod_that_is_being_prepared_stay"),
    ("volume prune", "nor one that is declared in a file (acnspawn.pod(5)), whether or not it runs.", "prune/volumes_of_declared_pods_stay"),
    ("volume prune", "If such a file has a mistake or is empty, no volume is removed.", "prune/what_an_empty_file_may_have_declared_stays"),
    ("volume export", "Sockets and devices are left out, with a warning.", "named-volumes/devices_and_sockets_are_left_out"),
    ("volume export", 'quota as the extended attribute trusted.acnspawn.quota of ".".', "vm/quota/exported_and_imported"),
    ("volume import", "The archive is checked as those of images are", "named-volumes/hostile_archives_are_refused"),
    ("volume import", "The volume appears when it is complete.", "named-volumes/imports_that_are_killed_leave_nothing"),
    ("volume import", "Its quota (default: that of the exported volume). If the files in the archive use more, no volume is made.",
     "vm/quota/exported_and_imported"),
    ("QUOTAS", "A program that would exceed it gets the error EDQUOT", "vm/quota/app_gets_edquot"),
    ("QUOTAS", "Elsewhere a volume with a quota is refused.", "named-volumes/quota_needs_a_file_system_that_has_it"),
    ("QUOTAS", "that of an existing volume does not change, and a pod that gives it another one is refused.",
     "named-volumes/quota_of_a_volume_that_exists_does_not_change"),
    ("QUOTAS", "one is free again when its volume is removed.", "vm/quota/projects_differ_and_are_released"),
    ("QUOTAS", "After the store was copied to another file system, or was mounted without the option, volume show tells that a quota is not in force.",
     "vm/quota/mounted_without_the_option"),
)

main()

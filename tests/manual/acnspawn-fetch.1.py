#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-fetch(1), sentence by sentence. What comes over a network has its cases in tests/integration/fetch.py."""

from manual import *

PAGE = page("acnspawn-fetch.1", "aa539ddd037aa553")


def names(host):
    return host.acnspawn("image", "list", "--format={name}").expect(0).out.split()


@sentence("DESCRIPTION", "and prints the ID of each, in the order given. The images that an image depends on are fetched, too.")
@sentence("OPTIONS", "--no-dependencies Do not fetch the images that an image depends on.")
@sentence("EXIT STATUS", "0 if every image is in the store, else 1: the others are fetched, and each failure has its message.")
def ids_in_their_order(host):
    one, two = (host.image(name="example.com/" + n, base=False) for n in ("one", "two"))
    first, second = (host.acnspawn("fetch", i).expect(0).out for i in (one, two))
    equal(host.acnspawn("fetch", two, one).expect(0).out, second + first)
    top = host.image(name="example.com/top", base=False, dependencies=[{"imageName": "example.invalid/missing"}])
    refused = {**os.environ, "https_proxy": "http://127.0.0.1:1"}  # no name is resolved
    err = host.acnspawn("fetch", top, host.path("nothing.aci"), host.image(name="example.com/three", base=False), env=refused).expect(1).err
    contains(err, "example.invalid/missing")
    contains(err, "nothing.aci")
    true("example.com/three" in names(host), "images: %s" % names(host))
    host.acnspawn("fetch", "--no-dependencies", top).expect(0)


@sentence("OPTIONS", "or fetch nothing (never).")
@sentence("OPTIONS", "-u, --update The same as --pull-policy=update.")
def policies(host):
    host.acnspawn("fetch", "--pull-policy=never", "example.invalid/nothing").expect(1)
    host.acnspawn("fetch", "--pull-policy=other", "example.invalid/nothing").expect(2)
    for words in ("-u",), ("--update",), ("--pull-policy=update",):
        path = host.image(name="example.com/local", base=False)
        host.acnspawn("fetch", *words, path).expect(0)


@sentence("EXAMPLES", "# acnspawn fetch ./web.aci")
def a_file(host):
    os.rename(host.image(name="example.com/web", base=False), host.path("web.aci"))
    host.acnspawn("fetch", "./web.aci", cwd=host.tmp).expect(0)
    true("example.com/web" in names(host), "images: %s" % names(host))


elsewhere(
    ("DESCRIPTION", "Fetches images in parallel,", "fetch/several_side_by_side"),
    ("DESCRIPTION", "An image appears in the store complete or not at all.", "crash/killed_at_many_points_of_fetch"),
    ("DESCRIPTION", "On a terminal the progress of each image is shown; elsewhere a line when a download begins and when it has ended.", "fetch/progress_on_a_terminal"),
    ("DESCRIPTION", "Downloads that were interrupted are resumed by the next fetch of the same URL.", "fetch/killed_and_resumed"),
    ("OPTIONS", "Fetch images that are not in the store (new, the default),", "fetch/simple_discovery"),
    ("OPTIONS", "also check fetched images for newer versions (update),", "fetch/update"),
    ("OPTIONS", "Accept images over plain http,", "fetch/http_only_by_name"),
    ("OPTIONS", "from servers whose certificate is not valid,", "fetch/certificate_of_another_host"),
    ("OPTIONS", "without a signature,", "fetch/without_a_signature_by_option"),
    ("OPTIONS", "or signed by keys that discovery offers.", "fetch/keys_that_are_offered"),
    ("OPTIONS", "--min-speed=BYTES Abort a transfer that is slower than this, in bytes per second averaged over the last two minutes.", "unit/transfer/too_slow"),
    ("OPTIONS", "--passphrase-file=FILE Decrypt encrypted images with the passphrase in FILE.", "fetch/encrypted"),
    ("OPTIONS", "--signature=FILE Check the image by the detached signature in FILE instead of the one beside the image; also if the image is a file.", "fetch/signature_in_a_file"),
    ("OPTIONS", "--all Fetch all images of the files docker-archive:FILE, as podman load does.", "oci/all_images_of_a_docker_archive"),
    ("EXAMPLES", "# acnspawn fetch example.com/web:1.2", "fetch/simple_discovery"),
    ("EXAMPLES", "# acnspawn fetch docker://registry.example.com/team/web:1.2", "registry/by_tag_and_by_digest"),
    ("EXAMPLES", "# acnspawn fetch oci:layout:latest", "oci/archives_and_layouts_by_path"),
    ("EXAMPLES", "# acnspawn fetch --update example.com/web example.com/db", "fetch/update"),
)

main()

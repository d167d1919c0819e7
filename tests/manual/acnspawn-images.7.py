#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-images(7), sentence by sentence. What comes over a network has its cases in tests/integration, and limits in tests/unit."""

from manual import *

PAGE = page("acnspawn-images.7", "ad6127544c4229f9")


def fetch(host, *args, rc=0, **more):
    return host.acnspawn("fetch", *args, **more).expect(rc)


def published(host, version, **more):
    return fetch(host, host.image(name="example.com/app", base=False, labels=[{"name": "version", "value": version}, {"name": "os", "value": "linux"}, {"name": "arch", "value": os_arch()}], **more)).out.strip()


@sentence("REFERENCES", "It is looked up in the store, where the highest of several versions is used,")
@sentence("REFERENCES", "An image of the store by its ID, or by a unique prefix of it (at least four digits, or sha512- in front).")
@sentence("WHAT IS FETCHED WHEN", "--pull-policy=never Only the store and local files are used.")
def names_of_the_store(host):
    one, two, ten = (published(host, v) for v in ("1.0", "2.0", "10.0"))
    for word, id in ("example.com/app", ten), ("example.com/app:1.0", one), ("example.com/app:2.0,os=linux", two), (one, one), (two[:len("sha512-") + 12], two), (ten[len("sha512-"):][:12], ten):
        equal(fetch(host, "--pull-policy=never", word).out.strip(), id, word)
    fetch(host, "--pull-policy=never", "example.com/app:3.0", rc=1)
    host.acnspawn("image", "show", one[len("sha512-"):][:3]).expect(1)


@sentence("REFERENCES", "An image archive: a path that begins with /, ./ or ../, that ends in .aci, or that contains a slash and exists.")
@sentence("REFERENCES", "- An image archive on standard input.")
@sentence("REFERENCES", "An image archive by its path means the image that was fetched from the file as it is now. A file that was changed less than three seconds before it was fetched, or that is "
                        "on a network file system, means none.")
@sentence("TRUST", "Files and standard input belong to the user and need no signature,")
def archives_by_their_path(host):
    path = host.image(name="example.com/file", base=False)
    os.makedirs(host.path("sub"))
    os.rename(path, host.path("sub/x.img"))
    shutil.copy(host.path("sub/x.img"), host.path("y.aci"))
    with open(host.path("sub/x.img"), "rb") as f:
        content = f.read()
    ids = {fetch(host, word, cwd=cwd, **more).out for word, cwd, more in
           ((host.path("sub/x.img"), "/", {}), ("./x.img", host.path("sub"), {}), ("../sub/x.img", host.path("sub"), {}), ("y.aci", host.tmp, {}), ("sub/x.img", host.tmp, {}), ("-", "/", {"input": content}))}
    equal(len(ids), 1)
    fetch(host, "--pull-policy=never", "x.img", cwd=host.path("sub"), rc=1)
    contains(host.acnspawn("image", "show", host.path("y.aci")).expect(1).err, "as it is now")


@sentence("DEPENDENCIES", "A dependency with an image ID must have that ID, and the name besides. An image that depends on itself is refused.")
def dependencies(host):
    id = fetch(host, host.image(name="example.com/base", base=False)).out.strip()
    good, wrong = ([{"imageName": name, "imageID": id}] for name in ("example.com/base", "example.com/other"))
    fetch(host, host.image(name="example.com/top", base=False, dependencies=good))
    fetch(host, host.image(name="example.com/bad", base=False, dependencies=wrong), rc=1)
    fetch(host, host.image(name="example.com/self", base=False, dependencies=[{"imageName": "example.com/self"}]), rc=1)


elsewhere(
    ("REFERENCES", "It may be a FIFO; if no data arrives, there is a message.", "fetch/a_fifo_without_a_writer"),
    ("REFERENCES", "An OCI or Docker archive, and a directory with an OCI layout, are recognized, and read as with oci-archive:, docker-archive: and oci:.", "oci/archives_and_layouts_by_path"),
    ("REFERENCES", "Archives may come through a FIFO, or be -.", "oci/an_archive_that_comes_through_a_fifo"),
    ("REFERENCES", "for them a URL or a reference to a registry, a layout or an archive means the image that was last fetched by it.", "image-verbs/places_that_an_image_came_from"),
    ("DISCOVERY", "1. https://NAME-VERSION-OS-ARCH.aci", "fetch/simple_discovery"),
    ("DISCOVERY", "or if it has no such element those of the paths above NAME up to the host:", "fetch/meta_discovery"),
    ("DISCOVERY", "The manifest of the fetched image must have the requested name and all requested labels.",
     "fetch/manifest_of_another_name"),
    ("TRUST", "An image archive from the network must have a signature by a key that is trusted for its name.", "fetch/signatures"),
    ("TRUST", "The same bytes are verified and unpacked; the image appears in the store only after that.", "fetch/c7_download_altered_before_it_is_imported"),
    ("TRUST", "If the key is not trusted any more, or is trusted for other names only, has expired or was revoked, the image is refused, with the key's fingerprint;",
     "fetch/signer_not_trusted_any_more"),
    ("TRUST", "Nothing is fetched for that and no program is run, unless the key's files have changed.", "fetch/keys_that_change_are_looked_at_once"),
    ("TRUST", "It is a mere cache: without it gpg is asked once more.", "fetch/what_gpg_has_said_may_be_lost"),
    ("TRUST", "An image of a registry is not used for a name for which a key is trusted, as it has no signature: it is named by its reference, or its ID.",
     "fetch/an_image_of_a_registry_does_not_have_a_signed_name"),
    ("TRUST", "an image that was signed before the one of the same name and labels in the store, whose signer is still trusted, is refused,", "fetch/steps_back"),
    ("TRUST", "also if the server has said that nothing has changed, or that it need not be asked;", "fetch/what_a_record_says_is_no_step_back"),
    ("TRUST", "and if a name or URL resolves to an image that was signed earlier than the one before, and has no higher version, there is a warning.",
     "fetch/an_image_that_also_came_from_elsewhere_goes_back"),
    ("TRUST", "acnspawn-update(1) does not replace an app by an older image.", "update/a_server_with_an_older_image_or_another_one"),
    ("TRUST", "http Accepts http:// URLs, and tries http where https fails.", "fetch/http_only_by_name"),
    ("TRUST", "tls Does not check the certificates of servers.", "fetch/certificate_of_another_host"),
    ("TRUST", "signature Accepts images without a signature,", "fetch/without_a_signature_by_option"),
    ("TRUST", "pubkey If a signature is by an unknown key, trusts the keys that discovery offers, for this image and this time only:", "fetch/keys_that_are_offered"),
    ("OCI IMAGES", "From an index the image for this host is selected; if there is none, the message lists those available.", "registry/images_for_several_architectures"),
    ("OCI IMAGES", "The layers are unpacked once each and shared between images whose manifests name the same blob;", "oci/layers_are_shared_and_go_with_the_last_image"),
    ("OCI IMAGES", "Archives of the kind docker-archive: are always read.", "oci/an_archive_by_contents_makes_no_blobs_known"),
    ("OCI IMAGES", "Entrypoint and Cmd are executed, the one followed by the other as arguments.", "oci/arguments_take_the_place_of_cmd"),
    ("OCI IMAGES", "Arguments after -- replace Cmd, and --exec= replaces both.", "oci/arguments_take_the_place_of_cmd"),
    ("OCI IMAGES", "One without a volume gets an empty one with the owner and the mode of the image's directory;", "oci/volumes_begin_as_the_directory_of_the_image"),
    ("OCI IMAGES", "names that have a meaning for annotations get label/ in front.", "oci/labels_of_a_config_give_no_rights"),
    ("OCI IMAGES", "An OCI image can be a dependency;", "oci/an_aci_depends_on_an_oci_image"),
    ("ENCRYPTED IMAGES", "Image archives that are encrypted by a passphrase (OpenPGP, AES) are decrypted with --passphrase-file=FILE.", "fetch/encrypted"),
    ("WHAT IS FETCHED WHEN", "the server's ETag and Cache-Control are honoured, the latter for half a day at most,", "fetch/a_server_cannot_keep_updates_from_asking"),
    ("WHAT IS FETCHED WHEN", "and without the first Last-Modified,", "fetch/update_by_date"),
    ("WHAT IS FETCHED WHEN", "Interrupted downloads are resumed by the next one of the same URL.", "fetch/killed_and_resumed"),
    ("WHAT IS FETCHED WHEN", "All of them occupy an eighth of the file system of the store at most, and the oldest are removed first;", "unit/transfer-download/parts_are_limited"),
    ("WHAT IS FETCHED WHEN", "is not read again.", "fetch/a_file_that_has_not_changed"),
    ("LIMITS", "64 MiB", "unit/transfer-download/no_room_for_several"),
    ("LIMITS", "4096 inodes of the file system of the store are kept free.", "unit/transfer-download/no_inodes"),
    ("LIMITS", "A transfer that is slower than --min-speed= for two minutes is aborted.", "unit/transfer/too_slow"),
    ("ENVIRONMENT", "https_proxy, http_proxy, all_proxy, no_proxy Proxies, as in curl(1).", "unit/transfer/proxy"),
    ("ENVIRONMENT", "CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR Trusted certificate authorities.", "fetch/authorities_by_environment"),
)

main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-registries(5), sentence by sentence. Transfers are in tests/integration/registry.py."""

import tempfile

from manual import *

PAGE = page("acnspawn-registries.5", "2dba8779f42a1f1e")


def fetch(host, text, reference, *more, rc=1, **env):
    """What a fetch says with this configuration alone, over no network."""
    directory = tempfile.mkdtemp(dir=host.tmp)
    os.makedirs(os.path.join(directory, "registries.d"))
    for n, part in enumerate((text,) + more):
        with open(os.path.join(directory, "registries.d", "%d.conf" % n), "w") as f:
            f.write(part)
    empty = os.path.join(directory, "containers.conf")
    with open(empty, "w"):
        pass
    return host.acnspawn("--config-dir=" + directory, "fetch", "docker://" + reference, env={**os.environ, "CONTAINERS_REGISTRIES_CONF": empty, **env}).expect(rc).err


@sentence("CONFIGURATION", "The format is TOML; dates, floating point numbers, strings over several lines and dotted keys are refused. Keys that "
                           "are not in this list are ignored, with a message. Version 1 of these files, with a table registries, is refused.")
@sentence("CONFIGURATION", "Whether nothing may be fetched by that prefix.")
def what_a_file_may_have(host):
    blocked = "[[registry]]\nprefix = 'example.invalid'\nblocked = true\n"
    contains(fetch(host, blocked, "example.invalid/app"), "blocked")
    contains(fetch(host, blocked + "nothing = 1\n", "example.invalid/app"), "nothing")
    for text in "a = 1979-05-27\n", "a = 1.5\n", 'a = """x\ny"""\n', "a.b = 1\n", "[registries.search]\nregistries = ['x']\n":
        r = fetch(host, text + blocked if not text.startswith("[") else text, "example.invalid/app")
        contains(r, "0.conf")
        lacks(r, "example.invalid")


@sentence("CONFIGURATION", "The registry of short names, which are references without a registry. With several in this list a short name is refused")
@sentence("CONFIGURATION", "The empty string removes an alias of an earlier file.")
@sentence("CONFIGURATION", "An entry for a prefix, an alias or the search list in a later file replaces that of an earlier one.")
@sentence("CONFIGURATION", "References by short name, without a tag: app = 'example.com/team/app'.")
def short_names(host):
    blocked = "[[registry]]\nprefix = '%s'\nblocked = true\n"
    search = "unqualified-search-registries = [%s]\n"
    one, two = (blocked % ("%s.invalid" % n) for n in ("one", "two"))
    contains(fetch(host, search % "'one.invalid'" + one, "team/app"), "one.invalid")
    contains(fetch(host, search % "'one.invalid', 'two.invalid'" + one + two, "team/app"), "one.invalid")
    contains(fetch(host, search % "'one.invalid'" + one, "team/app", search % "'two.invalid'" + two), "two.invalid")
    alias = "[aliases]\napp = 'one.invalid/team/app'\n"
    contains(fetch(host, one + alias, "app:1"), "one.invalid")
    lacks(fetch(host, one + alias, "app:1", "[aliases]\napp = ''\n"), "one.invalid")


@sentence("CONFIGURATION", "Of several matching ones the longest prefix counts.")
@sentence("CONFIGURATION", "If it is missing, it is the location.")
@sentence("CONFIGURATION", "for the hosts below a domain. A port is part of the host.")
def the_longest_prefix(host):
    text = ("[[registry]]\nprefix = 'one.invalid'\nblocked = true\n"
            "[[registry]]\nprefix = 'one.invalid/team'\nlocation = '127.0.0.1:1/team'\n"
            "[[registry]]\nlocation = 'two.invalid:5000'\nblocked = true\n"
            "[[registry]]\nprefix = '*.three.invalid'\nblocked = true\n")
    for reference, is_blocked in ("one.invalid/app", True), ("one.invalid/team/app", False), ("two.invalid:5000/app", True), ("sub.three.invalid/app", True):
        equal("blocked" in fetch(host, text, reference), is_blocked, reference)


@sentence("ENVIRONMENT", "Files given in this way have to exist.")
@sentence("CONFIGURATION", "If the environment contains CONTAINERS_REGISTRIES_CONF, that file is read instead of the first")
def files_by_the_environment(host):
    path = host.path("own.conf")
    with open(path, "w") as f:
        f.write("[[registry]]\nprefix = 'own.invalid'\nblocked = true\n")
    contains(fetch(host, "", "own.invalid/app", CONTAINERS_REGISTRIES_CONF=path), "blocked")
    contains(fetch(host, "", "own.invalid/app", CONTAINERS_REGISTRIES_CONF=host.path("missing.conf")), "missing.conf")


elsewhere(
    ("DESCRIPTION", "The part before the first slash is the registry if it contains a dot or a colon, or is localhost. Without a tag and a digest "
                    "the tag is latest.", "unit/registry-reference/valid"),
    ("DESCRIPTION", "takes precedence over the tag: the reference always means the same image.", "registry/by_tag_and_by_digest"),
    ("DESCRIPTION", "An update, and each pull by acnspawn-cri(8), requests the manifest of a digest, too",
     "cri-images/a_digest_that_is_there_takes_credentials"),
    ("DESCRIPTION", "Everything that comes from a registry is verified against the digest by which it was requested.",
     "registry/blobs_that_are_damaged"),
    ("CONFIGURATION", "They are read in the order above, and by name in each directory.", "unit/registries-conf/files"),
    ("CONFIGURATION", "has no effect on that.", "unit/registries-conf/short_names_without_answer"),
    ("CONFIGURATION", "The location of images with that prefix, which replaces the prefix.", "unit/registries-conf/places"),
    ("CONFIGURATION", "Whether certificates that are not valid are accepted, and plain http where TLS is not available.",
     "unit/registry/insecure_by_configuration"),
    ("CONFIGURATION", "nothing is sent to the registry by http any more once there has been a connection by TLS.",
     "registry/http_is_no_way_out_after_https"),
    ("CONFIGURATION", "Whether mirrors are only used for references with a digest.", "unit/registries-conf/places"),
    ("CONFIGURATION", "A mirror that is tried before the location, in the order of the file; if it fails, there is a message, and the next one is "
                      "tried.", "registry/mirrors_and_short_names"),
    ("CONFIGURATION", "A manifest, config or layer with another digest than the requested one is a failure, too.",
     "registry/a_mirror_with_another_manifest"),
    ("CREDENTIALS", "Credentials are sent only if a registry requires authentication.", "registry/private_with_passwords"),
    ("CREDENTIALS", "A file with credentials for the registry must not be readable by others, and must not be writable by others.",
     "unit/registry/credentials_that_others_can_read"),
    ("CREDENTIALS", "Identity tokens are supported.", "unit/registry/identity_token"),
    ("CREDENTIALS", "The program must be owned by root or the caller, and must not be writable by others.",
     "unit/credential-helper/programs_that_are_not_run"),
    ("CREDENTIALS", "It is killed after a minute.", "unit/credential-helper/it_takes_too_long"),
    ("CREDENTIALS", "If it returns nothing, there is a warning, unless the registry is unknown to it, and the entries of the file itself are used.",
     "registry/helpers_for_credentials"),
    ("CREDENTIALS", "which must be accessed by https unless http is allowed for the registry.", "unit/registry/realms_that_are_refused"),
    ("CREDENTIALS", "They are not sent to other hosts after redirects, and a server that the registry redirects to cannot specify a token service.",
     "registry/a_redirects_target_gets_no_credentials"),
    ("CREDENTIALS", "Neither credentials nor tokens are ever shown.", "fetch/credentials_are_not_shown"),
    ("CERTIFICATES", "in it are of authorities that are trusted in addition to those of this host, for this registry, its token service, and the "
                     "targets of its redirects.", "registry/authority_of_one_registry"),
    ("CERTIFICATES", "are a client certificate, which is sent to this registry only", "registry/client_certificates"),
    ("EXAMPLES", "requests copies/team/app:1.0 at mirror.example.org first.", "registry/mirrors_and_short_names"),
)

main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-trust(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-trust.1", "6048280c415ba747")


def gpg(host, *words, **more):
    if not shutil.which("gpg"):
        raise Skip("the program gpg is missing")
    os.makedirs(host.path("gnupg"), 0o700, exist_ok=True)
    return subprocess.run(["gpg", "--homedir", host.path("gnupg"), "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", *words],
                          check=True, capture_output=True, **more).stdout


def end(host):
    if os.path.isdir(host.path("gnupg")):
        subprocess.run(["gpgconf", "--homedir", host.path("gnupg"), "--kill", "all"], capture_output=True)
    end_pods(host)


@once
def key(host):
    """The fingerprint of a key, whose public part is in the file key.asc."""
    gpg(host, "--quick-gen-key", "Ann Example <ann@example.com>", "ed25519", "sign", "0")
    with open(host.path("key.asc"), "wb") as f:
        f.write(gpg(host, "--armor", "--export"))
    return next(line for line in gpg(host, "--with-colons", "--list-keys").decode().splitlines() if line.startswith("fpr")).split(":")[9]


def signed(host, name):
    """An image of that name, and its signature."""
    path = host.image(name=name, base=False)
    gpg(host, "--armor", "--detach-sign", "--output", path + ".asc", path)
    return path


def acnspawn(host, *words, **more):
    return host.acnspawn("--config-dir=" + host.path("etc"), *words, **more)


def fetched(host, path):
    return acnspawn(host, "fetch", "--signature=%s.asc" % path, path).rc == 0


@sentence("DESCRIPTION", "A key is trusted for a prefix, which is a name and all names that continue after it with a slash (example.com/app is a "
                         "prefix of example.com/app and example.com/app/x, not of example.com/apple), or as a root key, for all images.")
@sentence("OPTIONS", "Trust the keys for images whose name is PREFIX or begins with PREFIX and a slash.")
@sentence("OPTIONS", "Trust the keys for all images.")
@sentence("FILES", "The keys that are trusted for all images, and for those of a prefix, whose slashes are commas in the name of the directory. The "
                   "name of a file is the fingerprint of the primary key in lower case; its content is the public key, armored or binary.")
@sentence("EXAMPLES", "# acnspawn trust --prefix=example.com/team team.asc")
def keys_are_for_prefixes(host):
    fingerprint = key(host)
    images = {name: signed(host, name) for name in ("example.com/app", "example.com/app/x", "example.com/apple")}
    equal({name: fetched(host, path) for name, path in images.items()}, {name: False for name in images})
    equal(acnspawn(host, "trust", "--yes", "--prefix=example.com/app", host.path("key.asc")).expect(0).out, fingerprint + "\n")
    contains(read_text(host.path("etc/trustedkeys/prefix.d/example.com,app", fingerprint.lower())), "BEGIN PGP PUBLIC KEY BLOCK")
    equal({name: fetched(host, path) for name, path in images.items()}, {"example.com/app": True, "example.com/app/x": True, "example.com/apple": False})
    acnspawn(host, "trust", "-y", "--root", host.path("key.asc")).expect(0)
    true(os.path.exists(host.path("etc/trustedkeys/root.d", fingerprint.lower())), "the root key")
    true(fetched(host, images["example.com/apple"]), "an image of any name")


@sentence("DESCRIPTION", "shows the public keys in files (armored or binary; - is standard input) or at URLs: fingerprint, user IDs, times of "
                         "creation and expiry.")
@sentence("OPTIONS", "Do not ask. Without this option and without a terminal no key is accepted.")
def keys_are_shown(host):
    fingerprint = key(host)
    with open(host.path("key.asc"), "rb") as f:
        text = f.read()
    for given in text, gpg(host, "--export"):
        r = acnspawn(host, "trust", "--prefix=example.org", "-", input=given).expect(1)
        for words in " ".join(fingerprint[i:i + 4] for i in range(0, 40, 4)), "Ann Example <ann@example.com>", "Expires:", "Created:":
            contains(r.err, words)
    true(not os.path.exists(host.path("etc/trustedkeys/prefix.d/example.org")), "no key is accepted")


@sentence("OPTIONS", "Show all trusted keys, what they are trusted for, and whether they have expired or been revoked.")
@sentence("OPTIONS", "Stop trusting a key, for everything or for one prefix only, and print the files that were removed. The last 16 digits of the "
                     "fingerprint or more are enough.")
def keys_are_listed_and_removed(host):
    fingerprint = key(host)
    for prefix in "example.com/one", "example.com/two":
        acnspawn(host, "trust", "--yes", "--prefix=" + prefix, host.path("key.asc")).expect(0)
    listed = lambda: [(k["prefix"], k["state"]) for k in json.loads(acnspawn(host, "trust", "--list", "--json").expect(0).out) if k["fingerprint"] == fingerprint]
    true({("example.com/one", "trusted"), ("example.com/two", "trusted")} <= set(listed()), "the list: %r" % listed())
    equal(acnspawn(host, "trust", "--remove=" + fingerprint[-16:], "--prefix=example.com/one").expect(0).out,
          host.path("etc/trustedkeys/prefix.d/example.com,one", fingerprint.lower()) + "\n")
    true(("example.com/one", "trusted") not in listed() and ("example.com/two", "trusted") in listed(), "the list: %r" % listed())
    acnspawn(host, "trust", "--remove=" + fingerprint).expect(0)
    equal(listed(), [])
    acnspawn(host, "trust", "--remove=" + fingerprint[-15:]).expect(2)


elsewhere(
    ("DESCRIPTION", "An image that is fetched from the network needs a signature: an armored detached OpenPGP signature of the file as it is fetched",
     "fetch/signatures"),
    ("DESCRIPTION", "and that has neither expired nor been revoked.", "unit/trust/c2_revoked_key"),
    ("DESCRIPTION", "The user's own keyrings are not used.", "unit/trust/homes_of_many_processes"),
    ("DESCRIPTION", "It asks on the terminal for confirmation, and prints the fingerprints of the keys that are trusted.",
     "trust/keys_are_shown_and_confirmed"),
    ("DESCRIPTION", "With --prefix= alone the keys are those that the web pages of the prefix offer (meta discovery, ac-discovery-pubkeys).",
     "trust/keys_that_pages_offer"),
    ("DESCRIPTION", "Trusting a key again adds new data of it: a later expiry, a revocation.", "unit/trust/keys_that_went_bad"),
    ("OPTIONS", "Accept keys over insecure connections: http, without encryption; tls, from servers whose certificate is not valid; none; all, both.",
     "trust/keys_from_urls"),
    ("OPTIONS", "A key installed by the distribution is masked by an empty file of the same name.", "unit/trust/vendor_and_masks"),
    ("FILES", "Directories and files must be owned by root and must not be writable by others; symbolic links are refused.",
     "unit/trust/c8_permissions"),
    ("FILES", "An empty file, or a symbolic link to /dev/null, of the same name below /etc hides a key.", "unit/trust/vendor_and_masks"),
    ("EXAMPLES", "Trust the keys that example.com publishes for its images:", "trust/keys_that_pages_offer"),
)

main(end)

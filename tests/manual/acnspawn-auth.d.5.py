#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-auth.d(5), sentence by sentence. What is sent to servers has its cases in tests/unit and tests/integration/fetch.py."""

from manual import *

PAGE = page("acnspawn-auth.d.5", "d3712a1dff7d04f3")


def fetch(host, files, mode=0o600):
    """From a server that is not there: what is wrong with the files is said before it is asked."""
    directory = host.path("config/auth.d")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for name, text in files.items():
        with open(os.path.join(directory, name), "w") as f:
            f.write(text)
        os.chmod(os.path.join(directory, name), mode)
    return host.acnspawn("--config-dir=" + host.path("config"), "fetch", "https://127.0.0.1:1/a.aci").expect(1).err


def is_refused(host, name, text, mode=0o600):
    err = fetch(host, {name: text}, mode)
    contains(err, name)
    return err


def is_accepted(host, name, text):
    lacks(fetch(host, {name: text}), "auth.d")


@sentence("FORMAT OF *.CONF", "Empty lines and lines that begin with # or ; are comments. Blanks around key and value are ignored; quotes and backslashes are literal. An unknown key is an error.")
@sentence("FORMAT OF *.CONF", "The hosts of the section, separated by blanks; may be given more than once.")
@sentence("FORMAT OF *.CONF", "The user must not contain a colon.")
@sentence("EXAMPLES", "[Host] Name=images.example.com registry.example.com:5000 User=node7")
def files_in_the_own_format(host):
    is_accepted(host, "a.conf", "# comment\n; comment\n\n[Host]\n Name = one.example.com two.example.com:5000 \nName=three.example.com\nUser=node7\nPassword=\"x\\\n[Host]\nName=b.example.com\nToken=01\n")
    for wrong in "[Host]\nName=a.example.com\nNothing=1\n", "[Host]\nName=a.example.com\nUser=a:b\nPassword=c\n", "[Host]\nUser=a\nPassword=c\n", "[Other]\nName=a\n":
        is_refused(host, "a.conf", wrong)


@sentence("DESCRIPTION", "A file that is accessible to others than its owner, or whose owner is not root, is refused, as is a directory that is writable by others: nothing is fetched until that "
                         "is corrected (chmod 0600 FILE).")
@sentence("DESCRIPTION", "Within a directory there may be one entry per host.")
@sentence("DESCRIPTION", "Other files are ignored, and so are those whose names begin with a dot.")
@sentence("DESCRIPTION", "The files are read before the first request; commands that need no network do not read them.")
def who_may_read_them(host):
    good = "[Host]\nName=a.example.com\nUser=a\nPassword=hunter2\n"
    lacks(is_refused(host, "a.conf", good, 0o644), "hunter2")
    is_refused(host, "a.conf", good + good)
    for name in ".hidden.conf", "a.conf.bak", "README":
        is_accepted(host, name, "nonsense")
    fetch(host, {"a.conf": "nonsense"})
    host.acnspawn("--config-dir=" + host.path("config"), "fetch", host.image(base=False)).expect(0)
    os.chown(host.path("config/auth.d/a.conf"), 7, 0)
    contains(host.acnspawn("--config-dir=" + host.path("config"), "fetch", "https://127.0.0.1:1/a.aci").expect(1).err, "a.conf")


@sentence("FORMAT OF *.JSON", 'One JSON object with "rktVersion" of "v1" and "rktKind" of "auth"')
@sentence("FORMAT OF *.JSON", 'The type "aws" is not supported.')
@sentence("FORMAT OF *.JSON", '"registries" is the list of hosts; "credentials" has "user" and "password".')
def files_in_the_format_of_rkt(host):
    top = {"rktVersion": "v1", "rktKind": "auth", "domains": ["a.example.com"], "type": "basic", "credentials": {"user": "a", "password": "b"}}
    is_accepted(host, "a.json", json.dumps(top))
    is_accepted(host, "a.json", json.dumps({**top, "type": "oauth", "credentials": {"token": "t"}}))
    is_accepted(host, "a.json", json.dumps({"rktVersion": "v1", "rktKind": "dockerAuth", "registries": ["a.example.com"], "credentials": {"user": "a", "password": "b"}}))
    for change in {"type": "aws"}, {"rktVersion": "v2"}, {"domains": 5}:
        is_refused(host, "a.json", json.dumps({**top, **change}))


elsewhere(
    ("DESCRIPTION", "A file in /etc/acnspawn/auth.d masks the file of the same name in /usr/lib/acnspawn/auth.d; as does an empty one, or a symbolic link to /dev/null.",
     "unit/transfer-auth/directories"),
    ("FORMAT OF *.CONF", "The default port is that of https (443), or of http (80) if --insecure-options=http is given. Patterns are not supported: a section for example.com does not apply to "
                         "images.example.com.", "unit/transfer-auth/looked_up"),
    ("FORMAT OF *.CONF", "The password is the one line of that file, whose mode and owner are subject to the same rules.", "unit/transfer-auth/secrets_in_files"),
    ("FORMAT OF *.CONF", "A client certificate in PEM format for TLS connections, and its key; the key may be in the same file.", "registry/client_certificates"),
    ("USE OF CREDENTIALS", "When a server redirects to another host, no credentials are sent to that one, not even those configured for it, nor to any host after it.",
     "unit/transfer-auth/not_after_a_redirect"),
    ("USE OF CREDENTIALS", "Messages and the recorded names of images do not contain credentials.", "unit/transfer-auth/not_in_messages"),
    ("USE OF CREDENTIALS", "A user and password in a URL (https://USER:PASSWORD@HOST/...) take precedence over the configuration,", "unit/transfer-auth/looked_up"),
)

main()

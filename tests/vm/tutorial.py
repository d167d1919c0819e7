#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tutorial, acnspawn-intro(7): its commands are run as they are in the page, and write what the page says.

    tests/vm/tutorial.py --images DIRECTORY     on a machine with buildah, mmdebstrap and a mirror of Debian: the archives of the images
    run.py --tutorial=DIRECTORY                 in a guest: all the rest, with these archives

A block of commands begins with the comment "commands: PART" in the source of the page. A line with the prompt "# " begins a command, which goes on
after a backslash and up to the end of a here-document; other lines are what the command before writes."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))

from harness import *

PAGE = "acnspawn-intro.7"
ESCAPES = {r"\e": "\\", r"\-": "-", r"\&": "", r"\(aq": "'", r"\(dq": '"'}
STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "%s/storage"\nrunroot = "%s/run"\n'
GUEST = "/opt/tests/tutorial"


def blocks(page, part):
    """The lines of the blocks of PART, as they are shown."""
    inside, marked = False, False
    for line in read_text(page).splitlines():
        if line.startswith('.\\" commands: '):
            marked = line.split(": ")[1] == part
        elif line == ".EX":
            inside = True
        elif line == ".EE":
            inside, marked = False, False
        elif inside and marked:
            yield re.sub(r"\\(\(..|.)", lambda m: ESCAPES[m.group(0)], line)


def commands(page, part):
    """Pairs of a command and what it writes according to the page, or None if the page does not say it."""
    found, end, goes_on = [], None, False
    for line in blocks(page, part):
        if end is not None or goes_on:
            found[-1][0] += "\n" + line
            end = None if line == end else end
        elif line.startswith("# "):
            found.append([line[2:], None])
            m = re.search(r"<<(\w+)$", line)
            end = m.group(1) if m else None
        else:
            found[-1][1] = (found[-1][1] or "") + line + "\n"
        goes_on = end is None and line.endswith("\\")
    return found


def script(page, part):
    """For bash: the commands, one after the other in one shell, up to the first that fails, with a check of what they write."""
    lines = ["set -e -o pipefail", "curl() { busybox wget -q -O - \"${@: -1}\"; }" if part == "service" else ""]
    for command, output in commands(page, part):
        lines.append("cat <<'END_OF_COMMAND'\n# %s\nEND_OF_COMMAND" % command)
        if output is None:
            lines.append(command)
        else:
            lines += ["said=$(" + command + ")", "echo \"$said\"", "[ \"$said\" = %s ] || { echo 'the page has something else'; exit 1; }" %
                      ("'" + output.rstrip("\n").replace("'", "'\\''") + "'")]
    return "\n".join(lines) + "\n"


def run(page, part, directory, log, timeout, **env):
    with open(log, "w") as f:
        r = subprocess.run(["bash", "-c", script(page, part)], cwd=directory, stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT,
                           timeout=timeout, env={**os.environ, "PAGER": "cat", "SYSTEMD_PAGER": "cat", **env})
    text = read_text(log)
    equal(r.returncode, 0, "status of the commands of the page, which write: %s" % text[-2000:])
    return text


def make_images(directory):
    """The first part of the page, with a storage of its own for buildah."""
    for program in "buildah", "mmdebstrap":
        if not shutil.which(program):
            print("skip images: there is no " + program)
            return 0
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    with open(directory + "/storage.conf", "w") as f:
        f.write(STORAGE % (directory, directory))
    sources = "/etc/apt/sources.list.d/debian.sources"
    if not os.path.exists(sources):
        print("skip images: there is no " + sources)
        return 0
    env = {"CONTAINERS_STORAGE_CONF": directory + "/storage.conf"}
    try:
        run(os.path.join(HERE, "..", "..", "man", PAGE), "images", directory, directory + "/images.log", 1800, **env)
    except (Failure, subprocess.TimeoutExpired) as e:
        print("not ok images: %s" % str(e).replace("\n", " ~ "))
        return 1
    finally:
        subprocess.run(["buildah", "rm", "--all"], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(directory + "/storage", ignore_errors=True)
    print("ok images")
    return 0


@case
@with_timeout(1500)
def the_commands_of_the_tutorial(host):
    if not os.path.exists(GUEST):
        raise Skip("run.py has no --tutorial")
    # A database is set up and three apps get ready one after the other, on an emulated machine that may share its processor.
    os.makedirs("/run/systemd/system/acnspawn@.service.d", exist_ok=True)
    with open("/run/systemd/system/acnspawn@.service.d/slow.conf", "w") as f:
        f.write("[Service]\nTimeoutStartSec=1200\n")
    text = run(GUEST + "/" + PAGE, "service", GUEST, host.path("log"), 1400)
    for word in "shop-db", "shop-app", "shop-web", "You are visitor 3.", "accepting connections", "database system is ready to accept connections":
        contains(text, word)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--images"]:
        sys.exit(make_images(os.path.abspath(sys.argv[2])))
    main()

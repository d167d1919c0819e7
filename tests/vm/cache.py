#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where the images of image.py are kept: each is made once for a release and the content of that file, by one program at a time, and has
its name only when it is whole. Programs that use it hold a lock, so that others, of another version of that file, do not remove it
meanwhile. Run as a program, it makes the image of Debian 12. """

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time

import image

KEPT = 7 * 24 * 3600  # seconds
CACHE = os.environ.get("ACNSPAWN_TEST_VM_CACHE", "/var/cache/acnspawn-test")


class NotMade(Exception):
    pass


def lock(path, how):
    """A descriptor of the directory, locked, or None if another program has it in use."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def remove(path):
    """With nothing that a killed mmdebstrap may have left mounted there, such as this machine's /dev."""
    subprocess.run(["rm", "-rf", "--one-file-system", path], stderr=subprocess.DEVNULL, check=False)


def remove_unused(cache, release, final):
    """What was half made, an image that is damaged, and those of earlier versions of image.py after a while: clones of the source may have
    different ones. What other programs use stays."""
    for old in os.listdir(cache):
        path = cache + "/" + old
        is_old = old.startswith("debian-%s-" % release) and time.time() - os.stat(path).st_mtime > KEPT
        if is_old or path == final or old.startswith("new-"):
            fd = lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if fd is not None:
                remove(path)
                os.close(fd)


def is_whole(directory):
    return all(os.path.exists(directory + "/" + name) for name in ("root.img", "root/var", "root/usr/lib/systemd/systemd", "initrd", "kernel"))


def make_in(cache, release, final):
    directory = tempfile.mkdtemp(prefix="new-", dir=cache)
    os.chmod(directory, 0o755)
    held = lock(directory, fcntl.LOCK_EX)
    try:
        image.make_image(release, directory)
        os.sync()  # what has the name is whole, also after a loss of power
        os.rename(directory, final)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as e:
        raise NotMade("the image of Debian %s cannot be made in %s (is there a network, and room on the disk?): %s" % (release, cache, e)) from e
    finally:
        if os.path.isdir(directory):
            remove(directory)
        os.close(held)


def held_image(release, cache):
    """The directory with what is listed above, complete, and a descriptor that keeps other programs from removing it. One program at a time
    makes it, others wait."""
    with open(image.__file__, "rb") as f:
        recipe = f.read()
    key = hashlib.sha256(recipe + release.encode()).hexdigest()[:16]
    final = "%s/debian-%s-%s" % (cache, release, key)
    os.makedirs(cache, exist_ok=True)
    making = lock(cache, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if making is None:
        image.say("another program makes images in %s; waiting for it" % cache)
        making = lock(cache, fcntl.LOCK_EX)
    try:
        if not is_whole(final):
            remove_unused(cache, release, final)
            make_in(cache, release, final)
        return final, lock(final, fcntl.LOCK_SH)
    finally:
        os.close(making)


if __name__ == "__main__":
    try:
        held_image("12", CACHE)
    except NotMade as e:
        print("not ok made: %s" % e)
        sys.exit(1)
    print("ok made")

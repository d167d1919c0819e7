#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Costs that must not grow, counted in system calls and bytes: preparing does not depend on the size of the image, nothing is copied, apps
do not slow each other down. What these take in time is measured by tests/bench/apps."""

from harness import *

TRACED = re.compile(r"^\d+ +(?!\+\+\+|---|<\.\.\.)\w+\(")


def calls(host, *args):
    """The number of system calls of acnspawn and all that it starts."""
    if not shutil.which("strace"):
        raise Skip("strace is missing (Debian package strace)")
    log = host.path("calls")
    p = subprocess.run(["strace", "-f", "-qq", "-o", log] + host.argv(*args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=patience(120))
    equal(p.returncode, 0, "exit status of %s (%s)" % (" ".join(args), p.stderr))
    with open(log, errors="replace") as f:
        return sum(bool(TRACED.match(line)) for line in f)


def disk_usage(path):
    return sum(os.lstat(os.path.join(root, name)).st_blocks * 512
               for root, dirs, files in os.walk(path) for name in dirs + files)


@case
def prepare_does_as_much_for_a_large_image(host):
    """3000 files and 512 MB against a few: not one system call for each, and nothing is copied."""
    small = host.shell("true", name="example.com/small")
    files = {"bulk": Dir(), "zeros": Sparse(512 << 20), **{"bulk/%d" % i: File(b"%d" % i) for i in range(3000)}}
    large = host.shell("true", name="example.com/large", files=files)
    host.acnspawn("fetch", small).expect(0)
    host.acnspawn("fetch", large, timeout=180).expect(0)
    os.unlink(large)
    host.prepare("example.com/small"), host.prepare("example.com/large")
    few, many = calls(host, "prepare", "example.com/small"), calls(host, "prepare", "example.com/large")
    true(many < few + 100, "%d system calls for the small image, %d for the large one" % (few, many))
    pods = {os.path.basename(p): disk_usage(p) for p in host.pods()}
    true(max(pods.values()) < 1 << 20, "bytes of the pods: %s" % pods)


def manifests_read(host, *args):
    """How often manifests of images in the store are opened to be read."""
    log = host.path("opens")
    p = subprocess.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=openat,openat2"] + host.argv("prepare", *args),
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    equal(p.returncode, 0, "exit status of prepare %s (%s)" % (" ".join(args), p.stderr))
    # Manifests of the pod are written, and opened once more, without following links, for fsync().
    return sum('"manifest"' in line and not re.search(r"O_WRONLY|O_RDWR|O_NOFOLLOW| = -", line) for line in read_text(log).splitlines())


@case
def images_are_read_once(host):
    """Each at most once, regardless of the number of apps; with an ID or a file, only those that are needed."""
    if not shutil.which("strace"):
        raise Skip("strace is missing (Debian package strace)")
    low = host.shell("exit 0", name="example.com/low")
    host.acnspawn("fetch", low).expect(0)
    top = host.image(name="example.com/top", dependencies=[{"imageName": "example.com/low"}])
    other = host.image(name="example.com/other")
    host.acnspawn("fetch", top, other).expect(0)
    low_id, top_id = (host.acnspawn("fetch", x).expect(0).out.strip() for x in (low, top))
    template = host.path("pod.json")
    with open(template, "w") as f:
        json.dump({"acKind": "PodManifest", "acVersion": "0.8.11", "apps": [
            {"name": "a", "image": {"name": "example.com/top"}}, {"name": "b", "image": {"id": low_id}}]}, f)
    for args, bound in ((("example.com/low",), 3), (("example.com/low", "--name=a", "example.com/low", "--name=b", low_id, "--name=c"), 3),
                        ((low_id,), 1), ((low_id, "--name=a", low_id, "--name=b"), 1), ((top_id,), 3), (("example.com/top",), 3),
                        (("--pod-manifest=" + template,), 3)):
        n = manifests_read(host, *args)
        true(0 < n <= bound, "prepare %s read %d manifests, not at most %d" % (" ".join(args), n, bound))


@case
def running_copies_nothing(host):
    image = host.shell("cat /bin/busybox >/dev/null; ls -lR / >/dev/null 2>&1; exit 0", name="example.com/a",
                       files={"big": File(os.urandom(8 << 20))})
    host.run(image)
    pod = host.one_pod()
    true(disk_usage(os.path.join(pod, "apps/a/upper")) < 100000, "upper has %d bytes" % disk_usage(os.path.join(pod, "apps/a/upper")))
    journal = sum(os.lstat(os.path.join(root, f)).st_blocks * 512 for root, _, files in os.walk(pod) for f in files
                  if f.endswith(".journal"))
    rest = disk_usage(pod) - journal
    true(rest < 1 << 20, "the pod directory has %d bytes beside its journal" % rest)
    # A journal file is allocated in blocks of 8 MB.
    true(journal < 20 << 20, "the journal has %d bytes" % journal)


@case
@with_timeout(300)
def cost_per_app_stays_flat(host):
    """Not quadratic: one more app takes as many system calls with ten of them as with two, and to be prepared with forty as with five."""
    image = host.shell("exit 0", name="example.com/a")
    host.acnspawn("fetch", image).expect(0)

    def of(n, *verb):
        return calls(host, *verb, *[word for i in range(n) for word in ("example.com/a", "--name=app%d" % i)])

    def is_flat(few, more, *verb):
        a, b, c, d = (of(n, *verb) for n in (*few, *more))
        first, last = (b - a) / (few[1] - few[0]), (d - c) / (more[1] - more[0])
        print("# %s: %d system calls for %d apps; one more takes %.0f, and %.0f with %d of them" % (verb[0], a, few[0], first, last, more[1]))
        true(0 < last < 1.3 * first, "one more app takes %.0f system calls, and %.0f with %d of them" % (first, last, more[1]))
    is_flat((5, 10), (35, 40), "prepare")
    is_flat((2, 6), (6, 10), "run", "--rm")


main()

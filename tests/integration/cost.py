#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Costs that must not grow: preparing does not depend on the size of the image, nothing is copied, apps do not slow each
other down."""

import statistics

from harness import *


def seconds(function, times):
    taken = []
    for _ in range(times):
        start = time.monotonic()
        function()
        taken.append(time.monotonic() - start)
    return statistics.median(taken)


def disk_usage(path):
    return sum(os.lstat(os.path.join(root, name)).st_blocks * 512
               for root, dirs, files in os.walk(path) for name in dirs + files)


@case
@with_timeout(400)
def prepare_takes_as_long_for_a_large_image(host):
    """512 MB in 3000 files against 2 MB: the same few milliseconds."""
    small = host.shell("true", name="example.com/small")
    files = {"bulk": Dir()}
    block = os.urandom(1 << 17)
    for i in range(3000):
        files["bulk/%d" % i] = File(block + b"%d" % i)
    files["zeros"] = Sparse(128 << 20)
    large = host.shell("true", name="example.com/large", files=files)
    host.acnspawn("fetch", small).expect(0)
    host.acnspawn("fetch", large, timeout=180).expect(0)
    os.unlink(large)
    subprocess.run(["sync", "-f", host.dir])
    host.prepare("example.com/small"), host.prepare("example.com/large")
    quick = seconds(lambda: host.prepare("example.com/small"), 9)
    slow = seconds(lambda: host.prepare("example.com/large"), 9)
    true(slow < quick * 1.7 + 0.01, "%.1f ms for the small image, %.1f ms for the large one" % (quick * 1e3, slow * 1e3))
    true(slow < 0.25, "%.1f ms" % (slow * 1e3))
    # The least of many, as the machine may be busy.
    best = min(seconds(lambda: host.prepare("example.com/large"), 1) for _ in range(10))
    print("# prepare: small %.1f ms, large %.1f ms, best %.1f ms" % (quick * 1e3, slow * 1e3, best * 1e3))


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
    """Not quadratic: the cost of one more app is the same with 5 and with 40 of them, within the noise of a busy machine."""
    image = host.shell("exit 0", name="example.com/a")
    host.acnspawn("fetch", image).expect(0)

    def run(n):
        args = []
        for i in range(n):
            args += ["example.com/a", "--name=app%d" % i]
        return min(seconds(lambda: host.acnspawn("run", "--rm", *args).expect(0), 1) for _ in range(3))
    one, five, forty = run(1), run(5), run(40)
    print("# 1 app %.2f s, 5 apps %.2f s, 40 apps %.2f s" % (one, five, forty))
    true(forty - five < 35 * 0.06, "35 more apps cost %.2f s" % (forty - five))


main()

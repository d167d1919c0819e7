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

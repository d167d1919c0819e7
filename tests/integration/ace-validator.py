#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The specification's own validator for executors, built with Debian's Go from golang-github-appc-spec-dev and packed
into two images: main (with handlers) and sidekick, which share a volume.

The validator cannot detect that post-stop was skipped: its line and its file are checked here. Its time-outs (100 ms for
each reply of the metadata service, 5 s for the other app's file) are not those of a busy machine: it is built with longer
ones. How long a reply takes is measured by tests/bench.
"""

import tempfile

from harness import *

SOURCE = "/usr/share/gocode/src/github.com/appc/spec/ace"
TIMEOUTS = {"Timeout: 100 * time.Millisecond,": "Timeout: 60 * time.Second,", "timeout = 5 * time.Second\n": "timeout = 60 * time.Second\n"}
CACHE = os.environ.get("ACNSPAWN_TEST_CACHE", "/var/tmp")


def with_longer_timeouts(place):
    """An overlay of the compiler, in which one file of the source has them."""
    with open(os.path.join(SOURCE, "validator.go")) as f:
        text = f.read()
    for short, long in TIMEOUTS.items():
        equal(text.count(short), 1, "lines of the validator with " + short)
        text = text.replace(short, long)
    with open(os.path.join(place, "validator.go"), "w") as f:
        f.write(text)
    with open(os.path.join(place, "overlay.json"), "w") as f:
        json.dump({"Replace": {os.path.join(SOURCE, "validator.go"): f"{place}/validator.go"}}, f)
    return f.name


def build_validator():
    """The program, statically linked; built once and kept."""
    if not os.path.isdir(SOURCE):
        raise Skip("%s is missing (Debian package golang-github-appc-spec-dev)" % SOURCE)
    if not shutil.which("go"):
        raise Skip("go is missing (Debian package golang-go)")
    program = os.path.join(CACHE, "ace-validator")
    newest = max(os.path.getmtime(f) for f in [__file__] + [os.path.join(SOURCE, f) for f in os.listdir(SOURCE)])
    if not os.path.exists(program) or os.path.getmtime(program) < newest:
        env = dict(os.environ, GO111MODULE="off", GOPATH="/usr/share/gocode", CGO_ENABLED="0", GOFLAGS="",
                   GOCACHE=os.path.join(CACHE, "go-cache"), HOME=os.environ.get("HOME", "/root"))
        temporary = "%s.%d" % (program, os.getpid())
        with tempfile.TemporaryDirectory() as place:
            p = subprocess.run(["go", "build", "-overlay", with_longer_timeouts(place), "-o", temporary, "github.com/appc/spec/ace"],
                               env=env, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if p.returncode != 0:
            fail("the validator cannot be built: " + p.stdout)
        os.rename(temporary, program)
    return program


def images(host):
    with open(build_validator(), "rb") as f:
        program = File(f.read(), 0o755)
    files = {"ace-validator": program, "opt": Dir(), "opt/acvalidator": Dir(), "db": Dir(), "etc": Dir()}
    database = {"name": "database", "path": "/db", "readOnly": False}
    main_image = image_manifest("example.com/ace-validator-main", {
        "exec": ["/ace-validator", "main"], "user": "0", "group": "0",
        "workingDirectory": "/opt/acvalidator",
        "environment": [{"name": "IN_ACE_VALIDATOR", "value": "correct"}],
        "mountPoints": [database],
        "eventHandlers": [{"name": "pre-start", "exec": ["/ace-validator", "prestart"]},
                          {"name": "post-stop", "exec": ["/ace-validator", "poststop"]}],
    }, annotations=[{"name": "created", "value": "2020-01-02T03:04:05Z"}])
    sidekick = image_manifest("example.com/ace-validator-sidekick", {
        "exec": ["/ace-validator", "sidekick"], "user": "0", "group": "0", "mountPoints": [database]})
    return (write_aci(host.path("main.aci"), main_image, files),
            write_aci(host.path("sidekick.aci"), sidekick, files, "gz"))


def validate(host, *options, rounds=3):
    main_aci, sidekick_aci = images(host)
    for _ in range(rounds):
        uuid = host.prepare("--volume=database,kind=empty", *options, main_aci, "---", sidekick_aci)
        r = host.acnspawn("run", uuid)
        for phase in ("prestart", "main", "sidekick", "poststop"):
            true(re.search(r"(?m)\b%s OK$" % phase, r.out), "no '%s OK' in %s" % (phase, r))
        lacks(r.out + r.err, "FAIL")
        r.expect(0)
        upper = host.upper("ace-validator-main", host.pod_dir(uuid))
        true("/exited/" in upper, "the pod is in %s" % upper)
        for name in ("prestart", "main", "poststop"):
            true(os.path.exists(os.path.join(upper, name)), "the file /%s is missing" % name)
        for app in host.status(uuid)["apps"]:
            equal((app["cause"], app["exitStatus"]), ("exited", 0), app["name"])
        host.acnspawn("rm", uuid).expect(0)


@case
@with_timeout(600)
def all_phases_with_user_namespaces(host):
    validate(host)


@case
@with_timeout(600)
def all_phases_without_user_namespaces(host):
    validate(host, "--no-userns")


@case
@with_timeout(600)
def all_phases_as_one_run_from_files(host):
    main_aci, sidekick_aci = images(host)
    r = host.acnspawn("run", "--volume=database,kind=empty", main_aci, sidekick_aci).expect(0)
    for phase in ("prestart", "main", "sidekick", "poststop"):
        true(re.search(r"(?m)\b%s OK$" % phase, r.out), "no '%s OK' in %s" % (phase, r))


main()

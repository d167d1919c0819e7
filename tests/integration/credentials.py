#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Credentials: they are passed only to the app that they are for, as files in memory."""

import contextlib
import socket
import stat
import threading

from harness import *

SECRET = "open-sesame-%d" % os.getpid()


def secret_file(host, name="secret", content=SECRET, mode=0o600):
    path = host.path(name)
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, mode)
    return path


def app(host, script, name="a", **more):
    return host.shell(script, name="example.com/" + name, app=more)


def holding(host, needle=SECRET):
    """Files below the store and the runtime directory that contain the secret."""
    found = []
    for top in (host.dir, "/run/acnspawn"):
        for root, dirs, files in os.walk(top):
            dirs[:] = [d for d in dirs if not os.path.ismount(os.path.join(root, d))]
            for f in files:
                path = os.path.join(root, f)
                # Pods of other tests come and go meanwhile, and their network namespaces are files that cannot be read.
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISREG(os.lstat(path).st_mode) and not os.path.ismount(path) and needle.encode() in open(path, "rb").read():
                        found.append(path)
    return found


@both
def app_reads_its_credential(host, *options):
    """An unprivileged user can read it, no user can write it, and it is in memory that is not swapped."""
    path = secret_file(host)
    script = ("cd $CREDENTIALS_DIRECTORY && ls -A && cat token; echo; stat -c '%a %u %g' . token; touch token new 2>&1 | sort; "
              "grep \" $CREDENTIALS_DIRECTORY \" /proc/self/mountinfo | sed 's/^[^/]*\\/ [^ ]* \\([^ ]*\\).* - \\([a-z]*\\) .*/\\1 \\2/'")
    r = host.run(*options, app(host, script, user="1000", group="1000"), "--credential=token:" + path)
    lines = r.out.splitlines()
    equal(lines[:4], ["token", SECRET, "500 1000 1000", "400 1000 1000"])
    for line in lines[4:6]:
        contains(line, "Read-only file system")
    options, kind = lines[6].split()
    equal(kind, "ramfs", "file system")
    for option in "ro", "nosuid", "nodev", "noexec":
        contains(options.split(","), option, "options")


@case
def every_process_of_the_app_has_it(host):
    """Handlers, later starts of the app, and what enter runs."""
    path = secret_file(host)
    read = "cat $CREDENTIALS_DIRECTORY/token >>/v/log; echo >>/v/log"
    a = app(host, read + "; test $(wc -l </v/log) -ge 3 || exit 1; touch /out/up; while ! test -e /v/done; do sleep 0.05; done",
            mountPoints=[{"name": "v", "path": "/v"}], user="1000", group="1000",
            eventHandlers=[{"name": n, "exec": ["/bin/sh", "-c", read]} for n in ("pre-start", "post-stop")])
    uuid = host.detach("--volume=v,kind=empty,mode=1777", a, "--credential=token:" + path, "--restart=on-failure")
    host.wait_up("a", uuid)
    r = host.acnspawn("enter", uuid, "sh", "-c", "cat $CREDENTIALS_DIRECTORY/token; touch /v/done").expect(0)
    equal(r.out, SECRET)
    wait_for(lambda: host.state(uuid) == "exited", "end of the pod")
    log = read_text(os.path.join(host.pod_dir(uuid), "volumes/v/log")).split()
    true(len(log) >= 4 and set(log) == {SECRET}, "log is %r" % log)


@both
def other_apps_do_not_have_it(host, *options):
    """Neither by name, nor through /proc of the app with the credential; an app without credentials does not have the
    variable either."""
    one = app(host, "touch /v/up; while ! test -e /v/done; do sleep 0.05; done; ls $CREDENTIALS_DIRECTORY", "one",
              mountPoints=[{"name": "v", "path": "/v"}])
    spy = ("while ! test -e /v/up; do sleep 0.05; done; echo dir=$CREDENTIALS_DIRECTORY; ls -A /dev/credentials; "
           "for p in /proc/[0-9]*; do cat $p/root/dev/credentials/token; done 2>/dev/null; touch /v/done")
    two = app(host, spy, "two", mountPoints=[{"name": "v", "path": "/v"}])
    r = host.run(*options, "--volume=v,kind=empty", one, "--credential=token:" + secret_file(host), "---", two)
    lacks(r.out, SECRET)
    equal(sorted(r.out.splitlines()), ["one: token", "two: dir="])
    three = app(host, "ls -A $CREDENTIALS_DIRECTORY; cat $CREDENTIALS_DIRECTORY/*", "three")
    r = host.run(*options, app(host, "true", "four"), "--set-credential=token:" + SECRET, "---", three,
                 "--set-credential=other:something")
    contains(r.out, "something")
    lacks(r.out, SECRET)


@case
def it_is_in_no_text(host):
    """Manifest, units, status, plan, launch files, environment; before, while and after the pod runs."""
    path = secret_file(host)
    a = app(host, "tr '\\0' '\\n' </proc/self/environ; touch /out/up; while ! test -e /v/done; do sleep 0.05; done",
            mountPoints=[{"name": "v", "path": "/v"}])
    uuid = host.prepare("--volume=v,kind=empty,mode=1777", a, "--credential=token:" + path)
    verbs = (["cat-manifest", uuid], ["cat", uuid], ["status", uuid], ["status", "--json=short", uuid], ["logs", uuid])
    for verb in verbs[:-1]:
        lacks(host.acnspawn(*verb).expect(0).out, SECRET, verb[0])
    kept = holding(host)
    equal(kept, [os.path.join(host.pod_dir(uuid), "credentials/a/token")], "files with the secret")
    st, parent = os.stat(kept[0]), os.stat(os.path.dirname(kept[0]))
    equal((st.st_mode & 0o777, st.st_uid, parent.st_mode & 0o777, parent.st_uid), (0o600, 0, 0o700, 0), "rights")
    host.acnspawn("run", "--detach", uuid).expect(0)
    host.wait_up("a", uuid)
    equal(holding(host), [], "files with the secret while the pod runs")
    for verb in verbs:
        r = host.acnspawn(*verb).expect(0)
        lacks(r.out + r.err, SECRET, verb[0])
    with open(os.path.join(host.pod_dir(uuid), "volumes/v/done"), "w"):
        pass
    wait_for(lambda: host.state(uuid) == "exited", "end of the pod")
    equal(holding(host), [], "files with the secret after the pod")
    true(not os.path.exists(os.path.join(host.pod_dir(uuid), "credentials")), "the directory is left")
    r = host.acnspawn("prepare", "--dry-run", a, "--set-credential=token:" + SECRET).expect(0)
    lacks(r.out + r.err, SECRET, "plan")
    equal(holding(host), [], "files with the secret after a dry run")


@case
def pod_that_never_runs_keeps_nothing_when_removed(host):
    uuid = host.prepare(app(host, "true"), "--set-credential=token:" + SECRET)
    true(len(holding(host)) == 1, "it is kept for later")
    host.acnspawn("rm", uuid).expect(0)
    equal(holding(host), [], "files with the secret")


@case
def pod_that_does_not_start_keeps_nothing(host):
    path = host.path("source")
    os.mkdir(path)
    uuid = host.prepare("--volume=v,kind=host,source=" + path, host.shell("true", name="example.com/a"), "--mount=v:/v",
                        "--set-credential=token:" + SECRET)
    os.rmdir(path)
    true(host.acnspawn("run", uuid).rc != 0, "the pod ran")
    equal(holding(host), [], "files with the secret")


@both
def looking_at_files_of_a_prepared_pod_leaves_them_there(host, *options):
    uuid = host.prepare(*options, app(host, "cat $CREDENTIALS_DIRECTORY/token"), "--set-credential=token:" + SECRET)
    host.acnspawn("cp", uuid + ":/etc/passwd", host.path("passwd")).expect(0)
    host.acnspawn("cp", host.path("passwd"), uuid + ":/srv").expect(0)
    host.acnspawn("export", uuid, "-o", host.path("x.aci")).expect(0)
    equal(holding(host), [os.path.join(host.pod_dir(uuid), "credentials/a/token")], "files with the secret")
    equal(host.run(uuid).out, SECRET)


@case
def bytes_arrive_as_they_are(host):
    content = bytes(range(256)) * 16
    path = secret_file(host, content=content)
    host.run(app(host, "cat $CREDENTIALS_DIRECTORY/token >/out/copy; wc -c <$CREDENTIALS_DIRECTORY/empty"), "--credential=token:" + path,
             "--set-credential=empty:")
    equal(host.written("a", "out/copy"), content)


@case
def where_it_comes_from(host):
    """A file, standard input, a pipe, a listening socket, the command line; for all apps or for one."""
    read = "for f in $CREDENTIALS_DIRECTORY/*; do echo ${f##*/}=$(cat $f); done"
    r = host.run(app(host, read), "--credential=x:-", input=SECRET.encode())
    equal(r.out, "x=%s\n" % SECRET)
    pipe, end = os.pipe()
    os.write(end, SECRET.encode())
    os.close(end)
    equal(host.run(app(host, read), "--load-credential=x:/dev/fd/%d" % pipe, pass_fds=(pipe,)).out, "x=%s\n" % SECRET)
    os.close(pipe)
    server = socket.socket(socket.AF_UNIX)
    server.bind(host.path("socket"))
    server.listen()

    def serve():
        peer, _ = server.accept()
        peer.sendall(SECRET.encode())
        peer.close()
    thread = threading.Thread(target=serve)
    thread.start()
    equal(host.run(app(host, read), "--credential=x:" + host.path("socket")).out, "x=%s\n" % SECRET)
    thread.join()
    server.close()
    r = host.run("--set-credential=x:all", "--set-credential=y:all", app(host, read), "--set-credential=x:own")
    equal(r.out, "x=own\ny=all\n")


@case
def pod_manifest_has_them_for_all_apps(host):
    read = app(host, "cat $CREDENTIALS_DIRECTORY/x")
    file = host.path("pod.json")
    with open(file, "w") as f:
        f.write(host.acnspawn("cat-manifest", host.prepare(read)).expect(0).out)
    equal(host.run("--pod-manifest=" + file, "--set-credential=x:y").out, "y")


@case
def what_is_refused(host):
    """Without revealing the secret."""
    image, path = app(host, "true"), secret_file(host)
    big = secret_file(host, "big", b"x" * (1024 * 1024 + 1))
    half = secret_file(host, "half", b"x" * (600 * 1024))
    for args, message in ((["--credential=" + path], "NAME:FILE"), (["--set-credential=" + SECRET], "NAME:VALUE"),
                          (["--credential=a/b:" + path], "other than /"), (["--credential=..:" + path], "not be . or .."),
                          (["--credential=:" + path], "1 to 255"), (["--credential=%s:%s" % ("n" * 256, path)], "1 to 255"),
                          (["--credential=a:" + path + ".missing"], "No such file"), (["--credential=a:" + host.tmp], "directory"),
                          (["--credential=a:" + path, "--set-credential=a:x"], "given twice"), (["--credential=a:" + big], "1048576"),
                          (["--credential=a:" + half, "--credential=b:" + half], "1048576"),
                          (["--set-credential=a\x01:" + SECRET], "ASCII")):
        r = host.acnspawn("prepare", image, *args).expect(2)
        contains(r.err, message, "message about %s" % args[0][:40])
        lacks(r.err, SECRET, "message about %s" % args[0][:40])
    # Those of the pod and those of the app are the app's together.
    r = host.acnspawn("prepare", "--credential=a:" + half, image, "--credential=b:" + half).expect(1)
    contains(r.err, "The credentials of app a, with those of the pod, are larger than 1048576 bytes together")
    r = host.acnspawn("prepare", *("--set-credential=p%d:x" % n for n in range(200)), image, *("--set-credential=p%d:y" % n for n in range(100, 300)))
    contains(r.expect(1).err, "App a has 300 credentials, with those of the pod: more than 256")
    # One in the place of another counts once.
    host.acnspawn("prepare", "--dry-run", "--credential=a:" + half, image, "--credential=a:" + half).expect(0)
    # Standard input has been read to its end: a second secret would be empty.
    r = host.acnspawn("prepare", image, "--credential=a:-", "--credential=b:-", input=SECRET.encode()).expect(2)
    contains(r.err, "standard input has been read already")
    lacks(r.err, SECRET)
    for args in ("--env-file=-", image, "--credential=b:-"), (image, "--credential=b:-", "--env-file=-"), ("--env-file=-", "--env-file=-", image):
        r = host.acnspawn("prepare", *args, input=b"A=%s\n" % SECRET.encode()).expect(2)
        contains(r.err, "standard input has been read already", "message about %s" % " ".join(args))
        lacks(r.err, SECRET)
    for args in ("prepare", "--env-file=-", "--pod-manifest=-"), ("prepare", "--env-file=-", "-"), ("prepare", "--env-file=-", "docker-archive:-"), \
                ("validate", "-", "-"), ("trust", "--root", "-", "-"):
        contains(host.acnspawn(*args, input=b"A=b\n").expect(1).err, "standard input has been read already", "message of %s" % " ".join(args))
    equal(host.pods(), [], "pods")


@case
def nothing_can_be_put_in_its_place(host):
    """Neither by a volume nor by a link of the image; and /dev of the image is not used."""
    for path, files in (("/dev/credentials", {}), ("/dev/credentials/x", {}), ("/link", {"link": Link("/dev/credentials")})):
        r = host.acnspawn("prepare", "--volume=v,kind=empty", host.shell("true", name="example.com/a", files=files),
                          "--mount=v:" + path, "--set-credential=token:" + SECRET).expect(1)
        contains(r.err, path, "message")
    r = host.run(host.shell("cat $CREDENTIALS_DIRECTORY/token", name="example.com/a",
                            app={"environment": [{"name": "CREDENTIALS_DIRECTORY", "value": "/etc"}]}),
                 "--set-credential=token:" + SECRET, "--read-only")
    equal(r.out.strip(), SECRET)


@case
def app_that_may_mount_has_it_as_well(host):
    r = host.run(app(host, "cat $CREDENTIALS_DIRECTORY/token"), "--set-credential=token:" + SECRET,
                 "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE")
    equal(r.out.strip(), SECRET)


main()

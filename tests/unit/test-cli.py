#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The command line of the real program, as far as it goes without root: help, usage errors and their exit status,
users without access to a store, closed streams.

usage: test-cli.py ACNSPAWN SOURCE-DIRECTORY

Every case prints "ok NAME" or "not ok NAME: why" on a line of its own.
"""

import functools
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm"}
for name in os.environ:
    if name.startswith(("ASAN_", "UBSAN_", "LSAN_")):
        CLEAN[name] = os.environ[name]

failures = 0


def case(function):
    global failures
    try:
        function()
        print(f"ok {function.__name__}", flush=True)
    except AssertionError as e:
        failures += 1
        print(f"not ok {function.__name__}: {e}".replace("\n", "~"), flush=True)


def run(*words, env=None, **more):
    return subprocess.run([PROGRAM, *words], env={**CLEAN, **(env or {})}, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=60, **more)


def check(what, actual, expected):
    if actual != expected:
        raise AssertionError(f"{what} is {actual!r}, expected {expected!r}")


def check_contains(what, text, part):
    if part not in text:
        raise AssertionError(f"{what} is {text!r}, expected {part!r} in it")


@functools.lru_cache(None)
def dump():
    """Run once: hundreds of comparisons need it."""
    rows = [line.split("\t") for line in run("--dump-options").stdout.splitlines()]
    return [r[1:] for r in rows if r[0] == "verb"], [r[1:] for r in rows if r[0] == "option"]


VERBS = [v[0] for v in dump()[0]]

# Words of the command line, and what the message must say. All exit with 2, say where to read more, and print nothing
# on standard output.
USAGE_ERRORS = [
    ([], "No command given", "Try 'acnspawn --help'"),
    (["lst"], "Unknown command 'lst'", "Did you mean 'list'? Try 'acnspawn --help'"),
    (["perpare"], "Unknown command 'perpare'", "Did you mean 'prepare'?"),
    (["\033[2J"], "Unknown command '\\x1b[2J'", None),
    (["image"], "'acnspawn image' needs one of: list, rm, show, cat-manifest", "Try 'acnspawn image --help'"),
    (["image", "ls"], "Unknown command 'image ls': 'image' has list, rm, show, cat-manifest",
     "Did you mean 'image list'? Try 'acnspawn image --help'"),
    (["image", "zzz"], "Unknown command 'image zzz': 'image' has list, rm, show, cat-manifest", "Try 'acnspawn image --help'"),
    (["image", "pull", "x"], "Unknown command 'image pull'", "Did you mean 'fetch'? Try 'acnspawn image --help'"),
    # what other tools call it
    (["ps"], "Unknown command 'ps'", "Did you mean 'list'? Try 'acnspawn --help'"),
    (["pod", "ls"], "Unknown command 'pod ls': 'pod' has create, verify", "Did you mean 'pod list'? Try 'acnspawn pod --help'"),
    (["pod", "rm", "p"], "Unknown command 'pod rm'", "Did you mean 'rm'? Try"),
    (["pod", "inspect", "p"], "Unknown command 'pod inspect'", "Did you mean 'status --json'? Try"),
    (["pod", "veryfi", "p"], "Unknown command 'pod veryfi'", "Did you mean 'pod verify'? Try"),
    (["container", "exec", "p", "ls"], "Unknown command 'container'", "Did you mean 'exec'? Try"),
    (["system", "prune"], "Unknown command 'system'", "Did you mean 'prune'? Try"),
    (["system", "zzz"], "Unknown command 'system'", "Try 'acnspawn --help'"),
    (["image", "push", "x"], "Unknown command 'image push'", "'acnspawn image export' writes an archive"),
    (["network", "ls"], "Unknown command 'network ls': 'network' has reload", "see acnspawn-network(7)"),
    (["restart", "p"], "Unknown command 'restart'", "'acnspawn restart-app' starts apps again; a pod that is a unit"),
    (["reload", "p"], "Unknown command 'reload'", "Did you mean 'apply'?"),
    (["up"], "Unknown command 'up'", "A pod is run by 'acnspawn run'; one that a file declares by 'systemctl start acnspawn@NAME': acnspawn.pod(5)."),
    (["journal", "p"], "Unknown command 'journal'", "Did you mean 'logs'?"),
    (["run", "--setenv=A=1", "i"], "Unknown option '--setenv'", "Did you mean '--environment'?"),
    (["enter", "-it", "p"], "Unknown option '-i'", "-i and -t are not needed; 'acnspawn exec' takes them. Try 'acnspawn enter --help'"),
    (["enter", "--tty", "p"], "Unknown option '--tty'", "'acnspawn exec' takes --tty. Try 'acnspawn enter --help'"),
    (["exec"], "'acnspawn exec' needs a pod", "Try 'acnspawn exec --help'"),
    (["exec", "-i", "p"], "'acnspawn exec' needs a command after the pod", "Try 'acnspawn exec --help'"),
    (["exec", "-it", "p", "sh"], "--tty is not possible: standard input and output are not both a terminal", "Leave it out; --interactive (-i) alone"),
    (["exec", "p", "-it", "sh"], "'-it' is given after the pod", "Try 'acnspawn exec --help'"),
    (["exec", "-d", "p", "sh"], "Unknown option '-d'", "it cannot be detached; your shell runs both in the background with '&'."),
    (["exec", "--privileged", "p", "sh"], "Unknown option '--privileged'", "The command has the privileges of the app, and never more."),
    (["exec", "--env-file=-", "p", "sh"], "standard input is that of the command", "Try 'acnspawn exec --help'"),
    # names that podman and docker have in common: messages have the one that was given
    (["run", "-e", "=1", "i"], "Invalid value '=1' for -e: ", None),
    (["run", "i", "--env==1"], "Invalid value '=1' for --env: ", None),
    (["run", "-E", "=1", "i"], "Invalid value '=1' for -E: ", None),
    (["run", "--env-file=/no/such", "i"], "Invalid value '/no/such' for --env-file: No such file", None),
    (["run", "i", "-u", ""], "Invalid value '' for -u: must be a name, a number, or an absolute path in the image", None),
    (["run", "-u", ":", "i"], "Invalid value ':' for -u: must be USER, USER:GROUP or :GROUP", None),
    (["run", "-u", "a:b:c", "i"], "Invalid value 'a:b:c' for -u: must be USER, USER:GROUP or :GROUP", None),
    (["run", "-w", "srv", "i"], "Invalid value 'srv' for -w: must be an absolute path", "A valid one is -w /srv/www."),
    (["run", "i", "--workdir=srv"], "Invalid value 'srv' for --workdir: must be an absolute path", "A valid one is --workdir=/srv/www."),
    (["run", "--entrypoint=", "i"], "Invalid value '' for --entrypoint: must not be empty", None),
    (["prepare", "-p", "80", "i"], "Invalid value '80' for -p: must be NAME:[IP:]PORT or [IP:]PORT[-LAST]:APPPORT", None),
    (["prepare", "--publish=80:80/dccp", "i"], "Invalid value '80:80/dccp' for --publish: the protocol must be tcp, udp or sctp", None),
    (["prepare", "--network=none,a", "i"], "Invalid value 'none,a' for --network: 'none' cannot be combined with others", None),
    (["prepare", "i", "-m", "much"], "Invalid value 'much' for -m: ", None),
    (["prepare", "i", "-p", "80:80"], "Option -p is for the whole pod: put it before the first image", None),
    (["prepare", "-e"], "Option -e needs a value: NAME[=VALUE]", None),
    (["enter", "-w", "srv", "p"], "Invalid value 'srv' for -w: must be an absolute path in the app's root", None),
    (["enter", "-e", "=1", "p"], "Invalid value '=1' for -e: ", None),
    # options of an app before the first image
    (["prepare", "-u", "1", "i", "j"], "With several apps, -u has to be given for one of them: put it after its image", None),
    (["prepare", "--tty", "-i", "i", "j"], "With several apps, --tty has to be given for one of them", None),
    # what other tools have and this one has not, or in another way
    (["run", "--cap-add=NET_ADMIN", "i"], "Unknown option '--cap-add'", "--caps-retain= after the image names all capabilities that the app has"),
    (["run", "--privileged", "i"], "Unknown option '--privileged'", "Privileges are given one by one after the image: --caps-retain="),
    (["run", "--ulimit=nofile=1", "i"], "Unknown option '--ulimit'", "Limits of processes are fixed"),
    (["run", "--init", "i"], "Unknown option '--init'", "systemd is PID 1 of each pod"),
    (["run", "--security-opt=label=disable", "i"], "Unknown option '--security-opt'", "Each has an option of its own after the image"),
    (["run", "--userns=keep-id", "i"], "Unknown option '--userns'", "--no-userns switches that off"),
    (["run", "--ip=10.0.0.2", "i"], "Unknown option '--ip'", "--net=NAME:IP=ADDRESS"),
    (["run", "-P", "i"], "Unknown option '-P'", "--publish=PORT:APPPORT publishes one port"),
    (["run", "--ipc=host", "i"], "Unknown option '--ipc'", "The apps of a pod share an IPC namespace"),
    (["run", "--gpus=all", "i"], "Unknown option '--gpus'", "--device= after the image"),
    (["run", "--pod=p", "i"], "Unknown option '--pod'", "'acnspawn add-app' adds one to a pod that runs"),
    (["run", "--shm-size=1g", "i"], "Unknown option '--shm-size'", "--volume=shm,kind=tmpfs,size=1G"),
    (["run", "--cpus=2", "i"], "Unknown option '--cpus'", "Did you mean '--cpu'?"),
    (["run", "--pull=never", "i"], "Unknown option '--pull'", "Did you mean '--pull-policy'?"),
    (["stats", "--no-stream"], "Unknown option '--no-stream'", "'acnspawn stats' shows the usage once"),
    (["image", "list", "--no-trunc"], "Unknown option '--no-trunc'", "--full shows IDs in full"),
    (["kube", "play", "x.yaml"], "Unknown command 'kube'", "acnspawn-cri(8)"),
    (["generate", "systemd", "p"], "Unknown command 'generate'", "'acnspawn pod create' writes the file of a declared pod"),
    (["secret", "create", "x"], "Unknown command 'secret'", "'--credential=NAME:FILE'"),
    (["diff", "p"], "Unknown command 'diff'", "'acnspawn export POD' writes the files of an app"),
    (["untag", "x"], "Unknown command 'untag'", "'acnspawn image rm' removes it"),
    (["mount", "p"], "Unknown command 'mount'", "'acnspawn cp' copies files of apps"),
    (["describe", "p"], "Unknown command 'describe'", "Did you mean 'status'?"),
    (["completion", "bash"], "Unknown command 'completion'", "are installed with acnspawn"),
    (["run", "--memory-swap=1g", "i"], "Unknown option '--memory-swap'", "memory.swap.max"),
    (["run", "--mac-address=0:1:2:3:4:5", "i"], "Unknown option '--mac-address'", "--net=NAME:MAC=ADDRESS"),
    (["run", "--tz=local", "i"], "Unknown option '--tz'", "-v /etc/localtime"),
    (["auto-update"], "Unknown command 'auto-update'", "'acnspawn update' replaces apps"),
    (["list", "--format={{.Names}}"], "Invalid value '{{.Names}}' for --format: templates of podman and docker are not understood",
     "A field is in single braces, as in '{uuid}'."),
    (["image", "list", "--format", "table {{ .Repository }}"], "templates of podman and docker are not understood", "as in '{id}'."),
    (["list", "--publish"], "Unknown option '--publish'", "Try 'acnspawn list --help'"),
    (["image", "lits"], "Unknown command 'image lits'", "Did you mean 'image list'? Try 'acnspawn image --help'"),
    (["--jsno=short", "list"], "Unknown option '--jsno'", "Did you mean '--json'?"),
    (["--json=long", "list"], "Invalid value 'long' for --json: must be short, pretty or off", None),
    (["--json"], "No command given", None),
    (["--dir"], "Option --dir needs a value: PATH", None),
    (["--", "list"], "A command is needed before '--'", None),
    (["list", "--ful"], "Unknown option '--ful'", "Did you mean '--full'? Try 'acnspawn list --help'"),
    (["list", "--state=up"], "Invalid value 'up' for --state: 'up' is none of preparing|aborted-prepare|", None),
    (["list", "--state="], "Invalid value '' for --state: must be states of pods", None),
    (["pod", "list", "x"], "Unexpected argument 'x'", None),
    (["list", "--full=yes"], "Option --full takes no value", None),
    (["stop"], "'acnspawn stop' needs a pod: its UUID, a prefix of it, or its name", None),
    (["rm"], "needs a pod", None),
    (["status"], "needs a pod", None),
    (["status", "--wait=soon", "x"], "Invalid value 'soon' for --wait: not a time span", None),
    (["logs"], "needs a pod", None),
    (["logs", "a", "b"], "Unexpected argument 'b'", None),
    (["logs", "--since=5", "a"], "Invalid value '5' for --since: not a point in time such as", None),
    (["logs", "--until=2026-02-30", "a"], "Invalid value '2026-02-30' for --until: not a point in time", None),
    (["logs", "-n", "some", "a"], "Invalid value 'some' for -n: not a whole number", None),
    (["cat", "a", "b", "c"], "Unexpected argument 'c'", None),
    (["fetch"], "needs an image", None),
    (["validate"], "needs a manifest or image file", None),
    (["enter", "p", "--app=a", "ls"], "'--app=a' is given after the pod, where the command begins", None),
    (["kill", "-9", "p"], "Unknown option '-9'", "Did you mean '--signal'?"),
    (["kill", "-s", "nope", "p"], "Invalid value 'nope' for -s: must be a signal, such as SIGTERM or 15", None),
    (["gc", "--grace-period=-1"], "Invalid value '-1' for --grace-period: not a time span", None),
    (["help", "me"], "There is no command 'me'", "Try 'acnspawn --help'"),
    (["help", "image", "\033[2J"], "There is no command 'image \\x1b[2J'", None),
    # the grammar of prepare and run
    (["prepare"], "'acnspawn prepare' needs an image, or --pod-manifest=; or, for a pod without apps, --exit-policy=never", None),
    (["prepare", "--name=p", "--exit-policy=all"], "'acnspawn prepare' needs an image", None),
    (["run", "--exit-policy=all"], "for a pod without apps, --exit-policy=never", None),
    (["run", "--exit-policy=never", "--interactive"], "--interactive is for the only app, and the pod has none", None),
    (["run", "--exit-policy=never", "-w", "/srv"], "-w is for the only app, and the pod has none", None),
    (["prepare", "--caps-retain=CAP_SYS_TIME", "i"], "For an app, --caps-retain= stands after its image", None),
    (["prepare", "--restart=always", "i"], "Option --restart is for an app: put it after its image", None),
    (["prepare", "i", "--net=host"], "Option --net is for the whole pod: put it before the first image", None),
    (["prepare", "--", "x"], "'--' begins the arguments of an app and stands after its image", None),
    (["prepare", "---", "i"], "'---' stands between one app and the image of the next", None),
    (["prepare", "i", "---"], "'---' is followed by the image of the next app", None),
    (["prepare", "i", "--", "x", "---", "---", "j"], "'---' stands between one app and the image of the next", None),
    (["prepare", "i", "---", "--name=x"], "Option --name cannot stand here: '---' is followed by the image", None),
    (["prepare", "i", "--", "x", "---", "--", "y"], "'--' begins the arguments of an app", None),
    (["prepare", ""], "The name of an image must not be empty", None),
    (["prepare", "--pod-manifest=f", "i"], "Images cannot be named together with --pod-manifest", None),
    (["run", "--name=x"], "Options that describe a pod need an image to make it from", None),
    (["prepare", "--replace", "i"], "--replace needs --name=", None),
    (["stop", "--timeout=soon", "p"], "Invalid value 'soon' for --timeout: not a time span", None),
    (["run", "i", "--rm"], "Option --rm is for the whole pod: put it before the first image", None),
    # values
    (["prepare", "--net=br:idge", "i"], "what follows the name of network 'br' must be ARG=VALUE", None),
    (["prepare", "--net=../x", "i"], "'../x' is not a valid name of a network", None),
    (["prepare", "--net=a,host", "i"], "'host' cannot be combined with others", None),
    (["prepare", "--net=host", "--net=a", "i"], "cannot be combined with --net=host", None),
    (["prepare", "--net=a", "--net=none", "i"], "cannot be combined with the network 'a'", None),
    (["prepare", "--port=80", "i"], "must be NAME:[IP:]PORT or [IP:]PORT[-LAST]:APPPORT[-LAST][/udp|/sctp]", None),
    (["prepare", "--port=http:70000", "i"], "'70000' is not a port", None),
    (["prepare", "--port=http:1.2.3:80", "i"], "'1.2.3' is not an IP address", None),
    (["run", "i", "-c", "ls"], "Unknown option '-c'", "arguments of the app after '--'. Try 'acnspawn run --help'"),
    (["run", "-c", "ls", "i"], "Unknown option '-c'", "Try 'acnspawn run --help'"),
    (["prepare", "i", "--caps-retain=all"], "there is no capability 'all'", None),
    (["prepare", "--port=80-82:80-81", "i"], "3 ports of the host cannot be mapped to 2", None),
    (["prepare", "--port=80:80-81", "i"], "1 port of the host cannot be mapped to 2", None),
    (["prepare", "--port=82-80:82-80", "i"], "the last port, 80, is below the first, 82", None),
    (["prepare", "--port=80-:80-", "i"], "'' is not a port", None),
    (["prepare", "--port=80:80/dccp", "i"], "the protocol must be tcp, udp or sctp", None),
    (["prepare", "--port=[::1:80", "i"], "must be NAME:[IP:]PORT", None),
    (["prepare", "--exit-policy=sometimes", "i"], "for --exit-policy: must be on-failure, all, any, never or tasks", None),
    (["prepare", "--stop-timeout=x", "i"], "Invalid value 'x' for --stop-timeout: not a time span", None),
    (["prepare", "--stage1=/no/such", "i"], "Invalid value '/no/such' for --stage1: No such file or directory", None),
    (["prepare", "--volume=V,kind=empty", "i"], "Invalid value 'V,kind=empty' for --volume", None),
    (["prepare", "--volume=v", "i"], "for --volume: needs kind=empty, kind=tmpfs, kind=named, kind=image or kind=host", None),
    (["prepare", "--volume=v,empty", "i"], "'empty' is none of kind=, source=", None),
    (["prepare", "-v", "/a:/b:zz", "i"], "'zz' is none of ro, rw, readOnly, recursive, idmap, symlinks, dev, suid, propagation=", None),
    (["prepare", "i", "--mount=type=bind,source=/a,target=/b"], "type 'bind' is not for mounts: --volume=HOST:PATH", None),
    (["prepare", "i", "--mount=source=/a,target=/b"], "source '/a' is not the name of a volume; --volume=HOST:PATH", None),
    (["prepare", "--volume=v,knd=empty", "i"], "unknown key 'knd'", "Did you mean 'kind'?"),
    (["prepare", "--volume=v,kind=disk", "i"], "kind 'disk' must be empty, tmpfs, named, image or host", None),
    (["prepare", "--volume=v,kind=named,source=/x", "i"], "the source of a named volume is its name, not a path", None),
    (["prepare", "--volume=v,kind=named,source=X", "i"], "source 'X' must be the name of a volume", None),
    (["prepare", "--volume=v,kind=named,size=1M", "i"], "size and nr_inodes are for volumes of kind=tmpfs", None),
    (["prepare", "--volume=v,kind=named,idmap=no", "i"], "idmap, symlinks, dev, suid and propagation are for host volumes", None),
    (["prepare", "--volume=%s,kind=named" % ("v" * 64), "i"], "is longer than 63 characters", None),
    (["prepare", "--volume=v,kind=host,source=x", "i"], "the source of a host volume must be an absolute path", None),
    (["prepare", "-v", "A:/b", "i"], "Invalid value 'A:/b' for -v", None),
    (["volume"], "'acnspawn volume' needs one of: create, list, show, rm, prune, export, import", "Try 'acnspawn volume --help'"),
    (["volume", "ls"], "Unknown command 'volume ls'", "Did you mean 'volume list'?"),
    (["volume", "inspect", "x"], "Unknown command 'volume inspect'", "Did you mean 'volume show'?"),
    (["volume", "create"], "needs the name of the volume", None),
    (["volume", "create", "--mode=9", "x"], "must be an octal mode up to 7777", None),
    (["volume", "create", "--mode=17777", "x"], "must be an octal mode up to 7777", None),
    (["volume", "create", "--owner=root", "x"], "must be UID or UID:GID, numbers below 65536", None),
    (["volume", "create", "--owner=1:", "x"], "must be UID or UID:GID", None),
    (["volume", "create", "--owner=65536", "x"], "must be UID or UID:GID", None),
    (["volume", "create", "--label=x", "x"], "Invalid value 'x' for --label", None),
    (["volume", "create", "--quota=1k", "x"], "must be a number of bytes from 64Ki to 1Ei, as 500Mi or 10G, or none", None),
    (["volume", "import", "--quota=", "x"], "must be a number of bytes from 64Ki to 1Ei", None),
    (["prepare", "--volume=v,kind=named,quota=big", "i"], "quota 'big' must be a number of bytes from 64Ki", None),
    (["prepare", "--volume=v,kind=tmpfs,quota=1G", "i"], "quota is for volumes of kind=named", None),
    (["prepare", "--volume=v,kind=image", "i"], "an image volume needs source=IMAGE", None),
    (["prepare", "--volume=v,kind=image,source=a,mode=0700", "i"], "mode, uid and gid are for empty volumes", None),
    (["prepare", "--volume=v,kind=image,source=a,readOnly=false", "i"], "images are mounted read-only", None),
    (["prepare", "--volume=v,kind=image,source=a,subpath=/b", "i"], "subpath '/b' must be a path in the image, relative and without '..'", None),
    (["prepare", "--volume=v,kind=empty,exec=false", "i"], "subpath and exec are for volumes of kind=image", None),
    (["prepare", "--volume=v,kind=image,source=%s" % ("a" * 1024), "i"], "the source is too long for the reference of an image", None),
    (["volume", "rm"], "needs the name of a volume", None),
    (["prepare", "--volume=v,kind=tmpfs,size=big", "i"], "size 'big' must be a number of bytes", None),
    (["prepare", "--volume=v,kind=empty,size=1M", "i"], "size and nr_inodes are for volumes of kind=tmpfs", None),
    (["prepare", "i", "--volume=v,kind=empty"], "here it must be HOST:PATH", "before the first image"),
    (["prepare", "--volume=v,kind=host", "i"], "a host volume needs source=PATH", None),
    (["prepare", "--volume=v,kind=host,source=/x,mode=0700", "i"], "mode, uid and gid are for empty volumes", None),
    (["prepare", "--volume=v,kind=empty,source=/x", "i"], "source and recursive are for host volumes", None),
    (["prepare", "--volume=v,kind=empty,mode=9", "i"], "mode '9' must be an octal mode", None),
    (["prepare", "--volume=v,kind=empty,mode=17777", "i"], "mode '17777' must be an octal mode", None),
    (["prepare", "--volume=v,kind=empty,uid=65536", "i"], "uid '65536' must be a number below 65536", None),
    (["prepare", "--volume=v,kind=empty,readOnly=2", "i"], "readOnly '2' must be true or false", None),
    (["prepare", "--volume=v,kind=empty", "--volume=v,kind=empty", "i"], "there is a volume 'v' already", None),
    (["prepare", "i", "--mount=v"], "needs volume=NAME and target=PATH, or NAME:PATH", None),
    (["prepare", "i", "--mount=volume=v"], "needs volume=NAME and target=PATH, or NAME:PATH", None),
    (["prepare", "i", "--mount=v:x"], "PATH being absolute", None),
    (["prepare", "i", "--mount=V:/x"], "\"V\" is not an AC Name", None),
    (["prepare", "-E", "NO_SUCH_VARIABLE", "i"], "no value given, and the variable is not set", None),
    (["prepare", "--environment-file=/no/such", "i"], "Invalid value '/no/such' for --environment-file: No such file", None),
    (["prepare", "i", "--environment-file=/"], "Invalid value '/' for --environment-file: Is a directory", None),
    (["prepare", "-E", "=x", "i"], "must be NAME=VALUE", None),
    (["prepare", "--annotation=UPPER=x", "i"], "Invalid value 'UPPER=x' for --annotation", None),
    (["prepare", "--annotation=x", "i"], "Invalid value 'x' for --annotation: must be NAME=VALUE", None),
    (["prepare", "i", "--isolator=x"], "must be NAME=JSON", None),
    (["prepare", "i", "--isolator=resource/memory={"], "Invalid value 'resource/memory={' for --isolator", None),
    (["prepare", "i", "--memory=many"], "Invalid value 'many' for --memory: \"many\" is not a quantity", None),
    (["prepare", "i", "--memory=64m"], "Invalid value '64m' for --memory: 'm' are thousandths",
     "Did you mean '64M', or '64Mi' of 1024 times 1024? Try"),
    (["prepare", "--block-bandwidth=5m", "i"], "Invalid value '5m' for --block-bandwidth: 'm' are thousandths", None),
    (["prepare", "i", "--memory=0"], "Invalid value '0' for --memory: must be greater than 0", None),
    (["prepare", "--cpu=0m", "i"], "Invalid value '0m' for --cpu: must be greater than 0", None),
    (["prepare", "i", "--block-iops=0"], "Invalid value '0' for --block-iops: must be greater than 0", None),
    (["run", "--register=maybe", "i"], "Invalid value 'maybe' for --register: must be yes, no or auto", None),
    (["build", "--compression=lz4", "d"], "Invalid value 'lz4' for --compression: must be one of none, gzip", None),
    (["prepare", "i", "--cpu=-1"], "Invalid value '-1' for --cpu", None),
    (["prepare", "i", "--caps-retain=NO_SUCH"], "Invalid value 'NO_SUCH' for --caps-retain: there is no", None),
    (["prepare", "i", "--caps-remove=net_raw,x"], "there is no capability 'x'", None),
    (["prepare", "i", "--supplementary-gids=1,x"], "'x' is not a group number", None),
    (["prepare", "i", "--supplementary-gids="], "must be group numbers, as in 4,27", None),
    (["prepare", "i", "--exec="], "Invalid value '' for --exec: must not be empty", None),
    (["prepare", "i", "--user"], "Option --user needs a value: USER", None),
    (["prepare", "--name=Web_1", "i"], "Invalid value 'Web_1' for --name: 'Web_1' is not a valid name for a pod: only lower",
     "A valid one is --name=web-1. Try 'acnspawn prepare --help'"),
    (["run", "--name=", "i"], "Invalid value '' for --name: '' is not a valid name for a pod: it is empty", "--name=web-1"),
    (["prepare", "--name=" + 64 * "a", "i"], "it is too long", "--name=web-1"),
    (["prepare", "--name=5a7a7a3c-40d1-4cb0-9d5b-5f2d0d6a2c11", "i"], "it looks like a UUID", "--name=web-1"),
    (["prepare", "--hostname=web_1", "i"], "'web_1' is not a valid host name for a pod", "--hostname=web-1.example.org"),
    (["prepare", "i", "--name=Web"], "Invalid value 'Web' for --name: \"Web\" is not an AC Name", "--name=web-1"),
    (["prepare", "i", "--name=" + 201 * "a"], "longer than 200 characters", None),
    (["prepare", "i", "--user="], "Invalid value '' for --user: must be a name, a number, or an absolute path", None),
    (["prepare", "i", "--group="], "Invalid value '' for --group: must be a name, a number, or an absolute path", None),
    (["prepare", "i", "--working-directory=srv"], "must be an absolute path without '..'", "--working-directory=/srv/www"),
    (["prepare", "i", "--working-directory=/a/../b"], "must be an absolute path without '..'", None),
    (["prepare", "i", "--supplementary-gids=4294967295"], "'4294967295' is not a group number", None),
    (["prepare", "i", "--annotation=acnspawn/restart=maybe"], "Invalid value 'acnspawn/restart=maybe' for --annotation", None),
    (["prepare", "i", "--annotation=acnspawn/no-such=1"], "there is no such setting", None),
    (["prepare", "--uuid-file=", "i"], "Invalid value '' for --uuid-file: must not be empty", None),
    (["prepare", "--pod-manifest="], "Invalid value '' for --pod-manifest: must not be empty", None),
    (["list", "--dir="], "Invalid value '' for --dir: must not be empty", None),
    (["logs", "--app=", "p"], "Invalid value '' for --app: must not be empty", None),
    (["export", "--name=No Name", "p"], "Invalid value 'No Name' for --name: 'No Name' is not an image name",
     "--name=example.com/web:1.2,arch=amd64"),
    (["export", "--name=example.com/a,x", "p"], "Invalid value 'example.com/a,x' for --name", "A valid one is"),
    (["enter", "-E", "=1", "p"], "Invalid value '=1' for -E", None),
    (["enter", "-E", "NO_SUCH_VARIABLE", "p"], "no value given, and the variable is not set in the environment", None),
    (["prepare", "i", "--user=1:2:3"], "Invalid value '1:2:3' for --user: must be USER, USER:GROUP or :GROUP", None),
]


def usage_errors():
    for words, message, hint in USAGE_ERRORS:
        r = run(*words)
        check(f"the status of {words}", r.returncode, 2)
        check(f"the output of {words}", r.stdout, "")
        lines = r.stderr.splitlines()
        check(f"the number of lines of {words} ({r.stderr!r})", len(lines), 2)
        check_contains(f"the message of {words}", lines[0], message)
        check(f"the beginning of the message of {words}", lines[0][:7], "Error: ")
        check_contains(f"the hint of {words}", lines[1], hint or "Try 'acnspawn ")


def mistyped_verbs():
    for verb in VERBS:
        if " " not in verb and len(verb) > 3:
            typed = verb[1] + verb[0] + verb[2:]
            check_contains(f"the hint for {typed}", run(typed).stderr, f"Did you mean '{verb}'?")


def synonyms_name_what_there_is():
    """... and are no names of ours themselves."""
    with open(os.path.join(SOURCE, "stage0/cli/synonyms.c"), encoding="utf-8") as f:
        tables = re.findall(r" (verbs|options)\[\] = \{\n(.*?)\n\};", f.read(), re.S)
    check("the tables", [t[0] for t in tables], ["verbs", "options"])
    verbs, options = (re.findall(r'\{"(.*?)", "(.*?)"\}', t[1]) for t in tables)
    names = {o[1] for o in dump()[1]} | {o[2] for o in dump()[1]}

    def options_of(verb):
        return {name for o in dump()[1] if o[0] in (verb, "-") for name in (o[1], o[2])}

    for word, here in verbs:
        check(f"whether '{here}' is a command", here.split(" --")[0] in VERBS, True)
        check(f"whether '{word}' is a command", word in VERBS, False)
    check_contains("the hint for login", run("login").stderr, "Credentials for registries are read from files: acnspawn-auth.d(5).")
    check("the status of login", run("login").returncode, 2)
    for word, here in (("shell", "enter"), ("ps", "list"), ("rmi", "image rm"), ("pull", "fetch"), ("images", "image list"),
                       ("start", "run"), ("create", "prepare"), ("terminate", "stop --force"), ("history", "image show")):
        check_contains(f"the hint for {word}", run(word).stderr, f"Did you mean '{here}'?")
    for word, here in options:
        check(f"whether --{here} is an option", f"--{here}" in names, True)
        # It may be one of commands that lack the other.
        check(f"commands that have both {word} and --{here}",
              [v for v in VERBS if word.startswith("--") and {word, f"--{here}"} <= options_of(v)], [])


def names_that_other_tools_agree_on():
    check("the help of events", run("events", "--help").stdout, run("monitor", "--help").stdout)
    check_contains("the help of events", run("events", "--help").stdout, "'events' is the same command")


def help_of_every_verb():
    for verb in VERBS:
        words = verb.split()
        r = run(*words, "--help")
        check(f"the status of {verb} --help", (r.returncode, r.stderr), (0, ""))
        check_contains(f"the help of {verb}", r.stdout, f"acnspawn {verb}")
        check_contains(f"the help of {verb}", r.stdout, "Global Options:")
        check(f"help {verb}", run("help", *words).stdout, r.stdout)
        check(f"{verb} -h", run(*words, "-h").stdout, r.stdout)
        for line in r.stdout.splitlines()[3:]:
            if len(line) > 80:
                raise AssertionError(f"the help of {verb} has a line of {len(line)} columns: {line!r}")


def help_of_all():
    r = run("--help")
    check("the status", (r.returncode, r.stderr), (0, ""))
    for verb in VERBS:
        check_contains("the help", r.stdout, f"\n  {verb} ")
    check("acnspawn help", run("help").stdout, r.stdout)
    check("acnspawn -h", run("-h").stdout, r.stdout)
    check("help before a mistake", run("list", "--help", "--nonsense").returncode, 0)
    check_contains("the help of image", run("image", "--help").stdout, "image cat-manifest IMAGE")
    check("help image", run("help", "image").stdout, run("image", "--help").stdout)
    for group in "volume", "pod", "image":
        check("help " + group, run("help", group).stdout, run(group, "--help").stdout)


def help_is_ascii_where_nothing_else_can_be_shown():
    for words in ["--help"], ["image", "--help"], *([*verb.split(), "--help"] for verb in VERBS):
        text, plain = run(*words).stdout, run(*words, env={"LC_ALL": "C"}).stdout
        check(f"whether {words} is ASCII", plain.isascii(), True)
        check(f"{words} in the locale C", plain.split(), text.replace("…", "...").split())
        for line in plain.splitlines()[3:]:
            check(f"whether a line fits: {line!r}", len(line) <= 80, True)


def help_shows_every_option():
    help_of = functools.lru_cache(None)(lambda verb: run(*(verb.split() if verb != "-" else []), "--help").stdout)
    for verb, name, letter, kind, value, _, text in dump()[1]:
        shown = help_of(verb)
        for part in (name, letter):
            if part != "-":
                check_contains(f"the help of {verb}", shown, part)
        check_contains(f"the help of {verb}", " ".join(shown.split()), text)


def what_few_verbs_need_is_not_loaded_by_all():
    """All libraries but two, with the forty that they bring, are loaded when they are needed: see library/."""
    dynamic = subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*?)\.so", dynamic)
    sanitizers = {"libasan", "libubsan", "libm", "libgcc_s"}
    check("what is loaded by everything", set(needed) - sanitizers, {"libjson-c", "libc"})


# The libraries that acnspawn does not use, that of library/ and that of cri/.
OF_THE_CRI = {"libssl.so.3", "libyaml-0.so.2"}


def noted_in(program):
    notes = [json.loads(n) for n in re.findall(rb"\x04\0\0\0\0\x01\0\0\x0a\x0c\x7c\x40FDO\0([^\0]*)\0", program)]
    return {soname for note in notes for entry in note for soname in entry["soname"]}


def what_is_loaded_later_is_noted_for_packages():
    """Each file that library/ may load is named in the program by a note that tools for packages read."""
    program = open(PROGRAM, "rb").read()
    noted = noted_in(program)
    loaded = {m.decode() for m in re.findall(rb"(?<=\0)(lib[a-z0-9_+-]+\.so\.[0-9.]+)(?=\0)", program)}
    loaded -= {"liblz4.so.1"} # of libsystemd, which has the note; see journal-child.c
    linked = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True).stdout))
    check("what is noted", loaded - linked - noted, set())
    check("how many", len(noted), len(os.listdir(os.path.join(SOURCE, "library"))) // 2 - 2)
    cri = os.path.join(os.path.dirname(PROGRAM), "../cri/acnspawn-cri")
    if os.path.exists(cri):
        check("what only acnspawn-cri loads", noted_in(open(cri, "rb").read()) - noted, OF_THE_CRI)


def library_that_cannot_be_loaded():
    """The operation fails with the message, and the command continues with its other arguments."""
    for library in "libz.so.1", "libarchive.so.13", "libcrypto.so.3":
        with tempfile.TemporaryDirectory() as d:
            open(os.path.join(d, library), "w").close()
            image, good = os.path.join(d, "image.aci"), os.path.join(d, "manifest")
            with open(image, "wb") as f:
                f.write(gzip.compress(b"x" * 4096))
            with open(good, "w") as f:
                json.dump({"acKind": "ImageManifest", "acVersion": "0.8.11", "name": "example.com/a"}, f)
            r = run("validate", image, good, env={"LD_LIBRARY_PATH": d})
            check("the exit status", r.returncode, 1)
            check_contains("the message", r.stderr, "Error: Cannot load a library that is needed for ")
            check_contains("the message", r.stderr, library)
            check_contains("the hint", r.stderr, "On Debian it is in the package ")
            check("the next argument", r.stdout, f"{good}: valid image manifest\n")


def version():
    for words in (["version"], ["--version"], ["list", "--version"]):
        r = run(*words)
        check(f"the status of {words}", (r.returncode, r.stderr), (0, ""))
        check_contains(f"the output of {words}", r.stdout, "acnspawn ")
    check("acVersion", json.loads(run("version", "--json=short").stdout)["acVersion"], "0.8.11")
    check("lines of short JSON", run("--json=short", "version").stdout.count("\n"), 1)
    check("JSON without a mode", run("--json", "version").stdout, run("--json=short", "version").stdout)


def dump_is_well_formed():
    verbs, options = dump()
    for v in verbs:
        check(f"the number of fields of {v}", len(v), 4)
    for o in options:
        check(f"the number of fields of {o}", len(o), 7)
        check(f"whether {o} is known", o[3] in ("flag", "value", "optional"), True)
        check(f"whether {o} has a help that begins with a capital and is not a sentence",
              o[6][0].isupper() and not o[6].endswith("."), True)
    seen = set()
    for o in options:
        if o[2] == "-":
            continue
        key = (o[0], o[2])
        # These are options of the pod and of an app.
        check(f"{key} twice", key in seen and o[2] not in ("-E", "-e", "-m", "-t", "-u", "-v", "-w", "-i"), False)
        seen.add(key)
    for verb in VERBS:
        clash = {o[2] for o in options if o[0] == verb} & {o[2] for o in options if o[0] == "-"} - {"-"}
        check(f"letters of {verb} that global options have as well", clash, set())


def on_terminal(*words, env=None):
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(PROGRAM, [PROGRAM, *words], {**CLEAN, **(env or {})})
    output = b""
    while True:
        try:
            chunk = os.read(fd, 4096)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    os.close(fd)
    os.waitpid(pid, 0)
    return output.decode()


def colors():
    check("whether a terminal gets colours", "\033[" in on_terminal("--help"), True)
    check("whether errors have colours on a terminal", "\033[" in on_terminal("nonsense"), True)
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"SYSTEMD_COLORS": "0"}):
        check(f"whether there are colours with {env}", "\033" in on_terminal("--help", env=env), False)
        check(f"whether errors have colours with {env}", "\033" in on_terminal("nonsense", env=env), False)
    check("whether a pipe gets colours", "\033" in run("--help").stdout + run("nonsense").stderr, False)


def help_fits_terminal():
    for columns in (60, 80, 100):
        output = on_terminal("gc", "--help", env={"COLUMNS": str(columns), "NO_COLOR": "1"})
        widest = max(len(line) for line in output.splitlines())
        check(f"whether the help fits {columns} columns", widest <= columns, True)


def closed_streams():
    r = subprocess.run(f"'{PROGRAM}' version >&-", shell=True, env=CLEAN, text=True, capture_output=True)
    check("the status without standard output", r.returncode, 1)
    check_contains("the message", r.stderr, "Error: Cannot write to standard output: Bad file descriptor.")
    r = subprocess.run(f"'{PROGRAM}' version <&-", shell=True, env=CLEAN, text=True, capture_output=True)
    check("the status without standard input", r.returncode, 0)
    r = subprocess.run(f"'{PROGRAM}' nonsense 2>&-", shell=True, env=CLEAN, text=True, capture_output=True)
    check("the status without standard error", (r.returncode, r.stdout), (2, ""))
    if os.path.exists("/dev/full"):
        r = subprocess.run(f"'{PROGRAM}' version >/dev/full", shell=True, env=CLEAN, text=True, capture_output=True)
        check("the status on a full disk", r.returncode, 1)
        check_contains("the message", r.stderr, "No space left on device")


def reader_goes_away():
    reader, writer = os.pipe()
    os.close(reader)
    r = subprocess.run([PROGRAM, "--help"], env=CLEAN, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    check("what is said to a reader that went away", (r.returncode, r.stderr), (1, ""))


def validation():
    with tempfile.TemporaryDirectory() as d:
        good, bad, noise, archive = (os.path.join(d, n) for n in ("good", "bad", "noise", "archive"))
        with open(good, "w") as f:
            json.dump({"acKind": "ImageManifest", "acVersion": "0.8.11", "name": "example.com/x"}, f)
        with open(bad, "w") as f:
            json.dump({"acKind": "PodManifest", "acVersion": "x", "apps": [{"name": "UPPER"}]}, f)
        with open(noise, "w") as f:
            f.write('{"acKind": \n nonsense}')
        with open(archive, "wb") as f:
            f.write(b"\x1f\x8b\x08" + bytes(600))
        r = run("validate", good)
        check("a good one", (r.returncode, r.stdout, r.stderr), (0, f"{good}: valid image manifest\n", ""))
        r = run("validate", "-q", good)
        check("a good one, quietly", (r.returncode, r.stdout, r.stderr), (0, "", ""))
        r = run("validate", bad, good)
        check("the status of a bad one", r.returncode, 1)
        check_contains("a bad one", r.stdout, f"{bad}: acVersion: ")
        check_contains("a bad one", r.stdout, f"{bad}: apps[0].name: ")
        check_contains("the good one behind it", r.stdout, f"{good}: valid image manifest\n")
        findings = json.loads(run("validate", "--json=short", bad).stdout)
        check("whether findings have places", {"acVersion", "apps[0].name"} <= {f["path"] for f in findings}, True)
        r = run("validate", noise)
        check("the status of noise", r.returncode, 1)
        check_contains("noise", r.stdout, "line 2, column 2")
        r = run("validate", archive)
        check("the status of a damaged archive", (r.returncode, r.stderr), (1, ""))
        check_contains("a damaged archive", r.stdout, f"{archive}: The gzip data")
        r = run("validate", os.path.join(d, "missing"), archive, good)
        check("what stands behind what cannot be read", (r.returncode, r.stdout.splitlines()[-1]), (1, f"{good}: valid image manifest"))
        check("messages about what cannot be read", r.stderr.count("Error: "), 1)
        r = run("validate", os.path.join(d, "missing"))
        check("the status of a missing file", r.returncode, 1)
        check_contains("a missing file", r.stderr, "missing': No such file or directory.")


def fetching():
    with tempfile.TemporaryDirectory() as d:
        def fetch(*words):
            return run("--dir=" + os.path.join(d, "store"), "fetch", *words)
        noise = os.path.join(d, "noise")
        with open(noise, "w") as f:
            f.write("noise")
        r = fetch(os.path.join(d, "missing.aci"), d, noise, "http://localhost/x.aci")
        check("the status of four that are no images", (r.returncode, r.stdout), (1, ""))
        check("that each has its message", r.stderr.count("Error: "), 4)
        check_contains("a missing file", r.stderr, "missing.aci': No such file or directory.\nGive the path of an image")
        check_contains("a directory", r.stderr, f"'{d}' is a directory, not an image.")
        check_contains("noise", r.stderr, f"Cannot import {noise}: The file is not an image")
        check_contains("an address", r.stderr, "'http://localhost/x.aci' is not fetched: with http")
        check("what is left in the store", os.listdir(os.path.join(d, "store", "tmp")), [])


def missing_store():
    with tempfile.TemporaryDirectory() as d:
        store = os.path.join(d, "no", "store")
        for words, what in ((["list"], "pods"), (["image", "list"], "images"), (["stats"], "running pods"), (["top"], "running pods")):
            r = run("--dir=" + store, *words)
            check(f"what {words} says", (r.returncode, r.stdout, r.stderr), (0, "", f"No {what} in the store {store}.\n"))
            check(f"what {words} says in JSON", run("--dir=" + store, *words, "--json=short").stdout, "[]\n")
        check("what there is to collect", run("--dir=" + store, "gc").returncode, 0)
        by_root = (["enter", "x"], ["attach", "x"], ["kill", "x"], ["pause", "x"], ["resume", "x"], ["restart-app", "x", "a"], ["start-app", "x", "a"], ["rm-app", "x", "a"], ["stop-app", "x", "a"], ["monitor", "x"],
                   ["update-app", "x", "a", "--cpu=1"],
                   ["cp", "x:/a", d], ["export", "x"], ["image", "render", "x", os.path.join(d, "y")])
        for words in (["status", "x"], ["logs", "x"], ["cat", "x"], ["stop", "x"], ["rm", "x"], ["image", "rm", "x"], ["top", "x"],
                      ["stats", "x"], *(by_root if os.geteuid() == 0 else ())):
            r = run("--dir=" + store, *words)
            check(f"the status of {words}", (r.returncode, r.stdout), (1, ""))
            check_contains(f"the message of {words}", r.stderr, f"There is no store at '{store}'.")
        check("whether looking made a store", os.listdir(d), [])


def needs_root():
    user = 65534 if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        store = os.path.join(d, "store")
        os.mkdir(store, 0o700)
        if user is None:
            os.chmod(store, 0o000)
            program = PROGRAM
        else:
            # The build directory need not be readable to others.
            program = shutil.copy(PROGRAM, os.path.join(d, "acnspawn"))
            os.chmod(program, 0o755)

        def as_user(*words):
            return subprocess.run([program, f"--dir={store}", *words], env=CLEAN, stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, user=user, timeout=60)

        for words in (["list"], ["image", "list"], ["status", "x"], ["gc"], ["stop", "x"]):
            r = as_user(*words)
            check(f"the status of {words}", (r.returncode, r.stdout), (1, ""))
            check_contains(f"the message of {words}", r.stderr, "needs root: the store '")
            check(f"the number of lines of {words}", len(r.stderr.splitlines()), 2)
        for words in (["run"], ["prepare", "x"]):
            r = as_user(*words)
            check(f"the status of {words}", (r.returncode, r.stdout), (1, ""))
            check_contains(f"the message of {words}", r.stderr, f"'acnspawn {words[0]}' needs root")
        check("whether help needs root", as_user("list", "--help").returncode, 0)
        check("whether the command line is looked at first", as_user("list", "--nonsense").returncode, 2)


# Output of --complete for pods, apps and images in these tests; the rest comes from the program itself.
CANNED = """#!/bin/sh
if [ "$1" = --complete ]; then
        case $2 in
        app) echo web; exit ;;
        image) echo example.com/web; exit ;;
        pod*) echo "${2#pod:}" | tr , '\\n' | sed 's/^/is-/; s/^is-pod$/one/'; exit ;;
        esac
fi
exec PROGRAM "$@"
"""


class Shell:
    """A directory with the program under its name, and networks."""
    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory()
        d = self.dir.name
        self.program = os.path.join(d, "acnspawn")
        with open(self.program, "w") as f:
            f.write(CANNED.replace("PROGRAM", PROGRAM))
        os.chmod(self.program, 0o755)
        self.config, self.home = os.path.join(d, "config"), os.path.join(d, "home")
        os.makedirs(os.path.join(self.config, "net.d"))
        os.mkdir(self.home)
        for name in ("default", "lan"):
            with open(os.path.join(self.config, "net.d", name + ".conf"), "w") as f:
                json.dump({"cniVersion": "1.0.0", "name": name, "type": "bridge"}, f)
        for name in ("b.aci", "c"):
            open(os.path.join(self.home, name), "w").close()
        self.env = dict(CLEAN, HOME=self.home, ACNSPAWN_CONFIG_DIR=self.config)
        return self

    def __exit__(self, *unused):
        self.dir.cleanup()


# What is typed after "acnspawn", and the completions of its last word in all shells; fish and zsh offer the whole
# word, bash the part after the last "=" or ":".
OFFERED = [
    ("st", "start-app stats status stop stop-app"),
    ("list --fu", "--full"),
    ("run --exit-policy a", "all any"),
    ("run x -- ", ""),
    ("logs --fol", "--follow"),
    ("list --json=p", "pretty"),
    ("--dir /x st", "start-app stats status stop stop-app"),
    ("help prep", "prepare"),
    ("cp one:/e", ""),
    ("exec --int", "--interactive"),
    ("eve", "events"),
    ("events --si", "--since="),
    ("exec ", "is-running"),
    # commands of two words
    ("vo", "volume"),
    ("po", "pod"),
    ("volume ", "create list show rm prune export import"),
    ("pod ver", "verify"),
    ("pod create --fr", "--from="),
    ("volume create --quo", "--quota="),
    # pods by what they can be used for
    ("stop ", "is-frozen is-paused is-running"),
    ("attach ", "is-running"),
    ("attach x ", ""),
    ("resume ", "is-paused"),
    ("rm ", "is-exited is-prepared"),
    ("logs ", "one"),
    ("logs --app ", "web"),
    ("logs --app=w", "web"),
    ("restart-app x ", "web"),
    ("restart-app x web ", "web"),
    ("start-app x ", "web"),
    ("rm-app x ", "web"),
    ("add-app ", "is-running"),
    ("launch ", "is-running"),
    ("launch x --parent=", "web"),
    ("launch-group ", "is-running"),
    ("launch-group --fate=", "independent shared"),
    ("stop-app --timeout=5s x ", "web"),
    ("wait x ", "web"),
    ("monitor --si", "--since="),
    ("enter --app web ", "is-running"),
    # values
    ("kill --signal=SIGU", "SIGURG SIGUSR1 SIGUSR2"),
    ("kill -s SIGUSR", "SIGUSR1 SIGUSR2"),
    ("run --net=", "default host lan none"),
    ("run --net ", "default host lan none"),
    ("run --net=lan,d", "lan,default"),
    ("prepare --isolator=resource/m", "resource/memory="),
    ("prepare x --caps-retain=CAP_NET_RAW,CAP_NET_BI", "CAP_NET_RAW,CAP_NET_BIND_SERVICE"),
    ("prepare --volume=board,", "board,kind=empty board,kind=host board,kind=image board,kind=named board,kind=tmpfs"),
    ("prepare --volume=board,kind=t", "board,kind=tmpfs"),
    ("prepare --volume=board,kind=image,s", "board,kind=image,source= board,kind=image,subpath="),
    ("prepare --volume=board,kind=tmpfs,s", "board,kind=tmpfs,size="),
]


def offered_by_bash(shell, line):
    """Readline breaks words at = and :, too."""
    words = [w for w in re.split(r"([=:]|\s+)", "acnspawn " + line) if w.strip()] + ([""] if re.search(r"[\s]$", line) else [])
    words[0] = shell.program
    quoted = " ".join("'%s'" % w for w in words)
    script = f"""
        . '{SOURCE}/completions/bash/acnspawn'
        cd '{shell.home}'
        COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='acnspawn {line}'; COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()
        _acnspawn acnspawn '{words[-1]}' 2>/dev/null; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    r = subprocess.run(["bash", "-c", script], env=shell.env, text=True, capture_output=True)
    return r.stdout.split()


def offered_by_fish(shell, line):
    script = f"source '{SOURCE}/completions/fish/acnspawn.fish'; cd '{shell.home}'; complete -C '{shell.program} {line}'"
    r = subprocess.run(["fish", "--no-config", "-c", script], env=shell.env, text=True, capture_output=True)
    return [l.split("\t")[0] for l in r.stdout.splitlines()]


def completions():
    for shell, file in (("bash", "completions/bash/acnspawn"), ("zsh", "completions/zsh/_acnspawn"),
                        ("fish", "completions/fish/acnspawn.fish")):
        if shutil.which(shell):
            r = subprocess.run([shell, "-n", os.path.join(SOURCE, file)], text=True, capture_output=True)
            check(f"what {shell} says of {file}", (r.returncode, r.stderr), (0, ""))


def bash_completions():
    with Shell() as shell:
        for line, expected in OFFERED:
            typed = re.split(r"\s", line)[-1]
            value = typed.partition("=")[2] if typed.startswith("--") else typed
            done = re.match(r".*[=:]|", value).group(0)
            want = sorted(w[len(done):] if w.startswith(done) else w for w in expected.split())
            check(f"what bash offers for {line!r}", sorted(offered_by_bash(shell, line)), want)
        check("what bash offers", offered_by_bash(shell, "image "), "list rm show cat-manifest verify export render gc".split())
        check("what bash offers", sorted(offered_by_bash(shell, "run ")), ["b.aci", "example.com/web", "is-exited", "is-prepared"])
        check("what bash offers", sorted(offered_by_bash(shell, "cp ")), ["b.aci", "c", "one:"])


def fish_completions():
    if not shutil.which("fish"):
        return
    with Shell() as shell:
        for line, expected in OFFERED:
            typed = re.split(r"\s", line)[-1]
            option = typed.partition("=")[0] + "=" if typed.startswith("--") and "=" in typed else ""
            check(f"what fish offers for {line!r}", sorted(offered_by_fish(shell, line)), sorted(option + w for w in expected.split()))
        check("what fish offers", sorted(offered_by_fish(shell, "image ")), sorted("list rm show cat-manifest verify export render gc".split()))
        check("what fish offers", sorted(offered_by_fish(shell, "run x -- y --- ./")), ["./b.aci"])
        check("what fish offers", sorted(offered_by_fish(shell, "cp o")), ["one:"])
        check("what fish offers", offered_by_fish(shell, "prepare --exit-policy any --na"), ["--name="])


def offered_by_zsh(shell, line):
    """By zsh on a terminal, whose completion lists the candidates: they are intercepted before they are displayed."""
    catch = """
        autoload -Uz compinit; compinit -u -D 2>/dev/null
        compadd() { local -a o; builtin compadd -O o "$@" 2>/dev/null; print -rl -- $o >>$CAUGHT; builtin compadd "$@"; }
        compdef _acnspawn acnspawn
        complete-and-say() { zle complete-word; : >$CAUGHT.done; }
        zle -N complete-and-say; bindkey '^I' complete-and-say
        PS1='ready> '
    """
    rc = os.path.join(shell.home, ".zshrc")
    with open(rc, "w") as f:
        f.write(f"fpath=('{SOURCE}/completions/zsh' $fpath)\n" + catch)
    caught = os.path.join(shell.dir.name, "caught")
    open(caught, "w").close()
    env = dict(shell.env, ZDOTDIR=shell.home, CAUGHT=caught, PATH=shell.dir.name + ":" + CLEAN["PATH"], TERM="dumb")
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(shell.home)
        os.execvpe("zsh", ["zsh", "-i", "--no-globalrcs"], env)

    def until(condition):
        output, end = b"", time.monotonic() + 60
        while not condition(output) and time.monotonic() < end:
            if select.select([fd], [], [], 0.1)[0]:
                try:
                    output += os.read(fd, 4096)
                except OSError:
                    break
    until(lambda output: b"ready> " in output)
    os.write(fd, b"acnspawn " + line.encode() + b"\t")
    until(lambda output: os.path.exists(caught + ".done"))
    os.close(fd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    check(f"whether zsh completes {line!r}", os.path.exists(caught + ".done"), True)
    os.unlink(caught + ".done")
    with open(caught) as f:
        return sorted(set(f.read().split()))


def zsh_completions():
    if not shutil.which("zsh"):
        return
    with Shell() as shell:
        for line, expected in (("stop ", "is-frozen is-paused is-running"), ("attach ", "is-running"), ("attach x ", ""), ("rm ", "is-exited is-prepared"),
                               ("restart-app x ", "web"), ("kill --signal=SIGUSR", "SIGUSR1 SIGUSR2"), ("run --net=lan,d", "lan,default"),
                               ("prepare --volume=board,kind=t", "board,kind=tmpfs"), ("logs --app=w", "web")):
            check(f"what zsh offers for {line!r}", offered_by_zsh(shell, line), sorted(expected.split()))


def keys_of_json():
    """One way to write them, and no units: times are in microseconds, sizes in bytes."""
    found = set()
    for directory, _, files in os.walk(f"{SOURCE}/stage0"):
        for name in files:
            if name.endswith(".c"):
                with open(os.path.join(directory, name)) as f:
                    text = f.read()
                found.update(re.findall(r'\{"[A-Z% ]+", "(\w+)", (?:true|false)', text))
                found.update(re.findall(r'(?:put\w*|json_object_object_add)\((?:c, )?o, "(\w+)"', text))
    check("whether keys are found", {"cpuTime", "imageID", "userIDs", "hostPort", "created"} <= found, True)
    for key in sorted(found):
        if not re.fullmatch(r"[a-z]+1?([A-Z][a-z]+)*(IDs?|IP)?", key) or re.search(r"(Usec|USec|Msec|Sec|Bytes|Id|Ids|Ip)$", key):
            raise AssertionError(f"the key '{key}' is not written as others are")


def json_has_plain_slashes():
    """json-c writes \\/ unless told not to."""
    for directory, _, files in os.walk(f"{SOURCE}/stage0"):
        for name in files:
            if name.endswith(".c"):
                with open(os.path.join(directory, name)) as f:
                    for call in re.findall(r"json_object_to_json_string\w*\((?:[^;]*?)\)[;\n ]", f.read()):
                        if "NOSLASHESCAPE" not in call and "flags" not in call:
                            raise AssertionError(f"in {name}: {call}")


for test in (usage_errors, mistyped_verbs, synonyms_name_what_there_is, names_that_other_tools_agree_on, help_of_every_verb, help_of_all,
             help_is_ascii_where_nothing_else_can_be_shown, help_shows_every_option,
             what_few_verbs_need_is_not_loaded_by_all, what_is_loaded_later_is_noted_for_packages,
             library_that_cannot_be_loaded, version, dump_is_well_formed, colors, help_fits_terminal,
             closed_streams, reader_goes_away, validation, fetching, missing_store, needs_root, completions, bash_completions, fish_completions, zsh_completions, keys_of_json, json_has_plain_slashes):
    case(test)
sys.exit(1 if failures else 0)

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-logs(1), sentence by sentence."""

import datetime

from manual import *

PAGE = page("acnspawn-logs.1", "fed18c8b77e3e82e")


@once
def pod(host):
    """One that has ended, of two apps, of which the second has a log file, too."""
    os.mkdir(host.path("log"))
    host.acnspawn("run", "--name=p", "--exit-policy=all", *together(
        app(host, "web", "echo one; echo two >&2; echo three"), app(host, "db", "echo more; echo other", "--log-file=" + host.path("log/db")))).expect(0)
    return "p"


@once
def of_file(host):
    """One that has ended, whose app has nothing but a log file, without times."""
    os.makedirs(host.path("plain"))
    host.acnspawn("run", "--name=of-file", *app(host, "web", "echo in the file", "--log=none", "--log-file=%s,format=plain" % host.path("plain/web"))).expect(0)
    return "of-file"


def logs(host, *words):
    return host.acnspawn("logs", *words, pod(host)).expect(0)


@sentence("DESCRIPTION", "Shows the output of the apps of a pod to standard output and standard error, each line with the name of its app if there "
                         "are several; also after the pod has ended. With --json, every line is an object of its own, with its time.")
def output_of_all_apps(host):
    r = logs(host)
    equal((sorted(line.split()[-1] for line in r.out.splitlines()), r.err.split()[-1]), (["more", "one", "other", "three"], "two"))
    true(all(line.startswith(("web", "db")) for line in (r.out + r.err).splitlines()), r.out)
    rows = [json.loads(line) for line in logs(host, "--json").out.splitlines()]
    equal(sorted((row["app"], row["stream"], row["message"]) for row in rows),
          [("db", "stdout", "more"), ("db", "stdout", "other"), ("web", "stderr", "two"), ("web", "stdout", "one"), ("web", "stdout", "three")])
    true(all(abs(row["timestamp"] / 1e6 - time.time()) < 3600 for row in rows), "times")


@sentence("OPTIONS", "Show only the output of this app, without its name in front.")
@sentence("OPTIONS", "Show only the last N lines.")
def of_one_app_and_the_last_lines(host):
    for words in ["--app=web"], ["-a", "web"]:
        equal(logs(host, *words).out, "one\nthree\n")
    for words in ["--lines=1"], ["-n", "1"], ["--tail=1"]:
        equal(logs(host, "--app=db", *words).out, "other\n")


@sentence("OPTIONS", "a date, a time of day or both (2026-01-31 12:00:00, 2026-01-31T12:00:00Z), in the host's time zone if none is given; a time "
                     "span that is subtracted from now (10min, 1h 30min ago); now, today, yesterday; or @ and seconds since 1970.")
def times_in_all_forms(host):
    now = datetime.datetime.now().replace(microsecond=0)
    hour, utc = now - datetime.timedelta(hours=1), datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    for since in (hour.strftime("%Y-%m-%d %H:%M:%S"), utc.strftime("%Y-%m-%dT%H:%M:%SZ"), (now - datetime.timedelta(days=1)).strftime("%Y-%m-%d"), "10min",
                  "1h 30min ago", "yesterday", "@%d" % hour.timestamp()):
        equal(logs(host, "--app=db", "--since=" + since).out, "more\nother\n", since)
        equal(logs(host, "--app=db", "-U", since).out, "", since)
    equal(logs(host, "--app=db", "-S", "now").out, "")
    for words in "today", "00:00:00":
        logs(host, "--since=" + words)
    host.acnspawn("logs", "--since=sometime", "p").expect(2)


@sentence("OPTIONS", "Show the time of each line in front of it.")
@sentence("OPTIONS", "Continue to show new output until the pod has ended.")
@sentence("OPTIONS", "With --follow, logs ends when the time of --until is over.")
def following(host):
    true(re.fullmatch(r"\d{4}-\d\d-\d\dT\S+ other\n", logs(host, "-a", "db", "-t", "-n1").out), "the time")
    uuid = host.detach(*app(host, "a", "echo begin; while ! test -e /out/go; do sleep 0.02; done; echo end"))
    p = host.start("logs", "--follow", uuid)
    equal(p.stdout.readline(), b"begin\n")
    equal(host.acnspawn("logs", "-f", "--until=@%d" % (time.time() + 1), uuid).expect(0).out, "begin\n")
    host.acnspawn("enter", uuid, "touch", "/out/go").expect(0)
    equal(host.finish(p).expect(0).out, "end\n")


@sentence("OPTIONS", "Show nothing, but reopen the log file of each app, or with --app= of one app")
@sentence("OPTIONS", "When the command returns, the new files exist, and nothing more is written to files that were renamed before")
def files_are_reopened(host):
    path = host.path("reopened")
    uuid = host.detach(*app(host, "a", "echo begin; while ! test -e /out/go; do sleep 0.02; done; echo end; sleep 1000", "--log-file=%s,format=plain" % path))
    wait_for(lambda: read_text(path) == "begin\n", "the first line")
    os.rename(path, path + ".1")
    r = host.acnspawn("logs", "--reopen", "--app=a", uuid).expect(0)
    equal((r.out, read_text(path)), ("", ""))
    host.acnspawn("enter", uuid, "touch", "/out/go").expect(0)
    wait_for(lambda: read_text(path) == "end\n", "the line after that")
    equal(read_text(path + ".1"), "begin\n")
    host.acnspawn("stop", "--force", uuid).expect(0)


@sentence("LOG FILES", "What an app without a journal wrote (--log=none, or journal on a host without one) is shown from its log file, with a "
                       "message: the current content of the file")
@sentence("LOG FILES", "In the format plain there are no times and no streams: --since=, --until=, --timestamps and --json cannot be used, and all "
                       "of the file is shown.")
def from_the_file(host):
    r = host.acnspawn("logs", of_file(host)).expect(0)
    equal(r.out, "in the file\n")
    contains(r.err, host.path("plain/web"))
    for words in "--since=1h", "--until=now", "--timestamps", "--json":
        equal(host.acnspawn("logs", words, "of-file").rc, 1, words)


@sentence("EXAMPLES", "# acnspawn logs --follow --lines=10 --app=web site")
@sentence("EXAMPLES", "# acnspawn logs --since=15min --timestamps site")
@sentence("EXAMPLES", "postrotate acnspawn --quiet logs --reopen site || true endscript")
def the_examples(host):
    host.acnspawn("run", "--name=site", *app(host, "web", "echo words")).expect(0)
    equal(host.acnspawn("logs", "--follow", "--lines=10", "--app=web", "site").expect(0).out, "words\n")
    contains(host.acnspawn("logs", "--since=15min", "--timestamps", "site").expect(0).out, " words\n")
    equal(host.acnspawn("--quiet", "logs", "--reopen", "site").expect(1).out, "")


elsewhere(
    ("OPTIONS", "Without this option a terminal gets newlines, tabs, and sequences that set colours", "output/colours_end_with_their_line"),
    ("OPTIONS", "other control characters, characters that change the order of a line, and bytes that are not UTF-8 are shown as escapes",
     "output/a_terminal_takes_no_orders_from_apps"),
    ("OPTIONS", "Output to anything but a terminal is never changed.", "output/bytes_that_are_no_text_arrive"),
    ("OPTIONS", "no line is lost or duplicated.", "logs/rotation_neither_loses_nor_doubles_lines"),
    ("OPTIONS", "If a file cannot be opened, the command fails, and the app keeps its present file.", "logs/reopening_that_fails_keeps_the_file"),
    ("OPTIONS", "It also fails if a file system has not answered after five seconds; the file is opened anew as soon as it does.",
     "stalls/calls_that_open_a_log_file_do_not_wait_for_ever"),
    ("THE JOURNAL OF THE HOST", "have a record there for each line, in the unit of the pod. A level (<3>) at the beginning of a line is its "
                                "priority, and the name of the app its identifier.", "vm/units/output_in_the_journal_of_the_host"),
    ("THE JOURNAL OF THE HOST", "The records have these fields, which apps cannot alter:", "vm/units/output_in_the_journal_of_the_host"),
    ("THE JOURNAL OF THE HOST", "Of apps with --log=journal, logs reads the journal of the host, in /var/log/journal and /run/log/journal, and shows "
                                "these lines between those of the pod's journal, ordered by time.", "vm/units/logs_from_the_journal_of_the_host"),
    ("THE JOURNAL OF THE HOST", "Only records of processes of root are taken: other users can send records with the same fields.",
     "vm/units/logs_from_the_journal_of_the_host"),
    ("THE JOURNAL OF THE HOST", "If the host has no journal, the log file is shown; without one, logs fails.",
     "logs/output_in_a_journal_that_the_host_has_not_is_reported"),
    ("THE JOURNAL OF THE HOST", "journalctl --merge shows the journals of pods together with that of the host",
     "vm/machined/journals_of_pods_are_merged"),
    ("THE JOURNAL OF THE HOST", "It is removed with the pod.", "output/journal_of_the_pod_stays_with_the_pod"),
    ("LOG FILES", "limited to this pod by its times.", "logs/without_the_journal_logs_reads_the_file"),
    ("LOG FILES", "Of a pod with several apps, such apps are left out, with a message, unless --app= names one.",
     "logs/without_the_journal_logs_reads_the_file"),
    ("THE JOURNAL OF THE HOST", "ACNSPAWN_POD= The name of the pod, or its UUID if it has no name. ACNSPAWN_UUID=, ACNSPAWN_NAME= The UUID of the "
                                "pod, and its name if it has one. ACNSPAWN_APP=, ACNSPAWN_IMAGE= The app, and the name of its image. "
                                "ACNSPAWN_STREAM= stdout or stderr.", "unit/host-journal/a_record_for_each_line"),
    ("THE JOURNAL OF THE HOST", "Only of lines that did not end with a newline: eof,", "unit/host-journal/a_record_for_each_line"),
    ("THE JOURNAL OF THE HOST", "line-max if the line continues in the next record.", "unit/host-journal/long_lines_are_cut"),
    ("THE JOURNAL OF THE HOST", 'Only of lines that began with a level: the characters "<N>" that set the priority; they are not part of the message.',
     "unit/host-journal/a_level_is_at_the_beginning_of_a_line_alone"),
    ("THE JOURNAL OF THE HOST", "Between them are messages of acnspawn about the pod and its apps: that they have started or ended, and that an app "
                                "is unhealthy.", "unit/host-journal/messages_about_the_pod"),
    ("THE JOURNAL OF THE HOST", "A journal that takes nothing does not keep apps waiting for more than ten seconds.",
     "unit/host-journal/a_journal_that_is_full"),
)

main()

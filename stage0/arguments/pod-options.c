/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of prepare and run: those of a pod, given before the first image, and those of an app, given
 * after its image. Their values are parsed in the files named at the handlers (pod-arguments.h).
 */

#include "stage0/context/fetching.h"
#include "stage0/arguments/pod-arguments.h"
#include "stage0/arguments/pod-values.h"

static int option_exit_policy(const Option *o, const char *value, void *target, Error *e)
{
        int r = exit_policy_from_string(value);

        if (r < 0)
                return option_invalid(o, value, e, "must be on-failure, all, any or never");
        *(ExitPolicy *) target = (ExitPolicy) r;
        return 0;
}

/* What the pod can give apps that are added to it. */
static int option_pod_caps_retain(const Option *o, const char *value, void *target, Error *e)
{
        PodArguments *a = target;

        a->declares_capabilities = true;
        return option_caps_retain(o, value, &a->request.isolators, e);
}

static int option_stage1(const Option *o, const char *value, void *target, Error *e)
{
        PodArguments *a = target;
        char *path = realpath(value, NULL);

        if (!path)
                return option_invalid(o, value, e, "%s", strerror(errno));
        free(a->stage1);
        a->stage1 = path;
        a->options.stage1 = path;
        return 0;
}

#define POD(member) offsetof(PodArguments, member)
#define APP(member) offsetof(AppOverrides, member)

const Option pod_options[] = {
                {"Pod Options (before the first image)", "name", 0, "NAME", false, "Name the pod", NULL,
                 option_pod_name, POD(options.name)},
                {NULL, "replace", 0, NULL, false, "If another pod has the name, stop and remove it first",
                 NULL, option_true, POD(options.replace)},
                {NULL, "pod-manifest", 0, "FILE", false,
                 "Make the pod from a pod manifest instead of naming images", "file", option_word,
                 POD(manifest_file)},
                {NULL, "verify", 0, NULL, false, "Refuse images that were altered in the store", NULL,
                 option_true, POD(request.verify)},
                {NULL, "volume", 'v', "NAME,kind=KIND[,…]|HOST:PATH", false,
                 "Define a volume: kind=empty[,mode=,uid=,gid=], kind=tmpfs[,size=,nr_inodes=,mode=,…], "
                 "kind=named[,source=NAME,quota=,mode=,…] or kind=host,source=PATH[,readOnly=,idmap=,…]; or mount "
                 "a "
                 "path of the host, or a volume, in all apps: HOST:PATH[:ro]",
                 "volume", option_volume, POD(request), OPTION_WORDS},
                {NULL, "mount", 0, "VOLUME:PATH[:ro]", false,
                 "Mount a volume in all apps; in full: volume=VOLUME,target=PATH[,readOnly=BOOL]", NULL,
                 option_pod_mount, POD(request), OPTION_WORDS},
                {NULL, "net", 0, "none|host|NAME[,…]", false,
                 "Network: private with loopback only (default), the host's, or networks by name, with "
                 "arguments if needed: NAME:ARG=VALUE;…",
                 "network", option_net, POD(options), OPTION_WORDS},
                {NULL, "network", 0, "none|host|NAME[,…]", false, "Same as --net", "network", option_net,
                 POD(options), OPTION_WORDS},
                {NULL, "port", 'p', "NAME:[IP:]PORT", false,
                 "Expose the port of an app as a port of the host; or any port, or a range: "
                 "PORT[-LAST]:APPPORT[-LAST][/udp]",
                 NULL, option_port, POD(request), OPTION_WORDS},
                {NULL, "publish", 0, "[IP:]PORT:APPPORT", false, "Same as --port", NULL, option_port,
                 POD(request), OPTION_WORDS},
                {NULL, "hostname", 0, "NAME", false, "Set the host name of the pod", NULL, option_hostname,
                 POD(options.hostname)},
                {NULL, "dns", 0, "none|host|ADDRESS", false,
                 "Name server for /etc/resolv.conf of the apps, instead of the network's; none: as in "
                 "the images; host: the host's",
                 "none|host", option_dns, POD(options.dns), OPTION_WORDS},
                {NULL, "dns-search", 0, "DOMAIN", false, "Search names in this domain; '.': in none", NULL,
                 option_dns_search, POD(options.dns_search), OPTION_WORDS},
                {NULL, "dns-option", 0, "OPTION", false, "Option for /etc/resolv.conf: ndots:2, …", NULL,
                 option_dns_option, POD(options.dns_options), OPTION_WORDS},
                {NULL, "hosts-entry", 0, "IP=NAME[,…]", false,
                 "Entry of /etc/hosts of the apps; host: all entries of the host's", "host",
                 option_hosts_entry, POD(options.hosts_entries), OPTION_WORDS},
                {NULL, "environment", 'E', "NAME[=VALUE]", false,
                 "Set an environment variable in all apps; without a value, to its value in acnspawn's own",
                 NULL, option_environment, POD(request.environment), OPTION_WORDS},
                {NULL, "env", 'e', "NAME[=VALUE]", false, "Same as --environment", NULL, option_environment,
                 POD(request.environment), OPTION_WORDS},
                {NULL, "environment-file", 0, "FILE", false,
                 "Set the variables in FILE, - for standard input: a line NAME=VALUE for each", "file",
                 option_environment_file, POD(request.environment), OPTION_WORDS},
                {NULL, "env-file", 0, "FILE", false, "Same as --environment-file", "file",
                 option_environment_file, POD(request.environment), OPTION_WORDS},
                {NULL, "credential", 0, "NAME:FILE", false,
                 "Give all apps a secret as a systemd credential: the content of FILE, - for standard input",
                 "file", option_credential, POD(request.credentials), OPTION_WORDS},
                {NULL, "load-credential", 0, "NAME:FILE", false, "Same as --credential", "file",
                 option_credential, POD(request.credentials), OPTION_WORDS},
                {NULL, "set-credential", 0, "NAME:VALUE", false,
                 "Same with the value itself, which is visible to other users", NULL, option_set_credential,
                 POD(request.credentials), OPTION_LINES},
                {NULL, "annotation", 0, "NAME=VALUE", false, "Add an annotation to the pod", NULL,
                 option_annotation, POD(request.annotations), OPTION_WORDS},
                {NULL, "user-annotation", 0, "NAME=VALUE", false, "Add a user annotation to the pod", NULL,
                 option_pair, POD(request.user_annotations), OPTION_WORDS},
                {NULL, "user-label", 0, "NAME=VALUE", false, "Add a user label to the pod", NULL,
                 option_pair, POD(request.user_labels), OPTION_WORDS},
                {NULL, "isolator", 0, "NAME=JSON", false, "Add an isolator for the pod as a whole",
                 "isolator", option_isolator, POD(request.isolators), OPTION_LINES},
                {NULL, "memory", 'm', "SIZE", false, "Limit the memory of all apps together: 64Mi, 1G, …",
                 NULL, option_isolator_short, POD(request.isolators)},
                {NULL, "cpu", 0, "AMOUNT", false,
                 "Limit the processor time of all apps together: 500m, 2, …", NULL, option_isolator_short,
                 POD(request.isolators)},
                {NULL, "tasks-max", 0, "NUMBER", false,
                 "Limit the processes and threads of all apps together (default: 8192)", NULL,
                 option_isolator_short, POD(request.isolators)},
                {NULL, "block-bandwidth", 0, "RATE", false,
                 "Limit the bytes per second that all apps together read, and write: 2M, …", NULL,
                 option_isolator_short, POD(request.isolators)},
                {NULL, "block-iops", 0, "RATE", false,
                 "Limit the operations per second with which all apps together read, and write", NULL,
                 option_isolator_short, POD(request.isolators)},
                {NULL, "sysctl", 0, "NAME=VALUE", false, "Set a kernel parameter of the pod", NULL,
                 option_sysctl, POD(request.isolators), OPTION_WORDS},
                {NULL, "caps-retain", 0, "CAP[,…]", false,
                 "Let apps that are added to the pod have these capabilities, too (with "
                 "--exit-policy=never)",
                 "capability", option_pod_caps_retain, 0, OPTION_JOINED},
                {NULL, "exit-policy", 0, "on-failure|all|any|never", false,
                 "End the pod when all apps have ended or one failed (default), when all have ended, "
                 "when any has, or only when it is stopped",
                 "on-failure|all|any|never", option_exit_policy, POD(options.exit_policy)},
                {NULL, "stop-timeout", 0, "TIME", false,
                 "How long an app may take to end after SIGTERM, and a post-stop handler to run (default: "
                 "10s)",
                 NULL, option_usec, POD(options.stop_timeout_usec)},
                {NULL, "exit-idle-time", 0, "TIME", false,
                 "Stop the pod when its apps, which are started by connections, have been inactive for TIME",
                 NULL, option_usec, POD(options.exit_idle_usec)},
                {NULL, "image-policy", 0, "registry|local|none", false,
                 "Let 'acnspawn update' replace apps by those of newer images of the registry or server, or "
                 "of "
                 "the store; for apps that do not say it themselves",
                 "registry|local|none", option_setting, POD(app_settings)},
                {NULL, "interactive", 'i', NULL, false,
                 "Give the only app a terminal if standard input is one, else an open standard input", NULL,
                 option_only_app, 0},
                {NULL, "tty", 't', NULL, false, "Give the only app a terminal", NULL, option_only_app, 0},
                {NULL, "stdin", 0, NULL, false, "Give the only app an open standard input", NULL,
                 option_only_app, 0},
                {NULL, "user", 'u', "USER[:GROUP]", false, "Run the only app as this user", NULL,
                 option_only_app, 0},
                {NULL, "working-directory", 'w', "PATH", false, "Run the only app in this directory", NULL,
                 option_only_app, 0},
                {NULL, "workdir", 0, "PATH", false, "Same as --working-directory", NULL, option_only_app, 0},
                {NULL, "pid", 0, "pod|private|shared|app:NAME", false, "PID namespace of the only app",
                 "pod|private", option_only_app, 0},
                {NULL, "exec", 0, "PATH", false, "Run this program in the only app, instead of the image's",
                 NULL, option_only_app, 0},
                {NULL, "entrypoint", 0, "PATH", false, "Same as --exec", NULL, option_only_app, 0},
                {NULL, "no-userns", 0, NULL, false,
                 "Do not use a user namespace: root in the pod is root of the host", NULL, option_false,
                 POD(options.private_users)},
                {NULL, "stage1", 0, "DIR", false, "Boot the systemd in DIR instead of the host's",
                 "directory", option_stage1, 0},
                {NULL, "uuid-file", 0, "FILE", false, "Also write the pod's UUID to FILE", "file",
                 option_word, POD(uuid_file)},
                OPTION_END,
};

const Option image_options[] = {
                OPTIONS_FETCH(NULL, offsetof(PodArguments, fetch)),
                OPTION_END,
};

const Option app_options[] = {
                {"App Options (after an image)", "name", 0, "NAME", false,
                 "Name the app (default: from the image's name)", NULL, option_app_name, APP(name)},
                {NULL, "exec", 0, "PATH", false, "Run this program instead of the image's", NULL,
                 option_exec, APP(exec)},
                {NULL, "entrypoint", 0, "PATH", false, "Same as --exec", NULL, option_exec, APP(exec)},
                {NULL, "user", 'u', "USER[:GROUP]", false,
                 "Run as this user: a name, a number, or a path in the image whose owner is used", NULL,
                 option_user, 0},
                {NULL, "group", 0, "GROUP", false, "Run as this group", NULL, option_group, APP(group)},
                {NULL, "supplementary-gids", 0, "GID[,…]", false,
                 "Use these supplementary groups, by number, instead of the image's", NULL, option_gids, 0,
                 OPTION_WORDS},
                {NULL, "working-directory", 'w', "PATH", false, "Run in this directory", NULL,
                 option_working_directory, APP(working_directory)},
                {NULL, "workdir", 0, "PATH", false, "Same as --working-directory", NULL,
                 option_working_directory, APP(working_directory)},
                {NULL, "environment", 'E', "NAME[=VALUE]", false, "Set an environment variable", NULL,
                 option_environment, APP(environment), OPTION_WORDS},
                {NULL, "env", 'e', "NAME[=VALUE]", false, "Same as --environment", NULL, option_environment,
                 APP(environment), OPTION_WORDS},
                {NULL, "environment-file", 0, "FILE", false,
                 "Set the variables in FILE, - for standard input: a line NAME=VALUE for each", "file",
                 option_environment_file, APP(environment), OPTION_WORDS},
                {NULL, "env-file", 0, "FILE", false, "Same as --environment-file", "file",
                 option_environment_file, APP(environment), OPTION_WORDS},
                {NULL, "credential", 0, "NAME:FILE", false,
                 "Give the app a secret as a systemd credential: the content of FILE, - for standard input",
                 "file", option_credential, APP(credentials), OPTION_WORDS},
                {NULL, "load-credential", 0, "NAME:FILE", false, "Same as --credential", "file",
                 option_credential, APP(credentials), OPTION_WORDS},
                {NULL, "set-credential", 0, "NAME:VALUE", false,
                 "Same with the value itself, which is visible to other users", NULL, option_set_credential,
                 APP(credentials), OPTION_LINES},
                {NULL, "mount", 0, "VOLUME:PATH[:ro]", false,
                 "Mount a volume in this app; in full: volume=VOLUME,target=PATH[,readOnly=BOOL]", NULL,
                 option_app_mount, 0, OPTION_WORDS},
                {NULL, "volume", 'v', "HOST:PATH[:ro]", false,
                 "Mount a path of the host in this app, or with a name instead of HOST a volume", NULL,
                 option_app_volume, 0, OPTION_WORDS},
                {NULL, "read-only", 0, NULL, false, "Make the app's root read-only", NULL, option_true,
                 APP(read_only_rootfs)},
                {NULL, "readonly-rootfs", 0, NULL, false, "Same as --read-only", NULL, option_true,
                 APP(read_only_rootfs)},
                {NULL, "memory", 'm', "SIZE", false, "Limit the app's memory: 64Mi, 1G, …", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "cpu", 0, "AMOUNT", false, "Limit the app's processor time: 500m, 2, …", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "cpu-shares", 0, "NUMBER", false,
                 "Set the CPU weight among the apps of the pod: 2 to 262144 (default: 1024)", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "tasks-max", 0, "NUMBER", false,
                 "Limit the app's processes and threads (default: 2048)", NULL, option_isolator_short,
                 APP(isolators)},
                {NULL, "block-bandwidth", 0, "RATE", false,
                 "Limit the bytes per second that the app reads, and writes", NULL, option_isolator_short,
                 APP(isolators)},
                {NULL, "block-iops", 0, "RATE", false,
                 "Limit the operations per second with which the app reads, and writes", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "oom-score-adj", 0, "SCORE", false,
                 "How soon the app is killed when memory runs out: -1000 (never) to 1000", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "sysctl", 0, "NAME=VALUE", false, "Set a kernel parameter of the pod", NULL,
                 option_sysctl, APP(isolators), OPTION_WORDS},
                {NULL, "seccomp", 0, "mode=MODE[,errno=NAME],CALL[,…]", false,
                 "Retain or remove system calls; other calls fail with the error, or kill the app", NULL,
                 option_seccomp, APP(isolators)},
                {NULL, "no-new-privileges", 0, NULL, false, "Do not let programs of the app gain privileges",
                 NULL, option_isolator_short, APP(isolators)},
                {NULL, "apparmor-profile", 0, "NAME", false, "Run the app in this AppArmor profile", NULL,
                 option_isolator_short, APP(isolators)},
                {NULL, "selinux-context", 0, "USER:ROLE:TYPE:LEVEL", false,
                 "Run the app in this SELinux context", NULL, option_selinux_context, APP(isolators)},
                {NULL, "caps-retain", 0, "CAP[,…]", false, "Keep only these capabilities", "capability",
                 option_caps_retain, APP(isolators), OPTION_JOINED},
                {NULL, "caps-remove", 0, "CAP[,…]", false, "Remove these capabilities; all: leave none",
                 "capability", option_caps_remove, APP(isolators), OPTION_JOINED},
                {NULL, "grant", 0, "NAME[,…]|all|none", false,
                 "Grant privileges that the image requests beyond the defaults: CAP_NAME, seccomp, "
                 "sysctl:NAME, "
                 "port:NAME, "
                 "oom-score-adj, tasks-max, apparmor-profile, selinux-context, or all; none: run the app "
                 "without them",
                 "all|none|seccomp|oom-score-adj|tasks-max|apparmor-profile|selinux-context", option_grant,
                 APP(annotations), OPTION_WORDS},
                {NULL, "interactive", 'i', NULL, false,
                 "Give the app a terminal if standard input is one, else an open standard input", NULL,
                 option_interactive, APP(annotations)},
                {NULL, "tty", 't', NULL, false, "Give the app a terminal; same as --input=terminal", NULL,
                 option_tty, APP(annotations)},
                {NULL, "stdin", 0, NULL, false, "Give the app an open standard input", NULL, option_stdin,
                 APP(annotations)},
                {NULL, "input", 0, "null|pipe|terminal", false,
                 "Standard input of the app: /dev/null (default), a pipe, or a terminal",
                 "null|pipe|terminal", option_setting, APP(annotations)},
                {NULL, "pid", 0, "pod|private|shared|app:NAME", false,
                 "PID namespace of the app: that of the pod (default), its own, the one of all apps with "
                 "shared, or that of another app",
                 "pod|private|shared", option_setting, APP(annotations)},
                {NULL, "restart", 0, "no|on-failure|always", false,
                 "Start the app again after it ended: never (default), if it failed, or always",
                 "no|on-failure|always", option_setting, APP(annotations)},
                {NULL, "restart-delay", 0, "TIME", false,
                 "Wait before a restart (default: 100ms), doubled for each consecutive one", NULL,
                 option_setting, APP(annotations)},
                {NULL, "restart-delay-max", 0, "TIME", false,
                 "The longest wait before a restart (default: 1min)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "restart-limit", 0, "NUMBER|infinity", false,
                 "Allow this many consecutive restarts (default: 10)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "after", 0, "APP[,…]", false, "Start when these apps of the pod are ready", NULL,
                 option_setting, APP(annotations), OPTION_JOINED},
                {NULL, "notify", 0, "BOOL", false, "Whether the app reports readiness itself (sd_notify)",
                 "true|false", option_setting, APP(annotations)},
                {NULL, "start-timeout", 0, "TIME", false,
                 "How long the app may take until it is ready (default: infinity)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-cmd", 0, "COMMAND", false,
                 "Check the app with this command instead of the image's; or none", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-interval", 0, "TIME", false, "Time between checks (default: 30s)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "health-timeout", 0, "TIME", false, "How long a check may take (default: 30s)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "health-retries", 0, "NUMBER", false,
                 "Consecutive failures that make the app unhealthy (default: 3)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-start-period", 0, "TIME", false,
                 "How long after a start failures do not count (default: 0)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "health-start-interval", 0, "TIME", false,
                 "The longest time between checks until the app is ready (default: 5s)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "health-on-failure", 0, "none|kill|restart|stop", false,
                 "Action for an unhealthy app (default: none)", "none|kill|restart|stop", option_setting,
                 APP(annotations)},
                {NULL, "no-healthcheck", 0, NULL, false, "Do not check the app, whatever its image says",
                 NULL, option_no_healthcheck, APP(annotations)},
                {NULL, "stop-signal", 0, "SIGNAL", false,
                 "Signal that requests the app to end (default: SIGTERM)", "signal", option_setting,
                 APP(annotations)},
                {NULL, "stop-timeout", 0, "TIME", false,
                 "How long the app may take to end (default: that of the pod)", NULL, option_setting,
                 APP(annotations)},
                {NULL, "log-size", 0, "SIZE|infinity", false,
                 "Bytes of the pod's journal the app may fill at once: 100Mi, … (default: its share)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "log-rate", 0, "SIZE|infinity", false,
                 "Bytes per second it may store after that (default: the size in an hour)", NULL,
                 option_setting, APP(annotations)},
                {NULL, "log-file", 0, "PATH[,format=cri|plain][,max-size=SIZE]", false,
                 "Also append the app's output to this file of the host (default format: cri)", "file",
                 option_setting, APP(annotations)},
                {NULL, "log", 0, "pod|journal|both|none", false,
                 "Store the app's output in the journal of the pod, that of the host, both, or none "
                 "(default: auto, the pod's, and the host's if acnspawn's own output goes there)",
                 "auto|pod|journal|both|none", option_setting, APP(annotations)},
                {NULL, "image-policy", 0, "registry|local|none", false,
                 "Let 'acnspawn update' replace the app by one of a newer image of the registry or server, "
                 "or of "
                 "the store",
                 "registry|local|none", option_setting, APP(annotations)},
                {NULL, "oom-group", 0, "BOOL", false,
                 "Kill all processes of the app, not one, if it runs out of memory", "true|false",
                 option_setting, APP(annotations)},
                {NULL, "isolator", 0, "NAME=JSON", false, "Add an isolator", "isolator", option_isolator,
                 APP(isolators), OPTION_LINES},
                {NULL, "annotation", 0, "NAME=VALUE", false, "Add an annotation", NULL,
                 option_app_annotation, APP(annotations), OPTION_WORDS},
                {NULL, "user-annotation", 0, "NAME=VALUE", false, "Add a user annotation", NULL, option_pair,
                 APP(user_annotations), OPTION_WORDS},
                {NULL, "user-label", 0, "NAME=VALUE", false, "Add a user label", NULL, option_pair,
                 APP(user_labels), OPTION_WORDS},
                OPTION_END,
};

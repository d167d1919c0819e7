/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Names of commands and options in other tools: podman and docker, machinectl and systemd-nspawn, rkt.
 *
 * They are not accepted, but the error message suggests the name here, which is more helpful than a word of
 * similar spelling. Where podman and docker agree about the name of an option that is used every day, and about
 * its meaning, it is in the tables of options themselves, and accepted; so is the name of a command in that of
 * the verb (Verb.also).
 */

#include "stage0/cli/options.h"

typedef struct Synonym {
        const char *word, *here;
} Synonym;

/* Commands and options without an equivalent, with the alternative as a sentence. */
typedef struct Missing {
        const char *word, *instead;
} Missing;

static const Missing missing[] = {
                {"auto-update", "'acnspawn update' replaces apps by those of newer images, "
                                "acnspawn-update.timer does so daily."},
                {"buildx", "Images for 'acnspawn fetch' are built by buildah, podman and docker: "
                           "acnspawn-images(7)."},
                {"checkpoint", "Pods cannot be saved and restored; 'acnspawn pause' stops their processes."},
                {"completion", "The completions of bash, zsh and fish are installed with acnspawn."},
                {"compose", "Apps that belong together are a pod; a file can declare it: acnspawn.pod(5)."},
                {"diff",
                 "'acnspawn export POD' writes the files of an app, with its changes, as an archive."},
                {"disable", "A declared pod is a unit of the host: 'systemctl disable acnspawn@NAME'."},
                {"down", "'acnspawn stop' ends a pod, 'acnspawn rm' removes it."},
                {"enable",
                 "A declared pod is a unit of the host: 'systemctl enable acnspawn@NAME'; acnspawn.pod(5)."},
                {"generate",
                 "'acnspawn pod create' writes the file of a declared pod, which is a unit of the "
                 "host: acnspawn.pod(5)."},
                {"healthcheck", "'acnspawn status' shows the result of the health checks of apps."},
                {"init",
                 "Apps are added to a running pod by 'acnspawn add-app'; systemd is PID 1 of each pod."},
                {"kube", "A kubelet runs pods of Kubernetes through acnspawn-cri(8); the file of a declared "
                         "pod is acnspawn.pod(5)."},
                {"login",
                 "Credentials for registries are read from files: acnspawn-auth.d(5). A shell beside an "
                 "app is 'acnspawn enter'."},
                {"logout", "Credentials for registries are read from files: acnspawn-auth.d(5)."},
                {"machine", "Pods run on this host; there is no virtual machine."},
                {"manifest", "'acnspawn image cat-manifest' shows the manifest of an image; lists of images "
                             "are read by 'acnspawn fetch', and written by other tools."},
                {"mount",
                 "'acnspawn cp' copies files of apps, 'acnspawn image render' unpacks an image, and "
                 "'--volume=' mounts what is to be seen from both sides."},
                {"network",
                 "Networks are files, see acnspawn-network(7); 'acnspawn run --net=NAME' uses one."},
                {"play", "A kubelet runs pods of Kubernetes through acnspawn-cri(8); the file of a declared "
                         "pod is acnspawn.pod(5)."},
                {"port", "'acnspawn status' shows the ports of a pod."},
                {"push", "'acnspawn image export' writes an archive, which other tools can upload."},
                {"rename", "A pod keeps its name; 'acnspawn prepare --name=' gives a new one its own."},
                {"restart", "'acnspawn restart-app' starts apps again; a pod that is a unit of the host is "
                            "restarted by 'systemctl "
                            "restart acnspawn@NAME', another one by 'acnspawn stop' and 'acnspawn run'."},
                {"restore", "Pods cannot be saved and restored; 'acnspawn pause' stops their processes."},
                {"search", "Registries are not searched; 'acnspawn fetch' takes the name of an image."},
                {"secret", "Secrets are credentials of apps: '--credential=NAME:FILE' of 'acnspawn run'; "
                           "acnspawn-pods(7)."},
                {"sign", "'acnspawn build --sign' signs an image; 'acnspawn trust' has the keys that are "
                         "accepted."},
                {"swarm", "acnspawn is for one host; a kubelet runs pods on many, through acnspawn-cri(8)."},
                {"tag", "An image has the name that it was fetched or built with."},
                {"umount", "Files of an app are mounted for its processes alone, until it ends."},
                {"unmount", "Files of an app are mounted for its processes alone, until it ends."},
                {"unshare", "A pod has users of its own; 'acnspawn enter' runs a command there."},
                {"untag", "An image has the name that it was fetched or built with; 'acnspawn image rm' "
                          "removes it."},
                {"up", "A pod is run by 'acnspawn run'; one that a file declares by 'systemctl start "
                       "acnspawn@NAME': acnspawn.pod(5)."},
};

static const Synonym verbs[] = {
                {"commit", "export"},
                {"create", "prepare"},
                {"copy", "cp"},
                {"copy-from", "cp"},
                {"copy-to", "cp"},
                {"cleanup", "gc"},
                {"delete", "rm"},
                {"describe", "status"},
                {"exists", "status"},
                {"freeze", "pause"},
                {"history", "image show"},
                {"image build", "build"},
                {"image delete", "image rm"},
                {"image extract", "image render"},
                {"image history", "image show"},
                {"image import", "fetch"},
                {"image inspect", "image show"},
                {"image load", "fetch"},
                {"image ls", "image list"},
                {"image mount", "image render"},
                {"image prune", "image gc"},
                {"image pull", "fetch"},
                {"image remove", "image rm"},
                {"image save", "image export"},
                {"images", "image list"},
                {"import", "fetch"},
                {"info", "version"},
                {"inspect", "status --json"},
                {"journal", "logs"},
                {"load", "fetch"},
                {"ls", "list"},
                {"pod ls", "pod list"},
                {"pod show", "pod cat"},
                {"poweroff", "stop"},
                {"ps", "list"},
                {"pull", "fetch"},
                {"reload", "apply"},
                {"remove", "rm"},
                {"rmi", "image rm"},
                {"run-prepared", "run"},
                {"save", "image export"},
                {"shell", "enter"},
                {"show", "status"},
                {"start", "run"},
                {"terminate", "stop --force"},
                {"thaw", "resume"},
                {"unpause", "resume"},
                {"volume inspect", "volume show"},
                {"volume ls", "volume list"},
                {"volume remove", "volume rm"},
};

/* The name in other tools with dashes, the name here without. */
static const Synonym options[] = {
                {"--add-host", "hosts-entry"},
                {"--bind", "volume"},
                {"--bind-ro", "volume"},
                {"--cap-drop", "caps-remove"},
                {"--chdir", "working-directory"},
                {"--cidfile", "uuid-file"},
                {"--collect", "rm"},
                {"--drop-capability", "caps-remove"},
                {"--cpus", "cpu"},
                {"--gid", "group"},
                {"--group-add", "supplementary-gids"},
                {"--hosts", "hosts-entry"},
                {"--kill-signal", "stop-signal"},
                {"--label", "user-label"},
                {"--log-driver", "log"},
                {"--log-opt", "log-file"},
                {"--machine", "name"},
                {"--network-alias", "hosts-entry"},
                {"--pids-limit", "tasks-max"},
                {"--pod-id-file", "uuid-file"},
                {"--pty", "interactive"},
                {"--pull", "pull-policy"},
                {"--requires", "after"},
                {"--secret", "credential"},
                {"--set-env", "environment"},
                {"--set-env-file", "environment-file"},
                {"--setenv", "environment"},
                {"--system-call-filter", "seccomp"},
                {"--tmpfs", "volume"},
                {"--uid", "user"},
                {"--unit", "name"},
                {"--uuid-file-save", "uuid-file"},
                {"-1", "signal"},
                {"-2", "signal"},
                {"-3", "signal"},
                {"-9", "signal"},
                {"-M", "name"},
};

#define CAPABILITIES                                                                                        \
        "--caps-retain= after the image names all capabilities that the app has: the default ones, which "  \
        "acnspawn-defaults(7) lists, and those to be added."
#define PUBLISH                                                                                             \
        "--publish=PORT:APPPORT publishes one port, or a range; 'acnspawn image show' lists those of an image."

static const Missing missing_options[] = {
                {"--arch", "The variant of an image for this machine is taken."},
                {"--build-arg", "acnspawn packs a directory; buildah and others read a Dockerfile."},
                {"--cap-add", CAPABILITIES},
                {"--capability", CAPABILITIES},
                {"--cgroup-parent",
                 "A pod is in the cgroup of its unit: --slice= of 'systemd-run', or a declared "
                 "pod, acnspawn.pod(5)."},
                {"--cgroupns", "Each pod has a cgroup namespace of its own."},
                {"--file", "acnspawn packs a directory; buildah and others read a Dockerfile."},
                {"--gpus", "--device= after the image gives an app devices of the host."},
                {"--init", "systemd is PID 1 of each pod, and reaps all processes: --init is not needed."},
                {"--ip",
                 "An address is an argument of a network: --net=NAME:IP=ADDRESS; acnspawn-network(7)."},
                {"--ip6",
                 "An address is an argument of a network: --net=NAME:IP=ADDRESS; acnspawn-network(7)."},
                {"--ipc",
                 "The apps of a pod share an IPC namespace of the pod; that of the host or of another pod "
                 "cannot be used."},
                {"--link", "Apps that belong together are a pod, and reach each other at localhost: "
                           "'acnspawn run IMAGE --- IMAGE'."},
                {"--mac-address",
                 "An address is an argument of a network: --net=NAME:MAC=ADDRESS; acnspawn-network(7)."},
                {"--memory-swap",
                 "After the image, --isolator=os/linux/cgroup={\"memory.swap.max\":\"BYTES\"} limits what is swapped."},
                {"--no-stream", "'acnspawn stats' shows the usage once: --no-stream is not needed."},
                {"--no-trunc",
                 "--full shows IDs in full; they are in full anyway if they are not written to a "
                 "terminal."},
                {"--platform", "The variant of an image for this machine is taken."},
                {"--pod",
                 "Apps of a pod are given in one command: 'acnspawn run IMAGE --- IMAGE'; 'acnspawn "
                 "add-app' adds one to a pod that runs."},
                {"--privileged",
                 "Privileges are given one by one after the image: --caps-retain= for capabilities, "
                 "--device=, --sys=writable, --masked-paths=none; acnspawn-defaults(7) lists what "
                 "apps have."},
                {"--publish-all", PUBLISH},
                {"--rootfs", "'acnspawn build' makes an image of a directory."},
                {"--security-opt",
                 "Each has an option of its own after the image: --no-new-privileges, "
                 "--seccomp-profile=, --apparmor-profile=, --selinux-context=, --masked-paths=."},
                {"--shm-size",
                 "A volume in memory has a size: --volume=shm,kind=tmpfs,size=1G --mount=shm:/dev/shm."},
                {"--sig-proxy", "In the foreground, SIGINT and SIGTERM always end the pod in order."},
                {"--systemd", "systemd is PID 1 of each pod, not of an app."},
                {"--tz",
                 "The time zone is that of the image, or of -e TZ=Area/City, or -v /etc/localtime:/etc/localtime:ro."},
                {"--ulimit",
                 "Limits of processes are fixed, acnspawn-defaults(7) lists them; --memory=, --cpu= and "
                 "--tasks-max= limit an app as a whole."},
                {"--userns",
                 "Each pod has users of its own; --no-userns switches that off, and idmap= of a volume says "
                 "how its owners are mapped."},
                {"--uts", "Each pod has a host name of its own: --hostname=."},
                {"--volumes-from",
                 "Volumes that are given before the first image are mounted in all apps of the pod."},
                {"-P", PUBLISH},
};

static const char *look_up(const Synonym *table, size_t n, const char *word)
{
        for (size_t i = 0; i < n; i++)
                if (streq(table[i].word, word))
                        return table[i].here;
        return NULL;
}

static const char *look_up_missing(const Missing *table, size_t n, const char *word)
{
        for (size_t i = 0; i < n; i++)
                if (streq(table[i].word, word))
                        return table[i].instead;
        return NULL;
}

const char *verb_instead(const char *word)
{
        return look_up_missing(missing, ELEMENTSOF(missing), word);
}

const char *option_instead(const char *word)
{
        return look_up_missing(missing_options, ELEMENTSOF(missing_options), word);
}

const char *verb_synonym(const char *word)
{
        return look_up(verbs, ELEMENTSOF(verbs), word);
}

const char *option_synonym(const char *word)
{
        return look_up(options, ELEMENTSOF(options), word);
}

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

/* Commands without an equivalent, with the alternative as a sentence. */
typedef struct Missing {
        const char *word, *instead;
} Missing;

static const Missing missing[] = {
                {"compose", "Apps that belong together are a pod; a file can declare it: acnspawn.pod(5)."},
                {"disable", "A declared pod is a unit of the host: 'systemctl disable acnspawn@NAME'."},
                {"down", "'acnspawn stop' ends a pod, 'acnspawn rm' removes it."},
                {"enable",
                 "A declared pod is a unit of the host: 'systemctl enable acnspawn@NAME'; acnspawn.pod(5)."},
                {"login",
                 "Credentials for registries are read from files: acnspawn-auth.d(5). A shell beside an "
                 "app is 'acnspawn enter'."},
                {"logout", "Credentials for registries are read from files: acnspawn-auth.d(5)."},
                {"network",
                 "Networks are files, see acnspawn-network(7); 'acnspawn run --net=NAME' uses one."},
                {"port", "'acnspawn status' shows the ports of a pod."},
                {"push", "'acnspawn image export' writes an archive, which other tools can upload."},
                {"rename", "A pod keeps its name; 'acnspawn prepare --name=' gives a new one its own."},
                {"restart", "'acnspawn restart-app' starts apps again; a pod that is a unit of the host is "
                            "restarted by 'systemctl "
                            "restart acnspawn@NAME', another one by 'acnspawn stop' and 'acnspawn run'."},
                {"search", "Registries are not searched; 'acnspawn fetch' takes the name of an image."},
                {"tag", "An image has the name that it was fetched or built with."},
                {"up", "A pod is run by 'acnspawn run'; one that a file declares by 'systemctl start "
                       "acnspawn@NAME': acnspawn.pod(5)."},
};

static const Synonym verbs[] = {
                {"commit", "export"},
                {"create", "prepare"},
                {"copy", "cp"},
                {"copy-from", "cp"},
                {"copy-to", "cp"},
                {"delete", "rm"},
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
                {"--cap-add", "caps-retain"},
                {"--cap-drop", "caps-remove"},
                {"--capability", "caps-retain"},
                {"--chdir", "working-directory"},
                {"--cidfile", "uuid-file"},
                {"--collect", "rm"},
                {"--drop-capability", "caps-remove"},
                {"--gid", "group"},
                {"--kill-signal", "stop-signal"},
                {"--label", "user-label"},
                {"--machine", "name"},
                {"--pids-limit", "tasks-max"},
                {"--pod-id-file", "uuid-file"},
                {"--pty", "interactive"},
                {"--secret", "credential"},
                {"--set-env", "environment"},
                {"--set-env-file", "environment-file"},
                {"--setenv", "environment"},
                {"--system-call-filter", "seccomp"},
                {"--tail", "lines"},
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

static const char *look_up(const Synonym *table, size_t n, const char *word)
{
        for (size_t i = 0; i < n; i++)
                if (streq(table[i].word, word))
                        return table[i].here;
        return NULL;
}

const char *verb_instead(const char *word)
{
        for (size_t i = 0; i < ELEMENTSOF(missing); i++)
                if (streq(missing[i].word, word))
                        return missing[i].instead;
        return NULL;
}

const char *verb_synonym(const char *word)
{
        return look_up(verbs, ELEMENTSOF(verbs), word);
}

const char *option_synonym(const char *word)
{
        return look_up(options, ELEMENTSOF(options), word);
}

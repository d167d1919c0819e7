/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What commands and options are called by other tools: podman and docker, machinectl and systemd-nspawn,
 * rkt.
 *
 * They are not taken, for one thing has one name here, but whoever types them is told that name. That is
 * more than the words that are spelled alike could say.
 */

#include "stage0/cli/options.h"

typedef struct Synonym {
        const char *word, *here;
} Synonym;

static const Synonym verbs[] = {
                {"commit", "export"},
                {"create", "prepare"},
                {"delete", "rm"},
                {"exec", "enter"},
                {"freeze", "pause"},
                {"image delete", "image rm"},
                {"image extract", "image render"},
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
                {"login", "enter"},
                {"ls", "list"},
                {"poweroff", "stop"},
                {"prune", "gc"},
                {"ps", "list"},
                {"pull", "fetch"},
                {"remove", "rm"},
                {"restart", "restart-app"},
                {"rmi", "image rm"},
                {"run-prepared", "run"},
                {"save", "image export"},
                {"shell", "enter"},
                {"show", "status"},
                {"start", "run"},
                {"terminate", "stop"},
                {"thaw", "resume"},
                {"unpause", "resume"},
                {"wait", "status --wait"},
};

/* With dashes, as they are typed; what they mean here without. */
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
                {"--entrypoint", "exec"},
                {"--env-file", "environment-file"},
                {"--gid", "group"},
                {"--kill-signal", "stop-signal"},
                {"--label", "user-label"},
                {"--machine", "name"},
                {"--network", "net"},
                {"--pod-id-file", "uuid-file"},
                {"--pty", "interactive"},
                {"--publish", "port"},
                {"--secret", "credential"},
                {"--set-env", "environment"},
                {"--set-env-file", "environment-file"},
                {"--setenv", "environment"},
                {"--system-call-filter", "seccomp"},
                {"--tail", "lines"},
                {"--tmpfs", "volume"},
                {"--tty", "interactive"},
                {"--uid", "user"},
                {"--unit", "name"},
                {"--uuid-file-save", "uuid-file"},
                {"--workdir", "working-directory"},
                {"-1", "signal"},
                {"-2", "signal"},
                {"-3", "signal"},
                {"-9", "signal"},
                {"-M", "name"},
                {"-e", "environment"},
                {"-m", "memory"},
                {"-t", "interactive"},
                {"-u", "user"},
                {"-w", "working-directory"},
};

static const char *look_up(const Synonym *table, size_t n, const char *word)
{
        for (size_t i = 0; i < n; i++)
                if (streq(table[i].word, word))
                        return table[i].here;
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

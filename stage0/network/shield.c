/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prevents access of pods to services on the host's loopback.
 *
 * So that ports are reachable from the host's own 127.0.0.1, the plugin portmap makes the kernel route such
 * addresses on the bridge (route_localnet). From then on the kernel also accepts packets for 127.0.0.0/8
 * from the bridge, and a pod that can send arbitrary packets, which requires CAP_NET_RAW without a user
 * namespace, could reach services that are intended for the host only. There are no legitimate packets of
 * this kind, so a rule drops them, before all other rules of the packet filter. There is one rule per host,
 * which remains, as does the kernel's setting.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "stage0/network/network-internal.h"

#define PROGRAM "iptables"

static const char *const rule[] = {
                "PREROUTING", "!",
                "-i",         "lo",
                "-d",         "127.0.0.0/8",
                "-m",         "comment",
                "--comment",  "acnspawn: the loopback of the host is its own",
                "-j",         "DROP",
};

static _noreturn_ void child(char *const *argv)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigset_t none;

        sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || null < 0)
                _exit(125);
        for (int fd = 0; fd <= 2; fd++)
                if (dup2(null, fd) < 0)
                        _exit(125);
        (void) clearenv();
        (void) putenv((char *) "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        (void) execvp(PROGRAM, argv);
        _exit(127);
}

/* Returns the exit status. Waits for other processes that change rules, with a timeout. */
static int run(const char *action)
{
        _cleanup_strv_free_ char **argv = NULL;
        const char *const head[] = {PROGRAM, "-w", "5", "-t", "raw", action};
        int r = 0, status = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(head); i++)
                r = strv_extend(&argv, head[i]);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(rule); i++)
                r = strv_extend(&argv, rule[i]);
        if (r < 0)
                return r;
        pid_t pid = fork();
        if (pid == 0)
                child(argv);
        if (pid < 0)
                return -errno;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

static bool maps_ports(const Attachment *a)
{
        json_object *v;

        if (!json_object_object_get_ex(a->runtime, "portMappings", &v))
                return false;
        for (size_t i = 0; i < json_object_array_length(a->plugins); i++)
                if (streq(cni_plugin_type(json_object_array_get_idx(a->plugins, i)), "portmap"))
                        return true;
        return false;
}

int network_shield_loopback(NetworkRecord *record)
{
        for (size_t i = 0; i < record->n_attachments; i++) {
                Attachment *a = &record->attachments[i];

                if (!maps_ports(a) || run("-C") == 0 || run("-I") == 0)
                        continue;
                _cleanup_free_ char *before = TAKE_PTR(a->note);
                int r = xasprintf(&a->note,
                                  "%s%spackets addressed to the host's loopback cannot be blocked "
                                  "from it (" PROGRAM " -t raw)",
                                  before ?: "", before ? "; " : "");
                if (r < 0)
                        return r;
        }
        return 0;
}

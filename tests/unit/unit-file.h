/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A second parser of the unit files that acnspawn writes, which accepts only the known directives. */

#include "basic/basic.h"

/* Directives that may appear in each section. New directives of the generator must be added here. */
static const struct {
        const char *section, *keys;
} unit_file_keys[] = {
                {"Unit",
                 " Description DefaultDependencies Requires Wants After Before Conflicts "
                 "StopWhenUnneeded SuccessAction OnFailure"
                 " FailureAction AllowIsolate IgnoreOnIsolate RefuseManualStart StartLimitIntervalSec"
                 " StartLimitBurst StartLimitAction BindsTo CollectMode PropagatesReloadTo "},
                {"Service", " Type NotifyAccess Slice ExecStart ExecStartPre ExecStartPost ExecStopPost "
                            "StandardInput StandardOutput StandardError"
                            " TimeoutStartSec TimeoutStopSec OOMScoreAdjust Sockets RuntimeDirectory "
                            "RuntimeDirectoryPreserve"
                            " Environment Restart RestartSec FileDescriptorStoreMax KillSignal OOMPolicy "},
                {"Socket", " ListenStream ListenDatagram SocketMode PassCredentials ReceiveBuffer Service "
                           "FileDescriptorName "
                           "BindIPv6Only DirectoryMode Accept MaxConnections TriggerLimitIntervalSec "
                           "TriggerLimitBurst "},
                {"Timer", " OnActiveSec OnUnitInactiveSec AccuracySec "},
                {"Slice", " IOAccounting MemoryMax MemorySwapMax MemoryLow CPUQuota CPUWeight TasksMax "},
};

/* What an app's service may have at all, and only once. */
static const char app_service_keys[] =
                " Description DefaultDependencies Requires Wants After Conflicts Before "
                "FailureAction SuccessAction Type NotifyAccess Slice ExecStartPre ExecStart ExecStartPost"
                " StartLimitBurst StartLimitAction ExecStopPost StandardInput StandardOutput StandardError "
                "TimeoutStartSec TimeoutStopSec OOMScoreAdjust StartLimitIntervalSec"
                " Restart RestartSec KillSignal OOMPolicy ";

__attribute__((unused)) static bool is_word_of(const char *words, const char *word)
{
        _cleanup_free_ char *spaced = NULL;

        return xasprintf(&spaced, " %s ", word) >= 0 && strstr(words, spaced);
}

__attribute__((unused)) static const char *keys_of_section(const char *section)
{
        for (size_t i = 0; i < ELEMENTSOF(unit_file_keys); i++)
                if (streq(unit_file_keys[i].section, section))
                        return unit_file_keys[i].keys;
        return NULL;
}

/* Plain text without anything that systemd would expand, unquote or continue; a percent sign only where a
 * number ends in one. */
__attribute__((unused)) static bool unit_value_is_plain(const char *key, const char *value)
{
        size_t n = strlen(value);

        if (n == 0 || value[0] == ' ' || value[n - 1] == ' ' || !utf8_is_valid(value, n))
                return false;
        for (const char *c = value; *c; c++) {
                if ((unsigned char) *c < 0x20 || *c == 0x7f || strchr("\\\"'$;`", *c))
                        return false;
                if (*c == '%' && !(streq(key, "CPUQuota") && !c[1]))
                        return false;
        }
        return true;
}

typedef int (*UnitLine)(const char *section, const char *key, const char *value, void *userdata);

/* Calls LINE for every assignment. -EBADMSG, with the line in RET_BAD, for everything that must not be in a
 * unit of a pod. */
__attribute__((unused)) static int unit_file_read(const char *text, UnitLine line, void *userdata,
                                                  char **ret_bad)
{
        _cleanup_strv_free_ char **lines = NULL;
        const char *section = NULL, *keys = NULL;
        int r = strv_split(text, "\n", &lines);

        for (char **l = lines; r >= 0 && l && *l; l++) {
                _cleanup_free_ char *copy = strdup(*l);
                size_t n = strlen(copy);
                char *value = strchr(copy, '=');
                if (copy[0] == '#')
                        continue;
                if (copy[0] == '[' && copy[n - 1] == ']') {
                        copy[n - 1] = 0;
                        keys = keys_of_section(copy + 1);
                        section = *l;
                        r = keys ? 0 : -EBADMSG;
                } else if (!keys || !value)
                        r = -EBADMSG;
                else {
                        *value++ = 0;
                        r = is_word_of(keys, copy) && unit_value_is_plain(copy, value)
                                            ? line(section, copy, value, userdata)
                                            : -EBADMSG;
                }
                if (r < 0)
                        *ret_bad = strdup(*l);
        }
        return r;
}

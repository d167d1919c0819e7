/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signals: the schema has numbers of its own, and names. */

#include <signal.h>

#include "cri/sandbox.h"
#include "schema/settings.h"

#define PLUS "SIGRTMINPLUS"
#define MINUS "SIGRTMAXMINUS"

static int number_of(const char *name)
{
        static const struct {
                const char *name;
                int number;
        } others[] = {{"SIGCLD", SIGCHLD},
                      {"SIGIOT", SIGABRT},
                      {"SIGIO", SIGIO},
                      {"SIGPOLL", SIGIO},
                      {"SIGRTMAX", 64}};
        const char *plus = startswith(name, PLUS), *minus = startswith(name, MINUS);
        uint32_t n;

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (streq(others[i].name, name))
                        return others[i].number;
        if (plus)
                return parse_u32(plus, &n) < 0 ? 0 : SIGRTMIN + (int) n;
        if (minus)
                return parse_u32(minus, &n) < 0 ? 0 : SIGRTMAX - (int) n;
        return signal_from_string(name);
}

int cri_signal_to_number(Runtime__V1__Signal s)
{
        const ProtobufCEnumValue *v =
                        protobuf_c_enum_descriptor_get_value(&runtime__v1__signal__descriptor, (int) s);

        return !v || s == RUNTIME__V1__SIGNAL__RUNTIME_DEFAULT ? 0 : MAX(number_of(v->name), 0);
}

/* Of several names the first one. */
Runtime__V1__Signal cri_signal_from_number(int number)
{
        const ProtobufCEnumDescriptor *d = &runtime__v1__signal__descriptor;

        for (unsigned i = 0; number > 0 && i < d->n_values; i++)
                if (cri_signal_to_number((Runtime__V1__Signal) d->values[i].value) == number)
                        return (Runtime__V1__Signal) d->values[i].value;
        return RUNTIME__V1__SIGNAL__RUNTIME_DEFAULT;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Settings of an image that define how its app is run: whether the app sends a readiness notification, its
 * health check, its stop signal. They become settings of the app in the pod's manifest, unless the user has
 * set them, so that all other code uses the manifest only. Images cannot set anything else: the restart
 * policy, for instance, is up to the user.
 */

#include "prepare/pods/reify-internal.h"
#include "schema/settings.h"

#define SUPPORTS_NOTIFY "appc.io/executor/supports-systemd-notify"
#define HEALTHCHECK "org.opencontainers.image.healthcheck"
#define STOP_SIGNAL "org.opencontainers.image.stopsignal"

static int set_unless_set(PodApp *a, const char *name, const char *value)
{
        return pair_list_get(&a->annotations, name) ? 0 : pair_list_set(&a->annotations, name, value);
}

/* See aci.md in the specification for the annotation; an annotation of the app in the pod's manifest takes
 * precedence over the image's. */
static int take_notify(Reify *r, PodApp *a, const PairList *image, Error *e)
{
        const char *value = pair_list_get(&a->annotations, SUPPORTS_NOTIFY)
                                            ?: pair_list_get(image, SUPPORTS_NOTIFY);

        if (!value || parse_boolean(value) == 0)
                return 0;
        if (parse_boolean(value) < 0)
                return reify_warn(r, e,
                                  "App %s: the annotation " SUPPORTS_NOTIFY " is neither true nor false",
                                  pod_app_path_name(a));
        return set_unless_set(a, SETTING_PREFIX "notify", "true") < 0 ? error_oom(e) : 0;
}

static int take_health(Reify *r, PodApp *a, const PairList *image, Error *e)
{
        const char *text = pair_list_get(image, HEALTHCHECK);
        _cleanup_(pair_list_done) PairList settings = {};
        _cleanup_error_ Error why = ERROR_NULL;

        if (!text || streq_ptr(pair_list_get(&a->annotations, SETTING_PREFIX "health-cmd"), "none"))
                return 0;
        int k = health_settings_from_oci(text, &settings, &why);
        if (k == -ENOMEM)
                return error_oom(e);
        if (k < 0)
                return reify_warn(r, e, "App %s: the health check of its image is ignored: %s",
                                  pod_app_path_name(a), why.message ?: "it is not valid");
        for (size_t i = 0; i < settings.n; i++)
                if (set_unless_set(a, settings.items[i].name, settings.items[i].value) < 0)
                        return error_oom(e);
        return 0;
}

static int take_stop_signal(Reify *r, PodApp *a, const PairList *image, Error *e)
{
        const char *value = pair_list_get(image, STOP_SIGNAL);

        if (!value)
                return 0;
        if (app_setting_check("stop-signal", value, NULL) < 0)
                return reify_warn(r, e, "App %s: the stop signal of its image is unknown",
                                  pod_app_path_name(a));
        return set_unless_set(a, SETTING_PREFIX "stop-signal", value) < 0 ? error_oom(e) : 0;
}

/* Warns of settings for a health check in an app without one. */
static int check_health(Reify *r, const PodApp *a, Error *e)
{
        static const char *const names[] = {"health-interval",       "health-timeout",
                                            "health-retries",        "health-start-period",
                                            "health-start-interval", "health-on-failure"};
        const char *command = pair_list_get(&a->annotations, SETTING_PREFIX "health-cmd");

        if (command && !streq(command, "none"))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char name[64];
                snprintf(name, sizeof(name), SETTING_PREFIX "%s", names[i]);
                if (pair_list_get(&a->annotations, name))
                        return reify_warn(
                                        r, e,
                                        "App %s: --%s has no effect, because neither its image nor --health-cmd defines a "
                                        "health check",
                                        pod_app_path_name(a), names[i]);
        }
        return 0;
}

int reify_image_settings(Reify *r, PodApp *a, const ImageManifest *image, bool oci, Error *e)
{
        int k = oci && set_unless_set(a, SETTING_PREFIX "hostname-variable", "true") < 0 ? error_oom(e) : 0;

        if (k >= 0)
                k = take_notify(r, a, &image->annotations, e);

        if (k >= 0)
                k = take_health(r, a, &image->annotations, e);
        if (k >= 0)
                k = check_health(r, a, e);
        return k < 0 ? k : take_stop_signal(r, a, &image->annotations, e);
}

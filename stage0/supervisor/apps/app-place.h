/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* app-place.c: whether an app is a part of its pod. */

#include <stdbool.h>

struct AppInstance;

typedef enum AppPlace {
        PLACE_THERE,
        PLACE_ADDING,    /* its manifest is being written to disk */
        PLACE_LAUNCHING, /* with its group */
        PLACE_REPLACING, /* by another one of the name */
        PLACE_REMOVING,  /* it is down, and systemd unloads its units */
        PLACE_REMOVED,
        _APP_PLACE_MAX,
} AppPlace;

typedef enum PlaceEvent {
        PLACE_IS_ADDED,
        PLACE_IS_LAUNCHED,
        PLACE_IS_REPLACED, /* also when the units of the app are those of the other one */
        PLACE_IS_SETTLED,  /* the change is made, or undone */
        PLACE_IS_LEFT,
        PLACE_IS_FREE,
        _PLACE_EVENT_MAX,
} PlaceEvent;

void app_place_handle(struct AppInstance *a, PlaceEvent event);
/* True if nothing can be done to it any more. */
bool app_is_leaving(const struct AppInstance *a);
/* "adding", "launching" or "replacing": no call can change it now. NULL: none of them. */
const char *app_change_of(const struct AppInstance *a);

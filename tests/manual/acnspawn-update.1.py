#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-update(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-update.1", "c8a9a2c55df6193a")


def put(host, number, script="exec sleep 1000"):
    """A newer image of the name example.com/web, and its ID."""
    return host.acnspawn("fetch", host.shell("echo version %d; %s" % (number, script), name="example.com/web")).expect(0).out.strip()


@once
def pod(host):
    put(host, 1)
    return host.detach("--name=shop", "--exit-policy=never", "example.com/web", "--name=web", "--image-policy=local", "--start-timeout=20s", "---",
                       "example.com/web", "--name=checked", "--image-policy=local", "--health-cmd=test -e /bin/sh", "---", "example.com/web", "--name=alone")


def update(host, *words, rc=0):
    return [(r["app"], r["result"]) for r in json.loads(host.acnspawn("update", "--json", *words).expect(rc).out)]


def images(host):
    return {a["name"]: a["imageID"] for a in host.status("shop")["apps"]}


@sentence("DESCRIPTION", "and replaces these apps. Without names all running pods are updated. Other apps are not affected.")
@sentence("DESCRIPTION", "Nothing goes over the network. The app is replaced if its reference means another image of the store by now, after "
                         "acnspawn fetch or acnspawn build")
@sentence("OPTIONS", "Fetch newer images, and show which apps would be replaced, but replace none.")
@sentence("OUTPUT", "current The app has the newest image. available There is a newer one (with --dry-run). replaced The app was replaced by one of "
                    "the newer image.")
@sentence("OUTPUT", "A line for each app with a policy, or with --json an array of objects with the fields of --format=.")
@sentence("OPTIONS", "Show these columns, or write TEXT for each app, with fields in braces: uuid, pod, app, image (the reference), policy, "
                     "currentID (of the image before the update), newerID, result, message.")
def newer_images_of_the_store(host):
    pod(host)
    old = images(host)["web"]
    equal(update(host), [("web", "current"), ("checked", "current")])
    new = put(host, 2)
    equal(update(host, "--dry-run"), [("web", "available"), ("checked", "available")])
    equal(images(host), {name: old for name in ("web", "checked", "alone")})
    r = host.acnspawn("update", "--format={uuid} {pod} {app} {image} {policy} {currentID} {newerID} {result}{message}", "shop").expect(0)
    equal(r.out.splitlines()[0], "%s shop web example.com/web local %s %s replaced" % (pod(host), old, new))
    equal(images(host), {"web": new, "checked": new, "alone": old})
    equal(update(host, "shop"), [("web", "current"), ("checked", "current")])


@sentence("DESCRIPTION", "If the new app is not executed, or not ready in time, or unhealthy, the old one is put back and started again. That is an "
                         "error, and the other apps and pods are updated nevertheless.")
@sentence("DESCRIPTION", "An image with which an app did not get ready is recorded for the app, and not tried again")
@sentence("DESCRIPTION", "It is tried with --retry")
@sentence("OUTPUT", "rolled back The new app did not get ready, and the old one was put back. failed before The newer image was not tried, as the "
                    "same happened with it before.")
@sentence("OPTIONS", "Also try images with which the app did not get ready before.")
def images_that_do_not_get_ready(host):
    pod(host)
    before = images(host)
    host.acnspawn("fetch", host.image(["/no/such"], name="example.com/web")).expect(0)
    equal(update(host, "--ready-timeout=20s", rc=1), [("web", "rolled back"), ("checked", "rolled back")])
    equal(images(host), before)
    equal(update(host), [("web", "failed before"), ("checked", "failed before")])
    equal(update(host, "--retry", rc=1), [("web", "rolled back"), ("checked", "rolled back")])
    new = put(host, 3)
    equal(update(host), [("web", "replaced"), ("checked", "replaced")])
    equal(images(host)["web"], new)


@sentence("OPTIONS", "Pass over named pods that do not run, are paused or just being changed by another command, or do not exist, instead of "
                     "failing. Without names that is always so.")
@sentence("EXIT STATUS", "0 if nothing failed; 1 if an app could not be updated or was put back, with a message that names pod, app and image; 2 if "
                         "the command line is not valid.")
def pods_that_do_not_run(host):
    pod(host)
    host.prepare("--name=prepared", "example.com/web", "--image-policy=local")
    host.acnspawn("update", "prepared").expect(1)
    host.acnspawn("update", "nothing").expect(1)
    host.acnspawn("update", "--nothing").expect(2)
    equal(update(host, "--if-running", "prepared", "nothing"), [])
    put(host, 6)
    host.acnspawn("pause", "shop").expect(0)
    r = host.acnspawn("update", "shop").expect(1)
    for words in "shop", "web", "example.com/web":
        contains(r.err, words)
    equal(update(host, "--if-running", "shop"), [("web", "passed over"), ("checked", "passed over")])
    host.acnspawn("update").expect(0)
    host.acnspawn("resume", "shop").expect(0)


@sentence("DESCRIPTION", "A reference that can only mean one image, by ID or by digest, is never newer; a pod manifest that names an image by its "
                         "ID is an error.")
@sentence("DESCRIPTION", "Files, layouts and archives are refused with this policy.")
def references_of_one_image(host):
    image_id = put(host, 4)
    uuid = host.detach("--exit-policy=never", image_id, "--name=pinned", "--image-policy=local")
    put(host, 5)
    equal([r for r in update(host, uuid) if r[0] == "pinned"], [("pinned", "current")])
    host.acnspawn("prepare", host.image(name="example.com/file"), "--image-policy=registry").expect(1)


elsewhere(
    ("DESCRIPTION", "The registry, or the server of an image with a name or a URL, is asked, as by acnspawn fetch --pull-policy=update. Digests, "
                    "entity tags or dates are compared, and an image that has not changed is not downloaded.",
     "update/the_registry_has_a_newer_image"),
    ("DESCRIPTION", "Files, layouts and archives are refused with this policy.", "update/policies_that_make_no_sense_are_refused"),
    ("DESCRIPTION", "a file, layout or archive is read again, and imported if it has changed.", "update/images_of_the_store_and_of_files"),
    ("DESCRIPTION", "An image that is older than the app's present one is an error, and the app is not replaced, unless there is --allow-older",
     "update/a_server_with_an_older_image_or_another_one"),
    ("DESCRIPTION", "one whose version is lower and both begin with a digit, and neither is the hash of a commit.",
     "update/versions_that_go_back_without_signatures"),
    ("DESCRIPTION", "the registry determines what a tag refers to, also if that was there before.", "update/a_tag_is_not_the_version_of_an_image"),
    ("DESCRIPTION", "Pods are updated in parallel, and do not wait for each other.",
     "update/updates_of_pods_are_independent_and_survive_their_client"),
    ("DESCRIPTION", "The apps of a pod are replaced one after the other, in the order in which they start (--after=)",
     "update/apps_are_replaced_in_the_order_in_which_they_start"),
    ("DESCRIPTION", "If this command is killed, a replacement continues", "update/updates_of_pods_are_independent_and_survive_their_client"),
    ("DESCRIPTION", "there is a warning, which is not a failure.", "update/an_image_that_does_not_get_ready_is_not_tried_again"),
    ("DESCRIPTION", "Pods that acnspawn run makes of an updated pod when it has ended have its newer images.",
     "update/the_registry_has_a_newer_image"),
    ("The timer", "starts acnspawn-update.service, which runs this command, once a day.", "vm/units/updates_by_their_service"),
    ("The timer", "by the section [Update] in its file", "vm/declared/updates_by_the_timer_of_a_pod"),
    ("OPTIONS", "Also replace apps by images that are older than their present ones, if a newer image was withdrawn.",
     "update/versions_that_go_back_without_signatures"),
    ("OPTIONS", "Go back to the old image unless the new app is executed, and ready if it reports that, within TIME after it was started.",
     "update/the_time_to_get_ready_is_limited"),
    ("OPTIONS", "The old image is also put back once the health check has made the app unhealthy (--health-retries=).",
     "update/a_new_app_whose_check_never_succeeds_is_rolled_back"),
    ("OPTIONS", "Give up an image that is not fetched within TIME (default: 1h; infinity: no limit): its apps have failed, and the others are "
                "updated nevertheless. The next update continues the download", "update/a_server_that_takes_too_long"),
    ("OUTPUT", "That is on disk, and only then the files of the old app are removed", "power/a_running_pod_changes"),
    ("OUTPUT", "failed The newest image is not known, is older than the present one or of another name",
     "update/a_server_with_an_older_image_or_another_one"),
    ("OUTPUT", "The pod was stopped meanwhile, is paused or still starting, or another command changes or removes the app",
     "update/pods_that_cannot_be_updated_just_now"),
    ("OUTPUT", "A pod that ends by itself while its app is replaced is failed.", "update/pods_that_end_during_their_update"),
)

main()

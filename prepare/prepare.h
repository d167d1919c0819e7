/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/: everything before a pod runs, and its remains afterwards: reading image archives, the
 * content-addressed store, the pod directories and their life cycle, and reifying pod manifest templates.
 *
 *     unpack/     archives: read, decompressed, hashed, unpacked within limits
 *     pack/       archives: written, compressed, the same from the same input
 *     store/      the directory that holds it all: its lock, publishing by rename, durability
 *     images/     the images of a store: importing, finding, layers, rendering
 *     transfer/   downloads over HTTP
 *     discovery/  finds the URLs of an image name
 *     oci/        OCI and Docker images: their sources, and importing them
 *     registry/   registries, as a source of OCI images
 *     trust/      keys and the signatures that count, encrypted images
 *     build/      image layouts made into images, compressed, encrypted, signed
 *     fetch/      resolves a user's reference to an image in the store, and fetches it
 *     pods/       pod directories, their life cycle, reifying
 *     volumes/    named volumes: made, found, removed, as archives
 *     collect/    removing unused pods, images and layers
 *
 * None includes one below it in this list. This header is for folders outside of prepare/.
 *
 * The store, by default /var/lib/acnspawn (mode 0700, root's):
 *
 *     version                      "1\n": the layout below; another number is refused
 *     file-system                  the type and ID of the one on which it was tried that it can carry pods
 *     id-mapped                    the same, with the boot in which an id-mapped mount of it was made
 *     lock                         flock: shared while images are looked up for a pod, exclusive while they
 *                                  are removed
 *     cri.lock                     flock of the acnspawn-cri that serves the store; its process ID
 *     tmp/                         images being unpacked; anything there that is not locked is rubbish
 *     images/sha512-<128 hex>/     one image: complete or absent (renamed into place)
 *         manifest  rootfs/  info  info: JSON with the time of import, size, where it came from
 *         used  implied            empty; its modification time is when the image was used last. implied: as
 *                                  of a layer, below
 *         config  layers           of an OCI image, which has no rootfs: its config, and its layers, the
 *                                  uppermost first, one a line
 *     layers/sha256-<64 hex>/      a layer of OCI images, named by the digest of its uncompressed archive:
 *         rootfs/  size            complete or absent; implied: directories without an entry of their own;
 *         implied  whiteouts       whiteouts: it hides something of the layers below it; hashed: digests of
 *         hashed                   the blobs that were read here and had this content, one a line
 *     layers/merged-<64 hex>/      a layer that was made of several, named by a hash of their names
 *     rendered/<key>/              what an image with a pathWhitelist and its dependencies come to, or the
 *                                  directories that layers only imply: complete or absent
 *         rootfs/  layers          hard links to files of images (no rootfs: there are no such directories);
 *         implied                  the layers it was made from, one a line; implied: as of a layer
 *     downloads/<sha256 of a URL>  downloads that were broken off: NAME.part, with a flock while a process
 *                                  continues it, and NAME.json: the version of the file, and its size
 *     remotes/<sha256 of a place>  what a URL, a registry's reference or a file came to: JSON
 *     volumes/<name>/              a named volume, complete or absent: it stays until it is removed by name or
 *         data/  meta              pruned. data: what apps see, with their users as owners; meta: JSON
 *     pods/{embryo,preparing,prepared,running,exited,garbage}/<uuid>/
 *         pod                      the reified pod manifest
 *         config                   PodConfig as JSON
 *         grants                   where isolators come from, and what images were granted (pod-grants.c)
 *         apps/<app>/manifest      the image's manifest
 *             lowers               one overlay lower directory per line, uppermost first
 *             launch               the launch file (stage1/)
 *             upper/  work/        of the overlay
 *         volumes/<volume>/        empty volumes
 *         root/                    the root of the pod's own systemd (written by stage1/); in it, once it
 *                                  runs, var/log/journal/<id>/ (what the apps wrote)
 *         status/<app>             how the app is or how it ended; status/<app>.health: its health check
 *         runtime interface        while it runs: the PIDs of its supervisor, nspawn and PID 1; the supervisor's
 *         cgroups mounts/          socket; its cgroups; the mount point of the supervisor's private tmpfs
 *         applying                 with a flock while a process, which it names, changes it to what is declared (stage0/apply/)
 *         result                   how the pod ended (all of these written by stage0/)
 *         ended                    when it ended: microseconds since the epoch, in decimal
 *     names/<name>                 symlink to the UUID of the pod of that name
 *     uids/<base>                  symlink to the UUID of the pod that owns the 65536 uids from <base> on;
 *                                  all stores' pods are also in /var/lib/acnspawn-uids (uids-host.c)
 */

#include "prepare/build/build.h"
#include "prepare/collect/collect.h"
#include "prepare/discovery/discovery.h"
#include "prepare/fetch/fetch.h"
#include "prepare/images/images.h"
#include "prepare/oci/oci.h"
#include "prepare/pack/pack.h"
#include "prepare/pods/pods.h"
#include "prepare/store/store.h"
#include "prepare/transfer/transfer.h"
#include "prepare/trust/trust.h"
#include "prepare/volumes/volumes.h"

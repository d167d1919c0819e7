# SPDX-License-Identifier: LGPL-2.1-or-later
"""containerd with runc in place of acnspawn-cri: what the same program shows of them on the same host, with the same images."""

import os
import socket
import subprocess

from conformance import REGISTRY, World, accepts, wait_for

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "runc")
CONFIGURATION = """
version = 3
root = "%(dir)s/containerd/root"
state = "%(dir)s/containerd/state"
[grpc]
  address = "%(socket)s"
[plugins."io.containerd.internal.v1.opt"]
  path = "%(dir)s/containerd/opt"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "%(pause)s"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "%(dir)s/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "%(dir)s/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "%(bin)s/runc"
        SystemdCgroup = false
"""


class Control(World):
    def __init__(self, *needed, pause):
        """PAUSE is the image of its sandboxes."""
        super().__init__(*needed, *PROGRAMS)
        self.pause = pause
        self.had_cgroups = self.cgroups()

    @staticmethod
    def cgroups():
        """What runc makes for sandboxes without a parent, in each hierarchy."""
        places = ["/sys/fs/cgroup"] + ["/sys/fs/cgroup/" + name for name in os.listdir("/sys/fs/cgroup")]
        return {place + "/k8s.io" for place in places if os.path.isdir(place + "/k8s.io")}

    def serve_images(self, hosts):
        super().serve_images(hosts)
        for host in hosts:
            self.write("certs.d/%s/hosts.toml" % host,
                       'server = "https://%s"\n[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' % (host, REGISTRY))

    def start_runtime(self):
        self.write_network()
        config = self.write("containerd.toml", CONFIGURATION % {"dir": self.dir, "socket": self.socket, "pause": self.pause, "bin": self.bin})
        self.runtime = self.start("runtime", self.bin + "/containerd", "--config", config)
        wait_for(lambda: accepts(socket.AF_UNIX, self.socket) and '"RuntimeReady"' in self.crictl("info"), "containerd", 60)

    def __exit__(self, *exception):
        super().__exit__(*exception)
        for place in self.cgroups() - self.had_cgroups:
            for directory, _, _ in os.walk(place, topdown=False):
                subprocess.run(["rmdir", directory], stderr=subprocess.DEVNULL)

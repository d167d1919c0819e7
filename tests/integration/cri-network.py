#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Networks of sandboxes, with a plugin of this test: its addresses, its counters, and what happens if it fails."""

from cri_client import *

PLUGIN = r"""#!/bin/sh
set -e
dir=$(dirname "$0")
echo "$CNI_COMMAND" >>"$dir/log"
cat >"$dir/input"
case $CNI_COMMAND in
ADD)
        [ ! -e "$dir/fail" ] || { echo '{"code": 11, "msg": "no address is free"}'; exit 1; }
        nsenter --net="$CNI_NETNS" sh -ec 'ip link add "$0" type veth peer name other
                ip addr add 10.66.0.2/24 dev "$0"; ip link set "$0" up; ip link set other up' "$CNI_IFNAME" >&2
        echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.66.0.2/24"}, {"address": "fd00:66::2/64"}]}' ;;
DEL)
        [ ! -e "$dir/fail-del" ] || { echo '{"code": 11, "msg": "the other side does not answer"}'; exit 1; } ;;
esac
"""


def pod_network(name="web", **more):
    return sandbox_config(name=name, linux={}, **more)


@case
def addresses_and_counters_of_a_sandbox(host):
    directory = plugin(host, PLUGIN)
    with Service(host, "--cni-bin-dir=" + host.path("none"), "--cni-bin-dir=" + directory) as s:
        c = s.client()
        code, message = c.refused("RunPodSandbox", config=pod_network())
        equal(code, "FAILED_PRECONDITION")
        contains(message, "There is no network configuration in " + s.conf)
        configure(s.conf, "pods")
        i = c.call("RunPodSandbox", config=pod_network()).pod_sandbox_id
        t = c.call("PodSandboxStatus", pod_sandbox_id=i).status.network
        equal((t.ip, [a.ip for a in t.additional_ips]), ("10.66.0.2", ["fd00:66::2"]))
        network = c.call("PodSandboxStats", pod_sandbox_id=i).stats.linux.network
        equal(network.default_interface.name, "eth0")
        equal(sorted(x.name for x in network.interfaces), ["eth0", "other"])
        metrics = c.call("ListPodSandboxMetrics").pod_metrics[0].metrics
        true("container_network_receive_bytes_total" in {m.name for m in metrics}, "metrics of the network")
        # Another configuration is for sandboxes from then on; the file that is the first one counts.
        configure(s.conf, "other", "05-other.conflist")
        k = c.call("RunPodSandbox", config=pod_network("second")).pod_sandbox_id
        equal(json.loads(read_text(directory + "/input"))["name"], "other")
        remove(c, k, i)
        equal(read_text(directory + "/log").split().count("DEL"), 2, "networks that were taken down")
        equal(c.call("Status").status.conditions[1].status, True)
        os.unlink(s.conf + "/05-other.conflist")
        os.unlink(s.conf + "/10-net.conflist")
        equal(c.call("Status").status.conditions[1].status, False)


@case
def directories_of_any_name(host):
    directory, own = plugin(host, PLUGIN), host.path("networks of an add-on")
    os.mkdir(own)
    with Service(host, "--cni-bin-dir=" + directory, "--cni-conf-dir=" + own) as s:
        c = s.client()
        contains(c.refused("RunPodSandbox", config=pod_network())[1], "There is no network configuration in %s, %s" % (s.conf, own))
        configure(own, "pods")
        i = c.call("RunPodSandbox", config=pod_network()).pod_sandbox_id
        equal(c.call("PodSandboxStatus", pod_sandbox_id=i).status.network.ip, "10.66.0.2")
        equal(json.loads(c.call("Status", verbose=True).info["cniconfig"])["Networks"][0]["Config"]["Name"], "pods")
        remove(c, i)
        equal(read_text(directory + "/log").split().count("DEL"), 1, "networks that were taken down")


def has_sctp():
    import socket
    with contextlib.suppress(OSError):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
        return True
    return False


@case
def interfaces_that_a_container_makes_harm_no_list(host):
    """With names that are no text, which no message can have, and many of them."""
    with Service(host, "--cni-bin-dir=" + plugin(host, PLUGIN)) as s:
        c = s.client()
        configure(s.conf, "pods")
        i = c.call("RunPodSandbox", config=pod_network()).pod_sandbox_id
        pid = json.loads(c.call("PodSandboxStatus", pod_sandbox_id=i, verbose=True).info["info"])["pid"]
        inside = ["nsenter", "--net=/proc/%d/ns/net" % pid, "ip"]
        subprocess.run(inside + ["link", "add", b"x\xff", "type", "veth", "peer", "name", b"\xed\xb0\x80"], check=True)
        subprocess.run(inside + ["-batch", "-"], input="".join("link add a%d type veth peer name b%d\n" % (n, n) for n in range(50)), text=True, check=True)
        names = lambda network: [x.name for x in network.interfaces]
        network = c.call("PodSandboxStats", pod_sandbox_id=i).stats.linux.network
        equal(network.default_interface.name, "eth0")
        true({"eth0", "other"} <= set(names(network)), names(network))
        true(10 < len(network.interfaces) <= 64, "%d interfaces" % len(network.interfaces))
        equal([len(x.linux.network.interfaces) <= 64 for x in c.call("ListPodSandboxStats").stats], [True])
        metrics = c.call("ListPodSandboxMetrics").pod_metrics[0].metrics
        received = [m.label_values[-1] for m in metrics if m.name == "container_network_receive_bytes_total"]
        true("eth0" in received and 10 < len(received) <= 64, received)
        remove(c, i)


@case
def ports_of_the_host_by_all_protocols(host):
    directory = plugin(host, PLUGIN)
    port = lambda protocol, host_port=18300: {"protocol": protocol, "container_port": 80, "host_port": host_port, "host_ip": "127.0.0.1"}
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        with open(s.conf + "/10-net.conflist", "w") as f:
            json.dump({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "own", "capabilities": {"portMappings": True}}]}, f)
        wanted = [0, 1] + ([2] if has_sctp() else [])
        i = c.call("RunPodSandbox", config=pod_network(port_mappings=[port(p) for p in wanted] + [port(2, 0)])).pod_sandbox_id
        given = json.loads(read_text(directory + "/input"))["runtimeConfig"]["portMappings"]
        equal([(p["hostPort"], p["containerPort"], p["protocol"]) for p in given], [(18300, 80, ("tcp", "udp", "sctp")[p]) for p in wanted])
        remove(c, i)
        if not has_sctp():
            code, message = c.refused("RunPodSandbox", config=pod_network(port_mappings=[port(2)]))
            contains(message, "Port 'port-18300-sctp' cannot be exposed: the kernel of this host has no SCTP. Load the module: modprobe sctp.")
        equal(c.refused("RunPodSandbox", config=pod_network(port_mappings=[port(7)]))[0], "INVALID_ARGUMENT")
        equal(sandboxes(c), [])


@case
def a_plugin_that_fails_leaves_nothing(host):
    directory = plugin(host, PLUGIN)
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        configure(s.conf, "pods")
        with open(directory + "/fail", "w"):
            pass
        code, message = c.refused("RunPodSandbox", config=pod_network())
        contains(message, "no address is free")
        equal(sandboxes(c), [])
        contains(read_text(directory + "/log"), "DEL")
        os.unlink(directory + "/fail")
        i = c.call("RunPodSandbox", config=pod_network()).pod_sandbox_id
        equal(sandboxes(c), [(i, "READY")])
        remove(c, i)


@case
def taking_down_is_repeated(host):
    directory = plugin(host, PLUGIN)
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        configure(s.conf, "pods")
        i = c.call("RunPodSandbox", config=pod_network()).pod_sandbox_id
        with open(directory + "/fail-del", "w"):
            pass
        for call in "StopPodSandbox", "StopPodSandbox", "RemovePodSandbox":
            contains(c.refused(call, pod_sandbox_id=i)[1], "the other side does not answer")
            equal(sandboxes(c), [(i, "NOTREADY")])
        os.unlink(directory + "/fail-del")
        c.call("StopPodSandbox", pod_sandbox_id=i)
        done = read_text(directory + "/log").split().count("DEL")
        c.call("StopPodSandbox", pod_sandbox_id=i)
        c.call("RemovePodSandbox", pod_sandbox_id=i)
        equal(read_text(directory + "/log").split().count("DEL"), done, "nothing is taken down twice")
        equal(sandboxes(c), [])


if __name__ == "__main__":
    main_of_cri()

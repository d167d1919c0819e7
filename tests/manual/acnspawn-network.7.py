#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-network(7), sentence by sentence. Pods in networks are in tests/integration/network.py."""

from manual import *

PAGE = page("acnspawn-network.7", "0f6c135c1229f62f")


def write(host, name, text):
    os.makedirs(host.path("config/net.d"), exist_ok=True)
    with open(host.path("config/net.d", name), "w") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))


@once
def networks(host):
    """Thirty networks that can be prepared, and what is none."""
    for n in range(30):
        write(host, "%02d.conflist" % n, {"cniVersion": "1.0.0", "name": "net%d" % n, "plugins": [{"type": "bridge"}]})
    write(host, "40.conf", {"cniVersion": "0.3.0", "name": "single", "type": "bridge"})
    write(host, "50.conflist", {"cniVersion": "1.0.0", "name": "net0", "plugins": [{"type": "other"}]})
    write(host, "60.conflist", "{ this is not JSON")
    write(host, "70.conflist", {"cniVersion": "0.1.0", "name": "old", "plugins": [{"type": "bridge"}]})


def prepare(host, *words):
    networks(host)
    return host.acnspawn("--config-dir=" + host.path("config"), "prepare", *words, base(host))


def of(host, r):
    return json.loads(host.acnspawn("list", "--json", "--format=networks", r.expect(0).out.strip()).expect(0).out)[0]["networks"]


@sentence("DESCRIPTION", "Networks by name, up to 16, each once.")
@sentence("DESCRIPTION", "none The default: loopback only.")
@sentence("DESCRIPTION", "host The host's own network with all its interfaces, its loopback and its abstract sockets. Nothing is isolated.")
def networks_of_a_pod(host):
    equal((of(host, prepare(host)), of(host, prepare(host, "--net=none")), of(host, prepare(host, "--net=host"))), (["none"], ["none"], ["host"]))
    names = ["net%d" % n for n in range(16)]
    equal(of(host, prepare(host, "--net=" + ",".join(names))), names)
    equal(of(host, prepare(host, "--net=net3:IP=192.0.2.7;MAC=02:00:00:00:00:01", "--net=single")), ["net3", "single"])
    for words in (["--net=" + ",".join(names + ["net16"])], ["--net=net1,net1"], ["--net=net1", "--net=net1"], ["--net=host,net1"]):
        true(prepare(host, *words).rc in (1, 2), "%s is refused" % words)
    r = host.acnspawn("run", "--rm", "--net=host", *app(host, "a", "readlink /proc/self/ns/net")).expect(0)
    equal(r.out.strip(), os.readlink("/proc/self/ns/net"))


@sentence("Configuration", "A network is a configuration of the Container Network Interface (CNI), of version 0.3.0 to 1.1.0: a file *.conflist "
                           'with a list of plugins, or *.conf with one. Networks are identified by the "name" in it.')
@sentence("Configuration", "With --config-dir= it is net.d of that directory alone. A file that is not valid JSON, or lacks what a network needs, "
                           "is ignored, and named in the message if no other file has the requested name.")
def configurations(host):
    prepare(host, "--net=net0,single").expect(0)
    r = prepare(host, "--net=nothing").expect(1)
    contains(r.err, "nothing")
    contains(r.err, "60.conflist")
    prepare(host, "--net=old").expect(1)
    prepare(host, "--net=default").expect(1)


@sentence("NAMES", "Each app finds these files in its root, and may change them. They are created again with every clean root. /etc/hostname The "
                   "pod's host name. /etc/hosts Localhost, and the pod's host name with the addresses of its first network, or with 127.0.1.1.")
@sentence("NAMES", "With --net=host that of the host.")
@sentence("NAMES", "With --net=none there is no such file. --dns= gives other servers, --dns=host the host's with any network; --dns-search= and "
                   "--dns-option= replace the domains and options.")
@sentence("NAMES", "A file of the image is kept, unless one of these options, or --hostname=, sets its content: then it is replaced in the app's "
                   "root, with a warning when the pod is prepared.")
def names_in_a_pod(host):
    script = "cat /etc/hostname; grep 127 /etc/hosts; cat /etc/resolv.conf 2>/dev/null || echo none; echo mine >/etc/hostname"
    own = [host.image(name="example.com/own", files={"etc/hostname": "own\n"}), "--name=own", "--exec=/bin/cat", "--", "/etc/hostname"]
    r = host.acnspawn("run", "--rm", "--exit-policy=all", "--hostname=box", *together(app(host, "a", script), own)).expect(0)
    lines = [line.split() for line in output(r)["a"]]
    equal((lines[0], ["127.0.1.1", "box"] in [line[:2] for line in lines], lines[-1]), (["box"], True, ["none"]))
    equal(output(r)["own"], ["box"])
    contains(r.err, "/etc/hostname")
    r = host.acnspawn("run", "--rm", "--exit-policy=all", "--dns=192.0.2.53", "--dns-search=example.org", "--dns-option=ndots:3", "--hosts-entry=192.0.2.9=nine,neuf",
                      *together(app(host, "a", "cat /etc/resolv.conf; grep nine /etc/hosts"), own)).expect(0)
    equal([line.split() for line in output(r)["a"] if not line.startswith("#")],
          [["search", "example.org"], ["nameserver", "192.0.2.53"], ["options", "ndots:3"], ["192.0.2.9", "nine", "neuf"]])
    equal(output(r)["own"], ["own"])
    if os.path.exists("/etc/resolv.conf"):
        equal(host.acnspawn("run", "--rm", "--net=host", *app(host, "a", "cat /etc/resolv.conf")).expect(0).out, read_text("/etc/resolv.conf"))


@sentence("PORTS", "With --net=none no port of the host can be forwarded, and a pod that exposes one is refused when it is prepared")
@sentence("PORTS", "there is a warning about ports that differ from those in the manifest.")
@sentence("PORTS", "The first network of the pod that has a plugin with the capability portMappings is used; without one the pod is not prepared.")
def ports(host):
    contains(prepare(host, "--port=18080:80").expect(1).err, "18080")
    contains(prepare(host, "--port=18080:80", "--net=net1").expect(1).err, '"portMappings"')
    write(host, "80.conflist", {"cniVersion": "1.0.0", "name": "ports", "plugins": [{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMappings": True}}]})
    prepare(host, "--port=18080:80", "--net=net1,ports").expect(0)
    contains(prepare(host, "--port=18080:80", "--net=host").expect(0).err, "18080")


elsewhere(
    ("DESCRIPTION", "The apps of a pod share one network namespace: they reach each other on 127.0.0.1, and have the same addresses and ports.",
     "isolation/loopback_is_up_and_shared_by_the_apps"),
    ("DESCRIPTION", "The first gives the pod the interface eth0, the next eth1, and so on.", "network/several_networks_and_a_fixed_address"),
    ("DESCRIPTION", "with every kind of network, unless the pod has --metadata=no.", "network/two_pods_talk_and_the_metadata_service_answers"),
    ("Configuration", "Plugins are searched in the directories of the variable CNI_PATH", "network/a_plugin_of_the_users_own"),
    ("Configuration", "They are executed directly, as root of the host, with the variables of the specification and a fixed PATH.",
     "network/a_plugin_of_the_users_own"),
    ("Configuration", "A plugin that prints more than a mebibyte",
     "network/plugins_that_misbehave_are_named_and_leave_nothing"),
    ("Configuration", "there is a message about the wait.", "unit/network/a_plugin_that_takes_long"),
    ("Configuration", "What other networks keep on disk is released when a pod is removed that had ended with the host",
     "network/networks_of_an_earlier_boot"),
    ("Configuration", "acnspawn removes such files of a network, under the lock of the plugin, whenever one of its pods ends or is removed.",
     "unit/network/leases_that_a_loss_of_power_has_emptied"),
    ("Configuration", "is installed with acnspawn: a bridge acnspawn0 with addresses from 172.16.28.0/22 and fd61:636e:7370::/64",
     "network/a_pod_in_the_default_network"),
    ("Configuration", "its IPv6 ranges and routes are left out if the kernel does not support IPv6 or it is disabled", "network/a_host_without_ipv6"),
    ("Configuration", "and if the host has its own IPv6 default route from router advertisements processed by the kernel",
     "unit/network/ipv6_that_would_do_harm"),
    ("Configuration", "at published ports only", "network/a_neighbour_reaches_published_ports_only"),
    ("Arguments", "Arguments are passed to all plugins of the network in CNI_ARGS.", "unit/network/a_list_of_plugins"),
    ("User namespaces", "Packets from IPv6 addresses that the pod does not have are dropped in that namespace",
     "network/no_packets_are_sent_from_addresses_of_others"),
    ("NAMES", "the host's file instead of localhost. Then the entries of --hosts-entry=.", "names/the_hosts_own"),
    ("NAMES", "With networks by name the name servers returned by their plugins", "network/names_in_a_network"),
    ("NAMES", "those that systemd-resolved itself uses.", "network/a_host_whose_name_servers_cannot_be_reached"),
    ("NAMES", "Empty files, and dangling symbolic links, count as missing.", "names/empty_files_and_links_that_lead_nowhere_are_nothing"),
    ("NAMES", "Volumes hide these files; nothing is written to a volume.", "names/volumes_are_left_alone"),
    ("NAMES", "Each execution of an app gets the files anew, with the name servers that the host has then.",
     "names/a_restarted_app_has_the_name_servers_that_the_host_has_then"),
    ("PORTS", "forward ports of the host to ports of the pod, for TCP and UDP, and a range of them if a port has a count.", "network/ports_in_a_row"),
    ("PORTS", "from other hosts and other pods: every address of the host, or the one that was given",
     "network/ports_from_loopback_from_the_host_and_from_outside"),
    ("PORTS", "0.0.0.0 stands for all addresses of IPv4, and :: for all of IPv6", "network/ports_of_one_family"),
    ("PORTS", "Packets for 127.0.0.0/8 from any interface other than lo are then dropped by a rule of acnspawn in the table raw, which remains.",
     "network/packets_made_by_hand_do_not_reach_the_hosts_loopback"),
    ("PORTS", "So a port that is used by a running pod or another process is refused before anything starts, with the pod's name",
     "network/a_port_that_is_taken_is_refused_by_name"),
    ("PORTS", "except for socket-activated ports, which can be served by a socket of the host",
     "sockets/a_port_that_is_exposed_by_its_number_needs_no_network"),
    ("PORTS", "acnspawn network reload restores them", "network/rules_that_were_removed_behind_a_pod_are_restored"),
    ("BANDWIDTH", "limits the traffic on the interfaces of the pod, in bytes per second in each direction, except for loopback.",
     "network/the_bandwidth_is_limited"),
    ("BANDWIDTH", "shows which of these applies.", "network/the_bandwidth_of_apps_is_reported"),
    ("END OF A POD", "if it was killed, they are reverted by the next pod with networks that starts in the same store, by acnspawn gc, or by "
                     "acnspawn rm.", "network/killed_pods_are_taken_out_by_gc_and_by_the_next"),
    ("END OF A POD", "A start spends at most 20 seconds on the former pod that it replaces, and five seconds on all other pods. If that fails, the "
                     "pod starts all the same.", "network/a_plugin_that_hangs_for_dead_pods_delays_one_start_by_seconds"),
    ("END OF A POD", "When the last pod with networks has ended, the settings are those that they were before the first one, of each interface.",
     "network/forwarding_is_restored_after_the_last_pod"),
    ("EXAMPLES", "# acnspawn run --net=default --port=8080:80 example.com/web", "network/ports_from_loopback_from_the_host_and_from_outside"),
    ("EXAMPLES", '# acnspawn run --net="default:IP=172.16.28.10,lan" example.com/web', "network/several_networks_and_a_fixed_address"),
)

main()

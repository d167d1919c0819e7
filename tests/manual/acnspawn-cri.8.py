#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-cri(8), sentence by sentence."""

import manual
from manual import *
from cri_client import *

PAGE = page("acnspawn-cri.8", "6ee622a811e09484")


def called(*args, env=None):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=patience(60), env={**os.environ, **(env or {})})


@sentence("OPTIONS", "-h, --help Show the options. --version Show the version.")
@sentence("EXIT STATUS", "2 for a mistake in the command line, both with a message.")
def options(host):
    for word in "-h", "--help":
        contains(called(word).stdout, "--cni-conf-dir=")
    contains(called("--version").stdout, "acnspawn")
    for mistake in "word", "--nothing", "--cni-conf-dir=relative", "--cgroup-driver=x", "--stream-port=70000", "--socket=relative":
        r = called("--dir=" + host.dir, "--socket=" + host.path("none.sock"), mistake)  # what is no mistake any more serves no other store
        equal(r.returncode, 2, "the status with %s" % mistake)
        true(r.stderr, "no message")


@sentence("EXIT STATUS", "0 after SIGTERM or SIGINT; 1 if it cannot serve,")
@sentence("DESCRIPTION", "One process serves a store; a second one is refused, and the message has the process ID of the first.")
@sentence("DESCRIPTION", "Only root can use the socket, as access to it is equivalent to root on the host.")
@sentence("OPTIONS", "--socket=PATH Listen on this path (default: /run/acnspawn/cri.sock).")
@sentence("ENVIRONMENT", "ACNSPAWN_DIR, ACNSPAWN_CONFIG_DIR Defaults of the options of these names.")
def it_serves_until_a_signal(host):
    for number in signal.SIGTERM, signal.SIGINT:
        with Service(host) as s:
            equal(os.stat(s.path).st_mode & 0o777, 0o600)
            second = called("--socket=" + host.path("second.sock"), env={"ACNSPAWN_DIR": host.dir, "ACNSPAWN_CONFIG_DIR": s.config})
            equal(second.returncode, 1)
            contains(second.stderr, str(s.process.pid))
            s.client().call("Version")
            s.process.send_signal(number)
            equal(s.process.wait(patience(30)), 0)


@sentence("DESCRIPTION", "A sandbox is a pod that has no apps at first, and no journal; its containers are apps of this pod, which come and go.")
@sentence("DESCRIPTION", "Sandboxes are listed by acnspawn list, with names that begin with cri-, and their containers by acnspawn status; acnspawn stop and acnspawn rm "
                         "remove what a kubelet that is gone has left. acnspawn gc and acnspawn prune leave them alone.")
@sentence("DESCRIPTION", "Its restart, upgrade or crash touches no pod.")
def sandboxes_are_pods(host):
    with Service(host) as s:
        c = s.client()
        i = run_sandbox(c)
        pod = [p for p in json.loads(host.acnspawn("list", "--json").expect(0).out) if p["name"].startswith("cri-")]
        equal(len(pod), 1)
        uuid = pod[0]["uuid"]
        equal(host.status(uuid)["apps"], [])
        a = create(c, i, "main", image(host), "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        c.call("StartContainer", container_id=a)
        equal([x["state"] for x in host.status(uuid)["apps"]], ["running"])
        s.process.kill()
        s.process.wait(patience(20))
        s.start()
        equal([x["state"] for x in host.status(uuid)["apps"]], ["running"])
        host.acnspawn("stop", "--force", uuid).expect(0)
        host.acnspawn("gc", "--grace-period=0").expect(0)
        host.acnspawn("prune", "--force", "pods").expect(0)
        host.pod_dir(uuid)
        host.acnspawn("rm", uuid).expect(0)
        equal(host.pods(), [])


@sentence("DESCRIPTION", "A field of a request that cannot be honoured is refused, and named in the message; nothing that a request asks for is left out silently. "
                         "Calls to checkpoint and restore containers are not implemented.")
@sentence("Networks", "Until there is one the condition NetworkReady of the node is false, and its message says why. Sandboxes in the network of the host need none.")
@sentence("RuntimeClass", "The handler is the default, which has no name, or acnspawn.")
def what_it_says_of_itself(host):
    with Service(host) as s:
        c = s.client()
        equal(c.refused("CheckpointContainer", container_id="x")[0], "UNIMPLEMENTED")
        r = c.call("Status")
        network = [x for x in r.status.conditions if x.type == "NetworkReady"][0]
        true(not network.status and network.message, "NetworkReady")
        equal([h.name for h in r.runtime_handlers], ["", "acnspawn"])
        equal(c.refused("RunPodSandbox", config=sandbox_config(), runtime_handler="runc")[0], "NOT_FOUND")


elsewhere(
    ("DESCRIPTION", "When it is stopped it accepts no more calls, completes those that it has accepted, and after 20 seconds cancels the others, whose effects are undone.",
     "cri/ends_in_order_and_starts_again"),
    ("DESCRIPTION", "acnspawn-cri.socket listens, and starts acnspawn-cri.service with the first connection.", "vm/cri/the_service_is_a_unit"),
    ("DESCRIPTION", "After a reboot the sandboxes of the earlier boot are listed as ended, with the exit status of their containers, so that the kubelet does not run completed "
                    "containers again; the kubelet removes them.", "cri-pods/sandboxes_of_an_earlier_boot_have_ended"),
    ("DESCRIPTION", "A loss of power may empty files of a sandbox whose call was not answered: it is not listed, and the service removes it.",
     "cri-pods/sandboxes_that_a_loss_of_power_has_emptied"),
    ("DESCRIPTION", "If a plugin of the network fails when a sandbox is stopped, so does the call; the client repeats it until it succeeds.",
     "cri-network/taking_down_is_repeated"),
    ("DESCRIPTION", "It is valid once,", "cri-streams/urls_are_for_one_use_and_one_stream"),
    ("DESCRIPTION", "Clients speak WebSocket (v5.channel.k8s.io, v4.channel.k8s.io, channel.k8s.io, and the last two in base64)",
     "cri-streams/the_older_subprotocols_of_websocket"),
    ("DESCRIPTION", "Each stream has a process of its own, which goes on when the service is restarted.", "cri-streams/streams_go_on_without_the_server"),
    ("DESCRIPTION", "A command ends with its stream.", "cri-streams/a_client_that_goes_takes_its_command_with_it"),
    ("DESCRIPTION", "A port is forwarded to 127.0.0.1 in the network of the sandbox, or to ::1 if nothing listens there.", "cri-streams/ports_are_forwarded"),
    ("DESCRIPTION", "A connection that fails does not affect the others. All end with the sandbox.", "cri-streams/ports_that_are_not_forwarded"),
    ("OPTIONS", "A socket that systemd passes is used instead.", "cri/takes_a_socket_that_is_passed"),
    ("OPTIONS", "The directories are read for each sandbox and each status, so a network add-on needs no restart.", "cri/status_tells_whether_there_is_a_network"),
    ("OPTIONS", "Environment, device nodes, mounts and groups are honoured, device nodes with their permissions,",
     "cri-security/devices_of_the_container_device_interface"),
    ("OPTIONS", "--pinned-image=IMAGE An image, by a reference or its ID, that the kubelet is not to remove when it needs disk space,", "cri-images/pinned_images"),
    ("OPTIONS", "(default: systemd where systemd is the init of the host).", "cri/the_cgroup_driver_is_that_of_the_init"),
    ("OPTIONS", "A cgroup parent is taken in both forms, whatever this is: a slice if it ends in .slice, else a cgroup that the client has made.",
     "cri-resources/cgroup_parents"),
    ("OPTIONS", "Serve these streams by TLS, of version 1.2 or later: URLs begin with https://.", "cri-streams/streams_by_tls"),
    ("OPTIONS", "They are read again when they have changed, as when the certificate is renewed; if they are not valid then, the previous certificate stays in use.",
     "cri-streams/versions_and_certificates_of_tls"),
    ("ENVIRONMENT", "Credentials in a request take precedence.", "cri-images/credentials_of_the_request"),
    ("The kubelet", "The kubelet asks for the cgroup driver (RuntimeConfig) and uses the answer rather than cgroupDriver: systemd where systemd is the init of the host, unless "
                    "--cgroup-driver=cgroupfs is given.", "cri/the_cgroup_driver_is_that_of_the_init"),
    ("Limits of the host", "the condition HostLimitsSufficient of Status is false, and its message has the command that raises it;",
     "cri/status_tells_whether_there_is_a_network"),
    ("Figures", "ListContainerStats and ListPodSandboxStats are answered by samples", "cri-stats/lists_have_recent_samples"),
    ("Figures", "Disk space of images and writable layers is measured in the background, at most every minute, and after an image was pulled or removed.",
     "cri-stats/space_of_images"),
    ("Figures", "Metrics (ListPodSandboxMetrics) have the names and labels of cAdvisor; times in them are whole seconds.", "cri-stats/metrics_have_descriptors"),
    ("Confinement", "Capabilities are those of other runtimes by default, and unknown ones are refused.", "cri-security/capabilities_of_a_container"),
    ("Confinement", "a profile of the host (Localhost) is a file in JSON, whose absolute path the request has; it is read when the container is made.",
     "cri-security/profiles_of_system_calls"),
    ("Confinement", "On a host without AppArmor a request for a profile is refused; where SELinux is not active a context has no effect, and a warning is logged.",
     "cri-security/modules_that_the_host_does_not_have"),
    ("Confinement", "A container can open the devices that every app has, net/tun if a mount brings it, and those of its request, by the permissions that this gives, and no "
                    "others, wherever it finds or makes nodes of them;", "cri-security/containers_open_only_their_devices"),
    ("Confinement", "A privileged container, whose sandbox has to be privileged, too, has all capabilities, all devices of the host, and a writable /sys and /proc.",
     "cri-security/privileged_containers"),
    ("Confinement", "A sandbox can be in the pid and ipc namespaces of the host: its containers then see all processes, and if its supervisor is killed, the service ends what "
                    "is left of them.", "cri-namespaces/a_killed_supervisor_leaves_processes_that_end_with_the_sandbox"),
    ("Confinement", "A sandbox can have a range of users, 6 to 16777216 (userNamespaces.idsPerPod of the kubelet), that the client has chosen, from any user of the host but "
                    "root on;", "cri-users/ranges_of_any_start_and_length"),
    ("Metrics and traces", "With --metrics a GET request for /metrics is answered by HTTP in OpenMetrics format", "cri-exporter/figures_of_the_service"),
    ("Confinement", "Mounts whose source is missing become directories; one inside of another is mounted in it, whatever their order is;", "cri-security/mounts_of_a_container"),
    ("Confinement", "An image that is mounted is read-only, and the request has to say so; it cannot be removed as long as the container exists.",
     "cri-security/images_as_mounts_of_a_container"),
    ("Devices with hooks", "Those of the name createContainer are executed before the container starts, as root of the host, one after the other;",
     "cri-security/hooks_of_devices"),
    ("Devices with hooks", "as are all hooks in sandboxes with users of their own, where what root of the host writes would belong to nobody.",
     "cri-users/hooks_of_devices_are_refused"),
)

if missing():
    print("SKIP: " + missing())
    sys.exit(77)
manual.main()

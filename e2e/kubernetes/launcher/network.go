package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The network is one switch in the control plane's namespace, with a cable to every node and one to the host:
//
//	host 10.220.0.1 ── switch and control plane 10.220.0.10 ── nodes 10.220.0.11…
//
// Every machine reaches the pods of a node through that node's address. No route leads out of this machine.
// The lists below are input for `ip -batch`: one process a machine instead of a dozen.

// controlPlaneLinks sets up the switch. A kube-proxy in the control plane turns service addresses into pod addresses;
// the route gives its own processes a way to have a packet to be turned.
func controlPlaneLinks(nodes int) []string {
	lines := []string{
		"link set lo up",
		// With an address of its own: else it takes its lowest port's, changes it as ports come, and whoever has asked
		// for it before talks to nobody for half a minute.
		fmt.Sprintf("link add %s address %s type bridge", bridge, controlPlaneMAC),
		fmt.Sprintf("address add %s/24 dev %s", controlPlaneAddress, bridge),
		"link set " + bridge + " up",
	}
	lines = append(lines, serviceRoute()...)
	for number := 1; number <= nodes; number++ {
		lines = append(lines, podRoute(number))
	}
	return lines
}

// hostLinks is the host's cable and its routes to pods and services. The service route leads to the control plane's
// kube-proxy, because the control plane is never switched off.
func hostLinks(controlPlanePid, nodes int) []string {
	lines := []string{
		fmt.Sprintf("link add %s type veth peer name %s netns %d", hostLink, hostPort, controlPlanePid),
		fmt.Sprintf("address add %s/24 dev %s", hostAddress, hostLink),
		"link set " + hostLink + " up",
		fmt.Sprintf("route add %s via %s", serviceRange, controlPlaneAddress),
	}
	for number := 1; number <= nodes; number++ {
		lines = append(lines, podRoute(number))
	}
	return lines
}

// nodeCable makes the cable between a node and the switch, seen from the switch.
func nodeCable(number, nodePid int) []string {
	port := "n" + strconv.Itoa(number)
	return []string{
		fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %d", port, nodeMAC(number), nodePid),
		"link set " + port + " master " + bridge + " up",
	}
}

func nodeLinks(number, nodes int) []string {
	lines := []string{
		"link set lo up",
		fmt.Sprintf("address add %s/24 dev eth0", nodeAddress(number)),
		"link set eth0 up",
		// The kubelet and kube-proxy look for a default route. It ends at the switch.
		fmt.Sprintf("route add default via %s", controlPlaneAddress),
	}
	lines = append(lines, serviceRoute()...)
	for other := 1; other <= nodes; other++ {
		if other != number {
			lines = append(lines, podRoute(other))
		}
	}
	return lines
}

func podRoute(number int) string {
	return fmt.Sprintf("route add %s via %s", nodePodRange(number), nodeAddress(number))
}

// serviceRoute lets a local process send to a service address. The device is a bridge without ports, since a dummy
// device needs a kernel module that small kernels lack.
func serviceRoute() []string {
	return []string{"link add svc0 type bridge", "link set svc0 up", "route add " + serviceRange + " dev svc0"}
}

// configureLinks applies a list in the network namespace of a process; pid 0 is the host.
func configureLinks(ctx context.Context, pid int, lines []string) error {
	input := strings.NewReader(strings.Join(lines, "\n") + "\n")
	if pid == 0 {
		_, err := runCommand(ctx, input, "ip", "-batch", "-")
		return err
	}
	_, err := runCommand(ctx, input, "nsenter", "-t", strconv.Itoa(pid), "-n", "--", "ip", "-batch", "-")
	return err
}

// connectControlPlane connects the switch and the host.
func connectControlPlane(ctx context.Context, pid, nodes int) error {
	if err := configureLinks(ctx, pid, controlPlaneLinks(nodes)); err != nil {
		return fmt.Errorf("set up the switch: %w", err)
	}
	if err := configureLinks(ctx, 0, hostLinks(pid, nodes)); err != nil {
		return fmt.Errorf("connect the host to the switch (is one of 10.220.0.0/24, %s, %s in use here?): %w", podRange, serviceRange, err)
	}
	return configureLinks(ctx, pid, []string{"link set " + hostPort + " master " + bridge + " up"})
}

// connectNode connects a node with the switch; also after it was off, when its old cable may not be gone yet.
func connectNode(ctx context.Context, switchPid, nodePid, number, nodes int) error {
	_ = configureLinks(ctx, switchPid, []string{"link del n" + strconv.Itoa(number)})
	if err := configureLinks(ctx, switchPid, nodeCable(number, nodePid)); err != nil {
		return fmt.Errorf("connect %s to the switch: %w", nodeName(number), err)
	}
	if err := configureLinks(ctx, nodePid, nodeLinks(number, nodes)); err != nil {
		return fmt.Errorf("set up the network of %s: %w", nodeName(number), err)
	}
	return nil
}

func hostLinkExists() bool {
	_, err := os.Stat("/sys/class/net/" + hostLink)
	return err == nil
}

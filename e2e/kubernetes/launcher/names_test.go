package main

import (
	"net"
	"net/netip"
	"testing"
)

func TestNodeNamesAndNumbersAgree(t *testing.T) {
	for number := nodesMin; number <= nodesMax; number++ {
		if got, err := nodeNumber(nodeName(number)); err != nil || got != number {
			t.Errorf("node %d: %d, %v", number, got, err)
		}
	}
	for _, name := range []string{"", "node", "node0", "node10", "node01", "node-1", "1", controlPlane, "node1 "} {
		if _, err := nodeNumber(name); err == nil {
			t.Errorf("%q is taken for a node", name)
		}
	}
}

// The addresses are spread over code and manifests; they have to fit together.
func TestAddressesAreDistinctAndInTheirRanges(t *testing.T) {
	seen := map[netip.Addr]bool{hostAddress: true, controlPlaneAddress: true}
	pods := netip.MustParsePrefix(podRange)
	for number := nodesMin; number <= nodesMax; number++ {
		address := nodeAddress(number)
		if seen[address] {
			t.Errorf("%s has the address of another machine, %s", nodeName(number), address)
		}
		seen[address] = true
		if own := netip.MustParsePrefix(nodePodRange(number)); !pods.Overlaps(own) || pods.Bits() > own.Bits() {
			t.Errorf("pods of %s lie in %s, outside %s", nodeName(number), own, pods)
		}
		if _, err := net.ParseMAC(nodeMAC(number)); err != nil || nodeMAC(number) == controlPlaneMAC {
			t.Errorf("%s has the MAC address %s: %v", nodeName(number), nodeMAC(number), err)
		}
	}
	services := netip.MustParsePrefix(serviceRange)
	for _, address := range []string{dnsAddress, apiService} {
		if !services.Contains(netip.MustParseAddr(address)) {
			t.Errorf("%s is outside %s", address, services)
		}
	}
}

// Link names longer than this are refused by the kernel.
func TestLinkNamesFit(t *testing.T) {
	for _, name := range []string{hostLink, hostPort, bridge} {
		if len(name) > 15 {
			t.Errorf("%s is longer than 15 characters", name)
		}
	}
}

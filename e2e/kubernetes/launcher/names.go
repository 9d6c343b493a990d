package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// One cluster a machine: everything it leaves in the kernel carries this prefix, so that `down` finds it without notes.
const prefix = "cstl"

const (
	controlPlane = "control-plane" // the machine that runs etcd, the API server and the switch; not a Kubernetes node

	// A node's number is the last part of its address and of its pod range, and one digit keeps all three in step.
	nodesMin, nodesMax = 1, 9

	hostLink = prefix + "-host" // the host's end of its cable to the switch
	hostPort = "host"           // the switch's end
	bridge   = "br0"            // the switch itself, in the control plane's network namespace

	podRange     = "10.221.0.0/16"
	serviceRange = "10.222.0.0/16"
	dnsAddress   = "10.222.0.10"
	apiService   = "10.222.0.1" // the first address of the service range, by Kubernetes' rule
	apiPort      = 6443

	pauseImage   = "castellan.local/pause:1"
	coreDNSImage = "castellan.local/coredns:1"
)

var (
	hostAddress         = netip.MustParseAddr("10.220.0.1")
	controlPlaneAddress = netip.MustParseAddr("10.220.0.10")
)

func nodeName(number int) string { return "node" + strconv.Itoa(number) }

// nodeNumber is the inverse of nodeName.
func nodeNumber(name string) (int, error) {
	digits, found := strings.CutPrefix(name, "node")
	number, err := strconv.Atoi(digits)
	if !found || err != nil || number < nodesMin || number > nodesMax || name != nodeName(number) {
		return 0, fmt.Errorf("%q is not a node: nodes are called node%d to node%d", name, nodesMin, nodesMax)
	}
	return number, nil
}

func nodeAddress(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 220, 0, byte(10 + number)})
}

// nodePodRange is the range of the pods of one node, a part of podRange.
func nodePodRange(number int) string { return fmt.Sprintf("10.221.%d.0/24", number) }

// nodeMAC is fixed: a node that is switched off and on keeps its address, and with a new MAC its peers would talk to
// the old one until their neighbour tables expire.
func nodeMAC(number int) string { return fmt.Sprintf("02:cc:00:00:00:%02x", 10+number) }

func apiServerURL() string { return fmt.Sprintf("https://%s:%d", controlPlaneAddress, apiPort) }

const controlPlaneMAC = "02:cc:00:00:00:0a"

// layout is the folder of one cluster. Everything below it but the logs goes away with the cluster.
type layout struct{ dir string }

func (l layout) kubeconfig() string     { return filepath.Join(l.dir, "admin.kubeconfig") }
func (l layout) launcher() string       { return filepath.Join(l.dir, "castellan-kube") }
func (l layout) description() string    { return filepath.Join(l.dir, "cluster.json") }
func (l layout) pki(file string) string { return filepath.Join(l.dir, "pki", file) }
func (l layout) logs() string           { return filepath.Join(l.dir, "logs") }
func (l layout) log(machine, name string) string {
	return filepath.Join(l.logs(), machine+"-"+name+".log")
}
func (l layout) images() string             { return filepath.Join(l.dir, "images") }
func (l layout) volumes() string            { return filepath.Join(l.dir, "volumes") }
func (l layout) machine(name string) string { return filepath.Join(l.dir, "machines", name) }
func (l layout) machineFile(name, file string) string {
	return filepath.Join(l.machine(name), file)
}

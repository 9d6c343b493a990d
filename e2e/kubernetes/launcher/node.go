package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// nodeFiles are the configuration files of a node, by path.
func nodeFiles(l layout, number int, facts machineFacts) map[string]string {
	name := nodeName(number)
	return map[string]string{
		l.machineFile(name, "containerd.toml"):      containerdConfig(l.machineFile(name, "cni"), facts.snapshotter),
		l.machineFile(name, "kubelet.yaml"):         kubeletConfig(l, number, facts.cgroupVersion),
		l.machineFile(name, "cni/10-pods.conflist"): podNetworkConfig(number),
		// Pods that ask for the node's own name service find none: this cluster knows no outside world.
		l.machineFile(name, "resolv.conf"): "nameserver 127.0.0.1\n",
	}
}

func nodeDaemons(l layout, bin binaries, number int) []daemon {
	name := nodeName(number)
	return []daemon{
		{Name: "containerd", Log: l.log(name, "containerd"), Args: []string{"containerd", "--config", l.machineFile(name, "containerd.toml")}},
		{Name: "kubelet", Log: l.log(name, "kubelet"), Args: []string{
			bin.Kube, "kubelet", "--config=" + l.machineFile(name, "kubelet.yaml"), "--kubeconfig=" + l.pki(name+".kubeconfig"),
			"--hostname-override=" + name, "--node-ip=" + nodeAddress(number).String(),
		}},
		kubeProxy(l, bin, name, name),
		{Name: "netpolicy", Log: l.log(name, "netpolicy"), Args: []string{
			bin.NetPolicy, "--kubeconfig=" + l.pki("netpolicy.kubeconfig"), "--node=" + name,
		}},
	}
}

// machineFacts are the properties of this machine that configurations depend on.
type machineFacts struct {
	cgroupVersion int
	snapshotter   string
}

// overlayMagic is the file system type of overlayfs, from the kernel's magic.h.
const overlayMagic = 0x794c7630

// pickSnapshotter names containerd's way to store images: overlays, which cannot lie on another overlay.
func pickSnapshotter(dir string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil && stat.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}

// Sockets and state lie under their usual names in /run and /var/lib: the node has its own of both.
func containerdConfig(cniDir, snapshotter string) string {
	return fmt.Sprintf(`version = 2
[plugins."io.containerd.grpc.v1.cri"]
  # A process may lower its protection from the memory killer only with a capability that sandboxes lack.
  restrict_oom_score_adj = true
  sandbox_image = %q
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`, pauseImage, cniDir, snapshotter)
}

func podNetworkConfig(number int) string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`, nodePodRange(number))
}

func kubeletConfig(l layout, number, cgroupVersion int) string {
	name := nodeName(number)
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /%s/%s
clusterDNS: [%q]
clusterDomain: cluster.local
resolvConf: %q
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
failSwapOn: false
# Quick to notice: a node reports every 2 s, and a pod is looked at every 3 s, not every minute.
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 10
syncFrequency: 3s
# The nodes share the host's disk: its fill level is not theirs to act on, and images cannot be pulled again.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "100Mi", nodefs.available: "1%%", imagefs.available: "1%%"}
`, prefix, name, dnsAddress, l.machineFile(name, "resolv.conf"), l.pki("ca.crt"), l.pki(name+".crt"), l.pki(name+".key"))
	if cgroupVersion == 1 {
		config += "# This kubelet still works with version 1, but wants to be asked.\nfailCgroupV1: false\n"
	}
	return config
}

// writeMachine fills the folder of a machine: its configuration and the list of its daemons.
func writeMachine(l layout, name string, files map[string]string, daemons []daemon) error {
	if err := os.MkdirAll(l.machine(name), 0o755); err != nil {
		return err
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return writeDaemons(l.machineFile(name, "daemons.json"), daemons)
}

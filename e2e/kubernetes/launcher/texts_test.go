package main

import (
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"
)

func TestNodeConfigurations(t *testing.T) {
	l := layout{"/somewhere"}
	var network struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal([]byte(podNetworkConfig(2)), &network); err != nil {
		t.Fatal(err)
	}
	if network.Plugins[0].IPAM.Ranges[0][0].Subnet != "10.221.2.0/24" {
		t.Error(network)
	}
	v1, v2 := kubeletConfig(l, 2, 1), kubeletConfig(l, 2, 2)
	if !strings.Contains(v1, "failCgroupV1: false") || strings.Contains(v2, "failCgroupV1") {
		t.Error("only a machine with cgroup v1 needs the kubelet's consent to it")
	}
	if !strings.Contains(v1, "cgroupRoot: /cstl/node2\n") || strings.Contains(v1, "%!") {
		t.Error(v1)
	}
	if toml := containerdConfig("/cni", "native"); !strings.Contains(toml, `snapshotter = "native"`) || strings.Contains(toml, "%!") {
		t.Error(toml)
	}
}

func TestEveryNodeRoutesToAllOthersButItself(t *testing.T) {
	lines := nodeLinks(2, 3)
	if !slices.Contains(lines, podRoute(1)) || !slices.Contains(lines, podRoute(3)) || slices.Contains(lines, podRoute(2)) {
		t.Error(lines)
	}
	if lines := hostLinks(42, 3); !slices.Contains(lines, podRoute(2)) || !strings.Contains(lines[0], "netns 42") {
		t.Error(lines)
	}
}

func TestManifestsUseOurNames(t *testing.T) {
	for file, parts := range map[string][]string{
		"manifests/coredns.yaml": {"clusterIP: " + dnsAddress, "image: " + coreDNSImage}, "manifests/storage.yaml": {"name: standard", "WaitForFirstConsumer"},
	} {
		text, err := manifests.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s does not say %q", file, part)
			}
		}
	}
}

func TestImageNames(t *testing.T) {
	for _, good := range []string{"castellan.local/keeper:dev", "localhost:5000/a/b:1"} {
		if err := checkImageName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"keeper", "keeper:dev", "castellan/keeper:dev", "castellan.local/keeper", "castellan.local/keeper:"} {
		if checkImageName(bad) == nil {
			t.Errorf("%q is taken for a full name", bad)
		}
	}
}

func TestContainerID(t *testing.T) {
	var p pod
	const text = `{"spec":{"containers":[{"name":"main"},{"name":"side"}]},"status":{"containerStatuses":[
		{"name":"side","containerID":"containerd://s1"},{"name":"main","containerID":"containerd://m1"}]}}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "m1", "main": "m1", "side": "s1"} {
		if got, err := p.containerID(name); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if _, err := p.containerID("other"); err == nil {
		t.Error("an unknown container has an id")
	}
	if _, err := (pod{}).containerID(""); err == nil {
		t.Error("a pod without containers has an id")
	}
}

func TestGlobalFlagsMayFollowTheCommand(t *testing.T) {
	for line, want := range map[string]string{
		"up --nodes 2 --dir /x":   "/x: up --nodes 2",
		"up --dir=/x --nodes 2":   "/x: up --nodes 2",
		"kubectl get --dir /x":    ": kubectl get --dir /x",
		"image --name n -- --dir": ": image --name n -- --dir",
		"power-off node1":         ": power-off node1",
	} {
		globals := flag.NewFlagSet("", flag.ContinueOnError)
		dir := globals.String("dir", "", "")
		args, err := takeGlobals(strings.Fields(line), globals)
		if got := *dir + ": " + strings.Join(args, " "); err != nil || got != want {
			t.Errorf("%s: got %q, %v", line, got, err)
		}
	}
	globals := flag.NewFlagSet("", flag.ContinueOnError)
	globals.String("dir", "", "")
	if _, err := takeGlobals([]string{"up", "--dir"}, globals); err == nil {
		t.Error("--dir without a folder passes")
	}
}

func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{"": "", "a\n": "a", "a\nb\nc\n": "b\nc"} {
		if got := lastLines(text, 2); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestRemains(t *testing.T) {
	if !(remains{}).nothing() || (remains{links: 1}).nothing() {
		t.Error("nothing means all zero")
	}
	if text := (remains{processes: 2}).String(); text != "processes=2 mounts=0 namespaces=0 cgroups=0 loop-devices=0 links=0" {
		t.Error(text)
	}
}

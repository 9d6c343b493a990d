package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

//go:embed manifests/*.yaml
var manifests embed.FS

const (
	stepLimit     = 3 * time.Minute        // for a step that takes seconds on a quiet machine
	pollPause     = 100 * time.Millisecond // between two looks at the API server
	recoveryLimit = 20 * time.Second       // for a running cluster to become healthy before it is replaced
)

func (a *app) up(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	nodes := flags.Int("nodes", 3, "number of nodes")
	_ = flags.Parse(args)
	if *nodes < nodesMin || *nodes > nodesMax || flags.NArg() > 0 {
		return usageError(fmt.Sprintf("up takes --nodes %d to %d and nothing else", nodesMin, nodesMax))
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("`up` makes namespaces, mounts and cgroups, so it has to run as root")
	}
	unlock, err := clusterLock(a.say)
	if err != nil {
		return err
	}
	defer unlock()
	if err := installPackages(ctx, clusterPackages, a.say); err != nil {
		return err
	}
	bin, err := buildAll(ctx, a.repo, a.say)
	if err != nil {
		return err
	}
	a.say("programs are in place")

	wanted := cluster{Nodes: *nodes, Binaries: bin, Complete: true}
	if a.isUp(ctx, wanted) {
		a.say("already up: %d nodes Ready", *nodes)
		fmt.Println(a.at.kubeconfig())
		return nil
	}
	if err := a.clean(); err != nil {
		return err
	}
	if err := a.build(ctx, *nodes, bin); err != nil {
		if ctx.Err() != nil { // interrupted: leave nothing behind
			_ = a.clean()
		}
		return err
	}
	if err := writeCluster(a.at, wanted); err != nil {
		return err
	}
	fmt.Println(a.at.kubeconfig())
	return nil
}

// clusterLock covers all clusters of the machine, since there can be only one.
func clusterLock(say progress) (func(), error) {
	return lock("/run/lock/"+prefix+"-kubernetes.lock", "another `up` or `down`", say)
}

// isUp tells whether exactly the wanted cluster runs and is healthy.
func (a *app) isUp(ctx context.Context, wanted cluster) bool {
	there, err := readCluster(a.at)
	if err != nil || there != wanted {
		return false
	}
	tree, err := detectCgroups()
	if err != nil {
		return false
	}
	running := runningMachines(tree)
	for _, name := range machineNames(wanted.Nodes) {
		if running[name].dir != a.at.dir {
			return false
		}
	}
	api, err := newAPI(a.at)
	if err != nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, recoveryLimit)
	defer cancel()
	return a.awaitHealth(limited, api, wanted.Nodes) == nil
}

// build makes the cluster, from nothing to a running name service.
func (a *app) build(ctx context.Context, nodes int, bin binaries) error {
	l := a.at
	for _, dir := range []string{l.logs(), l.images(), l.volumes()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := writeCluster(l, cluster{Nodes: nodes, Binaries: bin}); err != nil {
		return err
	}
	tree, err := detectCgroups()
	if err != nil {
		return err
	}
	if err := tree.create(machineNames(nodes)); err != nil {
		return err
	}
	prepareKernel(ctx)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The inits run a copy: the original may be rebuilt or, after `go run`, removed.
	if err := copyFile(self, l.launcher(), 0o755); err != nil {
		return err
	}
	if err := writeCertificates(l, nodes); err != nil {
		return err
	}
	if err := writeMachine(l, controlPlane, nil, controlPlaneDaemons(l, bin)); err != nil {
		return err
	}
	facts := machineFacts{tree.version, pickSnapshotter(l.dir)}
	for number := 1; number <= nodes; number++ {
		if err := writeMachine(l, nodeName(number), nodeFiles(l, number, facts), nodeDaemons(l, bin, number)); err != nil {
			return err
		}
	}
	a.say("certificates and configuration (cgroup v%d, %s)", facts.cgroupVersion, facts.snapshotter)

	head, err := bootMachine(l, controlPlane)
	if err != nil {
		return err
	}
	if err := connectControlPlane(ctx, head.pid, nodes); err != nil {
		return err
	}
	if err := head.startDaemons(); err != nil {
		return err
	}
	var booted []machine
	for number := 1; number <= nodes; number++ {
		node, err := startNode(ctx, l, head.pid, number, nodes)
		if err != nil {
			return err
		}
		booted = append(booted, node)
	}
	a.say("machines and network")
	return a.settle(ctx, booted, bin)
}

// prepareKernel does what a machine may need and may also refuse: load modules that nothing loads on demand, and raise a
// limit that is for all processes of root together and too small for several kubelets beside other work.
func prepareKernel(ctx context.Context) {
	if !exists("/proc/sys/net/bridge") {
		_, _ = runCommand(ctx, nil, "modprobe", "--all", "--quiet", "br_netfilter", "overlay")
	}
	const watchers, wanted = "/proc/sys/fs/inotify/max_user_instances", 1024
	text, _ := os.ReadFile(watchers)
	if limit, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && limit < wanted {
		_ = os.WriteFile(watchers, []byte(strconv.Itoa(wanted)), 0)
	}
}

// startNode switches a node on.
func startNode(ctx context.Context, l layout, switchPid, number, nodes int) (machine, error) {
	node, err := bootMachine(l, nodeName(number))
	if err != nil {
		return machine{}, err
	}
	if err := connectNode(ctx, switchPid, node.pid, number, nodes); err != nil {
		node.start.Close()
		return machine{}, err
	}
	return node.machine, node.startDaemons()
}

// settle waits for the parts and installs the add-ons.
func (a *app) settle(ctx context.Context, nodes []machine, bin binaries) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	imported := make(chan error, 1)
	go func() { imported <- a.importBasics(ctx, nodes, bin) }()

	api, err := newAPI(a.at)
	if err != nil {
		return err
	}
	if err := api.await(ctx, "the API server to be ready", func() (string, bool) { return api.ready(ctx) }); err != nil {
		return err
	}
	a.say("API server ready")
	for _, name := range []string{"storage", "coredns"} {
		if err := a.applyManifest(ctx, bin, name); err != nil {
			return err
		}
	}
	if err := <-imported; err != nil {
		return err
	}
	a.say("images on every node, add-ons applied")
	if err := api.await(ctx, "the nodes to be Ready", func() (string, bool) { return api.nodesReady(ctx, len(nodes)) }); err != nil {
		return err
	}
	a.say("%d nodes Ready", len(nodes))
	if err := a.awaitHealth(ctx, api, len(nodes)); err != nil {
		return err
	}
	a.say("CoreDNS Ready")
	return nil
}

func (a *app) awaitHealth(ctx context.Context, server *api, nodes int) error {
	return server.await(ctx, "a healthy cluster", func() (string, bool) { return a.health(ctx, server, nodes) })
}

// health says what is missing, if anything.
func (a *app) health(ctx context.Context, server *api, nodes int) (string, bool) {
	if missing, ok := server.ready(ctx); !ok {
		return missing, false
	}
	if missing, ok := server.nodesReady(ctx, nodes); !ok {
		return missing, false
	}
	return server.deploymentReady(ctx, "kube-system", "coredns")
}

func (a *app) importBasics(ctx context.Context, nodes []machine, bin binaries) error {
	pause, err := programArchive(pauseImage, bin.Pause, runtime.GOARCH)
	if err != nil {
		return err
	}
	coreDNS, err := programArchive(coreDNSImage, bin.CoreDNS, runtime.GOARCH)
	if err != nil {
		return err
	}
	return importEverywhere(ctx, a.at, nodes, []string{pause, coreDNS})
}

// applyManifest applies one of our own manifests. The first tries may come before the server has made its own objects.
func (a *app) applyManifest(ctx context.Context, bin binaries, name string) error {
	path := filepath.Join("manifests", name+".yaml")
	for {
		file, err := manifests.Open(path)
		if err != nil {
			return err
		}
		_, err = runCommand(ctx, file, bin.kubectl(), "--kubeconfig", a.at.kubeconfig(), "apply", "--server-side", "--force-conflicts", "-f", "-")
		file.Close()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(pollPause)
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const killLimit = 30 * time.Second

// down ends whatever cluster runs on this machine. It looks only at the machine, never at notes of a healthy run, so it
// also cleans up after a crash.
func (a *app) down(args []string) error {
	if len(args) > 0 {
		return usageError("down takes no arguments")
	}
	unlock, err := clusterLock(a.say)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.clean(); err != nil {
		return err
	}
	a.say("down")
	return nil
}

func (a *app) clean() error {
	tree, err := detectCgroups()
	if err != nil {
		return err
	}
	dirs := []string{a.at.dir}
	for _, running := range runningMachines(tree) { // perhaps of a cluster in another folder
		if !slices.Contains(dirs, running.dir) {
			dirs = append(dirs, running.dir)
		}
	}
	before := leftovers(tree, dirs)
	if before.nothing() && !exists(a.at.description()) {
		return nil
	}
	killInits(tree)
	tree.killAll(killLimit)
	for _, dir := range dirs {
		unmountBelow(dir)
		detachLoopDevices(dir)
	}
	if hostLinkExists() {
		// It goes with the control plane's namespace, but the kernel takes its time. Routes go with the link.
		_ = configureLinks(context.Background(), 0, []string{"link del " + hostLink})
	}
	tree.remove(killLimit)
	for _, dir := range dirs {
		removeState(layout{dir})
	}
	left := awaitNothing(tree, dirs)
	a.say("cleaned; left: %s", left)
	if !left.nothing() {
		return fmt.Errorf("the cluster is not wholly gone: %s; %s", left, left.hint())
	}
	return nil
}

// killInits pulls the plugs first: with an init goes everything in its namespaces, mounts included.
func killInits(tree cgroupTree) {
	for _, running := range runningMachines(tree) {
		_ = syscall.Kill(running.pid, syscall.SIGKILL)
	}
}

// unmountBelow removes mounts a killed run may have left in the host's own namespace.
func unmountBelow(dir string) {
	points := mountsBelow(dir)
	for _, point := range slices.Backward(points) {
		_ = syscall.Unmount(point, syscall.MNT_DETACH)
	}
}

func mountsBelow(dir string) []string {
	text, _ := os.ReadFile("/proc/self/mounts")
	var points []string
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			points = append(points, fields[1])
		}
	}
	slices.Sort(points)
	return points
}

// loopDevices are the loop devices over files in a folder, read from /sys.
func loopDevices(dir string) []string {
	backings, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	var devices []string
	for _, backing := range backings {
		if file, _ := os.ReadFile(backing); strings.HasPrefix(string(file), dir+"/") {
			devices = append(devices, "/dev/"+filepath.Base(filepath.Dir(filepath.Dir(backing))))
		}
	}
	return devices
}

func detachLoopDevices(dir string) {
	for _, device := range loopDevices(dir) {
		_, _ = runCommand(context.Background(), nil, "losetup", "-d", device)
	}
}

// removeState deletes what a cluster keeps in its folder, and only that: the folder may be anyone's. Logs stay until
// the next start, as they explain what happened.
func removeState(l layout) {
	if exists(l.description()) {
		nodes, _ := filepath.Glob(l.machine("node*"))
		for _, node := range nodes {
			_ = os.Rename(filepath.Join(node, "root/var/log/pods"), filepath.Join(l.logs(), filepath.Base(node)+"-pods"))
		}
		_ = os.RemoveAll(l.logs() + ".old")
		_ = os.Rename(l.logs(), l.logs()+".old")
	}
	for _, path := range []string{l.machine(""), l.pki(""), l.images(), l.volumes(), l.launcher(), l.kubeconfig(), l.description()} {
		_ = os.RemoveAll(path)
	}
}

// remains counts what is left of a cluster.
type remains struct{ processes, mounts, namespaces, cgroups, loopDevices, links int }

func (r remains) nothing() bool { return r == remains{} }

func (r remains) String() string {
	return fmt.Sprintf("processes=%d mounts=%d namespaces=%d cgroups=%d loop-devices=%d links=%d",
		r.processes, r.mounts, r.namespaces, r.cgroups, r.loopDevices, r.links)
}

func (r remains) hint() string {
	if r.processes > 0 {
		return "a process that SIGKILL does not end hangs in the kernel, usually on a frozen or dead disk"
	}
	return "try `castellan-kube down` once more"
}

func leftovers(tree cgroupTree, dirs []string) remains {
	left := remains{processes: len(tree.processes()), cgroups: len(tree.folders()), namespaces: strayNamespaces(dirs)}
	for _, dir := range dirs {
		left.mounts += len(mountsBelow(dir))
		left.loopDevices += len(loopDevices(dir))
	}
	if hostLinkExists() {
		left.links++
	}
	return left
}

// awaitNothing gives the kernel a moment: namespaces are taken apart in the background.
func awaitNothing(tree cgroupTree, dirs []string) remains {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := leftovers(tree, dirs)
		if left.nothing() || time.Now().After(deadline) {
			return left
		}
	}
}

// strayNamespaces counts mount namespaces that still hold mounts of ours. A namespace lives as long as a process is
// in it, so this finds processes that left our cgroups too.
func strayNamespaces(dirs []string) int {
	own, _ := os.Readlink("/proc/self/ns/mnt")
	seen := map[string]bool{own: true}
	count := 0
	links, _ := filepath.Glob("/proc/[0-9]*/ns/mnt")
	for _, link := range links {
		namespace, err := os.Readlink(link)
		if err != nil || seen[namespace] {
			continue
		}
		seen[namespace] = true
		// A bind mount shows its source folder as the mount's root.
		mounts, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(link)), "mountinfo"))
		for _, dir := range dirs {
			if strings.Contains(string(mounts), dir+"/") {
				count++
				break
			}
		}
	}
	return count
}

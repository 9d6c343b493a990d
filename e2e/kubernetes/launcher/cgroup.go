package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The cluster's cgroups, in every hierarchy of the machine:
//
//	/cstl/sys/MACHINE   the daemons of a machine, its container shims, and commands run in it
//	/cstl/NODE          the pods of a node, made by its kubelet
//
// The subtree is also the complete list of our processes, whatever became of the command that started them.
type cgroupTree struct {
	mounts  []string // where the hierarchies are mounted: one for version 2, about ten for version 1
	version int
}

// cgroup2Magic is the file system type of a version 2 hierarchy, from the kernel's magic.h.
const cgroup2Magic = 0x63677270

func detectCgroups() (cgroupTree, error) {
	const root = "/sys/fs/cgroup"
	var stat syscall.Statfs_t
	if err := syscall.Statfs(root, &stat); err != nil {
		return cgroupTree{}, fmt.Errorf("look at %s: %w", root, err)
	}
	if stat.Type == cgroup2Magic {
		return cgroupTree{mounts: []string{root}, version: 2}, nil
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return cgroupTree{}, err
	}
	tree := cgroupTree{mounts: cgroupMounts(string(mounts)), version: 1}
	if len(tree.mounts) == 0 {
		return tree, fmt.Errorf("no cgroup hierarchy is mounted on this machine: mount cgroup2 on %s", root)
	}
	return tree, nil
}

// cgroupMounts picks the mount points of cgroup hierarchies, both versions, out of /proc/mounts.
func cgroupMounts(mounts string) []string {
	var points []string
	lines := bufio.NewScanner(strings.NewReader(mounts))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") && !slices.Contains(points, fields[1]) {
			points = append(points, fields[1])
		}
	}
	return points
}

func (t cgroupTree) roots() []string {
	var roots []string
	for _, mount := range t.mounts {
		roots = append(roots, filepath.Join(mount, prefix))
	}
	return roots
}

// create makes the subtree for these machines.
func (t cgroupTree) create(machines []string) error {
	if t.version == 2 {
		// Controllers reach a cgroup only if its parent hands them on.
		if err := delegate(t.mounts[0]); err != nil {
			return err
		}
	}
	paths := []string{"", "sys"}
	for _, machine := range machines {
		paths = append(paths, "sys/"+machine)
		if machine != controlPlane {
			paths = append(paths, machine)
		}
	}
	for _, root := range t.roots() {
		for _, path := range paths {
			dir := filepath.Join(root, path)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make the cgroup %s: %w", dir, err)
			}
			if t.version == 2 && path == "" {
				if err := delegate(dir); err != nil {
					return err
				}
			}
			copyCpuset(dir)
		}
	}
	return nil
}

// copyCpuset fills a new cpuset from its parent: in version 1 it is born empty, and an empty one takes no process.
func copyCpuset(dir string) {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if own, err := os.ReadFile(filepath.Join(dir, file)); err != nil || strings.TrimSpace(string(own)) != "" {
			continue
		}
		if value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file)); err == nil {
			_ = os.WriteFile(filepath.Join(dir, file), value, 0)
		}
	}
}

// delegate lets the children of a version 2 cgroup use every controller the kubelet wants.
func delegate(dir string) error {
	control := filepath.Join(dir, "cgroup.subtree_control")
	for _, controller := range []string{"cpu", "cpuset", "io", "memory", "pids", "hugetlb"} {
		_ = os.WriteFile(control, []byte("+"+controller), 0) // judged by the result below
	}
	enabled, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	for _, needed := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(strings.Fields(string(enabled)), needed) {
			return fmt.Errorf("%s does not hand on the %q controller (it has %q): if processes live in this cgroup itself, move them to a child first",
				control, needed, strings.TrimSpace(string(enabled)))
		}
	}
	return nil
}

// joinCgroup moves the calling process into a cgroup of ours, in every hierarchy.
func joinCgroup(path string) error {
	tree, err := detectCgroups()
	if err != nil {
		return err
	}
	for _, root := range tree.roots() {
		file := filepath.Join(root, path, "cgroup.procs")
		if err := os.WriteFile(file, []byte("0"), 0); err != nil {
			return fmt.Errorf("join the cgroup %s: %w", filepath.Dir(file), err)
		}
	}
	return nil
}

// processes lists every process in our subtree.
func (t cgroupTree) processes() []int {
	var pids []int
	for _, root := range t.roots() {
		pids = append(pids, processesBelow(root)...)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// processesBelow lists the processes of a cgroup and its children.
func processesBelow(cgroup string) []int {
	var pids []int
	_ = filepath.WalkDir(cgroup, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "cgroup.procs" {
			pids = append(pids, readPids(path)...)
		}
		return nil // cgroups vanish while we walk
	})
	return pids
}

func readPids(procs string) []int {
	text, _ := os.ReadFile(procs)
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0: a process of another PID namespace
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll kills until nothing is left: a dying process may have started another one meanwhile.
func (t cgroupTree) killAll(limit time.Duration) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		pids := t.processes()
		if len(pids) == 0 {
			return
		}
		// A frozen pod dies only after it thaws.
		t.thaw()
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (t cgroupTree) thaw() {
	for _, root := range t.roots() {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "freezer.state" {
				_ = os.WriteFile(path, []byte("THAWED"), 0)
			}
			if err == nil && entry.Name() == "cgroup.freeze" {
				_ = os.WriteFile(path, []byte("0"), 0)
			}
			return nil
		})
	}
}

// forgetPods removes the cgroups of a node's dead pods, as a reboot would. A new kubelet would wait three seconds for
// each of them.
func (t cgroupTree) forgetPods(node string) {
	for _, root := range t.roots() {
		for _, dir := range slices.Backward(foldersBelow(filepath.Join(root, node))) {
			if dir != filepath.Join(root, node) {
				_ = syscall.Rmdir(dir)
			}
		}
	}
}

// remove deletes the subtree, children first; a cgroup whose last process is just dying needs another try.
func (t cgroupTree) remove(limit time.Duration) {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		dirs := t.folders()
		for _, dir := range slices.Backward(dirs) {
			_ = syscall.Rmdir(dir)
		}
		if len(dirs) == 0 || time.Now().After(deadline) {
			return
		}
	}
}

// folders lists our cgroups, parents before children.
func (t cgroupTree) folders() []string {
	var dirs []string
	for _, root := range t.roots() {
		dirs = append(dirs, foldersBelow(root)...)
	}
	return dirs
}

func foldersBelow(cgroup string) []string {
	var dirs []string
	_ = filepath.WalkDir(cgroup, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

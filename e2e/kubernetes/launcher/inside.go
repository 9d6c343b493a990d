package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// exec replaces this process by a command inside a machine.
func (a *app) exec(args []string) error {
	if len(args) > 1 && args[1] == "--" {
		args = slices.Delete(slices.Clone(args), 1, 2)
	}
	if len(args) < 2 {
		return usageError("exec takes the name of a machine and a command")
	}
	at, err := findMachine(args[0])
	if err != nil {
		return err
	}
	// In the machine's cgroup, so that `down` sees a command that stays.
	if err := joinCgroup("sys/" + at.name); err != nil {
		return err
	}
	return replaceProcess(at.enterArgs(args[1:]...), os.Environ())
}

// client replaces this process by kubectl or Helm, pointed at the cluster.
func (a *app) client(ctx context.Context, name string, args []string) error {
	bin, err := a.binaries(ctx)
	if err != nil {
		return err
	}
	program := bin.kubectl()
	if name == "helm" {
		program = bin.Helm
	}
	return replaceProcess(append([]string{program}, args...), append(os.Environ(), "KUBECONFIG="+a.at.kubeconfig()))
}

// binaries are those of the running cluster, or else the ones the sources stand for.
func (a *app) binaries(ctx context.Context) (binaries, error) {
	if there, err := readCluster(a.at); err == nil && exists(there.Binaries.Kube) {
		return there.Binaries, nil
	}
	return buildAll(ctx, a.repo, a.say)
}

func replaceProcess(args, environment []string) error {
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	if err := syscall.Exec(program, args, environment); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

// podPids prints the host's process ids of a container: the container's first process first.
func (a *app) podPids(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return usageError("pod-pids takes a namespace, a pod and perhaps a container")
	}
	server, err := newAPI(a.at)
	if err != nil {
		return err
	}
	var found pod
	if err := server.get(ctx, "/api/v1/namespaces/"+args[0]+"/pods/"+args[1], &found); err != nil {
		return err
	}
	wanted := ""
	if len(args) == 3 {
		wanted = args[2]
	}
	id, err := found.containerID(wanted)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", args[0], args[1], err)
	}
	tree, err := detectCgroups()
	if err != nil {
		return err
	}
	pids := tree.containerPids(id)
	if len(pids) == 0 {
		return fmt.Errorf("container %s of pod %s/%s has no process on this machine", id, args[0], args[1])
	}
	for _, pid := range pids {
		fmt.Println(pid)
	}
	return nil
}

type pod struct {
	Spec   struct{ Containers []struct{ Name string } }
	Status struct {
		ContainerStatuses []struct{ Name, ContainerID string }
	}
}

// containerID is the runtime's name of a container of the pod; no name means the first in the specification.
func (p pod) containerID(name string) (string, error) {
	if name == "" && len(p.Spec.Containers) > 0 {
		name = p.Spec.Containers[0].Name
	}
	for _, status := range p.Status.ContainerStatuses {
		if _, id, found := strings.Cut(status.ContainerID, "://"); status.Name == name && found {
			return id, nil
		}
	}
	return "", fmt.Errorf("its container %q has not started", name)
}

// containerPids finds a container's cgroup by its id, in whichever hierarchy and below whichever node.
func (t cgroupTree) containerPids(id string) []int {
	var pids []int
	for _, root := range t.roots() {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == id {
				pids = processesBelow(path)
				return fs.SkipAll
			}
			return nil
		})
		if len(pids) > 0 {
			break
		}
	}
	return firstProcessFirst(pids, parentOf)
}

// firstProcessFirst puts the process whose parent is outside the set at the front.
func firstProcessFirst(pids []int, parentOf func(int) int) []int {
	var first, rest []int
	for _, pid := range slices.Sorted(slices.Values(pids)) {
		if slices.Contains(pids, parentOf(pid)) {
			rest = append(rest, pid)
		} else {
			first = append(first, pid)
		}
	}
	return append(first, rest...)
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func oneNode(command string, args []string) (int, error) {
	if len(args) != 1 {
		return 0, usageError(command + " takes the name of one node")
	}
	return nodeNumber(args[0])
}

// powerOff is a loss of power: everything on the node ends in the same instant, and nothing is told or written.
func (a *app) powerOff(args []string) error {
	if _, err := oneNode("power-off", args); err != nil {
		return err
	}
	node, err := findMachine(args[0])
	if err != nil {
		return err
	}
	if err := syscall.Kill(node.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the init of %s (pid %d): %w", node.name, node.pid, err)
	}
	tree, err := detectCgroups()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(killLimit); ; time.Sleep(10 * time.Millisecond) {
		left := tree.processesOf(node.name)
		if len(left) == 0 {
			a.say("%s is off", node.name)
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was switched off, but its processes %v do not end: they hang in the kernel", node.name, left)
		}
		tree.thaw()
	}
}

// processesOf lists the processes of one machine, daemons and pods.
func (t cgroupTree) processesOf(machine string) []int {
	var all []int
	for _, part := range []string{filepath.Join(prefix, "sys", machine), filepath.Join(prefix, machine)} {
		for _, mount := range t.mounts {
			all = append(all, processesBelow(filepath.Join(mount, part))...)
		}
	}
	return all
}

// powerOn starts the node again, with its disk as it was.
func (a *app) powerOn(ctx context.Context, args []string) error {
	number, err := oneNode("power-on", args)
	if err != nil {
		return err
	}
	there, err := readCluster(a.at)
	if err != nil {
		return err
	}
	if number > there.Nodes {
		return fmt.Errorf("there is no %s: the cluster has %d nodes", args[0], there.Nodes)
	}
	if _, err := findMachine(args[0]); err == nil {
		a.say("%s is on already", args[0])
		return nil
	}
	head, err := findMachine(controlPlane)
	if err != nil {
		return err
	}
	tree, err := detectCgroups()
	if err != nil {
		return err
	}
	tree.forgetPods(args[0])
	holds, _ := filepath.Glob(a.at.machineFile(args[0], "hold-*"))
	for _, hold := range holds { // a boot starts every daemon
		_ = os.Remove(hold)
	}
	node, err := startNode(ctx, a.at, head.pid, number, there.Nodes)
	if err != nil {
		return err
	}
	a.say("%s is on", node.name)
	return importMissed(ctx, a.at, node)
}

// daemon ends or revives one program of a machine.
func (a *app) daemon(args []string) error {
	if len(args) != 3 || !slices.Contains([]string{"stop", "start", "kill"}, args[0]) {
		return usageError("daemon takes stop, start or kill, a machine and the name of a daemon")
	}
	action, name := args[0], args[2]
	at, err := findMachine(args[1])
	if err != nil {
		return err
	}
	daemons, err := readDaemons(layout{at.dir}.machineFile(at.name, "daemons.json"))
	if err != nil {
		return err
	}
	index := slices.IndexFunc(daemons, func(d daemon) bool { return d.Name == name })
	if index < 0 {
		var names []string
		for _, d := range daemons {
			names = append(names, d.Name)
		}
		return fmt.Errorf("%s has no daemon %q; it has %s", at.name, name, strings.Join(names, ", "))
	}
	hold := layout{at.dir}.machineFile(at.name, "hold-"+name)
	switch action {
	case "start":
		if err := os.Remove(hold); err != nil && !os.IsNotExist(err) {
			return err
		}
	case "stop":
		if err := os.WriteFile(hold, nil, 0o644); err != nil {
			return err
		}
		fallthrough
	case "kill":
		if pid := at.daemonPid(daemons[index]); pid != 0 {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}

// daemonPid is the host's process id of a daemon, 0 if it does not run.
func (m machine) daemonPid(d daemon) int {
	tree, err := detectCgroups()
	if err != nil {
		return 0
	}
	for _, pid := range tree.processesOf(m.name) {
		text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.TrimRight(string(text), "\x00") == strings.Join(d.Args, "\x00") && parentOf(pid) == m.pid {
			return pid
		}
	}
	return 0
}

// parentOf reads the parent from /proc/PID/stat; the second field is the program's name, in brackets, and may hold
// anything.
func parentOf(pid int) int {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndex(string(text), ")")):]), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is a running node or control plane, known by the first process of its namespaces.
type machine struct {
	name string
	pid  int    // of its init, as the host counts
	dir  string // of the cluster
}

// daemonEnvironment is all that daemons see of the environment: not the caller's KUBECONFIG, proxies or locale.
var daemonEnvironment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}

// runningMachines finds the inits in our cgroups by their command line, so it needs no pid files.
func runningMachines(tree cgroupTree) map[string]machine {
	found := map[string]machine{}
	for _, pid := range tree.processes() {
		text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"); len(args) == 3 && args[0] == initArg0 {
			found[args[1]] = machine{name: args[1], pid: pid, dir: args[2]}
		}
	}
	return found
}

// findMachine returns a machine that is switched on.
func findMachine(name string) (machine, error) {
	tree, err := detectCgroups()
	if err != nil {
		return machine{}, err
	}
	running := runningMachines(tree)
	if found, ok := running[name]; ok {
		return found, nil
	}
	if len(running) == 0 {
		return machine{}, fmt.Errorf("no cluster runs on this machine: start one with `castellan-kube up`")
	}
	var names []string
	for other := range running {
		names = append(names, other)
	}
	slices.Sort(names)
	return machine{}, fmt.Errorf("no machine %q is switched on; these are: %s", name, strings.Join(names, ", "))
}

// bootingMachine is a machine whose init waits for its network.
type bootingMachine struct {
	machine
	start *os.File
}

// bootMachine starts an init in namespaces of its own. The machine's folder must hold daemons.json.
func bootMachine(l layout, name string) (*bootingMachine, error) {
	readyHere, readyThere, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer readyHere.Close()
	startThere, startHere, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(l.log(name, "init"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := &exec.Cmd{
		Path: l.launcher(), Args: []string{initArg0, name, l.dir},
		Dir: "/", Env: daemonEnvironment, Stdout: log, Stderr: log,
		ExtraFiles: []*os.File{readyThere, startThere},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:     true, // or the end of the caller's terminal would be the end of the machine
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		},
	}
	err = command.Start()
	readyThere.Close()
	startThere.Close()
	if err != nil {
		startHere.Close()
		return nil, fmt.Errorf("start the init of %s in namespaces of its own (this needs root): %w", name, err)
	}
	go command.Wait()
	if word, _ := io.ReadAll(readyHere); string(word) != "ready\n" {
		startHere.Close()
		return nil, fmt.Errorf("the init of %s ended early: see %s", name, l.log(name, "init"))
	}
	return &bootingMachine{machine{name, command.Process.Pid, l.dir}, startHere}, nil
}

// startDaemons gives the word to the init.
func (m *bootingMachine) startDaemons() error {
	defer m.start.Close()
	if _, err := m.start.WriteString("start\n"); err != nil {
		return fmt.Errorf("tell the init of %s to start its daemons: %w", m.name, err)
	}
	return nil
}

// enterArgs is the command line that runs a command inside the machine. PID and mount namespace only together: /proc
// belongs to both.
func (m machine) enterArgs(args ...string) []string {
	return append([]string{"nsenter", "-t", strconv.Itoa(m.pid), "-m", "-p", "-n", "-u", "-i", "--"}, args...)
}

// run runs a command inside the machine and returns its output.
func (m machine) run(ctx context.Context, input io.Reader, args ...string) ([]byte, error) {
	all := m.enterArgs(args...)
	return runCommand(ctx, input, all[0], all[1:]...)
}

// runCommand runs a command; its error says what the command printed.
func runCommand(ctx context.Context, input io.Reader, name string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.WaitDelay = time.Second
	command.Stdin = input
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return output, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(stderr.String()+string(output), 5))
	}
	return output, nil
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

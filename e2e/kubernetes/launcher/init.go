package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	initArg0 = prefix + "-init" // argv[0] of every init: how it is found in the process list

	// A daemon that ends is started again after a pause, as a service manager would do. Short, because at start-up
	// several of them cannot run before others answer.
	restartPause = 250 * time.Millisecond
	holdPoll     = 100 * time.Millisecond
)

// privateFolders are the places where the daemons of a node keep state under fixed names. Each machine gets its own
// folders there; without this the nodes would share each other's pods.
var privateFolders = []string{"/var/lib/cni", "/var/lib/kubelet", "/var/lib/containerd", "/var/log/containers", "/var/log/pods"}

// runInit is process 1 of a machine: it makes the machine's private view of the file system, says so on descriptor 3,
// waits on descriptor 4 for the word that the network is there, and then keeps the daemons running. It never ends by
// itself: killing it is how a machine loses power.
func runInit(name string, l layout) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is started by `up` as the first process of a machine, not by hand", initArg0)
	}
	ready, start := os.NewFile(3, "ready"), os.NewFile(4, "start")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	if err := joinCgroup("sys/" + name); err != nil {
		return err
	}
	if err := privateView(l.machine(name)); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set the host name %s: %w", name, err)
	}
	// Packets of pods and of the switch pass through this machine.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("switch on packet forwarding: %w", err)
	}
	// Pods of one node meet on a bridge, and a service between them needs the packet filter there. The switch must not
	// filter the frames it passes on. Absent without br_netfilter.
	filterBridge := word(name == controlPlane, "0", "1")
	_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte(filterBridge), 0)
	if _, err := ready.WriteString("ready\n"); err != nil {
		return fmt.Errorf("tell `up` that the machine stands: %w", err)
	}
	ready.Close()
	if word, err := io.ReadAll(start); err != nil || string(word) != "start\n" {
		return fmt.Errorf("the command that was building this machine ended before it was done")
	}
	start.Close()
	daemons, err := readDaemons(l.machineFile(name, "daemons.json"))
	if err != nil {
		return err
	}
	for _, d := range daemons {
		go keepRunning(d, l.machineFile(name, "hold-"+d.Name))
	}
	reapForever()
	return nil
}

// privateView gives the machine its own /proc and /run and its own state folders.
func privateView(machineDir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep the machine's mounts from the host: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// /run holds sockets, locks and network namespaces; empty after each start, as after a boot.
	if err := syscall.Mount("run", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{"/run/netns", "/run/lock"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for _, shared := range privateFolders {
		own := filepath.Join(machineDir, "root", shared)
		for _, dir := range []string{own, shared} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Mount(own, shared, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", own, shared, err)
		}
	}
	return nil
}

// keepRunning starts a daemon again whenever it ends. While the hold file exists it kills it and keeps it down, which
// is how tests stop a kubelet or a container runtime.
func keepRunning(d daemon, hold string) {
	for {
		if exists(hold) {
			time.Sleep(holdPoll)
			continue
		}
		pid, ended, err := startDaemon(d)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s %s cannot start: %v\n", time.Now().Format(time.RFC3339Nano), d.Name, err)
			time.Sleep(restartPause)
			continue
		}
		for alive := true; alive; {
			select {
			case status := <-ended:
				fmt.Fprintf(os.Stderr, "%s %s (pid %d here) ended: %s\n", time.Now().Format(time.RFC3339Nano), d.Name, pid, describe(status))
				alive = false
			case <-time.After(holdPoll):
				if exists(hold) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		time.Sleep(restartPause)
	}
}

// startDaemon does not use exec.Cmd.Wait: the init reaps all children in one place, and two waiters would race.
func startDaemon(d daemon) (int, <-chan syscall.WaitStatus, error) {
	program, err := exec.LookPath(d.Args[0])
	if err != nil {
		return 0, nil, err
	}
	log, err := os.OpenFile(d.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	return forkLocked(program, d.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), d.Env...),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by " + status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

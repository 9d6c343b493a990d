package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// The first process of a PID namespace inherits every orphan in it (container shims, above all) and has to collect
// them. It must not collect a daemon before its starter has noted the pid, hence the lock around starting.
var children = struct {
	sync.Mutex
	waiting map[int]chan syscall.WaitStatus
}{waiting: map[int]chan syscall.WaitStatus{}}

// forkLocked starts a program and returns its pid and where its end will be told.
func forkLocked(program string, args []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	children.Lock()
	defer children.Unlock()
	pid, err := syscall.ForkExec(program, args, attr)
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	children.waiting[pid] = ended
	return pid, ended, nil
}

func reapForever() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	// Received and left unread rather than ignored: daemons would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	for {
		reapOnce()
		<-ended
	}
}

// reapOnce collects every child that has ended; one SIGCHLD may stand for many.
func reapOnce() {
	for {
		var status syscall.WaitStatus
		children.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		waiter := children.waiting[pid]
		if pid > 0 {
			delete(children.waiting, pid)
		}
		children.Unlock()
		if pid <= 0 || err != nil {
			return
		}
		if waiter != nil {
			waiter <- status
		}
	}
}

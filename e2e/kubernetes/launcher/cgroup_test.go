package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCgroupMounts(t *testing.T) {
	const mounts = `proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
/dev/vda / ext4 rw 0 0
`
	want := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"}
	if got := cgroupMounts(mounts); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// The same walk works for both versions, so a plain folder can stand for a hierarchy.
func TestProcessesAndContainersAreFoundAnywhereInTheSubtree(t *testing.T) {
	mount := t.TempDir()
	tree := cgroupTree{mounts: []string{mount}, version: 2}
	put := func(dir, procs string) {
		t.Helper()
		path := filepath.Join(mount, dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(procs), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("cstl/sys/node1", "30\n10\n")
	put("cstl/node1/kubepods/burstable/pod-1/abc", "999999999\n")
	put("cstl/node2/kubepods", "0\n")
	put("other", "7\n")
	if got := tree.processes(); !slices.Equal(got, []int{10, 30, 999999999}) {
		t.Errorf("processes: %v", got)
	}
	if got := tree.processesOf("node1"); len(got) != 3 {
		t.Errorf("processes of node1: %v", got)
	}
	if got := tree.containerPids("abc"); !slices.Equal(got, []int{999999999}) {
		t.Errorf("container: %v", got)
	}
	if got := tree.containerPids("ab"); len(got) != 0 {
		t.Errorf("a part of an id found %v", got)
	}
	if folders := tree.folders(); folders[0] != filepath.Join(mount, "cstl") {
		t.Errorf("parents must come before children: %v", folders)
	}
}

func TestCopyCpusetFillsOnlyEmptyOnes(t *testing.T) {
	parent := t.TempDir()
	child := filepath.Join(parent, "child")
	for path, content := range map[string]string{
		"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n", "child/cpuset.cpus": "\n", "child/cpuset.mems": "1\n",
	} {
		_ = os.Mkdir(child, 0o755)
		if err := os.WriteFile(filepath.Join(parent, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	copyCpuset(child)
	cpus, _ := os.ReadFile(filepath.Join(child, "cpuset.cpus"))
	mems, _ := os.ReadFile(filepath.Join(child, "cpuset.mems"))
	if string(cpus) != "0-1\n" || string(mems) != "1\n" {
		t.Fatalf("cpus %q, mems %q", cpus, mems)
	}
}

func TestFirstProcessFirst(t *testing.T) {
	parents := map[int]int{5: 9, 9: 1, 12: 5}
	got := firstProcessFirst([]int{12, 5, 9}, func(pid int) int { return parents[pid] })
	if !slices.Equal(got, []int{9, 5, 12}) {
		t.Fatal(got)
	}
}

func TestParentOfThisProcess(t *testing.T) {
	if got := parentOf(os.Getpid()); got != os.Getppid() {
		t.Fatalf("got %d, want %d", got, os.Getppid())
	}
	if got := parentOf(0); got != 0 {
		t.Fatalf("a process that is not there has parent %d", got)
	}
}

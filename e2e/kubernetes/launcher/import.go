package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

func (a *app) importImages(ctx context.Context, archives []string) error {
	if len(archives) == 0 {
		return usageError("import needs at least one image archive")
	}
	tree, err := detectCgroups()
	if err != nil {
		return err
	}
	var nodes []machine
	for name, running := range runningMachines(tree) {
		if name != controlPlane && running.dir == a.at.dir {
			nodes = append(nodes, running)
		}
	}
	if len(nodes) == 0 {
		return fmt.Errorf("no node of a cluster in %s is switched on: start one with `castellan-kube up`", a.at.dir)
	}
	if err := importEverywhere(ctx, a.at, nodes, archives); err != nil {
		return err
	}
	a.say("imported on %d nodes", len(nodes))
	return nil
}

// importEverywhere puts archives on all given nodes, and keeps a copy for nodes that are switched off now.
func importEverywhere(ctx context.Context, l layout, nodes []machine, archives []string) error {
	var kept []string
	for _, archive := range archives {
		path, err := keepArchive(l, archive)
		if err != nil {
			return fmt.Errorf("import %s: %w", archive, err)
		}
		kept = append(kept, path)
	}
	return onEach(nodes, func(node machine) error { return importOn(ctx, l, node, kept) })
}

// onEach works on all nodes at one time and returns all errors.
func onEach(nodes []machine, work func(machine) error) error {
	results := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, node := range nodes {
		group.Go(func() { results[i] = work(node) })
	}
	group.Wait()
	return errors.Join(results...)
}

// keepArchive copies an archive into the cluster's folder under the name of its content, as the newest.
func keepArchive(l layout, archive string) (string, error) {
	file, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	path := filepath.Join(l.images(), hex.EncodeToString(hash.Sum(nil))+".tar")
	// A node that has it counts as not having it from here on: an older image may have taken over its name since.
	marks, _ := filepath.Glob(importMark(l, "*", path))
	for _, mark := range marks {
		_ = os.Remove(mark)
	}
	return path, copyFile(archive, path, 0o644)
}

// importMark is a file that says that a node has an archive.
func importMark(l layout, node, archive string) string {
	return l.machineFile(node, "imported-"+filepath.Base(archive))
}

// importMissed gives a node what was imported while it was off, oldest first.
func importMissed(ctx context.Context, l layout, node machine) error {
	type kept struct {
		path string
		when time.Time
	}
	var missed []kept
	archives, _ := filepath.Glob(filepath.Join(l.images(), "*.tar"))
	for _, archive := range archives {
		if info, err := os.Stat(archive); err == nil && !exists(importMark(l, node.name, archive)) {
			missed = append(missed, kept{archive, info.ModTime()})
		}
	}
	slices.SortFunc(missed, func(a, b kept) int { return cmp.Compare(a.when.UnixNano(), b.when.UnixNano()) })
	var paths []string
	for _, archive := range missed {
		paths = append(paths, archive.path)
	}
	return importOn(ctx, l, node, paths)
}

func importOn(ctx context.Context, l layout, node machine, archives []string) error {
	if len(archives) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := awaitContainerd(ctx, l, node); err != nil {
		return err
	}
	for _, archive := range archives {
		file, err := os.Open(archive)
		if err != nil {
			return err
		}
		// Through standard input: the node does not see every folder of the host.
		_, err = node.run(ctx, file, "ctr", "--namespace", "k8s.io", "images", "import", "--snapshotter", pickSnapshotter(l.dir), "-")
		file.Close()
		if err != nil {
			return fmt.Errorf("import %s on %s: %w", archive, node.name, err)
		}
		if err := os.WriteFile(importMark(l, node.name, archive), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// awaitContainerd waits until the node's container runtime takes connections, seen through its init's root.
func awaitContainerd(ctx context.Context, l layout, node machine) error {
	socket := filepath.Join("/proc", strconv.Itoa(node.pid), "root/run/containerd/containerd.sock")
	for {
		connection, err := net.Dial("unix", socket)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd of %s does not answer: %w; see %s", node.name, err, l.log(node.name, "containerd"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

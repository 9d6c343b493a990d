package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const kubernetesVersion = "v1.35.4"

// goModule is a folder beside this one that builds to one program.
type goModule struct {
	folder  string
	program string
	target  string            // the package to build
	stamps  map[string]string // string variables set by the linker
}

// A server that calls itself by its unset default version is refused by kubectl and Helm.
var goModules = []goModule{
	{"components", "kube", ".", map[string]string{
		"k8s.io/component-base/version.gitVersion": kubernetesVersion, "k8s.io/component-base/version.gitMajor": "1",
		"k8s.io/component-base/version.gitMinor": "35", "k8s.io/component-base/version.gitTreeState": "clean",
		"k8s.io/client-go/pkg/version.gitVersion": kubernetesVersion, "k8s.io/client-go/pkg/version.gitMajor": "1",
		"k8s.io/client-go/pkg/version.gitMinor": "35", "k8s.io/client-go/pkg/version.gitTreeState": "clean",
	}},
	{"helm", "helm", "helm.sh/helm/v3/cmd/helm", map[string]string{
		"helm.sh/helm/v3/internal/version.version":       "v3.21.4",
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor":  "1", // what `helm template` and `helm lint` assume
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor":  "35",
		"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": "1", "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": "35",
	}},
	{"provisioner", "provisioner", ".", nil},
	{"netpolicy", "netpolicy", ".", nil},
	{"coredns", "coredns", ".", nil},
	{"pause", "pause", ".", nil},
}

// buildFlags are part of the cache's key here and of Go's own cache: changing one compiles everything again, which
// takes seven minutes on two cores. Static binaries, because images hold nothing else.
var buildFlags = []string{"build", "-mod=readonly", "-buildvcs=false", "-trimpath"}

// binaries are the paths of the built programs.
type binaries struct {
	Kube        string `json:"kube"`
	Helm        string `json:"helm"`
	Provisioner string `json:"provisioner"`
	NetPolicy   string `json:"netpolicy"`
	CoreDNS     string `json:"coredns"`
	Pause       string `json:"pause"`
}

func (m goModule) linkerFlags() string {
	flags := []string{"-s", "-w"}
	for variable, value := range m.stamps {
		flags = append(flags, "-X "+variable+"="+value)
	}
	slices.Sort(flags)
	return strings.Join(flags, " ")
}

// key names the folder of a built program: it changes with the sources, the versions, the flags and the compiler.
func (m goModule) key(sources fs.FS, goVersion string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, goVersion, buildFlags, m.linkerFlags(), m.target)
	err := fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") ||
			!(strings.HasSuffix(path, ".go") || path == "go.mod" || path == "go.sum") {
			return err
		}
		content, err := fs.ReadFile(sources, path)
		fmt.Fprintln(hash, path, len(content))
		hash.Write(content)
		return err
	})
	return m.folder + "-" + hex.EncodeToString(hash.Sum(nil))[:16], err
}

// build returns the path of the program, building it if it is not in the cache.
func (m goModule) build(ctx context.Context, repo string, say progress) (string, error) {
	source := filepath.Join(repo, sourceFolder, m.folder)
	version, err := runCommand(ctx, nil, "go", "env", "GOVERSION")
	if err != nil {
		return "", fmt.Errorf("the Kubernetes programs are built from Go modules, and `go` does not work here: %w", err)
	}
	key, err := m.key(os.DirFS(source), strings.TrimSpace(string(version)))
	if err != nil {
		return "", err
	}
	program := filepath.Join(repo, "target/kubernetes/bin", key, m.program)
	if exists(program) {
		return program, nil
	}
	say("building %s (the first time takes minutes; later it is in %s)", m.program, filepath.Dir(program))
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	// Built beside its place and renamed: whoever sees the file sees all of it.
	unfinished := fmt.Sprintf("%s.%d", program, os.Getpid())
	defer os.Remove(unfinished)
	args := append(slices.Clone(buildFlags), "-ldflags", m.linkerFlags(), "-o", unfinished, m.target)
	command := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
	command.Dir = source
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s in %s: %w: %s", m.program, source, err, lastLines(string(output), 20))
	}
	return program, os.Rename(unfinished, program)
}

// buildAll builds one program after the other: each build uses every core by itself.
func buildAll(ctx context.Context, repo string, say progress) (binaries, error) {
	unlock, err := lock(filepath.Join(repo, "target/kubernetes/build.lock"), "another build of the Kubernetes programs", say)
	if err != nil {
		return binaries{}, err
	}
	defer unlock()
	paths := map[string]string{}
	for _, module := range goModules {
		path, err := module.build(ctx, repo, say)
		if err != nil {
			return binaries{}, err
		}
		paths[module.program] = path
	}
	bin := binaries{paths["kube"], paths["helm"], paths["provisioner"], paths["netpolicy"], paths["coredns"], paths["pause"]}
	return bin, linkKubectl(bin)
}

// kubectl is the name under which the one binary is kubectl.
func (b binaries) kubectl() string { return filepath.Join(filepath.Dir(b.Kube), "kubectl") }

func linkKubectl(bin binaries) error {
	if exists(bin.kubectl()) {
		return nil
	}
	return os.Symlink(filepath.Base(bin.Kube), bin.kubectl())
}

// lock keeps two commands from doing the same thing at one time; the kernel releases it when we end, however we end.
func lock(path, holder string, say progress) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		say("waiting for %s to end", holder)
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

func copyFile(from, to string, mode os.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	unfinished := to + ".new"
	target, err := os.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	if err := target.Close(); err != nil {
		return err
	}
	return os.Rename(unfinished, to)
}

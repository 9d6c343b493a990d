package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debianPackage is a package we need and a file or command that shows it is there.
type debianPackage struct{ name, shows string }

var clusterPackages = []debianPackage{
	{"containerd", "containerd"}, {"runc", "runc"}, {"containernetworking-plugins", "/usr/lib/cni/bridge"},
	{"iptables", "iptables"}, {"conntrack", "conntrack"}, {"iproute2", "ip"}, {"util-linux", "nsenter"}, {"mount", "mount"},
	{"socat", "socat"}, {"ethtool", "ethtool"},
}

// buildah is needed only to build images.
var imagePackages = []debianPackage{{"buildah", "buildah"}}

func missingPackages(wanted []debianPackage) []string {
	var missing []string
	for _, p := range wanted {
		there := false
		if filepath.IsAbs(p.shows) {
			there = exists(p.shows)
		} else if _, err := exec.LookPath(p.shows); err == nil {
			there = true
		}
		if !there {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// installPackages installs what is missing. Services of the packages are not started: the nodes run their own.
func installPackages(ctx context.Context, wanted []debianPackage, say progress) error {
	missing := missingPackages(wanted)
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("these programs are missing: %s; they are installed by themselves only where apt-get is", names)
	}
	say("installing the Debian packages %s", names)
	if lists, _ := filepath.Glob("/var/lib/apt/lists/*_Packages*"); len(lists) == 0 {
		if err := aptGet(ctx, "update"); err != nil {
			return fmt.Errorf("read the package lists: %w", err)
		}
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	err := aptGet(ctx, install...)
	if err != nil {
		// Old lists name versions that the server has since replaced.
		if aptGet(ctx, "update") == nil {
			err = aptGet(ctx, install...)
		}
	}
	if err != nil {
		return fmt.Errorf("install %s: %w", names, err)
	}
	if left := missingPackages(wanted); len(left) > 0 {
		return fmt.Errorf("installed %s, yet their programs are not where they should be: %s", names, strings.Join(left, " "))
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) error {
	args = append([]string{"-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"}, args...)
	command := exec.CommandContext(ctx, "apt-get", args...)
	// RUNLEVEL=1 keeps the packages' scripts from starting their services.
	command.Env = append(slices.Clone(os.Environ()), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, lastLines(string(output), 5))
	}
	return nil
}

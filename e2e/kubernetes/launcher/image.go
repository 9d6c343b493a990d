package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// image builds an image from a Dockerfile, with nothing but this machine: no daemon, no registry.
func (a *app) image(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	dockerfile := flags.String("dockerfile", "", "the Dockerfile")
	folder := flags.String("context", "", "the folder its COPY lines read from")
	name := flags.String("name", "", "the image's name, for example castellan.local/keeper:dev")
	out := flags.String("out", "", "the archive to write")
	_ = flags.Parse(args)
	if *dockerfile == "" || *folder == "" || *name == "" || *out == "" {
		return usageError("image needs --dockerfile, --context, --name and --out")
	}
	if err := checkImageName(*name); err != nil {
		return err
	}
	if err := installPackages(ctx, imagePackages, a.say); err != nil {
		return err
	}
	target, err := filepath.Abs(*out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// Storage of our own, so that nothing of the machine's is touched. vfs and chroot need no privileges that sandboxes
	// lack, and for images of one or two files they are also the quickest.
	store := filepath.Join(a.repo, "target/kubernetes/buildah")
	buildah := func(args ...string) error {
		all := append([]string{"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}, args...)
		_, err := runCommand(ctx, nil, "buildah", all...)
		return err
	}
	build := slices.Concat([]string{"bud", "--quiet", "--isolation", "chroot", "--file", *dockerfile, "--tag", *name}, flags.Args(), []string{*folder})
	if err := buildah(build...); err != nil {
		return fmt.Errorf("build %s from %s: %w", *name, *dockerfile, err)
	}
	unfinished := fmt.Sprintf("%s.%d", target, os.Getpid()) // an archive that exists would be added to
	defer os.Remove(unfinished)
	if err := buildah("push", "--quiet", *name, "oci-archive:"+unfinished+":"+*name); err != nil {
		return fmt.Errorf("write the archive of %s: %w", *name, err)
	}
	if err := buildah("rmi", "--force", *name); err != nil { // vfs keeps a full copy of each
		return err
	}
	if err := os.Rename(unfinished, target); err != nil {
		return err
	}
	a.say("%s is in %s", *name, target)
	return nil
}

// checkImageName wants the full form HOST/NAME:TAG: of a short name each tool makes a different full one, and the
// kubelet then looks for an image that no one imported.
func checkImageName(name string) error {
	host, rest, found := strings.Cut(name, "/")
	if !found || !strings.ContainsAny(host, ".:") || !strings.Contains(rest, ":") || strings.HasSuffix(rest, ":") {
		return usageError(fmt.Sprintf("%q is not a full image name such as castellan.local/keeper:dev", name))
	}
	return nil
}

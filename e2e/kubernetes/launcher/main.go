// Command castellan-kube runs a real Kubernetes on this machine: nodes are namespaces, everything is built from Go
// modules, and nothing is pulled from anywhere. See README.md beside this folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: castellan-kube COMMAND [--repo DIR] [--dir DIR] ...

  up [--nodes 3]              start the cluster, or say that it is up
  down                        end it and check that nothing is left
  status [--json]             what runs
  paths                       where kubectl, helm and the kubeconfig are, as JSON
  kubectl ARG...              the cluster's kubectl
  helm ARG...                 Helm, on the cluster
  build                       build the programs without starting anything
  image --dockerfile F --context DIR --name N:TAG --out FILE.tar [-- BUILDAH_ARG...]
                              build an image from a Dockerfile
  import ARCHIVE.tar...       put images on every node
  power-off NODE              cut a node's power
  power-on NODE               and give it back
  daemon stop|start|kill NODE NAME
                              kubelet, containerd, kube-proxy; on control-plane also etcd, kube-apiserver, ...
  exec MACHINE COMMAND...     run a command in a node or in control-plane
  pod-pids NAMESPACE POD [CONTAINER]
                              the host's process ids of a pod's container (the first, if not named)

--dir is the cluster's folder (default: target/kubernetes/run in the repository)
--repo is the repository (default: found above the current folder)
Both stand before kubectl, helm and exec, which hand everything else on.
`

// app is what every command needs.
type app struct {
	repo string
	at   layout
	say  progress
}

type progress func(format string, args ...any)

// startProgress prints a line for each step, with the seconds since the start.
func startProgress(to io.Writer) progress {
	began := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(to, "%7.2f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
}

func main() {
	if os.Args[0] == initArg0 && len(os.Args) == 3 {
		fail(runInit(os.Args[1], layout{os.Args[2]}))
	}
	flags := flag.NewFlagSet("castellan-kube", flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	repo := flags.String("repo", "", "")
	dir := flags.String("dir", "", "")
	_ = flags.Parse(os.Args[1:])
	if flags.NArg() == 0 {
		flags.Usage()
		os.Exit(2)
	}
	to := os.Stderr // standard output is for results
	if command := flags.Arg(0); command == "up" || command == "down" {
		to = os.Stdout
	}
	args, err := takeGlobals(flags.Args(), flags)
	if err != nil {
		fail(err)
	}
	a, err := newApp(*repo, *dir, startProgress(to))
	if err != nil {
		fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(a.dispatch(ctx, args[0], args[1:]))
}

// takeGlobals lets --dir and --repo stand after the command too, but for commands that hand all they get to another
// program.
func takeGlobals(args []string, globals *flag.FlagSet) ([]string, error) {
	if slices.Contains([]string{"kubectl", "helm", "exec"}, args[0]) {
		return args, nil
	}
	var rest []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(rest, args[i:]...), nil
		}
		name, value, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") || globals.Lookup(name) == nil {
			rest = append(rest, args[i])
			continue
		}
		if !given {
			if i++; i == len(args) {
				return nil, usageError("--" + name + " needs a folder")
			}
			value = args[i]
		}
		if err := globals.Set(name, value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func newApp(repo, dir string, say progress) (*app, error) {
	if repo == "" {
		var err error
		if repo, err = findRepo("."); err != nil {
			return nil, err
		}
	}
	repo, err := filepath.Abs(repo)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		dir = filepath.Join(repo, "target/kubernetes/run")
	}
	dir, err = filepath.Abs(dir)
	return &app{repo: repo, at: layout{dir}, say: say}, err
}

func (a *app) dispatch(ctx context.Context, command string, args []string) error {
	switch command {
	case "up":
		return a.up(ctx, args)
	case "down":
		return a.down(args)
	case "status":
		return a.status(ctx, args)
	case "paths":
		return a.paths(ctx)
	case "build":
		_, err := buildAll(ctx, a.repo, a.say)
		return err
	case "kubectl", "helm":
		return a.client(ctx, command, args)
	case "image":
		return a.image(ctx, args)
	case "import":
		return a.importImages(ctx, args)
	case "power-off":
		return a.powerOff(args)
	case "power-on":
		return a.powerOn(ctx, args)
	case "daemon":
		return a.daemon(args)
	case "exec":
		return a.exec(args)
	case "pod-pids":
		return a.podPids(ctx, args)
	case "help":
		fmt.Print(usage)
		return nil
	}
	return usageError(fmt.Sprintf("no command %q", command))
}

// usageError is a mistake in the command line: exit code 2.
type usageError string

func (e usageError) Error() string { return string(e) + "; `castellan-kube help` lists the commands" }

func fail(err error) {
	var exit *exec.ExitError
	var wrong usageError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "castellan-kube:", err)
		os.Exit(2)
	case errors.As(err, &exit) && exit == err: // a passed-on command has said what is wrong
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "castellan-kube:", err)
		os.Exit(1)
	}
}

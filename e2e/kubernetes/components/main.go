// Command kube is every Kubernetes component and etcd in one binary: six programs share most of their code, so one
// link step, one file in the page cache and one text segment in memory serve three nodes and a control plane.
//
// The component is chosen by the name of the binary (a symbolic link named kubelet, say) or by the first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client and work queue metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components maps a component's name to the maker of its command. etcd is not here: it has no cobra command.
var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet": func() *cobra.Command {
		ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		return kubelet.NewKubeletCommand(ctx)
	},
}

func main() {
	name := filepath.Base(os.Args[0])
	if !known(name) {
		if len(os.Args) < 2 || !known(os.Args[1]) {
			fmt.Fprintln(os.Stderr, "usage: kube COMPONENT [ARGUMENT...]; components: etcd kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet")
			os.Exit(2)
		}
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err) // prints the error as kubectl does and exits with its code
		}
	default:
		os.Exit(cli.Run(components[name]()))
	}
}

func known(name string) bool {
	_, ok := components[name]
	return ok || name == "etcd" || name == "kubectl"
}

// Command netpolicy enforces NetworkPolicies on one node. The kernel hands it the first packet of every connection that
// the node forwards, and it lets the packet pass or drops it. Connections that stand are not looked at again, so a new
// policy does not cut them.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

// queueID is the number of the kernel's packet queue; any number that nothing else on the node uses.
const queueID = 100

func main() {
	kubeconfig := flag.String("kubeconfig", "", "client configuration for the API server")
	node := flag.String("node", "", "name of the node this runs on")
	flag.Parse()
	if *kubeconfig == "" || *node == "" {
		log.Fatal("usage: netpolicy --kubeconfig=FILE --node=NAME")
	}
	if err := run(*kubeconfig, *node); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig, node string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client from %s: %w", kubeconfig, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	shared := informers.NewSharedInformerFactory(client, 0)
	controller, err := networkpolicy.NewController(client, shared.Networking().V1().NetworkPolicies(),
		shared.Core().V1().Namespaces(), shared.Core().V1().Pods(), nil, nil, nil, nil,
		// Not NRIdisabled, though this containerd has no NRI: without its plugin object the library looks up an unknown
		// address in nil. The plugin logs that it cannot connect, and pods are known once their status holds an address.
		networkpolicy.Config{NodeName: node, QueueID: queueID})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	for _, table := range []string{"iptables", "ip6tables"} {
		if err := queueNewConnections(table); err != nil {
			return err
		}
	}
	return controller.Run(ctx)
}

// queueNewConnections sends first packets to the queue. The library has rules of its own for that, but they need a
// kernel with nftables' queue statement; where it is missing it logs so and goes on, and these rules do the work. Where
// both work, a packet is judged twice, with the same result. If this program ends, packets pass (--queue-bypass).
func queueNewConnections(iptables string) error {
	rule := []string{"FORWARD", "-m", "conntrack", "--ctstate", "NEW", "-j", "NFQUEUE", "--queue-num", strconv.Itoa(queueID), "--queue-bypass"}
	if exec.Command(iptables, append([]string{"-w", "-t", "mangle", "-C"}, rule...)...).Run() == nil {
		return nil // from before a restart
	}
	if output, err := exec.Command(iptables, append([]string{"-w", "-t", "mangle", "-I"}, rule...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("queue new connections with %s: %w: %s", iptables, err, bytes.TrimSpace(output))
	}
	return nil
}

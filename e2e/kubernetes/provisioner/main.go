// Command provisioner makes the test cluster's volumes: for every claim of the StorageClass `standard` a folder on the
// host's disk and a `local` PersistentVolume bound to one node. One process serves all nodes, since they share the disk.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionerName is what a StorageClass says to get its volumes from here.
const provisionerName = "castellan.local/folder"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "client configuration for the API server")
	root := flag.String("root", "", "folder that holds a folder for each node's volumes")
	flag.Parse()
	if *kubeconfig == "" || !filepath.IsAbs(*root) {
		log.Fatal("usage: provisioner --kubeconfig=FILE --root=ABSOLUTE_FOLDER")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatalf("read %s: %v", *kubeconfig, err)
	}
	config.QPS, config.Burst = 50, 100 // the default of 5 a second makes a test with twenty claims wait
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatalf("make a client from %s: %v", *kubeconfig, err)
	}
	// The library ends the program if the API server does not answer at once; at start-up it does not yet.
	awaitServer(client)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	controller.NewProvisionController(ctx, client, provisionerName, folders{*root},
		// One process, so no election. Without the finalizer a volume deleted by hand would leave its folder behind.
		controller.LeaderElection(false), controller.AddFinalizer(true)).Run(ctx)
}

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
)

// report is the answer of `status --json`; its field names are for programs.
type report struct {
	Up         bool         `json:"up"`      // a cluster is there, in whatever state
	Healthy    bool         `json:"healthy"` // every node Ready and names resolve
	Problem    string       `json:"problem,omitempty"`
	Dir        string       `json:"dir"`
	Kubeconfig string       `json:"kubeconfig"`
	Nodes      []nodeReport `json:"nodes"`
}

type nodeReport struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Powered bool   `json:"powered"`
	Ready   bool   `json:"ready"`   // as the API server sees it
	InitPid int    `json:"initPid"` // the host's process id, 0 if off
}

func (a *app) status(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("status", flag.ExitOnError)
	asJSON := flags.Bool("json", false, "for programs")
	_ = flags.Parse(args)
	r, err := a.report(ctx)
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(r)
	}
	if !r.Up {
		fmt.Println("down:", r.Problem)
		return nil
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tPOWER\tREADY\tADDRESS\tINIT")
	for _, n := range r.Nodes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", n.Name, word(n.Powered, "on", "off"), word(n.Ready, "yes", "no"), n.Address, n.InitPid)
	}
	table.Flush()
	fmt.Println(word(r.Healthy, "healthy", "not healthy: "+r.Problem))
	fmt.Println("kubeconfig:", r.Kubeconfig)
	return nil
}

func (a *app) report(ctx context.Context) (report, error) {
	r := report{Dir: a.at.dir, Kubeconfig: a.at.kubeconfig(), Nodes: []nodeReport{}}
	tree, err := detectCgroups()
	if err != nil {
		return r, err
	}
	there, err := readCluster(a.at)
	if err != nil {
		r.Problem = err.Error()
		return r, nil
	}
	running := runningMachines(tree)
	if head, on := running[controlPlane]; !on || head.dir != a.at.dir {
		r.Problem = "remains of a cluster whose control plane has ended: `castellan-kube up` cleans them"
		return r, nil
	}
	r.Up = true
	ready := map[string]bool{}
	server, err := newAPI(a.at)
	if err != nil {
		return r, err
	}
	nodes, err := server.nodes(ctx)
	if err != nil {
		r.Problem = err.Error()
	}
	for _, n := range nodes {
		ready[n.Metadata.Name] = n.ready()
	}
	for number := 1; number <= there.Nodes; number++ {
		name := nodeName(number)
		on := running[name]
		r.Nodes = append(r.Nodes, nodeReport{name, nodeAddress(number).String(), on.pid != 0, ready[name], on.pid})
	}
	if missing, ok := a.health(ctx, server, there.Nodes); !ok {
		r.Problem = missing
	} else if !there.Complete {
		r.Problem = "`up` has not finished"
	} else {
		r.Healthy = true
	}
	return r, nil
}

// paths tells other programs where things are. Everything it names is there when it returns, but for the kubeconfig,
// which appears with the cluster.
func (a *app) paths(ctx context.Context) error {
	bin, err := a.binaries(ctx)
	if err != nil {
		return err
	}
	return printJSON(map[string]string{
		"kubectl": bin.kubectl(), "helm": bin.Helm, "kubeconfig": a.at.kubeconfig(), "dir": a.at.dir, "logs": a.at.logs(),
	})
}

func printJSON(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(text))
	return err
}

func word(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

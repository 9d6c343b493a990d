package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// cluster is what a later command has to know of the cluster, kept in cluster.json.
type cluster struct {
	Nodes    int      `json:"nodes"`
	Binaries binaries `json:"binaries"`
	// Complete is set when `up` has reached its end: anything before that is a remnant.
	Complete bool `json:"complete"`
}

func readCluster(l layout) (cluster, error) {
	var c cluster
	text, err := os.ReadFile(l.description())
	if os.IsNotExist(err) {
		return c, fmt.Errorf("no cluster in %s: start one with `castellan-kube up`", l.dir)
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

func writeCluster(l layout, c cluster) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(l.description(), append(text, '\n'), 0o644)
}

func machineNames(nodes int) []string {
	names := []string{controlPlane}
	for number := 1; number <= nodes; number++ {
		names = append(names, nodeName(number))
	}
	return names
}

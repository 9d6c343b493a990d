package main

import (
	"encoding/json"
	"os"
)

// daemon is a program that a machine's init starts and keeps running.
type daemon struct {
	Name string   `json:"name"`
	Args []string `json:"args"` // the program and its arguments
	Env  []string `json:"env,omitempty"`
	Log  string   `json:"log"`
}

func writeDaemons(path string, daemons []daemon) error {
	text, err := json.MarshalIndent(daemons, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func readDaemons(path string) ([]daemon, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var daemons []daemon
	return daemons, json.Unmarshal(text, &daemons)
}

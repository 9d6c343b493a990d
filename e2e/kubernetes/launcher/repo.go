package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// sourceFolder is where this program's sources lie in the repository; finding it identifies the repository.
const sourceFolder = "e2e/kubernetes"

// findRepo walks up from a folder to the repository's root.
func findRepo(from string) (string, error) {
	start, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	for at := start; ; at = filepath.Dir(at) {
		if info, err := os.Stat(filepath.Join(at, sourceFolder, "components", "go.mod")); err == nil && info.Mode().IsRegular() {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no folder at or above %s holds %s: run this inside the repository, or name it with --repo", start, sourceFolder)
		}
	}
}

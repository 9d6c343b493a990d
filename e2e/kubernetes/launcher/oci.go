package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// An image whose only content is one static program needs no builder: an OCI archive is a tar of four small JSON
// files and the layer, itself a tar. https://github.com/opencontainers/image-spec

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type tarFile struct {
	name    string
	mode    int64
	content []byte
}

func writeTar(files []tarFile) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, file := range files {
		// No times and no owners, so that equal content gives equal digests.
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(file.content)), Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.content); err != nil {
			return nil, err
		}
	}
	return buffer.Bytes(), archive.Close()
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// programImage makes an image that runs one static program.
func programImage(name, programName string, program []byte, architecture string) ([]byte, error) {
	layer, err := writeTar([]tarFile{{programName, 0o755, program}})
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	packer, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // three nodes read it; nobody sends it anywhere
	if _, err := packer.Write(layer); err != nil {
		return nil, err
	}
	if err := packer.Close(); err != nil {
		return nil, err
	}

	blobs := []tarFile{}
	add := func(mediaType string, content []byte) descriptor {
		sum := digest(content)
		blobs = append(blobs, tarFile{"blobs/sha256/" + sum[len("sha256:"):], 0o644, content})
		return descriptor{MediaType: mediaType, Digest: sum, Size: len(content)}
	}
	layerBlob := add("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": architecture, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/" + programName}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": add("application/vnd.oci.image.config.v1+json", config), "layers": []descriptor{layerBlob},
	})
	if err != nil {
		return nil, err
	}
	entry := add("application/vnd.oci.image.manifest.v1+json", manifest)
	entry.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{entry}})
	if err != nil {
		return nil, err
	}
	return writeTar(append([]tarFile{
		{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index},
	}, blobs...))
}

// programArchive returns the path of a program's image, made once and kept beside the program.
func programArchive(name, program, architecture string) (string, error) {
	path := program + ".oci.tar"
	if exists(path) {
		return path, nil
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	image, err := programImage(name, filepath.Base(program), content, architecture)
	if err != nil {
		return "", fmt.Errorf("make the image %s: %w", name, err)
	}
	unfinished := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(unfinished, image, 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

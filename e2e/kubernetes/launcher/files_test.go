package main

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestCertificatesAreTrustedAndNamed(t *testing.T) {
	l := layout{t.TempDir()}
	if err := writeCertificates(l, 2); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(l.pki("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	check := func(file, server string, roots *x509.CertPool) error {
		pair, err := tls.LoadX509KeyPair(l.pki(file+".crt"), l.pki(file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: server, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err
	}
	for file, server := range map[string]string{
		"apiserver": controlPlaneAddress.String(), "node1": nodeAddress(1).String(), "node2": "node2", "apiserver-to-kubelet": "",
	} {
		if err := check(file, server, roots); err != nil {
			t.Errorf("%s as %q: %v", file, server, err)
		}
	}
	if check("apiserver", apiService, roots) != nil || check("apiserver", "kubernetes.default.svc", roots) != nil {
		t.Error("pods cannot trust the API server under its service's names")
	}
	if check("front-proxy", "", roots) == nil {
		t.Error("the front proxy's certificate is signed by the clients' authority")
	}
	if info, err := os.Stat(l.kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info, err)
	}
}

func TestKubeconfigHoldsItsCertificates(t *testing.T) {
	text := string(kubeconfig([]byte("CA"), "admin", identity{[]byte("CERT"), []byte("KEY")}))
	for _, part := range []string{"certificate-authority-data: Q0E=", "client-certificate-data: Q0VSVA==", "client-key-data: S0VZ", apiServerURL(), "user: admin"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
	if block, _ := pem.Decode([]byte(text)); block != nil {
		t.Error("a certificate stands in it in plain form")
	}
}

func TestProgramImageIsReproducibleAndComplete(t *testing.T) {
	first, err := programImage(pauseImage, "pause", []byte("program"), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	second, _ := programImage(pauseImage, "pause", []byte("program"), "amd64")
	if !bytes.Equal(first, second) {
		t.Error("the same program gave two different images")
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(bytes.NewReader(first)); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index %s: %v", files["index.json"], err)
	}
	if index.Manifests[0].Annotations["io.containerd.image.name"] != pauseImage {
		t.Errorf("the image has no name: %v", index.Manifests[0])
	}
	blob := func(d descriptor) []byte {
		content := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if len(content) != d.Size || digest(content) != d.Digest {
			t.Errorf("%s: %d bytes with digest %s", d.Digest, len(content), digest(content))
		}
		return content
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatal(manifest, err)
	}
	if config := string(blob(manifest.Config)); !strings.Contains(config, `"Entrypoint":["/pause"]`) {
		t.Error(config)
	}
	blob(manifest.Layers[0])
}

func TestBuildKeyChangesWithWhatMattersOnly(t *testing.T) {
	m := goModule{"folder", "program", ".", map[string]string{"a.b": "1"}}
	key := func(m goModule, files map[string]string, version string) string {
		sources := fstest.MapFS{}
		for name, content := range files {
			sources[name] = &fstest.MapFile{Data: []byte(content)}
		}
		key, err := m.key(sources, version)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	base := map[string]string{"go.mod": "m", "go.sum": "s", "main.go": "package main"}
	with := func(name, content string) map[string]string {
		changed := map[string]string{name: content}
		for other, text := range base {
			if other != name {
				changed[other] = text
			}
		}
		return changed
	}
	same := key(m, base, "go1.26")
	for _, files := range []map[string]string{with("README.md", "x"), with("main_test.go", "x")} {
		if key(m, files, "go1.26") != same {
			t.Errorf("%v needs no new build", files)
		}
	}
	for _, files := range []map[string]string{with("go.sum", "x"), with("main.go", "x"), with("sub/x.go", "x")} {
		if key(m, files, "go1.26") == same {
			t.Errorf("%v needs a new build", files)
		}
	}
	stamped := m
	stamped.stamps = map[string]string{"a.b": "2"}
	if key(m, base, "go1.27") == same || key(stamped, base, "go1.26") == same {
		t.Error("another compiler or another flag needs a new build")
	}
}

func TestFindRepo(t *testing.T) {
	root := t.TempDir()
	marker := filepath.Join(root, sourceFolder, "components")
	deep := filepath.Join(root, "a/b/c")
	for _, dir := range []string{marker, deep} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := findRepo(deep); err == nil || !strings.Contains(err.Error(), "--repo") {
		t.Errorf("without a repository: %v", err)
	}
	if err := os.WriteFile(filepath.Join(marker, "go.mod"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := findRepo(deep); err != nil || got != root {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestDaemonListSurvivesItsFile(t *testing.T) {
	l := layout{t.TempDir()}
	daemons := controlPlaneDaemons(l, binaries{Kube: "/bin/kube"})
	if err := writeMachine(l, controlPlane, nil, daemons); err != nil {
		t.Fatal(err)
	}
	read, err := readDaemons(l.machineFile(controlPlane, "daemons.json"))
	if err != nil || len(read) != len(daemons) || read[0].Name != "etcd" || read[0].Args[1] != "etcd" {
		t.Fatal(read, err)
	}
}

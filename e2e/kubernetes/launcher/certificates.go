package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is longer than any test run and short enough that no one keeps such a cluster.
const certificateLife = 90 * 24 * time.Hour

// authority signs the certificates of one purpose.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
	keyPem      []byte
}

// identity is a signed certificate with its key.
type identity struct{ certificate, key []byte }

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyPem, err := encodeKey(key)
	return &authority{certificate, key, encodeCertificate(der), keyPem}, err
}

// issue makes a certificate. Kubernetes reads a user's name from the common name and the groups from the organizations;
// names are DNS names or addresses of a server.
func (a *authority) issue(user, group string, names ...string) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return identity{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if group != "" {
		template.Subject.Organization = []string{group}
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return identity{}, fmt.Errorf("sign the certificate of %s: %w", user, err)
	}
	keyPem, err := encodeKey(key)
	return identity{encodeCertificate(der), keyPem}, err
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// kubeconfig is a client configuration that holds its certificates, so the file works wherever it is copied.
func kubeconfig(ca []byte, user string, id identity) []byte {
	code := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: castellan
clusters:
- name: castellan
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: castellan
  context:
    cluster: castellan
    user: %[3]s
`, apiServerURL(), code(ca), user, code(id.certificate), code(id.key))
}

// writeCertificates makes everything the cluster's members need to trust each other.
func writeCertificates(l layout, nodes int) error {
	if err := os.MkdirAll(l.pki(""), 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(prefix + "-ca")
	if err != nil {
		return err
	}
	// The API server refuses one authority for both clients and its aggregation layer: either could pose as the other.
	frontProxy, err := newAuthority(prefix + "-front-proxy-ca")
	if err != nil {
		return err
	}
	accounts, err := ca.issue("service-accounts", "")
	if err != nil {
		return err
	}
	files := map[string][]byte{
		l.pki("ca.crt"): ca.pem, l.pki("ca.key"): ca.keyPem, l.pki("front-proxy-ca.crt"): frontProxy.pem,
		l.pki("service-accounts.crt"): accounts.certificate, l.pki("service-accounts.key"): accounts.key,
	}
	pair := func(file string, signer *authority, user, group string, names ...string) error {
		id, err := signer.issue(user, group, names...)
		files[l.pki(file+".crt")], files[l.pki(file+".key")] = id.certificate, id.key
		return err
	}
	config := func(path, user, group string) error {
		id, err := ca.issue(user, group)
		files[path] = kubeconfig(ca.pem, user, id)
		return err
	}
	steps := []error{
		pair("apiserver", ca, "kube-apiserver", "", controlPlaneAddress.String(), apiService, "127.0.0.1", "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
		pair("apiserver-to-kubelet", ca, "kube-apiserver-kubelet-client", "system:masters"),
		pair("front-proxy", frontProxy, "front-proxy-client", ""),
		config(l.kubeconfig(), "admin", "system:masters"),
		config(l.pki("controller-manager.kubeconfig"), "system:kube-controller-manager", ""),
		config(l.pki("scheduler.kubeconfig"), "system:kube-scheduler", ""),
		config(l.pki("proxy.kubeconfig"), "system:kube-proxy", ""),
		config(l.pki("netpolicy.kubeconfig"), "castellan:network-policies", "system:masters"),
		config(l.pki("provisioner.kubeconfig"), "castellan:volume-provisioner", "system:masters"),
	}
	for number := 1; number <= nodes; number++ {
		name := nodeName(number)
		steps = append(steps, pair(name, ca, "system:node:"+name, "system:nodes", name, nodeAddress(number).String()),
			config(l.pki(name+".kubeconfig"), "system:node:"+name, "system:nodes"))
	}
	for _, err := range steps {
		if err != nil {
			return err
		}
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

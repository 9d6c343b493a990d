package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// api asks the API server the few questions the launcher has, much faster than a kubectl process each.
type api struct {
	client *http.Client
	log    string
}

func newAPI(l layout) (*api, error) {
	ca, err := os.ReadFile(l.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	own, err := tls.LoadX509KeyPair(l.pki("apiserver-to-kubelet.crt"), l.pki("apiserver-to-kubelet.key"))
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	return &api{
		client: &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{own}},
		}},
		log: l.logs(),
	}, nil
}

func (a *api) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, apiServerURL()+path, nil)
	if err != nil {
		return err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", path, response.Status, lastLines(string(body), 3))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// await looks again and again until the answer is yes; look also says what is still missing.
func (a *api) await(ctx context.Context, what string, look func() (missing string, ok bool)) error {
	for {
		missing, ok := look()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for %s: %s; the logs are in %s", what, missing, a.log)
		case <-time.After(pollPause):
		}
	}
}

func (a *api) ready(ctx context.Context) (string, bool) {
	if err := a.get(ctx, "/readyz", nil); err != nil {
		return err.Error(), false
	}
	return "", true
}

type condition struct{ Type, Status string }

type node struct {
	Metadata struct{ Name string }
	Status   struct{ Conditions []condition }
}

func (n node) ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

func (a *api) nodes(ctx context.Context) ([]node, error) {
	var list struct{ Items []node }
	err := a.get(ctx, "/api/v1/nodes", &list)
	return list.Items, err
}

func (a *api) nodesReady(ctx context.Context, wanted int) (string, bool) {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return err.Error(), false
	}
	count := 0
	for _, n := range nodes {
		if n.ready() {
			count++
		}
	}
	return fmt.Sprintf("%d of %d nodes are Ready", count, wanted), count == wanted
}

func (a *api) deploymentReady(ctx context.Context, namespace, name string) (string, bool) {
	var deployment struct {
		Spec   struct{ Replicas int }
		Status struct{ ReadyReplicas int }
	}
	if err := a.get(ctx, "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, &deployment); err != nil {
		return err.Error(), false
	}
	wanted, ready := deployment.Spec.Replicas, deployment.Status.ReadyReplicas
	return fmt.Sprintf("%d of %d pods of %s/%s are Ready", ready, wanted, namespace, name), wanted > 0 && ready == wanted
}

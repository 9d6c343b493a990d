package main

import (
	"fmt"
)

// controlPlaneDaemons are the programs of the control plane. All start at once; each waits for the others by itself.
func controlPlaneDaemons(l layout, bin binaries) []daemon {
	kube := func(component string, args ...string) daemon {
		return daemon{Name: component, Args: append([]string{bin.Kube, component}, args...), Log: l.log(controlPlane, component)}
	}
	return []daemon{
		kube("etcd",
			"--data-dir="+l.machineFile(controlPlane, "etcd"),
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380",
			// A cluster to throw away: the disk's time belongs to what is under test.
			"--unsafe-no-fsync", "--log-level=warn",
		),
		kube("kube-apiserver",
			"--etcd-servers=http://127.0.0.1:2379",
			"--advertise-address="+controlPlaneAddress.String(), "--bind-address=0.0.0.0", fmt.Sprintf("--secure-port=%d", apiPort),
			"--tls-cert-file="+l.pki("apiserver.crt"), "--tls-private-key-file="+l.pki("apiserver.key"),
			"--client-ca-file="+l.pki("ca.crt"),
			"--service-account-key-file="+l.pki("service-accounts.crt"),
			"--service-account-signing-key-file="+l.pki("service-accounts.key"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-cluster-ip-range="+serviceRange,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			"--kubelet-client-certificate="+l.pki("apiserver-to-kubelet.crt"),
			"--kubelet-client-key="+l.pki("apiserver-to-kubelet.key"),
			"--kubelet-certificate-authority="+l.pki("ca.crt"),
			// Node names resolve nowhere: logs and exec go to addresses.
			"--kubelet-preferred-address-types=InternalIP",
			"--requestheader-client-ca-file="+l.pki("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-username-headers=X-Remote-User",
			"--proxy-client-cert-file="+l.pki("front-proxy.crt"), "--proxy-client-key-file="+l.pki("front-proxy.key"),
			// Webhooks are dialled at their pods, so they work even before a service address does.
			"--enable-aggregator-routing=true",
		),
		kube("kube-controller-manager",
			"--kubeconfig="+l.pki("controller-manager.kubeconfig"),
			"--service-account-private-key-file="+l.pki("service-accounts.key"), "--root-ca-file="+l.pki("ca.crt"),
			"--cluster-signing-cert-file="+l.pki("ca.crt"), "--cluster-signing-key-file="+l.pki("ca.key"),
			// At the default 20 requests a second, the controllers' own service accounts alone take seconds.
			"--kube-api-qps=300", "--kube-api-burst=600",
			"--use-service-account-credentials", "--cluster-cidr="+podRange, "--leader-elect=false",
			// By default a claim that waits for its pod is looked at every 15 s.
			"--pvclaimbinder-sync-period=1s",
			// A lost node is noticed after 12 s instead of 50 s: tests lose nodes all the time.
			"--node-monitor-period=1s", "--node-monitor-grace-period=12s",
		),
		kube("kube-scheduler", "--kubeconfig="+l.pki("scheduler.kubeconfig"), "--leader-elect=false",
			"--kube-api-qps=300", "--kube-api-burst=600"),
		// Turns service addresses into pod addresses for the host and the API server. It reads the facts of node1,
		// because a kube-proxy waits half a minute for a node object of its own name.
		kubeProxy(l, bin, controlPlane, nodeName(1), "--bind-address="+controlPlaneAddress.String()),
		{
			Name: "provisioner", Log: l.log(controlPlane, "provisioner"),
			Args: []string{bin.Provisioner, "--kubeconfig=" + l.pki("provisioner.kubeconfig"), "--root=" + l.volumes()},
		},
	}
}

func kubeProxy(l layout, bin binaries, machine, node string, args ...string) daemon {
	return daemon{Name: "kube-proxy", Log: l.log(machine, "kube-proxy"), Args: append([]string{
		bin.Kube, "kube-proxy", "--kubeconfig=" + l.pki("proxy.kubeconfig"), "--hostname-override=" + node,
		"--cluster-cidr=" + podRange, "--proxy-mode=iptables",
		// Leave the machine-wide connection tracking limits alone: changing them needs more than root in a sandbox.
		"--conntrack-max-per-core=0", "--conntrack-min=0",
		"--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
	}, args...)}
}

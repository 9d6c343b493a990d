// castellan-kube: a real Kubernetes on one machine. Standard library only, so that it builds in a second anywhere.
module castellan/e2e/kubernetes/launcher

go 1.25.0

// The program that holds a pod's namespaces.
module castellan/e2e/kubernetes/pause

go 1.25.0

// The program inside the smoke test's pods.
module castellan/e2e/kubernetes/smoke

go 1.25.0

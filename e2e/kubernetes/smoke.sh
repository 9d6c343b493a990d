#!/bin/bash
# Proves the cluster from nothing to nothing: volumes, names, services, policies, exec, faults, teardown. Replaces a running one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
work=$repo/target/kubernetes/smoke
mkdir -p "$work"
kube=$work/castellan-kube
(cd "$here/launcher" && CGO_ENABLED=0 go build -o "$kube" .)
(cd "$here/smoke" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/context/smoke" .)
cd "$repo"

began=$(date +%s%N)
step() { printf '%7.2f s  ok: %s\n' "$((($(date +%s%N) - began) / 10000000))e-2" "$*"; }
die() { echo "smoke: $*" >&2; exit 1; }
k() { "$kube" kubectl "$@"; }
# until_true SECONDS WHAT COMMAND...: wait for a command to succeed
until_true() {
  local limit=$1 what=$2; shift 2
  for ((i = 0; i < limit * 5; i++)); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
  die "not within $limit s: $what"
}
ready() { [ "$(k get pod "$1" -n smoke -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" = "${2:-True}" ]; }
node_ready() { [ "$(k get node "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" = "$2" ]; }
all_ready() { [ "$(k get statefulset web -n smoke -o jsonpath='{.status.readyReplicas}')" = 3 ]; }
address() { k get pod "$1" -n smoke -o jsonpath='{.status.podIP}'; }
content() { curl -sS -m 3 "http://$(address "$1"):8080/"; }
replaced() { [ "$(k get pod web-0 -n smoke -o jsonpath='{.metadata.uid}')" != "$1" ] && ready web-0; }

"$kube" down
"$kube" up
step "up"
[ "$("$kube" up | tail -1)" = "$repo/target/kubernetes/run/admin.kubeconfig" ] || die "a second up does not print the kubeconfig"
step "a second up returns at once"

"$kube" image --dockerfile "$here/smoke/Dockerfile" --context "$work/context" --name castellan.local/smoke:1 --out "$work/smoke.tar"
"$kube" import "$work/smoke.tar"
step "image built from a Dockerfile and imported"
k apply -f "$here/smoke/workload.yaml" >/dev/null
until_true 60 "three pods with volumes Ready" all_ready
step "three pods with volumes Ready, under restricted pod security"

k exec -n smoke web-0 -- /smoke lookup web-1.web.smoke.svc.cluster.local | grep -qx "$(address web-1)" || die "wrong address for web-1"
k exec -n smoke web-0 -- /smoke lookup web | sort -u | wc -l | grep -qx 3 || die "the headless service does not have three addresses"
outside=$(k exec -n smoke web-0 -- /smoke lookup example.com 2>&1 || true)
grep -q 'no such host' <<<"$outside" || die "an outside name is not answered with: no such host"
step "names of a headless service resolve in a pod"

for n in 0 1 2; do curl -sS -m 3 -X PUT --data "data of web-$n" "http://$(address web-$n):8080/"; done
service=$(k get service web-client -n smoke -o jsonpath='{.spec.clusterIP}')
for _ in 1 2 3 4 5; do curl -sS -m 3 "http://$service/" | grep -q '^data of web-' || die "the service does not answer the host"; done
step "the host reaches pods and services"
[ "$(k exec -n smoke web-0 -- /smoke get http://web-client/ | cut -c1-12)" = "data of web-" ] || die "the service does not answer a pod"
k logs -n smoke web-0 >/dev/null
k port-forward -n smoke pod/web-0 18080:8080 >/dev/null 2>&1 & forward=$!
until_true 10 "port-forward" curl -fsS -m 1 http://127.0.0.1:18080/
kill $forward
step "service from a pod, exec, logs, port-forward"

# visit NAME LABELS PHASE: a pod of its own asks web-0 and ends in that phase
visit() {
  k run "$1" -n default --labels "$2" --image castellan.local/smoke:1 --image-pull-policy=Never --restart=Never --command -- /smoke get http://web-0.web.smoke:8080/ >/dev/null
  until_true 20 "pod $1 ends as $3" sh -c "'$kube' kubectl get pod $1 -n default -o jsonpath='{.status.phase}' | grep -qx $3"
  k delete pod "$1" -n default --now >/dev/null
}
k apply -f "$here/smoke/policy.yaml" >/dev/null
sleep 1
visit friend friend=yes Succeeded
visit stranger friend=no Failed
ready web-0 || die "the policy keeps the kubelet's probes out"
k delete -f "$here/smoke/policy.yaml" >/dev/null
sleep 1
visit stranger friend=no Succeeded
step "a network policy keeps strangers out and lets friends in"

uid=$(k get pod web-0 -n smoke -o jsonpath='{.metadata.uid}')
k delete pod web-0 -n smoke >/dev/null
until_true 30 "web-0 Ready again" replaced "$uid"
[ "$(content web-0)" = "data of web-0" ] || die "web-0 lost its data with its pod"
step "a deleted pod comes back with its data"

restarts=$(k get pod web-1 -n smoke -o jsonpath='{.status.containerStatuses[0].restartCount}')
kill -9 "$("$kube" pod-pids smoke web-1)"
restarted() { [ "$(k get pod web-1 -n smoke -o jsonpath='{.status.containerStatuses[0].restartCount}')" -gt "$restarts" ] && ready web-1; }
until_true 30 "web-1 restarted" restarted
step "a killed process is restarted (pod-pids)"

"$kube" daemon kill node2 kubelet
"$kube" daemon kill node2 containerd
sleep 1
node=$(k get pod web-2 -n smoke -o jsonpath='{.spec.nodeName}')
"$kube" power-off "$node"
until_true 30 "$node not Ready" node_ready "$node" Unknown
step "$node without power is noticed"
k run dns-check -n default --image castellan.local/smoke:1 --image-pull-policy=Never --restart=Never --command -- /smoke lookup web-0.web.smoke.svc.cluster.local >/dev/null
until_true 30 "names resolve while $node is off" sh -c "'$kube' kubectl get pod dns-check -n default -o jsonpath='{.status.phase}' | grep -q Succeeded"
k delete pod dns-check -n default --now >/dev/null
step "names resolve while it is off"
"$kube" power-on "$node"
until_true 60 "$node Ready" node_ready "$node" True
until_true 60 "all pods Ready" all_ready
[ "$(content web-2)" = "data of web-2" ] || die "web-2 lost its data with the power"
step "$node is back, with its data"

volume=$(k get pvc data-web-2 -n smoke -o jsonpath='{.spec.volumeName}')
folder=$(k get pv "$volume" -o jsonpath='{.spec.local.path}')
[ -d "$folder" ] || die "no folder $folder"
k delete namespace smoke >/dev/null
until_true 30 "the volumes are deleted" sh -c "! '$kube' kubectl get pv -o name | grep -q ."
[ ! -e "$folder" ] || die "$folder is still there after its claim was deleted"
step "volumes go with their claims"

left=$("$kube" down) || die "down failed: $left"
grep -q 'left: processes=0 mounts=0 namespaces=0 cgroups=0 loop-devices=0 links=0' <<<"$left" || die "down left something behind: $left"
grep -q '"up": false' <<<"$("$kube" status --json)" || die "status still says up"
step "down, nothing left"

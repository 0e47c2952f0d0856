#!/usr/bin/env bash
# A tour of two minutes: what pods get, why, and what can go wrong. It reads the
# examples and changes nothing.
set -u
cd "$(dirname "$0")/.."
node=examples/node/kubelet.yaml

say() { printf '\n# %s\n' "$*"; }
show() {
  printf '$ dnsconfigurer %s\n' "$*"
  bin/dnsconfigurer "$@"
  local code=$?
  [ "$code" = 0 ] || printf '(exit code %d)\n' "$code"
}

say "The resolv.conf of a pod, on the node in examples/node."
show render -f examples/clusterfirst.yaml --kubelet-config "$node"

say "The reason for each entry: its rule and its source. Dropped entries are listed, too."
show render -f examples/deployment.yaml --kubelet-config "$node" -o explain

say "The queries that the C library in the pod sends for a name. The manifests simulate the cluster DNS."
show lookup -f examples --kubelet-config "$node" --pod shop/web payments

say "An external name: every search domain is tried first. Nothing leaves this machine; queries that are not sent are marked."
show lookup -f examples --kubelet-config "$node" --pod shop/web www.example.com

say "The gateway has ndots:2: two queries instead of twelve."
show lookup -f examples --kubelet-config "$node" --pod shop/gateway www.example.com

say "The drawback of ndots:2: payments.shop.svc is first queried outside the cluster. glibc then searches; musl, as in Alpine images, does not."
show lookup -f examples --kubelet-config "$node" --pod shop/gateway payments.shop.svc --libc musl

say "The same external name with a node cache and autopath: 2 queries instead of 12. The cluster DNS expands the search list."
show lookup -f examples --config examples/node/shim.yaml --pod shop/web --compare www.example.com

say "The same as JSON, one object per line."
show render -f examples/statefulset.yaml --kubelet-config "$node" -o json

say "Autopath: one search domain instead of five, expanded by the server."
show render -f examples/autopath.yaml --config examples/node/shim.yaml

say "An error before it is applied: this pod would stay pending."
show render -f examples/trouble/fqdn-too-long.yaml --kubelet-config "$node"

say "Lists that the node cuts with an event only, and a search line that musl ignores."
show render -f examples/trouble/cut.yaml --kubelet-config "$node"

say "A value that would add a nameserver line is left out."
show render -f examples/trouble/injection.yaml --kubelet-config "$node"

say "All findings before anything is applied, for a pipeline (-o github, -o json)."
show validate -f examples/trouble

say "A check of a node's configuration and its resolv.conf."
show config check "$node"
echo "no findings."

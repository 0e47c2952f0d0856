#!/usr/bin/env bash
# The two-minute tour: what pods get, why, and what goes wrong. It reads the
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

say "An ordinary pod, on the node that examples/node describes."
show render -f examples/clusterfirst.yaml --kubelet-config "$node"

say "Why? Every entry names its rule and its source; what was dropped is there too."
show render -f examples/deployment.yaml --kubelet-config "$node" -o explain

say "What a name costs: the very queries of the C library in the pod. The manifests answer for the cluster DNS."
show lookup -f examples --kubelet-config "$node" --pod shop/web payments

say "A name from outside: every search domain first. Nothing leaves this machine; what is not asked is said."
show lookup -f examples --kubelet-config "$node" --pod shop/web www.example.com

say "The gateway has ndots:2: two queries instead of twelve."
show lookup -f examples --kubelet-config "$node" --pod shop/gateway www.example.com

say "The price: payments.shop.svc goes outside first. glibc would search after that; musl, in an Alpine image, never does."
show lookup -f examples --kubelet-config "$node" --pod shop/gateway payments.shop.svc --libc musl

say "The same name from outside with a node cache and autopath: 2 queries instead of 12. The cluster DNS goes along the search list."
show lookup -f examples --config examples/node/shim.yaml --pod shop/web --compare www.example.com

say "The same for machines: one object a line."
show render -f examples/statefulset.yaml --kubelet-config "$node" -o json

say "One search domain instead of five, expanded by the server."
show render -f examples/autopath.yaml --config examples/node/shim.yaml

say "What would go wrong, before anybody applies it: this pod would be Pending for ever."
show render -f examples/trouble/fqdn-too-long.yaml --kubelet-config "$node"

say "Cut by the node, which says so only in an event; and of no use in an Alpine image."
show render -f examples/trouble/cut.yaml --kubelet-config "$node"

say "A value that would write a nameserver line of its own is left out."
show render -f examples/trouble/injection.yaml --kubelet-config "$node"

say "All that can be known before it is applied, for a pipeline (-o github, -o json)."
show validate -f examples/trouble

say "A node's configuration and its resolv.conf, checked."
show config check "$node"
echo "nothing to report."

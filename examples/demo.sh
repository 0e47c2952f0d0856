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

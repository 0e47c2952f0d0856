#!/usr/bin/env bash
# A tour of two minutes: what pods get, why, and what can go wrong. It reads the
# examples and changes nothing. Its DNS servers are on loopback addresses.
set -u
cd "$(dirname "$0")" || exit
program=${DNSCONFIGURER:-../bin/dnsconfigurer}
upstream=${DEMO_UPSTREAM:-127.0.0.1:15353}
cache=${DEMO_CACHE:-127.0.0.1:15354}
node=node/kubelet.yaml
log=$(mktemp)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait; rm -f "$log"' EXIT

say() { printf '\n'; printf '# %s\n' "$*" | fold -s -w 78 | sed '2,$s/^/# /'; }

# wrap breaks lines for a terminal of 80 columns.
wrap() { fold -s -w 80 | sed 's/ *$//'; }

# command_line prints a command line as one would type it.
command_line() {
  local words=() word
  for word; do
    case $word in '' | *[*]*) word="'$word'" ;; esac
    words+=("$word")
  done
  printf '$ dnsconfigurer %s\n' "${words[*]}" | fold -s -w 76 | sed '$!s/ *$/ \\/; 2,$s/^/  /'
}

# serve starts a server of dnsconfigurer and returns when it serves.
serve() {
  command_line "$@" '&'
  "$program" "$@" 2>"$log" &
  servers+=($!)
  for _ in $(seq 100); do
    grep -q msg=serving "$log" && return
    sleep 0.1
  done
  cat "$log"
}

show() {
  command_line "$@"
  "$program" "$@" 2>&1 | wrap
  local code=${PIPESTATUS[0]}
  [ "$code" = 0 ] || printf '(exit code %d)\n' "$code"
}

say "The resolv.conf of a pod, on the node in examples/node."
show render -f clusterfirst.yaml --kubelet-config "$node"

say "The reason for each entry: its rule and its source. Dropped entries are listed, too."
show render -f deployment.yaml --kubelet-config "$node" -o explain

say "The queries that the C library in the pod sends for a name. The manifests simulate the cluster DNS."
show lookup -f '*.yaml' --kubelet-config "$node" --pod shop/web payments

say "Names outside the cluster need a server: here it is the cluster DNS of this project, for the cluster of a partner."
serve dns --config node/dns.yaml --manifests . --cluster-domain partner.example --listen $upstream

say "An external name: every search domain is tried first."
external=payments.shop.svc.partner.example
show lookup -f '*.yaml' --kubelet-config "$node" --pod shop/web $external --upstream $upstream

say "The gateway has ndots:2: two queries instead of twelve."
show lookup -f '*.yaml' --kubelet-config "$node" --pod shop/gateway $external --upstream $upstream

say "The drawback of ndots:2: payments.shop.svc is first queried outside the cluster. glibc then searches; musl, as in Alpine images, does not."
show lookup -f '*.yaml' --kubelet-config "$node" --pod shop/gateway payments.shop.svc --libc musl --upstream $upstream

say "The same external name with a node cache and autopath: 2 queries of the pod instead of 12, and the same result. The cluster DNS expands the search list."
show lookup -f '*.yaml' --config node/shim.yaml --pod shop/web --compare $external --upstream $upstream

if [ "$(uname)" = Linux ]; then
  say "A node cache in front of that server. It keeps answering when the server is gone."
  serve nodecache --config node/nodecache.yaml --listen $cache --cluster-dns $upstream --cluster-domain partner.example
  show lookup -f '*.yaml' --kubelet-config "$node" --pod shop/gateway $external --server $cache
  kill "${servers[0]}"
  show lookup -f '*.yaml' --kubelet-config "$node" --pod shop/gateway $external --server $cache
fi

say "The same as JSON, one object per line."
show render -f statefulset.yaml --kubelet-config "$node" -o json

say "Autopath: one search domain instead of five, expanded by the server."
show render -f autopath.yaml --config node/shim.yaml

say "An error before it is applied: this pod would stay pending."
show render -f trouble/fqdn-too-long.yaml --kubelet-config "$node"

say "Lists that the node cuts with an event only, and a search line that musl ignores."
show render -f trouble/cut.yaml --kubelet-config "$node"

say "A value that would add a nameserver line is left out."
show render -f trouble/injection.yaml --kubelet-config "$node"

say "All findings before anything is applied, for a pipeline (-o github, -o json)."
show validate -f trouble

say "The same checks at kubectl apply: as policies of the API server, or as a webhook."
show policies | grep -A3 '^kind: ValidatingAdmissionPolicy$' | head -4

say "On a node, the shim or the agent writes what render has shown. Node rules change it for chosen pods."
show render --config node/agent.yaml -f clusterfirst.yaml -o explain

say "A check of a node's configuration and its resolv.conf."
show config check "$node"

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"strings"
)

// fates has what becomes of plugins, and of properties as "PLUGIN PROPERTY". Without a text the server always does the
// same; ! marks what changes answers. What is missing has no counterpart. A plugin that fewer than one in fifty Corefiles
// have is refused.
const fates = `
errors, loop, reload, loadbalance, local, any, minimal, cancel, metadata, template upstream, file reload, file reload_by_mtime =
file upstream, cache prefetch, cache disable, forward prefer_udp =
errors consolidate, errors stacktrace, debug = the log of this server has no such option
! loadbalance weighted, loadbalance prefer = addresses are rotated
cache serve_stale_policy = docs/dns.md#last-known-good
pprof, trace, nsid = has no counterpart
dnstap = has no counterpart: queryLog writes text or JSON
timeouts, forward max_fails, forward expire, forward health_check = times and limits are fixed: docs/dns.md#forwarding-and-cache
forward max_age, forward read_timeout, forward max_idle_conns = times and limits are fixed: docs/dns.md#forwarding-and-cache
forward max_connect_attempts, forward failfast_all_unhealthy_upstreams = times and limits are fixed: docs/dns.md#forwarding-and-cache
multisocket = each address has one socket with several readers
bufsize = replies over UDP have at most 1232 octets
root = write full paths
autopath = clients try their search list; docs/dns.md#autopath describes the search on the server
! acl = all clients are answered: use a NetworkPolicy
! view = all clients get the same answers
! whoami = has no counterpart
template ederror = replies with SERVFAIL and REFUSED have the extended error 15
! file fallthrough = names that the file does not have get NXDOMAIN
! dns64 = has no counterpart: use upstream servers with DNS64
! k8s_external = has no counterpart: use external-dns with a public zone
! tls = only DNS over UDP and TCP is served
cache = TTLs of other servers are kept, and not capped or raised; times and limits are fixed: docs/dns.md#forwarding-and-cache
cache success, cache denial = maxMemory limits the cache
cache serve_stale = a stale answer is served while servers fail or take longer than 1.8 s, for an hour
cache servfail = failures are cached for 5 s
cache keepttl = TTLs count down
forward source_address = the kernel selects the source address
! forward except = has no counterpart: these names are forwarded, too
kubernetes startup_timeout = names of the cluster get SERVFAIL until they are loaded
kubernetes apiserver_qps, kubernetes apiserver_burst, kubernetes apiserver_max_inflight = objects are watched, requests are few
! kubernetes endpoint_pod_names = endpoints without a hostname are named by their address
! kubernetes namespaces, kubernetes namespace_labels = the Services of all namespaces are served
! kubernetes labels = all Services are served
! kubernetes noendpoints = names of endpoints are served
! kubernetes ignore = a Service without endpoints has an address
! kubernetes multicluster = names of ServiceImports are not served: use a stub domain
! kubernetes endpoint = write a kubeconfig with this API server, and set kubeconfig
! kubernetes tls = write a kubeconfig with these files, and set kubeconfig
`

// fateOf returns what fates has about a key.
func fateOf(key string) (text string, changes, known bool) {
	for line := range strings.Lines(fates) {
		keys, text, _ := strings.Cut(strings.TrimSpace(line), " =")
		keys, changes := strings.CutPrefix(keys, "! ")
		if slices.Contains(strings.Split(keys, ", "), key) {
			return strings.TrimSpace(text), changes, true
		}
	}
	return "", false, false
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// removed has what replaces the fields of 0.1.0. The tables are for one release.
var removed = map[string]string{
	"limits.maxConcurrent": byMaxQueries, "limits.clusterShare": byMaxQueries, "limits.reverseShare": byMaxQueries,
	"limits.searchShare": byMaxQueries, "limits.searchRate": byMaxQueries, "limits.searchBurst": byMaxQueries,
	"limits.maxTCPQueries": byMaxQueries, "limits.maxConnectionQueries": byMaxQueries,
	"limits.maxConnections": byMaxMemory, "limits.maxClientConnections": byMaxMemory,
	"limits.maxReplyMiB": byMaxMemory, "limits.maxClientReplyMiB": byMaxMemory,
	"limits.maxCacheEntries": byMaxMemory, "limits.maxCacheMiB": byMaxMemory,

	"selfSigned": byTLS, "namespace": byTLS,
	"refresh": byAgent, "refreshDryRun": byAgent, "sandboxDirectories": byAgent, "statusSocket": byAgent,

	"refreshRate":           "it was removed: 200 files a second are rewritten",
	"verifyInterval":        "it was removed: files are compared every 5 minutes",
	"snapshot.wait":         "it was removed: the snapshot is used after 2 seconds without a reply",
	"snapshot.maxAge":       "it was removed: a snapshot is used for 24 hours",
	"localNames.specialUse": "it was removed: to forward such names, list their domain in stubDomains",
}

// removedFlags has the fields that replace the flags of 0.1.0.
var removedFlags = map[string]string{
	"autopath-network": "autopathNetworks", "autopath-service": "autopathService", "autopath-suffix": "autopathSuffix",
	"cluster-dns": "node.clusterDNS", "cluster-domain": "node.clusterDomain", "deny-on": "denyOn", "edns-option": "ednsOption",
	"host-suffix": "hostSuffixes", "ignore": "ignore", "in-cluster": "inCluster", "interface": "interface",
	"kubeconfig": "kubeconfig", "kubelet-config": "node.kubeletConfig", "kubelet-config-dir": "node.kubeletConfigDir",
	"lameduck": "lameduck", "manifests": "manifests", "node-ip": "node.nodeIPs", "notrack": "notrack", "pods": "pods",
	"resolv-conf": "resolvConf (shim and agent: node.resolvConf)", "reverse-cidr": "reverseCIDRs",
	"runtime-endpoint": "runtimeEndpoint", "snapshot": "snapshot.path", "stub-domain": "stubDomains",
	"tls-cert": "tls.certFile", "tls-key": "tls.keyFile", "ttl": "ttl", "upstream-policy": "upstreamPolicy",
}

// FlagReplacement returns the field that replaces a flag of 0.1.0; "" if it is not one.
func FlagReplacement(flag string) string { return removedFlags[flag] }

const (
	byTLS        = "tls.certFile and tls.keyFile have replaced it: cert-manager or the Helm chart makes these files"
	byAgent      = "it is a field of AgentConfiguration: the agent keeps running pods up to date (docs/nodes.md#with-the-shim)"
	byMaxQueries = "limits.maxQueries has replaced it"
	byMaxMemory  = "limits.maxMemory has replaced it"
)

// Replacement returns what replaces a field of 0.1.0; "" if it is not one.
func Replacement(field string) string { return removed[field] }

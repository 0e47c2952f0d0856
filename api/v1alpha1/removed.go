// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// removed has what replaces the fields of 0.1.0. The tables are for one release.
var removed = map[string]string{
	"limits":         "maxQueries and maxMemory have replaced it",
	"localNames":     byOthers,
	"autopathSuffix": bySuffix, "autopath.suffix": bySuffix,
	"snapshot":   "write the path, which was snapshot.path",
	"ednsOption": "it was removed: the code of the option is 65313",

	"selfSigned": byTLS, "namespace": byTLS,
	"kubeconfig": "it was removed: the webhook reads no objects of the API server",
	"refresh":    byAgent, "refreshDryRun": "it was removed: refresh of AgentConfiguration can be DryRun", "sandboxDirectories": byAgent,
	"inCluster":             "it was removed: without kubeconfig, an agent in a pod uses its service account",
	"queryLog.file":         "it was removed: the log is on standard output, in the log of the container or the service",
	"statusSocket":          "it was removed: the socket is agent-status.sock beside the agent's",
	"node.uplinkResolvConf": "set hostResolver to this path",

	"drainTimeout":   "it was removed: calls have 4 seconds when the shim stops",
	"refreshRate":    "it was removed: 200 files a second are rewritten",
	"verifyInterval": "it was removed: files are compared every 5 minutes",
}

// removedFlags has the fields that replace the flags of 0.1.0.
var removedFlags = map[string]string{
	"autopath-network": "autopathNetworks", "autopath-service": "autopathService",
	"cluster-dns": "node.clusterDNS", "cluster-domain": "node.clusterDomain", "deny-on": "denyOn",
	"host-suffix": "hostSuffixes", "ignore": "ignore", "interface": "interface",
	"kubeconfig":     "kubeconfig (webhook: leave it out)",
	"kubelet-config": "node.kubeletConfig", "kubelet-config-dir": "node.kubeletConfigDir", "lameduck": "lameduck",
	"log-format": "logFormat", "manifests": "manifests",
	"namespace": "tls.certFile and tls.keyFile (webhook)", "node-ip": "node.nodeIPs", "notrack": "notrack", "pods": "pods",
	"resolv-conf": "resolvConf (shim and agent: node.resolvConf)", "reverse-cidr": "reverseCIDRs",
	"runtime-endpoint": "runtimeEndpoint", "snapshot": "snapshot", "stub-domain": "stubDomains",
	"tls-cert": "tls.certFile", "tls-key": "tls.keyFile", "ttl": "ttl", "upstream-policy": "upstreamPolicy",
}

// removedOtherFlags has what replaces the flags of 0.1.0 that no field replaces.
var removedOtherFlags = map[string]string{
	"autopath-suffix": bySuffix, "edns-option": removed["ednsOption"], "self-signed": byTLS,
	"config":           "install, uninstall, bypass and status read /etc/dnsconfigurer/shim.yaml",
	"in-cluster":       "it was removed: without kubeconfig, an agent in a pod uses its service account",
	"max-objects":      "it was removed: 50,000 objects of each kind are read",
	"snapshot-max-age": "it was removed: a snapshot is valid for 24 hours",
	"snapshot-wait":    "it was removed: the API server has 2 seconds",
	"strict":           "validate has it",
	"textfile-dir":     "it was removed: the event ShimBypassed and dnsconfigurer status report a bypass",
	"verbose":          "--fail-on info and -o json print findings of severity info",
}

// FlagReplacement returns what replaces a flag of 0.1.0; "" if it is not one. Only commands with a
// configuration file have replaced flags by fields.
func FlagReplacement(flag string, hasFile bool) string {
	if field := removedFlags[flag]; field != "" && hasFile {
		return "set " + field + " in the file of --config"
	}
	return removedOtherFlags[flag]
}

const (
	byOthers = "list private networks in reverseCIDRs; to forward special names, list their domain in stubDomains"
	bySuffix = "it was removed: the autopath domain is ap.k8s.io"
	byTLS    = "tls.certFile and tls.keyFile have replaced it: cert-manager or the Helm chart makes these files"
	byAgent  = "it is a field of AgentConfiguration: the agent keeps running pods up to date (docs/nodes.md#with-the-shim)"
)

// Replacement returns what replaces a field of 0.1.0; "" if it is not one.
func Replacement(field string) string { return removed[field] }

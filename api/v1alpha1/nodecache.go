// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// KindNodeCache is the kind of the file that describes the DNS cache on a node.
const KindNodeCache = "NodeCacheConfiguration"

// What the DNS cache on a node does unless it is told otherwise.
const (
	DefaultNodeCacheListen = "169.254.20.10:53"
	DefaultAutopathSuffix  = "ap.k8s.io"
	DefaultEDNSOption      = 65313
)

// NodeCacheConfiguration describes the DNS cache on a node: where pods ask it, whom it
// asks, and how it has the cluster DNS go along search lists. Paths that are relative
// count from the directory in which the server runs.
type NodeCacheConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen lists where queries are taken, over UDP and TCP, as "169.254.20.10:53" or
	// "[fd00:20::10]:53". Empty: "169.254.20.10:53". Two instances may have the same;
	// the one that began last takes the queries.
	Listen []string `json:"listen,omitempty"`

	// Interface is the name of a network interface of type dummy that gets the addresses
	// of Listen. It is made if there is none, and stays when the server ends. Empty: the
	// node has the addresses.
	Interface string `json:"interface,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// ClusterDNS lists the servers that know the cluster's names: ADDR, ADDR:PORT, or
	// tcp://ADDR for TCP alone. Required. Names of the cluster, all reverse names and
	// those with a search list are asked of these.
	ClusterDNS []string `json:"clusterDNS,omitempty"`

	// ClusterDomain is the domain of the cluster. Empty: "cluster.local".
	ClusterDomain string `json:"clusterDomain,omitempty"`

	// Upstreams lists the servers that are asked for names of others: ADDR, ADDR:PORT,
	// tcp://ADDR for TCP alone, or tls://ADDR#NAME for DNS over TLS. Empty: those of
	// ResolvConf.
	Upstreams []string `json:"upstreams,omitempty"`

	// ResolvConf is the path of the node's file, followed as it changes: of the servers
	// that stand in for Upstreams, and of the domains that end the search lists of
	// autopath. Absent: "/etc/resolv.conf". "": there is none, names of others are
	// refused if Upstreams is empty, too.
	ResolvConf *string `json:"resolvConf,omitempty"`

	// StubDomains lists domains that have servers of their own. Of several that a name
	// is in the longest counts. Empty: none.
	StubDomains []StubDomain `json:"stubDomains,omitempty"`

	// AutopathSuffix is the domain below which names are looked for along a search list.
	// Empty: "ap.k8s.io".
	AutopathSuffix string `json:"autopathSuffix,omitempty"`

	// EDNSOption is the code by which the list is sent to the cluster DNS, 65001 to
	// 65534. 0: 65313.
	EDNSOption uint16 `json:"ednsOption,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`
}

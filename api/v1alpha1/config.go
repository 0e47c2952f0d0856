// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// GroupVersion is the apiVersion of every configuration file.
const GroupVersion = "dnsconfigurer.dev/v1alpha1"

// The kinds of configuration files.
const (
	KindShim      = "ShimConfiguration"
	KindAgent     = "AgentConfiguration"
	KindDNS       = "DNSConfiguration"
	KindNodeCache = "NodeCacheConfiguration"
	KindWebhook   = "WebhookConfiguration"
)

// Defaults of several kinds, and of the flags that set node facts.
const (
	DefaultClusterDNS     = "10.96.0.10"
	DefaultClusterDomain  = "cluster.local"
	DefaultResolvConf     = "/etc/resolv.conf"
	DefaultAutopathSuffix = "ap.k8s.io"
	DefaultEDNSOption     = 65313
	DefaultLogFormat      = "text"
)

// TypeMeta is the type of a configuration file. Both fields are required.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// NodeConfiguration is the node's DNS configuration as its kubelet has it. A field that is
// set here overrides the kubelet's file.
type NodeConfiguration struct {
	// KubeletConfig is the path of the node's KubeletConfiguration, which has clusterDNS,
	// clusterDomain and resolvConf. A relative path is resolved from the directory of this
	// file. Empty: none.
	KubeletConfig string `json:"kubeletConfig,omitempty"`

	// KubeletConfigDir is the directory of the kubelet's flag --config-dir. Its files with the
	// extension .conf override KubeletConfig, as in the kubelet. A relative path is resolved
	// from the directory of this file. Empty: none.
	KubeletConfigDir string `json:"kubeletConfigDir,omitempty"`

	// ClusterDNS lists the addresses of the cluster DNS. Absent: the kubelet's. An empty
	// list: the node has none.
	ClusterDNS *[]string `json:"clusterDNS,omitempty"`

	// ClusterDomain is the domain of the cluster. Absent: the kubelet's. "": none.
	ClusterDomain *string `json:"clusterDomain,omitempty"`

	// ResolvConf is the path of the resolv.conf that pods inherit. A relative path is
	// resolved from the directory of this file. Absent: the kubelet's. "": pods inherit
	// nothing, as with the kubelet.
	ResolvConf *string `json:"resolvConf,omitempty"`

	// HostResolver is "auto" to give pods the upstream servers of systemd-resolved if
	// ResolvConf is its stub, which is a server on the node's loopback, and those of
	// NetworkManager, in /run/NetworkManager/no-stub-resolv.conf, if ResolvConf has other
	// servers on the loopback only. The request is still compared with what the kubelet
	// computes from ResolvConf. Empty: "never".
	HostResolver string `json:"hostResolver,omitempty"`

	// UplinkResolvConf is the path of the file in which systemd-resolved lists its
	// upstream servers, for HostResolver "auto". A relative path is resolved from the
	// directory of this file. Empty: "/run/systemd/resolve/resolv.conf".
	UplinkResolvConf string `json:"uplinkResolvConf,omitempty"`

	// NodeIPs lists the addresses of the node, which are used if ResolvConf is "". Empty:
	// unknown.
	NodeIPs []string `json:"nodeIPs,omitempty"`

	// NodeName is the name of the node at the API server. The shim and the agent require it,
	// with and without a kubeconfig. Empty: unknown.
	NodeName string `json:"nodeName,omitempty"`

	// AllowedOverrides lists the policies of the API that the annotation
	// dnsconfigurer.dev/policy may name, such as "Default" or "None". With them everyone who
	// may change a pod can give it another policy than spec.dnsPolicy, from its next
	// sandbox on. ClusterFirstWithAutopath is always allowed. Empty: no other.
	AllowedOverrides []string `json:"allowedOverrides,omitempty"`

	// Rules change the DNS configuration of the pods that they match, at most 64; see
	// docs/nodes.md. Empty: pods get what the kubelet would give them.
	Rules []NodeRule `json:"rules,omitempty"`
}

// AutopathConfiguration configures pods with the policy ClusterFirstWithAutopath.
type AutopathConfiguration struct {
	// NodeCache is the address of the node-local DNS cache. Empty: there is none, and pods
	// query the cluster DNS.
	NodeCache string `json:"nodeCache,omitempty"`

	// Suffix is the autopath domain: names below it are expanded by the server. Empty:
	// "ap.k8s.io".
	Suffix string `json:"suffix,omitempty"`

	// ClusterDNSFallback adds a cluster DNS server after the first server. It doubles the
	// queries of musl, which queries all servers at once.
	ClusterDNSFallback bool `json:"clusterDNSFallback,omitempty"`
}

// Defaults of DNSConfiguration.
const (
	DefaultDNSListen       = "127.0.0.1:53"
	DefaultPods            = "insecure"
	DefaultTTL             = 5
	DefaultSnapshotWait    = "2s"
	DefaultSnapshotMaxAge  = "24h"
	DefaultAutopathService = "kube-system/dnsconfigurer-node-cache"
	DefaultDNSLameduck     = "0s"
)

// DNSConfiguration configures the cluster DNS server: the source of the cluster's names,
// their records, and the servers that other queries are forwarded to. Relative paths are
// resolved from the working directory of the server.
type DNSConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen lists the addresses to serve on, over UDP and TCP, such as "0.0.0.0:53" or
	// "[::]:53". Empty: "127.0.0.1:53".
	Listen []string `json:"listen,omitempty"`

	// HTTP is the address of the status page, /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// Kubeconfig is the path of a kubeconfig for the API server. Empty: the server's own
	// cluster.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Manifests lists directories of manifests to serve instead of a cluster's objects.
	// Empty: none.
	Manifests []string `json:"manifests,omitempty"`

	// Snapshot is a file that keeps the cluster's names for a start without API server.
	Snapshot SnapshotConfiguration `json:"snapshot,omitzero"`

	// ClusterDomain is the domain of the cluster. Empty: "cluster.local".
	ClusterDomain string `json:"clusterDomain,omitempty"`

	// ReverseCIDRs lists the cluster's networks of Services and pods, such as
	// "10.96.0.0/12". The server is authoritative for their reverse zones: PTR queries for
	// their unknown addresses get NXDOMAIN, and no address outside of them has a name of
	// the cluster. Empty: PTR queries for unknown addresses are forwarded.
	ReverseCIDRs []string `json:"reverseCIDRs,omitempty"`

	// Pods says which pod names of the form IP.NAMESPACE.pod exist. "disabled": none.
	// "insecure": every one whose IP a pod can have: no loopback, link-local, multicast or
	// unspecified address, and in ReverseCIDRs unless they are empty. "verified": those of
	// existing pods, which the server then watches. Empty: "insecure".
	Pods string `json:"pods,omitempty"`

	// TTL is the TTL of the cluster's records in seconds, at most 3600. Absent: 5.
	TTL *uint32 `json:"ttl,omitempty"`

	// Upstreams lists the servers to forward to: ADDR, ADDR:PORT, tcp://ADDR for TCP only,
	// or tls://ADDR#NAME for DNS over TLS. Empty: those in ResolvConf.
	Upstreams []string `json:"upstreams,omitempty"`

	// ResolvConf is the path of a resolv.conf with the servers to forward to, which is
	// watched. It is used if Upstreams is empty. Absent: "/etc/resolv.conf". "": nothing
	// is forwarded, and names outside the cluster are refused.
	ResolvConf *string `json:"resolvConf,omitempty"`

	// UpstreamPolicy is the order in which the servers of Upstreams, ResolvConf and
	// StubDomains are tried: "sequential", the order of the list; "random"; or
	// "roundRobin". A server that does not reply is tried last. Empty: "sequential".
	UpstreamPolicy string `json:"upstreamPolicy,omitempty"`

	// StubDomains lists domains with servers of their own. The longest matching zone wins.
	// Empty: none.
	StubDomains []StubDomain `json:"stubDomains,omitempty"`

	// LocalNames are answered by the server itself.
	LocalNames DNSLocalNames `json:"localNames,omitzero"`

	// HostSuffixes lists the search domains of the nodes, which end the search lists of
	// names below search.NAMESPACE.CLUSTERDOMAIN.AUTOPATHSUFFIX. At most 8. Empty: none.
	HostSuffixes []string `json:"hostSuffixes,omitempty"`

	// AutopathSuffix is the autopath domain: names below it are expanded. It must be the
	// same on the nodes. Empty: "ap.k8s.io".
	AutopathSuffix string `json:"autopathSuffix,omitempty"`

	// EDNSOption is the code of the EDNS0 option in which node caches send a search list,
	// 65001 to 65534. It must be the same on the nodes. 0: 65313.
	EDNSOption uint16 `json:"ednsOption,omitempty"`

	// AutopathService is the Service of the node caches, NAMESPACE/NAME. Its endpoints may
	// send a search list. Empty: "kube-system/dnsconfigurer-node-cache".
	AutopathService string `json:"autopathService,omitempty"`

	// AutopathNetworks lists the networks whose clients may send a search list, such as
	// "203.0.113.0/24", instead of the endpoints of AutopathService. Empty: those
	// endpoints; with Manifests, the loopback addresses.
	AutopathNetworks []string `json:"autopathNetworks,omitempty"`

	// Limits bound what clients can use of the server.
	Limits Limits `json:"limits,omitzero"`

	// Lameduck is the time for which the server answers queries after the signal to
	// terminate, such as "10s". Empty: "0s".
	Lameduck string `json:"lameduck,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`
}

// Limits bound what clients can use of a cluster DNS server or a node cache.
type Limits struct {
	// MaxQueries is the number of queries that may wait for other servers, 100 to 65535. 0: 4096.
	MaxQueries int `json:"maxQueries,omitempty"`

	// MaxMemory is the memory for what clients leave in the server, "4Mi" to "1Gi": a quarter for
	// the cache, an eighth for replies over TCP that are not read yet (64 KiB each), and the rest
	// for TCP connections (10 KiB each). Empty: "64Mi".
	MaxMemory string `json:"maxMemory,omitempty"`
}

// DNSLocalNames selects names outside the cluster that a cluster DNS server answers itself.
type DNSLocalNames struct {
	// SpecialUse is false if names for special use are forwarded: localhost, invalid, test,
	// onion and home.arpa (RFC 6761), and the reverse names of loopback, link-local and
	// documentation addresses (RFC 6303). A stub domain wins over such a zone unless the
	// zone's name is longer. Absent: true.
	SpecialUse *bool `json:"specialUse,omitempty"`

	// PrivateReverse is true if reverse names of private addresses that are not in the
	// cluster do not exist (RFC 6303). False: they are forwarded.
	PrivateReverse bool `json:"privateReverse,omitempty"`
}

// DefaultNodeCacheListen is the default of NodeCacheConfiguration.Listen.
const DefaultNodeCacheListen = "169.254.20.10:53"

// Values of NodeCacheConfiguration.Notrack.
const (
	NotrackAuto     = "auto"
	NotrackDisabled = "disabled"
)

// NodeCacheConfiguration configures the node-local DNS cache. Relative paths are resolved
// from the working directory of the server.
type NodeCacheConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen lists the addresses to serve on, over UDP and TCP, such as "169.254.20.10:53"
	// or "[fd00:20::10]:53". Empty: "169.254.20.10:53". Two instances may share an
	// address; the one that started last gets the queries.
	Listen []string `json:"listen,omitempty"`

	// Interface is the name of a dummy network interface that gets the addresses of
	// Listen. It is created if it does not exist, and stays when the server stops. Empty:
	// the node has the addresses already.
	Interface string `json:"interface,omitempty"`

	// Notrack is "auto" or "disabled". "auto" keeps kube-proxy and host ports of pods from
	// translating the addresses of Listen, except loopback addresses, with nftables rules that
	// exempt queries from connection tracking. The rules need Linux 5.12 and CAP_NET_ADMIN; only
	// link-local addresses are served without them. Empty: "auto".
	Notrack string `json:"notrack,omitempty"`

	// HTTP is the address of the status page, /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// ClusterDNS lists the servers for the cluster's names, all reverse names and names
	// with a search list: ADDR, ADDR:PORT, or tcp://ADDR for TCP only. Required.
	ClusterDNS []string `json:"clusterDNS,omitempty"`

	// ClusterDomain is the domain of the cluster. Empty: "cluster.local".
	ClusterDomain string `json:"clusterDomain,omitempty"`

	// FallbackService is a headless Service of the pods of the cluster DNS, as NAME.NAMESPACE. Queries to
	// Listen go to these pods, at port 53, while the node cache is down or does not answer: the kernel
	// translates them. Queries to the address of a Service do so without it, by kube-proxy. Empty: none.
	FallbackService string `json:"fallbackService,omitempty"`

	// ReverseCIDRs lists the cluster's networks of Services and pods, as in the
	// configuration of the cluster DNS. Their reverse names are sent to the cluster DNS,
	// even if StubDomains has a shorter zone, such as "10.in-addr.arpa". Empty: all reverse
	// names that are not in StubDomains.
	ReverseCIDRs []string `json:"reverseCIDRs,omitempty"`

	// Upstreams lists the servers for all other names: ADDR, ADDR:PORT, tcp://ADDR for TCP
	// only, or tls://ADDR#NAME for DNS over TLS. Empty: those in ResolvConf.
	Upstreams []string `json:"upstreams,omitempty"`

	// ResolvConf is the path of the node's resolv.conf, which is watched. Its servers are
	// used if Upstreams is empty; its search domains end the search lists of autopath.
	// Absent: "/etc/resolv.conf". "": there is none, and without Upstreams names outside
	// the cluster are refused.
	ResolvConf *string `json:"resolvConf,omitempty"`

	// UpstreamPolicy is the order in which the servers of Upstreams, ResolvConf and
	// StubDomains are tried: "sequential", the order of the list; "random"; or
	// "roundRobin". A server that does not reply is tried last. Empty: "sequential".
	UpstreamPolicy string `json:"upstreamPolicy,omitempty"`

	// StubDomains lists domains with servers of their own. The longest matching zone wins.
	// Empty: none.
	StubDomains []StubDomain `json:"stubDomains,omitempty"`

	// LocalNames are answered by the node cache itself.
	LocalNames NodeCacheLocalNames `json:"localNames,omitzero"`

	// AutopathSuffix is the autopath domain: names below it are expanded. Empty:
	// "ap.k8s.io".
	AutopathSuffix string `json:"autopathSuffix,omitempty"`

	// EDNSOption is the code of the EDNS0 option in which search lists are sent to the
	// cluster DNS, 65001 to 65534. 0: 65313.
	EDNSOption uint16 `json:"ednsOption,omitempty"`

	// Limits bound what clients can use of the server.
	Limits Limits `json:"limits,omitzero"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`
}

// NodeCacheLocalNames selects names that a node cache answers itself.
type NodeCacheLocalNames struct {
	// SpecialUse is false if names for special use are forwarded, as in the configuration
	// of the cluster DNS. Absent: true.
	SpecialUse *bool `json:"specialUse,omitempty"`
}

// SnapshotConfiguration configures the file that keeps the cluster's names.
type SnapshotConfiguration struct {
	// Path is the path of the file, in a directory that the server may write. Empty: no
	// snapshot.
	Path string `json:"path,omitempty"`

	// Wait is the time without a reply of the API server after which the file is used. If
	// the API server refuses connections, it is used at once. Empty: "2s".
	Wait string `json:"wait,omitempty"`

	// MaxAge is the age from which the file is not used. Empty: "24h".
	MaxAge string `json:"maxAge,omitempty"`
}

// StubDomain is a domain with servers of its own.
type StubDomain struct {
	// Zone is the domain, such as "corp.example". Required.
	Zone string `json:"zone"`

	// Servers lists the servers of the domain, in the form of Upstreams. At least one is
	// required.
	Servers []string `json:"servers"`
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// GroupVersion is the apiVersion of every configuration file.
const GroupVersion = "dnsconfigurer.dev/v1alpha1"

// The kinds of configuration files.
const (
	KindShim      = "ShimConfiguration"
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

// Defaults of ShimConfiguration.
const (
	DefaultShimListen       = "unix:///run/dnsconfigurer/shim.sock"
	DefaultRuntimeEndpoint  = "unix:///run/containerd/containerd.sock"
	DefaultShimDrainTimeout = "4s"
)

// ShimConfiguration configures the shim between a kubelet and a container runtime. The
// commands that explain pods read its Node and Autopath fields.
type ShimConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is the socket for the kubelet. Empty: "unix:///run/dnsconfigurer/shim.sock".
	Listen string `json:"listen,omitempty"`

	// RuntimeEndpoint is the socket of the container runtime. Empty:
	// "unix:///run/containerd/containerd.sock".
	RuntimeEndpoint string `json:"runtimeEndpoint,omitempty"`

	// Mode says when the shim edits a request. "Generate": if the node facts are those of
	// the kubelet. "Force": always, for kubelets without the cluster DNS in their
	// configuration. "Observe": never, it only reports. Empty: "Generate".
	Mode string `json:"mode,omitempty"`

	// Kubeconfig is the path of a kubeconfig for the API server, to look pods up. The
	// kubelet's own is enough: it can read the pods of the node. Empty: no API server.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Manifests is the kubelet's directory of static pods. Empty: none.
	Manifests string `json:"manifests,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// DrainTimeout is the time that calls get to finish when the shim stops. Empty: "4s".
	DrainTimeout string `json:"drainTimeout,omitempty"`

	Node     NodeConfiguration     `json:"node,omitzero"`
	Autopath AutopathConfiguration `json:"autopath,omitzero"`
}

// NodeConfiguration is the node's DNS configuration as its kubelet has it. A field that is
// set here overrides the kubelet's file.
type NodeConfiguration struct {
	// KubeletConfig is the path of the node's KubeletConfiguration, which has clusterDNS,
	// clusterDomain and resolvConf. A relative path is resolved from the directory of this
	// file. Empty: none.
	KubeletConfig string `json:"kubeletConfig,omitempty"`

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
	// ResolvConf is its stub, which is a server on the node's loopback. The request is
	// still compared with what the kubelet computes from ResolvConf. Empty: "never".
	HostResolver string `json:"hostResolver,omitempty"`

	// UplinkResolvConf is the path of the file in which systemd-resolved lists its
	// upstream servers, for HostResolver "auto". A relative path is resolved from the
	// directory of this file. Empty: "/run/systemd/resolve/resolv.conf".
	UplinkResolvConf string `json:"uplinkResolvConf,omitempty"`

	// NodeIPs lists the addresses of the node, which are used if ResolvConf is "". Empty:
	// unknown.
	NodeIPs []string `json:"nodeIPs,omitempty"`

	// NodeName is the name of the node. Empty: unknown.
	NodeName string `json:"nodeName,omitempty"`
}

// AutopathConfiguration configures pods with the policy ClusterFirstWithAutopath.
type AutopathConfiguration struct {
	// NodeCache is the address of the node-local DNS cache. Empty: there is none, and pods
	// query the cluster DNS.
	NodeCache string `json:"nodeCache,omitempty"`

	// Suffix is the autopath domain: names below it are expanded by the server. Empty:
	// "ap.k8s.io".
	Suffix string `json:"suffix,omitempty"`

	// ClusterDNSFallback adds a cluster DNS server after the first server. The price: musl
	// queries all servers at once, which doubles its queries.
	ClusterDNSFallback bool `json:"clusterDNSFallback,omitempty"`
}

// Defaults of DNSConfiguration.
const (
	DefaultDNSListen      = "127.0.0.1:53"
	DefaultPods           = "insecure"
	DefaultTTL            = 5
	DefaultSnapshotWait   = "2s"
	DefaultSnapshotMaxAge = "24h"
	DefaultDNSLameduck    = "0s"
)

// DNSConfiguration configures the cluster DNS server: the source of the cluster's names,
// their records, and the servers that other queries are forwarded to. Relative paths are
// resolved from the working directory of the server.
type DNSConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen lists the addresses to serve on, over UDP and TCP, such as "0.0.0.0:53" or
	// "[::]:53". Empty: "127.0.0.1:53".
	Listen []string `json:"listen,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
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
	// "10.96.0.0/12". PTR queries for their unknown addresses get NXDOMAIN. Empty: PTR
	// queries for unknown addresses are forwarded.
	ReverseCIDRs []string `json:"reverseCIDRs,omitempty"`

	// Pods says which pod names of the form IP.NAMESPACE.pod exist. "disabled": none.
	// "insecure": every well-formed one. "verified": those of existing pods, which the
	// server then watches. Empty: "insecure".
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

	// StubDomains lists domains with servers of their own. The longest matching zone wins.
	// Empty: none.
	StubDomains []StubDomain `json:"stubDomains,omitempty"`

	// HostSuffixes lists the search domains of the nodes, which end the search lists of
	// names below search.NAMESPACE.CLUSTERDOMAIN.AUTOPATHSUFFIX. At most 29. Empty: none.
	HostSuffixes []string `json:"hostSuffixes,omitempty"`

	// AutopathSuffix is the autopath domain: names below it are expanded. The same as on
	// the nodes. Empty: "ap.k8s.io".
	AutopathSuffix string `json:"autopathSuffix,omitempty"`

	// EDNSOption is the code of the EDNS0 option in which node caches send a search list,
	// 65001 to 65534. The same as on the nodes. 0: 65313.
	EDNSOption uint16 `json:"ednsOption,omitempty"`

	// AutopathNetworks lists the networks whose clients may send a search list, such as
	// "203.0.113.0/24". Empty: loopback, link-local, private and shared addresses.
	AutopathNetworks []string `json:"autopathNetworks,omitempty"`

	// Lameduck is the time for which the server answers queries after the signal to
	// terminate, such as "10s". Empty: "0s".
	Lameduck string `json:"lameduck,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`
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

// DefaultNodeCacheListen is the default of NodeCacheConfiguration.Listen.
const DefaultNodeCacheListen = "169.254.20.10:53"

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

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// ClusterDNS lists the servers for the cluster's names, all reverse names and names
	// with a search list: ADDR, ADDR:PORT, or tcp://ADDR for TCP only. Required.
	ClusterDNS []string `json:"clusterDNS,omitempty"`

	// ClusterDomain is the domain of the cluster. Empty: "cluster.local".
	ClusterDomain string `json:"clusterDomain,omitempty"`

	// Upstreams lists the servers for all other names: ADDR, ADDR:PORT, tcp://ADDR for TCP
	// only, or tls://ADDR#NAME for DNS over TLS. Empty: those in ResolvConf.
	Upstreams []string `json:"upstreams,omitempty"`

	// ResolvConf is the path of the node's resolv.conf, which is watched. Its servers are
	// used if Upstreams is empty; its search domains end the search lists of autopath.
	// Absent: "/etc/resolv.conf". "": there is none, and without Upstreams names outside
	// the cluster are refused.
	ResolvConf *string `json:"resolvConf,omitempty"`

	// StubDomains lists domains with servers of their own. The longest matching zone wins.
	// Empty: none.
	StubDomains []StubDomain `json:"stubDomains,omitempty"`

	// AutopathSuffix is the autopath domain: names below it are expanded. Empty:
	// "ap.k8s.io".
	AutopathSuffix string `json:"autopathSuffix,omitempty"`

	// EDNSOption is the code of the EDNS0 option in which search lists are sent to the
	// cluster DNS, 65001 to 65534. 0: 65313.
	EDNSOption uint16 `json:"ednsOption,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`
}

// Defaults of WebhookConfiguration.
const (
	DefaultWebhookListen    = ":8443"
	DefaultWebhookNamespace = "dnsconfigurer"
	DefaultWebhookLameduck  = "5s"
)

// WebhookConfiguration configures the admission webhook.
type WebhookConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is the address for admission reviews, over HTTPS, such as "127.0.0.1:8443".
	// Empty: ":8443".
	Listen string `json:"listen,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	TLS TLSConfiguration `json:"tls,omitzero"`

	// SelfSigned is true if the server issues its certificate, from a certificate
	// authority that the replicas share in a Secret. False: TLS is required.
	SelfSigned bool `json:"selfSigned,omitempty"`

	// Kubeconfig is the path of a kubeconfig for the API server, which is used for
	// SelfSigned and to read a StatefulSet when it is scaled. Empty: the server's own
	// cluster. Outside a cluster scaling is admitted unchecked.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Namespace is the namespace of the Secret and the Service for SelfSigned. Empty:
	// "dnsconfigurer".
	Namespace string `json:"namespace,omitempty"`

	// Lameduck is the time for which the server accepts connections after the signal to
	// terminate, until the API servers stop using it. Empty: "5s".
	Lameduck string `json:"lameduck,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`

	// Node is the DNS configuration of the nodes. Absent clusterDNS and clusterDomain:
	// those of the kubelet's file, or without one 10.96.0.10 and cluster.local. Absent
	// resolvConf: unknown, and rules that depend on it are not applied; a kubelet's file
	// names a path on the node, which is not where this server runs.
	Node NodeConfiguration `json:"node,omitzero"`
}

// TLSConfiguration names a certificate and its key. Both files are watched.
type TLSConfiguration struct {
	// CertFile is the path of the certificate and its intermediate certificates, PEM.
	// Required unless SelfSigned is true.
	CertFile string `json:"certFile,omitempty"`

	// KeyFile is the path of the certificate's key, PEM. Required unless SelfSigned is
	// true.
	KeyFile string `json:"keyFile,omitempty"`
}

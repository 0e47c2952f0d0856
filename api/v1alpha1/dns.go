// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// KindDNS is the kind of the file that describes a cluster DNS server.
const KindDNS = "DNSConfiguration"

// What the cluster DNS server does unless it is told otherwise.
const (
	DefaultDNSListen     = "127.0.0.1:53"
	DefaultClusterDomain = "cluster.local"
	DefaultUpstreamConf  = "/etc/resolv.conf"
	DefaultPods          = "insecure"
	DefaultTTL           = 5
	DefaultLogFormat     = "text"
)

// DNSConfiguration describes a cluster DNS server: where the cluster's names come
// from, how they are answered, and who is asked for everything else. Paths that are
// relative count from the directory in which the server runs.
type DNSConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen lists where queries are taken, over UDP and TCP, as "0.0.0.0:53" or
	// "[::]:53". Empty: "127.0.0.1:53".
	Listen []string `json:"listen,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// Kubeconfig is the path of a kubeconfig that leads to the API server. Empty: that
	// of the cluster in which the server runs.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Manifests lists directories of manifests to serve instead of a cluster's objects.
	// Empty: none.
	Manifests []string `json:"manifests,omitempty"`

	// Snapshot keeps the names for a start without API server.
	Snapshot SnapshotConfiguration `json:"snapshot,omitzero"`

	// ClusterDomain is the domain of the cluster. Empty: "cluster.local".
	ClusterDomain string `json:"clusterDomain,omitempty"`

	// ReverseCIDRs lists the cluster's networks, of Services and of pods, as
	// "10.96.0.0/12": addresses in them of which no name is known have none. Empty:
	// the upstream servers are asked for all of which no name is known.
	ReverseCIDRs []string `json:"reverseCIDRs,omitempty"`

	// Pods says which names of pods by their addresses exist: "disabled" none,
	// "insecure" all that can be written, "verified" those of pods that exist, which
	// are watched for it. Empty: "insecure".
	Pods string `json:"pods,omitempty"`

	// TTL is for how many seconds answers about the cluster may be kept, at most 3600.
	// Absent: 5.
	TTL *uint32 `json:"ttl,omitempty"`

	// Upstreams lists the servers that are asked for names of others: ADDR, ADDR:PORT,
	// tcp://ADDR for TCP alone, or tls://ADDR#NAME for DNS over TLS. Empty: those of
	// ResolvConf.
	Upstreams []string `json:"upstreams,omitempty"`

	// ResolvConf is the path of the file that lists these servers, followed as it
	// changes. It matters only when Upstreams is empty. Absent: "/etc/resolv.conf".
	// "": names of others are refused.
	ResolvConf *string `json:"resolvConf,omitempty"`

	// StubDomains lists domains that have servers of their own. Of several that a name
	// is in the longest counts. Empty: none.
	StubDomains []StubDomain `json:"stubDomains,omitempty"`

	// HostSuffixes lists the domains that the nodes search. Names that end in
	// search.NAMESPACE.CLUSTERDOMAIN.AUTOPATHSUFFIX are looked for in these, too, after
	// the cluster's own. At most 29. Empty: none.
	HostSuffixes []string `json:"hostSuffixes,omitempty"`

	// AutopathSuffix is the domain below which names are looked for along a search list,
	// the same as on the nodes. Empty: "ap.k8s.io".
	AutopathSuffix string `json:"autopathSuffix,omitempty"`

	// EDNSOption is the code by which node caches send the list, 65001 to 65534, the same
	// as theirs. 0: 65313.
	EDNSOption uint16 `json:"ednsOption,omitempty"`

	// AutopathNetworks lists the networks from which such a list is heeded, as
	// "203.0.113.0/24", and no others. Empty: loopback, link-local, private and shared
	// addresses.
	AutopathNetworks []string `json:"autopathNetworks,omitempty"`

	// Lameduck is how long queries are still answered when the server is told to end,
	// as "10s": until nobody sends any. Empty: "0s".
	Lameduck string `json:"lameduck,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`
}

// SnapshotConfiguration is a file that keeps the names of the cluster.
type SnapshotConfiguration struct {
	// Path is the file's, in a directory that the server may write. Empty: none is
	// kept.
	Path string `json:"path,omitempty"`

	// Wait is how long the API server may be silent before the file is used. Empty:
	// "2s". When it refuses connections the file is used at once.
	Wait string `json:"wait,omitempty"`

	// MaxAge is the age from which on the file is not used. Empty: "24h".
	MaxAge string `json:"maxAge,omitempty"`
}

// StubDomain is a domain that has servers of its own.
type StubDomain struct {
	// Zone is the domain, as "corp.example". Required.
	Zone string `json:"zone"`

	// Servers lists the domain's servers, as in Upstreams. At least one is required.
	Servers []string `json:"servers"`
}

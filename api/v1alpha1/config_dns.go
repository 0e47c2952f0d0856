// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ResolverConfiguration has the fields that cluster DNS server and node cache have. Relative paths are
// resolved from the working directory of the server.
type ResolverConfiguration struct {
	// Listen lists the addresses to serve on, over UDP and TCP, such as "0.0.0.0:53" or
	// "[::]:53". Two node caches may share an address; the one that started last gets the queries.
	Listen []string `json:"listen,omitempty" format:"listen" restart:"true" flag:"listen" arg:"ADDR:PORT"`

	// ClusterDomain is the domain of the cluster.
	ClusterDomain string `json:"clusterDomain" default:"cluster.local" format:"host" restart:"true" flag:"cluster-domain" arg:"DOMAIN"`

	// ReverseCIDRs lists the networks of Services and pods, such as "10.96.0.0/12". The cluster DNS
	// server denies their unknown addresses (NXDOMAIN), and no address outside of them has a name of
	// the cluster. A node cache sends their reverse names to the cluster DNS, even if StubDomains has
	// a shorter zone. Empty: the cluster DNS server forwards PTR queries for unknown addresses, and a
	// node cache sends it all reverse names that are not in StubDomains.
	ReverseCIDRs []string `json:"reverseCIDRs,omitempty" format:"network"`

	// Upstreams lists the servers to forward to: ADDR, ADDR:PORT, tcp://ADDR for TCP only,
	// or tls://ADDR#NAME for DNS over TLS. Empty: those in ResolvConf.
	Upstreams []string `json:"upstreams,omitempty" flag:"upstream" arg:"SERVER"`

	// ResolvConf is the path of a resolv.conf, which is watched. Its servers are used if Upstreams is
	// empty. Its search domains end the search lists of a node cache. "": there is none, and without
	// Upstreams names outside the cluster are refused.
	ResolvConf *string `json:"resolvConf,omitempty" default:"/etc/resolv.conf"`

	// UpstreamPolicy is the order in which the servers of Upstreams, ResolvConf and
	// StubDomains are tried: "sequential", the order of the list; "random"; or
	// "roundRobin". A server that does not reply is tried last.
	UpstreamPolicy string `json:"upstreamPolicy" default:"sequential" values:"sequential,random,roundRobin"`

	// StubDomains lists domains with servers, or a zone file, of their own. The longest matching zone wins.
	// Empty: none.
	StubDomains []StubDomain `json:"stubDomains,omitempty"`

	// LastKnownGood is how long the last answer to a question is served after other servers begin to deny the name
	// (NXDOMAIN, NODATA). The cluster DNS denies its names at once. 0s: all servers do, except for stub domains with a
	// value of their own.
	LastKnownGood string `json:"lastKnownGood,omitempty" default:"0s" format:"duration" min:"0s" max:"1h"`

	// ClientStatistics is what is counted by client for the command advise: "clients", the queries of
	// each; "names", also the names that each asks for most often; or "disabled". Nothing is kept
	// longer than a day, and only clients on the same machine and of kubectl port-forward can read it.
	ClientStatistics string `json:"clientStatistics,omitempty" default:"clients" values:"disabled,clients,names" restart:"true"`

	// QueryLog is a log of queries and replies on standard output, in the format of LogFormat.
	QueryLog QueryLogConfiguration `json:"queryLog"`

	// Chaos is the answer to queries for the TXT records of version.bind in class CHAOS. Those for
	// hostname.bind get the name of the host. Empty: such queries get REFUSED.
	Chaos string `json:"chaos,omitempty" restart:"true"`

	// DNS64Prefix is the prefix of AAAA records that are made from A records, such as "64:ff9b::/96". Empty: none.
	DNS64Prefix string `json:"dns64Prefix,omitempty" restart:"true"`

	// MaxQueries is the number of queries that may wait for other servers.
	MaxQueries int `json:"maxQueries,omitempty" default:"4096" min:"100" max:"65535" restart:"true"`

	// MaxMemory is the memory for what clients leave in the server: a quarter for
	// the cache, an eighth for replies over TCP that are not read yet (64 KiB each), and the rest
	// for TCP connections (10 KiB each).
	MaxMemory string `json:"maxMemory,omitempty" default:"64Mi" format:"memory" min:"4Mi" max:"1Gi" restart:"true"`
}

// QueryLogConfiguration selects the queries that are logged. Lines that the log does not accept at once are dropped.
type QueryLogConfiguration struct {
	// Classes lists the replies that are logged: "success"; "denial", NXDOMAIN and NODATA; "error", all
	// other rcodes; or "all". Empty: none, and there is no query log.
	Classes []string `json:"classes,omitempty" values:"all,success,denial,error"`

	// Zones lists domains. Queries for names in one of them are logged. Empty: queries for all names.
	Zones []string `json:"zones,omitempty" format:"domain"`
}

// DNSConfiguration configures the cluster DNS server: the source of the cluster's names,
// their records, and the servers that other queries are forwarded to.
type DNSConfiguration struct {
	TypeMeta            `json:",inline"`
	ServerConfiguration `json:",inline"`

	// Kubeconfig is the path of a kubeconfig for the API server. Empty: the server's own
	// cluster.
	Kubeconfig string `json:"kubeconfig,omitempty" file:"true" restart:"true" flag:"kubeconfig" arg:"FILE"`

	// Lameduck is the time for which the server answers after the signal to terminate, such as
	// "10s": until clients stop using it.
	Lameduck string `json:"lameduck,omitempty" default:"0s" format:"duration" restart:"true"`

	ResolverConfiguration `json:",inline" defaults:"listen=127.0.0.1:53" restarts:"reverseCIDRs"`

	// Manifests lists directories of manifests to serve instead of a cluster's objects.
	// Empty: none.
	Manifests []string `json:"manifests,omitempty" file:"true" restart:"true" flag:"manifests" arg:"DIR"`

	// Snapshot is the path of a file that keeps the cluster's names for a start without API server, in a
	// directory that the server may write. Empty: none.
	Snapshot string `json:"snapshot,omitempty" restart:"true"`

	// Pods says which pod names of the form IP.NAMESPACE.pod exist. "disabled": none.
	// "insecure": every one whose IP a pod can have, in ReverseCIDRs unless they are empty. "verified": those of
	// existing pods, which the server then watches.
	Pods string `json:"pods,omitempty" default:"insecure" values:"disabled,insecure,verified" restart:"true"`

	// TTL is the TTL of the cluster's records in seconds.
	TTL *uint32 `json:"ttl,omitempty" default:"5" max:"3600" restart:"true"`

	// ExternalZones lists domains, such as "lb.example.com", in which a Service has the name SERVICE.NAMESPACE and
	// the addresses of its status.loadBalancer and spec.externalIPs. Empty: none.
	ExternalZones []string `json:"externalZones,omitempty" format:"host" restart:"true"`

	// Hosts are names with fixed addresses, which win over the names of the cluster and of other servers.
	Hosts HostsConfiguration `json:"hosts"`

	// Rewrite lists names that are looked up as others; replies have the name of the question. The first item
	// that matches a name counts. At most 1000. Empty: none.
	Rewrite []Rewrite `json:"rewrite,omitempty"`

	// ACL lists rules that allow or deny queries, after Rewrite. The first one that matches counts. At most 200.
	// Empty: none.
	ACL []ACLRule `json:"acl,omitempty"`

	// Answers are answers by pattern, which win over Hosts, the names of the cluster and of other servers.
	// The first one that matches a question counts. At most 200. Empty: none.
	Answers []Answer `json:"answers,omitempty"`

	// HostSuffixes lists the search domains of the nodes, which end the search lists of
	// names below search.NAMESPACE.CLUSTERDOMAIN.ap.k8s.io. At most 8. Empty: none.
	HostSuffixes []string `json:"hostSuffixes,omitempty" format:"domain" restart:"true"`

	// AutopathService is the Service of the node caches, NAMESPACE/NAME. Its endpoints may
	// send a search list.
	AutopathService string `json:"autopathService" default:"kube-system/dnsconfigurer-node-cache" format:"service" restart:"true"`

	// AutopathNetworks lists the networks whose clients may send a search list, such as
	// "203.0.113.0/24", instead of the endpoints of AutopathService. Empty: those
	// endpoints; with Manifests, the loopback addresses.
	AutopathNetworks []string `json:"autopathNetworks,omitempty" format:"network" restart:"true"`
}

// HostsConfiguration has names with fixed addresses. A name with an address has no other records.
type HostsConfiguration struct {
	// Entries lists addresses with their names, as in /etc/hosts: "192.0.2.7 db.example old-db.example".
	// The reverse name of an address has its names. Empty: none.
	Entries []string `json:"entries,omitempty"`

	// File is the path of a file in the format of /etc/hosts, which is read again when it changes. Its
	// entries are added to Entries. Empty: none.
	File string `json:"file,omitempty" file:"true"`

	// TTL is the TTL of these records in seconds.
	TTL *uint32 `json:"ttl,omitempty" default:"3600" max:"65535"`
}

// Rewrite replaces a name by another one.
type Rewrite struct {
	// Name is a name, or "*." and a domain: all names below the domain.
	Name string `json:"name,omitempty"`

	// Regex is a regular expression, as that of Answers, instead of Name.
	Regex string `json:"regex,omitempty"`

	// To is the name to look up: "*." and a domain if Name begins with "*.". After Regex it may have groups,
	// such as {1}. Required.
	To string `json:"to"`
}

// ACLRule allows or denies the queries that Zone, Types and Networks match.
type ACLRule struct {
	// Action is "allow", "block" (REFUSED), "filter" (an empty answer) or "drop" (no reply). Required.
	Action string `json:"action"`

	// Zone is a domain: its name and all names below it match. Empty: all names.
	Zone string `json:"zone,omitempty"`

	// Types lists types of questions, such as "AAAA". Empty: all types.
	Types []string `json:"types,omitempty"`

	// Networks lists networks of clients, such as "192.0.2.0/24". Empty: all clients.
	Networks []string `json:"networks,omitempty"`
}

// Answer answers the questions that Zone, Type and Regex match. At least one of them is required.
type Answer struct {
	// Zone is a domain: its name and all names below it match. Empty: all names.
	Zone string `json:"zone,omitempty"`

	// Type is the type of the questions, such as "AAAA". Empty: all types.
	Type string `json:"type,omitempty"`

	// Regex is a regular expression in the syntax of RE2, which the name must match, in lower case with
	// the final dot. It matches a part of the name unless it has ^ and $. Empty: all names match.
	Regex string `json:"regex,omitempty"`

	// Records are the records of the answer without owner, such as "60 IN A 192.0.2.{1}". {1} is the first
	// group of Regex, {NAME} the group of that name, {0} the whole match. Records of another type than the
	// question's are left out, except CNAME, whose target is looked up. Empty: none.
	Records []string `json:"records,omitempty"`

	// Rcode is "NOERROR", "NXDOMAIN", "SERVFAIL" or "REFUSED". Empty: "NOERROR".
	Rcode string `json:"rcode,omitempty"`
}

// NodeCacheConfiguration configures the node-local DNS cache.
type NodeCacheConfiguration struct {
	TypeMeta              `json:",inline"`
	ServerConfiguration   `json:",inline"`
	ResolverConfiguration `json:",inline" defaults:"listen=169.254.20.10:53"`

	// Interface is the name of a dummy network interface that gets the addresses of
	// Listen. It is created if it does not exist, and stays when the server stops. Empty:
	// the node has the addresses already.
	Interface string `json:"interface,omitempty" format:"interface" restart:"true"`

	// Notrack is "auto" or "disabled". "auto" keeps kube-proxy and host ports of pods from
	// translating the addresses of Listen, except loopback addresses, with nftables rules that
	// exempt queries from connection tracking. The rules need Linux 5.12 and CAP_NET_ADMIN; only
	// link-local addresses are served without them.
	Notrack string `json:"notrack,omitempty" default:"auto" values:"auto,disabled" restart:"true"`

	// FallbackService is a headless Service of the pods of the cluster DNS, as NAME.NAMESPACE. Queries to
	// Listen go to these pods, at port 53, while the node cache is down or does not answer: the kernel
	// translates them. Empty: none.
	FallbackService string `json:"fallbackService,omitempty" restart:"true"`

	// ClusterDNS lists the servers for the cluster's names, all reverse names and names
	// with a search list: ADDR, ADDR:PORT, or tcp://ADDR for TCP only. Required.
	ClusterDNS []string `json:"clusterDNS,omitempty" flag:"cluster-dns" arg:"SERVER"`

	// PinnedNames are names outside the cluster whose addresses are served also while no server answers.
	PinnedNames PinnedNamesConfiguration `json:"pinnedNames"`
}

// PinnedNamesConfiguration has names whose addresses the node cache looks up every 30 s.
type PinnedNamesConfiguration struct {
	// Names lists names, such as "registry.example.com". Their last addresses are served until other servers
	// deny the name. Empty: none.
	Names []string `json:"names,omitempty" format:"domain"`

	// File is the path of a file that keeps the addresses for a start without other servers. Empty: none.
	File string `json:"file,omitempty"`
}

// StubDomain is a domain with servers, or a zone file, of its own. Either is required.
type StubDomain struct {
	// Zone is the domain, such as "corp.example". Required.
	Zone string `json:"zone"`

	// Servers lists the servers of the domain, in the form of Upstreams.
	Servers []string `json:"servers,omitempty"`

	// File is the path of a file with all records of the domain, in the format of RFC 1035. It is read again
	// when it changes.
	File string `json:"file,omitempty" file:"true"`

	// LastKnownGood replaces the LastKnownGood of all names for this domain. Empty: it does not; "0s" if the domain
	// is in the cluster domain.
	LastKnownGood string `json:"lastKnownGood,omitempty" format:"duration" min:"0s" max:"1h"`
}

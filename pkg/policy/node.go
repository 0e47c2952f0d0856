// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// DefaultAutopathSuffix is the domain below which DNS servers expand names along a search
// list (KEP-2009).
const DefaultAutopathSuffix = "ap.k8s.io"

// Node holds the settings of a node's kubelet that decide the DNS of its pods. The zero
// value is a kubelet without a cluster DNS and without a resolv.conf.
type Node struct {
	ClusterDNS    []netip.Addr // clusterDNS of the KubeletConfiguration, valid addresses only; an IPv4-mapped address is an IPv4 address
	ClusterDomain string       // clusterDomain, as written; "": cluster policies search the host's domains only
	ResolvConf    string       // resolvConf; "": pods get nothing of the host's file
	IPs           []netip.Addr // addresses of the node, used if ResolvConf is ""

	Autopath Autopath

	// AllowedOverrides are the policies that Pod.Override may name. It may always name
	// ClusterFirstWithAutopath, which the API cannot express. Any other policy would let
	// the annotation, which can be changed at any time, undo a spec.dnsPolicy that is
	// immutable and that the cluster may restrict.
	AllowedOverrides []Policy

	// Rules change the result for the pods that they match. At most MaxNodeRules. Empty: the
	// result is the kubelet's.
	Rules []NodeRule
}

// Autopath configures ClusterFirstWithAutopath on a node. With the zero value, pods query
// the cluster DNS.
type Autopath struct {
	NodeCache netip.Addr // address of the node cache; zero: none, pods query the cluster DNS
	Suffix    string     // "": DefaultAutopathSuffix

	// ClusterDNSFallback gives pods a cluster DNS server as their second server. It
	// doubles the queries of musl, which queries all servers at once.
	ClusterDNSFallback bool
}

// NodeError is the error of [New] for an invalid field of a [Node].
type NodeError struct {
	Field   string // such as clusterDomain, clusterDNS[1] or autopath.suffix
	Problem string // what is wrong, such as "is not an address"
}

func (e *NodeError) Error() string { return e.Field + ": " + e.Problem }

func nodeError(field, format string, args ...any) error {
	return &NodeError{field, fmt.Sprintf(format, args...)}
}

// validate returns an error if a field would make the resolv.conf of every pod unusable.
func (n Node) validate() error {
	for i, a := range n.ClusterDNS {
		if !a.IsValid() || a.Zone() != "" {
			return nodeError(fmt.Sprintf("clusterDNS[%d]", i), "%q is not an address without a zone", a)
		}
	}
	for i, a := range n.IPs {
		if !a.IsValid() {
			return nodeError(fmt.Sprintf("nodeIPs[%d]", i), "is not an address")
		}
	}
	for i, p := range n.AllowedOverrides {
		if canonicalPolicy(p) == "" {
			return nodeError(fmt.Sprintf("allowedOverrides[%d]", i), "%q is not a DNS policy", p)
		}
	}
	if isUnsafe(KindSearch, n.ClusterDomain) {
		return nodeError("clusterDomain", "%q: want one DNS name, such as cluster.local", n.ClusterDomain)
	}
	if s := n.Autopath.Suffix; s != "" {
		if p := fqdn.DomainProblem(s); p != "" || isUnsafe(KindSearch, s) || strings.HasSuffix(s, ".") {
			return nodeError("autopath.suffix", "%q must be a domain name without a final dot", s)
		}
	}
	return nil
}

// Policy is a pod's dnsPolicy. The kubelet treats any other value, and "", as
// ClusterFirst, also on the host's network.
type Policy string

// The policies.
const (
	Default                 Policy = "Default"                 // the host's resolv.conf
	ClusterFirst            Policy = "ClusterFirst"            // the cluster's DNS; on the host's network like Default
	ClusterFirstWithHostNet Policy = "ClusterFirstWithHostNet" // the cluster's DNS on any network
	None                    Policy = "None"                    // dnsConfig only

	// ClusterFirstWithAutopath is the cluster's DNS with one search domain, which the
	// server expands. It is not case-sensitive: KEP-2009 writes a lower-case "c".
	ClusterFirstWithAutopath Policy = "ClusterFirstWithAutopath"
)

// Pod holds the fields of a pod that decide its DNS and its host name. The zero value is a
// pod without a name on the pod network.
type Pod struct {
	Namespace string
	Name      string
	UID       string // used in the text of one event only
	Path      string // prefix of Finding.Field, such as "spec.template." for the pod of a Deployment

	Labels map[string]string // metadata.labels, for NodeRule.PodLabels
	IPs    []netip.Addr      // the pod's addresses, for NodeRule.ServerFamilies; empty: unknown

	Policy      Policy     // spec.dnsPolicy
	Override    Policy     // value of the annotation OverrideAnnotation; "": none
	Config      *DNSConfig // spec.dnsConfig; an empty one differs from nil, see rule M3
	HostNetwork bool       // spec.hostNetwork
	Windows     bool       // spec.os.name is windows

	Hostname          string  // spec.hostname
	Subdomain         string  // spec.subdomain
	HostnameOverride  *string // spec.hostnameOverride; nil: none
	SetHostnameAsFQDN bool    // spec.setHostnameAsFQDN
}

// OverrideAnnotation is the annotation that overrides a pod's dnsPolicy. It exists because
// the Kubernetes API accepts its own policies only, without ClusterFirstWithAutopath. Other
// policies need Node.AllowedOverrides.
const OverrideAnnotation = "dnsconfigurer.dev/policy"

// DNSConfig is a pod's spec.dnsConfig. Its values are not validated.
type DNSConfig struct {
	Nameservers []string
	Searches    []string
	Options     []Option
}

// Option is a resolver option of a pod. A Value of "" means no value; it replaces the value
// that the base has for this option.
type Option struct {
	Name  string
	Value string
}

func (o Option) text() string {
	if o.Value == "" {
		return o.Name
	}
	return o.Name + ":" + o.Value
}

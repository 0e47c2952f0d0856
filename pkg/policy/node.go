// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// DefaultAutopathSuffix is the domain under which servers expand search lists
// (KEP-2009).
const DefaultAutopathSuffix = "ap.k8s.io"

// Node is what a node's kubelet knows, and what decides about all its pods. The
// zero value is a kubelet without cluster DNS and without a resolv.conf.
type Node struct {
	ClusterDNS    []netip.Addr // KubeletConfiguration clusterDNS, without entries that are no IP address; IPv4 in IPv6 counts as IPv4
	ClusterDomain string       // clusterDomain, as written; "": cluster policies search the host's domains only
	ResolvConf    string       // resolvConf; "": the kubelet hands no host file to pods
	IPs           []netip.Addr // the node's own addresses, asked when ResolvConf is ""

	Autopath Autopath
}

// Autopath is how ClusterFirstWithAutopath works on a node. The zero value sends
// pods to the cluster DNS.
type Autopath struct {
	NodeCache netip.Addr // the node's DNS cache; zero: none, the cluster DNS is asked
	Suffix    string     // "": DefaultAutopathSuffix

	// ClusterDNSFallback adds the (next) cluster DNS server as a second one. The
	// price: musl asks all servers at once, so each of its queries is sent twice.
	ClusterDNSFallback bool
}

// NodeError is a fact about a node with which no pod could live.
type NodeError struct {
	Field   string // as clusterDomain, clusterDNS[1] or autopath.suffix
	Problem string // the rest of a sentence about it
}

func (e *NodeError) Error() string { return e.Field + ": " + e.Problem }

func nodeError(field, format string, args ...any) error {
	return &NodeError{field, fmt.Sprintf(format, args...)}
}

// validate refuses what would make the resolv.conf of every pod unreadable.
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
	if unsafe(KindSearch, n.ClusterDomain) {
		return nodeError("clusterDomain", "%q must be one word of a search line", n.ClusterDomain)
	}
	if s := n.Autopath.Suffix; s != "" {
		if p := fqdn.DomainProblem(s); p != "" || unsafe(KindSearch, s) || strings.HasSuffix(s, ".") {
			return nodeError("autopath.suffix", "%q must be a domain name without a final dot", s)
		}
	}
	return nil
}

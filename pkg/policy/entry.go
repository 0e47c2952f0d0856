// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "strconv"

// Kind is the list of a resolv.conf that an entry belongs to.
type Kind uint8

// The kinds.
const (
	KindNameserver Kind = iota
	KindSearch
	KindOption
)

var kinds = [...]struct{ keyword, list string }{
	KindNameserver: {"nameserver", "nameservers"},
	KindSearch:     {"search", "searches"},
	KindOption:     {"options", "options"},
}

// String returns the keyword of resolv.conf(5); "" for a number that is no kind.
func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return ""
	}
	return kinds[k].keyword
}

// Origin is where an entry comes from.
type Origin uint8

// The origins. The word after each is what Source.Index counts.
const (
	FromHost          Origin = iota // the host's resolv.conf: the line, from 1
	FromClusterDNS                  // Node.ClusterDNS: the place, from 0
	FromClusterDomain               // Node.ClusterDomain: nothing
	FromNodeCache                   // Node.Autopath.NodeCache: nothing
	FromNodeIP                      // Node.IPs: the place, from 0
	FromRule                        // the rule itself: nothing
	FromPod                         // the list of the pod's dnsConfig: the place, from 0
)

// Source is where an entry comes from, precisely.
type Source struct {
	Origin Origin
	Index  int32 // a host file has fewer than resolvconf.MaxFile lines
}

// Entry is one value that a pod's resolv.conf was offered, where it came from,
// and the rule that took it or turned it away.
type Entry struct {
	Text   string
	Kind   Kind
	Rule   Rule
	Source Source
}

// source names the place of e for a reader.
func (d *Decision) source(e Entry) string {
	index := strconv.Itoa(int(e.Source.Index))
	switch e.Source.Origin {
	case FromHost:
		return d.hostFile + ":" + index
	case FromClusterDNS:
		return "clusterDNS[" + index + "]"
	case FromClusterDomain:
		return "clusterDomain"
	case FromNodeCache:
		return "nodeCache"
	case FromNodeIP:
		return "nodeIPs[" + index + "]"
	case FromPod:
		return d.path + dnsConfigField(e.Kind, e.Source.Index)
	default:
		return "built in"
	}
}

// dnsConfigField names an entry of a pod's dnsConfig by its path from the pod.
func dnsConfigField(k Kind, i int32) string {
	return "spec.dnsConfig." + kinds[k].list + "[" + strconv.Itoa(int(i)) + "]"
}

// field names what to change to be rid of e.
func (e Entry) field() string {
	switch e.Source.Origin {
	case FromPod:
		return dnsConfigField(e.Kind, e.Source.Index)
	case FromClusterDomain:
		return "metadata.namespace" // New has checked the rest
	default:
		return FieldResolvConf
	}
}

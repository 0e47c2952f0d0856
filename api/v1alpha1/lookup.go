// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// LookedUp is what `lookup -o json` prints: the queries of one lookup in the order
// in which they were sent. Lists are never null.
type LookedUp struct {
	Pod  string `json:"pod"` // namespace/name
	Name string `json:"name"`
	Type string `json:"type"` // "A+AAAA" when no type was asked for
	Libc string `json:"libc"` // glibc or musl

	Queries    []LookupQuery `json:"queries"`
	Addresses  []string      `json:"addresses"`
	QueryCount int           `json:"queryCount"`

	// NotAsked are the names that nobody was asked for: they are not the cluster's,
	// and no server was given for others. If Addresses is empty it is not known
	// whether there are some. Absent: there are none.
	NotAsked []string `json:"notAsked,omitempty"`

	// Synthetic are the addresses in Answers and Addresses that stand for those which
	// a cluster would assign, in 198.18.0.0/15 and 2001:2::/48. Absent: there are none.
	Synthetic []string `json:"synthetic,omitempty"`

	// Of `lookup --compare`, which prints two, the rest. Policy is what the pod was
	// given instead of its own, Hops are the ways on which there may be queries.
	Policy string      `json:"policy,omitempty"`
	Hops   []LookupHop `json:"hops,omitempty"`

	// Agree says whether the program gets the same by both policies. Absent: that is
	// not known, as one of them depends on a name in NotAsked.
	Agree *bool `json:"agree,omitempty"`
}

// LookupHop is how many queries of a lookup go from one to the next.
type LookupHop struct {
	From    string `json:"from"` // pod, node cache or cluster DNS
	To      string `json:"to"`   // node cache, cluster DNS, upstream, or the address of another nameserver
	Queries int    `json:"queries"`
	Derived bool   `json:"derived,omitempty"` // from the queries before it; they were not sent
}

// LookupQuery is one query of a lookup.
type LookupQuery struct {
	Name   string `json:"name"` // with the final dot
	Type   string `json:"type"`
	Server string `json:"server"` // as the pod's resolv.conf has it

	// Rcode is that of the reply, as NXDOMAIN. Where there is none it is in small
	// letters: timeout, unreachable, overtaken (musl: another server was faster),
	// malformed (musl: what it sends is no query), not asked (LookedUp.NotAsked).
	Rcode   string   `json:"rcode"`
	Answers []string `json:"answers"` // "owner ttl class type data"
	Micros  int64    `json:"micros"`  // until the reply, or until none was waited for
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"

	"github.com/miekg/dns"
)

// run is a number of consecutive records, and the index of the first one.
type run struct{ first, count uint16 }

// firstAddresses returns the first RRset of several addresses: consecutive records of one owner and one
// type, A or AAAA.
func firstAddresses(records []dns.RR) run {
	for first := 0; first < len(records); {
		end := first + 1
		for end < len(records) && addressLen(records[first]) > 0 && inRRset(records[first], records[end]) {
			end++
		}
		if end > first+1 {
			return run{uint16(first), uint16(end - first)}
		}
		first = end
	}
	return run{}
}

// inRRset reports whether two records are addresses of one RRset.
func inRRset(a, b dns.RR) bool {
	return addressLen(a) == addressLen(b) && a.Header().Class == b.Header().Class && strings.EqualFold(a.Header().Name, b.Header().Name)
}

// addressLen returns the length of the address in a record, in octets, or 0 for other records.
func addressLen(r dns.RR) int {
	switch r := r.(type) {
	case *dns.A:
		if r.A.To4() != nil {
			return net.IPv4len
		}
	case *dns.AAAA:
		if len(r.AAAA) == net.IPv6len {
			return net.IPv6len
		}
	}
	return 0
}

// rotateAddresses makes a random one of the addresses the first one in a reply with the first records of
// e: most clients use the first address. A counter instead of a random number would have to be shared by
// all readers of the entry. TTL and address of a record move together. The owners are equal.
func (e *entry) rotateAddresses(reply []byte, records int) {
	first, count := int(e.addresses.first), int(e.addresses.count)
	if count < 2 {
		return
	}
	shift := rand.IntN(count)
	const fixed = 6 // TTL and length
	length := fixed + int(binary.BigEndian.Uint16(e.wire[e.ttls[first]+4:]))
	for i := range min(count, records-first) {
		from := int(e.ttls[first+(i+shift)%count])
		copy(reply[e.ttls[first+i]:], e.wire[from:from+length])
	}
}

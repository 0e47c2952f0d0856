// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Hosts are names with fixed addresses, as of hosts(5). They win over the cluster zone, stub domains and upstream servers.
// The zero value has none.
type Hosts struct {
	TTL           uint32 // of all records, in seconds
	AddressesOnly bool   // other types than A and AAAA are looked up, and reverse names

	names map[fqdn.Name]hostRecords
}

// hostRecords are the records of a name: addresses, or the names of an address.
type hostRecords struct {
	v4, v6  []netip.Addr
	targets []fqdn.Name
}

// maxHostNames bounds the names in Hosts. A hosts file of 4 MiB has fewer.
const maxHostNames = 500_000

const maxHostErrors = 10 // that Add returns

// Add adds the entries of a text in the format of hosts(5): on each line an address and its names. A # begins a
// comment. It skips addresses and names that are invalid, and returns an error for the first lines that have one.
func (h *Hosts) Add(text string) error {
	var errs []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		if err := h.AddLine(line); err != nil && len(errs) < maxHostErrors {
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
		}
		if len(h.names) > maxHostNames {
			return fmt.Errorf("line %d: more than %d names, the rest is left out", number, maxHostNames)
		}
	}
	return errors.Join(errs...)
}

// AddLine adds the address and the valid names of a line, or returns why a part of the line is invalid.
func (h *Hosts) AddLine(line string) error {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	addr, err := netip.ParseAddr(words[0])
	if err != nil {
		return fmt.Errorf("%.60q is not an IP address: want an address and its names", words[0])
	}
	addr = addr.Unmap().WithZone("") // a zone has no meaning for a client
	var names []fqdn.Name
	var invalid error
	for _, text := range words[1:] {
		name, err := fqdn.ParseName(text)
		if err != nil || name == fqdn.Root {
			invalid = fmt.Errorf("%.260q is not a name", text)
			continue
		}
		names = append(names, name)
	}
	reverse, err := dns.ReverseAddr(addr.String())
	if err != nil {
		return err
	}
	reverseName, err := fqdn.ParseName(reverse)
	switch {
	case err != nil:
		return err
	case len(names) == 0 && invalid == nil:
		return fmt.Errorf("%s has no name", addr)
	case h.names == nil:
		h.names = map[fqdn.Name]hostRecords{}
	}
	for _, name := range names {
		r := h.names[name]
		if addr.Is4() {
			r.v4 = appendNew(r.v4, addr)
		} else {
			r.v6 = appendNew(r.v6, addr)
		}
		h.names[name] = r
		r = h.names[reverseName]
		r.targets = appendNew(r.targets, name)
		h.names[reverseName] = r
	}
	return invalid
}

// maxHostRecords bounds the records of a name: more do not fit into a reply.
const maxHostRecords = 4000

// appendNew appends a value that is not in the list, which it searches only as long as it is short: the time of Add
// is not quadratic.
func appendNew[T comparable](list []T, v T) []T {
	const searched = 64
	if len(list) >= maxHostRecords || slices.Contains(list[:min(len(list), searched)], v) {
		return list
	}
	return append(list, v)
}

// SetHosts replaces the Hosts, which must not be changed afterwards. nil: none. It is safe for concurrent use.
func (s *Server) SetHosts(h *Hosts) {
	if h != nil && len(h.names) == 0 {
		h = nil
	}
	s.hosts.Store(h)
}

// answer answers names that have an entry. As in CoreDNS's plugin hosts, a name with addresses has no other
// records, and the answer for another type is NODATA without SOA. Reverse names have entries for the type PTR only.
func (h *Hosts) answer(q *query) (a answer, ok bool) {
	r := h.names[q.name]
	if h.AddressesOnly && q.qtype != dns.TypeA && q.qtype != dns.TypeAAAA ||
		q.qtype == dns.TypePTR && len(r.targets) == 0 || q.qtype != dns.TypePTR && len(r.v4)+len(r.v6) == 0 {
		return answer{}, false
	}
	a = answer{source: fromHosts, authoritative: true}
	owner, limit := q.presentationName(), min(q.maxReply/minRecordLen, maxAddresses)+1
	switch q.qtype {
	case dns.TypeA:
		a.answers = addressRecords(owner, rotate(r.v4, limit), h.TTL)
	case dns.TypeAAAA:
		a.answers = addressRecords(owner, rotate(r.v6, limit), h.TTL)
	case dns.TypePTR:
		for _, target := range r.targets[:min(len(r.targets), limit)] {
			a.answers = append(a.answers, &dns.PTR{Hdr: header(owner, dns.TypePTR, h.TTL), Ptr: target.String()})
		}
	}
	return a, true
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// scrubbed is the part of a reply that belongs to its question. A server may add any other records, such
// as addresses of names in a zone that is not its own. A client could use them.
type scrubbed struct {
	answer, authority, additional []dns.RR

	found bool     // answer has records of the type
	loop  bool     // the aliases lead to each other
	soa   *dns.SOA // in authority, if found is not set; may be nil
}

// scrub returns the records of a reply to q, whose name as text in lower case is name: the aliases from
// the name, the records of the type at their end, and the addresses of the targets of these records; the
// SOA record of a denial; and for DO their signatures and proofs.
//
// The time is proportional to the length of the reply, because a message of 64 kB may have 5,400 records.
func scrub(reply *dns.Msg, name string, q Question) scrubbed {
	var s scrubbed
	records := indexOwners(reply.Answer, q)
	for {
		owned, visited := records.visit(name)
		if visited {
			s.loop = true
			return s
		}
		s.answer = records.appendDNAME(s.answer, name)
		if n := len(s.answer); len(owned) > 0 {
			s.answer = q.appendRRset(s.answer, owned, q.Type)
			if s.found = len(s.answer) > n; s.found {
				s.additional = q.targetAddresses(reply.Extra, s.answer[n:])
				break
			}
		}
		i := slices.IndexFunc(owned, func(r dns.RR) bool { _, ok := r.(*dns.CNAME); return ok })
		if i < 0 {
			s.soa = findSOA(reply.Ns, name, q.Class)
			break
		}
		alias := owned[i].(*dns.CNAME)
		s.answer = q.appendSignatures(append(s.answer, alias), owned, dns.TypeCNAME)
		name = strings.ToLower(alias.Target)
	}
	if s.soa != nil {
		s.authority = append(s.authority, s.soa)
	}
	if q.DO {
		s.authority = append(s.authority, proofs(reply.Ns, q.Class, s.soa != nil)...)
	}
	return s
}

// ownerIndex has the records of a section by their owners in lower case.
type ownerIndex struct {
	q       Question
	byOwner map[string][]dns.RR // nil: the owner was visited
	dnames  []*dns.DNAME        // at most maxDNAMEs
}

// maxDNAMEs is the number of DNAME records of a reply that are used. Each one is compared with each alias.
const maxDNAMEs = 8

// indexOwners returns the index of the records of the class of q.
func indexOwners(records []dns.RR, q Question) ownerIndex {
	x := ownerIndex{q: q, byOwner: make(map[string][]dns.RR, min(len(records), 1))}
	for first := 0; first < len(records); {
		owner, end := records[first].Header().Name, first+1
		for end < len(records) && records[end].Header().Name == owner {
			end++
		}
		x.add(strings.ToLower(owner), records[first:end:end])
		first = end
	}
	return x
}

// add adds consecutive records of one owner.
func (x *ownerIndex) add(owner string, records []dns.RR) {
	isForeign := func(r dns.RR) bool { return r.Header().Class != x.q.Class }
	if slices.ContainsFunc(records, isForeign) {
		records = slices.DeleteFunc(slices.Clone(records), isForeign)
	}
	if len(records) == 0 {
		return
	}
	for _, r := range records {
		if d, ok := r.(*dns.DNAME); ok && len(x.dnames) < maxDNAMEs {
			x.dnames = append(x.dnames, d)
		}
	}
	if earlier := x.byOwner[owner]; len(earlier) > 0 {
		records = append(earlier, records...)
	}
	x.byOwner[owner] = records
}

// visit returns the records of a name. visited is set if they were returned before.
func (x *ownerIndex) visit(name string) (owned []dns.RR, visited bool) {
	owned, exists := x.byOwner[name]
	if !exists {
		return nil, false
	}
	x.byOwner[name] = nil
	return owned, len(owned) == 0
}

// appendDNAME appends the DNAME record from which the alias of a name is made (RFC 6672 section 3.1).
func (x *ownerIndex) appendDNAME(list []dns.RR, name string) []dns.RR {
	for i, d := range x.dnames {
		if owner := strings.ToLower(d.Hdr.Name); owner != name && isBelow(name, owner) {
			x.dnames = slices.Delete(x.dnames, i, i+1)
			return x.q.appendSignatures(append(list, d), x.byOwner[owner], dns.TypeDNAME)
		}
	}
	return list
}

// isBelow reports whether a name is in a zone. Both are in lower case. It is 50 times faster than
// dns.IsSubDomain, which splits both names.
func isBelow(name, zone string) bool {
	rest, ok := strings.CutSuffix(name, zone)
	if !ok || rest == "" || zone == "." {
		return ok
	}
	label, ok := strings.CutSuffix(rest, ".")
	escapes := len(label) - len(strings.TrimRight(label, `\`))
	return ok && escapes%2 == 0 // else the dot is part of the label
}

// appendRRset appends the records of a type, and their signatures.
func (q *Question) appendRRset(list, owned []dns.RR, rrtype uint16) []dns.RR {
	for _, r := range owned {
		if r.Header().Rrtype == rrtype {
			list = append(list, r)
		}
	}
	return q.appendSignatures(list, owned, rrtype)
}

// appendSignatures appends the signatures of the records of a type, if the client wants them.
func (q *Question) appendSignatures(list, owned []dns.RR, rrtype uint16) []dns.RR {
	if !q.DO || rrtype == dns.TypeRRSIG {
		return list
	}
	for _, r := range owned {
		if signedType(r) == rrtype {
			list = append(list, r)
		}
	}
	return list
}

// signedType returns the type of the records that r signs, or TypeNone.
func signedType(r dns.RR) uint16 {
	if s, ok := r.(*dns.RRSIG); ok {
		return s.TypeCovered
	}
	return dns.TypeNone
}

// findSOA returns the SOA record that a negative reply needs (RFC 2308 sections 2 and 5). An SOA of a
// zone that does not contain the name, which is in lower case, is ignored.
func findSOA(records []dns.RR, name string, class uint16) *dns.SOA {
	for _, r := range records {
		if soa, ok := r.(*dns.SOA); ok && soa.Hdr.Class == class && isBelow(name, strings.ToLower(soa.Hdr.Name)) {
			return soa
		}
	}
	return nil
}

// proofs returns the records of an authority section that prove a denial, or the expansion of a wildcard
// (RFC 4035 section 3.1.3), with their signatures, and those of the SOA record if there is one.
func proofs(records []dns.RR, class uint16, withSOA bool) (list []dns.RR) {
	isProof := func(rrtype uint16) bool { return rrtype == dns.TypeNSEC || rrtype == dns.TypeNSEC3 }
	for _, r := range records {
		h, signed := r.Header(), signedType(r)
		if h.Class == class && (isProof(h.Rrtype) || isProof(signed) || withSOA && signed == dns.TypeSOA) {
			list = append(list, r)
		}
	}
	return list
}

// targetAddresses returns the addresses of the targets of the records, and their signatures.
func (q *Question) targetAddresses(additional, records []dns.RR) (list []dns.RR) {
	if len(additional) == 0 {
		return nil
	}
	targets := map[string]bool{}
	for _, r := range records {
		if target := targetOf(r); target != "" {
			targets[strings.ToLower(target)] = true
		}
	}
	isAddress := func(rrtype uint16) bool { return rrtype == dns.TypeA || rrtype == dns.TypeAAAA }
	for _, r := range additional {
		h := r.Header()
		if h.Class == q.Class && (isAddress(h.Rrtype) || q.DO && isAddress(signedType(r))) && targets[strings.ToLower(h.Name)] {
			list = append(list, r)
		}
	}
	return list
}

// targetOf returns the name whose addresses a client of the record needs, or "".
func targetOf(r dns.RR) string {
	target := ""
	switch r := r.(type) {
	case *dns.MX:
		target = r.Mx
	case *dns.SRV:
		target = r.Target
	case *dns.SVCB:
		target = r.Target
	case *dns.HTTPS:
		target = r.Target
	}
	if target == "." { // the owner itself, in SVCB and HTTPS (RFC 9460 section 2.5)
		return r.Header().Name
	}
	return target
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// rule is a requirement.
type rule struct {
	id, level, source, text string
}

// The levels of requirements, as in RFC 2119.
const (
	Must   = "MUST"
	Should = "SHOULD"
)

const specification = "DNS specification 1.1.0, "

// nameRules are the requirements of names: records.go makes their questions.
var nameRules = []rule{
	{"schema-version", Must, specification + "2.2", "dns-version has a semantic version"},
	{"service-address", Must, specification + "2.3.1", "a Service has its cluster IPs"},
	{"service-port", Must, specification + "2.3.2", "a named port of a Service has an SRV record"},
	{"service-reverse", Must, specification + "2.3.3", "the reverse name of a cluster IP has the Service"},
	{"headless-address", Must, specification + "2.4.1", "a headless Service has the addresses of its ready endpoints"},
	{"headless-empty", Should, specification + "2.4.1", "a headless Service without ready endpoints does not exist"},
	{"endpoint-hostname", Must, specification + "2.4.1", "an endpoint with a hostname has its addresses"},
	{"headless-port", Must, specification + "2.4.2", "a named port of a headless Service has an SRV record for each endpoint"},
	{"headless-reverse", Must, specification + "2.4.3", "the reverse name of a ready endpoint has its name"},
	{"external-name", Must, specification + "2.5", "an ExternalName is an alias"},
	{"other-family", Must, "RFC 2308 2.2, RFC 4074", "a name without addresses of a family exists: NOERROR with the SOA record"},
	{"absent-name", Must, "RFC 2308 2.1", "an absent name is denied: NXDOMAIN with the SOA record"},
	{"empty-non-terminal", Must, "RFC 8020 2", "a name above existing names exists"},
}

// sample returns at most limit questions, as many of each rule as there are. The same objects give the same sample.
func sample(all []*question, limit int) []*question {
	slices.SortFunc(all, func(a, b *question) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.qtype, b.qtype))
	})
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	byRule, number := map[int][]*question{}, map[string]int{}
	for _, q := range all {
		byRule[number[q.rule]] = append(byRule[number[q.rule]], q)
		number[q.rule]++
	}
	var list []*question
	for i := 0; len(list) < limit && len(byRule[i]) > 0; i++ {
		list = append(list, byRule[i]...)
	}
	return list[:min(len(list), limit)]
}

var semanticVersion = regexp.MustCompile(`^"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?"$`)

// check returns what is wrong with a reply, "" if nothing is.
func (q *question) check(reply *dns.Msg) string {
	if reply.Rcode != q.rcode {
		return wrongRcode(reply.Rcode, q.rcode)
	}
	var got []string
	for _, rr := range reply.Answer {
		if rr.Header().Rrtype == q.qtype && dns.CanonicalName(rr.Header().Name) == q.name {
			got = append(got, q.dataOf(rr, got))
		}
	}
	if q.rule == "schema-version" {
		if len(got) != 1 || !semanticVersion.MatchString(got[0]) {
			return fmt.Sprintf("%s, want one semantic version", excerpt(got))
		}
		return ""
	}
	if missing := without(q.want, got); len(missing) > 0 {
		return "lacks " + excerpt(missing)
	}
	if surplus := without(got, q.want); !q.also && len(surplus) > 0 {
		return "must not have " + excerpt(surplus)
	}
	if len(q.want) == 0 && !slices.ContainsFunc(reply.Ns, q.isSOA) {
		return "lacks the SOA record of a negative reply"
	}
	return ""
}

// isSOA reports whether rr can be the SOA record of a negative reply to q.
func (q *question) isSOA(rr dns.RR) bool {
	return rr.Header().Rrtype == dns.TypeSOA && dns.IsSubDomain(rr.Header().Name, q.name)
}

// dataOf returns the data that the specification fixes of a record of a reply, after those of got.
func (q *question) dataOf(rr dns.RR, got []string) string {
	switch rr := rr.(type) {
	case *dns.A:
		return rr.A.String()
	case *dns.AAAA:
		return rr.AAAA.String()
	case *dns.SRV:
		return q.nameOf(fmt.Sprint(rr.Port, " "), rr.Target, got)
	case *dns.PTR:
		return q.nameOf("", rr.Ptr, got)
	case *dns.CNAME:
		return dns.CanonicalName(rr.Target)
	}
	return strings.TrimPrefix(rr.String(), rr.Header().String())
}

// nameOf returns prefix and name. A name that the server chose for an endpoint counts as the first endpoint
// without a hostname below the same Service that is not in got.
func (q *question) nameOf(prefix, name string, got []string) string {
	name = dns.CanonicalName(name)
	_, parent, _ := strings.Cut(name, ".")
	if slices.Contains(q.want, prefix+name) {
		return prefix + name
	}
	for _, w := range q.want {
		if strings.HasPrefix(w, prefix+"(") && strings.HasSuffix(w, ")."+parent) && !slices.Contains(got, w) {
			return w
		}
	}
	return prefix + name
}

// without returns the elements of a that b lacks.
func without(a, b []string) (list []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			list = append(list, s)
		}
	}
	return list
}

// excerpt returns the first elements of a list: a headless Service may have thousands.
func excerpt(list []string) string {
	const most = 3
	if len(list) == 0 {
		return "nothing"
	}
	text := strings.Join(list[:min(len(list), most)], ", ")
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

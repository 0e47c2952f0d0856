// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deviation

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

// Case is a question, its cluster, and the objects that the name refers to.
type Case struct {
	World    *world.World
	Zone     *spec.Zone
	Question ask.Question
	Want     *dns.Msg // by package spec

	untolerant *spec.Zone // the zone if no Service tolerates unready endpoints
	name       string     // in lower case
	labels     []string   // of a name in the zone, without the zone
	below      []string   // the labels left of the service or pod, outermost last
	service    *corev1.Service
	slices     []*discoveryv1.EndpointSlice
	address    netip.Addr // of a reverse name
}

// Cases returns a case for each question.
func Cases(w *world.World, z *spec.Zone, questions []ask.Question) []*Case {
	untolerant := z.Of(w.Untolerant())
	cases := make([]*Case, len(questions))
	for i, q := range questions {
		cases[i] = newCase(w, z, q)
		cases[i].untolerant = untolerant
	}
	return cases
}

func newCase(w *world.World, z *spec.Zone, q ask.Question) *Case {
	c := &Case{World: w, Zone: z, Question: q, Want: z.Answer(q), name: q.Lower()}
	if rest, ok := strings.CutSuffix("."+c.name, "."+world.Zone); ok {
		c.labels = dns.SplitDomainName(strings.TrimPrefix(rest, ".") + ".")
	}
	if n := len(c.labels); n >= 3 {
		c.below = c.labels[:n-3]
	}
	if namespace, service, ok := serviceOf(c.name); ok && w.HasNamespace(namespace) {
		c.service = w.Service(namespace, service)
		c.slices = w.SlicesOf(namespace, service)
	}
	c.address = addressOf(c.name)
	return c
}

// addressOf returns the address of a complete reverse name.
func addressOf(name string) netip.Addr {
	labels := dns.SplitDomainName(name)
	slices.Reverse(labels)
	var text string
	switch {
	case len(labels) == 6 && strings.HasSuffix(name, ".in-addr.arpa."):
		text = strings.Join(labels[2:], ".")
	case len(labels) == 34 && strings.HasSuffix(name, ".ip6.arpa."):
		for i := 2; i < 34; i += 4 {
			text += ":" + strings.Join(labels[i:i+4], "")
		}
		text = text[1:]
	}
	a, _ := netip.ParseAddr(text)
	return a
}

// String returns the objects that concern the case.
func (c *Case) String() string {
	if c.address.IsValid() {
		return c.World.AddressString(c.address)
	}
	text, seen := "", map[string]bool{}
	for _, name := range append([]string{c.name}, c.aliases()...) {
		if namespace, service, ok := serviceOf(name); ok && !seen[name] {
			seen[name] = true
			text += c.World.String(namespace, service)
		}
	}
	return text
}

// aliases returns the targets of the name, in order.
func (c *Case) aliases() []string {
	var list []string
	for _, rr := range c.Want.Answer {
		if alias, ok := rr.(*dns.CNAME); ok {
			list = append(list, alias.Target)
		}
	}
	return list
}

// serviceOf parses the name of a Service, or a name below it.
func serviceOf(name string) (namespace, service string, ok bool) {
	rest, ok := strings.CutSuffix(name, ".svc."+world.Zone)
	labels := strings.Split(rest, ".")
	if n := len(labels); ok && n >= 2 {
		return labels[n-1], labels[n-2], true
	}
	return "", "", false
}

func (c *Case) isType(types ...uint16) bool { return slices.Contains(types, c.Question.Type) }

// isEmpty reports whether the name exists without records of the type.
func (c *Case) isEmpty() bool {
	return c.Want.Rcode == dns.RcodeSuccess && len(c.Want.Answer) == 0
}

// isAt reports whether the name consists of the labels and the zone.
func (c *Case) isAt(labels string) bool { return c.name == labels+world.Zone }

// isPod reports whether the name ends in the name of an existing pod.
func (c *Case) isPod() bool {
	n := len(c.labels)
	return n >= 3 && c.labels[n-1] == "pod" && c.Zone.Has(strings.Join(c.labels[n-3:], ".")+"."+world.Zone)
}

// hasRecords reports whether the name has records in the cluster.
func (c *Case) hasRecords(types ...uint16) bool {
	return slices.ContainsFunc(types, func(t uint16) bool { return len(c.Zone.Records(c.name, t)) > 0 })
}

// holders returns the slices with a ready endpoint at the address of the name.
func (c *Case) holders() []*discoveryv1.EndpointSlice {
	var list []*discoveryv1.EndpointSlice
	for _, s := range c.World.Slices {
		if slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			return world.IsReady(e) && slices.Contains(e.Addresses, c.address.String())
		}) {
			list = append(list, s)
		}
	}
	return list
}

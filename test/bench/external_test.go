// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

// TestDifferential_External: CoreDNS's plugin k8s_external and dnsconfigurer give the same answers in external zones, except
// in the classes of docs/compatibility.md.
func TestDifferential_External(t *testing.T) {
	coreDNS, program := build(t)
	self, err := peer.OwnAddress()
	if err != nil {
		t.Fatal(err)
	}
	g := world.New(*seed+10, services, self)
	g.Expose()
	c := newCluster(t, g, "disabled")
	c.External = []string{"lb.example", "eu.lb.example", "lb.cluster.local"}
	servers := []server{
		{"CoreDNS", start(t, coreDNS, peer.CoreDNS, c.Cluster), true},
		{"dnsconfigurer", start(t, program, peer.Ours, c.Cluster), false},
	}
	c.next(t, g, 0, self, servers)
	equal, classes := 0, map[string]int{}
	for _, zone := range c.External {
		questions := g.ExternalQuestions(2000, zone+".")
		var replies [2][]*dns.Msg
		for i, s := range servers {
			if replies[i], _, err = ask.All(t.Context(), s.Address, questions); err != nil {
				t.Fatalf("%s: %v\n%s", s.name, err, s.Log())
			}
		}
		for i, q := range questions {
			want, got := ask.Normal(q, replies[0][i]), ask.Normal(q, replies[1][i])
			class := externalClass(&g.World, q, zone+".")
			switch classes[class]++; {
			case want.Equal(got):
				equal++
			case class == "":
				t.Errorf("%v: CoreDNS %v\ndnsconfigurer %v", q, want, got)
			}
		}
	}
	t.Logf("%d equal of %v", equal, classes)
	for class, n := range classes {
		if n < 20 || class != "" && n > 900 {
			t.Errorf("%d questions in class %q", n, class)
		}
	}
}

// externalClass returns the class of docs/compatibility.md for a question about a name in an external zone.
func externalClass(w *world.World, q ask.Question, zone string) string {
	labels := dns.SplitDomainName(strings.TrimSuffix(q.Lower(), zone))
	if len(labels) < 2 || len(labels) > 4 {
		return ""
	}
	below, s := labels[:len(labels)-2], w.Service(labels[len(labels)-1], labels[len(labels)-2])
	if s == nil || len(s.Spec.ExternalIPs)+len(s.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}
	isHost := func(i corev1.LoadBalancerIngress) bool { return i.Hostname != "" }
	isUnnamed := func(p corev1.ServicePort) bool { return p.Name == "" }
	isAddress := q.Type == dns.TypeA || q.Type == dns.TypeAAAA
	switch {
	case slices.ContainsFunc(s.Status.LoadBalancer.Ingress, isHost):
		return "external-host"
	case len(below) == 1:
		return "below-external-name"
	case len(below) == 2 && (!strings.HasPrefix(below[0], "_") || !strings.HasPrefix(below[1], "_") || below[0] == "_" || below[1] == "_"):
		return "port-name-without-underscore"
	case len(below) == 2 && isAddress:
		return "address-of-port-name"
	case q.Type == dns.TypeSRV && slices.ContainsFunc(s.Spec.Ports, isUnnamed):
		return "srv-of-unnamed-port"
	}
	return ""
}

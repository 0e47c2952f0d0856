// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// specExample is an example of Kubernetes DNS-Based Service Discovery 1.1.0: the clause, the
// question and the answer as in the text, and a cluster that has this answer.
type specExample struct {
	clause, question string
	answer           []string
	cluster          string
}

// specExamples are all examples of the text. They contradict each other on addresses, so each has
// its own cluster.
var specExamples = []specExample{
	{"2.2", "dns-version.cluster.local. IN TXT",
		[]string{`dns-version.cluster.local. 28800 IN TXT "1.1.0"`}, ""},
	{"2.3.1 IPv4", "kubernetes.default.svc.cluster.local. IN A",
		[]string{"kubernetes.default.svc.cluster.local. 4 IN A 10.3.0.1"},
		"service default/kubernetes 10.3.0.1 https:tcp:443"},
	{"2.3.1 IPv6", "kubernetes.default.svc.cluster.local. IN AAAA",
		[]string{"kubernetes.default.svc.cluster.local. 4 IN AAAA 2001:db8::1"},
		"service default/kubernetes 2001:db8::1 https:tcp:443"},
	{"2.3.2", "_https._tcp.kubernetes.default.svc.cluster.local. IN SRV",
		[]string{"_https._tcp.kubernetes.default.svc.cluster.local. 30 IN SRV 10 100 443 kubernetes.default.svc.cluster.local."},
		"service default/kubernetes 10.3.0.1 https:tcp:443 :tcp:8443"},
	{"2.3.3 IPv4", "1.0.3.10.in-addr.arpa. IN PTR",
		[]string{"1.0.3.10.in-addr.arpa. 14 IN PTR kubernetes.default.svc.cluster.local."},
		"service default/kubernetes 10.3.0.1 https:tcp:443"},
	{"2.3.3 IPv6", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. IN PTR",
		[]string{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 14 IN " +
			"PTR kubernetes.default.svc.cluster.local."},
		"service default/kubernetes 2001:db8::1 https:tcp:443"},
	{"2.4.1 IPv4", "headless.default.svc.cluster.local. IN A",
		[]string{
			"headless.default.svc.cluster.local. 4 IN A 10.3.0.1",
			"headless.default.svc.cluster.local. 4 IN A 10.3.0.2",
			"headless.default.svc.cluster.local. 4 IN A 10.3.0.3",
		}, "service default/headless\nslice default/headless 10.3.0.1 10.3.0.2=my-pet\nslice default/headless 10.3.0.3 10.3.0.4!"},
	{"2.4.1 IPv4, hostname", "my-pet.headless.default.svc.cluster.local. IN A",
		[]string{"my-pet.headless.default.svc.cluster.local. 4 IN A 10.3.0.100"},
		"service default/headless\nslice default/headless 10.3.0.100=my-pet 10.3.0.101 10.3.0.102=my-pet!"},
	{"2.4.1 IPv6", "headless.default.svc.cluster.local. IN AAAA",
		[]string{
			"headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::1",
			"headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::2",
			"headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::3",
		}, "service default/headless\nslice default/headless 2001:db8::1 2001:db8::2\n" +
			"slice default/headless 2001:db8::3=my-pet 2001:db8::4!"},
	{"2.4.1 IPv6, hostname", "my-pet.headless.default.svc.cluster.local. IN AAAA",
		[]string{"my-pet.headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::1"},
		"service default/headless\nslice default/headless 2001:db8::1=my-pet 2001:db8::2"},
	{"2.4.2", "_https._tcp.headless.default.svc.cluster.local. IN SRV",
		[]string{
			"_https._tcp.headless.default.svc.cluster.local. 4 IN SRV 10 100 443 my-pet.headless.default.svc.cluster.local.",
			"_https._tcp.headless.default.svc.cluster.local. 4 IN SRV 10 100 443 my-pet-2.headless.default.svc.cluster.local.",
			"_https._tcp.headless.default.svc.cluster.local. 4 IN SRV 10 100 443 438934893.headless.default.svc.cluster.local.",
		}, "service default/headless https:tcp:443\n" +
			"slice default/headless 10.3.0.100=my-pet 10.3.0.101=my-pet-2 10.3.0.102 10.3.0.103! https:tcp:443 :tcp:80"},
	{"2.4.3 IPv4", "100.0.3.10.in-addr.arpa. IN PTR",
		[]string{"100.0.3.10.in-addr.arpa. 14 IN PTR my-pet.headless.default.svc.cluster.local."},
		"service default/headless\nslice default/headless 10.3.0.100=my-pet"},
	{"2.4.3 IPv6", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. IN PTR",
		[]string{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 14 IN " +
			"PTR my-pet.headless.default.svc.cluster.local."},
		"service default/headless\nslice default/headless 2001:db8::1=my-pet"},
	{"2.5 IPv4", "foo.default.svc.cluster.local. IN A",
		[]string{"foo.default.svc.cluster.local. 10 IN CNAME www.example.com.", "www.example.com. 28715 IN A 192.0.2.53"},
		"service default/foo external=www.example.com"},
	{"2.5 IPv6", "foo.default.svc.cluster.local. IN AAAA",
		[]string{"foo.default.svc.cluster.local. 10 IN CNAME www.example.com.", "www.example.com. 28715 IN AAAA 2001:db8::1"},
		"service default/foo external=www.example.com"},
}

// TestZone_SpecificationExamples sends the questions of the text over UDP and TCP, with and
// without EDNS0, also in upper case (clause 2.1: all comparisons are case-insensitive). The
// answers are those of the text, except for what the text does not specify: the TTL in the zone, TTLs of
// other servers above an hour, priority and weight, and the name of an endpoint without hostname,
// 438934893 in the text.
func TestZone_SpecificationExamples(t *testing.T) {
	upstream := parseRecords(t, "www.example.com. 28715 IN A 192.0.2.53\nwww.example.com. 28715 IN AAAA 2001:db8::1")
	for _, e := range specExamples {
		t.Run(e.clause, func(t *testing.T) {
			s := startServer(t, "namespace default\n"+e.cluster+"\nloaded", Config{Upstream: upstream.exchange})
			name, qtype, _ := strings.Cut(e.question, " IN ")
			s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
				for _, owner := range []string{name, strings.ToUpper(name)} {
					s.cache.Clear() // or TTLs have aged
					reply := exchange(owner + " " + qtype)
					var want []string
					for _, line := range e.answer {
						rr, err := dns.NewRR(strings.Replace(line, "438934893.", "10-3-0-102.", 1))
						if err != nil {
							t.Fatal(err)
						}
						want = append(want, specifiedText(rr))
					}
					var got []string
					for _, rr := range reply.Answer {
						got = append(got, specifiedText(rr))
					}
					slices.Sort(got)
					slices.Sort(want)
					if reply.Rcode != dns.RcodeSuccess || !reply.Authoritative || !slices.Equal(got, want) {
						t.Errorf("%s\n got %s\nwant %s", owner, reply, strings.Join(want, "\n"))
					}
				}
			})
		})
	}
}

// specifiedText returns a record as text, without the parts that the text does not specify.
func specifiedText(rr dns.RR) string {
	h := rr.Header()
	h.Name = strings.ToLower(h.Name)
	if srv, ok := rr.(*dns.SRV); ok {
		srv.Priority, srv.Weight = 0, 0
	}
	if h.Rrtype != dns.TypeTXT && strings.HasSuffix(h.Name, ".local.") || h.Rrtype == dns.TypePTR {
		h.Ttl = 0
	}
	h.Ttl = min(h.Ttl, uint32(cache.DefaultMaxTTL/time.Second))
	return rr.String()
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// testCluster has an object for each rule.
func testCluster() Cluster {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	service := func(name string, spec corev1.ServiceSpec) corev1.Service {
		return corev1.Service{ObjectMeta: named(name), Spec: spec}
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-1", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		Ports:      []discoveryv1.EndpointPort{{Name: ptr.To("sql"), Port: ptr.To[int32](5432)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.1.0.1"}, Hostname: ptr.To("db-0")},
			{Addresses: []string{"10.1.0.2"}},
			{Addresses: []string{"10.1.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
		},
	}
	for i := range 40 { // do not fit into 512 bytes
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.1.%d", i)}})
	}
	return Cluster{
		Domain:     "cluster.local",
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}},
		Services: []corev1.Service{
			service("web", corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
				Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}, {Port: 81}}}),
			service("db", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}),
			service("idle", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}),
			service("mail", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "mail.example.com"}),
			{ObjectMeta: metav1.ObjectMeta{Namespace: "gone", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.9"}}},
		},
		Slices: []discoveryv1.EndpointSlice{slice},
	}
}

// rightReply returns the reply of a server without faults, before it is cut to the size of a datagram.
func rightReply(c Cluster, query *dns.Msg) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	opt := query.IsEdns0()
	if opt != nil {
		reply.SetEdns0(1232, opt.Do())
	}
	switch q := query.Question[0]; {
	case query.Opcode != dns.OpcodeQuery:
		return reply.SetRcode(query, dns.RcodeNotImplemented)
	case opt != nil && opt.Version() > 0:
		reply.Rcode = dns.RcodeBadVers
	case q.Qtype == dns.TypeSOA:
		reply.Answer = []dns.RR{soaOf(q.Name)}
	default:
		answerName(c, reply, dns.CanonicalName(q.Name), q.Qtype)
	}
	return reply
}

func soaOf(zone string) dns.RR {
	return &dns.SOA{Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 5}, Ns: "ns." + zone, Mbox: zone}
}

func answerName(c Cluster, reply *dns.Msg, name string, qtype uint16) {
	for _, q := range c.questions() {
		alias := q.rule == "external-name" && q.name == name && qtype == dns.TypeA
		if q.name != name || q.qtype != qtype && !alias {
			continue
		}
		reply.Rcode = q.rcode
		for _, data := range q.want {
			if before, ip, found := strings.Cut(data, "("); found { // the server chooses a label
				ip, parent, _ := strings.Cut(ip, ")")
				data = before + "ip-" + strings.ReplaceAll(ip, ".", "-") + parent
			}
			reply.Answer = append(reply.Answer, newRecord(name, q.qtype, data))
		}
		if alias {
			answerName(c, reply, q.want[0], qtype)
		}
	}
	switch {
	case name == "mail.example.com.":
		reply.Answer = append(reply.Answer, newRecord(name, dns.TypeA, "192.0.2.25"))
	case name == "dns-version.cluster.local." && qtype == dns.TypeTXT:
		reply.Answer = append(reply.Answer, newRecord(name, qtype, `"1.1.0"`))
	}
	if len(reply.Answer) == 0 {
		reply.Ns = []dns.RR{soaOf("cluster.local.")}
	}
}

func newRecord(name string, rrtype uint16, data string) dns.RR {
	if rrtype == dns.TypeSRV {
		data = "0 100 " + data
	}
	rr, err := dns.NewRR(name + " 5 IN " + dns.TypeToString[rrtype] + " " + data)
	if err != nil {
		panic(err)
	}
	return rr
}

// runBeside returns the failures of a server with a fault, by rule.
func runBeside(t *testing.T, c Cluster, fault func(network string, query, reply *dns.Msg) *dns.Msg) map[string][]string {
	t.Helper()
	server := dnstest.Start(t, func(network string, query *dns.Msg) []dnstest.Message {
		return dnstest.Reply(func(query *dns.Msg) *dns.Msg {
			reply := rightReply(c, query)
			if opt := query.IsEdns0(); network == "udp" && opt != nil {
				reply.Truncate(int(opt.UDPSize()))
			} else if network == "udp" {
				reply.Truncate(dns.MinMsgSize)
			}
			return fault(network, query, reply)
		})(network, query)
	})
	result := must.Get(Run(t.Context(), server.Addr, func(context.Context) (Cluster, error) { return c, nil }))(t)
	failures := map[string][]string{}
	for _, r := range result.Rules {
		if r.Questions == 0 {
			t.Errorf("%s: not asked", r.ID)
		}
		if r.Failed > 0 {
			failures[r.ID] = r.Failures
		}
	}
	return failures
}

func TestRun_Right(t *testing.T) {
	if failures := runBeside(t, testCluster(), func(_ string, _, r *dns.Msg) *dns.Msg { return r }); len(failures) > 0 {
		t.Errorf("%v", failures)
	}
}

// TestRun_Faults: each fault of a server fails its rules and no others.
func TestRun_Faults(t *testing.T) {
	on := func(name string, qtype uint16, edit func(*dns.Msg)) func(string, *dns.Msg, *dns.Msg) *dns.Msg {
		return func(_ string, query, reply *dns.Msg) *dns.Msg {
			if q := query.Question[0]; strings.EqualFold(q.Name, name) && q.Qtype == qtype {
				edit(reply)
			}
			return reply
		}
	}
	dropAnswer := func(m *dns.Msg) { m.Answer = nil }
	dropLast := func(m *dns.Msg) { m.Answer = m.Answer[:len(m.Answer)-1] }
	adds := func(rr dns.RR) func(*dns.Msg) { return func(m *dns.Msg) { m.Answer = append(m.Answer, rr) } }
	deny := func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }
	always := func(edit func(query, reply *dns.Msg)) func(string, *dns.Msg, *dns.Msg) *dns.Msg {
		return func(_ string, query, reply *dns.Msg) *dns.Msg { edit(query, reply); return reply }
	}
	silent := func(when func(network string, query *dns.Msg) bool) func(string, *dns.Msg, *dns.Msg) *dns.Msg {
		return func(network string, query, reply *dns.Msg) *dns.Msg {
			if when(network, query) {
				return reply.SetRcode(query, dns.RcodeServerFailure)
			}
			return reply
		}
	}
	hasEDNS := func(test func(*dns.OPT) bool) func(string, *dns.Msg) bool {
		return func(_ string, query *dns.Msg) bool { o := query.IsEdns0(); return o != nil && test(o) }
	}
	web, db := "web.shop.svc.cluster.local.", "db.shop.svc.cluster.local."
	for _, tt := range []struct {
		name  string
		fault func(string, *dns.Msg, *dns.Msg) *dns.Msg
		want  string
	}{
		{"no version", on("dns-version.cluster.local.", dns.TypeTXT, dropAnswer), "schema-version"},
		{"no cluster IP", on(web, dns.TypeA, dropAnswer), "service-address"},
		{"another cluster IP", on(web, dns.TypeA, adds(newRecord(web, dns.TypeA, "10.9.9.9"))), "service-address"},
		{"another port", on("_http._tcp."+web, dns.TypeSRV, func(m *dns.Msg) { m.Answer[0].(*dns.SRV).Port++ }), "service-port"},
		{"no reverse name", on("1.0.0.10.in-addr.arpa.", dns.TypePTR, deny), "service-reverse"},
		{"one endpoint less", on(db, dns.TypeA, dropLast), "headless-address truncation-tcp"},
		{"an endpoint that is not ready", on(db, dns.TypeA, adds(newRecord(db, dns.TypeA, "10.1.0.3"))),
			"headless-address truncation truncation-edns truncation-addresses truncation-tcp"}, // one more does not fit
		{"an address for no endpoints", on("idle.shop.svc.cluster.local.", dns.TypeA, func(m *dns.Msg) {
			m.Rcode, m.Answer = dns.RcodeSuccess, []dns.RR{newRecord("idle.shop.svc.cluster.local.", dns.TypeA, "10.1.0.1")}
		}), "headless-empty"},
		{"no hostname", on("db-0."+db, dns.TypeA, deny), "endpoint-hostname"},
		{"one SRV record for two endpoints without a hostname", on("_sql._tcp."+db, dns.TypeSRV, dropLast), "headless-port"},
		{"the reverse name of another pod", on("1.0.1.10.in-addr.arpa.", dns.TypePTR, func(m *dns.Msg) {
			m.Answer[0].(*dns.PTR).Ptr = "db-1." + db
		}), "headless-reverse"},
		{"addresses without the alias", on("mail.shop.svc.cluster.local.", dns.TypeCNAME, dropAnswer), "external-name"},
		{"an alias without addresses", on("mail.shop.svc.cluster.local.", dns.TypeA, dropLast), "alias-address"},
		{"NXDOMAIN for AAAA", on(web, dns.TypeAAAA, deny), "other-family"},
		{"NXDOMAIN for a name with names below", on("shop.svc.cluster.local.", dns.TypeA, deny), "empty-non-terminal"},
		{"NOERROR for an absent name", always(func(_, m *dns.Msg) {
			if m.Rcode == dns.RcodeNameError && strings.HasPrefix(m.Question[0].Name, "absent") {
				m.Rcode = dns.RcodeSuccess
			}
		}), "absent-name"},
		{"no SOA record in negative replies", always(func(_, m *dns.Msg) { m.Ns = nil }),
			"other-family absent-name empty-non-terminal headless-empty"},
		{"no SOA record", on("cluster.local.", dns.TypeSOA, dropAnswer),
			"soa flag-cd flag-ad flag-reserved tcp edns edns-option edns-flag dnssec edns-options letter-case"},
		{"NOTIMP for an unknown type", on("cluster.local.", 1000, func(m *dns.Msg) { m.Rcode = dns.RcodeNotImplemented }),
			"unknown-type"},
		{"CD refused", silent(func(_ string, q *dns.Msg) bool { return q.CheckingDisabled }), "flag-cd"},
		{"AD refused", silent(func(_ string, q *dns.Msg) bool { return q.AuthenticatedData }), "flag-ad"},
		{"the reserved flag copied", always(func(q, m *dns.Msg) { m.Zero = q.Zero }), "flag-reserved"},
		{"an unknown opcode answered", always(func(_, m *dns.Msg) { m.Rcode &= ^dns.RcodeNotImplemented }), "unknown-opcode"},
		{"no TCP", silent(func(network string, _ *dns.Msg) bool { return network == "tcp" }),
			"tcp tcp-pipeline truncation-tcp headless-port"},
		{"EDNS ignored", always(func(_, m *dns.Msg) { m.Extra, m.Rcode = nil, m.Rcode&0xf }),
			"edns edns-version edns-option edns-flag edns-version-flag edns-version-option dnssec edns-version-dnssec " +
				"edns-options truncation-edns"},
		{"EDNS in each reply", always(func(_, m *dns.Msg) {
			if m.IsEdns0() == nil {
				m.SetEdns0(1232, false)
			}
		}), "no-edns truncation truncation-addresses"}, // which does not fit
		{"versions ignored", always(func(_, m *dns.Msg) { m.Rcode &= ^dns.RcodeBadVers }),
			"edns-version edns-version-flag edns-version-option edns-version-dnssec"},
		{"options copied", always(func(q, m *dns.Msg) {
			if o := q.IsEdns0(); o != nil && m.IsEdns0() != nil {
				m.IsEdns0().Option = o.Option
			}
		}), "edns-option edns-version-option"},
		{"flags copied", always(func(q, m *dns.Msg) {
			if o := q.IsEdns0(); o != nil && m.IsEdns0() != nil && m.Rcode == 0 {
				m.IsEdns0().Hdr.Ttl |= o.Hdr.Ttl & unknownFlag
			}
		}), "edns-flag"},
		{"DO refused", silent(hasEDNS((*dns.OPT).Do)), "dnssec edns-version-dnssec"},
		{"options refused", silent(hasEDNS(func(o *dns.OPT) bool { return len(o.Option) > 1 })), "edns-options"},
		{"letters folded", always(func(_, m *dns.Msg) { m.Question[0].Name = strings.ToLower(m.Question[0].Name) }), "letter-case"},
		{"AAAA refused", on("svc.cluster.local.", dns.TypeAAAA, func(m *dns.Msg) { m.Rcode = dns.RcodeRefused }),
			"both-families tcp-pipeline empty-non-terminal"},
		{"an empty truncated reply", always(func(_, m *dns.Msg) {
			if m.Truncated {
				m.Answer = nil
			}
		}), "truncation-addresses"},
		{"a long datagram", func(_ string, query, _ *dns.Msg) *dns.Msg { return rightReply(testCluster(), query) },
			"truncation truncation-addresses truncation-edns headless-address headless-port"},
		{"a wrong order of records is right", always(func(_, m *dns.Msg) { slices.Reverse(m.Answer) }), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failures := runBeside(t, testCluster(), tt.fault)
			want := strings.Fields(tt.want)
			for _, rule := range want {
				if failures[rule] == nil {
					t.Errorf("%s: not found", rule)
				}
				delete(failures, rule)
			}
			if len(failures) > 0 {
				t.Errorf("also: %v", failures)
			}
		})
	}
}

// TestWrongRcode: a response code without a name is a number.
func TestWrongRcode(t *testing.T) {
	if got := wrongRcode(12, dns.RcodeSuccess); got != "12, want NOERROR" {
		t.Errorf("got %q", got)
	}
}

// TestRun_Changed: the cluster changes between its list and the queries. A server that knows the change is right.
func TestRun_Changed(t *testing.T) {
	before, after := testCluster(), testCluster()
	after.Services[0].Spec.ClusterIPs = []string{"10.0.0.2"}
	server := dnstest.Start(t, dnstest.Reply(func(query *dns.Msg) *dns.Msg { return rightReply(after, query) }))
	read := 0
	result := must.Get(Run(t.Context(), server.Addr, func(context.Context) (Cluster, error) {
		if read++; read == 1 {
			return before, nil
		}
		return after, nil
	}))(t)
	for _, r := range result.Rules {
		if strings.HasPrefix(r.ID, "service-") && r.Failed > 0 {
			t.Errorf("%s: %v", r.ID, r.Failures)
		}
	}
}

// TestRun_Canceled: a command that is interrupted has no result.
func TestRun_Canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := testCluster()
	_, err := Run(ctx, dnstest.ClosedPort(t), func(context.Context) (Cluster, error) { return c, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestSample: a rule with few questions keeps them beside one with many, and equal objects give equal questions.
func TestSample(t *testing.T) {
	c := testCluster()
	for i := range 500 {
		c.Services = append(c.Services, corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("s", i)},
			Spec: corev1.ServiceSpec{ClusterIPs: []string{fmt.Sprintf("10.2.%d.%d", i/250, i%250)}}})
	}
	list := sample(c.questions(), maxQuestions)
	number := map[string]int{}
	for _, q := range list {
		number[q.rule]++
	}
	if len(list) != maxQuestions || number["external-name"] != 1 || number["headless-empty"] != 1 || number["service-address"] < 20 {
		t.Errorf("%d questions: %v", len(list), number)
	}
	for i, q := range sample(c.questions(), maxQuestions) {
		if q.name != list[i].name || q.qtype != list[i].qtype {
			t.Fatalf("%d: %v, before %v", i, q, list[i])
		}
	}
}

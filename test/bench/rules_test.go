// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// ruleTests are Corefiles with rules: those that vendors and users publish.
var ruleTests = []struct {
	name, rules string
	blocks      string // further blocks, with the port and the server
}{
	{"no AAAA", "template IN AAAA\n", ""},
	{"no AAAA with SOA", "template IN AAAA . {\nauthority \"{{ .Zone }} 60 IN SOA a. b. 1 1 1 1 60\"\n}\n", ""},
	{"customised", `
  log . {
    class denial error
  }
  rewrite name shop.example web.eu.svc.cluster.local
  rewrite stop {
    name regex (.*)\.in\.test {1}.eu.svc.cluster.local
    answer auto
  }
  template IN AAAA {
    authority "{{ .Zone }} 60 IN SOA a. b. 1 1 1 1 60"
  }
  hosts {
    192.0.2.7 db.example old-db.example
    ttl 60
    fallthrough
  }
`, ""},
	{"AKS", `
  template ANY ANY internal.cloud.example {
    match "^(?:[^.]+\.){4,}internal\.cloud\.example\.$"
    rcode NXDOMAIN
    fallthrough
  }
`, ""},
	{"a lab", "", `lab.example:%[1]s {
  template IN A {
    answer "{{ .Name }} 60 IN A 192.0.2.8"
  }
  template IN AAAA
  forward . %[2]s
}
`},
	{"addresses in names", `
  template IN A example {
    match "^ip-(?P<a>[0-9]+)-([0-9]+)\.example\.$" "^host(?P<a>[0-9])(x?)[^.]*\."
    answer "{{ .Name }} 60 IN A 192.0.{{ .Group.a }}.{{ index .Match 2 }}"
    fallthrough
  }
  template IN A b.example {
    match "^x"
    answer "{{ .Name }} 20 IN A 192.0.2.1" "{{ .Name }} 20 IN A 192.0.2.2"
  }
`, ""},
	{"an alias", `
  template IN A b.example {
    match ^(a|w)
    answer "{{ .Name }} 60 IN CNAME {{ index .Match 0 }}.example."
    fallthrough
  }
`, ""},
	{"rewrites", `
  rewrite name regex ^(.*)\.lab2\.example\.$ {1}.lab.example answer auto
  rewrite name suffix .lab3.example .lab.example answer auto
  rewrite name suffix b4.example b.example answer auto
  rewrite name prefix web w answer auto
  rewrite name exact W.corp.example ALIAS.example.
  rewrite name self.example self.example
  rewrite name srv.example target.srv.example
  rewrite continue name first.example host7.example
  rewrite name host7.example never.example
  rewrite name regex (.*)-x-(.*)\.example {2}.{1}.example answer auto
  rewrite name regex ^empty\.(x*) {1}.example answer auto
`, ""},
	{"generated 1", generatedRules(1), ""},
	{"generated 2", generatedRules(2), ""},
	{"generated 3", generatedRules(3), ""},
	{"generated 4", generatedRules(4), ""},
}

// generatedRules returns thirty rules from a seed.
func generatedRules(seed uint64) string {
	r := rand.New(rand.NewPCG(2, seed))
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	label := func() string { return pick("a", "w", "x", "host7", "db", "eu", "web", "lab", "corp", "b", "alias") }
	domain := func() string {
		return label() + "." + pick("example", "lab.example", "b.example", "eu.svc.cluster.local", label()+".example")
	}
	var b strings.Builder
	for range 15 {
		switch domain := domain(); r.IntN(5) {
		case 0:
			fmt.Fprintf(&b, "rewrite name %s %s\n", domain, pick("w.example", "a.example", "alias.example", "web.eu.svc.cluster.local"))
		case 1:
			fmt.Fprintf(&b, "rewrite name suffix .%s .%s answer auto\n", domain,
				pick("example", "lab.example", "b.example", "eu.svc.cluster.local"))
		case 2:
			fmt.Fprintf(&b, "rewrite name regex ^([a-z]+)[.-]%s %s answer auto\n", regexp.QuoteMeta(domain),
				pick("{1}.example", "{1}.b.example", "w.example"))
		case 3:
			fmt.Fprintf(&b, "rewrite stop {\nname regex (%s|%s)([^.]*)\\.(.*) {1}{2}.%s\nanswer auto\n}\n",
				label(), label(), pick("{3}", "example"))
		case 4:
			fmt.Fprintf(&b, "rewrite name prefix %s %s answer auto\n", label()+"."+label(), label())
		}
	}
	for range 15 {
		qtype, data, zone := "A", pick("192.0.2.1", "192.0.2.{{ index .Match 1 }}"), pick(domain(), "example", ".")
		if r.IntN(2) == 0 {
			qtype, data = "TXT", pick(`\"{{ index .Match 1 }} x\"`, `{{ .Zone }}`)
		}
		fmt.Fprintf(&b, "template IN %s %s {\nmatch ^[a-z-]*([0-9]*)\\.%s\n", qtype, zone, label())
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "rcode %s\n", pick("NXDOMAIN", "REFUSED", "NOERROR"))
		default:
			fmt.Fprintf(&b, "answer \"{{ .Name }} %d IN %s %s\"\n", 10*r.IntN(3)+10, qtype, data)
		}
		b.WriteString("fallthrough\n}\n")
	}
	return b.String()
}

const ruleRecords = `
alias.example. 30 IN CNAME w.example.
target.srv.example. 30 IN SRV 1 2 3 b.target.srv.example.
target.srv.example. 30 IN MX 1 other.example.
w.example. 30 IN A 198.51.100.1
w.example. 30 IN AAAA 2001:db8::1
w.example. 30 IN MX 1 mx.example.
a.example. 30 IN A 198.51.100.2
*.example. 30 IN A 198.51.100.9
*.corp.example. 30 IN TXT "a b"
host7.example. 30 IN A 198.51.100.3
*.lab.example. 30 IN A 198.51.100.4
*.b.example. 30 IN A 198.51.100.5
a.b.c.d.internal.cloud.example. 30 IN A 198.51.100.6
b.c.d.internal.cloud.example. 30 IN A 198.51.100.7
a.b.c.d.e.internal.cloud.example. 30 IN A 198.51.100.7
web.eu.svc.cluster.local. 5 IN A 10.96.0.7
eu.svc.cluster.local. 5 IN HINFO an empty-non-terminal
svc.cluster.local. 5 IN HINFO an empty-non-terminal
`

const ruleServices = `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: eu},
spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}}
`

// TestRules compares the answers to names that the rules match, to their neighbours, and to random ones.
func TestRules(t *testing.T) {
	binaries := t.TempDir()
	coreDNS, program := build(t, binaries)
	all := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, ruleRecords)))
	for _, tt := range ruleTests {
		t.Run(tt.name, func(t *testing.T) {
			corefile := func(port, kubernetes string) string {
				text := fmt.Sprintf(".:%s {\n%s\n%s\nforward . %s\ncache 30\n}\n", port, tt.rules, kubernetes, all.Addr)
				if tt.blocks != "" {
					text += fmt.Sprintf(tt.blocks, port, all.Addr)
				}
				return text
			}
			portOfPeer, portOfServer, notes := runBoth(t, t.TempDir(), coreDNS, program, ruleServices, corefile)
			compareRules(t, portOfPeer, portOfServer, questionNames(t, tt.rules+tt.blocks), notes)
		})
	}
}

// questionNames returns at least 500 names: those of the records and rules, and names that are made of their labels.
func questionNames(t *testing.T, rules string) (names []string) {
	labels := []string{"x", "lab2", "lab3", "b4", "in", "test", "a-x-w", "empty", "empty.xx",
		"ip-1-2", "ip-3-4", "ip-300-1", "host7", "host8", "eu", "svc", "xfoo", "w", "A", "--"}
	for _, word := range strings.FieldsFunc(rules+ruleRecords, func(r rune) bool { return strings.ContainsRune(" \n\t\"^$()\\", r) }) {
		if strings.Contains(word, ".") && !strings.ContainsAny(word, "{[/") {
			names = append(names, strings.Trim(word, ".*"))
			for label := range strings.SplitSeq(word, ".") {
				if label != "" && label != "*" && len(label) < 20 {
					labels = append(labels, label)
				}
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	known := slices.Clone(names)
	r := rand.New(rand.NewPCG(1, uint64(len(rules))))
	for len(names) < 500 {
		name := known[r.IntN(len(known))]
		switch r.IntN(4) {
		case 0:
			name = labels[r.IntN(len(labels))] + "." + name
		case 1:
			name = labels[r.IntN(len(labels))] + name
		case 2:
			_, rest, _ := strings.Cut(name, ".")
			name = labels[r.IntN(len(labels))] + "." + rest
		case 3:
			name = labels[r.IntN(len(labels))] + "." + labels[r.IntN(len(labels))] + "." + labels[r.IntN(len(labels))]
		}
		names = append(names, strings.TrimSuffix(name, "."))
	}
	return names
}

const maxRuleFailures = 5

// compareRules asks both servers for the names, with five types each.
func compareRules(t *testing.T, portOfPeer, portOfServer string, names []string, notes string) {
	t.Helper()
	answerOf(t, portOfPeer, "0.", dns.TypeA) // no rule matches it
	answerOf(t, portOfServer, "0.", dns.TypeA)
	questions, answered, failures := 0, 0, 0
	for _, name := range names {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeMX, dns.TypeTXT, dns.TypeSRV} {
			want, got := replyOf(t, portOfPeer, name+".", qtype), replyOf(t, portOfServer, name+".", qtype)
			if want != got && failures == 0 { // the manifests may not be loaded yet
				time.Sleep(100 * time.Millisecond)
				got = replyOf(t, portOfServer, name+".", qtype)
			}
			questions++
			if strings.Contains(want, "\t") {
				answered++
			}
			if want == got || isLocal(name) {
				continue
			}
			if failures++; failures <= maxRuleFailures {
				t.Errorf("%s %s: CoreDNS %s, dnsconfigurer %s", name, dns.Type(qtype), want, got)
			}
		}
	}
	t.Logf("%d questions, %d with records, %d differences\n%s", questions, answered, failures, notes)
}

// isLocal reports whether dnsconfigurer answers a name itself, which CoreDNS forwards.
func isLocal(name string) bool {
	return name == "local" || name == "cluster.local" || name == "test" || strings.HasSuffix(name, ".test")
}

func replyOf(t *testing.T, port, name string, qtype uint16) string {
	t.Helper()
	c := dns.Client{Timeout: 5 * time.Second}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	return answerText(m)
}

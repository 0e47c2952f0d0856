// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// ruleTests are Corefiles with rules: those that vendors and users publish.
var ruleTests = []struct {
	name, rules string
	blocks      string // further blocks
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
	{"a lab", "", `lab.example {
  template IN A {
    answer "{{ .Name }} 60 IN A 192.0.2.8"
  }
  template IN AAAA
  forward . UPSTREAM
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
	{"hosts", hostsRules, hostsBlocks},
	{"a zone file", "", zoneBlock("corp.zone")},
	{"a generated zone", "", zoneBlock("1.zone")},
	{"another generated zone", "", zoneBlock("2.zone")},
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
*.corp.example. 30 IN A 198.51.100.8
1.0.0.11.in-addr.arpa. 30 IN PTR all.example.
`

// TestImport_Answers: CoreDNS with a Corefile, and dnsconfigurer with what import-corefile makes of it, give the same
// answers, except for the reverse name of a host in another block, which import-corefile announces. The log has names
// that the Corefile does not have.
func TestImport_Answers(t *testing.T) {
	coreDNS, program := build(t, t.TempDir())
	all := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, ruleRecords)))
	owners := regexp.MustCompile(`(?m)^\S+`).FindAllString(ruleRecords, -1)
	for _, tt := range ruleTests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range zoneAndHostFiles() {
				writeFile(t, dir, name, text)
			}
			text := ".:53 {\nlog " + strings.Join(owners, " ") + "\n" + tt.rules + clusterPlugin +
				"\nforward . UPSTREAM\ncache 30\n}\n" + tt.blocks
			writeFile(t, dir, "Corefile", strings.ReplaceAll(text, "UPSTREAM", all.Addr.String()))
			cmd := exec.CommandContext(t.Context(), program, "import-corefile", "--check", coreDNS, "Corefile")
			cmd.Dir = dir
			var errors strings.Builder
			cmd.Stderr = &errors
			err := cmd.Run()
			found := regexp.MustCompile(`(\d+) of (\d+) questions have different answers`).FindStringSubmatch(errors.String())
			if found == nil {
				t.Fatal(err, errors.String())
			}
			want := cmp.Or(map[string]string{"hosts": "1"}[tt.name], "0")
			if questions, _ := strconv.Atoi(found[2]); found[1] != want || questions < 2000 || want != "0" && err == nil {
				t.Error(err, errors.String())
			}
			t.Log(found[0])
		})
	}
}

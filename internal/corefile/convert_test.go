// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"strings"
	"testing"
)

// TestConvert: each case adds lines to a block . with kubernetes and forward, or a block.
func TestConvert(t *testing.T) {
	const base = "  kubernetes cluster.local in-addr.arpa ip6.arpa {\n    fallthrough in-addr.arpa ip6.arpa\n  }\n"
	const plain = ". {\n" + base + "forward . 192.0.2.1\n"
	tests := []struct {
		name, text  string
		fields      string // lines of the file; "": not checked
		note        string // "": no note
		wantChanges bool
	}{
		{"order and TLS",
			". {\n" + base + "forward . tls://192.0.2.1%a.example tls://192.0.2.2 {\n tls_servername b.example\n policy round_robin\n }\n}",
			`upstreams: ["tls://192.0.2.1#a.example","tls://192.0.2.2#b.example"]` + "\n" + `upstreamPolicy: "roundRobin"`, "", false},
		{"one server has no order", ". {\n" + base + "forward . 192.0.2.1 {\nforce_tcp\n}\n}",
			`upstreams: ["tcp://192.0.2.1"]` + "\n" + `pods: "disabled"`, "", false},
		{"a stub domain in its own block", plain + "}\ncorp.example b.example {\nforward . 192.0.2.2:5353 [2001:db8::1]\n}",
			`- {"zone":"corp.example","servers":["192.0.2.2:5353","2001:db8::1"]}`, "", false},
		{"a stub domain by forward", ". {\n" + base + "forward corp.example 192.0.2.2\nforward . 192.0.2.1\n}",
			`- {"zone":"corp.example","servers":["192.0.2.2"]}`, "", false},
		{"a stub domain in the cluster domain", plain + "}\neast.svc.cluster.local {\nforward . 192.0.2.1\n}",
			`- {"zone":"east.svc.cluster.local","servers":["192.0.2.1"]}`, "", false},
		{"a stub domain in another", plain + "}\nb.example {\nforward . 192.0.2.2\n}\na.b.example {\nforward . 192.0.2.1\n}",
			`- {"zone":"a.b.example","servers":["192.0.2.1"]}`, "", false},
		{"the cache limits TTLs", plain + "hosts /f {\nfallthrough\n}\ncache {\nsuccess 9984 3\n}\n}",
			"ttl: 3\n  ttl: 3", "TTLs of other servers", false},
		{"never asked", plain + "forward corp.example 192.0.2.2\n}", "", "never asked", false},
		{"no forward", ". {\n" + base + "}", `resolvConf: ""`, "", false},
		{"a file for a zone", plain + "}\ncorp.example {\nforward . /etc/resolv.conf\n}", "", "only the zone .", true},
		{"no reverse zones", ". {\nkubernetes cluster.local\nforward . 192.0.2.1\n}", "", "no reverse names", true},
		{"own reverse networks", ". {\nkubernetes cluster.local 10.96.0.0/12\nforward . 192.0.2.1\n}",
			`reverseCIDRs: ["10.96.0.0/12"]`, "", false},
		{"reverse zones without fallthrough", ". {\nkubernetes cluster.local in-addr.arpa\nforward . 192.0.2.1\n}",
			"", "denies reverse names", true},
		{"fallthrough for all", ". {\nkubernetes cluster.local in-addr.arpa {\nfallthrough\n}\nforward . 192.0.2.1\n}",
			"", "here they get NXDOMAIN", true},
		{"two cluster domains",
			". {\nkubernetes a.example b.example in-addr.arpa {\nfallthrough in-addr.arpa\n}\nforward . 192.0.2.1\n}",
			"", "b.example is not served", true},
		{"two ports", ".:53 {\n" + base + "forward . 192.0.2.1\n}\n.:1053 {\nforward . 192.0.2.2\n}",
			`listen: ["[::]:53","[::]:1053"]`, "at all ports", true},
		{"addresses", ". {\n" + base + "bind 192.0.2.5 2001:db8::5\nforward . 192.0.2.1\n}",
			`listen: ["192.0.2.5:53","[2001:db8::5]:53"]`, "", false},
		{"an interface", ". {\n" + base + "bind eth0\nforward . 192.0.2.1\n}", "", "bind eth0", true},
		{"TLS clients", ". tls://. {\n" + base + "forward . 192.0.2.1\n}", "", "only DNS over UDP and TCP", true},
		{"old",
			". {\n" + strings.Replace(base, "fall", "upstream\nfall", 1) + "proxy . 192.0.2.1 {\nspray\n}\nerrors stdout\n}",
			`upstreams: ["192.0.2.1"]`, "removed from CoreDNS", false},
		{"limits", ". {\n" + base + "forward . 192.0.2.1 {\nmax_concurrent 9\nexpire 5s\n}\n}",
			"maxQueries: 100", "times and limits are fixed", false},
		{"a zone without forward", plain + "}\nlab.example {\nerrors\n}", "", "SERVFAIL", true},
		{"a plugin of others", plain + "k8s_gateway example\n}", "", "keep a CoreDNS", true},
		{"log of a name that no query has", plain + "log a..b c.example\n}", `  zones: ["c.example"]`, `"a..b" has an empty label`, false},
		{"hosts with such a name", plain + "hosts {\n192.0.2.7 a..b c.example\nfallthrough\n}\n}", `  - "192.0.2.7 c.example"`,
			`"a..b" has an empty label`, false},
		{"a zone file", plain + "}\ncorp.example {\nforward . 192.0.2.2\nfile db.corp a.corp.example corp.example {\nreload 5s\n}\n}",
			`- {"zone":"a.corp.example","file":"db.corp"}` + "\n" + `- {"zone":"corp.example","file":"db.corp"}`, "never asked", false},
		{"a zone file that falls through", plain + "}\ncorp.example {\nfile db.corp {\nfallthrough\n}\nforward . 192.0.2.2\n}",
			"", "get NXDOMAIN", true},
		{"a zone file for a part of a block", plain + "}\ncorp.example {\nfile db.corp a.corp.example\n}", "", "SERVFAIL", true},
		{"a zone file in no block", plain + "}\ncorp.example {\nforward . 192.0.2.1\nfile db.corp example\nfile db.b b.example\n}",
			`- {"zone":"corp.example","file":"db.corp"}`, "never has an effect", false},
		{"a zone file for all names", ". {\n" + base + "file db.root\n}", "", "cannot have a file", true},
		{"external zones",
			plain + "k8s_external LB.example. cluster.local other.example\n}\nother.example {\nforward . 192.0.2.2\n}",
			`- "lb.example"`, `the zone "cluster.local" cannot be external`, true},
		{"an external zone", plain + "k8s_external lb.example {\nttl 30\n}\nforward lb.example 192.0.2.2\n}",
			`- "lb.example"`, "the TTL is that of the cluster's names", false},
		{"an external zone with its own server",
			". {\n" + base + "forward lb.example 192.0.2.2\nforward . 192.0.2.1\nk8s_external lb.example\n}",
			`- "lb.example"`, "never asked in the zone lb.example", false},
		{"external names of endpoints", plain + "k8s_external lb.example {\nheadless\n}\n}",
			`- "lb.example"`, "have no names in external", true},
		{"external names that fall through", plain + "k8s_external lb.example {\nfallthrough\n}\n}",
			`- "lb.example"`, "get NXDOMAIN", true},
		{"external names without a zone", plain + "k8s_external\n}", "", `the zone "" cannot be external`, true},
		{"an external zone in another block", plain + "}\nb.example {\nforward . 192.0.2.1\nk8s_external lb.example\n}",
			"", "never has an effect", false},
		{"acl", plain + "acl {\nallow net 10.0.0.1/8 2001:db8::1\nblock type A TYPE MX Net *\nfilter net 192.0.2.1 type *\n}\n" +
			"acl b.example other {\ndrop\n}\n}",
			`- {"action":"allow","networks":["10.0.0.0/8","2001:db8::1/128"]}` + "\n" + `- {"action":"block","types":["A","MX"]}` + "\n" +
				`- {"action":"filter","networks":["192.0.2.1/32"]}` + "\n" + `- {"action":"drop","zone":"b.example"}`, "", false},
		{"acl of another block", plain + "acl {\nblock net 192.0.2.0/24\n}\n}\nb.example {\nforward . 192.0.2.2\n}",
			`- {"action":"allow","zone":"b.example"}` + "\n" + `- {"action":"block","networks":["192.0.2.0/24"]}`, "", false},
		{"acl of two blocks", plain + "acl {\nblock\n}\n}\n" +
			"b.example a.c.example {\nforward . 192.0.2.2\nacl c.example {\nfilter type A\n}\n}",
			`- {"action":"filter","zone":"a.c.example","types":["A"]}` + "\n" + `- {"action":"allow","zone":"a.c.example"}` + "\n" +
				`- {"action":"allow","zone":"b.example"}` + "\n" + `- {"action":"block"}`, "", false},
		{"acl outside of the zone", plain + "}\nb.example {\nforward . 192.0.2.2\nacl c.example {\nblock\n}\n}",
			"", "never has an effect", false},
		{"acl of mapped addresses", plain + "acl {\nblock net ::ffff:192.0.2.0/120\n}\n}", "", "has no counterpart", true},
		{"dns64", plain + "dns64 {\nallow_ipv4\n}\n}", `dns64Prefix: "64:ff9b::/96"`, "", false},
		{"dns64 that CoreDNS does not read to its end", plain + "dns64 2001:db8::/32 {\nallow_ipv4\ntranslate_all\n}\n}",
			`dns64Prefix: "2001:db8::/32"`, "clients over IPv4", true},
		{"dns64 with options", plain + "dns64 {\nprefix 2001:db8::/96\ntranslate_all\nallow_ipv4\n}\n}",
			`- {"type":"AAAA"}`, "", false},
		{"dns64 of a block alone", plain + "dns64\n}\nb.example {\nforward . 192.0.2.2\n}",
			`dns64Prefix: "64:ff9b::/96"`, "names in b.example are translated, too", true},
		{"dns64 over IPv6 alone", plain + "dns64\n}", `dns64Prefix: "64:ff9b::/96"`, "clients over IPv4", true},
		{"dns64 with a prefix that is not one", plain + "dns64 64:ff9b::/95\n}", "", "want an IPv6 prefix", true},
		{"chaos", plain + "chaos\n}\nb.example {\nchaos x\nforward . 192.0.2.2\n}",
			`chaos: "CoreDNS-1.15.0"`, "chaos x: version.bind is not in the zone", false},
		{"chaos with authors", plain + "chaos v1 me\n}", `chaos: "v1"`, "authors.bind gets REFUSED", false},
		{"weighted answers", plain + "loadbalance weighted f\n}", "", "rotated", true},
		{"hosts", plain + "hosts /etc/coredns/NodeHosts {\n192.0.2.7 DB.example old-db.example\n" +
			"2001:db8::7 db.example\nttl 60\nreload 15s\nfallthrough\n}\n}",
			`  file: "/etc/coredns/NodeHosts"` + "\n  ttl: 60\n  entries:\n" + `  - "192.0.2.7 db.example old-db.example"` + "\n" +
				`  - "2001:db8::7 db.example"`, "mount this file", false},
		{"hosts outside of the zone", plain + "}\ncorp.example in-addr.arpa {\nforward . 192.0.2.1\nhosts /dev/null . {\n" +
			"192.0.2.7 a.corp.example b.example\nttll 5\nfallthrough\n}\n}",
			`  - "192.0.2.7 a.corp.example"`, "b.example is not in the zone", false},
		{"a reverse name of another block", plain +
			"}\ncorp.example {\nforward . 192.0.2.1\nhosts {\n192.0.2.7 a.corp.example\nfallthrough\n}\n}",
			"", "the reverse name of 192.0.2.7", true},
		{"hosts without fallthrough", plain + "hosts {\n192.0.2.7 a.example\n}\n}", "", "SERVFAIL", true},
		{"a hosts file for a zone", plain + "hosts /f b.example {\nfallthrough\n}\n}", "", "not limited", true},
		{"hosts without reverse names", plain + "hosts /f {\nno_reverse\nfallthrough\n}\n}", "", "no_reverse", true},
		{"log", plain + "log\n}\ncorp.example {\nforward . 192.0.2.2\nlog . {\nclass error\n}\n}",
			`  classes: ["all"]`, "the same for all zones", false},
		{"log of errors and denials", plain + "log . {\nclass denial error\n}\n}",
			`  classes: ["denial","error"]`, "", false},
		{"log of names with a format",
			plain + "log A.example. b.example {combined} {\nclass success\nclass denial error\n}\n}",
			`  classes: ["all"]` + "\n" + `  zones: ["a.example","b.example"]`, "{combined}: the format", false},
		{"log of a block alone", plain + "}\ncorp.example {\nforward . 192.0.2.2\nlog .\n}",
			`  zones: ["corp.example"]`, "", false},
		{"log of another block", plain + "log\n}\ncorp.example {\nforward . 192.0.2.2\n}",
			`  classes: ["all"]`, "here also for names in corp.example", false},
		{"log of no name", plain + "log \"{name}\"\n}", "", "never has an effect", false},
		{"log of names of another block", plain + "}\nb.example {\nforward . 192.0.2.2\nlog a.example\n}",
			"", "never has an effect", false},
		{"no AAAA", plain + "template ANY AAAA {\nrcode NXDOMAIN\n}\n}", `- {"type":"AAAA"}`, "here NODATA", false},
		{"no AAAA, but for a stub domain", plain + "template IN AAAA\n}\nb.example {\nforward . 192.0.2.2\n}",
			`- {"type":"AAAA"}`, "names in b.example get it, too", true},
		{"no AAAA in all blocks", plain + "template IN AAAA\n}\nb.example {\nforward . 192.0.2.2\ntemplate IN AAAA\n}",
			`- {"zone":"b.example","type":"AAAA"}` + "\n" + `- {"type":"AAAA"}`, "Services, too", false},
		{"a denied zone", plain + "template ANY ANY A.example. {\nmatch ^a\\. ^b\\.\nrcode NXDOMAIN\nfallthrough\n}\n}",
			`- {"zone":"a.example","regex":"^a\\.","rcode":"NXDOMAIN"}` + "\n" +
				`- {"zone":"a.example","regex":"^b\\.","rcode":"NXDOMAIN"}`, "", false},
		{"answers with groups", plain + "cache 30\n}\nb.example {\nforward . 192.0.2.1\ntemplate IN A c.b.example d.example {\n" +
			"match ^(?P<x>[0-9]+)-([0-9]+)\n" +
			"answer \"{{ .Name }} 60 {{ .Class }} {{.Type}} 192.0.{{ .Group.x }}.{{ index .Match 2 }}\"\n}\n}",
			`- {"zone":"c.b.example","type":"A","regex":"^(?P<x>[0-9]+)-([0-9]+)","records":["60 IN A 192.0.{x}.{2}"]}` + "\n" +
				`- {"zone":"c.b.example","type":"A","rcode":"SERVFAIL"}`, "without fallthrough", false},
		{"an alias", plain + "template IN ANY b.example {\nanswer \"{{ .Name }} IN CNAME {{ .Name }}c.{{ .Zone }}\"\n}\n}",
			`- {"zone":"b.example","records":["IN CNAME {0}c.b.example."]}`, "records of other types", false},
		{"another owner", plain + "template IN A b.example {\nanswer \"a.example 60 IN A 192.0.2.1\"\n}\n}",
			"", "has no counterpart", true},
		{"a function", plain + "template IN A b.example {\nmatch (a*)\n" +
			"answer \"{{ .Name }} 60 IN A 192.0.2.{{ parseInt .Group.1 16 8 }}\"\n}\n}", "", "has no counterpart", true},
		{"an rcode that is not supported", plain + "template IN A b.example {\nrcode NOTIMP\n}\n}", "", `"NOTIMP"`, true},
		{"another class", plain + "template CH TXT {\nrcode NXDOMAIN\n}\n}", "", "class IN", true},
		{"rewrites", plain + "rewrite name exact A.example b.example.\nrewrite stop {\nname suffix .in.test .eu.svc.cluster.local\n" +
			"answer auto\n}\nrewrite name prefix a b answer auto\n" +
			"rewrite name regex ^(.*)\\.b\\.test\\.$ {1}.eu.svc.cluster.local answer auto\n}",
			`- {"name":"a.example","to":"b.example"}` + "\n" + `- {"name":"*.in.test","to":"*.eu.svc.cluster.local"}` + "\n" +
				`- {"regex":"^a\\.(.*)$","to":"b.{1}"}` + "\n" +
				`- {"regex":"^(.*)\\.b\\.test\\.$","to":"{1}.eu.svc.cluster.local"}`, "", false},
		{"a rewrite without answer", plain + "rewrite name suffix .in.test .eu.svc.cluster.local\n}", "", "here it is mapped back", false},
		{"a suffix within a label", plain + "rewrite name suffix a.example b.example answer auto\n}",
			`- {"regex":"^(.*)a\\.example\\.$","to":"{1}b.example"}`, "xa.example.", false},
		{"a rewrite of answers", plain + "rewrite name regex ^a b answer name b a answer value c d\n}",
			`- {"regex":"^a","to":"b"}`, "answer name b a answer value c d: here", false},
		{"the last rewrite continues", plain + "rewrite continue name a.example b.example\n}",
			`- {"name":"a.example","to":"b.example"}`, "", false},
		{"a rewrite that continues", plain + "rewrite continue name a.example b.example\nrewrite name b.example c.example\n}",
			`- {"name":"b.example","to":"c.example"}`, "rewrite continue: the first rule", true},
		{"a rewrite of TTLs", plain + "rewrite ttl exact a.example 30\n}", "", "rewrite ttl", true},
		{"a rewrite of another block's name", plain + "rewrite name a.b.example b.example\n}\nb.example {\nforward . 192.0.2.1\n}",
			"", "never has an effect", false},
		{"a rewrite outside of the zone", plain + "}\nb.example {\nforward . 192.0.2.1\nrewrite name suffix .a.example .b.example\n}",
			"", "never has an effect", false},
		{"a rewrite to another block", plain + "rewrite name a.example a.b.example\n}\nb.example {\nforward . 192.0.2.2\n}",
			`- {"name":"a.example","to":"a.b.example"}`, "rewrite to a.b.example", true},
		{"a rewrite in a zone", plain + "}\nb.example {\nforward . 192.0.2.2\n" +
			"rewrite name regex ^(.*)\\.b\\.example\\.$ {1}.c.b.example answer auto\n}",
			`- {"regex":"^(.*)\\.b\\.example\\.$","to":"{1}.c.b.example"}`, "", false},
		{"a rewrite of all names in a zone", plain + "}\nb.example {\nforward . 192.0.2.2\nrewrite name regex ^a c.b.example\n}",
			"", "names of all zones", true},
		{"a template outside of the zone", plain + "}\nb.example {\nforward . 192.0.2.1\ntemplate IN A c.example\n}",
			"", "never has an effect", false},
		{"metrics on the loopback interface", plain + "prometheus\nready\nhealth :8081\n}",
			`http: ":8181"`, "all at :8181", false},
		{"metrics alone", plain + "health 127.0.0.1:8080\nprometheus 127.0.0.1:9153 {\ntls f\n}\n}",
			`http: "127.0.0.1:9153"`, "without TLS", false},
		{"the cache of CoreDNS", plain + "cache 30 a.example {\nservfail 0s\n}\n}", "ttl: 5", "failures are cached", false},
		{"failover", ". {\n" + base + "forward . 192.0.2.1 192.0.2.2 {\nfailover SERVFAIL refused\n}\n}", "", "", false},
		{"failover for other rcodes", ". {\n" + base + "forward . 192.0.2.1 192.0.2.2 {\nfailover NXDOMAIN\n}\n}",
			"", "always do", true},
		{"a comment in a quoted line", ". {\n" + base + "forward . 192.0.2.1 {\ntls_servername \"a\nttl: 5\"\n}\n}",
			`upstreams: ["192.0.2.1"]`, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			blocks, problems := Parse(tt.text)
			text, notes, err := Convert(blocks)
			if err != nil || problems != nil {
				t.Fatal(err, problems)
			}
			// Comments are between the lines.
			for want := range strings.SplitSeq(tt.fields, "\n") {
				if want = strings.TrimSuffix(want, "\n"); !strings.Contains(string(text), want+"\n") {
					t.Errorf("no %s in\n%s", want, text)
				}
			}
			found, changes := tt.note == "" && len(notes) == 0, false
			for _, n := range notes {
				found = found || tt.note != "" && strings.Contains(n.Message, tt.note)
				changes = changes || n.Changes
			}
			if !found || changes != tt.wantChanges {
				t.Errorf("%q: answers change: %t, want %t and %q", notes, changes, tt.wantChanges, tt.note)
			}
		})
	}
}

// TestRefused: CoreDNS v1.15.0 refuses the same stanzas.
func TestRefused(t *testing.T) {
	for stanza, refused := range map[string]bool{
		"reload\nreload":                   false,
		"log . {\nclass denial error\n}":   false,
		"log . {\nclass denial surplus\n}": true,
		"import":                           true,
		"import a.override b.override":     true,
		"rewrite sotp {\nname a b\n}":      true,
		"dns64 64:ff9b:/96":                true,
		"template IN A {\nanswer \"{{ .Name }} 60 IN A 192.0.2.1\"\n}": false,
		"template IN A {\nanswer {{ .Name \"}} 60 IN A 192.0.2.1\"\n}": true,
		"hosts {\nno_reverse yes\n}":                                   false,
		"rewrite Stop {\nNAME a b\n}":                                  false,
		"rewrite name a":                                               true,
		"rewrite name regex ( a":                                       true,
		"rewrite name regex a {1}":                                     true,
		"rewrite name regex a {0}":                                     true,
		"rewrite name a b answer auto":                                 true,
		"rewrite name suffix a b auto":                                 true,
		"rewrite name suffix a b answer":                               true,
		"rewrite stop":                                                 true,
		"rewrite {\nname suffix a b\nname suffix c d\n}":               true,
		"rewrite name regex a b answer auto answer name c d":           true,
		"rewrite name regex a b answer name (c) {0}{1}":                true,
		"rewrite name regex a b answer name (c) {2}":                   false,
		"rewrite name regex a b answer auto answer value c d":          false,
		"rewrite name regex a b answer name c d value e f":             false,
		"rewrite name regex a b metadata answer auto":                  false,
		"rewrite name exact a":                                         false,
		"rewrite stop {\nname a b\n}":                                  false,
		"rewrite stop {\nname regex {$PATTERN}\n}":                     false,
		"rewrite ttl exact a.example 30":                               false,
		"rewrite continue {\nttl regex (.*) 30\n}":                     false,
	} {
		blocks, problems := Parse(". {\n" + stanza + "\n}")
		problems = append(problems, Refused(blocks, func(bool) bool { return true })...)
		if (len(problems) > 0) != refused {
			t.Errorf("%s: %v, want refused: %t", stanza, problems, refused)
		}
	}
}

// TestRefused_ACL: CoreDNS v1.15.0 refuses the same stanzas.
func TestRefused_ACL(t *testing.T) {
	for property, refused := range map[string]bool{
		"block": false, "block type": true, "block net": true, "block type net 10.0.0.0/8": true, "block 10.0.0.0/8": true,
		"block type a": true, "block type A net 10.0.0.0/33": true, "block net a": true, "allow type * net *": false,
		"filter NET ::1 TYPE ANY": false, "deny net *": true, "drop net {$CLIENTS}": false, "drop type A type MX": false,
	} {
		blocks, problems := Parse(". {\nacl {\n" + property + "\n}\n}")
		problems = append(problems, Refused(blocks, func(bool) bool { return true })...)
		if (len(problems) > 0) != refused {
			t.Errorf("%s: %v, want refused: %t", property, problems, refused)
		}
	}
}

// FuzzConvert: no Corefile panics, and no text of it is more than a comment or a value.
func FuzzConvert(f *testing.F) {
	f.Add(". {\nkubernetes cluster.local 10.0.0.0/8 {\npods verified\nttl 30\n}\nforward . /etc/resolv.conf 192.0.2.1 tls://[::1]%a {\n" +
		"max_concurrent 1\n}\n" +
		"bind ::1\nhealth {\nlameduck 1s\n}\ncache 30\n}\nb.example:1 {\nforward b.example \"a\nb\"\n}\n")
	f.Add(". {\nkubernetes cluster.local\n" +
		"acl . b.example {\nblock type A MX net 10.0.0.0/8 ::1\nallow net * type *\n}\n}\nb.example {\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		blocks, problems := Parse(text)
		if problems != nil {
			return
		}
		yaml, _, err := Convert(blocks)
		if err != nil {
			return
		}
		for line := range strings.Lines(strings.TrimPrefix(string(yaml), head)) {
			line = strings.TrimPrefix(line, "  ")
			name, _, _ := strings.Cut(line, ":")
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, `- {"`) && !strings.HasPrefix(line, `- "`) &&
				name != "stubDomains" && name != "kind" && !strings.Contains(order, name) {
				t.Errorf("%q of %q", line, text)
			}
		}
	})
}

// TestCompare: the Corefile for the comparison has other ports and no API server, and the questions are about its names.
func TestCompare(t *testing.T) {
	blocks, problems := Source{}.Parse(File{"f", `.:53 tls://. {
health
rewrite name shop.example web.eu.svc.cluster.local
template IN A {
answer "{{ .Name }} 60 IN A 192.0.2.8"
}
kubernetes cluster.local in-addr.arpa ip6.arpa {
ttl 30
fallthrough ip6.arpa
}
forward . 192.0.2.1
}
corp.example:5353 {
file db
}
`})
	if problems != nil {
		t.Fatal(problems)
	}
	got := Compare(blocks, map[string]string{"53": "1053", "5353": "1054", "853": "1055"}, "/z", []string{"mail A 192.0.2.30"})
	const text = `.:1053 {
bind 127.0.0.1
rewrite name shop.example web.eu.svc.cluster.local
template IN A {
answer "{{ .Name }} 60 IN A 192.0.2.8"
}
forward . 192.0.2.1
file /z cluster.local {
fallthrough ip6.arpa
}
}
corp.example.:1054 {
bind 127.0.0.1
file db
}
`
	if lines := strings.ReplaceAll(strings.ReplaceAll(got.Text, " \n", "\n"), "  ", " "); lines != text {
		t.Errorf("%s", lines)
	}
	if !strings.Contains(got.Zone, "\nweb.eu.svc 30 IN A 10.96.0.") || !strings.Contains(got.Manifests, "{name: web, namespace: eu}") {
		t.Errorf("%s%s", got.Zone, got.Manifests)
	}
	if want := []string{"tls://.", "names in cluster.local", "names in in-addr.arpa"}; !slices.Equal(got.Omitted, want) {
		t.Errorf("%q, want %q", got.Omitted, want)
	}
	for _, q := range []Question{{"shop.example.", "1053"}, {"mail.", "1053"}, {"corp.example.", "1054"}} {
		if !slices.Contains(got.Names, q) {
			t.Errorf("no %v", q)
		}
	}
	isCluster := func(q Question) bool { return strings.HasSuffix(q.Name, ".cluster.local.") }
	if slices.ContainsFunc(got.Names, isCluster) || len(got.Names) < maxNames/2 || len(got.Names) > maxNames {
		t.Errorf("%d names: %v", len(got.Names), got.Names)
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestConvert converts the Corefiles of testdata/convert.txtar.
func TestConvert(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/convert.txtar")
	if err != nil || len(archive.Files) < 90 {
		t.Fatal(len(archive.Files), err)
	}
	const base = "kubernetes cluster.local in-addr.arpa ip6.arpa {\nfallthrough in-addr.arpa ip6.arpa\n}"
	expand := strings.NewReplacer("{base}", base, "{plain}", ". {\n"+base+"\nforward . 192.0.2.1")
	for _, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			var corefile, fields, note string
			wantChanges := false
			for line := range strings.Lines(string(f.Data)) {
				switch keyword, rest, _ := strings.Cut(line, " "); keyword {
				case "want":
					fields += rest
				case "note", "changes":
					note, wantChanges = strings.TrimSpace(rest), keyword == "changes"
				default:
					corefile += line
				}
			}
			blocks, problems := Parse(expand.Replace(corefile))
			text, notes, err := Convert(blocks)
			if err != nil || problems != nil {
				t.Fatal(err, problems)
			}
			for want := range strings.Lines(fields) { // comments are between them
				if !strings.Contains(string(text), want) {
					t.Errorf("no %s in\n%s", want, text)
				}
			}
			found, changes := note == "" && len(notes) == 0, false
			for _, n := range notes {
				found = found || note != "" && strings.Contains(n.Message, note)
				changes = changes || n.Changes
			}
			if !found || changes != wantChanges {
				t.Errorf("%q: answers change: %t, want %t and %q", notes, changes, wantChanges, note)
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
		"acl {\nblock\n}":                                              false,
		"acl {\nblock type\n}":                                         true,
		"acl {\nblock net\n}":                                          true,
		"acl {\nblock type net 10.0.0.0/8\n}":                          true,
		"acl {\nblock 10.0.0.0/8\n}":                                   true,
		"acl {\nblock type a\n}":                                       true,
		"acl {\nblock type A net 10.0.0.0/33\n}":                       true,
		"acl {\nblock net a\n}":                                        true,
		"acl {\nallow type * net *\nfilter NET ::1 TYPE ANY\ndrop net {$CLIENTS}\ndrop type A type MX\n}": false,
		"acl {\ndeny net *\n}": true,
	} {
		blocks, problems := Parse(". {\n" + stanza + "\n}")
		problems = append(problems, Refused(blocks, func(bool) bool { return true })...)
		if (len(problems) > 0) != refused {
			t.Errorf("%s: %v, want refused: %t", stanza, problems, refused)
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

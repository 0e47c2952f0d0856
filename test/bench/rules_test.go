// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// corefileRules returns rules of Corefiles by name: those of testdata/corefiles, which vendors and users publish, and
// generated ones. They are in the block for all names, and those after a line --- are further blocks.
func corefileRules(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/corefiles/*")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	all := map[string]string{}
	for _, path := range paths {
		all[filepath.Base(path)] = readFile(t, path)
	}
	for seed := range uint64(4) {
		all[fmt.Sprintf("generated-%d", seed+1)] = generatedRules(seed + 1)
	}
	return all
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

// TestImport_Answers: CoreDNS with a Corefile, and dnsconfigurer with what import-corefile makes of it, give the same
// answers, except for the reverse name of a host in another block, which import-corefile announces. The log has names
// that the Corefile does not have.
func TestImport_Answers(t *testing.T) {
	coreDNS, program := build(t, t.TempDir())
	records := readFile(t, "testdata/records.zone")
	all := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, records)))
	owners := regexp.MustCompile(`(?m)^\S+`).FindAllString(records, -1)
	for name, text := range corefileRules(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeCorefileFiles(t, dir)
			rules, blocks, _ := strings.Cut(text, "---\n")
			text := ".:53 {\nlog " + strings.Join(owners, " ") + "\n" + rules + clusterPlugin +
				"\nforward . UPSTREAM\ncache 30\n}\n" + blocks
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
			want := cmp.Or(map[string]string{"hosts": "1"}[name], "0")
			if questions, _ := strconv.Atoi(found[2]); found[1] != want || questions < 2000 || want != "0" && err == nil {
				t.Error(err, errors.String())
			}
			t.Log(found[0])
		})
	}
}

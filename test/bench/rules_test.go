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
	coreDNS, program := build(t)
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
			want := cmp.Or(map[string]string{"hosts": "1"}[name], "0")
			checkImport(t, dir, coreDNS, program, want)
		})
	}
}

// nodeLocal is the Corefile of NodeLocal DNSCache with the placeholders of its manifest.
const nodeLocal = `__PILLAR__DNS__DOMAIN__:53 {
  errors
  cache {
    success 9984 30
    denial 9984 5
  }
  reload
  loop
  bind __PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__
  forward . __PILLAR__CLUSTER__DNS__ {
    force_tcp
  }
  prometheus :9253
  health __PILLAR__LOCAL__DNS__:8080
}
in-addr.arpa:53 ip6.arpa:53 {
  errors
  cache 30
  reload
  loop
  bind __PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__
  forward . __PILLAR__CLUSTER__DNS__ {
    force_tcp
  }
  prometheus :9253
}
.:53 {
  errors
  cache 30
  reload
  loop
  bind __PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__
  forward . __PILLAR__UPSTREAM__SERVERS__
  prometheus :9253
}
`

// TestImport_NodeLocal: as TestImport_Answers, for a node cache.
func TestImport_NodeLocal(t *testing.T) {
	dir := t.TempDir()
	coreDNS, program := build(t)
	records := dnstest.Reply(dnstest.Records(t, readFile(t, "testdata/records.zone")))
	cluster, upstream := dnstest.Start(t, records), dnstest.Start(t, records)
	writeFile(t, dir, "Corefile", nodeLocal)
	checkImport(t, dir, coreDNS, program, "0", "--set", "__PILLAR__DNS__DOMAIN__=cluster.local",
		"--set", "__PILLAR__LOCAL__DNS__=169.254.20.10", "--set", "__PILLAR__DNS__SERVER__=10.96.0.10",
		"--set", "__PILLAR__CLUSTER__DNS__="+cluster.Addr.String(), "--set", "__PILLAR__UPSTREAM__SERVERS__="+upstream.Addr.String())
}

// checkImport checks that import-corefile finds as many questions with different answers for the Corefile in a directory.
func checkImport(t *testing.T, dir, coreDNS, program, different string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"import-corefile", "--check", coreDNS, "Corefile"}, args...)...)
	cmd.Dir = dir
	var errors strings.Builder
	cmd.Stderr = &errors
	err := cmd.Run()
	found := regexp.MustCompile(`(\d+) of (\d+) questions have different answers`).FindStringSubmatch(errors.String())
	if found == nil {
		t.Fatal(err, errors.String())
	}
	if questions, _ := strconv.Atoi(found[2]); found[1] != different || questions < 2000 || different != "0" && err == nil {
		t.Error(err, errors.String())
	}
	t.Log(found[0])
}

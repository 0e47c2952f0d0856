// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "rewrite the golden files: read the diff before committing it")

// goldenFile is a cluster with questions and the replies to them. Its txtar file holds the
// objects of the cluster ("cluster", as in applyObjects), the records of the upstream server
// ("upstream", a zone file), the search domains of the hosts ("hosts"), the Hosts ("addresses"), the
// Rules ("answers" and "rewrites", each an object of JSON), whether Config.LocalNames is set ("local
// names"), the external zones ("external"), the range of the reverse zone, if it is not reverseRanges ("reverse RANGE" or
// "reverse none"), Config.DNS64Prefix ("dns64 PREFIX"), and then each question with its reply. A file of TestTimeline may also have
// Forwarding.LastKnownGood ("last DURATION") and stub domains of the upstream server ("stubs": each NAME, or
// NAME=DURATION with Stub.LastKnownGood).
type goldenFile struct {
	name     string
	path     string
	archive  *txtar.Archive
	cluster  string
	node     bool
	local    bool
	reverse  []netip.Prefix
	external []fqdn.Name
	dns64    netip.Prefix
	lastGood time.Duration
	stubs    []Stub
	fixed    *Hosts
	rules    *Rules
	upstream recordSet
	hosts    []fqdn.Name
	steps    []*txtar.File // of archive, from the first question on
	replies  []*txtar.File // of steps
}

// noReplies are the first words of the steps that are no questions.
var noReplies = []string{"upstream", "hosts", "sleep", "fails", "works", "cluster", "node", "local", "reverse", "external", "dns64",
	"addresses", "answers", "rewrites", "last", "stubs"}

// readGoldenFiles reads the golden files of a directory.
func readGoldenFiles(t *testing.T, dir string) []goldenFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files: ", err)
	}
	list := make([]goldenFile, len(paths))
	for i, path := range paths {
		g := &list[i]
		g.name, g.path = strings.TrimSuffix(filepath.Base(path), ".txtar"), path
		g.fixed, g.rules, g.reverse = &Hosts{}, &Rules{}, reverseRanges
		g.archive = must.Get(txtar.ParseFile(path))(t)
		for i := range g.archive.Files {
			f := &g.archive.Files[i]
			word, rest, _ := strings.Cut(f.Name, " ")
			if !slices.Contains(noReplies, word) {
				g.replies = append(g.replies, f)
			}
			switch {
			case len(g.steps) > 0 || len(g.replies) > 0 || word == "fails":
				g.steps = append(g.steps, f)
			case word == "cluster":
				g.cluster = string(f.Data)
			case word == "node":
				g.node = true
			case word == "local":
				g.local = true
			case word == "reverse":
				if g.reverse = nil; rest != "none" {
					g.reverse = []netip.Prefix{netip.MustParsePrefix(rest)}
				}
			case word == "dns64":
				g.dns64 = netip.MustParsePrefix(rest)
			case word == "external":
				g.external = parseNames(t, f.Data)
			case word == "last":
				g.lastGood = must.Get(time.ParseDuration(rest))(t)
			case word == "stubs":
				g.stubs = parseStubs(t, f.Data)
			case word == "addresses":
				g.fixed = parseHosts(t, f)
			case word == "answers":
				addRules(t, f.Data, g.rules.AddAnswer)
			case word == "rewrites":
				addRules(t, f.Data, g.rules.AddRewrite)
			case word == "upstream":
				g.upstream = parseRecords(t, string(f.Data))
			case word == "hosts":
				g.hosts = parseNames(t, f.Data)
			}
		}
	}
	return list
}

// parseHosts parses lines of a hosts file, which are for addresses only in "addresses only".
func parseHosts(t *testing.T, f *txtar.File) *Hosts {
	t.Helper()
	h := &Hosts{TTL: 60, AddressesOnly: strings.HasSuffix(f.Name, " only")}
	must.Succeed(t, h.Add(string(f.Data)))
	return h
}

// addRules adds the rules of the lines.
func addRules[R any](t *testing.T, lines []byte, add func(R) error) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var rule R
		if err := errors.Join(json.Unmarshal(line, &rule), add(rule)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// parseStubs parses stub domains that are separated by spaces.
func parseStubs(t *testing.T, text []byte) (list []Stub) {
	t.Helper()
	for word := range strings.FieldsSeq(string(text)) {
		name, duration, ok := strings.Cut(word, "=")
		stub := Stub{Zone: mustName(t, name)}
		if ok {
			var err error
			if stub.LastKnownGood, err = time.ParseDuration(duration); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, stub)
	}
	return list
}

// parseNames parses names that are separated by spaces.
func parseNames(t *testing.T, text []byte) (list []fqdn.Name) {
	t.Helper()
	for name := range strings.FieldsSeq(string(text)) {
		list = append(list, mustName(t, name))
	}
	return list
}

// check compares the replies to all questions with those in the file, or with -update writes
// them there.
func (g *goldenFile) check(t *testing.T, replyTo func(question string) string) {
	t.Helper()
	for _, q := range g.replies {
		got := replyTo(q.Name)
		if !*update && got != string(q.Data) {
			t.Errorf("%s\n got:\n%s\nwant:\n%s", q.Name, got, q.Data)
		}
		q.Data = []byte(got)
	}
	if *update {
		must.Succeed(t, os.WriteFile(g.path, txtar.Format(g.archive), 0o644))
	}
}

// TestGolden compares the replies of servers with the golden files. Each question is sent over
// UDP and TCP, with and without EDNS0, and all replies must agree. A search list after the type
// is sent as option.
func TestGolden(t *testing.T) {
	for _, file := range readGoldenFiles(t, "testdata") {
		t.Run(file.name, func(t *testing.T) {
			z := newZone(t, file.reverse, file.cluster, file.external...)
			server := startServer(t, "", Config{Zone: z, DNS64Prefix: file.dns64, Upstream: file.upstream.exchange,
				LocalNames: file.local, Autopath: Autopath{HostSuffixes: file.hosts}})
			server.SetHosts(file.fixed)
			server.SetRules(file.rules)
			file.check(t, func(question string) string { return server.consistentReply(t, question) })
		})
	}
}

// consistentReply sends "NAME TYPE" over UDP and TCP, with and without EDNS0, or "NAME TYPE
// SEARCHLIST" with EDNS0 only, and returns the reply, which must be the same each time.
func (s *testServer) consistentReply(t *testing.T, question string) string {
	t.Helper()
	name, qtype, _ := strings.Cut(question, " ")
	qtype, paths, searched := strings.Cut(qtype, " ")
	first, firstHow := "", ""
	for _, network := range []string{"udp", "tcp"} {
		for _, edns := range []bool{false, true} {
			if searched && !edns {
				continue
			}
			q := parseQuery(name+" "+qtype, edns)
			if searched {
				q = newQuery(name, dns.StringToType[qtype], paths)
			}
			s.cache.Clear() // or TTLs have aged
			reply := s.exchange(t, network, q)
			if (reply.IsEdns0() != nil) != edns {
				t.Errorf("%s over %s: OPT record in the reply: got %t, want %t", question, network, !edns, edns)
			}
			got, how := replyText(reply), fmt.Sprintf("over %s, EDNS0 %t", network, edns)
			if first != "" && got != first {
				t.Errorf("%s: the replies differ\n%s:\n%s\n%s:\n%s", question, firstHow, first, how, got)
			}
			first, firstHow = got, how
		}
	}
	return first
}

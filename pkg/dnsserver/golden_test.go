// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

var update = flag.Bool("update", false, "rewrite the goldens; read the diff before you keep it")

// story is a golden. A file holds the objects ("cluster", in the notation of
// cluster_test.go), what upstream knows ("upstream", as zone file), the domains that
// hosts search ("hosts") and then questions with their replies.
type story struct {
	name      string
	path      string
	file      *txtar.Archive
	cluster   string
	upstream  knownNames
	hosts     []fqdn.Name
	questions []*txtar.File // of file
}

// readStories reads the goldens of a directory.
func readStories(t *testing.T, dir string) []story {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no goldens", err)
	}
	list := make([]story, len(paths))
	for i, path := range paths {
		s := &list[i]
		s.name, s.path = strings.TrimSuffix(filepath.Base(path), ".txtar"), path
		if s.file, err = txtar.ParseFile(path); err != nil {
			t.Fatal(err)
		}
		for i := range s.file.Files {
			f := &s.file.Files[i]
			switch f.Name {
			case "cluster":
				s.cluster = string(f.Data)
			case "upstream":
				s.upstream = parseRecords(t, string(f.Data))
			case "hosts":
				for text := range strings.FieldsSeq(string(f.Data)) {
					s.hosts = append(s.hosts, mustName(t, text))
				}
			default:
				s.questions = append(s.questions, f)
			}
		}
	}
	return list
}

// check compares the replies to the questions with the golden, or writes them there.
func (s *story) check(t *testing.T, ask func(question string) (reply string)) {
	t.Helper()
	for _, q := range s.questions {
		got := ask(q.Name)
		if !*update && got != string(q.Data) {
			t.Errorf("%s\n got:\n%s\nwant:\n%s", q.Name, got, q.Data)
		}
		q.Data = []byte(got)
	}
	if *update {
		if err := os.WriteFile(s.path, txtar.Format(s.file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGolden has clusters and what their clients see. Each question is asked over UDP
// and TCP, with and without EDNS0, which must agree; one with a search list behind the
// type has that as option.
func TestGolden(t *testing.T) {
	for _, story := range readStories(t, "testdata") {
		t.Run(story.name, func(t *testing.T) {
			server := serveConfig(t, story.cluster, Config{Upstream: story.upstream.exchange, Autopath: Autopath{HostSuffixes: story.hosts}})
			story.check(t, func(question string) string { return server.everyWay(t, question) })
		})
	}
}

// everyWay asks "NAME TYPE" in the four ways, or "NAME TYPE PATHS" in the two that have
// EDNS0, and returns the one reply.
func (s *testServer) everyWay(t *testing.T, question string) string {
	t.Helper()
	name, qtype, _ := strings.Cut(question, " ")
	qtype, paths, searched := strings.Cut(qtype, " ")
	one, how := "", ""
	for _, network := range []string{"udp", "tcp"} {
		for _, edns := range []bool{false, true} {
			if searched && !edns {
				continue
			}
			q := new(dns.Msg)
			q.SetQuestion(name, dns.StringToType[qtype])
			if edns {
				q.SetEdns0(1232, false)
			}
			if searched {
				q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: autopath.DefaultOption, Data: []byte(paths)}}
			}
			s.cache.Clear() // so that no TTL has aged
			reply := s.exchange(t, network, q)
			if (reply.IsEdns0() != nil) != edns {
				t.Errorf("%s over %s: OPT in the query %t, in the reply %t", question, network, edns, !edns)
			}
			text := text(reply)
			if one != "" && text != one {
				t.Errorf("%s: %s\n%s\nbut over %s, EDNS0 %t\n%s", question, how, one, network, edns, text)
			}
			one, how = text, fmt.Sprintf("over %s, EDNS0 %t", network, edns)
		}
	}
	return one
}

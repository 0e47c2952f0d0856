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

// TestGolden has clusters and what their clients see. A file holds the objects
// ("cluster", in the notation of cluster_test.go), what upstream knows ("upstream",
// as zone file), the host suffixes of autopath ("hosts") and then questions with their
// replies. Each is asked over UDP and TCP, with and without EDNS0, which must agree; one
// with a search list behind the type has that as option.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { golden(t, path) })
	}
}

func golden(t *testing.T, path string) {
	story, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cluster := ""
	var upstream knownNames
	var hosts []fqdn.Name
	var server *testServer
	for i, f := range story.Files {
		switch f.Name {
		case "cluster":
			cluster = string(f.Data)
			continue
		case "upstream":
			upstream = parseRecords(t, string(f.Data))
			continue
		case "hosts":
			for text := range strings.FieldsSeq(string(f.Data)) {
				hosts = append(hosts, mustName(t, text))
			}
			continue
		}
		if server == nil {
			server = serveConfig(t, cluster, Config{Upstream: upstream.exchange, Autopath: Autopath{HostSuffixes: hosts}})
		}
		got := server.everyWay(t, f.Name)
		if *update {
			story.Files[i].Data = []byte(got)
		} else if got != string(f.Data) {
			t.Errorf("%s\n got:\n%s\nwant:\n%s", f.Name, got, f.Data)
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(story), 0o644); err != nil {
			t.Fatal(err)
		}
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

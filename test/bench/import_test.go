// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// The Corefile of TestImport, with the ports and the servers of the test. The plugin kubernetes is for import-corefile
// alone: CoreDNS would need an API server.
const importedCorefile = `.:%[1]s {
  errors
  hosts NodeHosts {
    192.0.2.7 db.example OLD-db.example
    2001:db8::7%%eth0 db.example
    192.0.2.8 x.corp.example
    ttl 60
    fallthrough
  }
%[2]s
  forward . %[3]s
  cache 30
}
corp.example:%[1]s {
  forward . %[4]s
}
east.corp.example:%[1]s {
  hosts {
    192.0.2.10 b.east.corp.example
    ttl 30
    fallthrough
  }
  forward . %[3]s
}
`

const clusterPlugin = "  kubernetes cluster.local in-addr.arpa ip6.arpa {\n    fallthrough in-addr.arpa ip6.arpa\n  }"

// TestImport: CoreDNS with a Corefile, and dnsconfigurer with what import-corefile makes of it, give the same answers.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	coreDNS, program := build(t, dir)
	all := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, "db.example. 30 IN A 198.51.100.1\nw.example. 30 IN A 198.51.100.2\n"+
		"w.example. 30 IN MX 1 mx.example.\na.east.corp.example. 30 IN A 198.51.100.3\nother.corp.example. 30 IN A 198.51.100.9\n"+
		"1.0.0.11.in-addr.arpa. 30 IN PTR all.example.")))
	corp := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, "other.corp.example. 30 IN A 198.51.100.4\n"+
		"x.corp.example. 30 IN A 198.51.100.5")))
	writeFile(t, dir, "NodeHosts", "# nodes\n192.0.2.21 node-1\n192.0.2.22 node-2 w.example # also\nfe80::1 node-1\n")
	portOfPeer, portOfServer, notes := runBoth(t, dir, coreDNS, program, "", func(port, kubernetes string) string {
		return fmt.Sprintf(importedCorefile, port, kubernetes, all.Addr, corp.Addr)
	})
	if !strings.Contains(notes, "x.corp.example is not in the zone of its block") {
		t.Error(notes)
	}
	for _, name := range []string{"db.example.", "DB.example.", "old-db.example.", "w.example.", "node-1.", "node-2.", "x.corp.example.",
		"other.corp.example.", "a.east.corp.example.", "b.east.corp.example.", "none.example.", "7.2.0.192.in-addr.arpa.",
		"21.2.0.192.in-addr.arpa.", "22.2.0.192.in-addr.arpa.", "1.0.0.11.in-addr.arpa.",
		"7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypePTR, dns.TypeMX, dns.TypeTXT} {
			want, got := answerOf(t, portOfPeer, name, qtype), answerOf(t, portOfServer, name, qtype)
			if want != got {
				t.Errorf("%s %s: CoreDNS %s, dnsconfigurer %s", name, dns.Type(qtype), want, got)
			}
		}
	}
	if got := answerOf(t, portOfServer, "db.example.", dns.TypeA); !strings.Contains(got, "192.0.2.7") {
		t.Errorf("db.example.: %s", got)
	}
}

// runBoth runs CoreDNS with a Corefile, and dnsconfigurer with what import-corefile makes of it, which notes are about.
func runBoth(t *testing.T, dir, coreDNS, program, manifest string, text func(port, kubernetes string) string) (
	portOfPeer, portOfServer, notes string) {
	t.Helper()
	portOfPeer, portOfServer = freePort(t), freePort(t)
	run(t, dir, coreDNS, "-conf", writeFile(t, dir, "Corefile", text(portOfPeer, "")))
	var errors strings.Builder
	file := writeFile(t, dir, "Corefile.import", text(portOfServer, clusterPlugin))
	convert := exec.CommandContext(t.Context(), program, "import-corefile", file)
	convert.Stderr = &errors
	config, err := convert.Output()
	if len(config) == 0 {
		t.Fatalf("no configuration: %v\n%s", err, &errors)
	}
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, manifests, "services.yaml", manifest)
	run(t, dir, program, "dns", "--config", writeFile(t, dir, "dns.yaml", string(config)), "--manifests", manifests)
	return portOfPeer, portOfServer, errors.String()
}

func writeFile(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts a program in a directory, until the test ends.
func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// freePort returns a port of the loopback interface that no server has.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// answerOf returns the rcode and the sorted records of an answer, in lower case as CoreDNS's. It waits for the server.
func answerOf(t *testing.T, port, name string, qtype uint16) string {
	t.Helper()
	text := ""
	poll.Until(t, "an answer at port "+port, func() (ok bool) {
		c := dns.Client{Timeout: 5 * time.Second}
		m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), "127.0.0.1:"+port)
		text = answerText(m)
		return err == nil && m.Rcode != dns.RcodeServerFailure
	})
	return text
}

// answerText returns the rcode and the sorted records of an answer, in lower case as CoreDNS's.
func answerText(m *dns.Msg) string {
	if m == nil {
		return ""
	}
	var records []string
	for _, rr := range m.Answer {
		rr.Header().Name = strings.ToLower(rr.Header().Name)
		rr.Header().Ttl = (rr.Header().Ttl + 9) / 10 * 10 // in a cache TTLs count down
		records = append(records, rr.String())
	}
	slices.Sort(records)
	return dns.RcodeToString[m.Rcode] + " " + strings.Join(records, "; ")
}

// TestImport_Log: CoreDNS's plugin log and the query log of what import-corefile makes of it have the same lines, except
// for what the replies differ in: flags, size, time.
func TestImport_Log(t *testing.T) {
	dir := t.TempDir()
	coreDNS, program := build(t, dir)
	upstream := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, "www.example. 30 IN A 198.51.100.2\n")))
	ports := [...]string{freePort(t), freePort(t)}
	text := func(port, kubernetes string) string {
		return fmt.Sprintf(".:%s {\nlog example {\nclass success denial error\n}\n%s\nforward . %s\n}\n", port, kubernetes, upstream.Addr)
	}
	config, err := exec.CommandContext(t.Context(), program, "import-corefile",
		writeFile(t, dir, "Corefile.import", text(ports[1], clusterPlugin))).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o700); err != nil {
		t.Fatal(err)
	}
	var logs [2]logbuffer.Buffer
	for i, args := range [][]string{
		{coreDNS, "-conf", writeFile(t, dir, "Corefile", text(ports[0], ""))},
		{program, "dns", "--config", writeFile(t, dir, "dns.yaml", string(config)), "--manifests", filepath.Join(dir, "manifests")},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout = &logs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		answerOf(t, ports[i], "www.test.", dns.TypeA)
		for _, network := range []string{"udp", "tcp"} {
			for id, q := range []*dns.Msg{
				new(dns.Msg).SetQuestion("WWW.example.", dns.TypeA), new(dns.Msg).SetQuestion("www.example.", dns.TypeAAAA),
				new(dns.Msg).SetQuestion("no.example.", 65280).SetEdns0(1000, true), new(dns.Msg).SetQuestion("www.test.", dns.TypeA),
				new(dns.Msg).SetQuestion("last.example.", dns.TypeTXT),
			} {
				q.Id = uint16(id)
				c := dns.Client{Net: network, Timeout: 5 * time.Second}
				if _, _, err := c.Exchange(q, "127.0.0.1:"+ports[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	line := regexp.MustCompile(`- \d+ "[^"]+" \w+`)
	lines := func(i int) string { return strings.Join(line.FindAllString(logs[i].String(), -1), "\n") }
	poll.Until(t, "the last line", func() bool { return strings.Count(lines(0), "last")+strings.Count(lines(1), "last") == 4 })
	if want, got := lines(0), lines(1); want != got || strings.Count(got, "\n") != 7 {
		t.Errorf("CoreDNS\n%s\ndnsconfigurer\n%s", want, got)
	}
}

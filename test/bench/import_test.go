// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math/rand/v2"
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
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// writeCorefileFiles writes the files of the Corefiles, whose names are in the questions, too: testdata/files, and generated
// zones.
func writeCorefileFiles(t *testing.T, dir string) {
	t.Helper()
	must.Succeed(t, os.CopyFS(dir, os.DirFS("testdata/files")))
	for seed := range uint64(2) {
		writeFile(t, dir, fmt.Sprintf("%d.zone", seed+1), generatedZone(seed+1))
	}
}

// generatedZone returns a zone with at most sixty names from a seed.
func generatedZone(seed uint64) string {
	r := rand.New(rand.NewPCG(3, seed))
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	label := func() string { return pick("a", "b", "c", "w", "x", "host7", "db", "eu") }
	text, seen := "$TTL 30\n@ SOA ns admin 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n", map[string]bool{}
	for range 60 {
		owner := pick("", "", "", "*.") + pick("", label()+".") + pick("", label()+".") + label()
		data := pick("A 192.0.2.1", "A 192.0.2.2", "AAAA 2001:db8::1", "TXT x", "MX 1 "+label(), "CNAME "+label()+"."+label(),
			"CNAME a.example.", "NS ns."+label())
		if !seen[owner] && !(strings.HasPrefix(owner, "*") && strings.HasPrefix(data, "NS")) {
			text, seen[owner] = text+owner+" "+data+"\n", true
		}
	}
	return text
}

const clusterPlugin = "  kubernetes cluster.local in-addr.arpa ip6.arpa {\n    fallthrough in-addr.arpa ip6.arpa\n  }"

func writeFile(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(path))(t))
}

// TestImport_Log: CoreDNS's plugin log and the query log of what import-corefile makes of it have the same lines, except
// for what the replies differ in: flags, size, time. Both have the same chaos answers.
func TestImport_Log(t *testing.T) {
	dir := t.TempDir()
	coreDNS, program := build(t)
	upstream := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, "www.example. 30 IN A 198.51.100.2\n")))
	var ports [2]string
	for i, address := range process.Loopback(t, 2) {
		_, ports[i], _ = strings.Cut(address, ":")
	}
	text := func(port, kubernetes string) string {
		return fmt.Sprintf(".:%s {\nlog example {\nclass success denial error\n}\nchaos \"v 1\"\n%s\nforward . %s\n}\n",
			port, kubernetes, upstream.Addr)
	}
	config := must.Get(exec.CommandContext(t.Context(), program, "import-corefile",
		writeFile(t, dir, "Corefile.import", text(ports[1], clusterPlugin))).Output())(t)
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "manifests"), 0o700))
	var logs [2]logbuffer.Buffer
	var chaos [2][4]string
	for i, args := range [][]string{
		{coreDNS, "-conf", writeFile(t, dir, "Corefile", text(ports[0], ""))},
		{program, "dns", "--config", writeFile(t, dir, "dns.yaml", string(config)), "--manifests", filepath.Join(dir, "manifests")},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout = &logs[i]
		must.Succeed(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		poll.Until(t, "an answer", func() bool {
			_, err := dns.Exchange(new(dns.Msg).SetQuestion("www.test.", dns.TypeA), "127.0.0.1:"+ports[i])
			return err == nil
		})
		for j, name := range []string{"Version.bind.", "version.server.", "hostname.bind.", "id.server."} {
			m := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
			m.Question[0].Qclass = dns.ClassCHAOS
			m = must.Get(dns.Exchange(m, "127.0.0.1:"+ports[i]))(t)
			chaos[i][j] = strings.ToLower(fmt.Sprint(m.Authoritative, m.Rcode, m.Answer))
		}
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
	if chaos[0] != chaos[1] {
		t.Errorf("CoreDNS %q, dnsconfigurer %q", chaos[0], chaos[1])
	}
	line := regexp.MustCompile(`- \d+ "[^"]+" \w+`)
	lines := func(i int) string { // CoreDNS logs after the reply: the next query may be logged before
		return strings.Join(slices.Sorted(slices.Values(line.FindAllString(logs[i].String(), -1))), "\n")
	}
	poll.Until(t, "the last line", func() bool { return strings.Count(lines(0), "last")+strings.Count(lines(1), "last") == 4 })
	if want, got := lines(0), lines(1); want != got || strings.Count(got, "\n") != 7 {
		t.Errorf("CoreDNS\n%s\ndnsconfigurer\n%s", want, got)
	}
}

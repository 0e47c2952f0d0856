// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestQueryLog_Reload: both servers log to a file, and a reload changes what is logged without a restart.
func TestQueryLog_Reload(t *testing.T) {
	dir := t.TempDir()
	fields := func(server, classes string) string {
		return fmt.Sprintf("queryLog: {classes: [%s], zones: [svc.cluster.local], file: %q}\n", classes, filepath.Join(dir, server))
	}
	n := newNodeCacheWith(t, "corp.example", fields("cluster", "success, error"), fields("node", "all"))
	configureNode := func(classes string) func() {
		return func() { n.configure(fmt.Sprintf("clusterDNS: [%q]\n", n.cluster.addr) + fields("node", classes)) }
	}
	check := func(server, want string) {
		t.Helper()
		var got string
		n.eventually(server+" logs "+want, func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, server))
			got = ""
			for line := range strings.Lines(string(b)) {
				words := strings.Fields(line)
				got += words[6] + words[7] + words[11] + words[len(words)-1] + " "
			}
			return strings.Contains(got, want)
		})
		if strings.Contains(got, "www.example") {
			t.Errorf("%s has names outside of zones: %s", server, got)
		}
	}
	for range 2 {
		n.says("payments.shop.svc.cluster.local.", dns.TypeA, "10.96.20.7")
		n.says("www.example.", dns.TypeTXT, `"node"`)
	}
	n.says("none.shop.svc.cluster.local.", dns.TypeA, "NXDOMAIN")
	check("node", "payments.shop.svc.cluster.local.udpNOERRORupstream payments.shop.svc.cluster.local.udpNOERRORcache "+
		"none.shop.svc.cluster.local.udpNXDOMAINupstream ")
	check("cluster", "payments.shop.svc.cluster.local.udpNOERRORzone ")
	n.reread(configureNode("error"), "configuration applied")
	n.says("no.shop.svc.cluster.local.", dns.TypeA, "NXDOMAIN")
	n.reread(configureNode("denial"), "configuration applied")
	n.says("payments.shop.svc.cluster.local.", dns.TypeA, "10.96.20.7")
	n.says("last.shop.svc.cluster.local.", dns.TypeA, "NXDOMAIN")
	check("node", "none.shop.svc.cluster.local.udpNXDOMAINupstream last.shop.svc.cluster.local.udpNXDOMAINupstream ")
}

// TestQueryLog_Stdout: the log is on standard output. If that is a pipe that nothing reads any more, or whose other end
// is closed, the server answers, counts the lines that it drops, and ends in time.
func TestQueryLog_Stdout(t *testing.T) {
	for _, isClosed := range []bool{false, true} {
		p := &dnsProcess{t: t, config: filepath.Join(t.TempDir(), "dns.yaml"), addr: freeAddr(t), http: freeAddr(t)}
		p.write("queryLog: {classes: [all]}\nlogFormat: json\n")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		command := newCommand(t, []string{"dns", "--config", p.config, "--listen", p.addr, "--http", p.http,
			"--manifests", "../../examples"}, &p.log)
		command.Stdout = w
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = command.Process.Kill() })
		w.Close()
		defer r.Close()
		p.ready()
		p.says("payments.shop.svc.cluster.local.", dns.TypeA, "10.96.20.7")
		line, err := bufio.NewReader(r).ReadString('\n')
		if want := `"type":"A","class":"IN","name":"payments.shop.svc.cluster.local.","protocol":"udp"`; !strings.Contains(line, want) {
			t.Errorf("%q: %v", line, err)
		}
		if isClosed {
			r.Close()
		}
		// A line of this name has a kilobyte: 3 MiB are more than wait, are being written, and are in the pipe.
		label := strings.Repeat(`\000`, 60)
		for range 3 << 10 {
			p.ask(label+"."+label+"."+label+".cluster.local.", dns.TypeA)
		}
		p.eventually("dropped lines", func() bool {
			return !strings.Contains(p.get("/metrics"), "\ndnsconfigurer_dns_query_log_dropped_total 0\n")
		})
		start := time.Now()
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("closed: %t: %v after %v\n%s", isClosed, err, time.Since(start), p.log.String())
		}
	}
}

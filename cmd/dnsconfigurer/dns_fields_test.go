// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// says fails the test unless the process answers a query with want. It waits while that is
// SERVFAIL: on a busy machine a query of the process to its servers may take too long.
func (p *dnsProcess) says(name string, qtype uint16, want string) {
	p.t.Helper()
	var got string
	p.eventually(name, func() bool {
		got = p.ask(name, qtype)
		return got != "SERVFAIL"
	})
	if got != want {
		p.t.Errorf("%s: got %s, want %s\n%s", name, got, want, p.log.String())
	}
}

// TestNodeCache_ReverseCIDRs: a stub domain with the reverse names of 10.0.0.0/8 hides the names of
// the cluster, unless reverseCIDRs has their network.
func TestNodeCache_ReverseCIDRs(t *testing.T) {
	stub := fmt.Sprintf("stubDomains: [{zone: 10.in-addr.arpa, servers: [%q]}]\n", upstreamSaying(t, "stub"))
	for _, tt := range []struct{ fields, inside, record string }{
		{"reverseCIDRs: [10.96.0.0/12]\n", "payments.shop.svc.cluster.local.", "NOERROR"},
		{"", "NOERROR", `"stub"`}, // the stub server has TXT records only
	} {
		n := newNodeCacheWith(t, "corp.example", "reverseCIDRs: [10.96.0.0/12]\n", stub+tt.fields)
		n.says("7.20.96.10.in-addr.arpa.", dns.TypePTR, tt.inside)
		n.says("7.20.96.10.in-addr.arpa.", dns.TypeTXT, tt.record)
		n.says("1.0.95.10.in-addr.arpa.", dns.TypeTXT, `"stub"`)
		n.says("1.1.168.192.in-addr.arpa.", dns.TypeTXT, `"cluster"`) // the cluster DNS forwards it
	}
}

// TestLocalNames_Fields: both commands answer special names themselves, and the cluster DNS the reverse
// names of private addresses if reverseCIDRs has their network.
func TestLocalNames_Fields(t *testing.T) {
	for fields, private := range map[string]string{"": `"cluster"`, "reverseCIDRs: [192.168.0.0/16]\n": "NXDOMAIN"} {
		p := newDNSProcess(t, fmt.Sprintf("upstreams: [%q]\n", upstreamSaying(t, "cluster"))+fields)
		p.says("www.test.", dns.TypeTXT, "NXDOMAIN")
		p.says("1.1.168.192.in-addr.arpa.", dns.TypeTXT, private)
	}
	newNodeCacheWith(t, "corp.example", "", "").says("www.test.", dns.TypeTXT, "NXDOMAIN")
}

// TestUpstreamPolicy: with roundRobin both servers of a stub domain get queries, in both commands.
func TestUpstreamPolicy(t *testing.T) {
	fields := fmt.Sprintf("stubDomains: [{zone: example, servers: [%q, %q]}]\nupstreamPolicy: roundRobin\n",
		upstreamSaying(t, "one"), upstreamSaying(t, "two"))
	node := newNodeCacheWith(t, "corp.example", fields, fields)
	for _, p := range []*dnsProcess{node.cluster, &node.dnsProcess} {
		seen, names := map[string]bool{}, 0
		p.eventually("replies of both servers", func() bool {
			names++
			seen[p.ask(fmt.Sprintf("n%d.example.", names), dns.TypeTXT)] = true
			return seen[`"one"`] && seen[`"two"`]
		})
	}
}

// TestMaxMemory: with 4 MiB there are 256 TCP connections, in both commands: one client has at most
// these, and keeps the newest.
func TestMaxMemory(t *testing.T) {
	const fields = "maxMemory: 4Mi\n"
	node := newNodeCacheWith(t, "corp.example", fields, fields)
	for _, p := range []*dnsProcess{node.cluster, &node.dnsProcess} {
		var all []net.Conn
		for range 300 {
			c := p.connect()
			defer c.Close()
			all = append(all, c)
		}
		open := 0
		for _, c := range all {
			if asksOver(c) {
				open++
			}
		}
		if open < 200 || open > 256 {
			t.Errorf("%d of 300 connections are open, want 256 less a reserve\n%s", open, p.log.String())
		}
	}
}

// connect opens a TCP connection to the process.
func (p *dnsProcess) connect() net.Conn {
	p.t.Helper()
	c := must.Get(net.DialTimeout("tcp", p.addr, time.Minute))(p.t)
	return c
}

// asksOver reports whether a query over the connection is answered.
func asksOver(c net.Conn) bool {
	c.SetDeadline(time.Now().Add(time.Minute))
	conn := &dns.Conn{Conn: c}
	if conn.WriteMsg(new(dns.Msg).SetQuestion("payments.shop.svc.cluster.local.", dns.TypeA)) != nil {
		return false
	}
	_, err := conn.ReadMsg()
	return err == nil
}

// TestHosts: entries and the file are answered, and a reload replaces them.
func TestHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	must.Succeed(t, os.WriteFile(file, []byte("192.0.2.8 a.example\nx y\n"), 0o600))
	p := newDNSProcess(t, fmt.Sprintf("hosts: {entries: [192.0.2.7 db.example], file: %q}\nresolvConf: \"\"\n", file))
	p.says("db.example.", dns.TypeA, "192.0.2.7")
	p.says("a.example.", dns.TypeA, "192.0.2.8")
	p.says("8.2.0.192.in-addr.arpa.", dns.TypePTR, "a.example.")
	p.says("a.example.", dns.TypeAAAA, "NOERROR")
	p.hangup("hosts: {entries: [192.0.2.9 db.example], ttl: 5}\nresolvConf: \"\"\n", "configuration applied")
	p.says("db.example.", dns.TypeA, "192.0.2.9")
	p.says("a.example.", dns.TypeA, "REFUSED")
}

// TestRules: a reload replaces rewrites, ACL and answers. An invalid rule is logged with its place, and the previous ones stay.
func TestRules(t *testing.T) {
	const common = "hosts: {entries: [192.0.2.7 db.example, \"2001:db8::7 db.example\"]}\nresolvConf: \"\"\n"
	p := newDNSProcess(t, common+"rewrite: [{name: a.example, to: db.example}]\nanswers: [{type: AAAA}]\n")
	p.says("a.example.", dns.TypeA, "192.0.2.7")
	p.says("db.example.", dns.TypeAAAA, "NOERROR")
	p.hangup(common+"rewrite: [{name: b.example, to: db.example}]\nanswers: [{zone: c.example, rcode: NXDOMAIN}]\n"+
		"acl: [{action: block, zone: d.c.example, networks: [127.0.0.0/8]}, {action: filter, networks: [192.0.2.0/24]}]\n",
		"configuration applied")
	p.says("a.example.", dns.TypeA, "REFUSED")
	p.says("b.example.", dns.TypeA, "192.0.2.7")
	p.says("db.example.", dns.TypeAAAA, "2001:db8::7")
	p.says("x.c.example.", dns.TypeA, "NXDOMAIN")
	p.says("x.d.c.example.", dns.TypeA, "REFUSED")
	p.hangup(common+"acl: [{action: deny}]\n", `: acl[0]: action`)
	p.hangup(common+"rewrite:\n- {name: a.example, to: db.example}\n- {regex: \"(\", to: x}\n", `: rewrite[1]: error parsing regexp`)
	p.says("b.example.", dns.TypeA, "192.0.2.7")
}

// TestQueryLog: the log is on standard output, and a reload changes what is logged. If that is a pipe that nothing reads
// any more, or whose other end is closed, the server answers, counts the lines that it drops, and ends in time.
func TestQueryLog(t *testing.T) {
	for _, isClosed := range []bool{false, true} {
		p := &dnsProcess{t: t, config: filepath.Join(t.TempDir(), "dns.yaml"), addr: freeAddr(t), http: freeAddr(t)}
		fields := "queryLog: {classes: [%s], zones: [cluster.local]}\nlogFormat: json\nresolvConf: ''\n"
		p.write(fmt.Sprintf(fields, "error"))
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		command := newCommand(t, []string{"dns", "--config", p.config, "--listen", p.addr, "--http", p.http,
			"--manifests", "../../examples"}, &p.log)
		command.Stdout = w
		must.Succeed(t, command.Start())
		t.Cleanup(func() { _ = command.Process.Kill() })
		p.signal = command.Process.Signal
		w.Close()
		defer r.Close()
		p.ready()
		p.says("www.example.", dns.TypeA, "REFUSED") // outside of the zones
		p.says("payments.shop.svc.cluster.local.", dns.TypeTXT, "NOERROR")
		p.hangup(fmt.Sprintf(fields, "all"), "configuration applied")
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
		if err := p.signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("closed: %t: %v after %v\n%s", isClosed, err, time.Since(start), p.log.String())
		}
	}
}

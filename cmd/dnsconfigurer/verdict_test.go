// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestRender_SameVerdictAsValidate runs both commands with each vector and with each pod that
// a kubelet has decided about: the exit codes are equal, each error of one is an error of the
// other, and no code has two severities.
func TestRender_SameVerdictAsValidate(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	for _, v := range table {
		t.Run(v.Name, func(t *testing.T) {
			host := ""
			if v.Node.ResolvConf != nil {
				host = *v.Node.ResolvConf
			}
			flags := []string{"--config", writeFile(t, "config.json", map[string]any{
				"apiVersion": "dnsconfigurer.dev/v1alpha1", "kind": "ShimConfiguration",
				"node": map[string]any{"clusterDNS": v.Node.ClusterDNS,
					"clusterDomain": v.Node.ClusterDomain, "allowedOverrides": v.Node.AllowedOverrides},
			})}
			compareVerdicts(t, v.Object, host, flags)
		})
	}
	for _, r := range kubeletCases(t) {
		if r.ResolvConfMode == "missing" || r.Expected.ErrorStage == "dns" || strings.Contains(r.HostResolvConf, "\x00") {
			continue // the node's file is invalid: no verdict about the pod
		}
		t.Run(r.ID, func(t *testing.T) {
			manifest := must.Get(json.Marshal(r.manifest()))(t)
			flags := []string{"--kubelet-config", writeFile(t, "kubelet.json", r.kubeletConfiguration()),
				"--cluster-domain", r.ClusterDomain}
			if r.Manifest {
				flags = append(flags, "--node-name", r.NodeName)
			}
			compareVerdicts(t, manifest, r.HostResolvConf, flags)
		})
	}
}

// compareVerdicts runs render and validate with a manifest and the text of the host file.
func compareVerdicts(t *testing.T, manifest []byte, host string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	object, hostFile := filepath.Join(dir, "object.json"), filepath.Join(dir, "resolv.conf")
	write(t, object, manifest)
	write(t, hostFile, []byte(host))
	flags = append([]string{"-f", object, "-o", "json", "--resolv-conf", hostFile}, flags...)
	rendered := runVerdict(t, append([]string{"render"}, flags...))
	validated := runVerdict(t, append([]string{"validate"}, flags...))
	if rendered.code != validated.code {
		t.Errorf("exit code of render %d, of validate %d", rendered.code, validated.code)
	}
	if diff := cmp.Diff(validated.errors, rendered.errors); diff != "" {
		t.Errorf("errors (-validate +render):\n%s", diff)
	}
	for code, severity := range rendered.severities {
		if other := validated.severities[code]; other != "" && other != severity {
			t.Errorf("%s is %s in render, %s in validate", code, severity, other)
		}
	}
}

// verdict is the result of a command about the objects of a manifest.
type verdict struct {
	code       int
	errors     []string          // "code at field", sorted, each once
	severities map[string]string // by code
}

func runVerdict(t *testing.T, args []string) verdict {
	t.Helper()
	var stdout, stderr bytes.Buffer
	v := verdict{severities: map[string]string{}, code: run(t.Context(), args, nil, &stdout, &stderr)}
	for line := range strings.Lines(stdout.String()) {
		var result struct{ Findings []v1alpha1.Finding }
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%q: %v: %s%s", args, err, line, stderr.String())
		}
		for _, f := range result.Findings {
			v.severities[f.Code] = f.Severity
			if f.Severity == "error" && f.Line > 0 { // not about the node, which config check reports
				v.errors = append(v.errors, fmt.Sprintf("%s at %s", f.Code, f.Field))
			}
		}
	}
	slices.Sort(v.errors)
	v.errors = slices.Compact(v.errors)
	return v
}

// writeFile writes value as JSON to a file with that name, and returns its path.
func writeFile(t *testing.T, name string, value any) string {
	t.Helper()
	js := must.Get(json.Marshal(value))(t)
	path := filepath.Join(t.TempDir(), name)
	write(t, path, js)
	return path
}

// deniedLater starts an upstream server that answers with an address and a TTL of 1 until it denies all names.
func deniedLater(t *testing.T, denies *atomic.Bool) (addr string) {
	t.Helper()
	return dnstest.Start(t, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		r := new(dns.Msg).SetReply(q)
		if header := (dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}); !denies.Load() {
			r.Answer = []dns.RR{&dns.A{Hdr: header, A: []byte{192, 0, 2, 1}}}
			return r
		}
		r.Rcode = dns.RcodeNameError
		r.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 1}, Ns: "ns.", Mbox: "ns."}}
		return r
	})).Addr.String()
}

// answerFor returns the address or the rcode, and the extended error.
func (p *dnsProcess) answerFor(name string) string {
	p.t.Helper()
	c := dns.Client{Timeout: time.Minute}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, false), p.addr)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.log.String())
	}
	text := dns.RcodeToString[m.Rcode]
	if len(m.Answer) > 0 {
		text = m.Answer[0].(*dns.A).A.String()
	}
	for _, option := range m.IsEdns0().Option {
		if e, ok := option.(*dns.EDNS0_EDE); ok {
			text += strings.TrimRight(fmt.Sprintf(" EDE %d %s", e.InfoCode, e.ExtraText), " ")
		}
	}
	return text
}

// TestLastKnownGood: with lastKnownGood, names that an upstream server has answered keep their last answer while it denies
// them, in both commands. lookup says so. A stub domain may have a time of its own.
func TestLastKnownGood(t *testing.T) {
	var denies atomic.Bool
	fields := fmt.Sprintf(`upstreams: [%q]
lastKnownGood: 5m
stubDomains:
- {zone: same.example, servers: [%[1]q]}
- {zone: short.example, servers: [%[1]q], lastKnownGood: 1s}
- {zone: off.example, servers: [%[1]q], lastKnownGood: 0s}
- {zone: off.cluster.local, servers: [%[1]q]}
- {zone: longer.cluster.local, servers: [%[1]q], lastKnownGood: 5m}
`, deniedLater(t, &denies))
	node := newNodeCacheWith(t, "corp.example", "", "")
	node.reread(func() { node.configure(fmt.Sprintf("clusterDNS: [%q]\n", node.cluster.addr) + fields) }, "configuration applied")
	node.cluster.hangup(fields, "configuration applied")
	const kept = "192.0.2.1 EDE 3 last known good answer: its servers deny it now"
	wants := map[string]string{
		"a.example.": kept, "a.same.example.": kept, "a.short.example.": "NXDOMAIN", "a.off.example.": "NXDOMAIN",
		"a.off.cluster.local.": "NXDOMAIN", "a.longer.cluster.local.": kept,
	}
	servers := map[string]*dnsProcess{"dns": node.cluster, "nodecache": &node.dnsProcess}
	for server, p := range servers {
		for name := range wants {
			if got := p.answerFor(name); got != "192.0.2.1" {
				t.Errorf("%s, %s: got %s\n%s", server, name, got, p.log.String())
			}
		}
	}
	denies.Store(true)
	time.Sleep(2100 * time.Millisecond)
	for server, p := range servers {
		for name, want := range wants {
			p.eventually(want+" for "+name, func() bool { return p.answerFor(name) == want })
		}
		if out := lookupAt(t, p.addr); !strings.Contains(out,
			`# extended error of reply 1: 3 Stale Answer: "last known good answer: its servers deny it now"`) {
			t.Errorf("%s: %s", server, out)
		}
	}
}

// lookupAt returns the output of a lookup of Go, which sends an OPT record.
func lookupAt(t *testing.T, server string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"lookup", "-f", "../../examples", "--resolv-conf", "", "--pod", "shop/web", "--server", server,
		"--libc", "go", "a.example.", "A"}, nil, &stdout, &stderr)
	return stdout.String() + stderr.String()
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// input is one input of the engine.
type input struct {
	node policy.Node
	pod  policy.Pod
	host string
	err  error // of opening the host file
}

func (s input) file() resolvconf.File {
	f := resolvconf.Parse(s.host)
	if s.err != nil {
		return resolvconf.File{Err: s.err}
	}
	return f
}

func (s input) decide(t *testing.T) policy.Decision {
	t.Helper()
	e, err := policy.New(s.node)
	if err != nil {
		t.Fatalf("New(%+v): %v", s.node, err)
	}
	return e.Decide(s.pod, s.file())
}

// TestDecide_Properties checks invariants on random inputs, most of them worse than any real
// one.
func TestDecide_Properties(t *testing.T) {
	const cases = 5_000
	g := generator{rand.New(rand.NewPCG(1, 2))}
	stable := 0
	for range cases {
		s := g.input()
		d := checkProperties(t, s)
		if checkStable(t, &d) {
			stable++
		}
		if t.Failed() {
			t.Fatalf("input: %+v", s)
		}
	}
	if stable < cases/10 {
		t.Errorf("only %d cases were decided again", stable)
	}
}

func checkProperties(t *testing.T, s input) policy.Decision {
	d := s.decide(t)
	explanation := d.Explain()
	if again := s.decide(t); explanation != again.Explain() || !cmp.Equal(d.Config(), again.Config()) {
		t.Error("two decisions on the same input differ")
	}
	checkLimits(t, &d)
	checkAccounting(t, s, &d)
	checkExplanation(t, s, &d, explanation)
	checkFindings(t, &d)
	checkKubeletConfig(t, s, &d)
	return d
}

// safe replaces the bytes that make a value unsafe by as many others, so that equal values
// stay equal and lengths are the same.
var safe = strings.NewReplacer("\n", "\x01", "\x00", "\x02", " ", "\x03", "\u00a0", "\x04\x04", "\xe9", "\x05")

// checkKubeletConfig checks that the kubelet's configuration is the decision for a pod with
// safe values instead of the unsafe ones.
func checkKubeletConfig(t *testing.T, s input, d *policy.Decision) {
	e := must.Get(policy.New(s.node))(t)
	got := e.KubeletConfig(s.pod, s.file())
	differs := func(f policy.Finding) bool { return f.Code == policy.CodeUnsafeValue }
	if isAutopath := strings.EqualFold(string(s.pod.Policy), string(policy.ClusterFirstWithAutopath)); isAutopath {
		s.pod.Policy = ""
	} else if s.pod.Override == "" && !slices.ContainsFunc(d.Findings, differs) && !cmp.Equal(got, d.Config()) {
		t.Errorf("the kubelet's configuration differs without a reason (-decision +kubelet):\n%s", cmp.Diff(d.Config(), got))
	}
	s.pod.Override, s.pod.Namespace, s.host = "", safe.Replace(s.pod.Namespace),
		strings.NewReplacer("\x00", "\x02", "\xe9", "\x05").Replace(s.host)
	if c := s.pod.Config; c != nil {
		s.pod.Config = &policy.DNSConfig{Nameservers: safeAll(c.Nameservers), Searches: safeAll(c.Searches)}
		for _, o := range c.Options {
			s.pod.Config.Options = append(s.pod.Config.Options, policy.Option{Name: safe.Replace(o.Name), Value: safe.Replace(o.Value)})
		}
	}
	want := s.decide(t)
	got = resolvconf.Config{Nameservers: safeAll(got.Nameservers), Searches: safeAll(got.Searches), Options: safeAll(got.Options)}
	if !want.Config().Equal(got) {
		t.Errorf("the kubelet's configuration (-want +got):\n%s", cmp.Diff(want.Config(), got))
	}
}

func safeAll(values []string) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = safe.Replace(v)
	}
	return list
}

func checkLimits(t *testing.T, d *policy.Decision) {
	if n := len(d.Nameservers); n > policy.MaxNameservers {
		t.Errorf("%d nameservers", n)
	}
	if n := len(d.Searches); n > policy.MaxSearches {
		t.Errorf("%d search domains", n)
	}
	c := d.Config()
	if n := len(strings.Join(c.Searches, " ")); n > policy.MaxSearchLine {
		t.Errorf("search line of %d bytes", n)
	}
	for _, s := range c.Searches {
		if len(s) > policy.MaxDomain {
			t.Errorf("search domain of %d bytes", len(s))
		}
	}
	if len(d.Hostname) > 64 {
		t.Errorf("host name of %d bytes", len(d.Hostname))
	}
	lines := len(c.Nameservers) + min(1, len(c.Searches)) + min(1, len(c.Options))
	if text := c.String(); strings.Count(text, "\n") != lines || strings.Contains(text, "\x00") || !utf8.ValidString(text) {
		t.Errorf("a value breaks out of its line in %q", text)
	}
}

// checkAccounting checks that every entry of the host's file and of the pod's dnsConfig is
// kept or dropped exactly once.
func checkAccounting(t *testing.T, s input, d *policy.Decision) {
	type position struct {
		kind   policy.Kind
		source policy.Source
		text   string
	}
	balance := map[position]int{}
	count := func(k policy.Kind, source policy.Source, text string, n int) {
		if k == policy.KindOption {
			text = strings.TrimRight(text, ":") // a merge rewrites "ndots:" to "ndots"
		}
		balance[position{k, source, text}] += n
	}
	if s.node.ResolvConf != "" {
		f := s.file()
		for k, list := range [][]resolvconf.Entry{f.Nameservers, f.Searches, f.Options} {
			for _, e := range list {
				count(policy.Kind(k), policy.Source{Origin: policy.FromHost, Index: int32(e.Line)}, e.Text, 1)
			}
		}
	}
	if c := s.pod.Config; c != nil {
		for i, text := range c.Nameservers {
			count(policy.KindNameserver, policy.Source{Origin: policy.FromPod, Index: int32(i)}, text, 1)
		}
		for i, text := range c.Searches {
			count(policy.KindSearch, policy.Source{Origin: policy.FromPod, Index: int32(i)}, text, 1)
		}
		for i, o := range c.Options {
			count(policy.KindOption, policy.Source{Origin: policy.FromPod, Index: int32(i)}, o.Name+":"+o.Value, 1)
		}
	}
	for _, e := range slices.Concat(d.Nameservers, d.Searches, d.Options, d.Dropped) {
		if e.Source.Origin == policy.FromHost || e.Source.Origin == policy.FromPod {
			count(e.Kind, e.Source, e.Text, -1)
		}
	}
	for p, n := range balance {
		if n != 0 {
			t.Errorf("%v is kept or dropped %d times too few", p, n)
		}
	}
}

// checkExplanation checks that the explanation of d has one row for each entry, with its text
// and its source, below its rule, one row for each ignored line, and no others.
func checkExplanation(t *testing.T, s input, d *policy.Decision, explanation string) {
	want := map[string]int{}
	for _, e := range slices.Concat(d.Nameservers, d.Searches, d.Options, d.Dropped) {
		if e.Rule.String() == "" || e.Rule.Text() == "" {
			t.Errorf("%v has no rule", e)
		}
		want[row(e.Kind.String(), e.Text, sourceText(e), e.Rule.String(), e.Rule.Text())]++
	}
	lines := map[int]bool{}
	for _, i := range d.Ignored {
		lines[i.Line] = true
		reason := i.Reason.String()
		if i.ReplacedBy > 0 {
			reason += fmt.Sprintf(", line %d", i.ReplacedBy)
		}
		want[row("line", i.Text, fmt.Sprintf("/etc/resolv.conf:%d", i.Line), i.Reason.Rule(), reason)]++
	}
	switch {
	case d.Hostname != "":
		want[row("hostname", d.Hostname)]++
	case d.Error == "":
		want[row("hostname", "the node's")]++
	}
	if d.FQDN != "" {
		want[row("fqdn", d.FQDN)]++
	}
	reason := ""
	_, table, _ := strings.Cut(explanation, "kept\n")
	for line := range strings.Lines(table) {
		if line == "error\n" || line == "findings\n" {
			break
		}
		switch {
		case strings.HasPrefix(line, "    "):
			want[row(line, reason)]--
		case strings.HasPrefix(line, "  hostname "), strings.HasPrefix(line, "  fqdn "):
			want[row(line)]--
		default:
			reason = strings.TrimSpace(line)
		}
	}
	for r, n := range want {
		if n != 0 {
			t.Errorf("%d rows missing: %s", n, r)
		}
	}
	checkLines(t, s, lines)
}

// checkLines checks that each line of the host's file has an entry or is reported as
// ignored, except empty lines and comments.
func checkLines(t *testing.T, s input, seen map[int]bool) {
	if s.node.ResolvConf == "" || s.err != nil {
		return
	}
	f := s.file()
	for _, e := range slices.Concat(f.Nameservers, f.Searches, f.Options) {
		seen[e.Line] = true
	}
	number := 0
	for line := range strings.SplitSeq(s.host, "\n") {
		number++
		line = strings.TrimSpace(line)
		hasValue := line != "" && line[0] != '#' && line != "search" && line != "options"
		if hasValue && !seen[number] {
			t.Errorf("line %d, %q, has no entry and is not reported", number, line)
		}
	}
}

// row returns a row of the explanation without its padding.
func row(columns ...string) string {
	if len(columns) > 1 &&
		(columns[1] == "" || strings.ContainsFunc(columns[1], func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) })) {
		columns[1] = strconv.Quote(columns[1])
	}
	return strings.Join(strings.Fields(strings.Join(columns, " ")), " ")
}

// sourceText returns the source of e as the explanation shows it.
func sourceText(e policy.Entry) string {
	switch e.Source.Origin {
	case policy.FromHost:
		return fmt.Sprintf("/etc/resolv.conf:%d ", e.Source.Index)
	case policy.FromPod:
		return fmt.Sprintf("spec.dnsConfig.%s[%d] ", []string{"nameservers", "searches", "options"}[e.Kind], e.Source.Index)
	case policy.FromClusterDNS:
		return fmt.Sprintf("clusterDNS[%d] ", e.Source.Index)
	case policy.FromNodeIP:
		return fmt.Sprintf("nodeIPs[%d] ", e.Source.Index)
	case policy.FromClusterDomain:
		return "clusterDomain "
	case policy.FromNodeCache:
		return "nodeCache "
	case policy.FromNodeRule:
		return fmt.Sprintf("node.rules[%d] ", e.Source.Index)
	default:
		return "built in "
	}
}

func checkFindings(t *testing.T, d *policy.Decision) {
	for _, f := range d.Findings {
		if f.Code == "" || f.Severity == "" || f.EnforcedBy == "" || f.Message == "" || f.Field == "" || f.Hint == "" {
			t.Errorf("incomplete finding %+v", f)
		}
	}
	if d.Error != "" && d.Starts() {
		t.Error("a pod with an error starts")
	}
	if d.Error == "" && len(d.Nameservers) > 0 && len(d.Config().String()) == 0 {
		t.Error("no text for a configuration")
	}
}

// checkStable checks that a host with the resolv.conf of d gives pods the same one. It
// reports false without a check if the texts change when they are read, such as final dots.
func checkStable(t *testing.T, d *policy.Decision) bool {
	c := d.Config()
	same := cmp.Transformer("text", func(s []string) string { return strings.Join(s, "\n") })
	if d.Error != "" || !cmp.Equal(c, resolvconf.Parse(c.String()).Config(), same) {
		return false
	}
	s := input{node: policy.Node{ResolvConf: "/etc/resolv.conf"}, pod: policy.Pod{Policy: policy.Default}, host: c.String()}
	if second := s.decide(t); !second.Config().Equal(c) {
		t.Errorf("not stable (-first +second):\n%s", cmp.Diff(c, second.Config()))
	}
	return true
}

// generator generates inputs. It draws from small pools, so that duplicates, overrides and
// exceeded limits are common.
type generator struct{ *rand.Rand }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

// length returns the greatest length of a list: of one in four it exceeds the limit of any list,
// with the cost of a decision and its explanation.
func (g generator) length() int { return pick(g, 6, 6, 6, 40) }

func several[T any](g generator, limit int, one func() T) []T {
	list := make([]T, g.IntN(limit+1))
	for i := range list {
		list[i] = one()
	}
	return list
}

func (g generator) address() string {
	return pick(g, "10.96.0.10", "192.0.2.1", "192.0.2.2", "127.0.0.53", "::1", "fe80::1%eth0",
		"2001:db8::1", "FD00::A", "dns.example", "", "192.0.2.1\nsearch x", "a\x00b", "a b")
}

func (g generator) domain() string {
	switch g.IntN(6) {
	case 0:
		return pick(g, ".", "..", "a.", "a..", "", "A.example", "#", ";", "a b", "a\nb", "a\x00", "a\u00a0b", "caf\xe9")
	case 1:
		return strings.Repeat("x", pick(g, 62, 63, 64, 252, 253, 254, 255))
	default:
		return fmt.Sprintf("d%d.%s", g.IntN(12),
			pick(g, "example", "svc.cluster.local", "cluster.local", strings.Repeat("long.", 10)+"example"))
	}
}

func (g generator) option() policy.Option {
	return policy.Option{
		Name: pick(g, fmt.Sprintf("o%d", g.IntN(40)), fmt.Sprintf("o%d", g.IntN(40)), "ndots",
			"ndots:2", "timeout", "edns0", "rotate", "a:b:c", "", "x y", "n\nl"),
		Value: pick(g, "", "", "1", "5", "16", "a:b", "1\nnameserver 192.0.2.9", "1\x00"),
	}
}

func (g generator) label() string {
	return pick(g, "", "web-0", "web-0", "db", "-lead", "Upper", "has.dot", strings.Repeat("h", 31),
		strings.Repeat("h", 63), strings.Repeat("h", 64))
}

func (g generator) hostFile() string {
	var b strings.Builder
	for range g.IntN(9) {
		switch g.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "nameserver %s\n", g.address())
		case 1, 2:
			fmt.Fprintf(&b, "search %s\n", strings.Join(several(g, g.length(), g.domain), " "))
		case 3:
			fmt.Fprintf(&b, "options %s:%d %s\n", g.option().Name, g.IntN(3), g.option().Name)
		case 4:
			b.WriteString(pick(g, "# remark\n", ";x\n", "domain d\n", "nameserver\n", "\r\n", "search a\r\n"))
		default:
			fmt.Fprintf(&b, "nameserver 192.0.2.%d\n", g.IntN(9))
		}
	}
	return b.String()
}

func (g generator) input() input {
	s := input{host: g.hostFile()}
	s.node = policy.Node{
		ClusterDomain: pick(g, "cluster.local", "cluster.local", "", "Cluster.Local.", strings.Repeat("c", 230)),
		ResolvConf:    pick(g, "/etc/resolv.conf", "/etc/resolv.conf", "/etc/resolv.conf", ""),
	}
	addr := func() netip.Addr {
		return netip.MustParseAddr(pick(g, "10.96.0.10", "10.96.0.11", "fd00:10:96::a", "::ffff:10.96.0.10"))
	}
	s.node.ClusterDNS, s.node.IPs = several(g, 4, addr), several(g, 2, addr)
	s.node.Autopath.ClusterDNSFallback = g.IntN(2) == 0
	if g.IntN(2) == 0 {
		s.node.Autopath.NodeCache = addr()
	}
	s.node.AllowedOverrides = several(g, 1, func() policy.Policy { return policy.None })
	if g.IntN(20) == 0 {
		s.err = errors.New("open /etc/resolv.conf: no such file or directory")
	}
	s.pod = policy.Pod{
		Namespace: pick(g, "default", "team-a", "", "a b", strings.Repeat("n", 63)),
		Name:      pick(g, "web-0", "web.east.example", strings.Repeat("p", 253), strings.Repeat("-", 70), "a\nb"),
		UID:       "65e1773a",
		Policy: pick(g, policy.Default, policy.ClusterFirst, policy.ClusterFirstWithHostNet, policy.None,
			policy.ClusterFirstWithAutopath, "clusterFirstWithAutopath", "", "Bogus", "Custom"),
		Override:          pick(g, "", "", "", "", policy.ClusterFirstWithAutopath, policy.None, "Bogus"),
		HostNetwork:       g.IntN(4) == 0,
		Windows:           g.IntN(20) == 0,
		Hostname:          g.label(),
		Subdomain:         g.label(),
		SetHostnameAsFQDN: g.IntN(2) == 0,
	}
	if g.IntN(6) == 0 {
		s.pod.HostnameOverride = new(g.label())
	}
	if g.IntN(3) > 0 {
		s.pod.Config = &policy.DNSConfig{
			Nameservers: several(g, 5, g.address),
			Searches:    several(g, g.length(), g.domain),
			Options:     several(g, pick(g, 5, 5, 60), g.option),
		}
	}
	return s
}

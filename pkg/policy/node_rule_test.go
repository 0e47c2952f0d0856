// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestNodeRules_Properties checks invariants of node rules on random inputs.
func TestNodeRules_Properties(t *testing.T) {
	const cases = 5_000
	g := generator{rand.New(rand.NewPCG(3, 4))}
	applied := map[string]int{}
	for range cases {
		s := g.input()
		s.pod.Labels, s.pod.IPs = g.labels(), several(g, 2, g.ip)
		s.node.Rules = several(g, 4, g.nodeRule)
		plain := s
		plain.node.Rules = nil
		d, before := s.decide(t), plain.decide(t)
		checkLimits(t, &d)
		checkAccounting(t, s, &d)
		checkExplanation(t, s, &d, d.Explain())
		checkFindings(t, &d)
		checkNodeRules(t, s, &before, &d)
		for _, r := range d.NodeRules {
			applied[r.Rule.String()]++
		}
		if t.Failed() {
			t.Fatalf("input: %+v\nrules: %+v\n%s", s, s.node.Rules, d.Explain())
		}
	}
	for i := 1; i <= 9; i++ {
		if r := fmt.Sprintf("R%d", i); applied[r] < cases/1000 {
			t.Errorf("%s applies %d times in %d cases", r, applied[r], cases)
		}
	}
}

// checkNodeRules checks d, a decision with rules, against the one without.
func checkNodeRules(t *testing.T, s input, before, d *policy.Decision) {
	t.Helper()
	with, errWith := policy.New(s.node)
	node := s.node
	node.Rules = nil
	without, errWithout := policy.New(node)
	must.Succeed(t, errors.Join(errWith, errWithout))
	want, got := without.KubeletConfig(s.pod, s.file()), with.KubeletConfig(s.pod, s.file())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules change the kubelet's configuration:\n%s", diff)
	}
	if len(d.NodeRules) == 0 && d.Explain() != before.Explain() {
		t.Errorf("a change without a step:\n%s", cmp.Diff(before.Explain(), d.Explain()))
	}
	if len(before.Nameservers) > 0 && len(d.Nameservers) == 0 {
		t.Error("no nameserver is left")
	}
	if before.Hostname != d.Hostname || before.FQDN != d.FQDN {
		t.Errorf("hostname %q, FQDN %q; without rules %q, %q", d.Hostname, d.FQDN, before.Hostname, before.FQDN)
	}
	checkSteps(t, d)
	if !slices.ContainsFunc(d.NodeRules, func(r policy.AppliedRule) bool { return r.Rule.String() == "R8" }) {
		checkRemoved(t, before, d)
	}
}

// checkSteps checks that the explanation has a line with its index for each applied rule.
func checkSteps(t *testing.T, d *policy.Decision) {
	text := d.Explain()
	for _, r := range d.NodeRules {
		if line := fmt.Sprintf("%s %s, node.rules[%d]\n", r.Rule, r.Rule.Text(), r.Index); !strings.Contains(text, line) {
			t.Errorf("no step %q", line)
		}
	}
}

// checkRemoved checks that d has each entry that is kept without rules: kept, or dropped with
// the rule that dropped it. checkExplanation checks that the explanation has all of them.
func checkRemoved(t *testing.T, before, d *policy.Decision) {
	has := map[string]bool{}
	for _, e := range slices.Concat(d.Nameservers, d.Searches, d.Options, d.Dropped) {
		has[e.Kind.String()+" "+strings.TrimSuffix(e.Text, ":")] = true
	}
	for _, e := range slices.Concat(before.Nameservers, before.Searches, before.Options) {
		if !has[e.Kind.String()+" "+strings.TrimSuffix(e.Text, ":")] {
			t.Errorf("%s %q is removed without a row", e.Kind, e.Text)
		}
	}
}

// TestNodeRules_Empty checks that rules which set nothing, or do not match, change nothing.
func TestNodeRules_Empty(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(5, 6))}
	everything := policy.NodeRule{
		Options: []string{"ndots:2"}, HostOptions: new(true), HostSearches: []string{},
		DropUnreachable: new(true), DropDuplicates: new(true),
		PodFirst: new(true), SubdomainSearch: policy.PlaceFirst, HostNetworkAsCluster: new(true), ServerFamilies: policy.FamiliesOnly,
	}
	otherNamespace, otherLabel, otherPolicy, off := everything, everything, everything, policy.NodeRule{
		Options: []string{}, HostOptions: new(false), HostSearches: []string{"*"}, DropUnreachable: new(false), DropDuplicates: new(false),
		PodFirst: new(false), SubdomainSearch: policy.PlaceOff, HostNetworkAsCluster: new(false), ServerFamilies: policy.FamiliesAny,
	}
	otherNamespace.Namespaces = []string{"other-*"}
	otherLabel.PodLabels = map[string]string{"app": "other"}
	otherPolicy.Policies = []policy.Policy{"ClusterFirstWithAutopath"}
	lists := [][]policy.NodeRule{{}, {{}}, {otherNamespace, otherLabel}, {otherPolicy}, {off, everything}}
	for range 2_000 {
		s := g.input()
		s.pod.Override, s.pod.Policy, s.pod.Labels = "", pick(g, policy.Default, policy.ClusterFirst), g.labels()
		want := s.decide(t)
		explanation := want.Explain()
		for i, rules := range lists {
			s.node.Rules = rules
			got := s.decide(t)
			if got.Explain() != explanation || !cmp.Equal(got.Config(), want.Config()) {
				t.Fatalf("rules %d: %s", i, cmp.Diff(explanation, got.Explain()))
			}
		}
	}
}

func TestNew_NodeRuleLimits(t *testing.T) {
	items := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("team-%d", i))
		}
		return list
	}
	labels := func(n int) map[string]string {
		m := map[string]string{}
		for _, key := range items(n) {
			m[key] = ""
		}
		return m
	}
	for _, tt := range []struct {
		name  string
		rules []policy.NodeRule
		field string // "": valid
	}{
		{"most rules", make([]policy.NodeRule, policy.MaxNodeRules), ""},
		{"too many rules", make([]policy.NodeRule, policy.MaxNodeRules+1), "rules"},
		{"most namespaces", []policy.NodeRule{{Namespaces: items(policy.MaxNodeRuleItems)}}, ""},
		{"too many namespaces", []policy.NodeRule{{Namespaces: items(policy.MaxNodeRuleItems + 1)}}, "rules[0].namespaces"},
		{"too many host searches", []policy.NodeRule{{}, {HostSearches: items(policy.MaxNodeRuleItems + 1)}}, "rules[1].hostSearches"},
		{"most labels", []policy.NodeRule{{PodLabels: labels(policy.MaxNodeRuleItems)}}, ""},
		{"too many labels", []policy.NodeRule{{PodLabels: labels(policy.MaxNodeRuleItems + 1)}}, "rules[0].podLabels"},
		{"longest pattern", []policy.NodeRule{{HostSearches: []string{strings.Repeat("a", policy.MaxDomain)}}}, ""},
		{"pattern too long", []policy.NodeRule{{HostSearches: []string{strings.Repeat("a", policy.MaxDomain+1)}}},
			"rules[0].hostSearches[0]"},
		{"longest label", []policy.NodeRule{{PodLabels: map[string]string{
			"example.com/" + strings.Repeat("n", 63): strings.Repeat("v", 63),
		}}}, ""},
		{"label too long", []policy.NodeRule{{PodLabels: map[string]string{strings.Repeat("n", 64): ""}}}, "rules[0].podLabels"},
		{"label value with a star", []policy.NodeRule{{PodLabels: map[string]string{"app": "web-*"}}}, "rules[0].podLabels[app]"},
		{"ndots 15", []policy.NodeRule{{Options: []string{"ndots:15", "timeout:1", "attempts:5", "rotate"}}}, ""},
		{"ndots 16", []policy.NodeRule{{Options: []string{"ndots:16"}}}, "rules[0].options[0]"},
		{"timeout 0", []policy.NodeRule{{Options: []string{"timeout:0"}}}, "rules[0].options[0]"},
		{"leading zero", []policy.NodeRule{{Options: []string{"ndots:02"}}}, "rules[0].options[0]"},
		{"option with a space", []policy.NodeRule{{Options: []string{"rotate edns0"}}}, "rules[0].options[0]"},
		{"unknown placement", []policy.NodeRule{{SubdomainSearch: "Second"}}, "rules[0].subdomainSearch"},
		{"unknown families", []policy.NodeRule{{ServerFamilies: "IPv4"}}, "rules[0].serverFamilies"},
		{"unknown policy", []policy.NodeRule{{Policies: []policy.Policy{"clusterfirst"}}}, "rules[0].policies[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := policy.New(policy.Node{Rules: tt.rules})
			problem, _ := errors.AsType[*policy.NodeError](err)
			switch {
			case tt.field == "" && err != nil:
				t.Errorf("New: %v", err)
			case tt.field != "" && (problem == nil || problem.Field != tt.field):
				t.Errorf("New: %v, want a problem of %s", err, tt.field)
			}
		})
	}
}

// TestNew_NodeRulesCopied checks that an engine keeps its rules when the caller changes them.
func TestNew_NodeRulesCopied(t *testing.T) {
	node := kubeadm
	node.Rules = []policy.NodeRule{{
		Options: []string{"ndots:2"}, Policies: []policy.Policy{policy.ClusterFirst}, PodLabels: map[string]string{"a": "b"},
	}}
	e := newEngine(t, node)
	node.Rules[0].Options[0], node.Rules[0].Policies[0], node.Rules[0].PodLabels["a"] = "ndots:9", policy.None, "c"
	d := e.Decide(policy.Pod{Namespace: "a", Name: "b", Policy: policy.ClusterFirst, Labels: map[string]string{"a": "b"}},
		resolvconf.File{})
	if got := d.Config().Options; !slices.Equal(got, []string{"ndots:2"}) {
		t.Errorf("options %q", got)
	}
}

// FuzzNodeRule checks that rules which New accepts give files within the limits.
func FuzzNodeRule(f *testing.F) {
	f.Add("team-*", "app", "web", "ClusterFirst", "ndots:2", "*.corp.example", "First", "Only", uint8(31))
	f.Add("", "", "", "", "", "", "", "", uint8(0))
	f.Add("*a*b*", "example.com/app", "", "none", "attempts:0", "**", "Off", "Any", uint8(255))
	f.Fuzz(func(t *testing.T, namespace, key, value, name, option, search, place, families string, bits uint8) {
		flag := func(i int) *bool { return new(bits>>i&1 == 1) }
		rule := policy.NodeRule{
			Namespaces: []string{namespace}, PodLabels: map[string]string{key: value},
			Policies: []policy.Policy{policy.Policy(name)}, Options: []string{option}, HostSearches: []string{search},
			HostOptions: flag(0), DropUnreachable: flag(1), DropDuplicates: flag(2),
			PodFirst: flag(3), HostNetworkAsCluster: flag(4),
			SubdomainSearch: policy.Placement(place), ServerFamilies: policy.FamilyChoice(families),
		}
		node := kubeadm
		node.Rules = []policy.NodeRule{rule}
		e, err := policy.New(node)
		if err != nil {
			if len(policy.CheckNodeRules(node.Rules)) == 0 {
				t.Errorf("New: %v, and no problem of the rules", err)
			}
			return
		}
		pod := policy.Pod{
			Namespace: strings.ReplaceAll(namespace, "*", "x"), Name: "web", Policy: policy.Policy(name),
			Labels: map[string]string{key: value}, Subdomain: "db",
			HostNetwork: bits>>5&1 == 1, IPs: []netip.Addr{netip.MustParseAddr("fd00::7")},
		}
		d := e.Decide(pod,
			resolvconf.Parse("nameserver 127.0.0.53\nnameserver 192.0.2.53\nsearch a.corp.example b.example\noptions edns0\n"))
		if len(d.NodeRules) == 0 && option != "" && policy.Policy(name) == policy.ClusterFirst && !pod.HostNetwork {
			t.Errorf("the rule does not match its own pod:\n%s", d.Explain())
		}
		checkLimits(t, &d)
	})
}

func (g generator) ip() netip.Addr {
	return netip.MustParseAddr(pick(g, "10.244.0.7", "fd00:10:244::7", "::ffff:10.244.0.8"))
}

func (g generator) labels() map[string]string {
	return map[string]string{"app": pick(g, "web", "db"), "tier": "front"}
}

// nodeRule returns a valid rule.
func (g generator) nodeRule() policy.NodeRule {
	flag := func() *bool { return pick(g, nil, nil, new(true), new(true), new(false)) }
	r := policy.NodeRule{
		Namespaces:  pick(g, nil, nil, []string{"team-*", "default"}, []string{"n*n"}),
		PodLabels:   pick(g, nil, nil, map[string]string{"app": "web"}, map[string]string{"app": "db", "tier": "front"}),
		Policies:    pick(g, nil, nil, []policy.Policy{policy.ClusterFirst, policy.Default}, []policy.Policy{"clusterFirstWithAutopath"}),
		Options:     pick(g, nil, []string{}, []string{"ndots:2", "rotate"}, []string{"timeout:3", "edns0", "attempts:2"}),
		HostOptions: flag(), DropUnreachable: flag(), DropDuplicates: flag(), PodFirst: flag(), HostNetworkAsCluster: flag(),
		HostSearches:    pick(g, nil, nil, []string{}, []string{"*.example"}, []string{"d1*", "*cluster*"}),
		SubdomainSearch: pick(g, "", policy.PlaceFirst, policy.PlaceLast, policy.PlaceOff),
		ServerFamilies:  pick(g, "", policy.FamiliesPreferred, policy.FamiliesOnly, policy.FamiliesAny),
	}
	return r
}

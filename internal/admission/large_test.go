// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// largePod is a pod with an FQDN that is too long and n entries in a list.
func largePod(list string, n int) admission.Object {
	config := &policy.DNSConfig{}
	for range n {
		switch list {
		case "unsafe options":
			config.Options = append(config.Options, policy.Option{Name: "a\nb"})
		case "unknown options":
			config.Options = append(config.Options, policy.Option{Name: "a"})
		case "unnamed options":
			config.Options = append(config.Options, policy.Option{Value: "a"})
		case "searches":
			config.Searches = append(config.Searches, "_.")
		case "nameservers":
			config.Nameservers = append(config.Nameservers, "a")
		}
	}
	return admission.Object{Kind: admission.KindPod, Name: "checkout-worker-0", Pod: policy.Pod{
		Namespace: "payments-production", Name: "checkout-worker-0", Policy: policy.ClusterFirst,
		Subdomain: "checkout-workers", SetHostnameAsFQDN: true, Config: config,
	}}
}

// TestCheck_Large: a pod with 150,000 entries in a list is denied for its FQDN like one with a
// single entry, and its findings are bounded. The numbers of the findings left out are right.
func TestCheck_Large(t *testing.T) {
	const entries = 150_000
	rules := vectors.DefaultNode().Rules(t)
	for list, code := range map[string]policy.Code{
		"unsafe options": policy.CodeUnsafeValue, "unknown options": admission.CodeUnknownOption,
		"unnamed options": admission.CodeUnnamedOption,
		"searches":        admission.CodeInvalidSearch, "nameservers": admission.CodeInvalidNameserver,
	} {
		o := largePod(list, entries)
		findings := vectors.Check(t, rules, o)
		if len(findings) > admission.MaxFindings+10 {
			t.Errorf("%s: %d findings", list, len(findings))
		}
		count := 0
		for _, f := range findings {
			if f.Code == code {
				count += 1 + f.More
			}
		}
		if want := entries; count != want && list != "searches" { // "_." is valid
			t.Errorf("%s: %d of %s, want %d", list, count, code, want)
		}
		if v := admission.NewVerdict(o, findings); !strings.Contains(v.Denied, "would be 72 characters") || len(v.Denied) > 4<<10 {
			t.Errorf("%s: denied with %d bytes: %.200s", list, len(v.Denied), v.Denied)
		}
	}
}

// TestCheck_MaxFindings is on both sides of the limit.
func TestCheck_MaxFindings(t *testing.T) {
	rules := vectors.DefaultNode().Rules(t)
	for n, want := range map[int]struct{ findings, more int }{99: {100, 0}, 100: {101, 0}, 101: {101, 1}} {
		findings := vectors.Check(t, rules, largePod("unknown options", n)) // one more is about the FQDN
		more := 0
		for _, f := range findings {
			more += f.More
		}
		if len(findings)+more != n+1 || len(findings) > admission.MaxFindings {
			t.Errorf("%d options: %d findings and %d more, want %+v", n, len(findings), more, want)
		}
	}
}

// TestCheck_LongValues: values of 3 MB are cut in messages.
func TestCheck_LongValues(t *testing.T) {
	long := strings.Repeat("a", 3<<20)
	rules := vectors.DefaultNode().Rules(t)
	for _, v := range []string{long, long + "\n", strings.Repeat("é", 1<<20), strings.Repeat("a ", 1<<20)} {
		pod := policy.Pod{
			Namespace: v, Name: v, Policy: policy.Policy(v), Override: policy.Policy(v), Hostname: v,
			Subdomain: v, SetHostnameAsFQDN: true, HostnameOverride: new(v),
			Config: &policy.DNSConfig{Nameservers: []string{v}, Searches: []string{v},
				Options: []policy.Option{{Name: v, Value: v}, {Name: "ndots", Value: v}, {Name: "rotate", Value: v}}},
		}
		other := pod
		other.Policy, other.HostnameOverride, other.Hostname = policy.ClusterFirst, nil, ""
		for _, o := range []admission.Object{{Kind: admission.KindPod, Name: v, Pod: pod},
			{Kind: "StatefulSet", Name: v, Pod: other, Ordinal: true}} {
			findings := vectors.Check(t, rules, o)
			if len(findings) < 5 {
				t.Errorf("only %d findings", len(findings))
			}
			for _, f := range findings {
				if len(f.Message) > 1<<10 || len(f.Hint) > 1<<10 || len(f.Field) > 1<<10 {
					t.Errorf("%s: a message of %d bytes, a hint of %d, a field of %d", f.Code, len(f.Message), len(f.Hint), len(f.Field))
				}
			}
			if v := admission.NewVerdict(o, findings); len(v.Denied) > 4<<10 {
				t.Errorf("denied with %d bytes", len(v.Denied))
			}
		}
	}
}

// endingContext ends when Err was called a number of times.
type endingContext struct {
	context.Context
	left, calls int
}

func (c *endingContext) Err() error {
	c.calls++
	if c.calls > c.left {
		return context.Canceled
	}
	return nil
}

// TestCheck_Canceled: the work ends when the caller no longer waits, in each loop over a list of
// the pod at the next entry.
func TestCheck_Canceled(t *testing.T) {
	const entries, outside = 60, 20 // the latter: calls of Err that are not for each entry
	rules := vectors.DefaultNode().Rules(t)
	aliases := largePod("", 0)
	aliases.HostAliases = make([]admission.HostAlias, entries)
	names := largePod("", 0)
	names.HostAliases = []admission.HostAlias{{IP: "192.0.2.1", Hostnames: make([]string, entries)}}
	for _, tt := range []struct {
		name  string
		o     admission.Object
		loops int
	}{
		{"options", largePod("unknown options", entries), 2},
		{"searches", largePod("searches", entries), 2},
		{"nameservers", largePod("nameservers", entries), 1},
		{"host aliases", aliases, 1},
		{"host names", names, 1},
	} {
		all := &endingContext{Context: t.Context(), left: 1 << 30}
		if _, err := rules.Check(all, tt.o); err != nil || all.calls < tt.loops*entries || all.calls > tt.loops*entries+outside {
			t.Errorf("%s: looks %d times whether the caller waits, want once for each of %d entries in %d loops: %v",
				tt.name, all.calls, entries, tt.loops, err)
		}
		for left := range all.calls {
			ctx := &endingContext{Context: t.Context(), left: left}
			if _, err := rules.Check(ctx, tt.o); !errors.Is(err, context.Canceled) || ctx.calls > left+outside {
				t.Fatalf("%s: canceled after %d, ended after %d calls: %v", tt.name, left, ctx.calls, err)
			}
		}
	}
}

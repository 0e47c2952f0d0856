// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// autopathPod returns a pod whose DNS differs from the kubelet's.
func autopathPod(name string) *corev1.Pod {
	return withAnnotation(newPod(name, corev1.PodSpec{}), policy.OverrideAnnotation, "ClusterFirstWithAutopath")
}

// testLimits runs pods with the longest search lists. The policy None adds nothing to
// them.
func (m *machine) testLimits(t *testing.T) {
	domain := strings.Repeat("d", 59) + ".x" // 61 bytes and a number of two
	var searches []string
	for i := range policy.MaxSearches {
		searches = append(searches, fmt.Sprintf("%02d%s", i, domain))
	}
	searches[0] = "x" + searches[0] // 31 of 63 bytes, one of 64, 31 blanks
	for name, c := range map[string]struct {
		searches []string
		kept     int
	}{
		"32-domains-2048-bytes": {searches, 32},
		"33-domains":            {append(slices.Clone(searches[1:]), "a.example", "b.example"), 32},
		"2049-bytes":            {append([]string{"y" + searches[0]}, searches[1:]...), 31},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(name,
				corev1.PodSpec{DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"203.0.113.53"}, Searches: c.searches}})
			v := m.runEdited(t, withAnnotation(pod, policy.OverrideAnnotation, "None"))
			if got := v.config().Searches; !cmp.Equal(got, c.searches[:c.kept]) {
				t.Errorf("the pod has %d search domains, want %d:\n%s", len(got), c.kept, v.ResolvConf)
			}
		})
	}
	if n := len(strings.Join(searches, " ")); n != policy.MaxSearchLine {
		t.Errorf("the test has a line of %d bytes", n)
	}
}

// parsed is a resolv.conf as a library reads it.
type parsed struct {
	Nameservers string
	Search      []string
	Ndots       string
}

func parseOutput(t *testing.T, out string) (r parsed) {
	t.Helper()
	var servers []string
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "nameserver": // the address and the number of the interface
			address, _, _ := strings.Cut(value, " ")
			servers = append(servers, address)
		case "search": // in hexadecimal
			domain := must.Get(hex.DecodeString(value))(t)
			r.Search = append(r.Search, string(domain))
		case "ndots":
			r.Ndots = value
		}
	}
	r.Nameservers = fmt.Sprint(servers)
	return r
}

// testOutcomes has requests that the shim edits and that it leaves unchanged, also without a DNS
// configuration: a runtime writes its own then. The tests of pkg/cri have all outcomes. The
// engine's decision always differs from the kubelet's.
func (m *machine) testOutcomes(t *testing.T) {
	withRule := facts()
	withRule.Rules = []policy.NodeRule{
		{PodLabels: map[string]string{"app": "web"}, Options: []string{"ndots:2", "rotate"}, HostSearches: []string{}},
	}
	withoutDNS := func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig = nil }
	foreign := func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig.Servers = []string{"192.0.2.99"} }
	for _, c := range []struct {
		name    string
		hook    func(*cri.Hook)                    // changes the shim
		request func(*runtimeapi.PodSandboxConfig) // changes the kubelet's request
		want    cri.Outcome
	}{
		{"known", nil, nil, cri.Edited},
		{"unknown", func(h *cri.Hook) {
			h.Lookup = func(context.Context, cri.Sandbox) (policy.Pod, error) { return policy.Pod{}, cri.ErrUnknownPod }
		}, nil, cri.UnknownPod},
		{"observe", func(h *cri.Hook) { h.Mode = cri.Observe }, nil, cri.Observed},
		{"generate-without-dns", nil, withoutDNS, cri.Edited},
		{"force-without-dns", func(h *cri.Hook) { h.Mode = cri.Force }, withoutDNS, cri.Edited},
		{"observe-without-dns", func(h *cri.Hook) { h.Mode = cri.Observe }, withoutDNS, cri.Observed},
		{"foreign-dns", nil, foreign, cri.FactsMismatch},
		{"force-foreign-dns", func(h *cri.Hook) { h.Mode = cri.Force }, foreign, cri.Edited},
		{"rule-applies", func(h *cri.Hook) { h.Engine = engine(t, withRule) }, nil, cri.Edited},
		{"options-in-other-order", nil, func(c *runtimeapi.PodSandboxConfig) { slices.Reverse(c.DnsConfig.Options) }, cri.Edited},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := autopathPod(c.name)
			pod.Spec.DNSConfig = dnsConfig()
			hook := m.hook(t, pod)
			right := hook.Engine
			if c.hook != nil {
				c.hook(hook)
			}
			s := m.startShim(t, hook)
			request := s.sandboxOf(right, m.host(), pod)
			if c.request != nil {
				c.request(request)
			}
			v := must.Get(s.runPod(t.Context(), request))(t)
			r := s.nextReport(t, pod)
			if r.Outcome != c.want {
				t.Errorf("the shim reports %s (%s), want %s", r.Outcome, r.Detail, c.want)
			}
			d := hook.Engine.Decide(kube.FromPod(pod), m.host())
			want := d.Config()
			if c.want != cri.Edited {
				want = requested(request, m.host())
			}
			if diff := cmp.Diff(want, v.config()); diff != "" {
				t.Errorf("resolv.conf (-want +got):\n%s", diff)
			}
		})
	}
}

// requested returns the configuration that the runtime writes for a request. Without a
// DNS configuration it copies the host's file.
func requested(request *runtimeapi.PodSandboxConfig, host resolvconf.File) resolvconf.Config {
	dns := request.DnsConfig
	if dns == nil {
		return host.Config()
	}
	return resolvconf.Config{Nameservers: dns.Servers, Searches: dns.Searches, Options: dns.Options}
}

// testInjection runs a pod whose search domain contains a line break and a nameserver
// line. Kubelet and runtime write it as it is (docs/compatibility.md, D3).
func (m *machine) testInjection(t *testing.T) {
	pod := newPod("injection", corev1.PodSpec{DNSConfig: &corev1.PodDNSConfig{Searches: []string{"a.example\nnameserver 203.0.113.66"}}})
	inject := func(c *runtimeapi.PodSandboxConfig) {
		c.DnsConfig.Searches = append(c.DnsConfig.Searches, pod.Spec.DNSConfig.Searches...)
	}
	k := m.kubelet(t, m.endpoint())
	request := k.sandboxOf(engine(t, facts()), m.host(), pod)
	inject(request)
	direct := must.Get(k.runPod(t.Context(), request))(t)
	if !slices.Contains(direct.config().Nameservers, "203.0.113.66") {
		t.Errorf("the runtime did not write the line:\n%s", direct.ResolvConf)
	}
	m.runEdited(t, pod, inject)
}

// testRestart kills containerd behind a shim. Running pods continue. Calls fail as
// without a shim until containerd is back.
func (m *machine) testRestart(t *testing.T) {
	before, after := autopathPod("before"), autopathPod("after")
	hook := m.hook(t, before, after)
	s := m.startShim(t, hook)
	ctx, cancel := within(t.Context())
	defer cancel()
	config := s.sandboxOf(hook.Engine, m.host(), before)
	sandbox := must.Get(s.start(ctx, config))(t)
	container := must.Get(s.startContainer(ctx, sandbox, config, nodetools.PauseImage))(t)

	m.killContainerd(t)
	if _, err := s.start(ctx, s.sandboxOf(hook.Engine, m.host(), after)); status.Code(err) != codes.Unavailable {
		t.Errorf("without containerd: %v, want Unavailable", err)
	}
	m.startContainerd(t)
	await(t, func() error {
		_, err := s.runtime.Version(ctx, &runtimeapi.VersionRequest{})
		return err
	})

	v := must.Get(s.view(ctx, container))(t)
	check(t, v, before, m.decide(hook, before))
	if err := s.remove(ctx, sandbox); err != nil {
		t.Error(err)
	}
	v = must.Get(s.runPod(ctx, s.sandboxOf(hook.Engine, m.host(), after)))(t)
	check(t, v, after, m.decide(hook, after))
}

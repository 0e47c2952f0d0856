// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	stubPath   = "/etc/resolv.conf"
	uplinkPath = "/run/systemd/resolve/resolv.conf"
)

func host(path, text string) HostFile { return HostFile{Path: path, File: resolvconf.Parse(text)} }

// hosts are the files of a node with systemd-resolved.
var hosts = []HostFile{
	host(stubPath, "nameserver 127.0.0.53\nsearch corp.example\noptions edns0\n"),
	host(uplinkPath, "nameserver 192.0.2.53\nsearch corp.example\n"),
}

// kubelet returns the DNS that a kubelet with f computes for pod from files.
func kubelet(t *testing.T, f InferredFacts, pod policy.Pod, files []HostFile) resolvconf.Config {
	t.Helper()
	engine, err := policy.New(policy.Node{ClusterDNS: f.ClusterDNS, ClusterDomain: f.ClusterDomain, ResolvConf: f.ResolvConf})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range files {
		if h.Path == f.ResolvConf {
			return resolvconf.Parse(engine.KubeletConfig(pod, h.File).String()).Config()
		}
	}
	t.Fatalf("no file %s", f.ResolvConf)
	return resolvconf.Config{}
}

func factsIn(dns, domain, path string) InferredFacts {
	return InferredFacts{ClusterDNS: []netip.Addr{netip.MustParseAddr(dns)}, ClusterDomain: domain, ResolvConf: path}
}

// TestInference_Add: facts are known after two pods, and follow another configuration after two
// pods.
func TestInference_Add(t *testing.T) {
	var i Inference
	add := func(uid string, p policy.Policy, f InferredFacts) bool {
		t.Helper()
		pod := policy.Pod{Namespace: "shop", Name: uid, UID: uid, Policy: p}
		return i.Add(pod, kubelet(t, f, pod, hosts), hosts)
	}
	want := func(f InferredFacts, known bool) {
		t.Helper()
		got, ok := i.Facts(nil)
		if ok != known || known && !cmp.Equal(f, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })) {
			t.Errorf("%+v, %v, want %+v, %v", got, ok, f, known)
		}
	}
	first := factsIn("10.96.0.10", "cluster.local", uplinkPath)
	add("a", policy.ClusterFirst, first)
	add("a", policy.ClusterFirst, first) // another sandbox of the same pod
	want(first, false)
	if !add("b", policy.ClusterFirst, first) {
		t.Error("the cluster is not known after two pods")
	}
	want(first, false) // both files explain these pods
	add("c", policy.Default, first)
	want(first, false)
	if !add("d", policy.Default, first) {
		t.Error("the host's file is not known after two pods")
	}
	want(first, true)

	second := factsIn("192.0.2.10", "example", stubPath)
	if add("e", policy.ClusterFirst, second) || add("f", policy.ClusterFirst, first) || add("g", policy.ClusterFirst, second) {
		t.Error("one pod in a row has changed the facts")
	}
	want(first, true)
	if !add("h", policy.ClusterFirst, second) {
		t.Error("two pods in a row have not changed the facts")
	}
	add("i", policy.Default, second)
	add("j", policy.Default, second)
	want(second, true)
}

// TestInference_Ignored: pods whose authors choose the values, or that a kubelet cannot have
// computed, show nothing.
func TestInference_Ignored(t *testing.T) {
	dns := func(text string) resolvconf.Config { return resolvconf.Parse(text).Config() }
	const good = "search shop.svc.d.example svc.d.example d.example\nnameserver 192.0.2.10\noptions ndots:5\n"
	plain := policy.Pod{Namespace: "shop", Policy: policy.ClusterFirst}
	withConfig, none, onHost := plain, plain, plain
	withConfig.Config, none.Policy, onHost.HostNetwork = &policy.DNSConfig{}, policy.None, true
	for name, c := range map[string]struct {
		pod  policy.Pod
		text string
		want bool
	}{
		"as computed":         {plain, good, true},
		"with a dnsConfig":    {withConfig, good, false},
		"None":                {none, good, false},
		"on the host network": {onHost, good, false},
		"no servers":          {plain, "search shop.svc.d svc.d d\noptions ndots:5\n", false},
		"another namespace":   {plain, "search other.svc.d svc.d d\nnameserver 192.0.2.10\noptions ndots:5\n", false},
		"another order":       {plain, "search svc.d shop.svc.d d\nnameserver 192.0.2.10\noptions ndots:5\n", false},
		"no domain":           {plain, "search shop.svc. svc. .\nnameserver 192.0.2.10\noptions ndots:5\n", false},
		"other options":       {plain, "search shop.svc.d svc.d d\nnameserver 192.0.2.10\noptions ndots:2\n", false},
		"no address":          {plain, "search shop.svc.d svc.d d\nnameserver x\noptions ndots:5\n", false},
		"an address and zone": {plain, "search shop.svc.d svc.d d\nnameserver fe80::1%eth0\noptions ndots:5\n", false},
	} {
		var i Inference
		for _, uid := range []string{"a", "b"} {
			c.pod.UID = uid
			i.Add(c.pod, dns(c.text), nil)
		}
		if f, ok := i.Facts(new("")); ok != c.want {
			t.Errorf("%s: %+v, %v", name, f, ok)
		}
	}
	var i Inference
	for range 2 {
		i.Add(plain, dns(good), nil) // without a UID
	}
	if f, ok := i.Facts(new("")); ok {
		t.Errorf("%+v", f)
	}
}

// FuzzInference_Add: no text of a pod ends the program, or gives facts that are not usable.
func FuzzInference_Add(f *testing.F) {
	f.Add("shop", "search shop.svc.d svc.d d\nnameserver 192.0.2.10\noptions ndots:5\n")
	f.Add("", "search .svc.d svc.d d\nnameserver ::1\noptions ndots:5\n")
	f.Fuzz(func(t *testing.T, namespace, text string) {
		var i Inference
		for _, uid := range []string{"a", "b"} {
			i.Add(policy.Pod{Namespace: namespace, UID: uid}, resolvconf.Parse(text).Config(), hosts)
		}
		if got, ok := i.Facts(new(stubPath)); ok && (len(got.ClusterDNS) == 0 || got.ClusterDomain == "") {
			t.Errorf("%+v", got)
		}
	})
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// maxObject is the limit of the API server for an object, in bytes of JSON
// (MaxRequestBodyBytes in k8s.io/apiserver/pkg/server).
const maxObject = 3 << 20

// largePods returns pods that have maxObject bytes of JSON in one list or one text, more than
// the API server accepts in most of them: a webhook gets pods that are not validated yet.
func largePods() map[string]policy.Pod {
	const unsafe = "\n"
	repeat := func(s string) []string { return slices.Repeat([]string{s}, maxObject/len(`"\n",`)) }
	various := make([]string, maxObject/len(`"d123456",`))
	for i := range various {
		various[i] = fmt.Sprint("d", i)
	}
	option := func(texts []string, value string) (options []policy.Option) {
		for _, s := range texts[:len(texts)/2] {
			options = append(options, policy.Option{Name: s, Value: value})
		}
		return options
	}
	long := strings.Repeat("a", maxObject)
	config := func(c policy.DNSConfig) policy.Pod { return policy.Pod{Config: &c} }
	return map[string]policy.Pod{
		"unsafe options":       config(policy.DNSConfig{Options: option(repeat(unsafe), "")}),
		"unsafe values":        config(policy.DNSConfig{Options: option(repeat("ndots"), unsafe)}),
		"equal options":        config(policy.DNSConfig{Options: option(repeat("ndots"), "5")}),
		"various options":      config(policy.DNSConfig{Options: option(various, "5")}),
		"a long option":        config(policy.DNSConfig{Options: []policy.Option{{Name: long}}}),
		"a long unsafe option": config(policy.DNSConfig{Options: []policy.Option{{Name: strings.Repeat(unsafe, maxObject)}}}),
		"unsafe searches":      config(policy.DNSConfig{Searches: repeat(unsafe)}),
		"equal searches":       config(policy.DNSConfig{Searches: repeat("a")}),
		"various searches":     config(policy.DNSConfig{Searches: various}),
		"a long search":        config(policy.DNSConfig{Searches: []string{long}}),
		"unsafe nameservers":   config(policy.DNSConfig{Nameservers: repeat(unsafe)}),
		"various nameservers":  config(policy.DNSConfig{Nameservers: various}),
		"a long nameserver":    config(policy.DNSConfig{Nameservers: []string{long}}),
		"a long name":          {Name: long},
		"a long unsafe name":   {Name: strings.Repeat(unsafe, maxObject)},
		"a long namespace":     {Namespace: long, Policy: policy.ClusterFirstWithAutopath, Subdomain: "s", SetHostnameAsFQDN: true},
		"a long hostname":      {Hostname: strings.Repeat(unsafe, maxObject)},
		"a long subdomain":     {Subdomain: long, SetHostnameAsFQDN: true},
		"a long override":      {HostnameOverride: &long},
		"a long policy":        {Policy: policy.Policy(long)},
		"a long annotation":    {Override: policy.Policy(long)},
	}
}

// TestDecide_LargePods bounds the findings, the texts and the memory of decisions about pods
// of maxObject bytes.
func TestDecide_LargePods(t *testing.T) {
	const (
		maxFindings  = 200             // of all codes: one code has many
		maxFinding   = 20 << 10        // bytes of text
		maxMallocs   = 1_000_000       // an option has at least 10 bytes of JSON, and takes two allocations
		maxAllocated = 150 * maxObject // an entry of 4 bytes of JSON takes 32, and lists grow by a quarter
		maxExplained = 5 << 20         // 1,000 rows of four lists, and a few long texts
	)
	for name, pod := range largePods() {
		if pod.Policy == "" {
			pod.Policy = policy.ClusterFirst
		}
		e := newEngine(t, kubeadm)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := e.Decide(pod, resolvconf.File{})
		e.KubeletConfig(pod, resolvconf.File{})
		runtime.ReadMemStats(&after)
		mallocs, allocated := after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		if mallocs > maxMallocs || allocated > maxAllocated || len(d.Findings) > maxFindings {
			t.Errorf("%s: %d allocations, %d bytes, %d findings", name, mallocs, allocated, len(d.Findings))
		}
		for _, f := range d.Findings {
			if n := len(f.Message) + len(f.Hint) + len(f.Field); n > maxFinding {
				t.Errorf("%s: finding %s has %d bytes: %.200s", name, f.Code, n, f.Message)
			}
		}
		if n := len(d.Error); n > maxFinding {
			t.Errorf("%s: error of %d bytes", name, n)
		}
		if n := len(d.Explain()); n > maxExplained {
			t.Errorf("%s: explanation of %d bytes", name, n)
		}
	}
}

// TestDecide_FindingsLimit has as many unsafe options as there are findings of one code, and
// one more. The last finding counts those that are left out; no option is kept.
func TestDecide_FindingsLimit(t *testing.T) {
	for _, unsafe := range []int{policy.MaxFindings - 1, policy.MaxFindings, policy.MaxFindings + 1, 200_000} {
		config := &policy.DNSConfig{Searches: slices.Repeat([]string{"a b"}, 2),
			Options: slices.Repeat([]policy.Option{{Name: "\n"}}, unsafe-2)}
		config.Searches = append(config.Searches, strings.Repeat("l", 64)) // another finding behind these
		d := newEngine(t, kubeadm).Decide(policy.Pod{Namespace: "n", Name: "p", Policy: policy.ClusterFirst, Config: config},
			resolvconf.File{})
		n, more, others := 0, 0, 0
		for _, f := range d.Findings {
			if f.Code == policy.CodeUnsafeValue {
				n++
				more += f.More
			} else {
				others++
			}
		}
		if n != min(unsafe, policy.MaxFindings) || n+more != unsafe || others != 1 || len(d.Options) != 1 {
			t.Errorf("%d unsafe values: %d findings and %d more, %d others, options %v", unsafe, n, more, others, d.Options)
		}
	}
}

// TestCheckHost_FindingsLimit has a host file with many nameservers on the loopback. The last
// finding is about their number.
func TestCheckHost_FindingsLimit(t *testing.T) {
	host := resolvconf.Parse(strings.Repeat("nameserver 127.0.0.1\n", 100_000))
	found := newEngine(t, kubeadm).CheckHost(host)
	n := len(found) - 1
	if n != policy.MaxFindings || found[n-1].More != 100_000-n || found[n].Code != policy.CodeServerLimit {
		t.Errorf("%d findings", n+1)
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestHook_LargeRequests has requests of three megabytes, the limit of the API server for a
// pod, in each list and text whose size the pod's author controls. Memory is proportional to
// the request, and the detail of the report is short.
func TestHook_LargeRequests(t *testing.T) {
	const (
		size         = 3 << 20
		maxMallocs   = 2_000_000  // a value has at least 7 bytes
		maxAllocated = 150 * size // a value of 7 bytes takes 64 in an annotation, and lists grow
	)
	unsafe := make([]string, size/len("\n123456"))
	for i := range unsafe {
		unsafe[i] = fmt.Sprintf("\n%06d", i)
	}
	texts := map[string]string{}
	for _, s := range unsafe {
		texts[s] = ""
	}
	long := strings.Repeat("\n", size)
	config := func(c policy.DNSConfig) policy.Pod {
		pod := plain
		pod.Config = &c
		return pod
	}
	var options []policy.Option
	for _, s := range unsafe {
		options = append(options, policy.Option{Name: s})
	}
	for name, tt := range map[string]struct {
		pod  policy.Pod
		edit func(c *runtimeapi.PodSandboxConfig)
		want Outcome
	}{
		"unsafe options": {config(policy.DNSConfig{Options: options}), func(c *runtimeapi.PodSandboxConfig) {
			c.DnsConfig = dnsOf([]string{"10.96.0.10"}, shopSearch, append(slices.Clone(unsafe), "ndots:5"))
		}, Edited},
		"a long option": {config(policy.DNSConfig{Options: []policy.Option{{Name: long}}}), func(c *runtimeapi.PodSandboxConfig) {
			c.DnsConfig = dnsOf([]string{"10.96.0.10"}, shopSearch, []string{long, "ndots:5"})
		}, Edited},
		"options of the request only": {plain, func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig.Options = unsafe }, FactsMismatch},
		"searches":                    {plain, func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig.Searches = unsafe }, FactsMismatch},
		"nameservers":                 {plain, func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig.Servers = unsafe }, FactsMismatch},
		"annotations":                 {plain, func(c *runtimeapi.PodSandboxConfig) { maps.Copy(c.Annotations, texts) }, Unchanged},
		"labels":                      {plain, func(c *runtimeapi.PodSandboxConfig) { c.Labels = texts }, Unchanged},
		"host name":                   {plain, func(c *runtimeapi.PodSandboxConfig) { c.Hostname = long }, FactsMismatch},
		"name":                        {plain, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = long }, Unchanged},
		"UID":                         {plain, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Uid = long }, UnknownPod},
	} {
		t.Run(name, func(t *testing.T) {
			h, reports := newHook(t, tt.pod)
			sent := sandboxRequest(plain, dnsOf(kubeletDNS.Servers, kubeletDNS.Searches, kubeletDNS.Options))
			tt.edit(sent.Config)
			request := marshal(t, sent)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			h.edit(t.Context(), request, NewMetrics(nil))
			runtime.ReadMemStats(&after)
			if mallocs, allocated := after.Mallocs-before.Mallocs,
				after.TotalAlloc-before.TotalAlloc; mallocs > maxMallocs || allocated > maxAllocated {
				t.Errorf("%d allocations, %d bytes", mallocs, allocated)
			}
			r := (*reports)[0]
			if r.Outcome != tt.want || len(r.Detail) > excerpt.MaxMessage || len(r.Findings) > 2*policy.MaxFindings {
				t.Errorf("got %s, want %s; %d findings, detail of %d bytes: %.300q", r.Outcome,
					tt.want, len(r.Findings), len(r.Detail), r.Detail)
			}
		})
	}
}

// TestHook_LargeAtOnce has several large requests at once, and small ones: the large ones are
// decided one after the other, and do not delay the small ones.
func TestHook_LargeAtOnce(t *testing.T) {
	h, _ := newHook(t, plain)
	var deciding, most, small atomic.Int32
	proceed, lookup := make(chan struct{}), h.Lookup
	h.Lookup = func(ctx context.Context, s Sandbox) (policy.Pod, error) {
		if s.Annotations["large"] == "" {
			small.Add(1)
			return lookup(ctx, s)
		}
		for n := deciding.Add(1); n > most.Load(); {
			most.Store(n)
		}
		<-proceed
		deciding.Add(-1)
		return lookup(ctx, s)
	}
	sent := sandboxRequest(plain, kubeletDNS)
	request := marshal(t, sent)
	sent.Config.Annotations["large"] = strings.Repeat("x", largeRequest)
	large := marshal(t, sent)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { h.edit(t.Context(), large, NewMetrics(nil)) })
	}
	for deciding.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 5 {
		h.edit(t.Context(), request, NewMetrics(nil))
	}
	if small.Load() != 5 {
		t.Errorf("%d small requests decided beside a large one", small.Load())
	}
	close(proceed)
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d large requests at once, want 1", most.Load())
	}
}

// TestHook_LargePodsAtOnce: pods with 200,000 options of one name have small requests, since the
// kubelet sends the last option. They are decided one after the other, too.
func TestHook_LargePodsAtOnce(t *testing.T) {
	options := slices.Repeat([]policy.Option{{Name: "ndots", Value: "3"}}, 200_000)
	h, _ := newHook(t, policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.ClusterFirst,
		Config: &policy.DNSConfig{Options: options}})
	h.Report = func(r Report) {
		if r.Outcome != Unchanged {
			t.Errorf("%s: %s", r.Outcome, r.Detail)
		}
	}
	host, entered := h.HostFiles, make(chan struct{})
	var overlaps atomic.Int32
	h.HostFiles = func() HostFiles {
		select { // the second of two at once finds the first one
		case entered <- struct{}{}:
			overlaps.Add(1)
		case <-entered:
		case <-time.After(200 * time.Millisecond):
		}
		return host()
	}
	request := marshal(t, sandboxRequest(plain, dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:3"})))
	var requests sync.WaitGroup
	for range 4 {
		requests.Go(func() { edit(h, request) })
	}
	requests.Wait()
	if n := overlaps.Load(); n > 0 {
		t.Errorf("%d decisions began during another one", n)
	}
}

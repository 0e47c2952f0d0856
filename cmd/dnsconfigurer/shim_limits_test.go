// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// TestShim_ManyUnsafeOptions starts a pod with 200,000 options that would write lines of
// their own, and one with an option of three megabytes. The runtime gets none of the former;
// the log and the events stay short.
func TestShim_ManyUnsafeOptions(t *testing.T) {
	const options, maxLog = 200_000, 16 << 10
	many, long := podOf("many", "many"), podOf("long", "long")
	many.Annotations, long.Annotations = nil, nil
	many.Spec.DNSConfig, long.Spec.DNSConfig = new(corev1.PodDNSConfig), new(corev1.PodDNSConfig)
	flood, alone := plainRequest("many", "many", "api"), plainRequest("long", "long", "api")
	for i := range options {
		name := fmt.Sprintf("\n%d", i)
		many.Spec.DNSConfig.Options = append(many.Spec.DNSConfig.Options, corev1.PodDNSConfigOption{Name: name})
		flood.DnsConfig.Options = append(flood.DnsConfig.Options, name)
	}
	value := strings.Repeat("o", 3_000_000)
	long.Spec.DNSConfig.Options = []corev1.PodDNSConfigOption{{Name: "b"}, {Name: value}}
	alone.DnsConfig.Options = []string{value, "b", "ndots:5"} // another order, so that it is edited
	api := newClusterAPI(t, many, long, podOf("last", "last"))
	n := newShimNode(t, api.url, nil)

	n.expect("many options", plainRequest("many", "many", "api"), flood)
	ordered := plainRequest("long", "long", "api")
	ordered.DnsConfig.Options = []string{"ndots:5", "b", value}
	n.expect("a long option", ordered, alone)
	n.expect("last", withDNS(request("last", "last", "api"), autopathDNS()), request("last", "last", "api"))
	n.expectCounts(map[string]int{"edited": 3})

	n.eventually("the last event", func() bool {
		events := api.sent()
		return len(events) > 0 && events[len(events)-1].InvolvedObject.Name == "last"
	})
	count := map[string]int{}
	for _, e := range api.sent() {
		count[e.InvolvedObject.Name+" "+e.Reason]++
		if len(e.Message) > excerpt.MaxMessage {
			t.Errorf("%s: message of %d bytes", e.Reason, len(e.Message))
		}
		if e.Reason == "UnsafeDNSValue" &&
			!strings.HasPrefix(e.Message, `200000 unsafe values, the first of them: options "\n0" would break out`) {
			t.Errorf("message %q", e.Message)
		}
	}
	if want := "map[last DNSConfigured:1 many DNSConfigured:1 many UnsafeDNSValue:1]"; fmt.Sprint(count) != want {
		t.Errorf("events %v, want %s", count, want)
	}
	n.stop()
	if text := n.log.String(); len(text) > maxLog {
		t.Errorf("the log has %d bytes, want at most %d:\n%.2000s", len(text), maxLog, text)
	}
}

// describe returns an event as `kubectl describe pod` shows it.
func describe(e *corev1.Event) string {
	o := e.InvolvedObject
	return fmt.Sprintf("%s %s %s/%s %s %s %s@%s: %s", e.Type, e.Reason, o.Namespace, o.Name, o.UID,
		o.APIVersion+" "+o.Kind, e.Source.Component, e.Source.Host, e.Message)
}

// TestShim_Events: there are events on pods whose DNS the shim changed, and on those whose
// kubelet has other facts, and on no others.
func TestShim_Events(t *testing.T) {
	const mismatch = "the kubelet's DNS does not match the node's facts: "
	plain := podOf("plain", "plain")
	plain.Annotations = nil
	skipped := podOf("skipped", "skipped")
	skipped.Annotations[cri.SkipAnnotation] = "true"
	injected := podOf("injected", "injected")
	injected.Annotations = nil
	line := "1\nnameserver 203.0.113.66"
	injected.Spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "debug", Value: &line}}}
	stuck := podOf("stuck", "stuck")
	stuck.Spec.Subdomain, stuck.Spec.SetHostnameAsFQDN = strings.Repeat("s", 63), new(true)
	api := newClusterAPI(t, podOf("web", "web"), plain, skipped, injected, stuck, podOf("last", "last"))
	n := newShimNode(t, api.url, nil)
	q := func(name string) *runtimeapi.PodSandboxConfig { return request(name, name, "api") }

	// Nothing changes: no event.
	n.expect("plain", plainRequest("plain", "plain", "api"), plainRequest("plain", "plain", "api"))
	n.expect("unknown", q("unknown"), q("unknown"))
	n.expect("stuck", q("stuck"), q("stuck"))
	skip := q("skipped")
	skip.Annotations[cri.SkipAnnotation] = "true" // the kubelet passes annotations
	n.expect("skipped", skip, skip)

	// A sandbox that is created again raises the count of its event.
	for range 3 {
		n.expect("edited", withDNS(q("web"), autopathDNS()), q("web"))
	}
	unsafe := plainRequest("injected", "injected", "api")
	unsafe.DnsConfig.Options = append(unsafe.DnsConfig.Options, "debug:"+line)
	n.expect("injected", plainRequest("injected", "injected", "api"), unsafe)

	otherServer, otherDomain := q("web"), plainRequest("plain", "plain", "api")
	otherServer.DnsConfig.Servers[0] = "10.96.0.99"
	otherDomain.DnsConfig.Searches = []string{"shop.svc.other", "svc.other", "other", "corp.example"}
	n.expect("another cluster DNS", otherServer, otherServer)
	n.expect("another domain", otherDomain, otherDomain)
	n.expect("last", withDNS(q("last"), autopathDNS()), q("last"))
	n.expectCounts(map[string]int{"edited": 5, "unchanged": 1, "unknown_pod": 1, "refused": 1, "skipped": 1, "node_facts_mismatch": 2})

	const autopath = `resolv.conf is set by dnsconfigurer: "nameserver 10.96.0.10\nsearch ` +
		`search.shop.cluster.local.ap.k8s.io\noptions ndots:5\n"`
	pod := func(kind, reason, name, message string) string {
		return fmt.Sprintf("%s %s shop/%s %s v1 Pod dnsconfigurer@Worker: %s", kind, reason, name, name, message)
	}
	want := []string{
		pod("Normal", "DNSConfigured", "web", autopath),
		pod("Normal", "DNSConfigured", "injected",
			`resolv.conf is set by dnsconfigurer: "nameserver 10.96.0.10\nsearch shop.svc.cluster.local `+
				`svc.cluster.local cluster.local corp.example\noptions ndots:5\n"`),
		pod("Warning", "UnsafeDNSValue", "injected",
			`options "debug:1\nnameserver 203.0.113.66" would break out of its line in resolv.conf and is dropped`),
		pod("Warning", "NodeFactsMismatch", "web", mismatch+`nameservers ["10.96.0.99"], expected ["10.96.0.10"]`),
		pod("Warning", "NodeFactsMismatch", "plain", mismatch+
			`searches ["shop.svc.other" "svc.other" "other" "corp.example"], expected `+
			`["shop.svc.cluster.local" "svc.cluster.local" "cluster.local" "corp.example"]`),
		pod("Normal", "DNSConfigured", "last", autopath),
	}
	n.eventually("the last event", func() bool { return len(api.sent()) >= len(want) })
	var got []string
	for _, e := range api.sent() {
		got = append(got, describe(e))
		if e.Namespace != "shop" || !strings.HasPrefix(e.Name, e.InvolvedObject.Name+".") || e.Count != 1 || e.FirstTimestamp.IsZero() {
			t.Errorf("event %s/%s, count %d, first at %v", e.Namespace, e.Name, e.Count, e.FirstTimestamp)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestShim_HostFileEvents: an unusable resolv.conf of the host has an event on the node, with the
// reason. Pods get the last usable one; when it is usable again, there is another event.
func TestShim_HostFileEvents(t *testing.T) {
	api := newClusterAPI(t)
	n := newShimNode(t, api.url, nil)
	last := func(reason string) func() bool {
		return func() bool {
			sent := api.sent()
			return len(sent) > 0 && sent[len(sent)-1].Reason == reason
		}
	}
	n.logs("read the host's resolv.conf")
	n.write("resolv.conf", "# nothing\n")
	n.eventually("the event", last("HostResolvConfUnusable"))
	n.write("resolv.conf", "nameserver 192.0.2.53\n")
	n.eventually("the event of its end", last("HostResolvConfUsable"))
	want := []string{
		"Warning HostResolvConfUnusable /Worker Worker v1 Node dnsconfigurer@Worker: the host's resolv.conf is unusable: " +
			"the file has no nameserver; pods get its last usable content",
		"Normal HostResolvConfUsable /Worker Worker v1 Node dnsconfigurer@Worker: the host's resolv.conf is usable again",
	}
	var got []string
	for _, e := range api.sent() {
		got = append(got, describe(e))
		if e.Namespace != "default" {
			t.Errorf("event in namespace %q", e.Namespace)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

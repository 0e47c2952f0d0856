// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
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

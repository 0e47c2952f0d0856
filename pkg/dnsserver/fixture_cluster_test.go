// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	// smallCluster is a loaded cluster with one Service.
	smallCluster = "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nloaded"

	// shopCluster has two namespaces with a Service of the same name in each.
	shopCluster = "namespace shop\nnamespace payments\nservice shop/web 10.96.0.7\n" +
		"service payments/web 10.96.0.8\nservice payments/other 10.96.0.9\nloaded"
)

// reverseRanges are the address ranges of the test clusters.
var reverseRanges = []netip.Prefix{
	netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/32"),
	netip.MustParsePrefix("10.3.0.0/16"), netip.MustParsePrefix("2001:db8::/64"), // of the examples in the specification
}

// newZone returns the zone cluster.local, and external zones, with the objects of the cluster.
func newZone(t testing.TB, reverse []netip.Prefix, cluster string, external ...fqdn.Name) *zone.Zone {
	t.Helper()
	z := must.Get(zone.New(zone.Config{
		Domain: clusterDomain, Pods: zone.PodsInsecure,
		Local: []netip.Addr{netip.MustParseAddr("10.244.9.9")}, Reverse: reverse, External: external,
	}))(t)
	applyObjects(t, z, cluster)
	return z
}

// clusterDomain is cluster.local.
var clusterDomain = fqdn.Join(fqdn.Root, "cluster", "local")

// applyObjects parses objects, one per line, and puts them into a zone:
//
//	namespace NAME
//	service NS/NAME ADDR... PORT:PROTOCOL:NUMBER... [publish] [external=NAME] [lb=ADDR|NAME]...
//	slice NS/SERVICE ADDR[=HOSTNAME][!]... PORT:PROTOCOL:NUMBER...
//	pod NS/NAME ADDR...
//	loaded
//
// An endpoint with ! is not ready. A port without a name begins with ":".
func applyObjects(t testing.TB, z *zone.Zone, cluster string) {
	t.Helper()
	z.Update(1, func(e *zone.Edit) {
		for i, line := range strings.Split(strings.TrimSpace(cluster), "\n") {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] == "#" {
				continue
			}
			if words[0] == "loaded" {
				e.SetLoaded()
				continue
			}
			ns, name, _ := strings.Cut(words[1], "/")
			switch words[0] {
			case "namespace":
				e.PutNamespace(ns)
			case "service":
				e.PutService(parseService(ns, name, words[2:]))
			case "slice":
				e.PutEndpointSlice(parseSlice(ns, name, fmt.Sprint(name, "-", i), words[2:]))
			case "pod":
				p := zone.Pod{Namespace: ns, Name: name}
				for _, w := range words[2:] {
					p.Addrs = append(p.Addrs, netip.MustParseAddr(w))
				}
				e.PutPod(p)
			default:
				t.Fatalf("unknown object: %q", line)
			}
		}
	})
}

func parseService(ns, name string, words []string) zone.Service {
	s := zone.Service{Namespace: ns, Name: name}
	for _, w := range words {
		if addr, err := netip.ParseAddr(w); err == nil {
			s.ClusterIPs = append(s.ClusterIPs, addr)
		} else if target, ok := strings.CutPrefix(w, "external="); ok {
			s.ExternalName = target
		} else if text, ok := strings.CutPrefix(w, "lb="); ok {
			if s.External == nil {
				s.External = &zone.External{}
			}
			if addr, err := netip.ParseAddr(text); err == nil {
				s.External.Addrs = append(s.External.Addrs, addr)
			} else {
				s.External.Host = text
			}
		} else if w == "publish" {
			s.PublishNotReady = true
		} else {
			s.Ports = append(s.Ports, parsePort(w))
		}
	}
	return s
}

func parseSlice(ns, svc, name string, words []string) zone.EndpointSlice {
	s := zone.EndpointSlice{Namespace: ns, Name: name, Service: svc}
	for _, w := range words {
		w, unready := strings.CutSuffix(w, "!")
		addrText, hostname, _ := strings.Cut(w, "=")
		if addr, err := netip.ParseAddr(addrText); err == nil {
			s.Endpoints = append(s.Endpoints, zone.Endpoint{Addr: addr, Hostname: hostname, Ready: !unready})
		} else {
			s.Ports = append(s.Ports, parsePort(w))
		}
	}
	return s
}

func parsePort(word string) zone.Port {
	parts := strings.Split(word, ":")
	n, err := strconv.ParseUint(parts[len(parts)-1], 10, 16)
	if len(parts) != 3 || err != nil {
		panic("invalid port: " + word)
	}
	return zone.Port{Name: parts[0], Protocol: parts[1], Number: uint16(n)}
}

// mustName parses a name.
func mustName(t testing.TB, text string) fqdn.Name {
	t.Helper()
	name, err := fqdn.ParseName(text)
	if err != nil {
		t.Fatalf("name %q: %v", text, err)
	}
	return name
}

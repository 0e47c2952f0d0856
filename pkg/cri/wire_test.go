// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

var newDNS = resolvconf.Config{Nameservers: []string{"10.96.0.10"}, Searches: []string{"a.example", "b"}, Options: []string{"ndots:5"}}

// fullRequest returns a request with every field that is read, and some others.
func fullRequest() *runtimeapi.RunPodSandboxRequest {
	return &runtimeapi.RunPodSandboxRequest{
		RuntimeHandler: "runc",
		Config: &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "u1", Namespace: "shop", Attempt: 3},
			Hostname:     "web",
			LogDirectory: "/var/log/pods/shop_web_u1",
			DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"192.0.2.1"}, Searches: []string{"x"}, Options: []string{"ndots:5"}},
			Labels:       map[string]string{"io.kubernetes.pod.uid": "u1"},
			Annotations:  map[string]string{"kubernetes.io/config.source": "api", "a": ""},
			Linux: &runtimeapi.LinuxPodSandboxConfig{
				CgroupParent: "/kubepods",
				SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
					NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}},
			},
		},
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseSandbox_Fields(t *testing.T) {
	got, err := parseSandbox(marshal(t, fullRequest()))
	want := Sandbox{
		Namespace: "shop", Name: "web", UID: "u1", Hostname: "web", HostNetwork: true,
		Annotations: map[string]string{"kubernetes.io/config.source": "api", "a": ""},
		DNS:         resolvconf.Config{Nameservers: []string{"192.0.2.1"}, Searches: []string{"x"}, Options: []string{"ndots:5"}},
		HasDNS:      true,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	r := fullRequest()
	r.Config.DnsConfig, r.Config.Linux = nil, nil
	if got, err := parseSandbox(marshal(t, r)); err != nil || got.HasDNS || got.HostNetwork {
		t.Errorf("without dns_config: %+v, %v", got, err)
	}
	r.Config.DnsConfig = &runtimeapi.DNSConfig{}
	if got, err := parseSandbox(marshal(t, r)); err != nil || !got.HasDNS {
		t.Errorf("with an empty dns_config: %+v, %v", got, err)
	}
}

func TestParseSandbox_Malformed(t *testing.T) {
	whole := marshal(t, fullRequest())
	for name, b := range map[string][]byte{
		"truncated":              whole[:len(whole)-1],
		"garbage":                []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"config is a varint":     protowire.AppendVarint(protowire.AppendTag(nil, requestConfig, protowire.VarintType), 1),
		"dns_config is a varint": inConfig(protowire.AppendVarint(protowire.AppendTag(nil, configDNS, protowire.VarintType), 1)),
		"unterminated group":     inConfig(protowire.AppendTag(nil, 99, protowire.StartGroupType)),
	} {
		if s, err := parseSandbox(b); err == nil {
			t.Errorf("%s: parsed as %+v", name, s)
		}
	}
}

func inConfig(b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, requestConfig, protowire.BytesType), b)
}

func text(number protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), s)
}

// TestSetDNS_TypedMessage compares the result with the typed message.
func TestSetDNS_TypedMessage(t *testing.T) {
	r := fullRequest()
	want := fullRequest()
	want.Config.DnsConfig = &runtimeapi.DNSConfig{Servers: newDNS.Nameservers, Searches: newDNS.Searches, Options: newDNS.Options}
	checkSetDNS(t, marshal(t, r), want)

	// The request has no dns_config.
	r.Config.DnsConfig = nil
	checkSetDNS(t, marshal(t, r), want)

	// A reader merges the parts of a message: the old servers must not come back.
	pieces := append(marshal(t, fullRequest()), inConfig(text(configDNS, string(text(dnsServers, "203.0.113.66"))))...)
	checkSetDNS(t, pieces, want)
}

func checkSetDNS(t *testing.T, in []byte, want *runtimeapi.RunPodSandboxRequest) {
	t.Helper()
	before := bytes.Clone(in)
	out, err := setDNS(in, newDNS)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, in) {
		t.Error("the request was changed in place")
	}
	var got runtimeapi.RunPodSandboxRequest
	if err := proto.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSetDNS_UnknownFields checks that unknown fields stay at every level, byte for byte and
// in order, and text that is not UTF-8 too.
func TestSetDNS_UnknownFields(t *testing.T) {
	unknown := func(s string) []byte { return text(1000, s) }
	label := text(configLabels, string(append(text(mapKey, "l"), text(mapValue, "\xff\xfe")...)))
	dns := text(configDNS, string(append(unknown("in dns"), text(dnsServers, "192.0.2.1")...)))
	in := bytes.Join([][]byte{unknown("first"),
		inConfig(bytes.Join([][]byte{unknown("in config"), label, dns, unknown("last in config")}, nil)), unknown("last")}, nil)
	want := bytes.Join([][]byte{
		unknown("first"),
		inConfig(bytes.Join([][]byte{unknown("in config"), label, unknown("last in config"),
			text(configDNS, string(appendDNS(unknown("in dns"), newDNS)))}, nil)),
		unknown("last"),
	}, nil)
	if got, err := setDNS(in, newDNS); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
}

// FuzzSetDNS compares parseSandbox and setDNS with the typed decoder on every message that
// the decoder accepts.
func FuzzSetDNS(f *testing.F) {
	f.Add(marshal(f, fullRequest()), "debug")
	f.Add(append(marshal(f, fullRequest()), inConfig(text(configDNS, ""))...), "caf\u00e9")
	f.Add([]byte{}, "caf\xe9")
	f.Fuzz(func(t *testing.T, in []byte, option string) {
		newDNS := newDNS
		newDNS.Options = []string{option}
		out, err := setDNS(in, newDNS)
		if !utf8.ValidString(option) && err == nil {
			t.Error("text that is not UTF-8 is written")
		}
		if err != nil {
			return
		}
		var before, after runtimeapi.RunPodSandboxRequest
		if proto.Unmarshal(in, &before) != nil {
			return // invalid UTF-8, fields of another type
		}
		if err := proto.Unmarshal(out, &after); err != nil {
			t.Fatalf("the result does not decode: %v", err)
		}
		s, err := parseSandbox(in)
		if err == nil && (s.Name != before.GetConfig().GetMetadata().GetName() || s.UID != before.GetConfig().GetMetadata().GetUid() ||
			s.HasDNS != (before.GetConfig().GetDnsConfig() != nil) || s.Hostname != before.GetConfig().GetHostname()) {
			t.Errorf("parsed %+v from %v", s, &before)
		}
		if err == nil && !cmp.Equal(s.DNS.Nameservers, before.GetConfig().GetDnsConfig().GetServers()) {
			t.Errorf("parsed the servers %q from %v", s.DNS.Nameservers, &before)
		}
		got := after.GetConfig().GetDnsConfig()
		if !cmp.Equal(got.GetServers(), newDNS.Nameservers) || !cmp.Equal(got.GetSearches(), newDNS.Searches) ||
			!cmp.Equal(got.GetOptions(), newDNS.Options) {
			t.Errorf("the result has %v", got)
		}
	})
}

func unmarshal(t testing.TB, b []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
}

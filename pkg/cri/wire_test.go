// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// typedSandbox returns the fields of c that a hook uses.
func typedSandbox(c *runtimeapi.PodSandboxConfig) Sandbox {
	m, dns := c.GetMetadata(), c.GetDnsConfig()
	return Sandbox{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Hostname: c.GetHostname(), Annotations: c.GetAnnotations(),
		HostNetwork: c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		DNS:         resolvconf.Config{Nameservers: dns.GetServers(), Searches: dns.GetSearches(), Options: dns.GetOptions()},
		HasDNS:      dns != nil,
	}
}

// FuzzSetDNS compares parseSandbox and setDNS with the typed decoder on every message that
// the decoder accepts. A reader merges the parts of a message: old servers must not come back.
func FuzzSetDNS(f *testing.F) {
	withDNS := func(dns *runtimeapi.DNSConfig) []byte {
		r := fullRequest()
		r.Config.DnsConfig, r.Config.Linux = dns, nil
		return marshal(f, r)
	}
	f.Add(marshal(f, fullRequest()), "debug")
	f.Add(withDNS(nil), "debug")
	f.Add(withDNS(&runtimeapi.DNSConfig{}), "debug")
	f.Add(append(marshal(f, fullRequest()), inConfig(text(configDNS, string(text(dnsServers, "203.0.113.66"))))...), "caf\u00e9")
	f.Add([]byte{}, "caf\xe9")
	f.Fuzz(func(t *testing.T, in []byte, option string) {
		newDNS := newDNS
		newDNS.Options = []string{option}
		unchanged := bytes.Clone(in)
		out, err := setDNS(in, newDNS)
		if !bytes.Equal(unchanged, in) || !utf8.ValidString(option) && err == nil {
			t.Error("the request was changed in place, or text that is not UTF-8 is written")
		}
		var typed, after runtimeapi.RunPodSandboxRequest
		if err != nil || proto.Unmarshal(in, &typed) != nil {
			return // invalid UTF-8, fields of another type
		}
		s, err := parseSandbox(in)
		if err != nil {
			return // a field that is read has another wire type
		}
		if diff := cmp.Diff(typedSandbox(typed.GetConfig()), s, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("parsed (-typed +got):\n%s", diff)
		}
		if err := proto.Unmarshal(out, &after); err != nil {
			t.Fatalf("the result does not decode: %v", err)
		}
		if typed.Config == nil {
			typed.Config = &runtimeapi.PodSandboxConfig{}
		}
		unknown := typed.Config.GetDnsConfig().ProtoReflect().GetUnknown()
		typed.Config.DnsConfig = dnsOf(newDNS.Nameservers, newDNS.Searches, newDNS.Options)
		typed.Config.DnsConfig.ProtoReflect().SetUnknown(unknown)
		if diff := cmp.Diff(&typed, &after, protocmp.Transform()); diff != "" {
			t.Errorf("the result (-typed +got):\n%s", diff)
		}
	})
}

func unmarshal(t testing.TB, b []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
}

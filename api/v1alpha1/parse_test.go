// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const head = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n"

const dnsHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n"

func TestParseShim(t *testing.T) {
	got, err := v1alpha1.Parse[v1alpha1.ShimConfiguration]([]byte(head + `
node:
  kubeletConfig: kubelet.yaml
  clusterDNS: []
  clusterDomain: ""
  resolvConf: /run/resolv.conf
  nodeIPs: [10.0.0.1]
  nodeName: worker
autopath: {nodeCache: 169.254.20.10, clusterDNSFallback: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.ShimConfiguration{
		TypeMeta: v1alpha1.TypeMeta{APIVersion: v1alpha1.GroupVersion, Kind: v1alpha1.KindShim},
		NodeServerConfiguration: v1alpha1.NodeServerConfiguration{
			Node: v1alpha1.NodeConfiguration{
				KubeletConfig: "kubelet.yaml",
				ClusterDNS:    &[]string{},
				ClusterDomain: new(""),
				ResolvConf:    new("/run/resolv.conf"),
				NodeIPs:       []string{"10.0.0.1"},
				NodeName:      "worker",
			},
			Autopath: v1alpha1.AutopathConfiguration{NodeCache: "169.254.20.10", ClusterDNSFallback: true},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseShim_Invalid(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", `apiVersion: is "", must be "dnsconfigurer.dev/v1alpha1"` + "\n" + `kind: is "", must be "ShimConfiguration"`},
		{"other kind", "apiVersion: v1\nkind: Pod\n",
			`kind: is "Pod", must be "ShimConfiguration"`},
		{"unknown fields, each with its path", head + "nodes: {}\nnode: {clusterDns: []}\n",
			`unknown field "nodes": did you mean node?` + "\n" + `unknown field "node.clusterDns": did you mean node.clusterDNS?`},
		{"a field in the wrong place", head + "clusterDNS: []\nnode: {mode: Force}\n",
			`unknown field "clusterDNS": did you mean node.clusterDNS?` + "\n" + `unknown field "node.mode": did you mean mode?`},
		{"a field of the agent", head + "refresh: All\n", `unknown field "refresh": it is a field of AgentConfiguration`},
		{"a field twice", head + "node: {}\nnode: {}\n", `key "node" already set`},
		{"wrong type", head + "node: {nodeIPs: 10.0.0.1}\n", "node.nodeIPs: is a string, must be a list of strings"},
		{"wrong type in a list", head + "node: {clusterDNS: [10.96.0.10, [10]]}\n", "node.clusterDNS[1]: is a list, must be a string"},
		{"a second document", head + "---\nmode: Force\n", "holds more than one YAML document"},
		{"not a mapping", "- a\n", "is a list, must be a mapping"},
		{"not YAML", "a: [\n", "line 1: did not find expected node content"},
		{"binary", "\x00\x01\x02", "control characters are not allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := v1alpha1.Parse[v1alpha1.ShimConfiguration]([]byte(tt.text))
			if err == nil {
				t.Fatal("accepted")
			}
			for want := range strings.SplitSeq(tt.want, "\n") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to contain %q", err, want)
				}
			}
		})
	}
}

// TestReplacement: the error of a removed field says what replaces it.
func TestReplacement(t *testing.T) {
	for text, want := range map[string]string{
		"limits: {maxConcurrent: 5}\n": `unknown field "limits": maxQueries and maxMemory have replaced it`,
		"snapshot: {path: /x}\n":       `snapshot: is a mapping, must be a string: it was a mapping with the path in snapshot.path`,
		"ednsOption: 65313\n":          `unknown field "ednsOption": it was removed: the code of the option is 65313`,
	} {
		if _, err := v1alpha1.Parse[v1alpha1.DNSConfiguration]([]byte(dnsHead + text)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	const webhook = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: WebhookConfiguration\nkubeconfig: file\n"
	const want = `unknown field "kubeconfig": it was removed: the webhook reads no objects of the API server`
	if _, err := v1alpha1.Parse[v1alpha1.WebhookConfiguration]([]byte(webhook)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func FuzzParseShim(f *testing.F) {
	f.Add(head + "node: {clusterDNS: [10.96.0.10]}\n")
	f.Add("{\"apiVersion\":\"dnsconfigurer.dev/v1alpha1\",\"kind\":\"ShimConfiguration\"}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := v1alpha1.Parse[v1alpha1.ShimConfiguration]([]byte(text))
		if err == nil && (c.APIVersion != v1alpha1.GroupVersion || c.Kind != v1alpha1.KindShim) {
			t.Errorf("accepted %q as %v", text, c.TypeMeta)
		}
	})
}

func TestParseDNS(t *testing.T) {
	got, err := v1alpha1.Parse[v1alpha1.DNSConfiguration]([]byte(dnsHead + `
listen: ["0.0.0.0:53"]
ttl: 0
resolvConf: ""
snapshot: s
stubDomains:
- {zone: corp.example, servers: [192.0.2.1, "192.0.2.2:5353"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.DNSConfiguration{
		TypeMeta: v1alpha1.TypeMeta{APIVersion: v1alpha1.GroupVersion, Kind: v1alpha1.KindDNS},
		ResolverConfiguration: v1alpha1.ResolverConfiguration{
			Listen:      []string{"0.0.0.0:53"},
			ResolvConf:  new(""),
			StubDomains: []v1alpha1.StubDomain{{Zone: "corp.example", Servers: []string{"192.0.2.1", "192.0.2.2:5353"}}},
		},
		TTL:      new(uint32(0)),
		Snapshot: "s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseDNS_Invalid(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"the shim's file", head, `kind: is "ShimConfiguration", must be "DNSConfiguration"`},
		{"unknown fields, each with its path", dnsHead + "upstream: []\nsnapshots: s\nstubDomains: [{zone: a, server: b}]\n",
			`unknown field "upstream": did you mean upstreams?` + "\n" + `unknown field "snapshots": did you mean snapshot?` + "\n" +
				`unknown field "stubDomains[0].server": did you mean stubDomains[].servers?`},
		{"not a number", dnsHead + "ttl: 5s\n", "ttl: is a string, must be a whole number of 32 bits"},
		{"a negative number", dnsHead + "ttl: -1\n", "ttl: is -1, must be a whole number of 32 bits"},
		{"a string instead of a list", dnsHead + "upstreams: 192.0.2.1\n", "upstreams: is a string, must be a list of strings"},
		{"a string instead of a mapping", dnsHead + "stubDomains: ['corp.example=192.0.2.1']\n",
			"stubDomains[0]: is a string, must be a mapping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := v1alpha1.Parse[v1alpha1.DNSConfiguration]([]byte(tt.text))
			if err == nil {
				t.Fatal("accepted")
			}
			for want := range strings.SplitSeq(tt.want, "\n") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to contain %q", err, want)
				}
			}
		})
	}
}

func FuzzParseDNS(f *testing.F) {
	f.Add(dnsHead + "stubDomains: [{zone: corp.example, servers: [192.0.2.1]}]\nttl: 5\n")
	f.Add("{\"apiVersion\":\"dnsconfigurer.dev/v1alpha1\",\"kind\":\"DNSConfiguration\"}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := v1alpha1.Parse[v1alpha1.DNSConfiguration]([]byte(text))
		if err == nil && (c.APIVersion != v1alpha1.GroupVersion || c.Kind != v1alpha1.KindDNS) {
			t.Errorf("accepted %q as %v", text, c.TypeMeta)
		}
	})
}

const webhookHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: WebhookConfiguration\n"

func TestParseWebhook(t *testing.T) {
	got, err := v1alpha1.Parse[v1alpha1.WebhookConfiguration]([]byte(webhookHead + `
listen: 127.0.0.1:8443
tls: {certFile: c, keyFile: k}
node: {clusterDomain: corp.example}
`))
	want := v1alpha1.WebhookConfiguration{
		TypeMeta: v1alpha1.TypeMeta{APIVersion: v1alpha1.GroupVersion, Kind: v1alpha1.KindWebhook},
		Listen:   "127.0.0.1:8443",
		TLS:      v1alpha1.TLSConfiguration{CertFile: "c", KeyFile: "k"},
		Node:     v1alpha1.NodeConfiguration{ClusterDomain: new("corp.example")},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = v1alpha1.Parse[v1alpha1.WebhookConfiguration]([]byte(webhookHead + "tls: {cert: c}\nmode: Force\nselfSigned: true\n"))
	for _, want := range []string{`unknown field "tls.cert"`, `unknown field "mode"`,
		`unknown field "selfSigned": tls.certFile and tls.keyFile have replaced it`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to contain %q", err, want)
		}
	}
}

func FuzzParseWebhook(f *testing.F) {
	f.Add(webhookHead + "tls: {certFile: c}\nlameduck: 5s\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := v1alpha1.Parse[v1alpha1.WebhookConfiguration]([]byte(text))
		if err == nil && (c.APIVersion != v1alpha1.GroupVersion || c.Kind != v1alpha1.KindWebhook) {
			t.Errorf("accepted %q as %v", text, c.TypeMeta)
		}
	})
}

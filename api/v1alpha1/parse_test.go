// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

func head(kind string) string { return "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: " + kind + "\n" }

// parsers have the function that parses a file of each kind.
var parsers = map[string]func(text string) (any, error){
	v1alpha1.KindShim: parse[v1alpha1.ShimConfiguration], v1alpha1.KindAgent: parse[v1alpha1.AgentConfiguration],
	v1alpha1.KindDNS: parse[v1alpha1.DNSConfiguration], v1alpha1.KindNodeCache: parse[v1alpha1.NodeCacheConfiguration],
	v1alpha1.KindWebhook: parse[v1alpha1.WebhookConfiguration],
}

func parse[T any](text string) (any, error) { return v1alpha1.Parse[T]([]byte(text)) }

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		kind, fields string
		want         any
	}{
		{v1alpha1.KindShim, `
node:
  kubeletConfig: kubelet.yaml
  clusterDNS: []
  clusterDomain: ""
  resolvConf: /run/resolv.conf
  nodeIPs: [10.0.0.1]
  nodeName: worker
autopath: {nodeCache: 169.254.20.10, clusterDNSFallback: true}
`, v1alpha1.ShimConfiguration{
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
		}},
		{v1alpha1.KindDNS, `
listen: ["0.0.0.0:53"]
ttl: 0
resolvConf: ""
snapshot: s
stubDomains:
- {zone: corp.example, servers: [192.0.2.1, "192.0.2.2:5353"]}
`, v1alpha1.DNSConfiguration{
			TypeMeta: v1alpha1.TypeMeta{APIVersion: v1alpha1.GroupVersion, Kind: v1alpha1.KindDNS},
			ResolverConfiguration: v1alpha1.ResolverConfiguration{
				Listen:      []string{"0.0.0.0:53"},
				ResolvConf:  new(""),
				StubDomains: []v1alpha1.StubDomain{{Zone: "corp.example", Servers: []string{"192.0.2.1", "192.0.2.2:5353"}}},
			},
			TTL:      new(uint32(0)),
			Snapshot: "s",
		}},
	} {
		got, err := parsers[tt.kind](head(tt.kind) + tt.fields)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.kind, err, diff)
		}
	}
}

// TestParse_Invalid has files with their errors, one a line. That of a removed field says what replaces it.
func TestParse_Invalid(t *testing.T) {
	const byTLS = "tls.certFile and tls.keyFile have replaced it: cert-manager or the Helm chart makes these files"
	shim, dns, webhook := head(v1alpha1.KindShim), head(v1alpha1.KindDNS), head(v1alpha1.KindWebhook)
	for _, tt := range []struct{ name, kind, text, want string }{
		{"empty", v1alpha1.KindShim, "", `apiVersion: is "", must be "dnsconfigurer.dev/v1alpha1"` + "\n" +
			`kind: is "", must be "ShimConfiguration"`},
		{"other kind", v1alpha1.KindShim, "apiVersion: v1\nkind: Pod\n", `kind: is "Pod", must be "ShimConfiguration"`},
		{"the shim's file", v1alpha1.KindDNS, shim, `kind: is "ShimConfiguration", must be "DNSConfiguration"`},
		{"unknown fields, each with its path", v1alpha1.KindShim, shim + "nodes: {}\nnode: {clusterDns: []}\n",
			`unknown field "nodes": did you mean node?` + "\n" + `unknown field "node.clusterDns": did you mean node.clusterDNS?`},
		{"an empty field", v1alpha1.KindShim, shim + `"": 1`,
			`unknown field "": dnsconfigurer config defaults ShimConfiguration prints all fields`},
		{"unknown fields in a list", v1alpha1.KindDNS, dns + "upstream: []\nsnapshots: s\nstubDomains: [{zone: a, server: b}]\n",
			`unknown field "upstream": did you mean upstreams?` + "\n" + `unknown field "snapshots": did you mean snapshot?` + "\n" +
				`unknown field "stubDomains[0].server": did you mean stubDomains[].servers?`},
		{"a field in the wrong place", v1alpha1.KindShim, shim + "clusterDNS: []\nnode: {mode: Force}\n",
			`unknown field "clusterDNS": did you mean node.clusterDNS?` + "\n" + `unknown field "node.mode": did you mean mode?`},
		{"a field of the agent", v1alpha1.KindShim, shim + "refresh: All\n",
			`unknown field "refresh": it is a field of AgentConfiguration`},
		{"removed fields of dns", v1alpha1.KindDNS, dns + "limits: {maxConcurrent: 5}\nednsOption: 65313\nsnapshot: {path: /x}\n",
			`unknown field "limits": maxQueries and maxMemory have replaced it` + "\n" +
				`unknown field "ednsOption": it was removed: the code of the option is 65313` + "\n" +
				`snapshot: is a mapping, must be a string: write the path, which was snapshot.path`},
		{"removed fields of the webhook", v1alpha1.KindWebhook, webhook + "kubeconfig: file\nselfSigned: true\ntls: {cert: c}\n",
			`unknown field "kubeconfig": it was removed: the webhook reads no objects of the API server` + "\n" +
				`unknown field "selfSigned": ` + byTLS + "\n" + `unknown field "tls.cert": want certFile, keyFile`},
		{"a field that is like no other", v1alpha1.KindShim, shim + "node: {rules: [{labels: {}}]}\nunlike: 1\n",
			`unknown field "node.rules[0].labels": want namespaces, podLabels, policies, ` + "\n" +
				`unknown field "unlike": dnsconfigurer config defaults ShimConfiguration prints all fields`},
		{"a field twice", v1alpha1.KindShim, shim + "node: {}\nnode: {}\n", `key "node" already set`},
		{"wrong type", v1alpha1.KindShim, shim + "node: {nodeIPs: 10.0.0.1}\n", "node.nodeIPs: is a string, must be a list of strings"},
		{"wrong type in a list", v1alpha1.KindShim, shim + "node: {clusterDNS: [10.96.0.10, [10]]}\n",
			"node.clusterDNS[1]: is a list, must be a string"},
		{"not a number", v1alpha1.KindDNS, dns + "ttl: 5s\n", "ttl: is a string, must be a whole number of 32 bits"},
		{"a negative number", v1alpha1.KindDNS, dns + "ttl: -1\n", "ttl: is -1, must be a whole number of 32 bits"},
		{"a string instead of a mapping", v1alpha1.KindDNS, dns + "stubDomains: ['corp.example=192.0.2.1']\n",
			"stubDomains[0]: is a string, must be a mapping"},
		{"a second document", v1alpha1.KindShim, shim + "---\nmode: Force\n", "holds more than one YAML document"},
		{"not a mapping", v1alpha1.KindShim, "- a\n", "is a list, must be a mapping"},
		{"not YAML", v1alpha1.KindShim, "a: [\n", "line 1: did not find expected node content"},
		{"binary", v1alpha1.KindShim, "\x00\x01\x02", "control characters are not allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parsers[tt.kind](tt.text)
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

// FuzzParse: a file that is accepted has the version and the kind.
func FuzzParse(f *testing.F) {
	f.Add(head(v1alpha1.KindShim) + "node: {clusterDNS: [10.96.0.10]}\n")
	f.Add(`{"apiVersion":"dnsconfigurer.dev/v1alpha1","kind":"AgentConfiguration"}`)
	f.Add(head(v1alpha1.KindDNS) + "stubDomains: [{zone: corp.example, servers: [192.0.2.1]}]\nttl: 5\n")
	f.Add(head(v1alpha1.KindNodeCache) + "clusterDNS: [10.96.0.10]\n")
	f.Add(head(v1alpha1.KindWebhook) + "tls: {certFile: c}\nlameduck: 5s\n")
	f.Fuzz(func(t *testing.T, text string) {
		for kind, parse := range parsers {
			if _, err := parse(text); err != nil {
				continue
			}
			meta, err := v1alpha1.ReadTypeMeta([]byte(text))
			if want := (v1alpha1.TypeMeta{APIVersion: v1alpha1.GroupVersion, Kind: kind}); err != nil || meta != want {
				t.Errorf("accepted %q as %s", text, kind)
			}
		}
	})
}

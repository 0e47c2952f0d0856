// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const head = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n"

const dnsHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n"
const nodeCacheHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\n"

func TestParseShim(t *testing.T) {
	got, err := v1alpha1.ParseShim([]byte(head + `
node:
  kubeletConfig: kubelet.yaml
  clusterDNS: []
  clusterDomain: ""
  resolvConf: /run/resolv.conf
  nodeIPs: [10.0.0.1]
  nodeName: worker
autopath: {nodeCache: 169.254.20.10, suffix: ap.example, clusterDNSFallback: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.ShimConfiguration{
		TypeMeta: v1alpha1.TypeMeta{APIVersion: v1alpha1.GroupVersion, Kind: v1alpha1.KindShim},
		Node: v1alpha1.NodeConfiguration{
			KubeletConfig: "kubelet.yaml",
			ClusterDNS:    &[]string{},
			ClusterDomain: new(""),
			ResolvConf:    new("/run/resolv.conf"),
			NodeIPs:       []string{"10.0.0.1"},
			NodeName:      "worker",
		},
		Autopath: v1alpha1.AutopathConfiguration{NodeCache: "169.254.20.10", Suffix: "ap.example", ClusterDNSFallback: true},
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
			`unknown field "nodes"` + "\n" + `unknown field "node.clusterDns"`},
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
			_, err := v1alpha1.ParseShim([]byte(tt.text))
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

// TestDefaults checks that the printed files have every field, and parse as configurations
// with the defaults.
func TestDefaults(t *testing.T) {
	if _, err := v1alpha1.Defaults("Pod"); err == nil {
		t.Error("defaults of an unknown kind")
	}
	testDefaults(t, v1alpha1.KindShim, v1alpha1.ParseShim, head+
		"listen: unix:///run/dnsconfigurer/shim.sock\nruntimeEndpoint: unix:///run/containerd/containerd.sock\n"+
		"mode: Generate\nlookupTimeout: 1s\ndrainTimeout: 4s\nagent: unix:///run/dnsconfigurer/agent.sock\n"+
		"node: {nodeIPs: [], allowedOverrides: [], rules: [], hostResolver: never, uplinkResolvConf: "+
		"/run/systemd/resolve/resolv.conf}\nautopath: {suffix: ap.k8s.io}\n")
	testDefaults(t, v1alpha1.KindAgent, v1alpha1.ParseAgent, "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: AgentConfiguration\n"+
		"listen: unix:///run/dnsconfigurer/agent.sock\nmode: Generate\nlookupTimeout: 1s\nlogFormat: text\n"+
		"sandboxDirectories: ["+v1alpha1.DefaultContainerdSandboxes+", "+v1alpha1.DefaultCRIOSandboxes+
		", "+v1alpha1.DefaultK3sSandboxes+"]\n"+
		"refresh: 'Off'\nrefreshRate: 200\nverifyInterval: 5m\nstatusSocket: /run/dnsconfigurer/agent-status.sock\n"+
		"node: {nodeIPs: [], allowedOverrides: [], rules: [], hostResolver: never, uplinkResolvConf: "+
		"/run/systemd/resolve/resolv.conf}\nautopath: {suffix: ap.k8s.io}\n")
	testDefaults(t, v1alpha1.KindDNS, v1alpha1.ParseDNS, dnsHead+
		"listen: ['127.0.0.1:53']\nmanifests: []\nsnapshot: {wait: 2s, maxAge: 24h}\n"+
		"clusterDomain: cluster.local\nreverseCIDRs: []\npods: insecure\nttl: 5\n"+
		"upstreams: []\nresolvConf: /etc/resolv.conf\nupstreamPolicy: sequential\nstubDomains: []\n"+
		"localNames: {specialUse: true, privateReverse: false}\nhostSuffixes: []\n"+
		"autopathSuffix: ap.k8s.io\nednsOption: 65313\nautopathService: kube-system/dnsconfigurer-node-cache\nautopathNetworks: []\n"+
		"limits: {maxQueries: 4096, maxMemory: 64Mi}\nlameduck: 0s\nlogFormat: text\n")
	testDefaults(t, v1alpha1.KindWebhook, v1alpha1.ParseWebhook, webhookHead+
		"listen: ':8443'\nignore: []\ndenyOn: error\nlameduck: 5s\n"+
		"logFormat: text\nnode: {nodeIPs: [], allowedOverrides: [], rules: [], hostResolver: never, "+
		"uplinkResolvConf: /run/systemd/resolve/resolv.conf}\n")
	testDefaults(t, v1alpha1.KindNodeCache, v1alpha1.ParseNodeCache, nodeCacheHead+
		"listen: ['169.254.20.10:53']\nnotrack: auto\nclusterDNS: []\nclusterDomain: cluster.local\n"+
		"reverseCIDRs: []\nupstreams: []\nresolvConf: /etc/resolv.conf\nupstreamPolicy: sequential\n"+
		"stubDomains: []\nlocalNames: {specialUse: true}\n"+
		"autopathSuffix: ap.k8s.io\nednsOption: 65313\n"+
		"limits: {maxQueries: 4096, maxMemory: 64Mi}\nlogFormat: text\n")
}

func testDefaults[T any](t *testing.T, kind string, parse func([]byte) (T, error), same string) {
	t.Helper()
	text, err := v1alpha1.Defaults(kind)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want, err := parse([]byte(same))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not the defaults (-want +got):\n%s", diff)
	}

	all := regexp.MustCompile(`(?m)^( *)# (\w+: ?\S*)$`).ReplaceAll(text, []byte("$1$2"))
	if _, err := parse(all); err != nil {
		t.Errorf("with the optional fields: %v", err)
	}
	for _, field := range fields(reflect.TypeFor[T]()) {
		if !slices.Contains(strings.Fields(string(all)), field+":") {
			t.Errorf("field %s is missing", field)
		}
	}
}

func fields(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" {
			names = append(names, name)
		}
		if f.Type.Kind() == reflect.Struct {
			names = append(names, fields(f.Type)...)
		}
	}
	return names
}

func FuzzParseShim(f *testing.F) {
	f.Add(head + "node: {clusterDNS: [10.96.0.10]}\n")
	f.Add("{\"apiVersion\":\"dnsconfigurer.dev/v1alpha1\",\"kind\":\"ShimConfiguration\"}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := v1alpha1.ParseShim([]byte(text))
		if err == nil && (c.APIVersion != v1alpha1.GroupVersion || c.Kind != v1alpha1.KindShim) {
			t.Errorf("accepted %q as %v", text, c.TypeMeta)
		}
	})
}

func TestParseDNS(t *testing.T) {
	got, err := v1alpha1.ParseDNS([]byte(dnsHead + `
listen: ["0.0.0.0:53"]
ttl: 0
resolvConf: ""
snapshot: {path: s, maxAge: 1h}
stubDomains:
- {zone: corp.example, servers: [192.0.2.1, "192.0.2.2:5353"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.DNSConfiguration{
		TypeMeta:    v1alpha1.TypeMeta{APIVersion: v1alpha1.GroupVersion, Kind: v1alpha1.KindDNS},
		Listen:      []string{"0.0.0.0:53"},
		TTL:         new(uint32(0)),
		ResolvConf:  new(""),
		Snapshot:    v1alpha1.SnapshotConfiguration{Path: "s", MaxAge: "1h"},
		StubDomains: []v1alpha1.StubDomain{{Zone: "corp.example", Servers: []string{"192.0.2.1", "192.0.2.2:5353"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseDNS_Invalid(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"the shim's file", head, `kind: is "ShimConfiguration", must be "DNSConfiguration"`},
		{"unknown fields, each with its path", dnsHead + "upstream: []\nsnapshot: {file: s}\nstubDomains: [{zone: a, server: b}]\n",
			`unknown field "upstream"` + "\n" + `unknown field "snapshot.file"` + "\n" + `unknown field "stubDomains[0].server"`},
		{"not a number", dnsHead + "ttl: 5s\n", "ttl: is a string, must be a whole number of 32 bits"},
		{"a negative number", dnsHead + "ttl: -1\n", "ttl: is -1, must be a whole number of 32 bits"},
		{"a string instead of a list", dnsHead + "upstreams: 192.0.2.1\n", "upstreams: is a string, must be a list of strings"},
		{"a string instead of a mapping", dnsHead + "stubDomains: ['corp.example=192.0.2.1']\n",
			"stubDomains[0]: is a string, must be a mapping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := v1alpha1.ParseDNS([]byte(tt.text))
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
		c, err := v1alpha1.ParseDNS([]byte(text))
		if err == nil && (c.APIVersion != v1alpha1.GroupVersion || c.Kind != v1alpha1.KindDNS) {
			t.Errorf("accepted %q as %v", text, c.TypeMeta)
		}
	})
}

const webhookHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: WebhookConfiguration\n"

func TestParseWebhook(t *testing.T) {
	got, err := v1alpha1.ParseWebhook([]byte(webhookHead + `
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
	_, err = v1alpha1.ParseWebhook([]byte(webhookHead + "tls: {cert: c}\nmode: Force\nselfSigned: true\n"))
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
		c, err := v1alpha1.ParseWebhook([]byte(text))
		if err == nil && (c.APIVersion != v1alpha1.GroupVersion || c.Kind != v1alpha1.KindWebhook) {
			t.Errorf("accepted %q as %v", text, c.TypeMeta)
		}
	})
}

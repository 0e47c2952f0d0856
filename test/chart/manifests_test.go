// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// plain removes what the chart has in addition to the manifests for kubectl: labels, and
// with them the selectors; the pull policy; the checksum that replaces pods when their
// configuration changes. Configuration files become their values.
func plain(t *testing.T, o map[string]any) map[string]any {
	t.Helper()
	for key, value := range o {
		switch key {
		case "labels", "matchLabels", "selector", "labelSelector", "podSelector", "imagePullPolicy", "checksum/config":
			delete(o, key)
			continue
		}
		switch value := value.(type) {
		case map[string]any:
			if plain(t, value); len(value) == 0 && key == "annotations" {
				delete(o, key)
			}
		case []any:
			for _, item := range value {
				if m, ok := item.(map[string]any); ok {
					plain(t, m)
				}
			}
		case string:
			if strings.HasSuffix(key, ".yaml") {
				var file any
				must.Succeed(t, yaml.UnmarshalStrict([]byte(value), &file))
				o[key] = file
			}
		}
	}
	return o
}

// compare compares the objects of manifests with those of the chart of the same kind and name.
func compare(t *testing.T, manifests, rendered map[string]map[string]any) {
	t.Helper()
	for key, want := range manifests {
		got := rendered[key]
		if got == nil {
			t.Errorf("the chart has no %s", key)
			continue
		}
		if diff := difference(t, plain(t, want), plain(t, got)); diff != "" {
			t.Errorf("%s (-manifests +chart):\n%s", key, diff)
		}
	}
}

// TestChart_Manifests checks that the chart has the objects of the manifests for kubectl.
func TestChart_Manifests(t *testing.T) {
	for _, c := range []struct{ files, set string }{
		{"cluster-dns/*.yaml", "dns.enabled=true"},
		{"cluster-dns/new-cluster/*.yaml", "dns.service.create=true"},
		{"node-cache/*.yaml", "nodeCache.enabled=true"},
		{"agent/*.yaml", "agent.enabled=true"},
	} {
		files, err := filepath.Glob(filepath.Join("../../deploy", c.files))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", c.files, files, err)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			text := must.Get(os.ReadFile(file))(t)
			compare(t, objects(t, string(text)), render(t, "", "--set", c.set))
		}
	}
}

// TestChart_Webhook checks what the values change in the objects of the webhook.
func TestChart_Webhook(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	bundle := certs.NewAuthority(t).PEM
	must.Succeed(t, os.WriteFile(ca, bundle, 0o600))
	always := []string{"ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "ValidatingWebhookConfiguration"}
	mutating := []string{"MutatingWebhookConfiguration"}
	const certManager = "certificate.source=certManager,webhook.certificate.issuer.name=ca,webhook."
	const inject = "cert-manager.io/inject-ca-from: admission/dnsconfigurer-webhook"
	const noToken = "automountServiceAccountToken: false"
	for _, c := range []struct {
		values string
		kinds  []string // in addition to always
		has    []string
		lacks  []string
	}{
		{certManager + "mutating=true,excludedNamespaces={ci,123}", slices.Concat(mutating, []string{"Certificate"}),
			[]string{inject, "kind: Issuer\n    name: ca\n", "- kube-system\n      - admission\n      - ci\n      - \"123\"\n", noToken},
			[]string{"caBundle"}},
		{certManager + "mutating=false", []string{"Certificate"}, []string{inject}, nil},
		{certManager + "networkPolicy.enabled=true,webhook.networkPolicy.apiServerCIDRs={192.0.2.0/29,2001:db8::/64}",
			slices.Concat(mutating, []string{"Certificate", "NetworkPolicy"}),
			[]string{"from:\n    - ipBlock:\n        cidr: 192.0.2.0/29\n    - ipBlock:\n        cidr: 2001:db8::/64\n"}, nil},
		{"certificate.source=certManager,webhook.certificate.issuer.kind=ClusterIssuer,webhook.certificate.issuer.name=internal",
			slices.Concat(mutating, []string{"Certificate"}), []string{"kind: ClusterIssuer\n    name: internal\n"}, nil},
		{"certificate.source=secret", mutating,
			[]string{"caBundle: " + base64.StdEncoding.EncodeToString(bundle)}, []string{inject}},
	} {
		args := []string{
			"--namespace", "admission", "--set", "dns.enabled=false,webhook.enabled=true,webhook." + c.values,
			"--set", "image.repository=registry.corp.example/dns,image.tag=v9,clusterDomain=corp.example,clusterDNSAddress=10.0.0.10",
		}
		if strings.Contains(c.values, "source=secret") {
			args = append(args, "--set-file", "webhook.certificate.caBundle="+ca)
		}
		var kinds []string
		var text strings.Builder
		for key, o := range render(t, "", args...) {
			kind, _, _ := strings.Cut(key, " ")
			kinds = append(kinds, kind)
			y := must.Get(yaml.Marshal(o))(t)
			text.Write(y)
			if namespace := at(o, "metadata", "namespace"); namespace != nil && namespace != "admission" {
				t.Errorf("%s: %s is in the namespace %v", c.values, key, namespace)
			}
		}
		slices.Sort(kinds)
		if want := slices.Sorted(slices.Values(slices.Concat(always, c.kinds))); !slices.Equal(kinds, want) {
			t.Errorf("%s: the chart has %q, want %q", c.values, kinds, want)
		}
		has := append(c.has, "image: registry.corp.example/dns:v9\n", "clusterDomain: corp.example\n", "- 10.0.0.10\n")
		for _, part := range has {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s: no %q in\n%s", c.values, part, text.String())
			}
		}
		for _, part := range append(c.lacks, "namespace: dnsconfigurer\n", "- dnsconfigurer\n") {
			if strings.Contains(text.String(), part) {
				t.Errorf("%s: %q in\n%s", c.values, part, text.String())
			}
		}
	}
}

// TestChart_Webhook_SelfSigned checks that the API server trusts the certificate that helm creates.
func TestChart_Webhook_SelfSigned(t *testing.T) {
	rendered := render(t, "", "--set", "webhook.enabled=true,webhook.certificate.secretName=corp-tls")
	decode := func(v any) []byte {
		return must.Get(base64.StdEncoding.DecodeString(fmt.Sprint(v)))(t)
	}
	data := rendered["Secret corp-tls"]["data"].(map[string]any)
	pair := must.Get(tls.X509KeyPair(decode(data["tls.crt"]), decode(data["tls.key"])))(t)
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		for _, hook := range rendered[kind+" dnsconfigurer"]["webhooks"].([]any) {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(decode(at(hook.(map[string]any), "clientConfig", "caBundle")))
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "dnsconfigurer-webhook.kube-system.svc"})
			if err != nil || time.Until(pair.Leaf.NotAfter) < 9*365*24*time.Hour {
				t.Errorf("%s %v: %v; until %v", kind, hook.(map[string]any)["name"], err, pair.Leaf.NotAfter)
			}
		}
	}
	if got := fmt.Sprint(rendered["Deployment dnsconfigurer-webhook"]); !strings.Contains(got, "secretName:corp-tls") {
		t.Errorf("the pods do not mount the Secret: %s", got)
	}
}

// TestChart_Webhook_Selectors checks that what refers to the pods of the webhook selects them,
// and nothing else, also under another name of the release.
func TestChart_Webhook_Selectors(t *testing.T) {
	rendered := render(t, "everything.yaml", "--set", "nameOverride=dns")
	pods := at(rendered["Deployment dnsconfigurer-webhook"], "spec", "template", "metadata", "labels").(map[string]any)
	for _, selector := range []any{
		at(rendered["Deployment dnsconfigurer-webhook"], "spec", "selector", "matchLabels"),
		at(rendered["Service dnsconfigurer-webhook"], "spec", "selector"),
		at(rendered["PodDisruptionBudget dnsconfigurer-webhook"], "spec", "selector", "matchLabels"),
		at(rendered["NetworkPolicy dnsconfigurer-webhook"], "spec", "podSelector", "matchLabels"),
		at(rendered["PodMonitor dnsconfigurer-webhook"], "spec", "selector", "matchLabels"),
	} {
		labels, _ := selector.(map[string]any)
		if labels["app.kubernetes.io/component"] != "webhook" {
			t.Errorf("%v does not select the webhook", selector)
		}
		for key, value := range labels {
			if pods[key] != value {
				t.Errorf("%v does not select %v", selector, pods)
			}
		}
	}
}

// at returns a field of an object, nil if it does not exist.
func at(o map[string]any, path ...string) any {
	var v any = o
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// difference compares two values in the form of diff(1).
func difference(t *testing.T, want, got any) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]any{"want": want, "got": got} {
		text := must.Get(yaml.Marshal(value))(t)
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	out, _ := exec.Command("diff", "-u", filepath.Join(dir, "want"), filepath.Join(dir, "got")).Output()
	return string(out)
}

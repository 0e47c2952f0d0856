// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestWebhook_UnknownDomain: a pod is denied for its FQDN only if the cluster domain is
// configured, by a flag, a field or the kubelet's file.
func TestWebhook_UnknownDomain(t *testing.T) {
	kubelet := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(kubelet,
		[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDomain: cluster.local\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	pod := admission.Object{Kind: admission.KindPod, Name: "checkout-worker-0", Pod: policy.Pod{
		Namespace: "payments-production", Name: "checkout-worker-0", Policy: policy.ClusterFirst,
		Subdomain: "checkout-workers", SetHostnameAsFQDN: true,
	}}
	for _, tt := range []struct {
		file   string
		args   []string
		denied bool
	}{
		{"tls: {certFile: c, keyFile: k}\n", nil, false},
		{"tls: {certFile: c, keyFile: k}\nnode: {clusterDNS: [10.96.0.10]}\n", nil, false},
		{"tls: {certFile: c, keyFile: k}\nnode: {clusterDomain: cluster.local}\n", nil, true},
		{"tls: {certFile: c, keyFile: k}\n", []string{"--cluster-domain", "cluster.local"}, true},
		{"tls: {certFile: c, keyFile: k}\nnode: {kubeletConfig: " + kubelet + "}\n", nil, true},
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		source := WebhookFlags(flags)
		if err := flags.Parse(append([]string{"--config", newFile(t, v1alpha1.KindWebhook, tt.file)}, tt.args...)); err != nil {
			t.Fatal(err)
		}
		c, err := source.Load()
		if err != nil {
			t.Fatal(err)
		}
		if findings, err := c.Rules.Check(t.Context(), pod); err != nil || (admission.NewVerdict(pod, findings).Denied != "") != tt.denied {
			t.Errorf("%s %q: %+v, %v", tt.file, tt.args, findings, err)
		}
	}
}

// TestWebhook_Uplink: with hostResolver auto the uplink file is watched like the stub, and one
// that cannot be used is a finding.
func TestWebhook_Uplink(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub := write("stub-resolv.conf", "nameserver 127.0.0.53\n")
	uplink := filepath.Join(dir, "resolv.conf")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := WebhookFlags(flags)
	file := newFile(t, v1alpha1.KindWebhook, "tls: {certFile: c, keyFile: k}\nnode: {resolvConf: "+stub+
		", uplinkResolvConf: "+uplink+", hostResolver: auto}\n")
	if err := flags.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	c, err := source.Load()
	if err != nil || len(c.Node.Findings) != 1 || c.Node.Findings[0].Code != policy.CodeUplinkUnusable {
		t.Errorf("without the uplink file: %+v, %v", c.Node.Findings, err)
	}
	write("resolv.conf", "nameserver 192.0.2.53\n")
	source.files.changed() // the first call sees the change, the second that it has settled
	if !source.files.changed() {
		t.Error("the uplink file is not watched")
	}
	if c, err = source.Load(); err != nil || len(c.Node.Findings) != 0 {
		t.Errorf("with the uplink file: %+v, %v", c.Node.Findings, err)
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

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
		denied bool
	}{
		{"tls: {certFile: c, keyFile: k}\n", false},
		{"tls: {certFile: c, keyFile: k}\nnode: {clusterDNS: [10.96.0.10]}\n", false},
		{"tls: {certFile: c, keyFile: k}\nnode: {clusterDomain: cluster.local}\n", true},
		{"tls: {certFile: c, keyFile: k}\nnode: {kubeletConfig: " + kubelet + "}\n", true},
	} {
		c, err := Kind().FromFile(newFile(t, tt.file)).Load()
		if err != nil {
			t.Fatal(err)
		}
		if findings, err := c.Rules.Check(t.Context(), pod); err != nil || (admission.NewVerdict(pod, findings).Denied != "") != tt.denied {
			t.Errorf("%s: %+v, %v", tt.file, findings, err)
		}
	}
}

func newFile(t *testing.T, fields string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webhook.yaml")
	text := "apiVersion: " + v1alpha1.GroupVersion + "\nkind: " + v1alpha1.KindWebhook + "\n" + fields
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWebhook_HostFile: the nodes' resolv.conf is watched, and must exist.
func TestWebhook_HostFile(t *testing.T) {
	host := filepath.Join(t.TempDir(), "resolv.conf")
	source := Kind().FromFile(newFile(t, "tls: {certFile: c, keyFile: k}\nnode: {resolvConf: "+host+"}\n"))
	if _, err := source.Load(); err == nil {
		t.Error("a missing resolv.conf is accepted")
	}
	if err := os.WriteFile(host, []byte("nameserver 192.0.2.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source.Changed() // the first call sees the change, the second that it has settled
	if !source.Changed() {
		t.Error("the resolv.conf is not watched")
	}
	if _, err := source.Load(); err != nil {
		t.Error(err)
	}
}

// TestWarnings_Limits covers both sides of the two limits.
func TestWarnings_Limits(t *testing.T) {
	words := strings.Repeat("word ", 23)
	for _, tt := range []struct {
		name string
		in   string
		want []string
	}{
		{"120 characters", words + "words", []string{words + "words"}},
		{"121 characters", words + "words.", []string{strings.TrimSuffix(words, " "), "... words."}},
		{"a long word", strings.Repeat("é", 125), []string{strings.Repeat("é", 120), "... ééééé"}},
		{"a control character", "a\nb\x00", []string{"a?b?"}},
		{"half a character", "é"[:1] + "a", []string{"?a"}},
	} {
		if diff := cmp.Diff(tt.want, warnings([]string{tt.in}, maxReply)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if len(words)+5 != maxWarning {
		t.Error("the first line does not have 120 characters")
	}

	line := func(i int) string { return fmt.Sprintf("%0*d", maxWarning, i) }
	var all []string
	for i := range maxWarnings / maxWarning {
		all = append(all, line(i))
	}
	rest := maxWarnings % maxWarning
	if diff := cmp.Diff(append(all, line(0)[:rest]), warnings(append(all, line(0)[:rest]), maxReply)); diff != "" {
		t.Errorf("4096 characters (-want +got):\n%s", diff)
	}
	got := warnings(append(all, line(0)[:rest+1]), maxReply)
	total := 0
	for _, s := range got {
		total += utf8.RuneCountInString(s)
	}
	if last := got[len(got)-1]; total > maxWarnings || last != "warnings left out: 2; dnsconfigurer validate prints all" {
		t.Errorf("4097 characters: %d, ending with %q", total, last)
	}
}

// TestWarnings_SameEnd: client-go drops a warning that is equal to a previous one.
func TestWarnings_SameEnd(t *testing.T) {
	end := " " + strings.Repeat("b", 110)
	got := warnings([]string{strings.Repeat("1", 20) + end, strings.Repeat("2", 20) + end}, maxReply)
	want := []string{strings.Repeat("1", 20), "..." + end, strings.Repeat("2", 20), "...(2)" + end}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

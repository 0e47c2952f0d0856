// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// kubeletCase is a pod with the result of a real kubelet, recorded by test/cluster.
type kubeletCase struct {
	ID             string         `json:"id"`
	Pod            map[string]any `json:"pod"`
	HostResolvConf string         `json:"hostResolvConf"`
	ResolvConfMode string         `json:"resolvConfMode"` // file, disabled, missing
	ClusterDNS     []string       `json:"clusterDNS"`
	ClusterDomain  string         `json:"clusterDomain"`
	NodeIPs        []string       `json:"nodeIPs"`
	NodeName       string         `json:"nodeName"`
	Manifest       bool           `json:"manifest"`
	Expected       struct {
		Servers    []string `json:"servers"`
		Searches   []string `json:"searches"`
		Options    []string `json:"options"`
		Hostname   string   `json:"hostname"`
		Error      string   `json:"error"`
		ErrorStage string   `json:"errorStage"`
		Events     []struct{ Reason, Message string }
	} `json:"expected"`
}

// TestRender_SameAsKubelet runs the command with the manifest, the host file and the flags
// of each recorded case.
func TestRender_SameAsKubelet(t *testing.T) {
	skipped := map[string]int{}
	compared := 0
	for _, r := range kubeletCases(t) {
		if reason := r.divergence(); reason != "" {
			skipped[reason]++
			continue
		}
		compared++
		t.Run(r.ID, r.check)
	}
	t.Logf("compared %d, skipped %v", compared, skipped)
	if compared < 200 {
		t.Errorf("only %d cases were compared: %v", compared, skipped)
	}
}

// kubeletCases returns the recorded cases.
func kubeletCases(t *testing.T) (cases []kubeletCase) {
	t.Helper()
	text := must.Get(os.ReadFile("../../test/cluster/testdata/kubelet-300.ndjson"))(t)
	for line := range strings.Lines(string(text)) {
		var r kubeletCase
		must.Succeed(t, json.Unmarshal([]byte(line), &r))
		cases = append(cases, r)
	}
	return cases
}

// manifest returns the pod as it is written in a file.
func (r kubeletCase) manifest() map[string]any {
	manifest := maps.Clone(r.Pod)
	manifest["apiVersion"], manifest["kind"] = "v1", "Pod"
	return manifest
}

// kubeletConfiguration has the cluster DNS, because the flag rejects an invalid address.
func (r kubeletCase) kubeletConfiguration() map[string]any {
	return map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "clusterDNS": r.ClusterDNS}
}

// divergence returns why a case cannot be compared: an entry of docs/compatibility.md, or a
// value that a manifest cannot have. "" means that it can.
func (r kubeletCase) divergence() string {
	spec := r.Pod["spec"].(map[string]any)
	policy, _ := spec["dnsPolicy"].(string)
	hostNetwork, _ := spec["hostNetwork"].(bool)
	pod, _ := json.Marshal(spec["dnsConfig"])
	var config struct{ Searches []string }
	_ = json.Unmarshal(pod, &config)
	blank := func(s string) bool { return strings.ContainsFunc(s, unicode.IsSpace) }
	switch {
	case r.Expected.ErrorStage == "dns" && policy != "Default":
		return "D1 D2 the host file is not needed"
	case bytes.Contains(pod, []byte(`\n`)) || bytes.Contains(pod, []byte(`\u0000`)) || strings.Contains(r.HostResolvConf, "\x00") ||
		slices.ContainsFunc(config.Searches, blank):
		return "D3 unsafe value"
	case strings.EqualFold(policy, "ClusterFirstWithAutopath"):
		return "D5 autopath"
	case policy == "" && hostNetwork:
		return "a manifest without dnsPolicy gets the API's default"
	case r.Expected.ErrorStage == "decode":
		return "refused by the API's validation"
	}
	return ""
}

func (r kubeletCase) check(t *testing.T) {
	dir := t.TempDir()
	host := filepath.Join(dir, "resolv.conf")
	pod, kubelet := writeFile(t, "pod.json", r.manifest()), writeFile(t, "kubelet.json", r.kubeletConfiguration())
	if r.ResolvConfMode != "missing" {
		write(t, host, []byte(r.HostResolvConf))
	}
	config := writeFile(t, "shim.yaml", map[string]any{"apiVersion": v1alpha1.GroupVersion, "kind": v1alpha1.KindShim,
		"node": map[string]any{"nodeIPs": r.NodeIPs}})
	args := []string{"--kubelet-config", kubelet, "--cluster-domain", r.ClusterDomain, "--config", config}
	if r.ResolvConfMode == "disabled" {
		args = append(args, "--resolv-conf", "")
	} else {
		args = append(args, "--resolv-conf", host)
	}
	if r.Manifest {
		args = append(args, "--node-name", r.NodeName)
	}

	var got v1alpha1.RenderResult
	if stdout, stderr, err := render(t, pod, args); json.Unmarshal(stdout, &got) != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	want := v1alpha1.RenderResult{Nameservers: r.Expected.Servers, Searches: r.Expected.Searches,
		Options: r.Expected.Options, Hostname: r.Expected.Hostname, Error: r.Expected.Error}
	var events []string
	for _, e := range r.Expected.Events {
		events = append(events, e.Reason+": "+e.Message)
	}
	var found []string
	for _, f := range got.Findings {
		if f.Reason != "" && f.Reason != "FailedCreatePodSandBox" { // compared as Error below
			found = append(found, f.Reason+": "+f.Message)
		}
	}
	if diff := cmp.Diff(events, found); diff != "" {
		t.Errorf("events (-kubelet +ours):\n%s", diff)
	}
	slices.Sort(got.Options)
	got = v1alpha1.RenderResult{Nameservers: got.Nameservers, Searches: got.Searches,
		Options: got.Options, Hostname: got.Hostname, Error: strings.ReplaceAll(got.Error, host, "/etc/resolv.conf")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-kubelet +ours):\n%s", diff)
	}
}

// render is the command render with the facts of a node as flags. A pod of the kubelet may have no
// namespace; the flag of the command rejects an empty one.
func render(t *testing.T, pod string, facts []string) (stdout, stderr []byte, err error) {
	t.Helper()
	var node nodefacts.Flags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	node.Register(flags)
	must.Succeed(t, flags.Parse(facts))
	n, err := node.Load()
	if err != nil {
		return nil, nil, err
	}
	o := cli.RenderOptions{Input: kube.Input{Paths: []string{pod}}, Format: "json"}
	var out, errs bytes.Buffer
	_, err = o.Run(t.Context(), n, nil, &out, &errs)
	return out.Bytes(), errs.Bytes(), err
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, text, 0o600))
}

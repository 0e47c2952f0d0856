// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// request is the sandbox that the kubelet requests for a pod with ClusterFirst that requests
// autopath by its annotation.
func request(name, uid, source string) *runtimeapi.PodSandboxConfig {
	q := plainRequest(name, uid, source)
	q.Annotations[policy.OverrideAnnotation] = "ClusterFirstWithAutopath"
	return q
}

// plainRequest is request for a pod without the annotation.
func plainRequest(name, uid, source string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "shop", Uid: uid},
		Hostname:    name,
		Annotations: map[string]string{"kubernetes.io/config.source": source},
		DnsConfig: &runtimeapi.DNSConfig{
			Servers: []string{"10.96.0.10"}, Options: []string{"ndots:5"},
			Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"},
		},
	}
}

// withDNS replaces the DNS of a sandbox.
func withDNS(q *runtimeapi.PodSandboxConfig, dns *runtimeapi.DNSConfig) *runtimeapi.PodSandboxConfig {
	q.DnsConfig = dns
	return q
}

func autopathDNS() *runtimeapi.DNSConfig {
	return &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"},
		Searches: []string{"search.shop.cluster.local.ap.k8s.io"}, Options: []string{"ndots:5"}}
}

// podOf is a pod of the API server that requests autopath by its annotation.
func podOf(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid),
			Annotations: map[string]string{policy.OverrideAnnotation: "ClusterFirstWithAutopath"}},
		Spec: corev1.PodSpec{NodeName: "Worker", DNSPolicy: corev1.DNSClusterFirst},
	}
}

// expect sends a sandbox request through the node, and compares what the runtime receives.
func (n *shimNode) expect(what string, want, q *runtimeapi.PodSandboxConfig) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.sandbox(q), protocmp.Transform()); diff != "" {
		n.t.Errorf("%s: the runtime receives (-want +got):\n%s", what, diff)
	}
}

// expectCounts compares the outcomes in the metrics.
func (n *shimNode) expectCounts(want map[string]int) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.counted()); diff != "" {
		n.t.Errorf("outcomes (-want +got):\n%s\n%s", diff, n.log.String())
	}
}

const autopathManifest = "apiVersion: v1\nkind: Pod\n" +
	"metadata: {name: web, namespace: shop, annotations: {dnsconfigurer.dev/policy: ClusterFirstWithAutopath}}\n"

// TestShim runs the command on a node without an API server: a static pod requests autopath
// by its annotation, and its kubelet has computed ClusterFirst.
func TestShim(t *testing.T) {
	n := newShimNode(t, "", map[string]string{"manifests/web.yaml": autopathManifest})
	n.expect("a static pod", withDNS(request("web-worker", "0123456789abcdef", "file"), autopathDNS()),
		request("web-worker", "0123456789abcdef", "file"))
	n.expectCounts(map[string]int{"edited": 1})
	for _, path := range []string{"/livez", "/readyz"} {
		if body := get(t, n.http, path); body != "ok\n" {
			t.Errorf("%s: %s", path, body)
		}
	}
	for _, want := range []string{"config_last_reload_success 1", "log_lines_dropped_total 0"} { // the latter of daemon.ServeOnNode
		if body := get(t, n.http, "/metrics"); !strings.Contains(body, "\ndnsconfigurer_"+want+"\n") {
			t.Errorf("metrics without %s:\n%s", want, body)
		}
	}
	n.stop()
	for _, line := range []string{`msg="sandbox edited" pod=shop/web-worker podUID=0123456789abcdef outcome=edited`, "msg=serving"} {
		if strings.Count(n.log.String(), line) != 1 {
			t.Errorf("the log has not one line %q:\n%s", line, n.log.String())
		}
	}
}

// TestShim_MirrorPod has a mirror pod with a policy and a nameserver that its static pod does not
// have: anyone who may create pods could have made it. The manifest has precedence. Without one
// the mirror pod agrees with no kubelet, and mode Force, which compares nothing, does not use it.
func TestShim_MirrorPod(t *testing.T) {
	mirror := podOf("web-worker", "own")
	mirror.Annotations["kubernetes.io/config.source"], mirror.Annotations[corev1.MirrorPodAnnotationKey] = "file", "h1"
	mirror.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"203.0.113.66"}}
	fromFile, fromURL := plainRequest("web-worker", "h1", "file"), plainRequest("web-worker", "h1", "http")
	n := newShimNode(t, newClusterAPI(t, mirror).url, map[string]string{
		"manifests/web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n"})
	n.expect("with a manifest", fromFile, fromFile)
	n.expect("without a manifest", fromURL, fromURL)
	n.expectCounts(map[string]int{"unchanged": 1, "node_facts_mismatch": 1})
	n.configure(nodeShim + "mode: Force\n")
	n.hangup()
	hosts := &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}}
	n.expect("Force with a manifest", fromFile, withDNS(plainRequest("web-worker", "h1", "file"), hosts))
	n.expect("Force without a manifest", withDNS(fromURL, hosts), withDNS(plainRequest("web-worker", "h1", "http"), hosts))
	n.expectCounts(map[string]int{"unchanged": 1, "node_facts_mismatch": 1, "edited": 1, "unknown_pod": 1})
}

// hangup sends SIGHUP, and waits until the configuration is applied.
func (n *shimNode) hangup() {
	n.t.Helper()
	n.logs("msg=serving") // and the lines before, of the first configuration
	const done = "configuration applied"
	before := strings.Count(n.log.String(), done)
	must.Succeed(n.t, n.signal(syscall.SIGHUP))
	n.eventually("the reload", func() bool { return strings.Count(n.log.String(), done) > before })
}

// TestShim_Resolved has a kubelet that reads the stub of systemd-resolved, and a shim that
// gives pods the uplink's servers. Both files change while it runs.
func TestShim_Resolved(t *testing.T) {
	const config = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\nlookupTimeout: 30s\n" +
		"node: {kubeletConfig: kubelet.yaml, nodeName: Worker, hostResolver: "
	stub := func(domain string) string {
		return fmt.Sprintf("nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch %s\n", domain)
	}
	n := newShimNode(t, "", map[string]string{
		"shim.yaml": config + "never}\n", "resolv.conf": stub("a.example"),
		"resolve/resolv.conf": "nameserver 192.0.2.53\nsearch a.example\n",
		"manifests/web.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {dnsPolicy: Default}\n",
	})
	q := func(servers, domains string, options ...string) *runtimeapi.PodSandboxConfig {
		return withDNS(plainRequest("web-worker", "h1", "file"),
			&runtimeapi.DNSConfig{Servers: strings.Fields(servers), Searches: strings.Fields(domains), Options: options})
	}
	stubbed := func(domain string) *runtimeapi.PodSandboxConfig { return q("127.0.0.53", domain, "edns0", "trust-ad") }

	n.expect("never", stubbed("a.example"), stubbed("a.example"))
	n.configure(config + "resolve/resolv.conf}\n")
	n.hangup()
	n.expect("auto", q("192.0.2.53", "a.example"), stubbed("a.example"))
	n.write("resolve/resolv.conf", "nameserver 192.0.2.54\nsearch b.example\n")
	n.expect("other servers", q("192.0.2.54", "b.example"), stubbed("a.example"))
	n.write("resolv.conf", stub("b.example"))
	n.expect("and another domain", q("192.0.2.54", "b.example"), stubbed("b.example"))
	n.expect("a kubelet with an older file", stubbed("a.example"), stubbed("a.example"))
	n.write("resolve/resolv.conf", "# No DNS servers known.\n")
	n.expect("the link is down", q("192.0.2.54", "b.example"), stubbed("b.example"))
	n.logs(`error="uplink file of systemd-resolved: the file has no nameserver"`)
	n.configure(config + "resolve/resolv.conf}\nautopath: {clusterDNSFallback: true}\n")
	n.hangup()
	n.expect("after a reload", q("192.0.2.54", "b.example"), stubbed("b.example"))
	n.write("resolv.conf", "nameserver 198.51.100.1\n")
	n.expect("systemd-resolved is removed", q("198.51.100.1", ""), q("198.51.100.1", ""))
	n.expectCounts(map[string]int{"unchanged": 2, "edited": 5, "node_facts_mismatch": 1})
}

// TestShim_Termination: after SIGTERM the shim logs it, and is not ready. It serves metrics until the
// last call is complete.
func TestShim_Termination(t *testing.T) {
	n := newShimNode(t, "", map[string]string{"manifests/web.yaml": autopathManifest})
	n.runtime.requests <- nil // the next call waits until it is received
	done := make(chan error, 1)
	go func() {
		_, err := n.kubelet.RunPodSandbox(t.Context(),
			&runtimeapi.RunPodSandboxRequest{Config: request("web-worker", "0123456789abcdef", "file")}, grpc.WaitForReady(true))
		done <- err
	}()
	n.logs("sandbox edited")
	must.Succeed(t, n.signal(syscall.SIGTERM))
	n.logs(`msg="shutting down" calls=1`)
	if got := get(t, n.http, "/readyz"); got != "the shim is shutting down\n" {
		t.Errorf("readiness in the drain: %q", got)
	}
	if got := n.counted(); got["edited"] != 1 {
		t.Errorf("counts in the drain: %v", got)
	}
	<-n.runtime.requests
	<-n.runtime.requests
	if err := <-done; err != nil {
		t.Errorf("the last call: %v", err)
	}
	n.stop()
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// asked is the sandbox that the kubelet asks for: a pod with ClusterFirst.
func asked(name, uid, source string) *runtimeapi.PodSandboxConfig {
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

// withDNS returns the sandbox with other DNS.
func withDNS(q *runtimeapi.PodSandboxConfig, dns *runtimeapi.DNSConfig) *runtimeapi.PodSandboxConfig {
	q.DnsConfig = dns
	return q
}

func autopathDNS() *runtimeapi.DNSConfig {
	return &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"search.shop.cluster.local.ap.k8s.io"}, Options: []string{"ndots:5"}}
}

// podOf is the pod in the API: it asks for autopath by annotation.
func podOf(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid), Annotations: map[string]string{policy.OverrideAnnotation: "ClusterFirstWithAutopath"}},
		Spec:       corev1.PodSpec{NodeName: "Worker", DNSPolicy: corev1.DNSClusterFirst},
	}
}

// expect runs a sandbox through the node and says what the runtime should be asked for.
func (n *shimNode) expect(what string, want, q *runtimeapi.PodSandboxConfig) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.sandbox(q), protocmp.Transform()); diff != "" {
		n.t.Errorf("%s: the runtime is asked for (-want +got):\n%s", what, diff)
	}
}

// expectCounts compares the outcomes in the metrics.
func (n *shimNode) expectCounts(want map[string]int) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.counted()); diff != "" {
		n.t.Errorf("outcomes (-want +got):\n%s\n%s", diff, n.log.String())
	}
}

const autopathManifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, annotations: {dnsconfigurer.dev/policy: ClusterFirstWithAutopath}}\n"

// TestShim runs the command on a node without an API server: a static pod asks for
// autopath by annotation, its kubelet has computed ClusterFirst.
func TestShim(t *testing.T) {
	n := newShimNode(t, "", map[string]string{"manifests/web.yaml": autopathManifest})
	n.expect("a static pod", withDNS(asked("web-worker", "0123456789abcdef", "file"), autopathDNS()), asked("web-worker", "0123456789abcdef", "file"))
	n.expectCounts(map[string]int{"edited": 1})
	for _, path := range []string{"/livez", "/readyz"} {
		if body := get(t, n.http, path); body != "ok\n" {
			t.Errorf("%s: %s", path, body)
		}
	}
	if body := get(t, n.http, "/metrics"); !strings.Contains(body, "\ndnsconfigurer_config_last_reload_success 1\n") {
		t.Errorf("metrics:\n%s", body)
	}
	n.stop()
	for _, line := range []string{`msg="sandbox edited" pod=shop/web-worker podUID=0123456789abcdef outcome=edited`, "msg=serving"} {
		if strings.Count(n.log.String(), line) != 1 {
			t.Errorf("the log has not one line %q:\n%s", line, n.log.String())
		}
	}
}

// TestShimOfBrokenAPI has API servers of all bad kinds: the pod's request passes as it
// came, its start costs no more than the budget of a look-up, and the outcome says why.
// A static pod is not concerned.
func TestShimOfBrokenAPI(t *testing.T) {
	html := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html><title>Sign in</title></html>")
	}
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name  string
		fault http.HandlerFunc
		want  cri.Outcome
	}{
		{"stalls", kubeapi.Stall, cri.LookupTimeout},
		{"answers HTML", html, cri.LookupFailed},
		{"answers half an object", kubeapi.Truncate, cri.LookupFailed},
		{"answers another kind", answer(200, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","uid":"u1"}}`), cri.LookupFailed},
		{"answers null", answer(200, "null"), cri.UnknownPod},
		{"answers a pod without a UID", answer(200, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`), cri.UnknownPod},
		{"answers 500 without a reason", answer(500, ""), cri.LookupFailed},
		{"is broken inside", kubeapi.Fail, cri.LookupFailed},
		{"does not know us", answer(401, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Unauthorized","code":401}`), cri.LookupFailed},
		{"lets us not see it", kubeapi.Forbid, cri.LookupFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := newClusterAPI(t, podOf("web", "u1"))
			api.SetFault(tt.fault)
			n := newShimNode(t, api.url, map[string]string{"manifests/web.yaml": autopathManifest})
			n.expect("the API's pod", asked("web", "u1", "api"), asked("web", "u1", "api"))
			n.expectCounts(map[string]int{string(tt.want): 1})
			n.expect("a static pod", withDNS(asked("web-worker", "h1", "file"), autopathDNS()), asked("web-worker", "h1", "file"))
		})
	}
	t.Run("is not there", func(t *testing.T) {
		n := newShimNode(t, "http://"+freeAddr(t), map[string]string{"manifests/web.yaml": autopathManifest})
		n.expect("the API's pod", asked("web", "u1", "api"), asked("web", "u1", "api"))
		n.expect("a static pod", withDNS(asked("web-worker", "h1", "file"), autopathDNS()), asked("web-worker", "h1", "file"))
		n.expectCounts(map[string]int{"lookup_failed": 1, "edited": 1})
	})
}

// TestShimOfRecreatedPod has two pods of one name after each other, as of a
// StatefulSet: a pod is what has its UID.
func TestShimOfRecreatedPod(t *testing.T) {
	api := newClusterAPI(t, podOf("web-0", "new"))
	n := newShimNode(t, api.url, nil)
	n.expect("the one before", asked("web-0", "old", "api"), asked("web-0", "old", "api"))
	n.expect("the present one", withDNS(asked("web-0", "new", "api"), autopathDNS()), asked("web-0", "new", "api"))
	n.expectCounts(map[string]int{"unknown_pod": 1, "edited": 1})
}

// TestShimFollowsTheKubeletsFile has a kubelet that is given another cluster DNS: as
// long as the shim's facts are other ones than the kubelet's, nothing is written.
func TestShimFollowsTheKubeletsFile(t *testing.T) {
	api := newClusterAPI(t, podOf("web", "u1"))
	n := newShimNode(t, api.url, nil)
	n.expect("before", withDNS(asked("web", "u1", "api"), autopathDNS()), asked("web", "u1", "api"))
	q := func() *runtimeapi.PodSandboxConfig {
		q := asked("web", "u1", "api")
		q.DnsConfig.Servers[0] = "10.96.0.99"
		return q
	}
	n.expect("a stale shim", q(), q())
	n.write("kubelet.yaml", strings.Replace(nodeKubelet, "10.96.0.10", "10.96.0.99", 1))
	n.hangup()
	dns := autopathDNS()
	dns.Servers[0] = "10.96.0.99"
	n.expect("after", withDNS(q(), dns), q())
	n.expect("a kubelet that was not restarted", asked("web", "u1", "api"), asked("web", "u1", "api"))
	n.expectCounts(map[string]int{"edited": 2, "node_facts_mismatch": 2})
}

// hangup tells the command to read its files, and waits until it has.
func (n *shimNode) hangup() {
	n.t.Helper()
	const done = "configuration applied"
	before := strings.Count(n.log.String(), done)
	if err := n.signal(syscall.SIGHUP); err != nil {
		n.t.Fatal(err)
	}
	n.eventually("the reload", func() bool { return strings.Count(n.log.String(), done) > before })
}

// TestShimFollowsResolved has a kubelet that is told to read the stub of
// systemd-resolved, and a shim that gives pods the uplink's servers. The two files
// change under it.
func TestShimFollowsResolved(t *testing.T) {
	const config = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
		"node: {kubeletConfig: kubelet.yaml, nodeName: Worker, uplinkResolvConf: resolve/resolv.conf, hostResolver: "
	stub := func(domain string) string {
		return fmt.Sprintf("nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch %s\n", domain)
	}
	n := newShimNode(t, "", map[string]string{
		"shim.yaml": config + "never}\n", "resolv.conf": stub("a.example"), "resolve/resolv.conf": "nameserver 192.0.2.53\nsearch a.example\n",
		"manifests/web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {dnsPolicy: Default}\n",
	})
	q := func(servers, domains string, options ...string) *runtimeapi.PodSandboxConfig {
		return withDNS(asked("web-worker", "h1", "file"), &runtimeapi.DNSConfig{Servers: strings.Fields(servers), Searches: strings.Fields(domains), Options: options})
	}
	stubbed := func(domain string) *runtimeapi.PodSandboxConfig { return q("127.0.0.53", domain, "edns0", "trust-ad") }

	n.expect("never", stubbed("a.example"), stubbed("a.example"))
	n.write("shim.yaml", config+"auto}\n")
	n.hangup()
	n.expect("auto", q("192.0.2.53", "a.example"), stubbed("a.example"))
	n.write("resolve/resolv.conf", "nameserver 192.0.2.54\nsearch b.example\n")
	n.expect("other servers", q("192.0.2.54", "b.example"), stubbed("a.example"))
	n.write("resolv.conf", stub("b.example"))
	n.expect("and another domain", q("192.0.2.54", "b.example"), stubbed("b.example"))
	n.expect("a kubelet with an older file", stubbed("a.example"), stubbed("a.example"))
	n.write("resolve/resolv.conf", "# No DNS servers known.\n")
	n.expect("the link is down", q("192.0.2.54", "b.example"), stubbed("b.example"))
	n.eventually("the reason", func() bool {
		return strings.Contains(n.log.String(), `error="the uplink file of systemd-resolved: it names no nameserver"`)
	})
	n.write("resolv.conf", "nameserver 198.51.100.1\n")
	n.expect("systemd-resolved is removed", q("198.51.100.1", ""), q("198.51.100.1", ""))
	n.expectCounts(map[string]int{"unchanged": 2, "edited": 4, "node_facts_mismatch": 1})
}

// TestShimKeepsTheLastGoodFile has a host file that loses its servers. The kubelet hands
// on what is left; we know better, also after the configuration was read again.
func TestShimKeepsTheLastGoodFile(t *testing.T) {
	n := newShimNode(t, "", map[string]string{
		"manifests/web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {dnsPolicy: Default}\n",
	})
	good := &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"corp.example"}}
	q := func(dns *runtimeapi.DNSConfig) *runtimeapi.PodSandboxConfig {
		return withDNS(asked("web-worker", "h1", "file"), dns)
	}
	n.expect("a good file", q(good), q(good))
	n.write("resolv.conf", "# nothing\n")
	n.expect("an empty one", q(good), q(&runtimeapi.DNSConfig{}))
	n.write("shim.yaml", nodeShim+"autopath: {suffix: ap.example}\n")
	n.hangup()
	n.expect("after a reload", q(good), q(&runtimeapi.DNSConfig{}))
	n.expectCounts(map[string]int{"unchanged": 1, "edited": 2})
}

// TestShimWithoutUplink falls back to what the kubelet hands out, and says why.
func TestShimWithoutUplink(t *testing.T) {
	const stub = "nameserver 127.0.0.53\n"
	n := newShimNode(t, "", map[string]string{
		"shim.yaml": "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
			"node: {kubeletConfig: kubelet.yaml, nodeName: Worker, uplinkResolvConf: nowhere, hostResolver: auto}\n",
		"resolv.conf": stub, "manifests/web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {dnsPolicy: Default}\n",
	})
	q := func() *runtimeapi.PodSandboxConfig {
		return withDNS(asked("web-worker", "h1", "file"), &runtimeapi.DNSConfig{Servers: []string{"127.0.0.53"}})
	}
	n.expect("no uplink file", q(), q())
	n.expectCounts(map[string]int{"unchanged": 1})
	n.eventually("the reason", func() bool {
		return strings.Contains(n.log.String(), "nowhere: no such file or directory")
	})
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestAPIServer_Subresources changes a running pod by each subresource of pods. Neither the policies
// nor the webhook match them, and need not: none changes a field that they check. An annotation can
// be changed later, by an ordinary update and by the subresource status.
func TestAPIServer_Subresources(t *testing.T) {
	c := apiserver.Start(t, withoutAccounts)
	w := newWebhookTest(t, c)
	enforce(t, c.Kubectl(t))
	w.install(t, w.authority.PEM, "validating.yaml", "mutating.yaml")
	reviews := reviewCounter{handler: webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t)})}
	defer w.serve(t, &reviews)()
	poll.Until(t, "a review", func() bool {
		_, err := w.create(t.Context(), []byte(validPod), true)
		return err == nil && reviews.count() > 0
	})

	const name = "running"
	// A resize must not change the QoS class, which is Burstable with a request.
	manifest := strings.NewReplacer(`"name":"valid"`, `"name":"`+name+`"`,
		`"name":"c"`, `"name":"c","resources":{"requests":{"cpu":"50m"}}`).Replace(validPod)
	s, err := w.create(t.Context(), []byte(manifest), false)
	if err != nil || s.refused != "" {
		t.Fatalf("%q, %v", s.refused, err)
	}
	before := reviews.count()
	// What the checks are about, and half a megabyte of what they are not: etcd stores 1.5 MB, with the
	// names of the fields that each client manages.
	const hostile = `"metadata":{"annotations":{"dnsconfigurer.dev/policy":"None"}},"spec":{"dnsPolicy":"None","hostNetwork":true,` +
		`"subdomain":"a","setHostnameAsFQDN":true,"dnsConfig":{"options":[{"name":"a\nb"}]}`
	large := make([]string, 3_000)
	for i := range large {
		large[i] = fmt.Sprintf(`{"name":"debugger-%d","image":"registry.example/debugger","env":[{"name":"A","value":"%080d"}]}`, i, i)
	}
	pods := w.api.CoreV1().Pods("default")
	for _, tt := range []struct{ subresource, patch string }{
		{"ephemeralcontainers", `{` + hostile + `,"ephemeralContainers":[` + strings.Join(large, ",") + `]}}`},
		{"resize", `{` + hostile + `,"containers":[{"name":"c","resources":{"requests":{"cpu":"100m"}}}]}}`},
		{"status", `{` + hostile + `},"status":{"reason":"Patched"}}`},
	} {
		pod, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(tt.patch), metav1.PatchOptions{}, tt.subresource)
		if err != nil {
			t.Errorf("%s: %v", tt.subresource, err)
			continue
		}
		if !isUnchanged(pod) {
			t.Errorf("%s changes %s: %+v", tt.subresource, name, pod.Spec)
		}
		if n := len(pod.Spec.EphemeralContainers); n != len(large) {
			t.Errorf("%s: %d ephemeral containers", tt.subresource, n)
		}
		if annotated := pod.Annotations[policy.OverrideAnnotation] != ""; annotated != (tt.subresource == "status") {
			t.Errorf("%s: the annotation is set: %v", tt.subresource, annotated)
		}
	}
	if after := reviews.count(); after != before {
		t.Errorf("%d reviews of subresources", after-before)
	}
}

// isUnchanged reports whether a pod has the DNS configuration and host name of validPod.
func isUnchanged(p *corev1.Pod) bool {
	return p.Spec.DNSPolicy == corev1.DNSClusterFirst && !p.Spec.HostNetwork && p.Spec.Subdomain == "" && p.Spec.SetHostnameAsFQDN == nil &&
		p.Spec.DNSConfig != nil && slices.EqualFunc(p.Spec.DNSConfig.Options, []string{"ndots"},
		func(o corev1.PodDNSConfigOption, name string) bool { return o.Name == name })
}

// reviewCounter counts the requests of the API server.
type reviewCounter struct {
	handler http.Handler

	mu sync.Mutex
	n  int
}

func (c *reviewCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *reviewCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	c.handler.ServeHTTP(w, r)
}

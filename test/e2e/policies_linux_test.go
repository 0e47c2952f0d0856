// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Parts of the resolv.conf of pods, in the form of [resolvconf.Config.String].
const (
	clusterSearch = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example node.example"
	hostText      = "nameserver 192.0.2.53\nsearch corp.example node.example\noptions timeout:3 attempts:2"
	clusterText   = "nameserver 10.96.0.10\n" + clusterSearch + "\noptions ndots:5"
	autopathText  = "nameserver 169.254.20.10\nsearch search.shop.cluster.local.ap.k8s.io\noptions ndots:5"
)

// kepPolicy is the policy as the KEP spells it, which no API server knows.
const kepPolicy = "clusterFirstWithAutopath"

// view is what the processes of a pod see.
type view struct{ Hostname, ResolvConf string }

// policyPod is a pod and what it must see behind the shim.
type policyPod struct {
	spec     corev1.PodSpec
	autopath string // policy in the annotation; "": none
	want     view
}

// dnsConfig adds to every list of the base.
func dnsConfig() *corev1.PodDNSConfig {
	ndots := "2"
	return &corev1.PodDNSConfig{
		Nameservers: []string{"203.0.113.53"},
		Searches:    []string{"extra.example", "shop.svc.cluster.local"},
		Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: &ndots}, {Name: "edns0"}},
	}
}

// fqdnRest is what the FQDN of a pod has behind its hostname.
const fqdnRest = ".web.shop.svc.cluster.local"

// policyPods returns pods with all policies, merges and forms of hostnames, by name.
func policyPods() map[string]policyPod {
	yes := true
	longest := strings.Repeat("h", fqdn.MaxNodename-len(fqdnRest))
	return map[string]policyPod{
		"cluster-first": {want: view{"cluster-first", clusterText}},
		"cluster-first-merged": {spec: corev1.PodSpec{DNSConfig: dnsConfig()}, want: view{"cluster-first-merged",
			"nameserver 10.96.0.10\nnameserver 203.0.113.53\n" + clusterSearch + " extra.example\noptions ndots:2 edns0"}},
		"default": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, want: view{"default", hostText}},
		"default-merged": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault, DNSConfig: dnsConfig()}, want: view{"default-merged",
			"nameserver 192.0.2.53\nnameserver 203.0.113.53\n" +
				"search corp.example node.example extra.example shop.svc.cluster.local\noptions timeout:3 attempts:2 ndots:2 edns0"}},
		"none": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: dnsConfig()}, want: view{"none",
			"nameserver 203.0.113.53\nsearch extra.example shop.svc.cluster.local\noptions ndots:2 edns0"}},
		"host-network": {spec: corev1.PodSpec{HostNetwork: true}, want: view{nodeName, hostText}},
		"host-network-with-cluster-dns": {spec: corev1.PodSpec{HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet},
			want: view{nodeName, clusterText}},
		"pod-network-with-host-net": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirstWithHostNet},
			want: view{"pod-network-with-host-net", clusterText}},
		"hostname": {spec: corev1.PodSpec{Hostname: "one", Subdomain: "web"}, want: view{"one", clusterText}},
		"fqdn": {spec: corev1.PodSpec{Hostname: "one", Subdomain: "web", SetHostnameAsFQDN: &yes},
			want: view{"one" + fqdnRest, clusterText}},
		"fqdn-of-64": {spec: corev1.PodSpec{Hostname: longest, Subdomain: "web", SetHostnameAsFQDN: &yes},
			want: view{longest + fqdnRest, clusterText}},
		"fqdn-without-subdomain": {spec: corev1.PodSpec{SetHostnameAsFQDN: &yes}, want: view{"fqdn-without-subdomain", clusterText}},

		"autopath":                 {autopath: "ClusterFirstWithAutopath", want: view{"autopath", autopathText}},
		"autopath-kep":             {spec: corev1.PodSpec{DNSPolicy: kepPolicy}, want: view{"autopath-kep", autopathText}},
		"autopath-on-host-network": {spec: corev1.PodSpec{DNSPolicy: kepPolicy, HostNetwork: true}, want: view{nodeName, autopathText}},
		"autopath-merged": {spec: corev1.PodSpec{DNSPolicy: kepPolicy, DNSConfig: dnsConfig()}, want: view{"autopath-merged",
			"nameserver 169.254.20.10\nnameserver 203.0.113.53\n" +
				"search search.shop.cluster.local.ap.k8s.io extra.example shop.svc.cluster.local\noptions ndots:2 edns0"}},
	}
}

// startPods creates pods and returns when they are ready.
func (c *cluster) startPods(t *testing.T, pods map[string]policyPod) {
	t.Helper()
	var list []*corev1.Pod
	for name, p := range pods {
		pod := newPod(name, p.spec)
		if p.autopath != "" {
			pod.Annotations = map[string]string{policy.OverrideAnnotation: p.autopath}
		}
		list = append(list, pod)
	}
	for few := range slices.Chunk(list, 4) { // more at once take a busy machine minutes
		c.create(t, few...)
	}
}

// view returns what a container of a pod sees. containerd writes the lines of resolv.conf in
// another order than the agent, which adds comments.
func (c *cluster) view(t *testing.T, pod string) view {
	t.Helper()
	hostname, text, _ := strings.Cut(c.exec(t, pod, "/bin/busybox", "sh", "-c", "busybox hostname && busybox cat /etc/resolv.conf"), "\n")
	return view{hostname, strings.TrimSpace(resolvconf.Parse(text).Config().String())}
}

// awaitView returns when a container of a pod sees a resolv.conf.
func (c *cluster) awaitView(t *testing.T, pod, text string) {
	t.Helper()
	await(t, "the resolv.conf of "+pod, func() error {
		if got := c.view(t, pod).ResolvConf; got != text {
			return fmt.Errorf("it is %q, want %q", got, text)
		}
		return nil
	})
}

// testPolicies compares what pods see with their policies, and looks up names in those
// that use a DNS server of the cluster.
func (c *cluster) testPolicies(t *testing.T) {
	pods := policyPods()
	c.startPods(t, pods)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		t.Run(name, func(t *testing.T) {
			c.awaitView(t, name, pods[name].want.ResolvConf) // the agent may write late
			if diff := cmp.Diff(pods[name].want, c.view(t, name)); diff != "" {
				t.Errorf("the pod sees (-want +got):\n%s", diff)
			}
			if text := pods[name].want.ResolvConf; text == clusterText || text == autopathText {
				c.checkLookups(t, name)
			}
		})
	}
}

// awaitAdmission returns when the API server enforces the admission policies of the chart: it
// accepts the policy of the KEP, and refuses a pod whose FQDN has one character too many. A node
// without the policies keeps that pod from starting and says why, which is tested in test/cluster.
func (c *cluster) awaitAdmission(t *testing.T) {
	t.Helper()
	create := func(pod *corev1.Pod) error {
		_, _, err := c.kubectl.Run(t.Context(), string(encode(t, pod)), "create", "--dry-run=server", "--validate=false", "-f", "-")
		return err
	}
	yes := true
	tooLong := newPod("fqdn-of-65", corev1.PodSpec{Subdomain: "web", SetHostnameAsFQDN: &yes,
		Hostname: strings.Repeat("h", fqdn.MaxNodename+1-len(fqdnRest))})
	await(t, "the admission policies", func() error {
		err := create(autopathPod("autopath-kep"))
		if refused := create(tooLong); err == nil && (refused == nil || !strings.Contains(refused.Error(), "65 characters")) {
			err = fmt.Errorf("an FQDN of 65 characters is accepted, or refused without the reason: %v", refused)
		}
		return err
	})
}

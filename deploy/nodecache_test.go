// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"net"
	"net/netip"
	"path"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

func readNodeCache(t *testing.T) (set *appsv1.DaemonSet, config *corev1.ConfigMap, objects []runtime.Object) {
	t.Helper()
	objects = decode(t, "node-cache", 4)
	return the[*appsv1.DaemonSet](t, objects, ""), the[*corev1.ConfigMap](t, objects, ""), objects
}

// TestNodeCache_References checks the references between the objects and the configuration.
func TestNodeCache_References(t *testing.T) {
	set, config, _ := readNodeCache(t)
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	if set.Namespace != "kube-system" || config.Namespace != "kube-system" ||
		!labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(labels.Set(set.Spec.Template.Labels)) {
		t.Errorf("in %s and %s, %v selects %v", set.Namespace, config.Namespace, set.Spec.Selector, set.Spec.Template.Labels)
	}
	mounts := mounts(t, pod)
	for path, m := range mounts {
		if !m.ReadOnly || m.source.HostPath != nil {
			t.Errorf("%s is writable, or of the node", path)
		}
	}
	file := c.Args[slices.Index(c.Args, "--config")+1]
	source := mounts[path.Dir(file)].source.ConfigMap
	if c.Args[0] != "nodecache" || source == nil || source.Name != config.Name {
		t.Fatalf("%v: %s is in %v", c.Args, file, source)
	}
	cache, err := v1alpha1.Parse[v1alpha1.NodeCacheConfiguration]([]byte(config.Data[path.Base(file)]))
	if err != nil {
		t.Fatal(err)
	}
	if cache.ResolvConf != nil {
		t.Errorf("resolvConf is %q, want the copy of the node's file in the pod", *cache.ResolvConf)
	}

	checkNodeCacheAddresses(t, c, cache)
}

// TestNodeCache_Service checks that the cluster DNS accepts the search lists of the node caches.
func TestNodeCache_Service(t *testing.T) {
	set, _, objects := readNodeCache(t)
	service := the[*corev1.Service](t, objects, "-node-cache")
	if got := service.Namespace + "/" + service.Name; got != "kube-system/dnsconfigurer-node-cache" {
		t.Errorf("the cluster DNS does not accept search lists from the endpoints of %s", got)
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses ||
		*service.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack ||
		!labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(set.Spec.Template.Labels)) {
		t.Errorf("the endpoints of the Service are not the addresses of all nodes: %+v", service.Spec)
	}
}

func checkNodeCacheAddresses(t *testing.T, c corev1.Container, cache v1alpha1.NodeCacheConfiguration) {
	t.Helper()
	host, port, err := net.SplitHostPort(cache.HTTP)
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
		if err != nil || probe.HTTPGet.Host != host || probe.HTTPGet.Port.String() != port {
			t.Errorf("the probe %v is not at %s", probe.HTTPGet, cache.HTTP)
		}
	}

	checkReadinessTimeout(t, c)
	for _, listen := range cache.Listen {
		// An address that every node has must not be routed to another node. A node may have IPv6
		// disabled.
		if addr := netip.MustParseAddrPort(listen); addr.Port() != 53 || !addr.Addr().Is4() || !addr.Addr().IsLinkLocalUnicast() {
			t.Errorf("pods cannot use %s", listen)
		}
	}
}

// TestNodeCache_Restrictions checks the settings that keep a pod running, and those for two overlapping
// pods in an update.
func TestNodeCache_Restrictions(t *testing.T) {
	set, _, _ := readNodeCache(t)
	pod := set.Spec.Template.Spec
	c, update := pod.Containers[0], set.Spec.UpdateStrategy.RollingUpdate
	checkRestrictions(t, set.Name, pod, map[string]bool{
		"priority class":           pod.PriorityClassName == "system-node-critical",
		"tolerates all taints":     slices.Equal(pod.Tolerations, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}),
		"time to detect a failure": set.Spec.MinReadySeconds >= 15, // three times the command's takeOverTime
		"surge in an update":       update.MaxSurge.IntVal == 1 && update.MaxUnavailable.IntVal == 0,
		"no host port":             len(c.Ports) == 0,
	})
}

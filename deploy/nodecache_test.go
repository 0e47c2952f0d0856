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

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

func readNodeCache(t *testing.T) (set *appsv1.DaemonSet, config *corev1.ConfigMap) {
	t.Helper()
	for _, object := range decode(t, "node-cache") {
		switch o := object.(type) {
		case *appsv1.DaemonSet:
			set = o
		case *corev1.ConfigMap:
			config = o
		default:
			t.Errorf("a %T", object)
		}
	}
	return set, config
}

// TestNodeCacheAgrees has what one object says of another, and what the configuration
// needs of the pod.
func TestNodeCacheAgrees(t *testing.T) {
	set, config := readNodeCache(t)
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	if set.Namespace != "kube-system" || config.Namespace != "kube-system" || !labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(labels.Set(set.Spec.Template.Labels)) {
		t.Errorf("in %s and %s, %v selects %v", set.Namespace, config.Namespace, set.Spec.Selector, set.Spec.Template.Labels)
	}
	volumes, mounts := map[string]corev1.VolumeSource{}, map[string]corev1.VolumeMount{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	for _, m := range c.VolumeMounts {
		if mounts[m.MountPath] = m; m.SubPath != "" || !m.ReadOnly {
			t.Errorf("%s would never change, or can be written", m.MountPath)
		}
	}
	file := c.Args[slices.Index(c.Args, "--config")+1]
	source := volumes[mounts[path.Dir(file)].Name].ConfigMap
	if c.Args[0] != "nodecache" || source == nil || source.Name != config.Name {
		t.Fatalf("%v: %s is in %v", c.Args, file, source)
	}
	cache, err := v1alpha1.ParseNodeCache([]byte(config.Data[path.Base(file)]))
	if err != nil {
		t.Fatal(err)
	}
	if host := volumes[mounts[path.Dir(*cache.ResolvConf)].Name].HostPath; host == nil || host.Path != "/etc" {
		t.Errorf("%s is in %v", *cache.ResolvConf, host)
	}
	host, port, err := net.SplitHostPort(cache.HTTP)
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
		if err != nil || probe.HTTPGet.Host != host || probe.HTTPGet.Port.String() != port {
			t.Errorf("%v is asked at %s", probe.HTTPGet, cache.HTTP)
		}
	}
	if got := c.ReadinessProbe.HTTPGet.Path + c.LivenessProbe.HTTPGet.Path; got != "/readyz/livez" {
		t.Errorf("the probes ask for %s", got)
	}
	for _, listen := range cache.Listen {
		// An address that is on each node must not be one that is routed to another.
		if addr := netip.MustParseAddrPort(listen); addr.Port() != 53 || !addr.Addr().IsPrivate() && !addr.Addr().IsLinkLocalUnicast() {
			t.Errorf("pods are to ask %s", listen)
		}
	}
}

// TestNodeCacheConfined has what a pod may do that has the node's network, and what lets
// two of them overlap.
func TestNodeCacheConfined(t *testing.T) {
	set, _ := readNodeCache(t)
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	s, update := c.SecurityContext, set.Spec.UpdateStrategy.RollingUpdate
	for what, ok := range map[string]bool{
		"two capabilities":              slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_BIND_SERVICE", "NET_ADMIN"}),
		"no way to get more":            !*s.AllowPrivilegeEscalation && s.Privileged == nil,
		"no file to write":              *s.ReadOnlyRootFilesystem,
		"the runtime's calls":           pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"of the node only the network":  pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"no word with the API server":   !*pod.AutomountServiceAccountToken,
		"the node's resolv.conf":        pod.DNSPolicy == corev1.DNSDefault,
		"a name that outlives pressure": pod.PriorityClassName == "system-node-critical",
		"every node":                    slices.Equal(pod.Tolerations, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}),
		"memory with a limit":           !c.Resources.Limits.Memory().IsZero(),
		"time of a processor without":   c.Resources.Limits.Cpu().IsZero(),
		"time to fail in":               set.Spec.MinReadySeconds >= 15, // three times the command's takeOverTime
		"two at an update":              update.MaxSurge.IntVal == 1 && update.MaxUnavailable.IntVal == 0,
		"no port for which they fight":  len(c.Ports) == 0,
	} {
		if !ok {
			t.Errorf("the pods should have: %s", what)
		}
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// decode decodes the manifests below a directory with strict field validation, as an API
// server can: an unknown or duplicate field is an error. TestKustomize has the kustomizations.
// want is their number: a test of all objects needs a change for another one.
func decode(t *testing.T, dir string, want int) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".yaml" || filepath.Base(name) == kustomization {
			return err
		}
		decoded, err := decodeFile(name)
		objects = append(objects, decoded...)
		return err
	})
	if err != nil || len(objects) != want {
		t.Fatalf("%d objects, want %d, %v", len(objects), want, err)
	}
	return objects
}

// the returns the object of a type whose name has a suffix.
func the[T metav1.Object](t *testing.T, objects []runtime.Object, suffix string) T {
	t.Helper()
	i := slices.IndexFunc(objects, func(object runtime.Object) bool {
		o, ok := object.(T)
		return ok && strings.HasSuffix(o.GetName(), suffix)
	})
	if i < 0 {
		t.Fatalf("no %T with the suffix %q", *new(T), suffix)
	}
	return objects[i].(T)
}

func decodeFile(name string) ([]runtime.Object, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return decodeText(name, text)
}

func decodeText(name string, text []byte) ([]runtime.Object, error) {
	var objects []runtime.Object
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, object)
	}
}

// workload is a DaemonSet or a Deployment.
type workload struct {
	metav1.ObjectMeta
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
}

func workloads(objects []runtime.Object) (all []workload) {
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.DaemonSet:
			all = append(all, workload{o.ObjectMeta, o.Spec.Selector, o.Spec.Template})
		case *appsv1.Deployment:
			all = append(all, workload{o.ObjectMeta, o.Spec.Selector, o.Spec.Template})
		}
	}
	return all
}

// container returns the only container of the pods.
func (w workload) container(t *testing.T) corev1.Container {
	t.Helper()
	if len(w.template.Spec.Containers) != 1 {
		t.Fatalf("%s has %d containers", w.Name, len(w.template.Spec.Containers))
	}
	return w.template.Spec.Containers[0]
}

// TestManifests_Selectors checks labels, selectors and namespaces. test/chart compares all other fields with those of
// the chart, which test/e2e installs.
func TestManifests_Selectors(t *testing.T) {
	for dir, count := range manifests {
		objects := decode(t, dir, count)
		all := workloads(objects)
		selectors := map[string]*metav1.LabelSelector{}
		for _, object := range objects {
			o := object.(metav1.Object)
			kind := object.GetObjectKind().GroupVersionKind().Kind
			if o.GetNamespace() != "kube-system" && !strings.HasPrefix(kind, "ClusterRole") {
				t.Errorf("%s %s is in %q", kind, o.GetName(), o.GetNamespace())
			}
			switch o := object.(type) {
			case *policyv1.PodDisruptionBudget:
				selectors["PodDisruptionBudget"] = o.Spec.Selector
			case *networkingv1.NetworkPolicy:
				selectors["NetworkPolicy"] = &o.Spec.PodSelector
			case *corev1.Service:
				if !slices.ContainsFunc(all, func(w workload) bool {
					return labels.SelectorFromSet(o.Spec.Selector).Matches(labels.Set(w.template.Labels))
				}) && !strings.HasSuffix(o.Name, "-fallback") { // of the cluster DNS
					t.Errorf("the Service %s selects %v, no pods have that", o.Name, o.Spec.Selector)
				}
			}
		}
		for _, w := range all {
			own := maps.Clone(selectors)
			own[w.Name] = w.selector
			for _, spread := range w.template.Spec.TopologySpreadConstraints {
				own["spread over "+spread.TopologyKey] = spread.LabelSelector
			}
			for name, s := range own {
				selector, err := metav1.LabelSelectorAsSelector(s)
				_, shared := s.MatchLabels["k8s-app"] // CoreDNS has this label too
				if err != nil || shared || selector.Empty() || !selector.Matches(labels.Set(w.template.Labels)) {
					t.Errorf("%s selects %v (%v), the pods have %v", name, selector, err, w.template.Labels)
				}
			}
		}
	}
}

// manifests are the directories of servers, and their numbers of objects.
var manifests = map[string]int{"agent": 6, "cluster-dns": 8, "node-cache": 4}

// mount is a directory or file of a pod.
type mount struct {
	corev1.VolumeMount
	source corev1.VolumeSource
}

// mounts returns the mounts of a pod by their path.
func (w workload) mounts(t *testing.T) map[string]mount {
	t.Helper()
	sources := map[string]corev1.VolumeSource{}
	for _, v := range w.template.Spec.Volumes {
		sources[v.Name] = v.VolumeSource
	}
	found := map[string]mount{}
	for _, m := range w.container(t).VolumeMounts {
		if found[m.MountPath] = (mount{m, sources[m.Name]}); m.SubPath != "" {
			t.Errorf("%s is mounted by subPath and never updated", m.MountPath)
		}
	}
	if len(found) != len(sources) {
		t.Errorf("%s: %d mounts, %d volumes", w.Name, len(found), len(sources))
	}
	return found
}

// configuration returns the configuration that the only ConfigMap has.
func configuration[T any](t *testing.T, objects []runtime.Object) (c T) {
	t.Helper()
	for file, text := range the[*corev1.ConfigMap](t, objects, "").Data {
		var err error
		if c, err = v1alpha1.Parse[T]([]byte(text)); err != nil {
			t.Fatalf("%s of the ConfigMap: %v", file, err)
		}
	}
	return c
}

// check fails the test for each requirement that is not met.
func check(t *testing.T, name string, requirements map[string]bool) {
	t.Helper()
	for requirement, ok := range requirements {
		if !ok {
			t.Errorf("%s: missing: %s", name, requirement)
		}
	}
}

// TestManifests_Restrictions checks the settings that keep pods running. The rights of a pod, such as capabilities, are
// compared with docs/security.md by test/chart.
func TestManifests_Restrictions(t *testing.T) {
	for dir, count := range manifests {
		for _, w := range workloads(decode(t, dir, count)) {
			pod, c := w.template.Spec, w.container(t)
			w.mounts(t)
			priority, tolerations := "system-node-critical", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			if dir == "cluster-dns" {
				priority, tolerations = "system-cluster-critical", pod.Tolerations
			}
			check(t, w.Name, map[string]bool{
				"the node's resolv.conf": pod.DNSPolicy == corev1.DNSDefault,
				"memory limit":           !c.Resources.Limits.Memory().IsZero(),
				"no CPU limit":           c.Resources.Limits.Cpu().IsZero(),
				"probes":                 c.ReadinessProbe.HTTPGet.Path == "/readyz" && c.LivenessProbe.HTTPGet.Path == "/livez",
				"priority class":         pod.PriorityClassName == priority,
				"tolerates all taints":   slices.Equal(pod.Tolerations, tolerations),
				// A reply that takes seconds, as on an overloaded node, does not remove a pod from its Service.
				"time for a late reply of a DNS server": dir == "agent" || c.ReadinessProbe.TimeoutSeconds == 5,
			})
		}
	}
}

// TestAgent_Updates: the relay is replaced one by one, by hand.
func TestAgent_Updates(t *testing.T) {
	objects := decode(t, "agent", manifests["agent"])
	agent, relay := the[*appsv1.DaemonSet](t, objects, "-agent"), the[*appsv1.DaemonSet](t, objects, "-nri")
	if relay.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType || agent.Spec.UpdateStrategy.RollingUpdate == nil {
		t.Errorf("updates of relay and agent: %+v, %+v", relay.Spec.UpdateStrategy, agent.Spec.UpdateStrategy)
	}
	port := agent.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort
	if c := configuration[v1alpha1.AgentConfiguration](t, objects); netip.MustParseAddrPort(c.HTTP).Port() != uint16(port) {
		t.Errorf("the agent serves %s, the port of the container is %d", c.HTTP, port)
	}
}

// TestClusterDNS checks the settings of the cluster DNS server that no cluster of a test needs: labels that kubelets,
// kubeadm and monitoring depend on, those of an eviction, and the NetworkPolicy. That is not applied with the server,
// since the port of the API server differs between clusters. It has the ports of common ones.
func TestClusterDNS(t *testing.T) {
	objects := decode(t, "cluster-dns", manifests["cluster-dns"])
	c := configuration[v1alpha1.DNSConfiguration](t, objects)
	deployment, service := the[*appsv1.Deployment](t, objects, ""), the[*corev1.Service](t, objects, "")
	network := the[*networkingv1.NetworkPolicy](t, objects, "")
	w := workloads(objects)[0]
	p, snapshot := w.template.Spec.SecurityContext, w.mounts(t)[path.Dir(c.Snapshot)]
	ports, egress := map[string]int32{}, map[int32]bool{}
	for _, p := range w.container(t).Ports {
		ports[string(p.Protocol)+" "+p.Name] = p.ContainerPort
	}
	for _, rule := range network.Spec.Egress {
		for _, p := range rule.Ports {
			egress[p.Port.IntVal] = true
		}
	}
	image, err := os.ReadFile("../release/image.go")
	user := fmt.Sprintf("imageUser = \"%d:%d\"", *p.RunAsUser, *p.RunAsGroup)
	evicted := the[*policyv1.PodDisruptionBudget](t, objects, "").Spec.MaxUnavailable.IntVal
	isMissing := func(port int32) bool { return !egress[port] }
	check(t, "cluster DNS", map[string]bool{
		"the Service's name and label":    service.Name == "kube-dns" && service.Labels["k8s-app"] == "kube-dns",
		"the pods' label":                 w.template.Labels["k8s-app"] == "kube-dns",
		"both families":                   *service.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack,
		"not root":                        *p.RunAsNonRoot && *p.RunAsUser > 0 && *p.RunAsGroup > 0,
		"the user of the image":           err == nil && strings.Contains(string(image), user),
		"unprivileged ports":              p.Sysctls[0].Value == "0",
		"one pod left after an eviction":  evicted < *deployment.Spec.Replicas,
		"all pods available in an update": deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal == 0,
		"a snapshot after a reboot":       snapshot.source.EmptyDir != nil && snapshot.source.EmptyDir.Medium == "" && !snapshot.ReadOnly,
		"the port for Prometheus":         w.template.Annotations["prometheus.io/port"] == strconv.Itoa(int(ports["TCP metrics"])),
		"egress to servers and the API":   !slices.ContainsFunc([]int32{53, 853, 443, 6443, 8443, 16443}, isMissing),
		"ingress from all":                len(network.Spec.Ingress) == 1 && len(network.Spec.Ingress[0].From) == 0,
	})
	for _, o := range base(t, "cluster-dns") {
		if _, ok := o.(*networkingv1.NetworkPolicy); ok {
			t.Error("kubectl apply -k deploy/cluster-dns creates a NetworkPolicy")
		}
	}
	for name, text := range map[string]string{"UDP dns": c.Listen[0], "TCP dns-tcp": c.Listen[0],
		"UDP dns-1053": c.Listen[1], "TCP dns-tcp-1053": c.Listen[1], "TCP metrics": c.HTTP} {
		if addr := netip.MustParseAddrPort(text); int32(addr.Port()) != ports[name] || !addr.Addr().IsUnspecified() || !addr.Addr().Is6() {
			t.Errorf("the server has %s at %s, the container's port is %d", name, addr, ports[name])
		}
	}
	allowed := map[string]int32{}
	for _, p := range network.Spec.Ingress[0].Ports {
		name := string(*p.Protocol) + " " + p.Port.StrVal
		allowed[name] = ports[name]
	}
	if !maps.Equal(allowed, ports) {
		t.Errorf("the NetworkPolicy allows %v, the container has %v", allowed, ports)
	}
}

// TestNodeCache checks the settings of the node cache that no cluster of a test needs. An address that every node has
// must not be routed to another node, and a node may have IPv6 disabled. The cluster DNS accepts the search lists of the
// endpoints of the Service: all nodes.
func TestNodeCache(t *testing.T) {
	objects := decode(t, "node-cache", manifests["node-cache"])
	set, service := the[*appsv1.DaemonSet](t, objects, ""), the[*corev1.Service](t, objects, "-node-cache")
	cache, update := configuration[v1alpha1.NodeCacheConfiguration](t, objects), set.Spec.UpdateStrategy.RollingUpdate
	c := set.Spec.Template.Spec.Containers[0]
	dualStack := *service.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack
	at := func(probe *corev1.Probe) string { return probe.HTTPGet.Host + ":" + probe.HTTPGet.Port.String() }
	check(t, set.Name, map[string]bool{
		"the copy of the node's resolv.conf in the pod":     cache.ResolvConf == nil,
		"probes at the address of the pages":                at(c.ReadinessProbe) == cache.HTTP && at(c.LivenessProbe) == cache.HTTP,
		"time to detect a failure":                          set.Spec.MinReadySeconds >= 15, // three times the command's takeOverTime
		"surge in an update":                                update.MaxSurge.IntVal == 1 && update.MaxUnavailable.IntVal == 0,
		"no host port":                                      len(c.Ports) == 0,
		"the Service from which search lists are accepted":  service.Name == "dnsconfigurer-node-cache",
		"the addresses of nodes without a ready node-cache": service.Spec.PublishNotReadyAddresses,
		"the addresses of all nodes, of both families":      service.Spec.ClusterIP == corev1.ClusterIPNone && dualStack,
		"link-local addresses of IPv4, which every node has": !slices.ContainsFunc(cache.Listen, func(listen string) bool {
			addr := netip.MustParseAddrPort(listen)
			return addr.Port() != 53 || !addr.Addr().Is4() || !addr.Addr().IsLinkLocalUnicast()
		}),
	})
	for path, m := range workloads(objects)[0].mounts(t) {
		if !m.ReadOnly || m.source.HostPath != nil {
			t.Errorf("%s is writable, or of the node", path)
		}
	}
}

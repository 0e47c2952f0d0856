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
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// clusterDNS holds the objects in cluster-dns.
type clusterDNS struct {
	account    *corev1.ServiceAccount
	role       *rbacv1.ClusterRole
	binding    *rbacv1.ClusterRoleBinding
	config     *corev1.ConfigMap
	deployment *appsv1.Deployment
	budget     *policyv1.PodDisruptionBudget
	network    *networkingv1.NetworkPolicy
	service    *corev1.Service

	pod       corev1.PodSpec
	podLabels labels.Set
	container corev1.Container
	dns       v1alpha1.DNSConfiguration
}

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

func readClusterDNS(t *testing.T) clusterDNS {
	t.Helper()
	objects := decode(t, "cluster-dns", 8)
	c := clusterDNS{
		account: the[*corev1.ServiceAccount](t, objects, ""), role: the[*rbacv1.ClusterRole](t, objects, ""),
		binding: the[*rbacv1.ClusterRoleBinding](t, objects, ""), config: the[*corev1.ConfigMap](t, objects, ""),
		deployment: the[*appsv1.Deployment](t, objects, ""), budget: the[*policyv1.PodDisruptionBudget](t, objects, ""),
		network: the[*networkingv1.NetworkPolicy](t, objects, ""), service: the[*corev1.Service](t, objects, ""),
	}
	template := c.deployment.Spec.Template
	c.pod, c.podLabels, c.container = template.Spec, template.Labels, template.Spec.Containers[0]
	for file, text := range c.config.Data {
		var err error
		if c.dns, err = v1alpha1.Parse[v1alpha1.DNSConfiguration]([]byte(text)); err != nil {
			t.Fatalf("%s of the ConfigMap: %v", file, err)
		}
	}
	return c
}

// TestClusterDNS_References checks the references between the objects.
func TestClusterDNS_References(t *testing.T) {
	c := readClusterDNS(t)
	for _, o := range []metav1.Object{c.account, c.config, c.deployment, c.budget, c.network, c.service} {
		if o.GetNamespace() != "kube-system" {
			t.Errorf("%s is in %q", o.GetName(), o.GetNamespace())
		}
	}
	selectors := map[string]*metav1.LabelSelector{"Deployment": c.deployment.Spec.Selector,
		"PodDisruptionBudget": c.budget.Spec.Selector, "NetworkPolicy": &c.network.Spec.PodSelector}
	for _, spread := range c.pod.TopologySpreadConstraints {
		selectors["spread over "+spread.TopologyKey] = spread.LabelSelector
	}
	for name, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() || !selector.Matches(c.podLabels) {
			t.Errorf("%s selects %v (%v), the pods have %v", name, selector, err, c.podLabels)
		}
		// CoreDNS has this label too.
		if _, shared := s.MatchLabels["k8s-app"]; shared {
			t.Errorf("%s selects another server's pods", name)
		}
	}
	if !labels.SelectorFromSet(c.service.Spec.Selector).Matches(c.podLabels) {
		t.Errorf("the Service selects %v, the pods have %v", c.service.Spec.Selector, c.podLabels)
	}
	for _, same := range []struct{ name, got, want string }{
		{"the pods' account", c.pod.ServiceAccountName, c.account.Name},
		{"the bound account", c.binding.Subjects[0].Kind + " " + c.binding.Subjects[0].Namespace +
			"/" + c.binding.Subjects[0].Name, "ServiceAccount kube-system/" + c.account.Name},
		{"the bound role", c.binding.RoleRef.Kind + " " + c.binding.RoleRef.Name, "ClusterRole " + c.role.Name},
		// Kubelets, kubeadm and monitoring depend on these.
		{"the Service's name", c.service.Name, "kube-dns"},
		{"the Service's label", c.service.Labels["k8s-app"], "kube-dns"},
		{"the pods' label", c.podLabels["k8s-app"], "kube-dns"},
	} {
		if same.got != same.want {
			t.Errorf("%s: %q, want %q", same.name, same.got, same.want)
		}
	}
}

// TestClusterDNS_NetworkPolicy: the policy is not applied with the server, since the port of
// the API server differs between clusters. It has the ports of common ones.
func TestClusterDNS_NetworkPolicy(t *testing.T) {
	for _, o := range base(t, "cluster-dns") {
		if _, ok := o.(*networkingv1.NetworkPolicy); ok {
			t.Error("kubectl apply -k deploy/cluster-dns creates a NetworkPolicy")
		}
	}
	allowed := map[int32]bool{}
	for _, rule := range readClusterDNS(t).network.Spec.Egress {
		for _, p := range rule.Ports {
			allowed[p.Port.IntVal] = true
		}
	}
	for _, port := range []int32{53, 853, 443, 6443, 8443, 16443} {
		if !allowed[port] {
			t.Errorf("egress to port %d is not allowed", port)
		}
	}
	if policy := readClusterDNS(t).service.Spec.IPFamilyPolicy; policy == nil || *policy != corev1.IPFamilyPolicyPreferDualStack {
		t.Errorf("the Service of a new cluster has one family: %v", policy)
	}
}

// containerPorts are the ports of a container by protocol and name, such as "UDP dns".
type containerPorts map[string]int32

func (ports containerPorts) want(t *testing.T, object string, protocol corev1.Protocol, port intstr.IntOrString) {
	t.Helper()
	if _, ok := ports[string(protocol)+" "+port.StrVal]; !ok {
		t.Errorf("%s: the container has no port %s %v", object, protocol, port.String())
	}
}

// TestClusterDNS_Ports compares the ports of the container, the Service and the NetworkPolicy.
func TestClusterDNS_Ports(t *testing.T) {
	c := readClusterDNS(t)
	ports := containerPorts{}
	for _, p := range c.container.Ports {
		ports[string(p.Protocol)+" "+p.Name] = p.ContainerPort
	}
	for _, p := range c.service.Spec.Ports {
		ports.want(t, "Service", p.Protocol, p.TargetPort)
		if want := map[string]int32{"dns": 53, "dns-tcp": 53, "metrics": 9153}[p.Name]; p.Port != want {
			t.Errorf("the Service has %s at %d", p.Name, p.Port)
		}
	}
	for _, rule := range c.network.Spec.Ingress {
		for _, p := range rule.Ports {
			ports.want(t, "NetworkPolicy", *p.Protocol, *p.Port)
		}
		if len(rule.Ports) != len(ports) || len(rule.From) > 0 {
			t.Errorf("the NetworkPolicy allows %v, the container has %v", rule, ports)
		}
	}
	checkClusterDNSAddresses(t, c, ports)
}

// checkClusterDNSAddresses compares the ports of the container with the configuration, the
// probes and the annotation for Prometheus.
func checkClusterDNSAddresses(t *testing.T, c clusterDNS, ports containerPorts) {
	t.Helper()
	ports.want(t, "readiness", corev1.ProtocolTCP, c.container.ReadinessProbe.HTTPGet.Port)
	ports.want(t, "liveness", corev1.ProtocolTCP, c.container.LivenessProbe.HTTPGet.Port)

	checkReadinessTimeout(t, c.container)
	for name, text := range map[string]string{"UDP dns": c.dns.Listen[0], "TCP dns-tcp": c.dns.Listen[0],
		"UDP dns-1053": c.dns.Listen[1], "TCP dns-tcp-1053": c.dns.Listen[1], "TCP metrics": c.dns.HTTP} {
		if addr := netip.MustParseAddrPort(text); int32(addr.Port()) != ports[name] || !addr.Addr().IsUnspecified() || !addr.Addr().Is6() {
			t.Errorf("the server has %s at %s, the container's port is %d", name, addr, ports[name])
		}
	}
	annotations := c.deployment.Spec.Template.Annotations
	if got, want := annotations["prometheus.io/port"], strconv.Itoa(int(ports["TCP metrics"])); got != want {
		t.Errorf("the annotation for Prometheus has port %s, want %s", got, want)
	}
}

// TestClusterDNS_Files compares the paths in the arguments, the configuration and the volumes.
func TestClusterDNS_Files(t *testing.T) {
	c := readClusterDNS(t)
	mounts := mounts(t, c.pod)
	file := c.container.Args[slices.Index(c.container.Args, "--config")+1]
	source := mounts[path.Dir(file)].source.ConfigMap
	if source == nil || source.Name != c.config.Name || c.config.Data[path.Base(file)] == "" {
		t.Errorf("%s is not in a volume of the ConfigMap: %v, files %v", file, source, slices.Collect(maps.Keys(c.config.Data)))
	}
	snapshot := mounts[path.Dir(c.dns.Snapshot)]
	if dir := snapshot.source.EmptyDir; dir == nil || dir.Medium != "" || snapshot.ReadOnly {
		t.Errorf("%s is in %v, which does not survive a reboot", c.dns.Snapshot, snapshot)
	}
}

// TestClusterDNS_Restrictions checks the user of the pod, and the settings that keep it running.
func TestClusterDNS_Restrictions(t *testing.T) {
	c := readClusterDNS(t)
	p := c.pod.SecurityContext
	checkRestrictions(t, "cluster DNS", c.pod, map[string]bool{
		"not root":                        *p.RunAsNonRoot && *p.RunAsUser > 0 && *p.RunAsGroup > 0,
		"unprivileged ports":              p.Sysctls[0].Value == "0",
		"priority class":                  c.pod.PriorityClassName == "system-cluster-critical",
		"one pod left after an eviction":  c.budget.Spec.MaxUnavailable.IntVal < *c.deployment.Spec.Replicas,
		"all pods available in an update": c.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal == 0,
	})
	if text, err := os.ReadFile("../release/image.go"); err != nil ||
		!strings.Contains(string(text), fmt.Sprintf("imageUser = \"%d:%d\"", *p.RunAsUser, *p.RunAsGroup)) {
		t.Errorf("the user of the image is not %d (%v)", *p.RunAsUser, err)
	}
}

// checkReadinessTimeout checks that a reply that takes seconds, as on an overloaded node, does not
// remove a pod from its Service.
func checkReadinessTimeout(t *testing.T, c corev1.Container) {
	t.Helper()
	if got := c.ReadinessProbe.TimeoutSeconds; got != 5 {
		t.Errorf("%s: the readiness probe has timeoutSeconds %d, want 5", c.Name, got)
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// Snapshot is what is known of a cluster. The zero value is a cluster where everything was
// read and which is empty.
type Snapshot struct {
	Services    []corev1.Service
	Slices      []discoveryv1.EndpointSlice
	Pods        []corev1.Pod
	Nodes       []corev1.Node
	Namespaces  []corev1.Namespace
	Events      []corev1.Event // of the kubelets, about DNS and sandboxes
	Deployments []appsv1.Deployment
	DaemonSets  []appsv1.DaemonSet
	Networks    []networkingv1.NetworkPolicy

	Policies   []admissionv1.ValidatingAdmissionPolicy
	Bindings   []admissionv1.ValidatingAdmissionPolicyBinding
	Validating []admissionv1.ValidatingWebhookConfiguration
	Mutating   []admissionv1.MutatingWebhookConfiguration

	// ConfigMaps are kube-system/kubelet-config and those that the pods of the cluster DNS and of node caches
	// mount.
	ConfigMaps []corev1.ConfigMap

	Probes []v1alpha1.DoctorProbe

	// Kubelets and PodFile need permissions that reading does not need; empty unless the user allows it.
	Kubelets []Kubelet
	PodFile  *string // the /etc/resolv.conf of the pod of the scope
	Clients  []ClientSource
	Names    bool // findings may have names that clients ask for

	OwnFile string // the /etc/resolv.conf of this process

	// Container is the ephemeral container that was added to the pod of the scope, or may have been: the request had no
	// reply; "": none.
	Container string

	// Unread has the reasons why objects or probes are missing above. A kind with a missing part
	// is unread, too: absence does not follow from a part.
	Unread map[Kind]string

	// UnreadConfigMaps has the reasons why some of the ConfigMaps above are missing. Unread has
	// ConfigMaps only if none was read.
	UnreadConfigMaps map[types.NamespacedName]string

	// ClusterDomain overrides the domain of kubelet-config; "": that one, or the default.
	ClusterDomain string

	Scope Scope
}

// Kind is a kind of the content of a Snapshot, named as the API's resources.
type Kind string

// The kinds.
const (
	Services    Kind = "services"
	Slices      Kind = "endpointslices"
	Pods        Kind = "pods"
	Nodes       Kind = "nodes"
	Namespaces  Kind = "namespaces"
	Events      Kind = "events"
	Deployments Kind = "deployments"
	DaemonSets  Kind = "daemonsets"
	Networks    Kind = "networkpolicies"
	Policies    Kind = "validatingadmissionpolicies"
	Bindings    Kind = "validatingadmissionpolicybindings"
	Validating  Kind = "validatingwebhookconfigurations"
	Mutating    Kind = "mutatingwebhookconfigurations"
	ConfigMaps  Kind = "configmaps"
	Probes      Kind = "probes"
	Kubelets    Kind = "nodes/proxy"
	Ephemeral   Kind = "pods/ephemeralcontainers"
	Clients     Kind = "pods/portforward"
)

// Scope limits which pods and Services are checked, apart from those of the cluster DNS. The
// zero value is the whole cluster.
type Scope struct {
	Namespace string // "": all
	Node      string // "": all
	PodName   string // in Namespace; "": all
}

// Has reports whether p is in the scope.
func (s Scope) Has(p *corev1.Pod) bool {
	return s.hasNamespace(p.Namespace) && (s.Node == "" || s.Node == p.Spec.NodeName) && (s.PodName == "" || s.PodName == p.Name)
}

func (s Scope) hasNamespace(name string) bool { return s.Namespace == "" || s.Namespace == name }

// hasService reports whether Services of a namespace are in the scope.
func (s Scope) hasService(namespace string) bool {
	return s.hasNamespace(namespace) && s.Node == "" && s.PodName == ""
}

const (
	systemNamespace = "kube-system"
	dnsPort         = 53
)

// KubeletConfigMap is the ConfigMap in which kubeadm keeps the KubeletConfiguration.
var KubeletConfigMap = types.NamespacedName{Namespace: systemNamespace, Name: "kubelet-config"}

// FindDNSService returns the Service of the cluster DNS, nil if there is none. Installers name
// it kube-dns, for which other programs look; some add a label instead.
func FindDNSService(services []corev1.Service) *corev1.Service {
	best, rank := -1, 0
	for i := range services {
		if r := rankDNSService(&services[i]); r > rank {
			best, rank = i, r
		}
	}
	if best < 0 {
		return nil
	}
	return &services[best]
}

// rankDNSService returns how likely s is the cluster DNS; 0: it is not.
func rankDNSService(s *corev1.Service) int {
	const upstream = "kube-dns-upstream" // what a NodeLocal DNSCache queries
	switch {
	case s.Name == upstream || s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone:
		return 0
	case s.Namespace == systemNamespace && s.Name == "kube-dns":
		return 5
	case s.Namespace == "openshift-dns" && s.Name == "dns-default":
		return 4
	case s.Namespace == systemNamespace && s.Labels["k8s-app"] == "kube-dns":
		return 3
	case s.Namespace == systemNamespace && (s.Name == "coredns" || s.Labels["app.kubernetes.io/name"] == "coredns"):
		return 2
	}
	return 0
}

// DNSPods returns the pods that the Service of the cluster DNS selects.
func DNSPods(service *corev1.Service, pods []corev1.Pod) (list []*corev1.Pod) {
	if service == nil || len(service.Spec.Selector) == 0 {
		return nil
	}
	for i := range pods {
		p := &pods[i]
		if p.Namespace == service.Namespace && selects(service.Spec.Selector, p.Labels) && !hasEnded(p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// NodeCaches returns the DaemonSets that are node caches.
func NodeCaches(s *Snapshot) []appsv1.DaemonSet {
	return slices.DeleteFunc(slices.Clone(s.DaemonSets), func(d appsv1.DaemonSet) bool { return !isNodeCache(&d) })
}

// certificateConfigMaps are the ConfigMaps that Kubernetes and OpenShift mount into each pod, beside the
// token of its service account.
var certificateConfigMaps = []string{"kube-root-ca.crt", "openshift-service-ca.crt"}

// MountedConfigMaps returns the ConfigMaps that a pod in a namespace mounts, except those of
// certificates that every pod mounts.
func MountedConfigMaps(namespace string, pod *corev1.PodSpec) (names []types.NamespacedName) {
	add := func(name string) { names = append(names, types.NamespacedName{Namespace: namespace, Name: name}) }
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil {
			add(v.ConfigMap.Name)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil && !slices.Contains(certificateConfigMaps, s.ConfigMap.Name) {
				add(s.ConfigMap.Name)
			}
		}
	}
	return names
}

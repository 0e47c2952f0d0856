// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// FromPod returns the parts of pod that affect its DNS and its host name. It sets no
// defaults: pod is as the kubelet receives it.
func FromPod(pod *corev1.Pod) policy.Pod {
	p := policy.Pod{
		Namespace:        pod.Namespace,
		Name:             pod.Name,
		UID:              string(pod.UID),
		Labels:           pod.Labels,
		Policy:           policy.Policy(pod.Spec.DNSPolicy),
		Override:         policy.Policy(pod.Annotations[policy.OverrideAnnotation]),
		HostNetwork:      pod.Spec.HostNetwork,
		Windows:          IsWindows(&pod.Spec),
		Hostname:         pod.Spec.Hostname,
		Subdomain:        pod.Spec.Subdomain,
		HostnameOverride: pod.Spec.HostnameOverride,

		SetHostnameAsFQDN: ptr.Deref(pod.Spec.SetHostnameAsFQDN, false),
	}
	for _, ip := range pod.Status.PodIPs { // a new pod has none yet
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			p.IPs = append(p.IPs, a)
		}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		p.Config = &policy.DNSConfig{Nameservers: c.Nameservers, Searches: c.Searches}
		if len(c.Options) > 0 {
			p.Config.Options = make([]policy.Option, 0, len(c.Options))
		}
		for _, o := range c.Options {
			p.Config.Options = append(p.Config.Options, policy.Option{Name: o.Name, Value: ptr.Deref(o.Value, "")})
		}
	}
	return p
}

// Controller returns the kind and the name of the object whose template o has, such as DaemonSet and agent; "": none. Of a
// pod of a Deployment it is the Deployment instead of its ReplicaSet.
func Controller(o metav1.Object) (kind, name string) {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return "", ""
	}
	// A Deployment names its ReplicaSets after itself and the hash in this label.
	if hash := o.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]; owner.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return "Deployment", name
		}
	}
	return owner.Kind, owner.Name
}

// IsWindows reports whether a pod is for Windows nodes: by spec.os, or by the node selector or
// required node affinity that pods had before spec.os and still need for the scheduler.
func IsWindows(spec *corev1.PodSpec) bool {
	if spec.OS != nil && spec.OS.Name == corev1.Windows || spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows) {
		return true
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required != nil && len(required.NodeSelectorTerms) > 0 && !slices.ContainsFunc(required.NodeSelectorTerms, allowsOther)
}

// allowsOther reports whether a term matches nodes without Windows. A node must match one term.
func allowsOther(term corev1.NodeSelectorTerm) bool {
	return !slices.ContainsFunc(term.MatchExpressions, requiresWindows)
}

func requiresWindows(r corev1.NodeSelectorRequirement) bool {
	return r.Key == corev1.LabelOSStable && r.Operator == corev1.NodeSelectorOpIn &&
		len(r.Values) == 1 && r.Values[0] == string(corev1.Windows)
}

// SetDefaults sets the API's defaults for the fields of spec that affect DNS.
func SetDefaults(spec *corev1.PodSpec) {
	if spec.DNSPolicy == "" {
		spec.DNSPolicy = corev1.DNSClusterFirst
	}
}

// ConfigSourceAnnotation is set by the kubelet on every pod that it runs and names the
// pod's source: "api", or "file" or "http" for a static pod.
const ConfigSourceAnnotation = "kubernetes.io/config.source"

// StaticPod returns the pod that the kubelet of node creates from a manifest in its
// static pod directory (pkg/kubelet/config): the node's name in lower case is appended to
// the pod's name, an empty namespace becomes default, and the API's defaults are set. A
// pod that already has ConfigSourceAnnotation is returned as it is.
func StaticPod(manifest *corev1.Pod, node string) *corev1.Pod {
	if manifest.Annotations[ConfigSourceAnnotation] != "" {
		return manifest
	}
	pod := manifest.DeepCopy()
	assignToNode(pod, node)
	return pod
}

// ParseStaticPod parses a file of the static pod directory and returns the pod that the
// kubelet of node creates from it. Like the kubelet it reads one pod, from the first
// document, and ignores unknown fields: the kubelet may be newer.
func ParseStaticPod(data []byte, node string) (*corev1.Pod, error) {
	text, err := document.LenientJSON(data)
	if err != nil {
		return nil, err
	}
	var t objectType
	if err := document.Decode(text, &t); err != nil {
		return nil, fmt.Errorf("not a Kubernetes object: %w", err)
	}
	if t != (objectType{"v1", "Pod"}) {
		return nil, fmt.Errorf("unsupported type %q: the kubelet accepts only v1 Pod", t)
	}
	pod := new(corev1.Pod)
	if err := document.Decode(text, pod); err != nil {
		return nil, err
	}
	if pod.Name == "" {
		return nil, errors.New("metadata.name is missing")
	}
	assignToNode(pod, node)
	return pod, nil
}

func assignToNode(pod *corev1.Pod, node string) {
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = node
	SetDefaults(&pod.Spec)
}

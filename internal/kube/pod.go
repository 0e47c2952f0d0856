// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
		IPs:              podIPs(pod),
		Policy:           policy.Policy(pod.Spec.DNSPolicy),
		Override:         policy.Policy(pod.Annotations[policy.OverrideAnnotation]),
		HostNetwork:      pod.Spec.HostNetwork,
		Windows:          IsWindows(&pod.Spec),
		Hostname:         pod.Spec.Hostname,
		Subdomain:        pod.Spec.Subdomain,
		HostnameOverride: pod.Spec.HostnameOverride,
	}
	if fqdn := pod.Spec.SetHostnameAsFQDN; fqdn != nil {
		p.SetHostnameAsFQDN = *fqdn
	}
	if c := pod.Spec.DNSConfig; c != nil {
		p.Config = &policy.DNSConfig{Nameservers: c.Nameservers, Searches: c.Searches}
		if len(c.Options) > 0 {
			p.Config.Options = make([]policy.Option, 0, len(c.Options))
		}
		for _, o := range c.Options {
			option := policy.Option{Name: o.Name}
			if o.Value != nil {
				option.Value = *o.Value
			}
			p.Config.Options = append(p.Config.Options, option)
		}
	}
	return p
}

// podIPs returns the addresses of a pod that has run: a new one has none yet.
func podIPs(pod *corev1.Pod) (ips []netip.Addr) {
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			ips = append(ips, a)
		}
	}
	return ips
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

// allowsOther reports whether a term, one of those of which a node must match one, matches
// nodes without Windows.
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

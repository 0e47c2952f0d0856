// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// maxLines is the number of objects of a list that a finding has as evidence. It is below the
// limit of excerpt.List, which leaves room for a line before them and the number of the others.
const maxLines = excerpt.MaxEntries - 2

// label is a label of a pod in a namespace. Without a key it means all pods.
type label struct{ namespace, key, value string }

// rarestLabel returns the label of a selector that the fewest pods have; without labels, the zero
// label of the namespace.
func (v *view) rarestLabel(namespace string, selector map[string]string) label {
	rarest := label{namespace: namespace}
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		l := label{namespace, key, selector[key]}
		if rarest.key == "" || len(v.byLabel[l]) < len(v.byLabel[rarest]) {
			rarest = l
		}
	}
	return rarest
}

// selection is what a selector matches: as much as the checks need, because selectors and pods
// have the same author, who can let every one of 50,000 selectors match as many pods.
type selection struct {
	ready bool          // one of the pods is ready; the others are not counted then
	pods  int           // matched
	first []*corev1.Pod // at most maxLines
}

// indexPods indexes the pods that have not ended by their labels.
func (v *view) indexPods() {
	v.byLabel, v.selections = map[label][]*corev1.Pod{}, map[string]*selection{}
	for namespace, pods := range v.byNamespace {
		for _, p := range pods {
			for key, value := range p.Labels {
				l := label{namespace, key, value}
				v.byLabel[l] = append(v.byLabel[l], p)
			}
		}
	}
}

// selection returns what the selector of a Service matches, which must not be empty. Equal
// selectors are matched once, against the pods with their rarest label.
func (v *view) selection(s *corev1.Service) *selection {
	if v.byLabel == nil {
		v.indexPods()
	}
	key := s.Namespace + "/" + labels(s.Spec.Selector)
	if known := v.selections[key]; known != nil {
		return known
	}
	result := &selection{}
	for _, p := range v.byLabel[v.rarestLabel(s.Namespace, s.Spec.Selector)] {
		if result.ready || v.isLate() {
			break
		}
		if selects(s.Spec.Selector, p.Labels) {
			result.add(p)
		}
	}
	v.selections[key] = result
	return result
}

func (s *selection) add(p *corev1.Pod) {
	s.ready = s.ready || isReady(p)
	if s.pods++; len(s.first) < maxLines {
		s.first = append(s.first, p)
	}
}

// moreLine appends the number of the objects that have no line.
func moreLine(lines []string, all, listed int) []string {
	if all > listed {
		lines = append(lines, fmt.Sprintf("and %d more", all-listed))
	}
	return lines
}

// networkPolicy is a NetworkPolicy with its parsed selector, and which protocols it permits to
// the cluster DNS, which is the same for all pods that it selects.
type networkPolicy struct {
	*networkingv1.NetworkPolicy
	selector k8slabels.Selector
	permits  map[corev1.Protocol]bool // nil: not known yet
}

// indexNetworks parses the selectors of the NetworkPolicies, and indexes them by a label that
// they need. A selector that is invalid selects nothing.
func (v *view) indexNetworks() {
	if v.byLabel == nil {
		v.indexPods()
	}
	v.networks = map[label][]*networkPolicy{}
	for i := range v.Networks {
		n := &v.Networks[i]
		selector, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
		if v.isLate() || err != nil {
			continue
		}
		l := v.rarestLabel(n.Namespace, n.Spec.PodSelector.MatchLabels)
		v.networks[l] = append(v.networks[l], &networkPolicy{NetworkPolicy: n, selector: selector})
	}
}

// policiesOf yields the NetworkPolicies with rules in a direction that select a pod.
func (v *view) policiesOf(p *corev1.Pod, direction networkingv1.PolicyType, yield func(*networkPolicy) bool) {
	if v.networks == nil {
		v.indexNetworks()
	}
	needed := []label{{namespace: p.Namespace}}
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		needed = append(needed, label{p.Namespace, key, p.Labels[key]})
	}
	for _, l := range needed {
		for _, n := range v.networks[l] {
			if v.isLate() {
				return
			}
			if slices.Contains(n.Spec.PolicyTypes, direction) && n.selector.Matches(k8slabels.Set(p.Labels)) && !yield(n) {
				return
			}
		}
	}
}

// permitted is what the NetworkPolicies that select a pod permit it.
type permitted struct {
	udp, tcp bool
	policies int
	first    []*networkPolicy // at most maxLines
}

func (p *permitted) add(n *networkPolicy) {
	if p.policies++; len(p.first) < maxLines {
		p.first = append(p.first, n)
	}
}

// egress returns what the NetworkPolicies with egress rules permit a pod. The others are not
// counted once both protocols are permitted.
func (v *view) egress(p *corev1.Pod) (result permitted) {
	v.policiesOf(p, networkingv1.PolicyTypeEgress, func(n *networkPolicy) bool {
		result.add(n)
		if n.permits == nil {
			n.permits = map[corev1.Protocol]bool{
				corev1.ProtocolUDP: v.permitsEgress(n.NetworkPolicy, corev1.ProtocolUDP),
				corev1.ProtocolTCP: v.permitsEgress(n.NetworkPolicy, corev1.ProtocolTCP),
			}
		}
		result.udp = result.udp || n.permits[corev1.ProtocolUDP]
		result.tcp = result.tcp || n.permits[corev1.ProtocolTCP]
		return !result.udp || !result.tcp
	})
	return result
}

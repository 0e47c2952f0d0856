// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// networkNeeds are the needs of checks about NetworkPolicies between pods and the cluster DNS. Policies are
// enforced behind the address of a Service: they see the address and the port of the pod.
func networkNeeds() []need {
	return []need{needDNS, read(Networks, Pods, Namespaces, Slices), needEndpoints}
}

func findDenied(v *view) []hit {
	return slices.Concat(v.deniedEgress(corev1.ProtocolUDP), findDeniedIngress(v), findDeniedServers(v))
}

// findDeniedServers returns a pod of the cluster DNS to which NetworkPolicies permit no egress at all.
func findDeniedServers(v *view) []hit {
	for _, p := range v.dnsPods {
		var evidence []string
		permits := false
		v.policiesOf(p, networkingv1.PolicyTypeEgress, func(n *networkPolicy) bool {
			permits = permits || len(n.Spec.Egress) > 0
			evidence = append(evidence, fmt.Sprintf("NetworkPolicy %s/%s selects the pod: 0 egress rules", n.Namespace, n.Name))
			return !permits && len(evidence) < maxLines
		})
		if len(evidence) > 0 && !permits {
			return []hit{found(podObject(p), "NetworkPolicies deny it the API server and the upstream servers", evidence...)}
		}
	}
	return nil
}

func findDeniedTCP(v *view) []hit { return v.deniedEgress(corev1.ProtocolTCP) }

// needEndpoints are endpoints of the cluster DNS with the right ports, and their pods, which the peers
// of a policy select; their absence is a finding of its own.
func needEndpoints(v *view) (string, bool) {
	return "", len(v.endpoints) > 0 && len(v.dnsPods) > 0 && len(v.closedPorts(v.dns)) == 0
}

// matches reports whether a selector selects labels; nil selects nothing.
func matches(s *metav1.LabelSelector, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(k8slabels.Set(set))
}

// deniedEgress returns the pods that cannot query the cluster DNS over a protocol. A pod that
// cannot do so over UDP has no finding for TCP, too.
func (v *view) deniedEgress(protocol corev1.Protocol) []hit {
	if v.denied == nil {
		v.denied = map[corev1.Protocol][]hit{}
		for _, p := range v.inScope() {
			v.addDenied(p)
		}
	}
	return v.denied[protocol]
}

func (v *view) addDenied(p *corev1.Pod) {
	needsDNS := !p.Spec.HostNetwork && p.Spec.DNSPolicy != corev1.DNSNone && p.Spec.DNSPolicy != corev1.DNSDefault
	if !needsDNS || v.dnsPodNames[p.Name] == p {
		return
	}
	egress, protocol := v.egress(p), corev1.ProtocolUDP
	if egress.policies == 0 || egress.udp && egress.tcp {
		return
	}
	if egress.udp {
		protocol = corev1.ProtocolTCP
	}
	h := found(podObject(p), fmt.Sprintf("NetworkPolicies of %s deny it the cluster DNS over %s", p.Namespace, protocol))
	for _, n := range egress.first {
		h.evidence = append(h.evidence, fmt.Sprintf("NetworkPolicy %s/%s selects the pod: %d egress rules, none permits %s to %s",
			n.Namespace, n.Name, len(n.Spec.Egress), protocol, v.endpointText(protocol)))
	}
	h.evidence = moreLine(h.evidence, egress.policies, len(egress.first))
	v.denied[protocol] = append(v.denied[protocol], h)
}

// port returns the port for a protocol. If the Service does not have it, which is a finding of
// its own, the port of the other protocol is likely.
func (e endpoint) port(protocol corev1.Protocol) int32 {
	if protocol == corev1.ProtocolUDP {
		return cmp.Or(e.udp, e.tcp)
	}
	return cmp.Or(e.tcp, e.udp)
}

func (v *view) endpointText(protocol corev1.Protocol) string {
	return netip.AddrPortFrom(v.endpoints[0].addr, uint16(v.endpoints[0].port(protocol))).String()
}

// permitsEgress reports whether a policy permits queries to an endpoint of the cluster DNS, or
// to the node cache. One that a network plugin enforces before the address of the Service is
// translated would permit port 53 of this address.
func (v *view) permitsEgress(n *networkingv1.NetworkPolicy, protocol corev1.Protocol) bool {
	for _, rule := range n.Spec.Egress {
		if v.isLate() {
			return false
		}
		for _, e := range v.endpoints {
			if v.permitsPort(rule.Ports, protocol, e) && v.permitsPeer(rule.To, n.Namespace, e.addr, v.dnsPod(e)) {
				return true
			}
		}
		if v.permitsNodeCache(rule, protocol) {
			return true
		}
	}
	return false
}

func (v *view) permitsNodeCache(rule networkingv1.NetworkPolicyEgressRule, protocol corev1.Protocol) bool {
	for _, a := range v.clusterDNS {
		cache := endpoint{addr: a, udp: dnsPort, tcp: dnsPort}
		if a.IsLinkLocalUnicast() && v.permitsPort(rule.Ports, protocol, cache) && v.permitsPeer(rule.To, "", a, nil) {
			return true
		}
	}
	return false
}

// dnsPod returns the pod of an endpoint. If the endpoint does not name one, it is like the
// others that the Service selects.
func (v *view) dnsPod(e endpoint) *corev1.Pod {
	if p := v.dnsPodNames[e.pod]; p != nil {
		return p
	}
	return v.dnsPods[0]
}

// permitsPort reports whether the ports of a rule include that of an endpoint; none: all.
func (v *view) permitsPort(ports []networkingv1.NetworkPolicyPort, protocol corev1.Protocol, e endpoint) bool {
	if len(ports) == 0 {
		return true
	}
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		own := corev1.ProtocolTCP
		if p.Protocol != nil {
			own = *p.Protocol
		}
		switch {
		case own != protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.StrVal != "":
			return v.namedPort(e, p.Port.StrVal, protocol)
		case p.EndPort != nil:
			return p.Port.IntVal <= e.port(protocol) && e.port(protocol) <= *p.EndPort
		}
		return p.Port.IntVal == e.port(protocol)
	})
}

// namedPort reports whether a port of this name in the pod of an endpoint is its DNS port.
func (v *view) namedPort(e endpoint, name string, protocol corev1.Protocol) bool {
	for _, c := range v.dnsPod(e).Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == name && port.ContainerPort == e.port(protocol) {
				return true
			}
		}
	}
	return false
}

// permitsPeer reports whether the peers of a rule include an address and the pod that has it;
// none: all. namespace is that of the policy.
func (v *view) permitsPeer(peers []networkingv1.NetworkPolicyPeer, namespace string, addr netip.Addr, p *corev1.Pod) bool {
	if len(peers) == 0 {
		return true
	}
	return slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		switch {
		case peer.IPBlock != nil:
			return blockContains(peer.IPBlock, addr)
		case p == nil:
			return false
		case peer.NamespaceSelector == nil && p.Namespace != namespace:
			return false
		case peer.NamespaceSelector != nil && !matches(peer.NamespaceSelector, v.namespaceLabels(p.Namespace)):
			return false
		}
		return peer.PodSelector == nil || matches(peer.PodSelector, p.Labels)
	})
}

func blockContains(b *networkingv1.IPBlock, addr netip.Addr) bool {
	contains := func(cidr string) bool {
		p, err := netip.ParsePrefix(cidr)
		return err == nil && p.Contains(addr)
	}
	return contains(b.CIDR) && !slices.ContainsFunc(b.Except, contains)
}

// namespaceLabels returns the labels of a namespace. Every one has its name as a label.
func (v *view) namespaceLabels(name string) map[string]string {
	set := map[string]string{corev1.LabelMetadataName: name}
	if n := v.namespaces[name]; n != nil {
		maps.Copy(set, n.Labels)
	}
	return set
}

func findDeniedIngress(v *view) []hit {
	for _, e := range v.endpoints {
		p := v.dnsPod(e)
		var list permitted
		isOpen := false
		v.policiesOf(p, networkingv1.PolicyTypeIngress, func(n *networkPolicy) bool {
			list.add(n)
			isOpen = v.permitsIngress(n.NetworkPolicy, e)
			return !isOpen
		})
		if list.policies == 0 || isOpen {
			continue
		}
		h := found(podObject(p), "NetworkPolicies permit no queries of other namespaces")
		for _, n := range list.first {
			h.evidence = append(h.evidence,
				fmt.Sprintf("NetworkPolicy %s/%s selects the pod: %d ingress rules", n.Namespace, n.Name, len(n.Spec.Ingress)))
		}
		h.evidence = moreLine(h.evidence, list.policies, len(list.first))
		return []hit{h}
	}
	return nil
}

// permitsIngress reports whether a policy permits queries of some other namespace, or of
// addresses.
func (v *view) permitsIngress(n *networkingv1.NetworkPolicy, e endpoint) bool {
	return slices.ContainsFunc(n.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
		return v.permitsPort(rule.Ports, corev1.ProtocolUDP, e) && (len(rule.From) == 0 ||
			slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool {
				return p.IPBlock != nil || p.NamespaceSelector != nil
			}))
	})
}

// maxLines is the number of objects of a list that a finding has as evidence. It is below the
// limit of excerpt.List, which leaves room for a line before them and the number of the others.
const maxLines = excerpt.MaxEntries - 2

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

// indexNetworks parses the selectors of the NetworkPolicies. A selector that is invalid selects nothing.
func (v *view) indexNetworks() {
	v.networks = map[string][]*networkPolicy{}
	for i := range v.Networks {
		n := &v.Networks[i]
		if selector, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector); err == nil {
			v.networks[n.Namespace] = append(v.networks[n.Namespace], &networkPolicy{NetworkPolicy: n, selector: selector})
		}
	}
}

// policiesOf yields the NetworkPolicies with rules in a direction that select a pod.
func (v *view) policiesOf(p *corev1.Pod, direction networkingv1.PolicyType, yield func(*networkPolicy) bool) {
	if v.networks == nil {
		v.indexNetworks()
	}
	for _, n := range v.networks[p.Namespace] {
		if v.isLate() {
			return
		}
		if slices.Contains(n.Spec.PolicyTypes, direction) && n.selector.Matches(k8slabels.Set(p.Labels)) && !yield(n) {
			return
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func findDenied(v *view) []hit {
	return slices.Concat(v.deniedEgress(corev1.ProtocolUDP), findDeniedIngress(v), findDeniedServers(v), v.deniedEgress(corev1.ProtocolTCP))
}

// findDeniedServers returns a pod of the cluster DNS to which NetworkPolicies permit no egress at all.
func findDeniedServers(v *view) []hit {
	for _, p := range v.dnsPods {
		list, permits := permitted{}, false
		for n := range v.policiesOf(p, networkingv1.PolicyTypeEgress) {
			list.add(n)
			permits = permits || len(n.Spec.Egress) > 0
		}
		if list.policies > 0 && !permits {
			return []hit{found(podObject(p), "NetworkPolicies deny it the API server and the upstream servers",
				list.lines(func(*networkPolicy) string { return "0 egress rules" })...)}
		}
	}
	return nil
}

// needEndpoints are endpoints of the cluster DNS with the right ports, and their pods, which the peers of a policy select;
// their absence is a finding of its own. Policies are enforced behind the address of a Service: they see the address and
// the port of the pod.
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
func (v *view) deniedEgress(protocol corev1.Protocol) (hits []hit) {
	at := netip.AddrPortFrom(v.endpoints[0].addr, uint16(v.endpoints[0].port(protocol)))
	for _, p := range v.inScope() {
		needsDNS := !p.Spec.HostNetwork && p.Spec.DNSPolicy != corev1.DNSNone && p.Spec.DNSPolicy != corev1.DNSDefault
		if !needsDNS || v.dnsPodNames[p.Name] == p {
			continue
		}
		egress := v.egress(p)
		isDenied := !egress.udp
		if protocol == corev1.ProtocolTCP {
			isDenied = egress.udp && !egress.tcp
		}
		if egress.policies == 0 || !isDenied {
			continue
		}
		h := found(podObject(p), fmt.Sprintf("NetworkPolicies of %s deny it the cluster DNS over %s", p.Namespace, protocol),
			egress.lines(func(n *networkPolicy) string {
				return fmt.Sprintf("%d egress rules, none permits %s to %s", len(n.Spec.Egress), protocol, at)
			})...)
		if protocol == corev1.ProtocolTCP {
			h.severity = policy.SeverityWarning
			h.cause = "lookups with large replies fail: the reply over UDP is truncated, and the query over TCP is dropped"
		}
		hits = append(hits, h)
	}
	return hits
}

// port returns the port for a protocol. If the Service does not have it, which is a finding of
// its own, the port of the other protocol is likely.
func (e endpoint) port(protocol corev1.Protocol) int32 {
	if protocol == corev1.ProtocolUDP {
		return cmp.Or(e.udp, e.tcp)
	}
	return cmp.Or(e.tcp, e.udp)
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
		for _, a := range v.clusterDNS {
			cache := endpoint{addr: a, udp: dnsPort, tcp: dnsPort}
			if a.IsLinkLocalUnicast() && v.permitsPort(rule.Ports, protocol, cache) && v.permitsPeer(rule.To, "", a, nil) {
				return true
			}
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
		switch {
		case ptr.Deref(p.Protocol, corev1.ProtocolTCP) != protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.StrVal != "": // the name of the DNS port of the pod
			return slices.ContainsFunc(v.dnsPod(e).Spec.Containers, func(c corev1.Container) bool {
				return slices.ContainsFunc(c.Ports, func(own corev1.ContainerPort) bool {
					return own.Name == p.Port.StrVal && own.ContainerPort == e.port(protocol)
				})
			})
		case p.EndPort != nil:
			return p.Port.IntVal <= e.port(protocol) && e.port(protocol) <= *p.EndPort
		}
		return p.Port.IntVal == e.port(protocol)
	})
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
			contains := func(cidr string) bool {
				block, err := netip.ParsePrefix(cidr)
				return err == nil && block.Contains(addr)
			}
			return contains(peer.IPBlock.CIDR) && !slices.ContainsFunc(peer.IPBlock.Except, contains)
		case p == nil:
			return false
		case peer.NamespaceSelector == nil && p.Namespace != namespace:
			return false
		case peer.NamespaceSelector != nil:
			set := map[string]string{corev1.LabelMetadataName: p.Namespace} // every one has its name as a label
			if n := v.namespaces[p.Namespace]; n != nil {
				maps.Copy(set, n.Labels)
			}
			if !matches(peer.NamespaceSelector, set) {
				return false
			}
		}
		return peer.PodSelector == nil || matches(peer.PodSelector, p.Labels)
	})
}

// findDeniedIngress returns a pod of the cluster DNS to which NetworkPolicies permit queries neither of some other
// namespace nor of addresses.
func findDeniedIngress(v *view) []hit {
	for _, e := range v.endpoints {
		list, isOpen := permitted{}, false
		for n := range v.policiesOf(v.dnsPod(e), networkingv1.PolicyTypeIngress) {
			list.add(n)
			isOpen = isOpen || slices.ContainsFunc(n.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
				isOther := func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock != nil || p.NamespaceSelector != nil }
				return v.permitsPort(rule.Ports, corev1.ProtocolUDP, e) && (len(rule.From) == 0 || slices.ContainsFunc(rule.From, isOther))
			})
		}
		if list.policies > 0 && !isOpen {
			return []hit{found(podObject(v.dnsPod(e)), "NetworkPolicies permit no queries of other namespaces",
				list.lines(func(n *networkPolicy) string { return fmt.Sprintf("%d ingress rules", len(n.Spec.Ingress)) })...)}
		}
	}
	return nil
}

// maxLines is the number of objects of a list that a finding has as evidence. It is below the
// limit of excerpt.List, which leaves room for a line before them and the number of the others.
const maxLines = excerpt.MaxEntries - 2

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

// indexNetworks returns the NetworkPolicies by namespace. A selector that is invalid selects nothing.
func indexNetworks(list []networkingv1.NetworkPolicy) map[string][]*networkPolicy {
	networks := map[string][]*networkPolicy{}
	for i := range list {
		n := &list[i]
		if selector, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector); err == nil {
			networks[n.Namespace] = append(networks[n.Namespace], &networkPolicy{NetworkPolicy: n, selector: selector})
		}
	}
	return networks
}

// policiesOf yields the NetworkPolicies with rules in a direction that select a pod.
func (v *view) policiesOf(p *corev1.Pod, direction networkingv1.PolicyType) iter.Seq[*networkPolicy] {
	return func(yield func(*networkPolicy) bool) {
		for _, n := range v.networks[p.Namespace] {
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

// lines returns a line for each of the first policies, and the number of the others.
func (p *permitted) lines(rules func(*networkPolicy) string) (lines []string) {
	for _, n := range p.first {
		lines = append(lines, fmt.Sprintf("NetworkPolicy %s/%s selects the pod: %s", n.Namespace, n.Name, rules(n)))
	}
	return moreLine(lines, p.policies, len(p.first))
}

// egress returns what the NetworkPolicies with egress rules permit a pod. The others are not
// counted once both protocols are permitted.
func (v *view) egress(p *corev1.Pod) (result permitted) {
	for n := range v.policiesOf(p, networkingv1.PolicyTypeEgress) {
		result.add(n)
		if n.permits == nil {
			n.permits = map[corev1.Protocol]bool{
				corev1.ProtocolUDP: v.permitsEgress(n.NetworkPolicy, corev1.ProtocolUDP),
				corev1.ProtocolTCP: v.permitsEgress(n.NetworkPolicy, corev1.ProtocolTCP),
			}
		}
		result.udp = result.udp || n.permits[corev1.ProtocolUDP]
		result.tcp = result.tcp || n.permits[corev1.ProtocolTCP]
		if result.udp && result.tcp {
			break
		}
	}
	return result
}

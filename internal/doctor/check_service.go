// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func serviceObject(s *corev1.Service) object { return object{"Service", s.Namespace, s.Name} }

func podObject(p *corev1.Pod) object { return object{"Pod", p.Namespace, p.Name} }

func findServiceMissing(v *view) []hit {
	if v.dns != nil {
		return nil
	}
	evidence := []string{fmt.Sprintf("%d Services, none named kube-dns or labelled k8s-app=kube-dns in kube-system", len(v.Services))}
	for _, a := range v.clusterDNS {
		evidence = append(evidence, "clusterDNS of the kubelets: "+a.String())
	}
	return []hit{found(object{"Service", systemNamespace, "kube-dns"}, "no Service of a cluster DNS", evidence...)}
}

func findServiceSelector(v *view) []hit {
	if len(v.foreign) > 0 {
		return []hit{found(serviceObject(v.dns), "the selector matches pods of an application, too",
			"spec.selector: "+k8slabels.Set(v.dns.Spec.Selector).String(), fmt.Sprintf("Pod %s has no port for DNS", v.foreign[0].Name),
			fmt.Sprintf("%d of %d pods have none", len(v.foreign), len(v.foreign)+len(v.dnsPods)))}
	}
	if len(v.dnsPods) > 0 || len(v.dns.Spec.Selector) == 0 {
		return nil
	}
	evidence := []string{"spec.selector: " + k8slabels.Set(v.dns.Spec.Selector).String()}
	for _, p := range v.byNamespace[v.dns.Namespace] {
		if strings.Contains(p.Name, "dns") {
			evidence = append(evidence, fmt.Sprintf("Pod %s has the labels %s", p.Name, k8slabels.Set(p.Labels).String()))
		}
	}
	return []hit{found(serviceObject(v.dns), "the selector matches no pod", evidence...)}
}

// findServiceAddress compares what pods query with the addresses at which there is a cluster DNS. A
// link-local address is served by a DNS cache on each node.
func findServiceAddress(v *view) (hits []hit) {
	source := v.kubelet.source.String() + ", clusterDNS: " + strings.Join(v.kubelet.ClusterDNS, ", ")
	if len(v.clusterDNS) == 0 {
		h := found(v.kubelet.source, "clusterDNS has no address", "clusterDNS: ["+strings.Join(v.kubelet.ClusterDNS, ", ")+"]")
		h.cause = "pods with the policy ClusterFirst get the resolv.conf of the node"
		h.next = "set clusterDNS in the KubeletConfiguration of the nodes, and in the ConfigMap kube-system/kubelet-config"
		return []hit{h}
	}
	for _, a := range v.clusterDNS {
		switch ips := v.dns.Spec.ClusterIPs; {
		case a.IsLinkLocalUnicast() && len(v.nodeCaches) == 0:
			hits = append(hits, found(v.kubelet.source, fmt.Sprintf("clusterDNS is %s, and no DaemonSet is a node cache", a),
				source, "no DaemonSet of NodeLocal DNSCache or of dnsconfigurer"))
		case !a.IsLinkLocalUnicast() && !slices.Contains(ips, a.String()) && !v.isNodeCacheAddress(a):
			hits = append(hits, found(serviceObject(v.dns), fmt.Sprintf("pods query %s, and the Service has another address", a),
				"spec.clusterIPs: "+strings.Join(ips, ", "), source))
		}
	}
	return hits
}

// findServicePort checks the ports of the DNS Service, and where all Services lead that select pods of the
// cluster DNS: node caches query others than the DNS Service, such as kube-dns-upstream.
func findServicePort(v *view) (hits []hit) {
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		var evidence []string
		has := false
		for _, p := range v.dns.Spec.Ports {
			own := cmp.Or(p.Protocol, corev1.ProtocolTCP)
			has = has || p.Port == dnsPort && own == protocol
			evidence = append(evidence, fmt.Sprintf("spec.ports: %d/%s %s", p.Port, own, p.Name))
		}
		if !has {
			hits = append(hits, found(serviceObject(v.dns), fmt.Sprintf("port 53/%s is missing", protocol), evidence...))
		}
	}
	for i := range v.Services {
		if s := &v.Services[i]; s.Namespace == v.dns.Namespace && !v.isLate() {
			hits = append(hits, v.closedPorts(s)...)
		}
	}
	return hits
}

// closedPorts compares the target ports of a Service for DNS with the ports that the pods of the cluster
// DNS declare, as far as the Service selects them. A pod that declares no port for DNS may listen anywhere.
func (v *view) closedPorts(s *corev1.Service) (hits []hit) {
	selected := slices.DeleteFunc(slices.Clone(v.dnsPods), func(p *corev1.Pod) bool {
		return len(s.Spec.Selector) == 0 || !selects(s.Spec.Selector, p.Labels)
	})
	for _, port := range s.Spec.Ports {
		protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
		if port.Port != dnsPort && protocol != corev1.ProtocolUDP && !strings.HasPrefix(port.Name, "dns") {
			continue
		}
		closed := slices.DeleteFunc(slices.Clone(selected), func(p *corev1.Pod) bool {
			declared := dnsPorts(p, protocol)
			return len(declared) == 0 || slices.Contains(declared, targetPort(p, port))
		})
		if len(closed) == 0 {
			continue
		}
		target := port.TargetPort.String()
		if port.TargetPort == (intstr.IntOrString{}) {
			target = strconv.Itoa(int(port.Port)) // the default
		}
		hits = append(hits, found(serviceObject(s), fmt.Sprintf("%d/%s has the targetPort %s, which %d of %d pods do not have",
			port.Port, protocol, target, len(closed), len(selected)),
			fmt.Sprintf("spec.ports: %d/%s, targetPort %s", port.Port, protocol, target),
			fmt.Sprintf("Pod %s has the ports %v for DNS over %s", closed[0].Name, dnsPorts(closed[0], protocol), protocol)))
	}
	return hits
}

// targetPort returns the port of a pod to which a port of a Service leads; 0: the pod does not have
// the name.
func targetPort(p *corev1.Pod, port corev1.ServicePort) int32 {
	if port.TargetPort.StrVal == "" {
		return cmp.Or(port.TargetPort.IntVal, port.Port)
	}
	for _, c := range p.Spec.Containers {
		for _, own := range c.Ports {
			if own.Name == port.TargetPort.StrVal && cmp.Or(own.Protocol, corev1.ProtocolTCP) == cmp.Or(port.Protocol, corev1.ProtocolTCP) {
				return own.ContainerPort
			}
		}
	}
	return 0
}

// dnsPorts returns the ports of a pod that are for DNS; p may be nil.
func dnsPorts(p *corev1.Pod, protocol corev1.Protocol) (ports []int32) {
	if p == nil {
		return nil
	}
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			isDNS := port.ContainerPort == dnsPort || strings.HasPrefix(port.Name, "dns")
			if isDNS && cmp.Or(port.Protocol, corev1.ProtocolTCP) == protocol {
				ports = append(ports, port.ContainerPort)
			}
		}
	}
	return ports
}

// findNotReady returns the endpoints that are not ready, or the Service if none is.
func findNotReady(v *view) (hits []hit) {
	var evidence []string // once: there may be thousands of endpoints
	isServed := false
	for _, e := range v.endpoints {
		state := "not ready"
		if e.ready {
			state, isServed = "ready", true
		}
		evidence = append(evidence, fmt.Sprintf("endpoint %s %s, pod %s, node %s", e.addr, state, e.pod, e.node))
	}
	if !isServed {
		return []hit{v.noEndpoints(evidence)}
	}
	for _, e := range v.endpoints {
		if e.ready {
			continue
		}
		o, lines := serviceObject(v.dns), evidence
		if e.pod != "" {
			o = object{"Pod", v.dns.Namespace, e.pod}
			lines = append(v.failedProbes(v.pods[o.namespace+"/"+o.name]), evidence...)
		}
		h := found(o, fmt.Sprintf("the endpoint %s of the DNS Service is not ready", e.addr), lines...)
		h.severity, h.cause = policy.SeverityWarning, "the other endpoints serve all queries"
		hits = append(hits, h)
	}
	return hits
}

// noEndpoints returns the hit of a Service without a ready endpoint.
func (v *view) noEndpoints(evidence []string) hit {
	message := "the Service has no endpoints"
	if len(v.endpoints) > 0 {
		message = "no endpoint is ready"
	}
	for _, p := range v.dnsPods {
		evidence = append(append(evidence, podLine(p)), v.failedProbes(p)...)
	}
	if len(evidence) == 0 {
		evidence = []string{"no EndpointSlice with an address, no pod that the selector matches"}
	}
	return found(serviceObject(v.dns), message, evidence...)
}

// failedProbes returns what the kubelet says of a pod that is not ready, which may be nil: an event, or nothing.
func (v *view) failedProbes(p *corev1.Pod) []string {
	if e := v.eventOf(reasonProbe, p); e != nil {
		return eventHit(e, "").evidence
	}
	return nil
}

func podLine(p *corev1.Pod) string {
	line := fmt.Sprintf("Pod %s is %s", p.Name, p.Status.Phase)
	switch {
	case isReady(p):
		line += ", ready"
	case p.Status.Phase == corev1.PodRunning:
		line += ", not ready"
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			line += fmt.Sprintf(", container %s waits: %s", c.Name, w.Reason)
		}
	}
	return line
}

// ownPrefix begins the names of what this project installs.
const ownPrefix = "dnsconfigurer"

// findAdmissionSkipped returns the policies of this project without a binding, and its webhooks without an endpoint.
func findAdmissionSkipped(v *view) (hits []hit) {
	for i := range v.Policies {
		name := v.Policies[i].Name
		isBound := slices.ContainsFunc(v.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == name
		})
		if strings.HasPrefix(name, ownPrefix) && !isBound {
			hits = append(hits, found(object{"ValidatingAdmissionPolicy", "", name}, "it is not enforced",
				fmt.Sprintf("%d bindings, none with policyName %s", len(v.Bindings), name)))
		}
	}
	return append(hits, findWebhooks(admissionv1.Ignore)(v)...)
}

// webhook is what validating and mutating webhooks have in common.
type webhook struct {
	object  object
	name    string
	service *admissionv1.ServiceReference
	policy  *admissionv1.FailurePolicyType
	rules   []admissionv1.RuleWithOperations
}

func (v *view) webhooks() (list []webhook) {
	for _, c := range v.Validating {
		for _, w := range c.Webhooks {
			o := object{"ValidatingWebhookConfiguration", "", c.Name}
			list = append(list, webhook{o, w.Name, w.ClientConfig.Service, w.FailurePolicy, w.Rules})
		}
	}
	for _, c := range v.Mutating {
		for _, w := range c.Webhooks {
			o := object{"MutatingWebhookConfiguration", "", c.Name}
			list = append(list, webhook{o, w.Name, w.ClientConfig.Service, w.FailurePolicy, w.Rules})
		}
	}
	return list
}

// findWebhooks returns a search for webhooks with a failure policy and without an endpoint. Of the webhooks with
// the policy Ignore, only those of the project are searched.
func findWebhooks(want admissionv1.FailurePolicyType) func(*view) []hit {
	return func(v *view) (hits []hit) {
		for _, w := range v.webhooks() {
			p := ptr.Deref(w.policy, admissionv1.Fail)
			isOther := want == admissionv1.Ignore && !strings.HasPrefix(w.object.name, ownPrefix)
			if p == want && !isOther && w.service != nil && isForPods(w.rules) && !v.hasReadyEndpoint(w.service) {
				hits = append(hits, found(w.object, fmt.Sprintf("the webhook %s has no ready endpoint", w.name),
					fmt.Sprintf("failurePolicy: %s", p), fmt.Sprintf("clientConfig.service: %s/%s", w.service.Namespace, w.service.Name)))
			}
		}
		return hits
	}
}

// isForPods reports whether a webhook is called when a pod is created.
func isForPods(rules []admissionv1.RuleWithOperations) bool {
	contains := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*") || slices.Contains(list, "*/*")
	}
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		operation := slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll)
		return operation && contains(r.APIGroups, "") && contains(r.Resources, "pods")
	})
}

// hasReadyEndpoint reports whether a Service has one. An ExternalName has none, and may work.
func (v *view) hasReadyEndpoint(r *admissionv1.ServiceReference) bool {
	service := v.services[r.Namespace+"/"+r.Name]
	if service == nil {
		return false
	}
	return service.Spec.Type == corev1.ServiceTypeExternalName || slices.ContainsFunc(
		endpointsOf(service, v.Slices),
		func(e endpoint) bool { return e.ready },
	)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// serviceChecks are about the Service of the cluster DNS and its endpoints.
func serviceChecks() []Check {
	return []Check{
		{
			Code: "dns-service-missing", Severity: policy.SeverityError, What: "the cluster has no Service of a cluster DNS",
			cause: "pods have its address in their resolv.conf; without the Service no server replies there",
			next:  "kubectl -n kube-system get services; install a cluster DNS with the address of the kubelets' clusterDNS",
			needs: []need{read(Services)}, find: findServiceMissing,
		},
		{
			Code: "dns-service-selector", Severity: policy.SeverityError, What: "the DNS Service selects no pods",
			cause: "the selector of the Service and the labels of the DNS pods differ",
			next:  "kubectl -n $NS get pods --show-labels",
			needs: []need{needDNS, read(Pods)}, find: findServiceSelector,
		},
		{
			Code: "dns-service-address", Severity: policy.SeverityError,
			What:  "the kubelets give pods another DNS address than that of the Service",
			cause: "the Service was created again with another address, or clusterDNS of the kubelets is wrong",
			next: "kubectl -n kube-system get configmap kubelet-config -o yaml; " +
				"create the Service with this clusterIP, or correct clusterDNS on the nodes",
			needs: []need{needDNS, needKubelet, read(DaemonSets)}, find: findServiceAddress,
		},
		{
			Code: "dns-service-udp", Severity: policy.SeverityError, What: "the DNS Service has no port 53/UDP",
			cause: "resolvers query over UDP first",
			next:  "kubectl -n $NS edit service $NAME",
			needs: []need{needDNS}, find: func(v *view) []hit { return v.missingPort(corev1.ProtocolUDP) },
		},
		{
			Code: "dns-service-tcp", Severity: policy.SeverityError, What: "the DNS Service has no port 53/TCP",
			cause: "replies that do not fit in a UDP packet are truncated, and the client repeats the query over TCP",
			next:  "kubectl -n $NS edit service $NAME",
			needs: []need{needDNS}, find: func(v *view) []hit { return v.missingPort(corev1.ProtocolTCP) },
		},
		{
			Code: "dns-service-port", Severity: policy.SeverityError,
			What:  "a Service leads to a port that pods of the cluster DNS do not have",
			cause: "targetPort of the Service and the ports of the DNS pods differ: the endpoints are ready, and queries reach no server",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.ports}'; correct targetPort",
			needs: []need{needDNS, read(Pods)}, find: findServicePort,
		},
		{
			Code: "dns-no-endpoints", Severity: policy.SeverityError, What: "no endpoint of the DNS Service is ready",
			cause: "no pod of the cluster DNS is ready: every lookup in the cluster fails",
			next:  "kubectl -n $NS get pods -o wide; kubectl -n $NS get endpointslices -l kubernetes.io/service-name=$NAME",
			needs: []need{needDNS, read(Slices)}, find: findNoEndpoints,
		},
		{
			Code: "dns-endpoints-not-ready", Severity: policy.SeverityWarning, What: "some endpoints of the DNS Service are not ready",
			cause: "the other endpoints serve all queries",
			next:  "kubectl -n $NS describe pod $NAME",
			needs: []need{needDNS, read(Slices)}, find: findNotReady,
		},
		{
			Code: "dns-single-replica", Severity: policy.SeverityWarning, What: "one pod serves the DNS of a cluster with several nodes",
			cause: "a restart of the pod, or of its node, stops every lookup in the cluster",
			next:  "kubectl -n $NS scale deployment $NAME --replicas=2",
			needs: []need{needDNS, read(Slices, Nodes)}, find: findSingleReplica,
		},
		{
			Code: "dns-one-node", Severity: policy.SeverityWarning, What: "all pods of the cluster DNS are on one node",
			cause: "a failure of the node stops every lookup in the cluster",
			next:  "kubectl -n $NS get pods -o wide; add topologySpreadConstraints or podAntiAffinity by kubernetes.io/hostname",
			needs: []need{needDNS, read(Pods, Nodes)}, find: findOneNode,
		},
	}
}

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
	return []hit{{object: object{"Service", systemNamespace, "kube-dns"}, message: "no Service of a cluster DNS", evidence: evidence}}
}

func findServiceSelector(v *view) []hit {
	if len(v.dnsPods) > 0 || len(v.dns.Spec.Selector) == 0 {
		return nil
	}
	evidence := []string{"spec.selector: " + labels(v.dns.Spec.Selector)}
	for _, p := range v.byNamespace[v.dns.Namespace] {
		if strings.Contains(p.Name, "dns") {
			evidence = append(evidence, fmt.Sprintf("Pod %s has the labels %s", p.Name, labels(p.Labels)))
		}
	}
	return []hit{{object: serviceObject(v.dns), message: "the selector matches no pod", evidence: evidence}}
}

// labels returns labels as kubectl prints them.
func labels(m map[string]string) string {
	var list []string
	for key, value := range m {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

func findServiceAddress(v *view) (hits []hit) {
	for _, a := range v.clusterDNS {
		ips := v.dns.Spec.ClusterIPs
		if slices.Contains(ips, a.String()) || a.IsLinkLocalUnicast() || v.isNodeCacheAddress(a) {
			continue // a link-local address is a node cache's, which has checks of its own
		}
		hits = append(hits, hit{
			object: serviceObject(v.dns), message: fmt.Sprintf("pods query %s, and the Service has another address", a),
			evidence: []string{
				"spec.clusterIPs: " + strings.Join(ips, ", "),
				v.kubelet.source.String() + ", clusterDNS: " + strings.Join(v.kubelet.ClusterDNS, ", "),
			},
		})
	}
	return hits
}

// isNodeCacheAddress reports whether a is an argument of a node cache.
func (v *view) isNodeCacheAddress(a netip.Addr) bool {
	for _, d := range v.nodeCaches {
		for _, c := range d.Spec.Template.Spec.Containers {
			if strings.Contains(strings.Join(append(slices.Clone(c.Command), c.Args...), " "), a.String()) {
				return true
			}
		}
	}
	return false
}

func (v *view) missingPort(protocol corev1.Protocol) []hit {
	var evidence []string
	for _, p := range v.dns.Spec.Ports {
		own := p.Protocol
		if own == "" {
			own = corev1.ProtocolTCP
		}
		if p.Port == dnsPort && own == protocol {
			return nil
		}
		evidence = append(evidence, fmt.Sprintf("spec.ports: %d/%s %s", p.Port, own, p.Name))
	}
	return []hit{{object: serviceObject(v.dns), message: fmt.Sprintf("port 53/%s is missing", protocol), evidence: evidence}}
}

// findServicePort checks all Services that select pods of the cluster DNS: node caches query others
// than the DNS Service, such as kube-dns-upstream.
func findServicePort(v *view) (hits []hit) {
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
		first := closed[0]
		hits = append(hits, hit{
			object: serviceObject(s),
			message: fmt.Sprintf("%d/%s has the targetPort %s, which %d of %d pods do not have",
				port.Port, protocol, targetText(port), len(closed), len(selected)),
			evidence: []string{
				fmt.Sprintf("spec.ports: %d/%s, targetPort %s", port.Port, protocol, targetText(port)),
				fmt.Sprintf("Pod %s has the ports %v for DNS over %s", first.Name, dnsPorts(first, protocol), protocol),
			},
		})
	}
	return hits
}

// targetText returns the targetPort of a port of a Service, which is the port by default.
func targetText(port corev1.ServicePort) string {
	if port.TargetPort == (intstr.IntOrString{}) {
		return strconv.Itoa(int(port.Port))
	}
	return port.TargetPort.String()
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

func findNoEndpoints(v *view) []hit {
	if slices.ContainsFunc(v.endpoints, func(e endpoint) bool { return e.ready }) {
		return nil
	}
	message, evidence := "the Service has no endpoints", v.endpointLines()
	if len(v.endpoints) > 0 {
		message = "no endpoint is ready"
	}
	for _, p := range v.dnsPods {
		evidence = append(evidence, podLine(p))
	}
	if len(evidence) == 0 {
		evidence = []string{"no EndpointSlice with an address, no pod that the selector matches"}
	}
	return []hit{{object: serviceObject(v.dns), message: message, evidence: evidence}}
}

func (v *view) endpointLines() (lines []string) {
	for _, e := range v.endpoints {
		state := "not ready"
		if e.ready {
			state = "ready"
		}
		lines = append(lines, fmt.Sprintf("endpoint %s %s, pod %s, node %s", e.addr, state, e.pod, e.node))
	}
	return lines
}

// podLine describes the state of a pod in one line.
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

func findNotReady(v *view) (hits []hit) {
	if len(findNoEndpoints(v)) > 0 {
		return nil
	}
	evidence := v.endpointLines() // once: there may be thousands of endpoints
	for _, e := range v.endpoints {
		if e.ready {
			continue
		}
		o := serviceObject(v.dns)
		if e.pod != "" {
			o = object{"Pod", v.dns.Namespace, e.pod}
		}
		hits = append(
			hits,
			hit{object: o, message: fmt.Sprintf("the endpoint %s of the DNS Service is not ready", e.addr), evidence: evidence},
		)
	}
	return hits
}

func findSingleReplica(v *view) []hit {
	pods := map[string]bool{} // a pod has an address in each family
	for _, e := range v.endpoints {
		if e.ready {
			pods[cmp.Or(e.pod, e.addr.String())] = true
		}
	}
	if len(pods) != 1 || len(v.Nodes) < 2 {
		return nil
	}
	o := serviceObject(v.dns)
	if d := v.dnsDeployments(); len(d) > 0 {
		o = object{"Deployment", d[0].Namespace, d[0].Name}
	}
	return []hit{{
		object: o, message: fmt.Sprintf("one replica serves %d nodes", len(v.Nodes)),
		evidence: v.endpointLines(),
	}}
}

func findOneNode(v *view) []hit {
	nodes := map[string]bool{}
	var evidence []string
	for _, p := range v.dnsPods {
		nodes[p.Spec.NodeName] = true
		evidence = append(evidence, fmt.Sprintf("Pod %s is on node %s", p.Name, p.Spec.NodeName))
	}
	usable := 0
	for i := range v.Nodes {
		if !v.Nodes[i].Spec.Unschedulable && nodeIsReady(&v.Nodes[i]) {
			usable++
		}
	}
	if len(v.dnsPods) < 2 || len(nodes) != 1 || nodes[""] || usable < 2 {
		return nil
	}
	return []hit{{
		object:   serviceObject(v.dns),
		message:  fmt.Sprintf("all %d pods are on one node of %d", len(v.dnsPods), len(v.Nodes)),
		evidence: evidence,
	}}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const defaultDomain = "cluster.local"

// view is a snapshot with what follows from it.
type view struct {
	*Snapshot

	dns       *corev1.Service // nil: there is none
	addrs     []netip.Addr    // of dns
	dnsPods   []*corev1.Pod
	foreign   []*corev1.Pod // which dns selects, too
	endpoints []endpoint    // of dns

	running       []*kubeletFacts // kubelets, by node; empty: not read
	kubeletConfig *kubeletFacts   // of kubelet-config; nil: unknown
	kubeletErr    string          // why kubeletConfig is nil
	kubelet       *kubeletFacts   // one that runs, or kubeletConfig; nil: unknown
	clusterDNS    []netip.Addr    // of kubelet
	kubeletDomain string          // of kubelet

	corefile *corefileSource // nil: the cluster DNS has none, or it was not read
	domain   string          // of the cluster, in lower case, without final dot

	nodeCaches []appsv1.DaemonSet

	usable []v1alpha1.DoctorProbe // those of the means by which a server replied

	byNamespace map[string][]*corev1.Pod // pods that have not ended
	pods        map[string]*corev1.Pod   // all, by namespace and name
	services    map[string]*corev1.Service
	namespaces  map[string]*corev1.Namespace
	dnsPodNames map[string]*corev1.Pod // dnsPods

	networks map[string][]*networkPolicy // by namespace

	done <-chan struct{} // is closed when the time for the checks is over; nil: never
}

// isLate reports whether the time for the checks is over. What is found afterwards is a part, and
// Run does not report it.
func (v *view) isLate() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// endpoint is an endpoint of the cluster DNS.
type endpoint struct {
	addr     netip.Addr
	ready    bool
	pod      string
	node     string
	udp, tcp int32 // port; 0: none
}

func newView(s *Snapshot) *view {
	v := &view{Snapshot: s, dns: FindDNSService(s.Services), byNamespace: map[string][]*corev1.Pod{}, pods: map[string]*corev1.Pod{},
		services: map[string]*corev1.Service{}, namespaces: map[string]*corev1.Namespace{}, dnsPodNames: map[string]*corev1.Pod{}}
	for i := range s.Pods {
		p := &s.Pods[i]
		v.pods[p.Namespace+"/"+p.Name] = p
		if !hasEnded(p) {
			v.byNamespace[p.Namespace] = append(v.byNamespace[p.Namespace], p)
		}
	}
	for i := range s.Services {
		v.services[s.Services[i].Namespace+"/"+s.Services[i].Name] = &s.Services[i]
	}
	for i := range s.Namespaces {
		v.namespaces[s.Namespaces[i].Name] = &s.Namespaces[i]
	}
	for _, p := range DNSPods(v.dns, s.Pods) {
		if isForeign(p) {
			v.foreign = append(v.foreign, p)
		} else {
			v.dnsPods = append(v.dnsPods, p)
		}
	}
	if len(v.dnsPods) == 0 {
		v.dnsPods, v.foreign = v.foreign, nil
	}
	for _, p := range v.dnsPods {
		v.dnsPodNames[p.Name] = p
	}
	if v.dns != nil {
		v.addrs, v.endpoints = parseAddrs(v.dns.Spec.ClusterIPs), endpointsOf(v.dns, s.Slices)
	}
	v.networks = indexNetworks(s.Networks)
	v.readProbes()
	v.readKubelets()
	v.readCorefile()
	v.domain = cmp.Or(s.ClusterDomain, v.kubeletDomain, v.corefileDomain(), defaultDomain)
	v.domain = strings.ToLower(strings.TrimSuffix(v.domain, "."))
	v.nodeCaches = NodeCaches(s)
	return v
}

// isForeign reports whether a pod declares ports, and none for DNS.
func isForeign(p *corev1.Pod) bool {
	hasPorts := slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return len(c.Ports) > 0 })
	return hasPorts && len(dnsPorts(p, corev1.ProtocolUDP))+len(dnsPorts(p, corev1.ProtocolTCP)) == 0
}

// endpointsOf returns the endpoints of a Service, by address.
func endpointsOf(service *corev1.Service, all []discoveryv1.EndpointSlice) []endpoint {
	byAddr := map[netip.Addr]endpoint{}
	for i := range all {
		s := &all[i]
		if s.Namespace != service.Namespace || s.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		udp, tcp := slicePorts(service, s.Ports)
		for _, e := range s.Endpoints {
			addEndpoint(byAddr, e, udp, tcp)
		}
	}
	return slices.SortedFunc(maps.Values(byAddr), func(a, b endpoint) int { return a.addr.Compare(b.addr) })
}

// addEndpoint adds an endpoint to those that are already known. It may be in two slices while
// it moves from one to the other.
func addEndpoint(byAddr map[netip.Addr]endpoint, e discoveryv1.Endpoint, udp, tcp int32) {
	for _, addr := range parseAddrs(e.Addresses) {
		p := byAddr[addr]
		p.addr, p.udp, p.tcp = addr, max(p.udp, udp), max(p.tcp, tcp)
		p.ready = p.ready || ptr.Deref(e.Conditions.Ready, true)
		p.node = ptr.Deref(e.NodeName, p.node)
		if e.TargetRef != nil {
			p.pod = e.TargetRef.Name
		}
		byAddr[addr] = p
	}
}

// slicePorts returns the ports of a slice for the DNS ports of its Service, which have the
// same names.
func slicePorts(service *corev1.Service, ports []discoveryv1.EndpointPort) (udp, tcp int32) {
	for _, p := range ports {
		name, protocol := ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, corev1.ProtocolTCP)
		isDNS := slices.ContainsFunc(service.Spec.Ports, func(s corev1.ServicePort) bool {
			return s.Port == dnsPort && s.Name == name && cmp.Or(s.Protocol, corev1.ProtocolTCP) == protocol
		})
		switch {
		case p.Port == nil || !isDNS:
		case protocol == corev1.ProtocolUDP:
			udp = *p.Port
		default:
			tcp = *p.Port
		}
	}
	return udp, tcp
}

func (v *view) configMap(name types.NamespacedName) *corev1.ConfigMap {
	i := slices.IndexFunc(v.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Namespace == name.Namespace && c.Name == name.Name })
	if i < 0 {
		return nil
	}
	return &v.ConfigMaps[i]
}

// unreadConfigMap returns why one of some ConfigMaps was not read, "" if all were, or do not exist.
func (v *view) unreadConfigMap(names ...types.NamespacedName) (why string) {
	for _, name := range names {
		why = cmp.Or(why, v.Unread[ConfigMaps], v.UnreadConfigMaps[name])
	}
	return why
}

// readCorefile parses the Corefile that the pods of the cluster DNS mount.
func (v *view) readCorefile() {
	for _, p := range v.dnsPods {
		for _, name := range MountedConfigMaps(p.Namespace, &p.Spec) {
			c := v.configMap(name)
			if c == nil || strings.TrimSpace(c.Data["Corefile"]) == "" {
				continue
			}
			v.corefile = &corefileSource{config: c, text: c.Data["Corefile"]}
			v.corefile.parse(v.mountedFiles(p))
			return
		}
	}
}

// corefileDomain returns the first zone of the plugin kubernetes that is not a reverse zone.
func (v *view) corefileDomain() string {
	if v.corefile == nil {
		return ""
	}
	for _, zone := range v.corefile.kubernetesZones() {
		_, notNetwork := netip.ParsePrefix(strings.TrimSuffix(zone, "."))
		if notNetwork != nil && zone != "." && !isWithin(zone, "in-addr.arpa.") && !isWithin(zone, "ip6.arpa.") {
			return strings.TrimSuffix(zone, ".")
		}
	}
	return ""
}

// isNodeCache reports whether d is a DNS cache on each node. A cache has the node's network, where
// it adds its address; a DaemonSet of the same name without it cannot be reached there. Its
// namespace does not matter: charts install it into any, and only privileged ones permit hostNetwork.
// Nor does the name of the project's own, which the Helm chart derives from its release.
func isNodeCache(d *appsv1.DaemonSet) bool {
	const upstream, own = "node-local-dns", "dnsconfigurer-node-cache"
	if !d.Spec.Template.Spec.HostNetwork {
		return false
	}
	ofChart := d.Labels["app.kubernetes.io/part-of"] == "dnsconfigurer" && d.Labels["app.kubernetes.io/component"] == "node-cache"
	return d.Labels["k8s-app"] == upstream || d.Name == upstream || d.Labels["app.kubernetes.io/name"] == own || ofChart
}

// serviceDomain returns the domain of a Service's name, without final dot.
func (v *view) serviceDomain(s *corev1.Service) string {
	return s.Name + "." + s.Namespace + ".svc." + v.domain
}

// inScope returns one pod of each controller in the scope, which represents its siblings: they
// have the same template.
func (v *view) inScope() (list []*corev1.Pod) {
	seen := map[string]bool{}
	for i := range v.Pods {
		if v.isLate() {
			break
		}
		p := &v.Pods[i]
		owner := ownerOf(p)
		if hasEnded(p) || !v.Scope.Has(p) || seen[owner] {
			continue
		}
		seen[owner] = true
		list = append(list, p)
	}
	return list
}

// ownerOf returns the controller of a pod, or the pod.
func ownerOf(p *corev1.Pod) string {
	if o := metav1.GetControllerOfNoCopy(p); o != nil {
		return p.Namespace + "/" + o.Kind + "/" + o.Name
	}
	return p.Namespace + "/Pod/" + p.Name
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isWithin reports whether name is domain or below it; both without final dot.
func isWithin(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

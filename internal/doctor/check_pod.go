// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	// maxQueries is the number of queries of a lookup above which a pod has a finding. The
	// kubelet's three search domains and ndots:5 make eight; a host with four domains of its
	// own, sixteen.
	maxQueries = 16

	// costName is a name outside the cluster with a usual number of dots.
	costName = "www.example.com"

	reasonDNS     = "DNSConfigForming"       // of the kubelet's events about limits
	reasonSandbox = "FailedCreatePodSandBox" // of the kubelet's events about pods that cannot start
)

// EventReasons are the reasons of the events that the checks read.
func EventReasons() []string { return []string{reasonDNS, reasonSandbox} }

// podChecks are about what pods get in their resolv.conf.
func podChecks() []Check {
	return []Check{
		{
			Code: "pod-sandbox", Severity: policy.SeverityError,
			What:  "the kubelet cannot start a pod because of its DNS configuration or its hostname",
			cause: "the event has the reason; docs/checks.md explains the rules of the kubelet",
			next:  "kubectl -n $NS describe pod $NAME",
			needs: []need{read(Events, Pods)}, find: findSandbox,
		},
		{
			Code: "pod-hostname", Severity: policy.SeverityError,
			What:  "the hostname or the FQDN of a pod exceeds a limit, and the kubelet refuses it",
			cause: "the FQDN of a pod with setHostnameAsFQDN must fit in 64 bytes",
			next:  "kubectl -n $NS get pod $NAME -o yaml | dnsconfigurer render -o explain -f -",
			needs: []need{read(Pods)}, find: findHostname,
		},
		{
			Code: "pod-no-nameserver", Severity: policy.SeverityError, What: "a pod has no nameserver",
			cause: "with dnsPolicy None a pod has the servers of its dnsConfig only",
			next:  "kubectl -n $NS get pod $NAME -o jsonpath='{.spec.dnsPolicy} {.spec.dnsConfig}'",
			needs: []need{read(Pods)}, find: findNoNameserver,
		},
		{
			Code: "pod-dns-limits", Severity: policy.SeverityWarning, What: "the kubelet left out nameservers or search domains of a pod",
			cause: "a pod has at most 3 nameservers, and 32 search domains of 2048 characters",
			next:  "kubectl -n $NS get pod $NAME -o yaml | dnsconfigurer render -o explain -f -",
			needs: []need{read(Events, Pods)}, find: findLimits,
		},
		{
			Code: "pod-search-cost", Severity: policy.SeverityWarning,
			What:  "a lookup of a name outside the cluster sends more than 16 queries",
			cause: "a name with fewer dots than ndots is first tried in every search domain, for both address families",
			next: "kubectl -n $NS get pod $NAME -o yaml | dnsconfigurer lookup -f - --pod $NS/$NAME www.example.com; " +
				"set ndots, or use autopath (docs/dns.md)",
			needs: []need{read(Pods)}, find: findSearchCost,
		},
		{
			Code: "pod-host-network", Severity: policy.SeverityInfo,
			What:  "a pod on the host's network has the policy ClusterFirst, which means Default there",
			cause: "it resolves no Services; ClusterFirstWithHostNet would",
			next:  "kubectl -n $NS get pod $NAME -o jsonpath='{.spec.hostNetwork} {.spec.dnsPolicy}'",
			needs: []need{read(Pods)}, find: findHostNetwork,
		},
	}
}

// eventsOf returns the events with a reason that are about pods in the scope which exist.
func (v *view) eventsOf(reason string) (list []*corev1.Event) {
	pods := map[string]*corev1.Pod{}
	for i := range v.Pods {
		if v.Scope.hasPod(&v.Pods[i]) {
			pods[v.Pods[i].Namespace+"/"+v.Pods[i].Name] = &v.Pods[i]
		}
	}
	seen := map[string]bool{}
	for i := range v.Events {
		e := &v.Events[i]
		pod := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
		if e.Reason == reason && e.InvolvedObject.Kind == "Pod" && isAbout(e, pods[pod]) && !seen[pod] {
			seen[pod] = true
			list = append(list, e)
		}
	}
	return list
}

// isAbout reports whether an event is about a pod, which may be nil, and not about an earlier one with
// the same name, as the pods of a StatefulSet have: events stay for an hour.
func isAbout(e *corev1.Event, p *corev1.Pod) bool {
	return p != nil && (e.InvolvedObject.UID == "" || e.InvolvedObject.UID == p.UID)
}

func eventHit(e *corev1.Event, message string) hit {
	text := strings.TrimPrefix(e.Message, "Failed to create pod sandbox: ") // as the reason says; a line is limited
	return hit{
		object: object{"Pod", e.InvolvedObject.Namespace, e.InvolvedObject.Name}, message: message,
		evidence: []string{
			fmt.Sprintf("event %s: %s", e.Reason, text),
			fmt.Sprintf("%d times, last %s", max(1, e.Count), timeText(e.LastTimestamp.Time)),
		},
	}
}

func findSandbox(v *view) (hits []hit) {
	ready := map[string]bool{}
	for i := range v.Pods {
		ready[v.Pods[i].Namespace+"/"+v.Pods[i].Name] = isReady(&v.Pods[i])
	}
	for _, e := range v.eventsOf(reasonSandbox) {
		if ready[e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name] {
			continue // the kubelet has created it since, as when the node's resolv.conf was missing for a while
		}
		for _, part := range []string{"FQDN", "Hostname", "Subdomain", "resolv.conf", "nameserver"} {
			if strings.Contains(e.Message, part) {
				hits = append(hits, eventHit(e, "the kubelet cannot create the sandbox of the pod"))
				break
			}
		}
	}
	return hits
}

func findLimits(v *view) (hits []hit) {
	for _, e := range v.eventsOf(reasonDNS) {
		hits = append(hits, eventHit(e, "the kubelet left out a part of its DNS configuration"))
	}
	return hits
}

// engine returns the policy engine for the cluster. The resolv.conf of the nodes is unknown,
// and left out.
func (v *view) engine() (*policy.Engine, error) {
	return v.engineFor(v.clusterDNS)
}

// engineOf returns the policy engine for the pods of a node: with the addresses of its kubelet,
// if they were read.
func (v *view) engineOf(node string) (*policy.Engine, error) {
	for _, k := range v.running {
		if k.source.name == node {
			return v.engineFor(k.addrs)
		}
	}
	return v.engine()
}

func (v *view) engineFor(clusterDNS []netip.Addr) (*policy.Engine, error) {
	n := policy.Node{ClusterDNS: clusterDNS, ClusterDomain: v.domain}
	if len(n.ClusterDNS) == 0 && v.dns != nil {
		for _, text := range v.dns.Spec.ClusterIPs {
			if a, err := netip.ParseAddr(text); err == nil {
				n.ClusterDNS = append(n.ClusterDNS, a)
			}
		}
	}
	return policy.New(n)
}

// decide calls f with the decision about one pod of each controller in the scope.
func (v *view) decide(f func(*corev1.Pod, *policy.Decision)) {
	engine, err := v.engine()
	if err != nil {
		return // the domain is invalid: a check of its own
	}
	for _, p := range v.inScope() {
		if v.isLate() {
			return
		}
		d := engine.Decide(kube.FromPod(p), resolvconf.File{})
		f(p, &d)
	}
}

func findHostname(v *view) (hits []hit) {
	v.decide(func(p *corev1.Pod, d *policy.Decision) {
		if d.Error != "" {
			hits = append(hits, hit{object: podObject(p), message: "the kubelet refuses its host name", evidence: []string{
				d.Error,
				fmt.Sprintf(
					"hostname %q, subdomain %q, setHostnameAsFQDN %t",
					p.Spec.Hostname,
					p.Spec.Subdomain,
					p.Spec.SetHostnameAsFQDN != nil && *p.Spec.SetHostnameAsFQDN,
				),
			}})
		}
	})
	return hits
}

func findNoNameserver(v *view) (hits []hit) {
	for _, p := range v.inScope() {
		if p.Spec.DNSPolicy == corev1.DNSNone && (p.Spec.DNSConfig == nil || len(p.Spec.DNSConfig.Nameservers) == 0) {
			hits = append(
				hits,
				hit{
					object:   podObject(p),
					message:  "dnsPolicy None without nameservers",
					evidence: []string{"spec.dnsPolicy: None", "spec.dnsConfig.nameservers: none"},
				},
			)
		}
	}
	return hits
}

func findHostNetwork(v *view) (hits []hit) {
	for _, p := range v.inScope() {
		// The components of kube-system are on the host's network because they run without DNS.
		if p.Namespace != systemNamespace && p.Spec.HostNetwork && p.Spec.DNSPolicy == corev1.DNSClusterFirst {
			hits = append(
				hits,
				hit{
					object:   podObject(p),
					message:  "ClusterFirst means Default on the host's network",
					evidence: []string{"spec.hostNetwork: true", "spec.dnsPolicy: ClusterFirst"},
				},
			)
		}
	}
	return hits
}

func findSearchCost(v *view) (hits []hit) {
	v.decide(func(p *corev1.Pod, d *policy.Decision) {
		n, names := searchCost(d)
		if n > maxQueries {
			hits = append(hits, hit{
				object: podObject(p), message: fmt.Sprintf("glibc sends %d queries for %s", n, costName),
				evidence: append([]string{
					fmt.Sprintf("%d search domains, options: %s", len(d.Searches), strings.Join(d.Config().Options, " ")),
				}, names...),
			})
		}
	})
	return hits
}

// searchCost returns the number of queries that glibc sends for a name outside the cluster
// that exists in no search domain, and the names.
func searchCost(d *policy.Decision) (n int, names []string) {
	if len(d.Nameservers) == 0 {
		return 0, nil
	}
	absent := func(_ context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
		return new(dns.Msg).SetRcode(query, dns.RcodeNameError), nil
	}
	s := libc.Simulator{
		Library:  libc.Glibc,
		Resolver: libc.Glibc.Read(d.Config().String()),
		Network:  libc.Network{UDP: absent, TCP: absent},
		Hostname: d.Hostname,
	}
	result, err := s.Lookup(context.Background(), costName, libc.Both)
	if err != nil {
		return 0, nil // never: the context does not end
	}
	for _, q := range result.Queries {
		if !slices.Contains(names, q.Name) {
			names = append(names, q.Name)
		}
	}
	return len(result.Queries), names
}

// explainPod returns what the pod of the scope should have; nil if it does not exist.
func (v *view) explainPod() *v1alpha1.DoctorPod {
	i := slices.IndexFunc(v.Pods, func(p corev1.Pod) bool { return v.Scope.hasPod(&p) })
	if i < 0 {
		return nil
	}
	p := &v.Pods[i]
	pod := &v1alpha1.DoctorPod{Namespace: p.Namespace, Name: p.Name, Policy: string(p.Spec.DNSPolicy), Notes: []string{}}
	engine, err := v.engine()
	if err != nil {
		pod.Notes = append(pod.Notes, "not decided: "+err.Error())
		return pod
	}
	if v.kubelet == nil {
		pod.Notes = append(
			pod.Notes,
			"the kubelet's configuration is unknown: the address of the DNS Service and the domain "+v.domain+" are assumed",
		)
	}
	d := engine.Decide(kube.FromPod(p), resolvconf.File{})
	pod.Hostname, pod.FQDN = d.Hostname, d.FQDN
	for _, f := range d.Findings {
		pod.Notes = append(pod.Notes, string(f.Severity)+": "+f.Message)
	}
	if usesHostFile(p) {
		pod.Notes = append(pod.Notes, "the pod has the resolv.conf of its node "+p.Spec.NodeName+", which the API does not show")
		return pod
	}
	pod.ResolvConf = d.Config().String()
	if p.Spec.DNSPolicy != corev1.DNSNone {
		pod.Notes = append(pod.Notes,
			"the search domains of the node's resolv.conf, which the API does not show, follow those of the cluster")
	}
	n, _ := searchCost(&d)
	pod.Notes = append(pod.Notes, fmt.Sprintf("glibc sends %d queries for %s", n, costName))
	c := v.configMap(systemNamespace, KubeletConfigMap)
	if c != nil && p.Status.StartTime != nil && lastChange(c).After(p.Status.StartTime.Time) {
		pod.Notes = append(
			pod.Notes,
			fmt.Sprintf(
				"kubelet-config changed %s, after the pod had started: the pod may have the previous "+
					"address or domain until it is created again",
				timeText(lastChange(c)),
			),
		)
	}
	return pod
}

// usesHostFile reports whether a pod has the servers of its node.
func usesHostFile(p *corev1.Pod) bool {
	return p.Spec.DNSPolicy == corev1.DNSDefault || p.Spec.DNSPolicy == corev1.DNSClusterFirst && p.Spec.HostNetwork
}

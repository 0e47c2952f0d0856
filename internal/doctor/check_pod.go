// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	reasonDNS     = "DNSConfigForming"         // of the kubelet's events about limits
	reasonSandbox = "FailedCreatePodSandBox"   // of the kubelet's events about pods that cannot start
	reasonLimits  = "CheckLimitsForResolvConf" // of the kubelet's events about the resolv.conf of its node
	reasonProbe   = "Unhealthy"                // of the kubelet's events about failed probes
)

// EventReasons are the reasons of the events that the checks read. Any pod may fail its probes: such events are read in
// kube-system alone.
func EventReasons() map[string]string {
	return map[string]string{reasonDNS: "", reasonSandbox: "", reasonLimits: "", reasonProbe: systemNamespace}
}

// podOf returns the pod that an event is about, nil if it does not exist, or the event is about an earlier pod with the
// same name, as those of a StatefulSet: events stay for an hour.
func (v *view) podOf(e *corev1.Event) *corev1.Pod {
	p := v.pods[e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name]
	if p != nil && e.InvolvedObject.UID != "" && e.InvolvedObject.UID != p.UID {
		return nil
	}
	return p
}

// eventsOf yields the first event with a reason about each pod in the scope.
func (v *view) eventsOf(reason string) iter.Seq2[*corev1.Pod, *corev1.Event] {
	return func(yield func(*corev1.Pod, *corev1.Event) bool) {
		seen := map[*corev1.Pod]bool{}
		for i := range v.Events {
			e := &v.Events[i]
			p := v.podOf(e)
			if e.Reason != reason || e.InvolvedObject.Kind != "Pod" || p == nil || !v.Scope.Has(p) || seen[p] {
				continue
			}
			if seen[p] = true; !yield(p, e) {
				return
			}
		}
	}
}

// eventOf returns the first event with a reason about a pod, nil if there is none.
func (v *view) eventOf(reason string, p *corev1.Pod) *corev1.Event {
	i := slices.IndexFunc(v.Events, func(e corev1.Event) bool { return e.Reason == reason && v.podOf(&e) == p })
	if p == nil || i < 0 {
		return nil
	}
	return &v.Events[i]
}

func eventHit(e *corev1.Event, message string) hit {
	text := strings.TrimPrefix(e.Message, "Failed to create pod sandbox: ") // as the reason says; a line is limited
	return found(object{"Pod", e.InvolvedObject.Namespace, e.InvolvedObject.Name}, message,
		fmt.Sprintf("event %s: %s", e.Reason, text),
		fmt.Sprintf("%d times, last %s", max(1, e.Count), e.LastTimestamp.UTC().Format(time.RFC3339)))
}

// findSandbox returns the pods that the kubelet refuses: because of events, unless it has created the pod since, as
// when the node's resolv.conf was missing for a while; and by its rules for host names.
func findSandbox(v *view) (hits []hit) {
	refused := map[*corev1.Pod]bool{}
	for p, e := range v.eventsOf(reasonSandbox) {
		isAboutDNS := slices.ContainsFunc([]string{"FQDN", "Hostname", "Subdomain", "resolv.conf", "nameserver"},
			func(part string) bool { return strings.Contains(e.Message, part) })
		if isAboutDNS && !isReady(p) {
			refused[p] = true
			hits = append(hits, eventHit(e, "the kubelet cannot create the sandbox of the pod"))
		}
	}
	engine, err := v.engine("")
	if err != nil {
		return hits // the domain is invalid: a check of its own
	}
	for _, p := range v.inScope() {
		if v.isLate() {
			break
		}
		d := engine.Decide(kube.FromPod(p), resolvconf.File{})
		if d.Error != "" && !refused[p] {
			hits = append(hits, found(podObject(p), "the kubelet refuses its host name", d.Error,
				fmt.Sprintf("hostname %q, subdomain %q, setHostnameAsFQDN %t", p.Spec.Hostname, p.Spec.Subdomain,
					ptr.Deref(p.Spec.SetHostnameAsFQDN, false))))
		}
	}
	return hits
}

// findLimits returns one finding for each limit on each node: the pods of a node have the same cause.
func findLimits(v *view) (hits []hit) {
	type key struct{ node, limit string }
	index := map[key]int{}
	for p, e := range v.eventsOf(reasonDNS) {
		limit, _, _ := strings.Cut(e.Message, ",")
		k := key{p.Spec.NodeName, limit}
		if i, ok := index[k]; ok {
			hits[i].evidence = append(hits[i].evidence, "also "+podObject(p).String())
			continue
		}
		index[k] = len(hits)
		hits = append(hits, eventHit(e, "the kubelet left out a part of its DNS configuration"))
	}
	for i := range hits {
		if n := len(hits[i].evidence) - 2; n > 0 {
			hits[i].message += fmt.Sprintf(", and of %d more pods of its node", n)
		}
	}
	for i := range v.Events {
		if e := &v.Events[i]; e.Reason == reasonLimits && (v.Scope.Node == "" || v.Scope.Node == e.InvolvedObject.Name) {
			h := eventHit(e, "the resolv.conf of the node exceeds the limits of the kubelet")
			h.object = object{"Node", "", e.InvolvedObject.Name}
			h.next = "on the node: the file that resolvConf of the kubelet names"
			hits = append(hits, h)
		}
	}
	return hits
}

// engine returns the policy engine for the pods of a node: with the addresses of its kubelet, if they were read. "": any
// node. The resolv.conf of the nodes is unknown, and left out.
func (v *view) engine(node string) (*policy.Engine, error) {
	n := policy.Node{ClusterDNS: v.clusterDNS, ClusterDomain: v.domain}
	if i := slices.IndexFunc(v.running, func(k *kubeletFacts) bool { return k.source.name == node }); i >= 0 {
		n.ClusterDNS = v.running[i].addrs
	}
	if len(n.ClusterDNS) == 0 {
		n.ClusterDNS = v.addrs
	}
	return policy.New(n)
}

func findHostNetwork(v *view) (hits []hit) {
	for _, p := range v.inScope() {
		// The components of kube-system are on the host's network because they run without DNS.
		if p.Namespace != systemNamespace && p.Spec.HostNetwork && p.Spec.DNSPolicy == corev1.DNSClusterFirst {
			hits = append(hits, found(podObject(p), "ClusterFirst means Default on the host's network",
				"spec.hostNetwork: true", "spec.dnsPolicy: ClusterFirst"))
		}
	}
	return hits
}

// explainPod returns what the pod of the scope should have; nil if it does not exist.
func (v *view) explainPod() *v1alpha1.DoctorPod {
	p := v.pods[v.Scope.Namespace+"/"+v.Scope.PodName]
	if p == nil {
		return nil
	}
	pod := &v1alpha1.DoctorPod{Namespace: p.Namespace, Name: p.Name, Policy: string(p.Spec.DNSPolicy), Notes: []string{}}
	note := func(format string, args ...any) { pod.Notes = append(pod.Notes, fmt.Sprintf(format, args...)) }
	if v.Container != "" {
		note("the ephemeral container %s was added, unless the request failed: it cannot be removed, and stays until the pod ends",
			v.Container)
	}
	engine, err := v.engine("")
	if err != nil {
		note("not decided: %v", err)
		return pod
	}
	if v.kubelet == nil {
		note("the kubelet's configuration is unknown: the address of the DNS Service and the domain %s are assumed", v.domain)
	}
	d := engine.Decide(kube.FromPod(p), resolvconf.File{})
	pod.Hostname, pod.FQDN = d.Hostname, d.FQDN
	for _, f := range d.Findings {
		note("%s: %s", f.Severity, f.Message)
	}
	if usesHostFile(p) {
		note("the pod has the resolv.conf of its node %s, which the API does not show", p.Spec.NodeName)
		return pod
	}
	pod.ResolvConf = d.Config().String()
	if p.Spec.DNSPolicy != corev1.DNSNone {
		note("the search domains of the node's resolv.conf, which the API does not show, follow those of the cluster")
	}
	c := v.configMap(KubeletConfigMap)
	if c != nil && p.Status.StartTime != nil && lastChange(c).After(p.Status.StartTime.Time) {
		note("kubelet-config changed %s, after the pod had started: the pod may have the previous address or domain "+
			"until it is created again",
			lastChange(c).UTC().Format(time.RFC3339))
	}
	return pod
}

func usesHostFile(p *corev1.Pod) bool {
	return p.Spec.DNSPolicy == corev1.DNSDefault || p.Spec.DNSPolicy == corev1.DNSClusterFirst && p.Spec.HostNetwork
}

// writtenByAgent is in the last line of a file that dnsconfigurer wrote.
const writtenByAgent = "# dnsconfigurer: "

// needPodFile is the file of the pod of the scope, which the ephemeral container reads.
func needPodFile(v *view) (string, bool) {
	why := v.Unread[Ephemeral]
	if v.Container != "" {
		why = cmp.Or(why, "the ephemeral container could not read /etc/resolv.conf")
	}
	return why, v.PodFile != nil
}

// needFacts is a cluster DNS and a valid domain, without which nothing can be decided.
func needFacts(v *view) (string, bool) {
	if _, err := v.engine(""); err != nil {
		return err.Error(), false
	}
	return "", len(v.clusterDNS) > 0 || v.dns != nil
}

// findPodFile compares the file with the decision for its pod. A file that dnsconfigurer wrote is left out: its text
// depends on the configuration of the node, and the command pods compares it there. So is the file of a node.
func findPodFile(v *view) []hit {
	p := v.pods[v.Scope.Namespace+"/"+v.Scope.PodName]
	if p == nil || usesHostFile(p) || strings.Contains(*v.PodFile, "\n"+writtenByAgent) {
		return nil
	}
	engine, err := v.engine(p.Spec.NodeName)
	if err != nil {
		return nil // the kubelet's settings are invalid: a check of its own
	}
	d := engine.Decide(kube.FromPod(p), resolvconf.File{})
	got, want := resolvconf.Parse(*v.PodFile).Config(), d.Config()
	h := hit{object: podObject(p)}
	compare := func(keyword string, isEqual bool, got, want []string, more string) {
		if isEqual {
			return
		}
		text := func(list []string) string { return cmp.Or(strings.Join(list, " "), "none") }
		h.message = cmp.Or(h.message, "it has other "+keyword)
		h.evidence = append(h.evidence, keyword+": "+text(got), keyword+" of a new pod: "+text(want)+more)
	}
	servers, newServers := addresses(got.Nameservers), addresses(want.Nameservers)
	compare("nameservers", slices.Equal(servers, newServers), servers, newServers, "")
	if p.Spec.DNSPolicy == corev1.DNSNone {
		compare("search", slices.EqualFunc(got.Searches, want.Searches, strings.EqualFold), got.Searches, want.Searches, "")
	} else {
		compare("search", contains(got.Searches, want.Searches), got.Searches, want.Searches, ", and those of the node")
	}
	options, newOptions := sorted(got.Options), sorted(want.Options)
	compare("options", slices.Equal(options, newOptions), options, newOptions, "")
	if h.message == "" {
		return nil
	}
	return []hit{h}
}

// addresses returns the nameservers in their canonical form.
func addresses(list []string) (out []string) {
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			text = a.Unmap().String()
		}
		out = append(out, text)
	}
	return out
}

// contains reports whether list has the elements of part, in their order.
func contains(list, part []string) bool {
	for _, text := range list {
		if len(part) > 0 && strings.EqualFold(text, part[0]) {
			part = part[1:]
		}
	}
	return len(part) == 0
}

const (
	// topQueries, topFailed and topAbsent are the numbers of clients with most queries, failures and NXDOMAIN that are
	// listed. Together they are below maxLines.
	topQueries, topFailed, topAbsent = 4, 2, 2

	// refusedShare divides the queries: fewer refused ones are not a finding.
	refusedShare = 1000

	clientNames = 3 // that are listed of a client
)

// needClients is what servers count by client. Without the flag, there is none.
func needClients(v *view) (string, bool) { return v.Unread[Clients], len(v.Clients) > 0 }

func (v *view) clientLine(c podCounts) string {
	line := "address " + c.Address.String()
	if c.Pod != nil {
		line = podObject(c.Pod).String()
	}
	line += fmt.Sprintf(": %d queries, %d failed, %d NXDOMAIN", c.Queries, c.Failed, c.NXDomain())
	if !v.Names {
		return line
	}
	if names := namesOf(v.Clients, c.Address); len(names) > 0 {
		line += ", most for " + strings.Join(names[:min(len(names), clientNames)], ", ")
	}
	return line
}

// findClients returns the clients with most queries, failures and NXDOMAIN. A client that sends most queries has a finding of
// its own while the servers refuse some.
func findClients(v *view) []hit {
	all := countPods(v.Clients, v.Pods)
	var queries, refused uint64
	for _, s := range v.Clients {
		queries += s.Report.Others.Queries
		refused += s.Refused
	}
	for _, c := range all {
		queries += c.Queries
	}
	h := hit{object: object{kind: "DNS servers", name: "of dnsconfigurer"}}
	h.message = fmt.Sprintf("%d clients sent queries to %d servers", len(all), len(v.Clients))
	if len(all) > 0 && 2*all[0].Queries > queries && refused > queries/refusedShare {
		if p := all[0].Pod; p != nil {
			h.object = podObject(p)
		}
		h.severity, h.message = policy.SeverityWarning, fmt.Sprintf("one client sent %d of %d queries, and the servers refused %d",
			all[0].Queries, queries, refused)
		h.cause = "a program looks up names without a pause or a cache; while the servers are at a limit others lose their queries, too"
	}
	for _, top := range []struct {
		number int
		by     func(podCounts) uint64
	}{
		{topQueries, func(c podCounts) uint64 { return c.Queries }},
		{topFailed, func(c podCounts) uint64 { return c.Failed }},
		{topAbsent, func(c podCounts) uint64 { return c.NXDomain() }},
	} {
		slices.SortStableFunc(all, func(a, b podCounts) int { return cmp.Compare(top.by(b), top.by(a)) })
		for _, c := range all[:min(len(all), top.number)] {
			if line := v.clientLine(c); top.by(c) > 0 && !slices.Contains(h.evidence, line) {
				h.evidence = append(h.evidence, line)
			}
		}
	}
	if len(h.evidence) == 0 {
		return nil
	}
	h.evidence = moreLine(h.evidence, len(all), len(h.evidence))
	return []hit{h}
}

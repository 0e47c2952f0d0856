// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// slowReply is the time of a reply about a name of the cluster above which there is a
// finding. Servers have these names in memory: in a cluster a reply takes a few milliseconds,
// and glibc repeats a query after five seconds.
const slowReply = 200 * time.Millisecond

// The outcome of a query with and without an error, as dns.RcodeToString has it.
const (
	rcodeSuccess  = "NOERROR"
	rcodeNXDomain = "NXDOMAIN"
)

// The protocols of a probe.
const (
	UDP = "udp"
	TCP = "tcp"
)

// probeChecks are about the replies of the DNS servers.
func probeChecks() []Check {
	needs, needsNetwork, networkProbes := []need{needReplies}, []need{needNetwork}, []Kind{Probes}
	return []Check{
		{
			Code: "probe-no-reply", Severity: policy.SeverityError,
			What:  "a DNS server does not reply, neither over UDP nor over TCP, and another one does",
			cause: "a pod that hangs, a node whose network fails, or an endpoint that does not exist anymore",
			next:  "kubectl get endpointslices -A -o wide; kubectl -n kube-system get pods -o wide",
			needs: needsNetwork, whole: networkProbes, find: findNoReply,
		},
		{
			Code: "probe-ipv6", Severity: policy.SeverityError,
			What:  "the IPv6 address of the cluster DNS does not reply, and the IPv4 address does",
			cause: "pods with both families may query either; the server does not listen on IPv6, or the network does not carry it",
			next:  "kubectl -n kube-system get endpointslices -o wide",
			needs: needsNetwork, whole: networkProbes, find: findIPv6,
		},
		{
			Code: "probe-udp", Severity: policy.SeverityError, What: "a DNS server replies over TCP and not over UDP",
			cause: "a firewall, a NetworkPolicy, or stale entries of the connection tracking on the node drop UDP packets to port 53",
			next:  "on the node: conntrack -L -p udp --dport 53; iptables-save | grep ':53'",
			needs: needsNetwork, whole: networkProbes, find: func(v *view) []hit { return v.silentProtocol(UDP, TCP) },
		},
		{
			Code: "probe-tcp", Severity: policy.SeverityError, What: "a DNS server replies over UDP and not over TCP",
			cause: "lookups with large replies fail: the reply over UDP is truncated, and the query over TCP is dropped",
			next:  "kubectl get networkpolicies -A; permit port 53/TCP",
			needs: needsNetwork, whole: networkProbes, find: func(v *view) []hit { return v.silentProtocol(TCP, UDP) },
		},
		{
			Code: "probe-servfail", Severity: policy.SeverityError, What: "a DNS server fails for a name of the cluster",
			cause: "the server has not loaded the names, because it cannot reach the API server or has no permission to list Services",
			next:  nextSystemLogs, needs: needs, find: findServfail,
		},
		{
			Code: "probe-wrong-address", Severity: policy.SeverityError,
			What:  "a DNS server has another address for a Service than the API server",
			cause: "the server has stale names, serves another cluster domain, or another server replies in its place",
			next:  nextSystemLogs, needs: append(needs, read(Services)), find: findWrongAddress,
		},
		{
			Code: "probe-replicas-disagree", Severity: policy.SeverityError, What: "the pods of the cluster DNS give different answers",
			cause: "one of them has lost its connection to the API server and serves stale names",
			next:  "kubectl -n kube-system delete pod of the stale replica; " + nextSystemLogs, needs: needs, find: findDisagreement,
		},
		{
			Code: "probe-aaaa-nxdomain", Severity: policy.SeverityError, What: "a name with an A record gets NXDOMAIN for AAAA",
			cause: "musl and others take NXDOMAIN for the whole name; a template, a firewall or a server outside the cluster answers AAAA",
			next:  "kubectl -n kube-system get configmap coredns -o yaml", needs: needs, find: findAAAA,
		},
		{
			Code: "probe-external", Severity: policy.SeverityError,
			What:  "names outside the cluster fail, and names of the cluster resolve",
			cause: "the servers to which the cluster DNS forwards do not reply, or refuse; the network from its pods to them is blocked",
			next:  "kubectl -n kube-system get configmap coredns -o yaml" + nextOutside,
			needs: needs, find: findExternal,
		},
		{
			Code: "probe-slow", Severity: policy.SeverityWarning,
			What:  "each reply of a DNS server about names of the cluster takes more than 200 ms",
			cause: "the server is overloaded or throttled, or the way to it loses packets",
			next:  "kubectl -n kube-system top pods", needs: needsNetwork, whole: networkProbes, find: findSlow,
		},
	}
}

const nextOutside = "; query the servers to which it forwards from a node"

const nextSystemLogs = "kubectl -n kube-system logs -l k8s-app=kube-dns --all-containers --prefix"

// nextConfig is the command that prints the configuration of the cluster DNS, "" if it is unknown.
func (v *view) nextConfig() string {
	if v.corefile == nil {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s get configmap %s -o yaml", v.corefile.config.Namespace, v.corefile.config.Name)
}

// withConfig has the command for the configuration that there is instead of the one of the check.
func (v *view) withConfig(hits []hit, rest string) []hit {
	if next := v.nextConfig(); next != "" {
		for i := range hits {
			hits[i].next = next + rest
		}
	}
	return hits
}

// target is a DNS server and the means by which it was queried.
type target struct{ server, means string }

func targetOf(p v1alpha1.DoctorProbe) target { return target{p.Server, p.Means} }

// hit returns a finding about the server, which says more than the network of this machine does.
func (t target) hit(message string, evidence []string) hit {
	return hit{object: serverObject(t.server), message: message + through(t.means), evidence: evidence}
}

// through is what messages and evidence say of the means; "": the network of this machine.
func through(means string) string {
	switch means {
	case MeansForward:
		return " through a port-forward"
	case MeansContainer:
		return " from the pod"
	}
	return ""
}

// usedNetwork reports whether a probe went through the network to its server.
func usedNetwork(p v1alpha1.DoctorProbe) bool { return p.Means != MeansForward }

// readProbes keeps the probes of each means by which a server replied: without any reply, the means
// are the likely cause.
func (v *view) readProbes() {
	works := map[string]bool{}
	for _, p := range v.Probes {
		works[p.Means] = works[p.Means] || replied(p)
	}
	for _, p := range v.Probes {
		isPart := v.Unread[Probes] != "" && p.Means != MeansForward && p.Means != MeansContainer
		if works[p.Means] && !isPart {
			v.usable = append(v.usable, p)
		}
	}
}

// probesBy returns the probes in groups, in the order of the first one of each.
func probesBy[K comparable](
	probes []v1alpha1.DoctorProbe, key func(v1alpha1.DoctorProbe) K,
) (keys []K, groups map[K][]v1alpha1.DoctorProbe) {
	groups = map[K][]v1alpha1.DoctorProbe{}
	for _, p := range probes {
		k := key(p)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], p)
	}
	return keys, groups
}

func serverObject(server string) object { return object{kind: "DNS server", name: server} }

// probeLine is the evidence of a probe.
func probeLine(p v1alpha1.DoctorProbe) string {
	line := fmt.Sprintf("%s %s @%s over %s%s: ", p.Name, p.Type, p.Server, p.Protocol, through(p.Means))
	took := " after " + millis(p.Micros)
	switch {
	case p.RCode == "":
		return line + "no reply" + took + ": " + p.Error
	case len(p.Answers) == 0:
		return line + p.RCode + ", no records" + took
	}
	return line + p.RCode + ", " + strings.Join(p.Answers, " ") + took
}

func millis(micros int64) string { return fmt.Sprintf("%.1f ms", float64(micros)/1000) }

func replied(p v1alpha1.DoctorProbe) bool { return p.RCode != "" }

func lines(probes []v1alpha1.DoctorProbe, which func(v1alpha1.DoctorProbe) bool) (list []string) {
	for _, p := range probes {
		if which(p) {
			list = append(list, probeLine(p))
		}
	}
	return list
}

func isIPv6(server string) bool {
	a, err := netip.ParseAddrPort(server)
	return err == nil && a.Addr().Is6()
}

func isAny(v1alpha1.DoctorProbe) bool { return true }

// silent returns the servers without any reply through the network, with their probes. which gets one
// probe of each.
func (v *view) silent(which func(v1alpha1.DoctorProbe) bool) (hits []hit) {
	servers, all := probesBy(v.usable, targetOf)
	for _, s := range servers {
		if s.means != MeansForward && which(all[s][0]) && !slices.ContainsFunc(all[s], replied) {
			hits = append(hits, s.hit("it does not reply", lines(all[s], isAny)))
		}
	}
	return hits
}

// repliesOverIPv4 reports whether a server with an IPv4 address, in the role of that of p and by the same
// means, replied.
func (v *view) repliesOverIPv4(p v1alpha1.DoctorProbe) bool {
	return slices.ContainsFunc(v.usable, func(other v1alpha1.DoctorProbe) bool {
		return other.Means == p.Means && other.Role == p.Role && replied(other) && !isIPv6(other.Server)
	})
}

func findNoReply(v *view) []hit {
	return v.silent(func(p v1alpha1.DoctorProbe) bool { return !isIPv6(p.Server) || !v.repliesOverIPv4(p) })
}

func findIPv6(v *view) []hit {
	return v.silent(func(p v1alpha1.DoctorProbe) bool { return isIPv6(p.Server) && v.repliesOverIPv4(p) })
}

// silentProtocol returns the servers that reply over one protocol only.
func (v *view) silentProtocol(silent, other string) (hits []hit) {
	servers, all := probesBy(v.usable, targetOf)
	for _, s := range servers {
		over := func(protocol string) (n int) {
			for _, p := range all[s] {
				if p.Protocol == protocol && replied(p) {
					n++
				}
			}
			return n
		}
		queried := slices.ContainsFunc(all[s], func(p v1alpha1.DoctorProbe) bool { return p.Protocol == silent })
		if s.means != MeansForward && queried && over(silent) == 0 && over(other) > 0 {
			message := fmt.Sprintf("it replies over %s and not over %s", strings.ToUpper(other), strings.ToUpper(silent))
			hits = append(hits, s.hit(message, lines(all[s], isAny)))
		}
	}
	return hits
}

// isClusterName reports whether a probe is about a name of the cluster.
func (v *view) isClusterName(p v1alpha1.DoctorProbe) bool {
	return isWithin(strings.TrimSuffix(p.Name, "."), v.domain)
}

// eachServer returns the servers with probes that are bad, by whatever means, with the bad probes as
// evidence.
func (v *view) eachServer(message string, bad func(v1alpha1.DoctorProbe) bool) (hits []hit) {
	servers, all := probesBy(v.usable, func(p v1alpha1.DoctorProbe) string { return p.Server })
	for _, s := range servers {
		if evidence := lines(all[s], bad); len(evidence) > 0 {
			hits = append(hits, hit{object: serverObject(s), message: message, evidence: evidence})
		}
	}
	return hits
}

func findServfail(v *view) []hit {
	return v.eachServer("it fails for names of the cluster", func(p v1alpha1.DoctorProbe) bool {
		return v.isClusterName(p) && replied(p) && p.RCode != rcodeSuccess && p.RCode != rcodeNXDomain
	})
}

// wants returns the addresses of the Service that a probe is about; ok is false if the probe
// is not about one with an address.
func (v *view) wants(p v1alpha1.DoctorProbe) (addrs []string, ok bool) {
	rest, ok := strings.CutSuffix(strings.TrimSuffix(p.Name, "."), ".svc."+v.domain)
	name, namespace, _ := strings.Cut(rest, ".")
	service := v.services[namespace+"/"+name]
	if !ok || service == nil || len(service.Spec.ClusterIPs) == 0 || isHeadless(service) {
		return nil, false
	}
	for _, text := range service.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil && a.Is4() == (p.Type == "A") {
			addrs = append(addrs, a.String())
		}
	}
	slices.Sort(addrs)
	return addrs, true
}

func findWrongAddress(v *view) []hit {
	hits := v.eachServer("it has other addresses than the API server", func(p v1alpha1.DoctorProbe) bool {
		want, ok := v.wants(p)
		return ok && len(want) > 0 && (p.RCode == rcodeSuccess || p.RCode == rcodeNXDomain) && !slices.Equal(sorted(p.Answers), want)
	})
	for i, h := range hits {
		for _, p := range v.usable {
			want, ok := v.wants(p)
			if ok && slices.Contains(h.evidence, probeLine(p)) {
				hits[i].evidence = append(hits[i].evidence, "the API server has "+strings.Join(want, " ")+" for "+p.Name)
				break
			}
		}
	}
	return hits
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// findDisagreement compares the replies of the endpoints to the same questions.
func findDisagreement(v *view) (hits []hit) {
	type key struct{ name, qtype string }
	first := map[key]v1alpha1.DoctorProbe{}
	seen := map[key]bool{}
	for _, p := range v.usable {
		q := key{p.Name, p.Type}
		if p.Role != RoleEndpoint || !replied(p) || !v.isClusterName(p) || seen[q] {
			continue
		}
		f, ok := first[q]
		if !ok {
			first[q] = p
			continue
		}
		if f.Server != p.Server && (f.RCode != p.RCode || !slices.Equal(sorted(f.Answers), sorted(p.Answers))) {
			seen[q] = true
			hits = append(
				hits,
				hit{
					object:   serverObject(p.Server),
					message:  fmt.Sprintf("it and %s give different answers for %s", f.Server, p.Name),
					evidence: []string{probeLine(f), probeLine(p)},
				},
			)
		}
	}
	return hits
}

func findAAAA(v *view) []hit {
	exists := map[string]bool{}
	for _, p := range v.usable {
		if p.Type == "A" && p.RCode == rcodeSuccess && len(p.Answers) > 0 {
			exists[p.Server+p.Name] = true
		}
	}
	return v.withConfig(v.eachServer("it answers NXDOMAIN for AAAA of a name that exists", func(p v1alpha1.DoctorProbe) bool {
		return p.Type == "AAAA" && p.RCode == rcodeNXDomain && exists[p.Server+p.Name]
	}), "")
}

func findExternal(v *view) (hits []hit) {
	servers, all := probesBy(v.usable, targetOf)
	for _, s := range servers {
		// Names outside are queried over UDP, and through a port-forward over TCP.
		works := slices.ContainsFunc(all[s], func(p v1alpha1.DoctorProbe) bool {
			return (p.Protocol == UDP || s.means == MeansForward) && v.isClusterName(p) && p.RCode == rcodeSuccess
		})
		outside := func(p v1alpha1.DoctorProbe) bool { return !v.isClusterName(p) }
		resolved := slices.ContainsFunc(all[s], func(p v1alpha1.DoctorProbe) bool {
			return outside(p) && (p.RCode == rcodeSuccess || p.RCode == rcodeNXDomain)
		})
		if evidence := lines(all[s], outside); works && !resolved && len(evidence) > 0 {
			hits = append(hits, s.hit("it resolves no name outside the cluster", evidence))
		}
	}
	return v.withConfig(hits, nextOutside)
}

// findSlow returns the servers whose fastest reply about a name of the cluster is slow: one
// slow reply may be a lost packet, or this machine. A reply through a port-forward takes the time of
// the API server and the kubelet, too.
func findSlow(v *view) (hits []hit) {
	servers, all := probesBy(v.usable, targetOf)
	for _, s := range servers {
		fast := slices.ContainsFunc(all[s],
			func(p v1alpha1.DoctorProbe) bool { return v.isClusterName(p) && replied(p) && took(p) <= slowReply })
		slow := lines(all[s], func(p v1alpha1.DoctorProbe) bool { return v.isClusterName(p) && replied(p) && took(p) > slowReply })
		if s.means != MeansForward && !fast && len(slow) > 0 {
			hits = append(hits, s.hit("each reply took more than "+slowReply.String(), slow))
		}
	}
	return hits
}

func took(p v1alpha1.DoctorProbe) time.Duration { return time.Duration(p.Micros) * time.Microsecond }

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const (
	// slowReply is the time above which all replies about names of the cluster are slow. Servers have these
	// names in memory: in a cluster a reply takes a few milliseconds.
	slowReply = 200 * time.Millisecond

	// lateReply is the time above which a single reply is late. The resolver of Go and glibc wait five seconds,
	// those of other programs as little as one.
	lateReply = time.Second
)

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

type probe = v1alpha1.DoctorProbe

// target is a DNS server and the means by which it was queried.
type target struct{ server, means string }

func targetOf(p probe) target { return target{p.Server, p.Means} }

// hit returns a finding about the server, which says more than the network of this machine does.
func (t target) hit(message string, evidence ...string) hit {
	return found(serverObject(t.server), message+through(t.means), evidence...)
}

// through is what messages and evidence say of the means; "": the network of this machine.
func through(means string) string {
	if means == MeansContainer {
		return " from the pod"
	}
	return ""
}

// readProbes keeps the probes of each means by which a server replied: without any reply, the means
// are the likely cause.
func (v *view) readProbes() {
	works := map[string]bool{}
	for _, p := range v.Probes {
		works[p.Means] = works[p.Means] || replied(p)
	}
	for _, p := range v.Probes {
		isPart := v.Unread[Probes] != "" && p.Means != MeansContainer
		if works[p.Means] && !isPart {
			v.usable = append(v.usable, p)
		}
	}
}

// containerProbes returns the probes of the container in the pod.
func (v *view) containerProbes() []probe {
	return only(v.Probes, func(p probe) bool { return p.Means == MeansContainer })
}

// needContainer is what a container in the pod has seen. Without the flag, there is none.
func needContainer(v *view) (string, bool) {
	return v.Unread[Ephemeral], len(v.containerProbes()) > 0
}

// groupBy returns the elements in groups, in the order of the first one of each.
func groupBy[T any, K comparable](list []T, key func(T) K) (keys []K, groups map[K][]T) {
	groups = map[K][]T{}
	for _, element := range list {
		k := key(element)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], element)
	}
	return keys, groups
}

func serverObject(server string) object { return object{kind: "DNS server", name: server} }

func probeLine(p probe) string {
	line := fmt.Sprintf("%s %s @%s over %s%s: ", p.Name, p.Type, p.Server, p.Protocol, through(p.Means))
	took := fmt.Sprintf(" after %.1f ms", float64(p.Micros)/1000)
	switch {
	case p.RCode == "":
		return line + "no reply" + took + ": " + p.Error
	case len(p.Answers) == 0:
		return line + p.RCode + ", no records" + took
	}
	return line + p.RCode + ", " + strings.Join(p.Answers, " ") + took
}

func replied(p probe) bool { return p.RCode != "" }

func only(probes []probe, which func(probe) bool) []probe {
	return slices.DeleteFunc(slices.Clone(probes), func(p probe) bool { return !which(p) })
}

func lines(probes []probe) (list []string) {
	for _, p := range probes {
		list = append(list, probeLine(p))
	}
	return list
}

func isIPv6(server string) bool {
	a, err := netip.ParseAddrPort(server)
	return err == nil && a.Addr().Is6()
}

// needQueries are queries of a container, or replies to others.
func needQueries(v *view) (string, bool) {
	if len(v.containerProbes()) > 0 {
		return "", true
	}
	return needReplies(v)
}

// findNoReply returns the pod of the scope if its container gets no reply at all, and the servers without a reply, or
// without one over one protocol.
func findNoReply(v *view) (hits []hit) {
	if probes := v.containerProbes(); len(probes) > 0 && !slices.ContainsFunc(probes, replied) {
		pod := object{"Pod", v.Scope.Namespace, v.Scope.PodName}
		hits = append(hits, found(pod, "it gets no reply from the cluster DNS", lines(probes)...))
	}
	servers, all := groupBy(v.usable, targetOf)
	for _, s := range servers {
		_, byProtocol := groupBy(all[s], func(p probe) string { return p.Protocol })
		udp, tcp := byProtocol[UDP], byProtocol[TCP]
		hasUDP, hasTCP := slices.ContainsFunc(udp, replied), slices.ContainsFunc(tcp, replied)
		message := ""
		switch {
		case hasUDP && len(tcp) > 0 && !hasTCP:
			message = "it replies over UDP and not over TCP"
		case hasTCP && len(udp) > 0 && !hasUDP:
			message = "it replies over TCP and not over UDP"
		case hasUDP || hasTCP:
			continue
		case isIPv6(s.server) && slices.ContainsFunc(v.usable, func(other probe) bool { // a server with an IPv4 address in the same role
			p := all[s][0]
			return other.Means == p.Means && other.Role == p.Role && replied(other) && !isIPv6(other.Server)
		}):
			message = "it does not reply over IPv6, and over IPv4 it does"
		default:
			message = "it does not reply"
		}
		bad := only(all[s], func(p probe) bool { return !replied(p) })
		hits = append(hits, s.hit(message, lines(bad)...))
	}
	return hits
}

// findUnreliable returns the servers that lose queries about names of the cluster, or reply late.
func findUnreliable(v *view) (hits []hit) {
	servers, all := groupBy(only(v.usable, v.isClusterName), targetOf)
	for _, s := range servers {
		protocols, byProtocol := groupBy(all[s], func(p probe) string { return p.Protocol })
		for _, protocol := range protocols {
			list := byProtocol[protocol]
			lost := only(list, func(p probe) bool { return !replied(p) })
			late := only(list, func(p probe) bool { return replied(p) && took(p) > lateReply })
			if len(lost) == len(list) || len(lost)+len(late) == 0 {
				continue
			}
			hits = append(hits, s.hit(fmt.Sprintf("%d of %d queries over %s are lost, and %d replies are late",
				len(lost), len(list), strings.ToUpper(protocol), len(late)), lines(slices.Concat(lost, late))...))
		}
		answered := only(all[s], replied)
		if len(answered) > 0 && !slices.ContainsFunc(answered, func(p probe) bool { return took(p) <= slowReply }) {
			hits = append(hits, s.hit("each reply took more than "+slowReply.String(), lines(answered)...))
		}
	}
	return hits
}

func took(p probe) time.Duration { return time.Duration(p.Micros) * time.Microsecond }

func (v *view) isClusterName(p probe) bool {
	return isWithin(strings.TrimSuffix(p.Name, "."), v.domain)
}

// wants returns the addresses of the Service that a probe is about; ok is false if the probe
// is not about one with an address.
func (v *view) wants(p probe) (addrs []string, ok bool) {
	rest, ok := strings.CutSuffix(strings.TrimSuffix(p.Name, "."), ".svc."+v.domain)
	name, namespace, _ := strings.Cut(rest, ".")
	service := v.services[namespace+"/"+name]
	if !ok || service == nil || len(service.Spec.ClusterIPs) == 0 || isHeadless(service) {
		return nil, false
	}
	for _, a := range parseAddrs(service.Spec.ClusterIPs) {
		if a.Is4() == (p.Type == "A") {
			addrs = append(addrs, a.String())
		}
	}
	slices.Sort(addrs)
	return addrs, true
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// findWrongAnswer returns the servers that fail for names of the cluster, or have other addresses for them than the
// API server. NXDOMAIN for a name without such an address is a cause of its own.
func findWrongAnswer(v *view) (hits []hit) {
	servers, all := groupBy(only(v.usable, func(p probe) bool { return replied(p) && v.isClusterName(p) }), targetOf)
	for _, s := range servers {
		message := ""
		var evidence []string
		for _, p := range all[s] {
			switch want, isKnown := v.wants(p); {
			case p.RCode != rcodeSuccess && p.RCode != rcodeNXDomain:
				message = cmp.Or(message, "it fails for names of the cluster")
				evidence = append(evidence, probeLine(p))
			case isKnown && !slices.Equal(sorted(p.Answers), want):
				message = cmp.Or(message, "it has other addresses than the API server")
				evidence = append(evidence, probeLine(p),
					fmt.Sprintf("the API server has %s for %s", cmp.Or(strings.Join(want, " "), "no such address"), p.Name))
			}
		}
		if message != "" {
			hits = append(hits, s.hit(message, evidence...))
		}
	}
	return hits
}

// findAAAA returns the servers that deny the AAAA records of names with an A record.
func findAAAA(v *view) (hits []hit) {
	exists := map[string]bool{}
	for _, p := range v.usable {
		if p.Type == "A" && p.RCode == rcodeSuccess && len(p.Answers) > 0 {
			exists[p.Server+p.Name] = true
		}
	}
	servers, all := groupBy(only(v.usable, func(p probe) bool {
		return p.Type == "AAAA" && p.RCode == rcodeNXDomain && exists[p.Server+p.Name]
	}), func(p probe) string { return p.Server })
	for _, s := range servers {
		hits = append(hits, found(serverObject(s), "it answers NXDOMAIN for AAAA of a name that exists", lines(all[s])...))
	}
	return hits
}

// findExternal returns the servers that resolve names of the cluster, and no names outside: these are queried over
// UDP.
func findExternal(v *view) (hits []hit) {
	servers, all := groupBy(v.usable, targetOf)
	for _, s := range servers {
		works, resolved := false, false
		var outside []probe
		for _, p := range all[s] {
			if v.isClusterName(p) {
				works = works || p.Protocol == UDP && p.RCode == rcodeSuccess
				continue
			}
			outside = append(outside, p)
			resolved = resolved || p.RCode == rcodeSuccess || p.RCode == rcodeNXDomain
		}
		if works && !resolved && len(outside) > 0 {
			hits = append(hits, s.hit("it resolves no name outside the cluster", lines(outside)...))
		}
	}
	return hits
}

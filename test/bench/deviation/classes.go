// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deviation

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

// Class is a reason for a different reply of CoreDNS 1.15. The right reply is always that
// of package spec.
type Class struct {
	Name    string
	Applies func(*Case) bool
}

// Classes holds all classes. The first that applies to a case counts.
var Classes = []Class{
	{"slice-without-service-label", isUnlabelled},
	{"orphan-slice", isOrphan},
	{"fqdn-slice", isFQDNSlice},
	{"tolerated-unready", isTolerated},
	{"soa-of-missing-name", isMissingSOA},
	{"empty-non-terminal", isEmptyNonTerminal},
	{"txt-of-existing-name", isTXT},
	{"dns-version-other-type", isVersion},
	{"reverse-name-other-type", isReverseOther},
	{"address-of-port-name", isPortAddress},
	{"port-name-without-underscore", isLoosePort},
	{"srv-of-unnamed-port", isUnnamedPort},
	{"srv-of-endpoint", isEndpointSRV},
	{"srv-of-pod", isPodSRV},
	{"below-pod-name", isBelowPod},
	{"pod-of-special-address", isSpecialPod},
	{"external-name-other-type", isExternalOther},
	{"alias-loop", isLoop},
	{"alias-of-missing-name", isAliasOfMissing},
	{"alias-of-other-family", isAliasOfOther},
	{"alias-of-nothing-elsewhere", isAliasOfExternal},
	{"ns-dns", isNSDNS},
	{"below-reverse-name", isBelowReverse},
	{"special-use-name", isSpecialUse},
}

// Of returns the class of c, "" if CoreDNS must reply as package spec does.
func Of(c *Case) string {
	for _, class := range Classes {
		if class.Applies(c) {
			return class.Name
		}
	}
	return ""
}

// isSpecialUse: CoreDNS forwards names that no other server has.
func isSpecialUse(c *Case) bool {
	return spec.LocalZone(c.name) != "" && !c.Zone.IsOurs(c.name)
}

// isUnlabelled: for a slice without the label of a Service, CoreDNS builds a name with an
// empty label, which cannot be sent: there is no reply.
func isUnlabelled(c *Case) bool {
	return c.isType(dns.TypePTR) && c.address.IsValid() && !c.isClusterIP() &&
		slices.ContainsFunc(c.holders(), func(s *discoveryv1.EndpointSlice) bool { return s.Labels[discoveryv1.LabelServiceName] == "" })
}

func (c *Case) isClusterIP() bool {
	return slices.ContainsFunc(c.World.Services, func(s *corev1.Service) bool {
		return slices.Contains(s.Spec.ClusterIPs, c.address.String())
	})
}

// isOrphan: CoreDNS gives addresses the reverse name of a Service that does not exist or
// is an ExternalName. That name would not resolve.
func isOrphan(c *Case) bool {
	return c.isType(dns.TypePTR) && c.address.IsValid() && !c.isClusterIP() &&
		slices.ContainsFunc(c.holders(), func(s *discoveryv1.EndpointSlice) bool {
			owner := c.World.Service(s.Namespace, s.Labels[discoveryv1.LabelServiceName])
			return owner == nil || world.IsExternal(owner)
		})
}

// isFQDNSlice: CoreDNS treats names in slices as addresses, and serves aliases for them.
func isFQDNSlice(c *Case) bool {
	name := c.name
	if aliases := c.aliases(); len(aliases) > 0 && c.isType(dns.TypeA, dns.TypeAAAA) {
		name = aliases[len(aliases)-1]
	}
	namespace, service, ok := serviceOf(name)
	owner := c.World.Service(namespace, service)
	if !ok || owner == nil || world.IsExternal(owner) {
		return false
	}
	i := slices.IndexFunc(c.World.SlicesOf(namespace, service), func(s *discoveryv1.EndpointSlice) bool {
		return s.AddressType == discoveryv1.AddressTypeFQDN
	})
	switch {
	case i < 0 || len(c.below) == 0 && !world.IsHeadless(owner):
		return false
	case len(c.below) == 1 && c.below[0] != fqdnLabel, len(c.below) == 2 && !c.hasPort(owner):
		return false
	default:
		return c.Want.Rcode == dns.RcodeNameError || c.isType(dns.TypeA, dns.TypeAAAA, dns.TypeCNAME)
	}
}

// fqdnLabel is the label of CoreDNS for world.FQDNEndpoint.
const fqdnLabel = "host-example"

// isTolerated: a Service tolerates endpoints that are not ready, and CoreDNS waits until
// their slice marks them as ready.
func isTolerated(c *Case) bool {
	return !ask.Normal(c.Question, c.Want).Equal(ask.Normal(c.Question, c.untolerant.Answer(c.Question)))
}

// isMissingSOA: in CoreDNS every name exists for queries of type SOA.
func isMissingSOA(c *Case) bool {
	return c.isType(dns.TypeSOA) && (len(c.labels) > 0 && c.Want.Rcode == dns.RcodeNameError ||
		dns.IsSubDomain("arpa.", c.name) && !c.Zone.IsOurs(c.name))
}

// isEmptyNonTerminal: a name exists if a name below it does (RFC 8020). CoreDNS follows
// that for namespaces only.
func isEmptyNonTerminal(c *Case) bool {
	if !c.Zone.IsOurs(c.name) || !c.isEmpty() || c.isType(dns.TypeSOA) {
		return false
	}
	isProtocol := len(c.below) == 1 && strings.HasPrefix(c.below[0], "_")
	return c.isAt("dns.") || isProtocol
}

// isTXT: CoreDNS replies to TXT queries with a text if the name has other records, and
// denies other names.
func isTXT(c *Case) bool {
	return c.isType(dns.TypeTXT) && len(c.labels) <= 2 && c.Zone.IsOurs(c.name) && dns.IsSubDomain(world.Zone, c.name) && c.isEmpty()
}

// isVersion: in CoreDNS dns-version exists for TXT only.
func isVersion(c *Case) bool {
	return c.isAt("dns-version.") && !c.isType(dns.TypeTXT, dns.TypeSOA)
}

// isReverseOther: in CoreDNS a reverse name exists for PTR only.
func isReverseOther(c *Case) bool {
	return c.address.IsValid() && c.Zone.Has(c.name) && !c.isType(dns.TypePTR, dns.TypeSOA)
}

// isPortAddress: CoreDNS gives the name of a port the addresses of its targets.
func isPortAddress(c *Case) bool {
	if !c.isType(dns.TypeA, dns.TypeAAAA) || len(c.below) != 2 {
		return false
	}
	return slices.ContainsFunc(c.Zone.Records(c.name, dns.TypeSRV), func(rr dns.RR) bool {
		return len(c.Zone.Records(rr.(*dns.SRV).Target, c.Question.Type)) > 0
	})
}

// isLoosePort: CoreDNS finds a port without the underscores of RFC 2782, and treats an
// empty label after an underscore as a wildcard.
func isLoosePort(c *Case) bool {
	if c.service == nil || world.IsExternal(c.service) || len(c.below) != 2 || c.hasRecords(dns.TypeSRV) {
		return false
	}
	return c.hasPort(c.service)
}

// hasPort reports whether CoreDNS finds a port of owner for the two labels below.
func (c *Case) hasPort(owner *corev1.Service) bool {
	port, protocol := strings.TrimPrefix(c.below[0], "_"), strings.TrimPrefix(c.below[1], "_")
	matches := func(p, proto string) bool {
		return (port == "" || strings.EqualFold(port, p)) && (protocol == "" || strings.EqualFold(protocol, proto))
	}
	if !world.IsHeadless(owner) {
		return slices.ContainsFunc(owner.Spec.Ports, func(p corev1.ServicePort) bool { return matches(p.Name, string(p.Protocol)) })
	}
	return slices.ContainsFunc(c.slices, func(s *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, world.IsReady) && slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool {
			return matches(*p.Name, string(*p.Protocol))
		})
	})
}

// isUnnamedPort: unnamed ports have no SRV record in the specification; CoreDNS adds one
// at the Service's own name.
func isUnnamedPort(c *Case) bool {
	if c.service == nil || world.IsExternal(c.service) || len(c.below) > 0 || !c.isType(dns.TypeSRV) {
		return false
	}
	if !world.IsHeadless(c.service) {
		return slices.ContainsFunc(c.service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "" })
	}
	return slices.ContainsFunc(c.slices, func(s *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, world.IsReady) &&
			slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return *p.Name == "" })
	})
}

// isEndpointSRV: CoreDNS gives the names of endpoints the ports of their slices.
func isEndpointSRV(c *Case) bool {
	return c.isType(dns.TypeSRV) && c.service != nil && len(c.below) == 1 &&
		slices.ContainsFunc(c.slices, func(s *discoveryv1.EndpointSlice) bool {
			return len(s.Ports) > 0 && slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
				return world.IsReady(e) && world.Hostname(e, e.Addresses[0]) == c.below[0]
			})
		})
}

// isPodSRV: CoreDNS gives a pod's name the port 0.
func isPodSRV(c *Case) bool { return c.isType(dns.TypeSRV) && c.isPod() && len(c.below) == 0 }

// isBelowPod: CoreDNS ignores the labels left of a pod's name.
func isBelowPod(c *Case) bool { return c.isPod() && (len(c.below) == 1 || len(c.below) == 2) }

// isSpecialPod: CoreDNS returns addresses that a pod cannot have, such as loopback addresses.
func isSpecialPod(c *Case) bool {
	if !c.Zone.AnswersAnyPod() || len(c.labels) != 3 || c.labels[2] != "pod" || !c.Zone.Has(c.labels[1]+".pod."+world.Zone) {
		return false
	}
	addr, err := netip.ParseAddr(strings.ReplaceAll(c.labels[0], "-", ":"))
	if err != nil {
		addr, err = netip.ParseAddr(strings.ReplaceAll(c.labels[0], "-", "."))
	}
	return err == nil && !addr.IsGlobalUnicast()
}

// isExternalOther: an alias applies to all types (RFC 1034 section 3.6.2); CoreDNS
// follows it for addresses only.
func isExternalOther(c *Case) bool {
	return c.hasRecords(dns.TypeCNAME) && !c.isType(dns.TypeA, dns.TypeAAAA, dns.TypeCNAME)
}

// The target of the ExternalName has no address, or is the name itself.
func isExternalWithout(c *Case) bool {
	return c.hasRecords(dns.TypeCNAME) && c.isType(dns.TypeA, dns.TypeAAAA) &&
		!slices.ContainsFunc(c.Want.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == c.Question.Type })
}

// isLoop: CoreDNS replies NODATA for a name that is an alias of itself.
func isLoop(c *Case) bool {
	aliases := c.aliases()
	return isExternalWithout(c) && c.Want.Rcode == dns.RcodeServerFailure && dns.IsSubDomain(world.Zone, aliases[len(aliases)-1])
}

// isAliasOfMissing: CoreDNS omits an alias whose target in the zone does not exist, so
// that the resolver cannot see which name is missing.
func isAliasOfMissing(c *Case) bool {
	return isExternalWithout(c) && !c.leavesZone() && c.Want.Rcode == dns.RcodeNameError
}

// isAliasOfOther: CoreDNS omits an alias whose target in the zone has no such address.
func isAliasOfOther(c *Case) bool {
	return isExternalWithout(c) && !c.leavesZone() && c.Want.Rcode == dns.RcodeSuccess
}

// isAliasOfExternal: CoreDNS omits the upstream resolver's reply for the target of an
// alias: NXDOMAIN, NODATA or a failure.
func isAliasOfExternal(c *Case) bool { return isExternalWithout(c) && c.leavesZone() }

func (c *Case) leavesZone() bool {
	if c.Want.Rcode == dns.RcodeServerFailure {
		return true
	}
	aliases := c.aliases()
	return len(aliases) > 0 && !dns.IsSubDomain(world.Zone, aliases[len(aliases)-1])
}

// isNSDNS: CoreDNS compares ns.dns with the zone in the case of the question, and ignores
// it for PTR.
func isNSDNS(c *Case) bool {
	return c.isAt("ns.dns.") && (c.isType(dns.TypePTR) || !strings.HasSuffix(c.Question.Name, world.Zone) && !c.isType(dns.TypeSOA))
}

// isBelowReverse: CoreDNS does not check the number of labels of an IPv6 reverse name.
func isBelowReverse(c *Case) bool {
	_, rest, _ := strings.Cut(c.name, ".")
	above := *c
	above.address = addressOf(rest)
	return c.isType(dns.TypePTR) && above.address.Is6() && (above.isClusterIP() || len(above.holders()) > 0)
}

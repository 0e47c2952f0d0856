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
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
)

const stubResolver = "/run/systemd/resolve/stub-resolv.conf" // its only server is 127.0.0.53

func (v *view) corefileHit(message string, evidence ...string) hit {
	return found(object{"ConfigMap", v.corefile.config.Namespace, v.corefile.config.Name}, message, evidence...)
}

// findNoConfiguration returns the ConfigMaps and keys that pods of the cluster DNS mount and that do not exist, and
// an empty Corefile.
func findNoConfiguration(v *view) (hits []hit) {
	seen := map[string]bool{}
	for _, p := range v.dnsPods {
		for _, volume := range p.Spec.Volumes {
			source := volume.ConfigMap
			if source == nil || ptr.Deref(source.Optional, false) || seen[source.Name] {
				continue
			}
			seen[source.Name] = true
			name := types.NamespacedName{Namespace: p.Namespace, Name: source.Name}
			if problem := missingData(v.configMap(name), source.Items); problem != "" {
				hits = append(hits, found(object{"ConfigMap", name.Namespace, name.Name}, problem,
					fmt.Sprintf("Pod %s mounts it: volume %s", p.Name, volume.Name)))
			}
		}
	}
	return hits
}

// missingData returns what a mounted ConfigMap lacks, which may be nil.
func missingData(c *corev1.ConfigMap, items []corev1.KeyToPath) string {
	if c == nil {
		return "there is no such ConfigMap"
	}
	for _, item := range items {
		_, isText := c.Data[item.Key]
		if _, isBinary := c.BinaryData[item.Key]; !isText && !isBinary {
			return "there is no key " + item.Key
		}
	}
	text, ok := c.Data["Corefile"]
	if ok && strings.TrimSpace(text) == "" {
		return "the Corefile is empty"
	}
	for key := range c.Data {
		if !ok && strings.EqualFold(key, "Corefile") {
			return "the key is " + key + ", want Corefile"
		}
	}
	return ""
}

// findRefused returns what CoreDNS refuses. A ready pod that started after the last change accepted all of it, and
// any ready pod may be a build with further plugins.
func findRefused(v *view) []hit {
	changed := lastChange(v.corefile.config)
	isReadySince := func(p *corev1.Pod) bool {
		return isReady(p) && !changed.IsZero() && p.Status.StartTime != nil && p.Status.StartTime.After(changed)
	}
	if slices.ContainsFunc(v.dnsPods, isReadySince) {
		return nil
	}
	isOther := slices.ContainsFunc(v.dnsPods, isReady)
	problems := slices.Concat(v.corefile.problems, corefile.DuplicateZones(v.corefile.blocks),
		corefile.Refused(v.corefile.blocks, func(hasSimilar bool) bool { return hasSimilar || !isOther }))
	if len(problems) == 0 {
		return nil
	}
	var evidence []string
	for _, p := range problems {
		texts := strings.Split(cmp.Or(v.corefile.imported[p.File], v.corefile.text), "\n")
		text := strings.TrimSpace(texts[min(p.Line, len(texts))-1])
		evidence = append(evidence, evidenceLine(p.File, p.Line, fmt.Sprintf("%s (%s)", text, p.Message)))
	}
	h := v.corefileHit(problems[0].Message, evidence...)
	if name, _, ok := strings.Cut(problems[0].File, "/"); ok {
		h.object.name = name
	}
	return []hit{h}
}

// addressOf returns the address of a server of the plugin forward; ok is false if it is
// another kind of text, such as a file.
func addressOf(to string) (addr netip.Addr, ok bool) {
	if _, rest, hasScheme := strings.Cut(to, "://"); hasScheme {
		to, _, _ = strings.Cut(rest, "%")
	}
	if withPort, err := netip.ParseAddrPort(to); err == nil {
		return withPort.Addr().Unmap(), true
	}
	addr, err := netip.ParseAddr(strings.Trim(to, "[]"))
	return addr.Unmap(), err == nil
}

func findLoop(v *view) (hits []hit) {
	own := slices.Concat(v.clusterDNS, v.addrs)
	for _, f := range v.corefile.find("forward") {
		for _, to := range f.Args[min(1, len(f.Args)):] {
			addr, isAddr := addressOf(to)
			switch {
			case isAddr && addr.IsLoopback():
				h := v.corefileHit("it forwards to the loopback address "+addr.String(), f.evidence())
				h.cause = "in a pod a loopback address is the pod itself: each query returns to the server until it fails"
				hits = append(hits, h)
			case isAddr && slices.Contains(own, addr):
				hits = append(hits, v.corefileHit(fmt.Sprintf("it forwards to %s, the address of the cluster DNS itself", addr),
					f.evidence(), "spec.clusterIPs: "+strings.Join(v.dns.Spec.ClusterIPs, ", ")))
			case to == "/etc/resolv.conf":
				hits = append(hits, v.ownFileHits(f)...)
			}
		}
	}
	return hits
}

// ownFileHits returns why the servers of the resolv.conf of the pods are no servers outside the cluster.
func (v *view) ownFileHits(f located) []hit {
	for _, p := range v.dnsPods {
		if p.Spec.DNSPolicy == corev1.DNSClusterFirst && !p.Spec.HostNetwork || p.Spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet {
			h := v.corefileHit("it forwards to the servers of its own resolv.conf, which is that of a pod: the cluster DNS itself",
				f.evidence(), fmt.Sprintf("Pod %s: spec.dnsPolicy: %s", p.Name, p.Spec.DNSPolicy))
			h.next = "set dnsPolicy: Default in the pods of the cluster DNS"
			return []hit{h}
		}
	}
	if v.kubelet != nil && ptr.Deref(v.kubelet.ResolvConf, "") == stubResolver {
		h := v.corefileHit("it forwards to the servers of the node's resolv.conf, which is a stub",
			f.evidence(), v.kubelet.source.String()+", resolvConf: "+stubResolver)
		h.cause = "127.0.0.53 is systemd-resolved on the node; in a pod nothing listens there"
		h.next = "set resolvConf: /run/systemd/resolve/resolv.conf in the KubeletConfiguration of the nodes"
		return []hit{h}
	}
	return nil
}

// findDomain returns a Corefile without the plugin kubernetes, or with it for other zones.
func findDomain(v *view) []hit {
	plugins, zones := v.corefile.find("kubernetes"), v.corefile.kubernetesZones()
	var evidence []string
	switch want := strings.ToLower(v.kubeletDomain) + "."; {
	case v.corefile.partial:
	case len(plugins) == 0:
		for _, b := range v.corefile.blocks {
			evidence = append(evidence, blockLine(b))
		}
		return []hit{v.corefileHit("the plugin kubernetes is missing", evidence...)}
	case want != "." && !slices.ContainsFunc(zones, func(zone string) bool { return zone == "." || isWithin(want, zone) }):
		evidence = append(evidence, v.kubelet.source.String()+", clusterDomain: "+v.kubelet.ClusterDomain)
		for _, k := range plugins {
			evidence = append(evidence, k.evidence())
		}
		return []hit{v.corefileHit("it does not serve "+want, evidence...)}
	}
	return nil
}

// findLostNames returns the plugins that end the search for names of the cluster before the plugin kubernetes, or
// limit what it has, and a port without a server. With zones of its own a plugin ends the search for these only.
func findLostNames(v *view) (hits []hit) {
	for _, name := range []string{"hosts", "template", "acl", "kubernetes"} {
		for _, d := range v.corefile.find(name) {
			if problem := d.losesNames(v.domain); problem != "" {
				hits = append(hits, v.corefileHit(problem, d.evidence()))
			}
		}
	}
	if len(v.endpoints) == 0 || v.endpoints[0].udp == 0 || len(v.corefile.blocks) == 0 || v.corefile.partial {
		return hits
	}
	port := strconv.Itoa(int(v.endpoints[0].udp))
	listens := func(key string) bool { _, own := corefile.SplitKey(key); return own == port }
	if !slices.ContainsFunc(v.corefile.blocks, func(b corefile.Block) bool { return slices.ContainsFunc(b.Keys, listens) }) {
		message := "no server block has the port " + port + ", to which the Service leads"
		hits = append(hits, v.corefileHit(message, blockLine(v.corefile.blocks[0])))
	}
	return hits
}

// losesNames returns why names of the cluster, which is domain, do not exist because of a plugin; "": they do.
func (d located) losesNames(domain string) string {
	isOfCluster := len(d.block.Find("kubernetes")) > 0
	switch d.Name {
	case "hosts":
		if len(d.Args) < 2 && (isOfCluster || len(d.block.Find("forward")) > 0) && len(d.Find("fallthrough")) == 0 {
			return "hosts without fallthrough: names that it does not have get SERVFAIL"
		}
	case "template":
		isOther := len(d.Args) > 2 && !slices.ContainsFunc(d.Args[2:], func(zone string) bool {
			return isWithin(domain, strings.ToLower(strings.Trim(zone, "."))) || zone == "."
		})
		if isOfCluster && !isOther && d.answersA() && len(d.Find("match"))+len(d.Find("fallthrough")) == 0 {
			return "template answers for all names, also of the cluster"
		}
	case "acl":
		if isOfCluster && len(d.Args) == 0 && len(d.Body) > 0 && d.Body[0].Name != "allow" && len(d.Body[0].Args) == 0 {
			return "acl denies the queries of all clients"
		}
	case "kubernetes":
		if len(d.Find("namespaces"))+len(d.Find("namespace_labels")) > 0 {
			return "the Services of other namespaces do not exist"
		}
	}
	return ""
}

// answersA reports whether a template answers for the addresses of names: NXDOMAIN for AAAA is for the whole name.
func (d located) answersA() bool {
	denies := slices.ContainsFunc(d.Find("rcode"), func(r corefile.Directive) bool { return r.String() == "rcode "+rcodeNXDomain })
	return len(d.Args) > 1 && (d.Args[1] == "A" || d.Args[1] == "ANY" || denies && d.Args[1] == "AAAA")
}

const (
	maxDenial     = 3600 // seconds for which the absence of a name may be cached
	minConcurrent = 100  // queries that may wait for the upstream servers
)

// findValues returns values that are valid, and lose or delay queries.
func findValues(v *view) (hits []hit) {
	for _, file := range v.corefile.ignored {
		h := v.corefileHit("no import of the Corefile matches the key", file.name)
		h.object.name, _, _ = strings.Cut(file.name, "/")
		h.cause = "the file is mounted, and CoreDNS does not read it"
		hits = append(hits, h)
	}
	for _, tt := range []struct {
		plugin, property string
		index            int
		problem          string
		isBad            func(n int) bool
	}{
		{"cache", "denial", 1, "the absence of a name is cached for more than an hour", func(n int) bool { return n > maxDenial }},
		{"forward", "max_concurrent", 0, "few queries may wait for the upstream servers: others are refused",
			func(n int) bool { return n < minConcurrent }},
	} {
		for _, property := range v.corefile.properties(tt.plugin, tt.property) {
			if len(property.Args) <= tt.index {
				continue
			}
			if n, err := strconv.Atoi(property.Args[tt.index]); err == nil && tt.isBad(n) {
				hits = append(hits, v.corefileHit(tt.problem, property.evidence()))
			}
		}
	}
	return hits
}

// findNoForward returns the Corefiles that lose names outside the cluster, or reverse names.
func findNoForward(v *view) (hits []hit) {
	root := slices.IndexFunc(v.corefile.blocks, func(b corefile.Block) bool { return slices.Contains(b.Zones(), ".") })
	switch {
	case v.corefile.partial:
	case root < 0:
		first, _, _ := strings.Cut(v.corefile.text, "\n")
		return []hit{v.corefileHit("no server block serves names outside the cluster", evidenceLine("", 1, first))}
	case len(v.corefile.blocks[root].Find("forward"))+len(v.corefile.blocks[root].Find("grpc")) == 0:
		return []hit{v.corefileHit("no forward in the block of the zone .", blockLine(v.corefile.blocks[root]))}
	}
	for _, k := range v.corefile.find("kubernetes") {
		falls := func(zone string) bool {
			return slices.ContainsFunc(k.Find("fallthrough"), func(f corefile.Directive) bool {
				isZone := func(a string) bool { return strings.TrimSuffix(a, ".")+"." == zone }
				return len(f.Args) == 0 || slices.ContainsFunc(f.Args, isZone)
			})
		}
		for _, zone := range []string{"in-addr.arpa.", "ip6.arpa."} {
			if slices.Contains(zonesOf(k), zone) && !falls(zone) && root >= 0 {
				hits = append(hits, v.corefileHit("no fallthrough for "+zone, k.evidence()))
				break
			}
		}
	}
	return hits
}

func findNotReloaded(v *view) []hit {
	if len(v.corefile.find("reload")) > 0 || v.corefile.partial {
		return nil
	}
	changed := lastChange(v.corefile.config)
	evidence := []string{"changed " + changed.UTC().Format(time.RFC3339)}
	for _, p := range v.dnsPods {
		if p.Status.StartTime != nil && changed.After(p.Status.StartTime.Time) {
			evidence = append(evidence, fmt.Sprintf("Pod %s started %s", p.Name, p.Status.StartTime.UTC().Format(time.RFC3339)))
		}
	}
	if len(evidence) == 1 {
		return nil
	}
	return []hit{v.corefileHit("the pods do not have the last change", evidence...)}
}

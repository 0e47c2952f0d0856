// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/spelling"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const (
	nextEdit      = "kubectl -n $NS edit configmap $NAME"
	nextLogs      = "kubectl -n $NS logs -l k8s-app=kube-dns --all-containers --prefix"
	causeLoopback = "in a pod a loopback address is the pod itself: each query returns to the server until it fails"

	stubResolver = "/run/systemd/resolve/stub-resolv.conf" // its only server is 127.0.0.53
)

// corefileChecks are about the configuration of CoreDNS: what keeps it from starting, and
// which names of the cluster it does not serve.
func corefileChecks() []Check {
	needs := []need{needDNS, needCorefile}
	return []Check{
		{
			Code: "corefile-syntax", Severity: policy.SeverityError, What: "the Corefile cannot be read",
			cause: "CoreDNS does not start with it; one that runs keeps the configuration that it has until it is restarted",
			next:  nextEdit, needs: needs, find: findSyntax,
		},
		{
			Code: "corefile-unknown-plugin", Severity: policy.SeverityError, What: "the Corefile names a plugin that CoreDNS does not have",
			cause: "CoreDNS does not start with it; one that runs keeps the configuration that it has until it is restarted",
			next:  nextEdit, needs: needs, find: findUnknownPlugin,
		},
		{
			Code: "corefile-duplicate-zone", Severity: policy.SeverityError,
			What:  "two server blocks of the Corefile have the same zone and port",
			cause: "CoreDNS does not start with it",
			next:  nextEdit, needs: needs, find: findDuplicateZone,
		},
		{
			Code: "corefile-loop", Severity: policy.SeverityError, What: "the cluster DNS forwards to itself or to a loopback address",
			cause: "each query for a name outside the cluster returns to the server until it fails",
			next:  nextEdit + "; forward to the servers of the network", needs: append(needs, read(Services)), find: findLoop,
		},
		{
			Code: "corefile-stub-resolver", Severity: policy.SeverityError,
			What:  "the cluster DNS forwards to the servers of a resolv.conf that has the stub of systemd-resolved",
			cause: "127.0.0.53 is systemd-resolved on the node; in a pod nothing listens there",
			next:  "set resolvConf: /run/systemd/resolve/resolv.conf in the KubeletConfiguration of the nodes",
			needs: append(needs, needKubelet), find: findStubResolver,
		},
		{
			Code: "corefile-no-kubernetes", Severity: policy.SeverityError,
			What:  "no server block of the Corefile serves the names of the cluster",
			cause: "the plugin kubernetes is missing",
			next:  nextEdit, needs: needs, find: findNoKubernetes,
		},
		{
			Code: "corefile-hosts-fallthrough", Severity: policy.SeverityError,
			What:  "the plugin `hosts` answers for all names and has no `fallthrough`",
			cause: "hosts comes before kubernetes and forward: without fallthrough every name that it does not have gets SERVFAIL",
			next:  nextEdit + "; add fallthrough to the block of hosts", needs: needs, find: findHostsFallthrough,
		},
		{
			Code: "corefile-domain", Severity: policy.SeverityError,
			What:  "the cluster domain of the Corefile differs from that in the search list of pods",
			cause: "the short names of Services do not resolve",
			next:  nextEdit, needs: append(needs, needKubelet), find: findDomain,
		},
	}
}

// corefileHabits are about Corefiles with which CoreDNS starts, and which have a cost.
func corefileHabits() []Check {
	needs := []need{needDNS, needCorefile}
	return []Check{
		{
			Code: "corefile-no-forward", Severity: policy.SeverityWarning, What: "the Corefile forwards no names outside the cluster",
			cause: "such names get SERVFAIL or REFUSED",
			next:  nextEdit, needs: needs, find: findNoForward,
		},
		{
			Code: "corefile-no-ready", Severity: policy.SeverityWarning, What: "the Corefile does not have the plugin `ready`",
			cause: "a pod receives queries before it knows the names of the cluster, or is never ready if its probe asks the plugin",
			next:  nextEdit, needs: needs, find: missing("ready"),
		},
		{
			Code: "corefile-no-health", Severity: policy.SeverityWarning, What: "the Corefile does not have the plugin `health`",
			cause: "a liveness probe has nothing to ask, and without lameduck queries are lost when a pod stops",
			next:  nextEdit, needs: needs, find: missing("health"),
		},
		{
			Code: "corefile-no-cache", Severity: policy.SeverityWarning,
			What:  "the Corefile does not have the plugin `cache` for names outside the cluster",
			cause: "every query for such a name goes to the servers outside the cluster",
			next:  nextEdit, needs: needs, find: missing("cache"),
		},
		{
			Code: "corefile-no-loop", Severity: policy.SeverityWarning,
			What:  "the Corefile forwards to a file and does not have the plugin `loop`",
			cause: "a forwarding loop is not detected: it takes the CPU and the memory of the node",
			next:  nextEdit, needs: needs, find: findNoLoop,
		},
		{
			Code: "corefile-no-reload", Severity: policy.SeverityWarning, What: "the Corefile does not have the plugin `reload`",
			cause: "a change of the ConfigMap has no effect until the pods are restarted",
			next:  nextEdit, needs: needs, find: missing("reload"),
		},
		{
			Code: "corefile-not-reloaded", Severity: policy.SeverityWarning,
			What:  "the Corefile changed after the pods of the cluster DNS had started, and they do not reload it",
			cause: "the pods serve the previous Corefile",
			next:  "kubectl -n kube-system rollout restart deployment coredns", needs: needs, find: findNotReloaded,
		},
		{
			Code: "corefile-reverse-fallthrough", Severity: policy.SeverityWarning,
			What:  "reverse names of addresses outside the cluster do not resolve",
			cause: "without fallthrough the plugin kubernetes answers NXDOMAIN for every address that it does not know",
			next:  nextEdit + "; add: fallthrough in-addr.arpa ip6.arpa", needs: needs, find: findReverseFallthrough,
		},
		{
			Code: "corefile-autopath-pods", Severity: policy.SeverityWarning, What: "the plugin `autopath` is used without `pods verified`",
			cause: "autopath finds the namespace of a client by its address, for which the plugin kubernetes must watch the pods",
			next:  nextEdit, needs: needs, find: findAutopathPods,
		},
		{
			Code: "corefile-pods-verified", Severity: policy.SeverityInfo,
			What:  "`pods verified` is set, and the plugin `autopath` is not used",
			cause: "CoreDNS watches all pods and keeps them in its memory, only to check names such as 10-0-0-1.shop.pod.cluster.local",
			next:  nextEdit + "; pods insecure is the default of installers", needs: needs, find: findPodsVerified,
		},
	}
}

func (v *view) corefileHit(message string, evidence ...string) hit {
	return hit{object: v.corefile.object(), message: message, evidence: evidence}
}

func findSyntax(v *view) []hit {
	if len(v.corefile.problems) == 0 {
		return nil
	}
	lines := strings.Split(v.corefile.text, "\n")
	var evidence []string
	for _, p := range v.corefile.problems {
		evidence = append(evidence,
			evidenceLine(p.Line, fmt.Sprintf("%s (%s)", p.Message, strings.TrimSpace(lines[min(p.Line, len(lines))-1]))))
	}
	return []hit{v.corefileHit(v.corefile.problems[0].Message, evidence...)}
}

func findUnknownPlugin(v *view) (hits []hit) {
	plugins := strings.Fields(pluginNames)
	for _, b := range v.corefile.blocks {
		for _, d := range b.Directives {
			if slices.Contains(plugins, d.Name) {
				continue
			}
			message := fmt.Sprintf("unknown plugin %q", d.Name)
			switch closest, ok := spelling.Closest(d.Name, plugins); {
			case ok:
				message += ": did you mean " + closest + "?"
			case slices.ContainsFunc(v.dnsPods, isReady): // a build with more plugins
				continue
			}
			hits = append(hits, v.corefileHit(message, evidenceLine(d.Line, d.String())))
		}
	}
	return hits
}

func findDuplicateZone(v *view) (hits []hit) {
	first := map[string]*Block{}
	for i := range v.corefile.blocks {
		b := &v.corefile.blocks[i]
		bind := ""
		for _, d := range b.Find("bind") {
			bind += " " + strings.Join(d.Args, " ")
		}
		for _, key := range b.Keys {
			zone, port := SplitKey(key)
			id := zone + ":" + port + bind
			if other := first[id]; other != nil {
				hits = append(hits,
					v.corefileHit(fmt.Sprintf("the zone %s is defined twice for port %s", zone, port), blockLine(other), blockLine(b)))
				continue
			}
			first[id] = b
		}
	}
	return hits
}

// ownAddresses returns the addresses of the cluster DNS.
func (v *view) ownAddresses() []netip.Addr {
	own := slices.Clone(v.clusterDNS)
	for _, text := range v.dns.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			own = append(own, a)
		}
	}
	return own
}

func findLoop(v *view) (hits []hit) {
	own := v.ownAddresses()
	for _, f := range v.corefile.find("forward") {
		for _, to := range f.Args[min(1, len(f.Args)):] {
			addr, isAddr := addressOf(to)
			switch {
			case isAddr && addr.IsLoopback():
				h := v.corefileHit("it forwards to the loopback address "+addr.String(), f.evidence())
				h.cause = causeLoopback
				hits = append(hits, h)
			case isAddr && slices.Contains(own, addr):
				hits = append(
					hits,
					v.corefileHit(
						fmt.Sprintf("it forwards to %s, the address of the cluster DNS itself", addr),
						f.evidence(),
						"spec.clusterIPs: "+strings.Join(v.dns.Spec.ClusterIPs, ", "),
					),
				)
			case !isAddr && path.IsAbs(to):
				hits = append(hits, v.ownFileHits(f)...)
			}
		}
	}
	return hits
}

// ownFileHits returns the pods whose resolv.conf names the cluster DNS, to which they forward.
func (v *view) ownFileHits(f located) []hit {
	for _, p := range v.dnsPods {
		clusterFirst := p.Spec.DNSPolicy == corev1.DNSClusterFirst && !p.Spec.HostNetwork ||
			p.Spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet
		if clusterFirst && slices.Contains(f.Args, "/etc/resolv.conf") {
			h := v.corefileHit("it forwards to the servers of its own resolv.conf, which is that of a pod: the cluster DNS itself",
				f.evidence(), fmt.Sprintf("Pod %s: spec.dnsPolicy: %s", p.Name, p.Spec.DNSPolicy))
			h.next = "set dnsPolicy: Default in the pods of the cluster DNS"
			return []hit{h}
		}
	}
	return nil
}

func findStubResolver(v *view) (hits []hit) {
	if v.kubelet.ResolvConf == nil || *v.kubelet.ResolvConf != stubResolver {
		return nil
	}
	for _, f := range v.corefile.find("forward") {
		if slices.Contains(f.Args, "/etc/resolv.conf") {
			hits = append(hits, v.corefileHit("it forwards to the servers of the node's resolv.conf, which is a stub",
				f.evidence(), v.kubelet.source.String()+", resolvConf: "+*v.kubelet.ResolvConf))
		}
	}
	return hits
}

func findNoKubernetes(v *view) []hit {
	if len(v.corefile.find("kubernetes")) > 0 || v.corefile.imports() {
		return nil
	}
	var evidence []string
	for i := range v.corefile.blocks {
		evidence = append(evidence, blockLine(&v.corefile.blocks[i]))
	}
	return []hit{v.corefileHit("the plugin kubernetes is missing", evidence...)}
}

func findDomain(v *view) []hit {
	want := strings.ToLower(strings.TrimSuffix(v.kubelet.ClusterDomain, ".")) + "."
	zones := v.corefile.kubernetesZones()
	serves := func(zone string) bool { return zone == "." || isWithin(want, zone) }
	if want == "." || len(zones) == 0 || slices.ContainsFunc(zones, serves) {
		return nil
	}
	evidence := []string{v.kubelet.source.String() + ", clusterDomain: " + v.kubelet.ClusterDomain}
	for _, k := range v.corefile.find("kubernetes") {
		evidence = append(evidence, k.evidence())
	}
	return []hit{v.corefileHit("it does not serve "+want, evidence...)}
}

func findNoForward(v *view) []hit {
	b := v.corefile.rootBlock()
	switch {
	case v.corefile.imports():
		return nil
	case b == nil:
		return []hit{v.corefileHit(
			"no server block serves names outside the cluster",
			evidenceLine(1, strings.SplitN(v.corefile.text, "\n", 2)[0]),
		)}
	case len(b.Find("forward"))+len(b.Find("grpc")) == 0:
		return []hit{v.corefileHit("no forward in the block of the zone .", blockLine(b))}
	}
	return nil
}

// missing returns a search for Corefiles without a plugin.
func missing(plugin string) func(*view) []hit {
	return func(v *view) []hit {
		if len(v.corefile.find(plugin)) > 0 || v.corefile.imports() || len(v.corefile.blocks) == 0 {
			return nil
		}
		return []hit{v.corefileHit("the plugin "+plugin+" is missing", blockLine(&v.corefile.blocks[0]))}
	}
}

func findNoLoop(v *view) []hit {
	for _, f := range v.corefile.find("forward") {
		if slices.ContainsFunc(f.Args, path.IsAbs) && len(f.block.Find("loop")) == 0 && !v.corefile.imports() {
			return []hit{v.corefileHit("the plugin loop is missing", f.evidence())}
		}
	}
	return nil
}

func findNotReloaded(v *view) []hit {
	if len(v.corefile.find("reload")) > 0 || v.corefile.imports() {
		return nil
	}
	changed := lastChange(v.corefile.config)
	var evidence []string
	for _, p := range v.dnsPods {
		if p.Status.StartTime != nil && changed.After(p.Status.StartTime.Time) {
			evidence = append(evidence, fmt.Sprintf("Pod %s started %s", p.Name, timeText(p.Status.StartTime.Time)))
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	return []hit{v.corefileHit("the pods do not have the last change", append([]string{"changed " + timeText(changed)}, evidence...)...)}
}

func findReverseFallthrough(v *view) (hits []hit) {
	for _, k := range v.corefile.find("kubernetes") {
		fallthroughs := k.Find("fallthrough")
		for _, zone := range []string{"in-addr.arpa.", "ip6.arpa."} {
			falls := slices.ContainsFunc(fallthroughs, func(f Directive) bool {
				return len(f.Args) == 0 ||
					slices.ContainsFunc(f.Args, func(a string) bool { return strings.TrimSuffix(a, ".")+"." == zone })
			})
			if slices.Contains(zonesOf(k), zone) && !falls && v.corefile.rootBlock() != nil {
				hits = append(hits, v.corefileHit("no fallthrough for "+zone, k.evidence()))
				break
			}
		}
	}
	return hits
}

// findHostsFallthrough returns the plugins hosts that end the search for a name of the cluster
// or outside of it. With zones of its own the plugin ends it for these only.
func findHostsFallthrough(v *view) (hits []hit) {
	for _, h := range v.corefile.find("hosts") {
		zones := h.Args
		if len(zones) > 0 && path.IsAbs(zones[0]) {
			zones = zones[1:]
		}
		serves := len(h.block.Find("kubernetes"))+len(h.block.Find("forward")) > 0
		if len(zones) == 0 && serves && len(h.Find("fallthrough")) == 0 {
			hits = append(hits, v.corefileHit("hosts without fallthrough", h.evidence()))
		}
	}
	return hits
}

func (v *view) podsVerified() (verified *Directive) {
	for _, k := range v.corefile.find("kubernetes") {
		for _, d := range k.Find("pods") {
			if slices.Equal(d.Args, []string{"verified"}) {
				return &d
			}
		}
	}
	return nil
}

func findAutopathPods(v *view) (hits []hit) {
	if v.podsVerified() != nil {
		return nil
	}
	for _, a := range v.corefile.find("autopath") {
		if slices.Contains(a.Args, "@kubernetes") {
			hits = append(hits, v.corefileHit("autopath without pods verified has no effect", a.evidence()))
		}
	}
	return hits
}

func findPodsVerified(v *view) []hit {
	d := v.podsVerified()
	if d == nil || len(v.corefile.find("autopath")) > 0 {
		return nil
	}
	return []hit{v.corefileHit("pods verified costs memory for each pod of the cluster", evidenceLine(d.Line, d.String()))}
}

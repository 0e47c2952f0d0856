// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

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
	_, err := v.engine()
	if err != nil {
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
	engine, err := v.engineOf(p.Spec.NodeName)
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	// maxPodFiles is the number of pods in which the resolv.conf is read: each is a process
	// in a container.
	maxPodFiles = 50

	// writtenByAgent is in the last line of a file that dnsconfigurer wrote.
	writtenByAgent = "# dnsconfigurer: "
)

// PodFile is the /etc/resolv.conf of a running container.
type PodFile struct {
	Namespace, Pod, Container string
	Text                      string
}

// Container is a container of a pod.
type Container struct{ Namespace, Pod, Name string }

// FileContainers returns the containers whose /etc/resolv.conf is compared: of one pod of each
// controller and node in the scope of s, the first one that runs. Pods of Windows have no such
// file.
func FileContainers(s *Snapshot) (list []Container, more int) {
	v := newView(s)
	type key struct{ owner, node string }
	seen := map[key]bool{}
	for i := range v.Pods {
		p := &v.Pods[i]
		k := key{ownerOf(p), p.Spec.NodeName}
		name := runningContainer(p)
		if name == "" || hasEnded(p) || seen[k] || !v.Scope.hasPod(p) || kube.IsWindows(&p.Spec) {
			continue
		}
		seen[k] = true
		if len(list) == maxPodFiles {
			more++
			continue
		}
		list = append(list, Container{p.Namespace, p.Name, name})
	}
	return list, more
}

func runningContainer(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.Name
		}
	}
	return ""
}

func needPodFiles(v *view) (string, bool) { return v.Unread[PodFiles], len(v.PodFiles) > 0 }

// needFacts is a cluster DNS and a valid domain, without which nothing can be decided.
func needFacts(v *view) (string, bool) {
	_, err := v.engine()
	if err != nil {
		return err.Error(), false
	}
	return "", len(v.clusterDNS) > 0 || v.dns != nil
}

// dnsLists are the values of a resolv.conf.
type dnsLists struct{ nameservers, searches, options []string }

// findPodFiles compares the files with the decisions for their pods. A file that dnsconfigurer wrote is left out:
// its text depends on the configuration of the node, and the command pods compares it there.
func findPodFiles(v *view) (hits []hit) {
	for _, f := range v.PodFiles {
		p := v.pods[f.Namespace+"/"+f.Pod]
		if p == nil || strings.Contains(f.Text, "\n"+writtenByAgent) {
			continue
		}
		engine, err := v.engineOf(p.Spec.NodeName)
		if err != nil {
			continue // the kubelet's settings are invalid: a check of its own
		}
		file := resolvconf.Parse(f.Text).Config()
		if h, ok := compareFile(p, f.Container, dnsLists{addresses(file.Nameservers), file.Searches, file.Options}, wanted(engine, p)); ok {
			hits = append(hits, h)
		}
	}
	return hits
}

// compareFile returns a finding with the lists that differ as evidence. What a pod gets of its node's file is not
// known: more entries than wanted are its own.
func compareFile(p *corev1.Pod, container string, got, want dnsLists) (h hit, differs bool) {
	ofHost := usesHostFile(p)
	add := func(keyword string, got, want []string, rest bool) {
		text, node := func(list []string) string { return cmp.Or(strings.Join(list, " "), "none") }, ""
		if rest {
			node = ", and those of the node"
		}
		h.message, differs = cmp.Or(h.message, "it has other "+keyword), true
		h.evidence = append(h.evidence, fmt.Sprintf("%s of container %s: %s", keyword, container, text(got)),
			fmt.Sprintf("%s of a new pod: %s%s", keyword, text(want), node))
	}
	h.object = podObject(p)
	same := slices.Equal(got.nameservers, want.nameservers)
	if ofHost {
		same = len(got.nameservers) > 0 && contains(got.nameservers, want.nameservers)
	}
	if !same {
		add("nameservers", got.nameservers, want.nameservers, ofHost)
	}
	isNone := p.Spec.DNSPolicy == corev1.DNSNone
	if !contains(got.searches, want.searches) || isNone && len(got.searches) != len(want.searches) {
		add("search", got.searches, want.searches, !isNone)
	}
	options, all := sorted(got.options), sorted(want.options)
	if !contains(options, all) || !ofHost && len(options) != len(all) {
		add("options", options, all, ofHost)
	}
	return h, differs
}

// wanted returns what a pod gets apart from the entries of its node's file, which the API does
// not show.
func wanted(engine *policy.Engine, p *corev1.Pod) (lists dnsLists) {
	if !usesHostFile(p) {
		d := engine.Decide(kube.FromPod(p), resolvconf.File{})
		c := d.Config()
		return dnsLists{addresses(c.Nameservers), c.Searches, c.Options}
	}
	if c := p.Spec.DNSConfig; c != nil {
		lists = dnsLists{nameservers: addresses(c.Nameservers), searches: c.Searches}
		for _, o := range c.Options {
			option := o.Name
			if o.Value != nil && *o.Value != "" {
				option += ":" + *o.Value
			}
			lists.options = append(lists.options, option)
		}
	}
	return lists
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

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

const (
	otherFileCause = "a resolv.conf is written when a pod starts: the settings of the node changed " +
		"since, or a container or a volume replaced the file"
	otherFileNext = "kubectl -n $NS exec $NAME -- cat /etc/resolv.conf; create the pod again, or see docs/nodes.md"
)

// podFileChecks compare the files of running pods with the decision.
func podFileChecks() []Check {
	needs := []need{needPodFiles, read(Pods), needFacts}
	return []Check{
		{
			Code: "pod-file-nameservers", Severity: policy.SeverityError,
			What:  "a running pod has other nameservers than its node gives to new pods",
			cause: otherFileCause, next: otherFileNext, needs: needs, whole: []Kind{PodFiles}, find: findPodNameservers,
		},
		{
			Code: "pod-file-search", Severity: policy.SeverityWarning,
			What:  "a running pod has other search domains or options than its node gives to new pods",
			cause: otherFileCause, next: otherFileNext, needs: needs, whole: []Kind{PodFiles}, find: findPodSearch,
		},
	}
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

// comparison is a file beside the decision for its pod.
type comparison struct {
	pod       *corev1.Pod
	container string
	got, want dnsLists
}

// dnsLists are the values of a resolv.conf.
type dnsLists struct{ nameservers, searches, options []string }

// compareFiles returns the files with the decisions for their pods. A file that dnsconfigurer
// wrote is left out: its text depends on the configuration of the node, and the command pods
// compares it there.
func (v *view) compareFiles() (list []comparison) {
	pods := map[string]*corev1.Pod{}
	for i := range v.Pods {
		pods[v.Pods[i].Namespace+"/"+v.Pods[i].Name] = &v.Pods[i]
	}
	for _, f := range v.PodFiles {
		p := pods[f.Namespace+"/"+f.Pod]
		if p == nil || strings.Contains(f.Text, "\n"+writtenByAgent) {
			continue
		}
		engine, err := v.engineOf(p.Spec.NodeName)
		if err != nil {
			continue // the kubelet's settings are invalid: a check of its own
		}
		file := resolvconf.Parse(f.Text).Config()
		list = append(list,
			comparison{p, f.Container, dnsLists{addresses(file.Nameservers), file.Searches, file.Options}, wanted(engine, p)})
	}
	return list
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

// hit returns a finding with both lists as evidence.
func (c *comparison) hit(message, keyword string, got, want []string) hit {
	text := func(list []string) string { return cmp.Or(strings.Join(list, " "), "none") }
	node := ""
	if usesHostFile(c.pod) || keyword == keywordSearch && c.pod.Spec.DNSPolicy != corev1.DNSNone {
		node = ", and those of the node"
	}
	return hit{object: podObject(c.pod), message: message, evidence: []string{
		fmt.Sprintf("%s of container %s: %s", keyword, c.container, text(got)),
		fmt.Sprintf("%s of a new pod: %s%s", keyword, text(want), node),
	}}
}

const keywordSearch = "search"

func findPodNameservers(v *view) (hits []hit) {
	for _, c := range v.compareFiles() {
		got, want := c.got.nameservers, c.want.nameservers
		same := slices.Equal(got, want)
		if usesHostFile(c.pod) {
			same = len(got) > 0 && contains(got, want)
		}
		if !same {
			hits = append(hits, c.hit("it has other nameservers", "nameservers", got, want))
		}
	}
	return hits
}

func findPodSearch(v *view) (hits []hit) {
	for _, c := range v.compareFiles() {
		got, want := c.got.searches, c.want.searches
		if !contains(got, want) || c.pod.Spec.DNSPolicy == corev1.DNSNone && len(got) != len(want) {
			hits = append(hits, c.hit("it has other search domains", keywordSearch, got, want))
			continue
		}
		got, want = slices.Sorted(slices.Values(c.got.options)), slices.Sorted(slices.Values(c.want.options))
		if !contains(got, want) || !usesHostFile(c.pod) && len(got) != len(want) {
			hits = append(hits, c.hit("it has other options", "options", got, want))
		}
	}
	return hits
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// InferredFacts are the node facts that decide the DNS of pods.
type InferredFacts struct {
	ClusterDNS    []netip.Addr
	ClusterDomain string
	ResolvConf    string // path
}

// HostFile is a file that the kubelet may use as the host's resolv.conf.
type HostFile struct {
	Path string
	File resolvconf.File
}

// Inference infers node facts from pods. A fact is used when two pods in a row show it: one pod may
// have been created by a kubelet with an earlier configuration. The same holds for another value
// later, so that the facts follow a new configuration of the kubelet. The zero value has no facts.
// Only the last pod is kept. An Inference is not safe for concurrent use.
type Inference struct {
	cluster tracker[clusterFacts]
	host    tracker[string]
}

// clusterFacts are the facts that pods with the cluster's DNS show.
type clusterFacts struct {
	servers string // addresses, separated by spaces
	domain  string
}

// SetResolvConf sets the path of the host's file, if it does not have to be inferred.
func (i *Inference) SetResolvConf(path string) { i.host = tracker[string]{known: path, isKnown: true} }

// SetCluster sets the facts of the cluster that were inferred before.
func (i *Inference) SetCluster(servers []string, domain string) {
	i.cluster = tracker[clusterFacts]{known: clusterFacts{strings.Join(servers, " "), domain}, isKnown: true}
}

// Facts returns the facts. ok is false if some are not known yet.
func (i *Inference) Facts() (f InferredFacts, ok bool) {
	f.ClusterDomain, f.ResolvConf = i.cluster.known.domain, i.host.known
	for text := range strings.FieldsSeq(i.cluster.known.servers) {
		if a, err := netip.ParseAddr(text); err == nil {
			f.ClusterDNS = append(f.ClusterDNS, a)
		}
	}
	return f, i.cluster.isKnown && i.host.isKnown
}

// Add adds the DNS that the kubelet has computed for pod, as read from a file that no container
// could write, and reports whether the facts have changed. hosts are the files as they are now, the
// preferred one first. A pod with a dnsConfig is ignored: its author has chosen the values.
func (i *Inference) Add(pod policy.Pod, dns resolvconf.Config, hosts []HostFile) (changed bool) {
	if pod.Config != nil || pod.UID == "" || pod.Windows {
		return false
	}
	node := policy.Node{}
	switch {
	case pod.Policy == policy.None:
		return false
	case !usesHostFile(&pod):
		c, ok := clusterOf(pod.Namespace, dns)
		if !ok {
			return false
		}
		changed = i.cluster.add(c, pod.UID)
		node.ClusterDomain = c.domain
		for text := range strings.FieldsSeq(c.servers) {
			node.ClusterDNS = append(node.ClusterDNS, netip.MustParseAddr(text)) // clusterOf has parsed it
		}
	}
	if path, ok := hostOf(pod, dns, node, hosts); ok && i.host.add(path, pod.UID) {
		changed = true
	}
	return changed
}

// usesHostFile reports whether a kubelet gives pod the host's servers.
func usesHostFile(pod *policy.Pod) bool {
	switch pod.Policy {
	case policy.Default:
		return true
	case policy.ClusterFirstWithHostNet:
		return false
	}
	return pod.HostNetwork
}

// clusterOptions are the options of a pod with the cluster's DNS.
var clusterOptions = []string{"ndots:5"}

// clusterOf returns the facts in the DNS of a pod with the cluster's DNS: its servers, and the DOMAIN
// of the search domains NAMESPACE.svc.DOMAIN, svc.DOMAIN, DOMAIN. ok is false for other DNS.
func clusterOf(namespace string, dns resolvconf.Config) (c clusterFacts, ok bool) {
	if len(dns.Nameservers) == 0 || len(dns.Searches) < 3 || !slices.Equal(dns.Options, clusterOptions) {
		return c, false
	}
	c.domain = dns.Searches[2]
	if c.domain == "" || dns.Searches[1] != "svc."+c.domain || dns.Searches[0] != namespace+".svc."+c.domain {
		return c, false
	}
	for _, text := range dns.Nameservers {
		if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" {
			return c, false
		}
	}
	c.servers = strings.Join(dns.Nameservers, " ")
	return c, true
}

// hostOf returns the path of the first file from which a kubelet computes dns for pod. ok is false
// if there is none, or if another file, with other DNS, explains it as well.
func hostOf(pod policy.Pod, dns resolvconf.Config, node policy.Node, hosts []HostFile) (path string, ok bool) {
	var first *HostFile
	for i := range hosts {
		h := &hosts[i]
		if h.File.Err != nil || !computes(pod, dns, node, h) {
			continue
		}
		switch {
		case first == nil:
			first = h
		case !first.File.Config().Equal(h.File.Config()):
			return "", false
		}
	}
	if first == nil {
		return "", false
	}
	return first.Path, true
}

// computes reports whether a kubelet of node computes dns for pod from the file of h.
func computes(pod policy.Pod, dns resolvconf.Config, node policy.Node, h *HostFile) bool {
	node.ResolvConf = h.Path
	engine, err := policy.New(node)
	if err != nil {
		return false
	}
	expected := engine.KubeletConfig(pod, h.File)
	return resolvconf.Parse(expected.String()).Config().Equal(dns) // dns was read from a file, too
}

// tracker keeps the last value that two pods in a row have shown.
type tracker[T comparable] struct {
	known     T
	isKnown   bool
	candidate T
	pod       string // UID of the pod that has shown candidate; "": none
}

// add adds the value of a pod, and reports whether known has changed.
func (t *tracker[T]) add(v T, pod string) (changed bool) {
	switch {
	case t.isKnown && v == t.known:
		t.pod = ""
		return false
	case t.pod == "" || v != t.candidate:
		t.candidate, t.pod = v, pod
		return false
	case t.pod == pod: // another sandbox of it
		return false
	}
	t.known, t.isKnown, t.pod = v, true, ""
	return true
}

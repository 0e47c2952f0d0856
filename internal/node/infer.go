// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// errFactsUnknown is the problem of an agent with inferNodeFacts before two pods agree.
var errFactsUnknown = errors.New("the node facts are not known yet: inferNodeFacts needs two new pods with policy ClusterFirst, " +
	"and two with Default if several files can be the host's")

// hostPaths are the files that kubelets use as the host's resolv.conf: kubeadm sets the second one on
// nodes with systemd-resolved.
var hostPaths = []string{"/etc/resolv.conf", hostresolv.DefaultUplinkPath}

// The sources of node facts.
const (
	sourceConfiguration = "configuration"
	sourcePods          = "pods"
)

type observeFunc func(pod policy.Pod, dns resolvconf.Config)

// observation is the DNS that the kubelet has computed for a pod.
type observation struct {
	pod policy.Pod
	dns resolvconf.Config
}

// maxObservations is the number of observations that wait. Others are dropped: later pods show the
// same facts.
const maxObservations = 64

// infer applies c with the facts that pods have shown before a reload. If there are none, no file is
// written. The returned task applies c with the facts that pods show. s.mu must be held.
func (s *Agent) infer(c AgentConfig, lookups *Lookups) (daemon.Task, error) {
	i := &inferrer{server: s, config: c, lookups: lookups, observations: make(chan observation, maxObservations)}
	facts, ok := s.inference.Facts(i.resolvConf())
	if !ok {
		i.applyWithoutFacts()
		return i.run, nil
	}
	var err error
	if i.first, err = i.apply(facts); err != nil {
		return nil, err
	}
	return i.run, nil
}

// An inferrer applies a configuration with the node facts that pods show.
type inferrer struct {
	server       *Agent
	config       AgentConfig
	lookups      *Lookups
	observations chan observation
	first        daemon.Task // of the facts that were known at the start; nil: none were
}

// resolvConf returns the path of the host's file, if the configuration has it.
func (i *inferrer) resolvConf() *string { return i.config.AgentConfiguration.Node.ResolvConf }

// observe queues an observation for run. It never blocks.
func (i *inferrer) observe(pod policy.Pod, dns resolvconf.Config) {
	select {
	case i.observations <- observation{pod, dns}:
	default:
	}
}

// apply applies the configuration with the facts. The mutex of the server must be held.
func (i *inferrer) apply(f InferredFacts) (daemon.Task, error) {
	c := i.config
	var err error
	if c.Node, c.Engine, err = c.Node.WithFacts(f.ClusterDNS, f.ClusterDomain, f.ResolvConf); err != nil {
		return nil, err
	}
	return i.server.applyFacts(c, i.lookups, sourcePods, i.observe)
}

// applyWithoutFacts applies the configuration so that pods are observed, and no file is written. The
// mutex of the server must be held.
func (i *inferrer) applyWithoutFacts() {
	s, c := i.server, i.config
	s.facts.Store(nil)
	hook := &cri.Hook{Mode: c.Mode(), Problem: errFactsUnknown, Lookup: i.lookups.Lookup(c.Mode()), Report: i.lookups.Reporter.Report,
		HostFiles: func() cri.HostFiles { return cri.HostFiles{} }}
	settings := newSettings(hook, c, i.lookups)
	settings.Observed = i.observe
	s.agent.SetSettings(settings)
	s.Log.Info("configuration applied, inferring the node facts from pods", "mode", c.Mode())
}

// run runs the task of the facts, which it applies whenever they change, until ctx ends.
func (i *inferrer) run(ctx context.Context) error {
	stop := daemon.Start(ctx, i.first)
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-i.observations:
			if task := i.add(o); task != nil {
				stop()
				stop = daemon.Start(ctx, task)
			}
		}
	}
}

// add adds an observation. If the facts have changed, it applies them and returns their task,
// otherwise nil.
func (i *inferrer) add(o observation) daemon.Task {
	var hosts []HostFile
	if i.resolvConf() == nil {
		hosts = readHosts(hostPaths)
	}
	i.server.mu.Lock()
	defer i.server.mu.Unlock()
	if i.server.lookups.Load() != i.lookups { // a reload has applied another configuration, and ends run
		return nil
	}
	if !i.server.inference.Add(o.pod, o.dns, hosts) {
		return nil
	}
	facts, ok := i.server.inference.Facts(i.resolvConf())
	if !ok {
		return nil
	}
	task, err := i.apply(facts)
	if err != nil {
		i.server.Log.Error("inferred node facts not applied", "clusterDNS", facts.ClusterDNS,
			"clusterDomain", facts.ClusterDomain, "resolvConf", facts.ResolvConf, "error", err)
		return nil
	}
	return task
}

// readHosts reads the regular files that exist. Opening a FIFO would wait for a writer.
func readHosts(paths []string) (hosts []HostFile) {
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		hosts = append(hosts, HostFile{Path: path, File: resolvconf.Read(f)})
		f.Close()
	}
	return hosts
}

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

func (c clusterFacts) addrs() (addrs []netip.Addr) {
	for text := range strings.FieldsSeq(c.servers) {
		addrs = append(addrs, netip.MustParseAddr(text)) // clusterOf has parsed it
	}
	return addrs
}

// Facts returns the facts. ok is false if some are not known yet. resolvConf is the path of the host's file; nil: it
// is inferred.
func (i *Inference) Facts(resolvConf *string) (f InferredFacts, ok bool) {
	cluster := i.cluster.known
	f, ok = InferredFacts{cluster.addrs(), cluster.domain, i.host.known}, i.cluster.isKnown && i.host.isKnown
	if resolvConf != nil {
		f.ResolvConf, ok = *resolvConf, i.cluster.isKnown
	}
	return f, ok
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
		node.ClusterDNS, node.ClusterDomain = c.addrs(), c.domain
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

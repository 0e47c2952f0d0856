// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"os"

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
	i := s.newInferrer(c, lookups)
	facts, ok := i.inference.Facts()
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
	server  *Agent
	config  AgentConfig
	lookups *Lookups

	observations chan observation
	inference    Inference
	hostPaths    []string    // of the files that can be the host's; nil: config names the file
	first        daemon.Task // of the facts that were known at the start; nil: none were
}

// newInferrer returns an inferrer of c, which is applied next. It knows the facts that pods have shown
// to the inferrer of the previous configuration. s.mu must be held.
func (s *Agent) newInferrer(c AgentConfig, lookups *Lookups) *inferrer {
	i := &inferrer{server: s, config: c, lookups: lookups,
		observations: make(chan observation, maxObservations), hostPaths: hostPaths}
	if previous := s.facts.Load(); previous != nil && previous.Source == sourcePods {
		if s.inferredHost {
			i.inference.SetResolvConf(previous.ResolvConf)
		}
		i.inference.SetCluster(previous.ClusterDNS, previous.ClusterDomain)
	}
	if path := c.AgentConfiguration.Node.ResolvConf; path != nil {
		i.inference.SetResolvConf(*path)
		i.hostPaths = nil
	}
	return i
}

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
	if !i.inference.Add(o.pod, o.dns, readHosts(i.hostPaths)) {
		return nil
	}
	facts, ok := i.inference.Facts()
	if !ok {
		return nil
	}
	i.server.mu.Lock()
	defer i.server.mu.Unlock()
	if i.server.lookups.Load() != i.lookups { // a reload has applied another configuration, and ends run
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

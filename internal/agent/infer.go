// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/decision"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/internal/sandboxdns"
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
func (s *Server) infer(c config.Agent, lookups *decision.Lookups) (daemon.Task, error) {
	queue := make(chan observation, maxObservations)
	observe := func(pod policy.Pod, dns resolvconf.Config) {
		select {
		case queue <- observation{pod, dns}:
		default:
		}
	}
	i, paths := &nodefacts.Inference{}, hostPaths
	apply := func(f nodefacts.Facts) (daemon.Task, error) {
		with, err := c.WithFacts(f.ClusterDNS, f.ClusterDomain, f.ResolvConf)
		if err != nil {
			return nil, err
		}
		return s.applyFacts(with, lookups, sourcePods, observe)
	}
	previous := s.facts.Load()
	if previous != nil && previous.Source == sourcePods { // of the configuration before
		if s.inferredHost {
			i.SetResolvConf(previous.ResolvConf)
		}
		i.SetCluster(previous.ClusterDNS, previous.ClusterDomain)
	}
	if set := c.AgentConfiguration.Node.ResolvConf; set != nil {
		i.SetResolvConf(*set)
		paths = nil
	}
	number := s.applied + 1 // that of c, once apply has returned
	follow := func(first daemon.Task) daemon.Task {
		return func(ctx context.Context) error {
			return s.followFacts(ctx, queue, i, paths, first, func(f nodefacts.Facts) (daemon.Task, bool, error) {
				return s.applyIfCurrent(number, func() (daemon.Task, error) { return apply(f) })
			})
		}
	}
	if facts, ok := i.Facts(); ok {
		first, err := apply(facts)
		return follow(first), err
	}
	s.facts.Store(nil)
	hook := &cri.Hook{Mode: c.Mode(), Problem: errFactsUnknown, Lookup: lookups.Lookup, Report: lookups.Reporter.Report,
		HostFiles: func() cri.HostFiles { return cri.HostFiles{} }}
	settings := sandboxdns.NewSettings(hook, c.RefreshConfiguration, c.Verify, c.Node, lookups)
	settings.Observed = observe
	s.agent.SetSettings(settings)
	s.Log.Info("configuration applied, inferring the node facts from pods", "mode", c.Mode())
	return follow(daemon.NoTask), nil
}

// followFacts runs first, and then the task of the facts of i whenever they change, until ctx ends.
func (s *Server) followFacts(ctx context.Context, queue <-chan observation, i *nodefacts.Inference, paths []string,
	first daemon.Task, apply func(nodefacts.Facts) (task daemon.Task, current bool, err error)) error {
	stop := daemon.Start(ctx, first)
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-queue:
			if !i.Add(o.pod, o.dns, readHosts(paths)) {
				continue
			}
		}
		facts, ok := i.Facts()
		if !ok {
			continue
		}
		task, current, err := apply(facts)
		if !current {
			continue // a reload has applied another configuration, and ends this task
		}
		if err != nil {
			s.Log.Error("inferred node facts not applied", "clusterDNS", facts.ClusterDNS,
				"clusterDomain", facts.ClusterDomain, "resolvConf", facts.ResolvConf, "error", err)
			continue
		}
		stop()
		stop = daemon.Start(ctx, task)
	}
}

// readHosts reads the files that exist.
func readHosts(paths []string) (hosts []nodefacts.Host) {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		hosts = append(hosts, nodefacts.Host{Path: path, File: resolvconf.Read(f)})
		f.Close()
	}
	return hosts
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// clientPod is the pod that looks up names. Its address is on the loopback network,
// because CoreDNS finds the namespace of a search list by the client's address.
func clientPod() kubeapi.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns-0", Name: "asking"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: askingIP, PodIPs: []corev1.PodIP{{IP: askingIP}}},
	}
}

const askingIP = "127.0.0.2"

// hostSuffixes are the search domains of a common node. No name below them exists.
var hostSuffixes = []string{"corp.internal", "dc.internal"}

// resolvConf is the resolv.conf of a pod.
func resolvConf(searches ...string) string {
	return "nameserver 192.0.2.1\nsearch " + strings.Join(searches, " ") + "\noptions ndots:5\n"
}

// lookedUp is the number of external names: CoreDNS's cache holds the replies for all
// their candidates.
const lookedUp = 500

// chain is a configuration in which a pod looks up names.
type chain struct {
	name       string
	resolvConf string
	queries    int        // of a lookup
	servers    []*subject // the cluster DNS, and a node cache before it; pods query the last

	cpuTime, p50, p99 []float64 // of each run: in microseconds, and in milliseconds
}

// The names of the chains; the one with a node cache is nameOurs.
const (
	coreClusterFirst = nameCoreDNS + ", ClusterFirst"
	coreAutopath     = nameCoreDNS + ", autopath"
	oursClusterFirst = nameOurs + ", ClusterFirst"
	oursAutopath     = nameOurs + ", autopath, no node cache"
)

// chains returns the compared chains. Each has its own servers, with kubeadm's TTL and
// cache. The last one has all features of the project.
func (b *bench) chains() []*chain {
	coreDNS := func(mode string, autopath bool) []*subject {
		return []*subject{{name: nameCoreDNS, run: func(ctx context.Context, dir string) (*peer.Process, error) {
			c := b.cluster
			c.Dir, c.TTL, c.Cache, c.PodMode, c.Autopath, c.HostSuffixes = dir, usualTTL, usualTTL, mode, autopath, hostSuffixes
			return peer.CoreDNS(ctx, b.binaries.coreDNS, c)
		}}}
	}
	cluster := func() *subject {
		return b.dnsconfigurer(func(c *peer.Cluster) { c.TTL, c.HostSuffixes = usualTTL, hostSuffixes })
	}
	behind := cluster()
	onNode := &subject{name: "node cache", run: func(ctx context.Context, dir string) (*peer.Process, error) {
		c := b.cluster
		c.Dir, c.HostSuffixes = dir, hostSuffixes
		return peer.NodeCache(ctx, b.binaries.dnsconfigurer, behind.Address, c)
	}}
	clusterFirst := resolvConf(append([]string{"ns-0.svc.cluster.local", "svc.cluster.local", "cluster.local"}, hostSuffixes...)...)
	withAutopath := resolvConf("search.ns-0.cluster.local.ap.k8s.io")
	return []*chain{
		{name: coreClusterFirst, resolvConf: clusterFirst, queries: 12, servers: coreDNS("insecure", false)},
		{name: coreAutopath, resolvConf: clusterFirst, queries: 2, servers: coreDNS("verified", true)},
		{name: oursClusterFirst, resolvConf: clusterFirst, queries: 12, servers: []*subject{cluster()}},
		{name: oursAutopath, resolvConf: withAutopath, queries: 2, servers: []*subject{cluster()}},
		{name: nameOurs, resolvConf: withAutopath, queries: 2, servers: []*subject{behind, onNode}},
	}
}

// podLookups measures the cost and the duration of a pod's lookups of external names,
// with the five search domains of a common node, and the memory of the servers.
func (b *bench) podLookups(ctx context.Context, r *report) error {
	names := make([]string, lookedUp)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example.com", i)
	}
	chains := b.chains()
	for _, c := range chains {
		defer stop(c.servers)
		if err := b.start(ctx, c.servers, b.firstQuestion()); err != nil {
			return err
		}
	}
	for range b.runs {
		for _, c := range chains {
			if err := c.run(ctx, names, b.lookups, b.seconds); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	for _, c := range chains {
		if err := c.addTo(r, fmt.Sprintf("lookups of external names by a pod, %d/s", b.lookups)); err != nil {
			return err
		}
	}
	return nil
}

// addTo adds the medians of all runs, and the memory of the servers after them.
func (c *chain) addTo(r *report, title string) error {
	r.Add(title, "queries each", c.name, float64(c.queries))
	r.Add(title, "CPU time each, µs", c.name, median(c.cpuTime))
	r.Add(title, "p50, ms", c.name, median(c.p50))
	r.Add(title, "p99, ms", c.name, median(c.p99))
	for i, s := range c.servers {
		kib, err := s.Memory("VmRSS")
		if err != nil {
			return err
		}
		r.Add(title, []string{"resident memory, MB", "of the node cache"}[i], c.name, float64(kib)*1024/1e6)
	}
	return nil
}

// warmRate is the rate at which names are looked up for the first time, in lookups per second.
const warmRate = 100

// run loads the chain with lookups that are in its caches.
func (c *chain) run(ctx context.Context, names []string, rate, seconds int) error {
	server, err := netip.ParseAddrPort(c.servers[len(c.servers)-1].Address)
	if err != nil {
		return err
	}
	load := podLoad{Address: netip.MustParseAddr(askingIP), ResolvConf: c.resolvConf, Server: server, Rate: rate}
	// One client sends the lookups of all pods: names that are not cached must stay below the limit of
	// the queries that the search lists of a client cause (limits.searchRate).
	warm := load
	warm.Rate = min(rate, warmRate)
	if _, err := warm.Run(ctx, len(names), names); err != nil {
		return err
	}
	before, err := c.cpu()
	if err != nil {
		return err
	}
	r, err := load.Run(ctx, rate*seconds, names)
	if err != nil {
		return err
	}
	after, err := c.cpu()
	if err != nil {
		return err
	}
	if n := r.Found + r.Failed; r.Failed > 0 || r.Queries != n*c.queries {
		return fmt.Errorf("%d of %d lookups failed, and they took %d queries instead of %d: lower the rate",
			r.Failed, n, r.Queries, n*c.queries)
	}
	c.cpuTime = append(c.cpuTime, (after-before).Seconds()*1e6/float64(r.Found))
	c.p50, c.p99 = append(c.p50, median(r.Took)), append(c.p99, percentile(r.Took, 99))
	return nil
}

// cpu returns the processor time of the servers.
func (c *chain) cpu() (sum time.Duration, err error) {
	for _, s := range c.servers {
		d, err := cpuTime(s.PID())
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
)

// leasedQueries measures what the node cache's rules in the kernel cost a query of a pod. Only one node cache runs
// at a time: a packet passes the rules of all.
func (b *bench) leasedQueries(ctx context.Context, r *report) error {
	enter, err := b.addPod(ctx)
	if err != nil {
		return err
	}
	file, err := b.externalFile()
	if err != nil {
		return err
	}
	cluster := b.clusterDNS(0)[2:3]
	defer stop(cluster)
	if err := b.start(ctx, cluster, b.firstQuestion()); err != nil {
		return err
	}
	cache := func(name, program, line string) *subject {
		return &subject{name: name, from: enter, run: func(ctx context.Context, dir string) (*peer.Process, error) {
			servers := fmt.Sprintf("clusterDNS: [%q]\nupstreams: [%q]\n", cluster[0].Address, b.cluster.Upstream)
			return ruledCache(ctx, dir, program, servers+line)
		}}
	}
	subjects := []*subject{
		cache("rules of kube-proxy alone", b.binaries.dnsconfigurer, "notrack: disabled"),
		cache("without a lease", b.binaries.dnsconfigurer, ""),
		cache(nameOurs, b.binaries.dnsconfigurer, "fallbackService: "+fallback),
	}
	if b.before != "" {
		subjects = append(subjects, cache(nameBefore, b.before, "fallbackService: "+fallback))
	}
	server, both := map[load]map[string][]float64{}, map[load]map[string][]float64{}
	loads := []load{{highRate, b.seconds}, {0, b.seconds}}
	for _, l := range loads {
		server[l], both[l] = map[string][]float64{}, map[string][]float64{}
	}
	for range b.runs {
		for _, s := range subjects {
			err := b.alone(ctx, s, file, loads, func(l load, r result) {
				server[l][s.name] = append(server[l][s.name], r.PerQuery(r.CPU))
				both[l][s.name] = append(both[l][s.name], r.PerQuery(r.CPU+r.Client))
			})
			if err != nil {
				return err
			}
		}
	}
	for _, l := range loads {
		for _, s := range subjects {
			const title = "CPU time of a pod's query to the node cache, µs"
			r.Add(title, l.String(), s.name, median(server[l][s.name]))
			r.Add(title, l.String()+" with the client", s.name, median(both[l][s.name]))
		}
	}
	return nil
}

// fallback is the Service with the servers to which the kernel translates queries without a lease.
const fallback = "changing.ns-0"

// addPod adds a network namespace behind a veth pair, as that of a pod. It returns the command that enters it.
func (b *bench) addPod(ctx context.Context) (enter []string, err error) {
	holder := exec.CommandContext(ctx, "sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	if err := holder.Start(); err != nil {
		return nil, err
	}
	pid := strconv.Itoa(holder.Process.Pid)
	enter = []string{"nsenter", "--net", "--target", pid}
	inside := strings.Join(enter, " ") + " "
	return enter, runLines(ctx,
		"ip link add veth0 type veth peer name eth0 netns "+pid,
		"ip address add 10.244.0.1/24 dev veth0", "ip link set veth0 up",
		inside+"ip link set lo up", inside+"ip address add 10.244.0.2/24 dev eth0", inside+"ip link set eth0 up",
		inside+"ip route add default via 10.244.0.1")
}

// runLines runs commands.
func runLines(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		args := strings.Fields(line)
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, out)
		}
	}
	return nil
}

// ruledCache runs a node cache at a link-local address, with more lines of configuration. Connections are tracked, as
// they are where kube-proxy has rules for other addresses.
func ruledCache(ctx context.Context, dir, program, lines string) (*peer.Process, error) {
	err := runLines(ctx, "nft flush ruleset", "nft add table ip kube-proxy",
		"nft add chain ip kube-proxy services { type nat hook prerouting priority -100 ; }",
		"nft add rule ip kube-proxy services ip daddr 10.96.0.1 tcp dport 443 dnat to 10.244.0.3:6443")
	if err != nil {
		return nil, err
	}
	const address = "169.254.20.10:53"
	config := filepath.Join(dir, "nodecache.yaml")
	text := fmt.Sprintf("apiVersion: %s\nkind: NodeCacheConfiguration\nlisten: [%q]\ninterface: lo\nresolvConf: \"\"\n%s\n",
		v1alpha1.GroupVersion, address, lines)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return peer.Start(ctx, dir, address, peer.Answers(address), program, "nodecache", "--config", config, "--http", "")
}

// alone starts a server, waits until a lease has begun, and loads it.
func (b *bench) alone(ctx context.Context, s *subject, file string, loads []load, tell func(load, result)) error {
	list := []*subject{s}
	defer stop(list)
	if err := b.start(ctx, list, ask.Question{Name: "n0.example.com.", Type: dns.TypeA}); err != nil {
		return err
	}
	leased := func() bool {
		_, err := dnsperf(ctx, s, file, "-n", "1", "-l", "1", "-q", "20")
		return err == nil
	}
	if err := s.Wait(ctx, leased); err != nil {
		return err
	}
	for _, l := range loads {
		r, err := l.Run(ctx, s, file)
		if err != nil {
			return err
		}
		tell(l, r)
	}
	return nil
}

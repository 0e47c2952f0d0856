// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/conformance"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestConformance runs the command conformance at the servers that people run. What a server does not meet is in
// docs/compatibility.md.
func TestConformance(t *testing.T) {
	dir := t.TempDir()
	coreDNS, program := build(t)
	self := must.Get(peer.OwnAddress())(t)
	g := world.New(*seed, services, self)
	g.World = *g.World.Untolerant() // the controller of slices marks their endpoints as ready, and writes no FQDN slices
	g.World.Slices = slices.DeleteFunc(g.World.Slices, func(s *discoveryv1.EndpointSlice) bool {
		isDocumentation := func(e discoveryv1.Endpoint) bool { return strings.HasPrefix(e.Addresses[0], "2001:db8:") } // RFC 6303
		return s.AddressType == discoveryv1.AddressTypeFQDN || slices.ContainsFunc(s.Endpoints, isDocumentation)
	})
	c := newCluster(t, g, "insecure")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must.Succeed(t, os.WriteFile(kubeconfig, []byte(kubeapi.Kubeconfig(c.API)), 0o600))
	type starter func(ctx context.Context, binary, clusterDNS string, c peer.Cluster) (*peer.Process, error)
	behind := func(cluster *peer.Process, run starter, binary string) *peer.Process {
		return start(t, binary, func(ctx context.Context, binary string, c peer.Cluster) (*peer.Process, error) {
			return run(ctx, binary, cluster.Address, c)
		}, peer.Cluster{Dir: t.TempDir(), Upstream: c.Upstream})
	}
	coreDNSServer, dnsServer := start(t, coreDNS, peer.CoreDNS, c.Cluster), start(t, program, peer.Ours, c.Cluster)
	nodeLocal := func(ctx context.Context, binary, clusterDNS string, c peer.Cluster) (*peer.Process, error) {
		return startNodeLocal(ctx, binary, apiserver.Corefile(t, "cluster/addons/dns/nodelocaldns/nodelocaldns.yaml"), clusterDNS, c)
	}
	for _, tt := range []struct {
		name   string
		server *peer.Process
		fails  []string
	}{
		{"dnsconfigurer dns", dnsServer, nil},
		{"dnsconfigurer nodecache", behind(dnsServer, peer.NodeCache, program), nil},
		{"CoreDNS", coreDNSServer, []string{"empty-non-terminal"}},
		{"NodeLocal DNSCache", behind(coreDNSServer, nodeLocal, coreDNS), []string{"empty-non-terminal"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(program, "conformance", "--kubeconfig", kubeconfig, "--server", tt.server.Address, "-o", "json")
			out, err := cmd.Output()
			if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
				t.Fatal(err)
			}
			var result v1alpha1.ConformanceResult
			if err := json.Unmarshal(out, &result); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var fails []string
			fatal := false
			for _, r := range result.Rules {
				if r.Questions == 0 {
					t.Errorf("%s: not asked", r.ID)
				}
				if r.Failed > 0 {
					fails = append(fails, r.ID)
					fatal = fatal || r.Level == conformance.Must
					t.Logf("%s: %d of %d failed, such as %s", r.ID, r.Failed, r.Questions, r.Failures[0])
				}
			}
			if !slices.Equal(fails, tt.fails) || fatal != (err != nil) {
				t.Errorf("failed %v, want %v; exit code %v", fails, tt.fails, err)
			}
		})
	}
}

// startNodeLocal starts CoreDNS with the Corefile of NodeLocal DNSCache.
func startNodeLocal(ctx context.Context, binary, corefile, clusterDNS string, c peer.Cluster) (*peer.Process, error) {
	addresses, err := process.Free(3)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer(":53 {", ":"+port+" {", "__PILLAR__DNS__DOMAIN__", "cluster.local",
		"__PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__", host, "__PILLAR__LOCAL__DNS__:8080", addresses[1],
		"__PILLAR__CLUSTER__DNS__", clusterDNS, "__PILLAR__UPSTREAM__SERVERS__", c.Upstream, ":9253", addresses[2]).Replace(corefile)
	path := filepath.Join(c.Dir, "Corefile")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return peer.Start(ctx, c.Dir, addresses[0], func() bool { return process.Page(addresses[1], "/health") == "OK" }, binary, "-conf", path)
}

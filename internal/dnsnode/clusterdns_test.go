// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestServer_Manifests runs the server in the test's process. It warns if it has no reverse networks.
func TestServer_Manifests(t *testing.T) {
	const warning = `level=WARN msg="reverse names without an address of the cluster are forwarded: set reverseCIDRs to the ` +
		`networks of Services and pods" services=[10.96.0.0/16] endpoints=[10.244.0.0/16]`
	serveManifests(t, "", func(log string) bool { return strings.Contains(log, warning) })
	log := serveManifests(t, "reverseCIDRs: [10.96.0.0/12]\n", func(string) bool { return true })
	if strings.Contains(log, "reverseCIDRs") {
		t.Errorf("a warning with reverseCIDRs:\n%s", log)
	}
}

// serveManifests runs the server with further fields until it answers and its log is complete, and
// returns the log.
func serveManifests(t *testing.T, fields string, isComplete func(log string) bool) string {
	t.Helper()
	addr := process.Loopback(t, 1)[0]
	dir := t.TempDir()
	path := filepath.Join(dir, "dns.yaml")
	for file, text := range map[string]string{
		path: "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n" +
			"listen: ['" + addr + "']\nmanifests: [" + dir + "/m]\nresolvConf: ''\n" + fields,
		filepath.Join(dir, "m/s.yaml"): "apiVersion: v1\nkind: Service\n" +
			"metadata: {namespace: shop, name: web}\nspec: {clusterIP: 10.96.0.1}\n",
		filepath.Join(dir, "m/e.yaml"): "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n" +
			"metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}\nendpoints: [{addresses: [10.244.1.2]}]\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := config.DNSKind().FromFile(path)
	c, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	var out logbuffer.Buffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	server := dnsnode.Process[config.DNS]{Source: source, Log: slog.New(slog.NewTextHandler(&out, nil))}
	go func() { ended <- dnsnode.RunClusterDNS(ctx, server, c) }()
	client := dns.Client{Timeout: time.Second}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion("web.shop.svc.cluster.local.", dns.TypeA), addr)
		if err == nil && len(reply.Answer) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no address: %v, %v", reply, err)
		}
	}
	poll.Until(t, "the log", func() bool { return isComplete(out.String()) }, &out)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return out.String()
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package clusterdns_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/clusterdns"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestServer_Manifests runs the server in the test's process.
func TestServer_Manifests(t *testing.T) {
	addr := process.Loopback(t, 1)[0]
	dir := t.TempDir()
	path := filepath.Join(dir, "dns.yaml")
	for file, text := range map[string]string{
		path: "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n" +
			"listen: ['" + addr + "']\nmanifests: [" + dir + "/m]\nresolvConf: ''\n",
		filepath.Join(dir, "m/s.yaml"): "apiVersion: v1\nkind: Service\n" +
			"metadata: {namespace: shop, name: web}\nspec: {clusterIP: 10.96.0.1}\n",
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
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	server := clusterdns.Server{Source: source, Log: slog.New(slog.DiscardHandler)}
	go func() { ended <- server.Run(ctx, c) }()
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
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

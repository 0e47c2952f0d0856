// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// clusterAddr is the cluster DNS of the tests.
const clusterAddr = "10.244.0.1:1053"

// startClusterDNS runs a cluster DNS at clusterAddr, which has the domain cluster.local.
func startClusterDNS(t *testing.T) *dnstest.Server {
	t.Helper()
	return startClusterDNSWith(t, "10.0.0.1")
}

// startClusterDNSWith is startClusterDNS with an address for all names of the cluster, with a
// TTL of a second. Each of observe is called with the name of each query.
func startClusterDNSWith(t *testing.T, address string, observe ...func(name string)) *dnstest.Server {
	t.Helper()
	udp := must.Get(net.ListenPacket("udp", clusterAddr))(t)
	tcp := must.Get(net.Listen("tcp", clusterAddr))(t)
	s := dnstest.Serve(udp, tcp, dnstest.Reply(func(query *dns.Msg) *dns.Msg {
		name := query.Question[0].Name
		for _, f := range observe {
			f(name)
		}
		switch {
		case dns.IsSubDomain("cluster.local.", name):
			reply := new(dns.Msg).SetReply(query)
			if query.Question[0].Qtype == dns.TypeA {
				reply.Answer = []dns.RR{
					&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(address)}}
			}
			return reply
		case dns.IsSubDomain("arpa.", name):
			return nil // its servers do not reply
		}
		return new(dns.Msg).SetRcode(query, dns.RcodeNameError)
	}))
	t.Cleanup(func() { s.Close() })
	return s
}

// instance is a node cache in the process of the test.
type instance struct {
	log   logbuffer.Buffer
	ended chan error
	stop  context.CancelFunc
	http  string
}

// startInstance runs a node cache with these fields in its configuration.
func startInstance(t *testing.T, fields string) *instance {
	t.Helper()
	return startInstanceWith(t, fields, func() error { return nil })
}

// startInstanceWith is startInstance; prepare runs in the goroutine of the server.
func startInstanceWith(t *testing.T, fields string, prepare func() error) *instance {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nodecache.yaml")
	i := &instance{ended: make(chan error, 1), http: "127.0.0.1:9353"}
	text := "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\nresolvConf: ''\n" +
		"clusterDNS: ['" + clusterAddr + "']\nhttp: '" + i.http + "'\n" + fields
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	source := NodeCacheKind().FromFile(path)
	c := must.Get(source.Load())(t)
	ctx, stop := context.WithCancel(t.Context())
	i.stop = stop
	p := daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&i.log, nil))}
	go func() {
		err := prepare()
		if err == nil {
			err = RunNodeCache(ctx, p, source, c)
		}
		i.ended <- err
	}()
	t.Cleanup(stop)
	return i
}

// wait waits until the instance has ended, and returns its error.
func (i *instance) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-i.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("the node cache does not end:\n%s", i.log.String())
		return nil
	}
}

// readyz returns the status and the text of /readyz?verbose.
func (i *instance) readyz() string {
	r, err := http.Get("http://" + i.http + "/readyz?verbose")
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%d %s%v", r.StatusCode, body, err)
}

// metric returns the line of a metric.
func (i *instance) metric(name string) string {
	for line := range strings.Lines(process.Page(i.http, "/metrics")) {
		if strings.HasPrefix(line, name) {
			return strings.TrimSpace(line)
		}
	}
	return "no " + name
}

// becomes waits until the text that read returns contains want.
func becomes(t *testing.T, i *instance, read func() string, want string) {
	t.Helper()
	poll.UntilNil(t, want, func() error {
		if got := read(); !strings.Contains(got, want) {
			return fmt.Errorf("got %q", got)
		}
		return nil
	}, &i.log)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

const (
	checkTimeout   = 5 * time.Minute
	checkClients   = 8
	maxDifferences = 20 // that are printed
)

// checkAnswers runs the CoreDNS at a path with blocks, and this server with the configuration for them, on the loopback
// interface, and writes the questions that they answer differently to w. It reports whether there are none.
func checkAnswers(ctx context.Context, coreDNS string, blocks []corefile.Block, f config.File, w io.Writer) (same bool, err error) {
	port, ports, texts := freePort(), map[string]string{}, []string{}
	dir, err := os.MkdirTemp("", "import-corefile")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	own, err := ownServer(f, netip.MustParseAddrPort("127.0.0.1:"+port), dir)
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	for _, b := range blocks {
		for _, key := range b.Keys {
			_, at := corefile.SplitKey(key)
			ports[at] = cmp.Or(ports[at], freePort())
		}
		for _, d := range slices.Concat(b.Find("hosts"), b.Find("file")) {
			text, _ := atomicfile.ReadRegular(strings.Join(d.Args[:min(len(d.Args), 1)], ""), config.MaxFile)
			texts = append(texts, string(text)) // a file that cannot be read has no names
		}
	}
	c := corefile.Compare(blocks, ports, filepath.Join(dir, "zone"), texts)
	for name, text := range map[string]string{"Corefile": c.Text, "zone": c.Zone, "services.yaml": c.Manifests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return false, err
		}
	}
	ended := make(chan error, 2)
	go func() {
		text, err := exec.CommandContext(ctx, coreDNS, "-conf", filepath.Join(dir, "Corefile")).CombinedOutput()
		ended <- fmt.Errorf("%s: %w: %s", coreDNS, err, excerpt.Text(string(bytes.TrimSpace(text)), 500))
	}()
	go func() {
		ended <- own(ctx, daemon.Process{Metrics: daemon.NewRegistry(""), Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)})
	}()
	for _, p := range append(slices.Collect(maps.Values(ports)), port) {
		if err := awaitServer(ctx, p, ended); err != nil {
			return false, err
		}
	}
	different := compareAnswers(ctx, c.Names, port)
	for _, line := range different[:min(len(different), maxDifferences)] {
		fmt.Fprintln(w, visible(line))
	}
	fmt.Fprintf(w, "%d of %d questions have different answers; not compared: %s\n", len(different), len(c.Names)*len(checkedTypes),
		strings.Join(append(c.Omitted, "local names"), ", "))
	return len(different) == 0, ctx.Err()
}

// ownServer returns this server with configuration f, which listens on an address, and does not change the node. A cluster
// DNS server has the manifests in a directory.
func ownServer(f config.File, listen netip.AddrPort, manifests string) (run func(context.Context, daemon.Process) error, err error) {
	if t, _ := v1alpha1.ReadTypeMeta(f.Text); t.Kind == v1alpha1.KindNodeCache {
		source := dnsnode.NodeCacheKind().FromText(f)
		c, err := source.Load()
		c.Addrs, c.Interface, c.Notrack, c.HTTP = []netip.AddrPort{listen}, "", "disabled", ""
		return func(ctx context.Context, p daemon.Process) error { return dnsnode.RunNodeCache(ctx, p, source, c) }, err
	}
	source := dnsnode.ClusterDNSKind().FromText(f)
	c, err := source.Load()
	c.Addrs, c.HTTP, c.Lameduck, c.Manifests = []netip.AddrPort{listen}, "", "0s", []string{manifests}
	return func(ctx context.Context, p daemon.Process) error { return dnsnode.RunClusterDNS(ctx, p, source, c) }, err
}

// awaitServer waits until a server answers, or one has ended.
func awaitServer(ctx context.Context, port string, ended <-chan error) error {
	for exchange(ctx, port, "cluster.local.", dns.TypeSOA) == nil {
		select {
		case err := <-ended:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

var checkedTypes = []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeMX, dns.TypeTXT, dns.TypeSRV, dns.TypePTR}

// compareAnswers returns a line for each question that the server at a port answers differently.
func compareAnswers(ctx context.Context, names []corefile.Question, port string) []string {
	lines := make([][]string, len(names))
	var tasks sync.WaitGroup
	for first := range checkClients {
		tasks.Go(func() {
			for i := first; i < len(names); i += checkClients {
				for _, qtype := range checkedTypes {
					lines[i] = append(lines[i], compareAnswer(ctx, names[i], qtype, port)...)
				}
			}
		})
	}
	tasks.Wait()
	return slices.Concat(lines...)
}

// compareAnswer returns a line if a question has different answers, three times: manifests may not be loaded yet, and other
// servers may fail.
func compareAnswer(ctx context.Context, q corefile.Question, qtype uint16, port string) []string {
	want, got := "", "-"
	for tries := 0; want != got && got != localAnswer && tries < 3 && ctx.Err() == nil; tries++ {
		time.Sleep(time.Duration(tries) * 100 * time.Millisecond)
		peer, own := exchange(ctx, q.Port, q.Name, qtype), exchange(ctx, port, q.Name, qtype)
		want, got = answerText(peer, own), answerText(own, own)
	}
	if want == got || got == localAnswer {
		return nil
	}
	return []string{fmt.Sprintf("%s %s: CoreDNS %s, dnsconfigurer %s", q.Name, dns.Type(qtype), want, got)}
}

// exchange returns the reply of the server at a port; nil: there is none.
func exchange(ctx context.Context, port, name string, qtype uint16) (reply *dns.Msg) {
	for _, network := range []string{"udp", "tcp"} {
		c := dns.Client{Net: network, Timeout: 6 * time.Second} // CoreDNS fails after 5 s
		reply, _, _ = c.ExchangeContext(ctx, new(dns.Msg).SetQuestion(name, qtype), "127.0.0.1:"+port)
		if reply == nil || !reply.Truncated {
			break
		}
	}
	return reply
}

const localAnswer = "a local name" // the configuration says that these are not forwarded

// answerText returns the rcode and the sorted records of an answer. TTLs count if own, the answer of this server, is not
// forwarded, in steps: caches count them down.
func answerText(m, own *dns.Msg) string {
	if m == nil {
		return "no reply"
	}
	isLocal := func(rr dns.RR) bool { // see pkg/dnsserver/local_names.go
		soa, ok := rr.(*dns.SOA)
		return ok && dns.IsSubDomain("invalid.", soa.Mbox) || strings.Contains(rr.String(), "localhost.")
	}
	if slices.ContainsFunc(slices.Concat(m.Answer, m.Ns), isLocal) {
		return localAnswer
	}
	var records []string
	for _, rr := range m.Answer {
		h := rr.Header()
		if h.Name, h.Ttl = strings.ToLower(h.Name), (h.Ttl+9)/10*10; own == nil || !own.Authoritative {
			h.Ttl = 0
		}
		records = append(records, rr.String())
	}
	slices.Sort(records)
	return dns.RcodeToString[m.Rcode] + " " + strings.Join(records, "; ")
}

// freePort returns a port of the loopback interface that no server has, over UDP and TCP. Systems choose the ports of
// clients from 32768 on, so that no client takes it before the server does.
func freePort() string {
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		udp, err := net.ListenPacket("udp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		tcp, err := net.Listen("tcp", "127.0.0.1:"+port)
		udp.Close()
		if err == nil {
			tcp.Close()
			return port
		}
	}
	return "0" // where nothing can listen, the servers say why
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command measure compares the cost of DNS servers: dnsconfigurer, CoreDNS, and servers
// that are known to be cheap, side by side on the loopback interface. It needs root and
// Debian, installs missing packages, and stops everything that it starts.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

func main() {
	var o options
	flag.IntVar(&o.load.Rate, "rate", 20000, "queries a second")
	flag.IntVar(&o.lookups, "lookups", 1000, "a second, of pods, each of up to 12 queries")
	flag.IntVar(&o.load.Seconds, "seconds", 5, "of load, for each server in each run")
	flag.IntVar(&o.runs, "runs", 3, "of each measurement; the median is printed")
	flag.IntVar(&o.services, "services", 10000, "of the cluster")
	flag.IntVar(&o.endpoints, "endpoints", 100000, "of the cluster, and as many pods")
	flag.IntVar(&o.changes, "changes", 200, "of an endpoint, until the answer has changed")
	flag.StringVar(&o.only, "only", "", "`MEASUREMENT`: cluster, logged, startup, external, misses, lookups or changes; empty: all")
	flag.StringVar(&o.program, "ours", "", "a dnsconfigurer to measure instead of building one")
	flag.StringVar(&o.before, "before", "", "a dnsconfigurer to measure as well, such as one of an earlier commit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

type options struct {
	load                  load
	lookups               int
	runs, changes         int
	services, endpoints   int
	only, program, before string
}

// bench is the state that all measurements share.
type bench struct {
	options
	dir      string // for files
	binaries binaries
	world    *world.World
	api      *kubeapi.Server
	cluster  peer.Cluster
}

// binaries are the paths of the servers that are built.
type binaries struct{ coreDNS, dnsconfigurer, echo string }

func run(ctx context.Context, o options) error {
	if err := install(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, dir: dir, world: world.Large(o.services, o.endpoints, o.endpoints), api: kubeapi.New()}
	if err := b.build(ctx); err != nil {
		return err
	}
	for _, objects := range [][]kubeapi.Object{b.world.Objects(), b.changing(), {clientPod()}} {
		b.api.Apply(objects...)
	}
	url, err := b.api.Start()
	if err != nil {
		return err
	}
	defer b.api.Stop()
	resolver, err := dnstest.New(dnstest.Reply(upstream.Reply))
	if err != nil {
		return err
	}
	defer resolver.Close()
	b.cluster = peer.Cluster{API: url, Upstream: resolver.Addr.String(), PodMode: "insecure"}

	t := new(table)
	known := false
	var failed []error // the other measurements still run
	for _, m := range []struct {
		name string
		run  func(context.Context, *table) error
	}{
		{"cluster", b.clusterQueries}, {"logged", b.loggedQueries}, {"startup", b.startup}, {"external", b.externalQueries},
		{"misses", b.missQueries}, {"lookups", b.podLookups}, {"changes", b.changed},
	} {
		if o.only == "" || o.only == m.name {
			known = true
			failed = append(failed, m.run(ctx, t))
		}
	}
	if !known {
		return fmt.Errorf("there is no measurement %q", o.only)
	}
	fmt.Print(t)
	return errors.Join(failed...)
}

// install installs the missing programs of the peers. Debian has Knot and dnsmasq in packages of other names.
func install() error {
	var missing []string
	for program, pkg := range map[string]string{
		"dnsperf": "dnsperf", "nsd": "nsd", "knotd": "knot", "unbound": "unbound", "dnsmasq": "dnsmasq-base",
	} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if missing == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "installing", missing)
	return debian.AptInstall(missing...)
}

// build compiles the servers.
func (b *bench) build(ctx context.Context) error {
	b.binaries = binaries{filepath.Join(b.dir, "coredns"),
		cmp.Or(b.program, filepath.Join(b.dir, "dnsconfigurer")), filepath.Join(b.dir, "echo")}
	for _, cmd := range []struct{ dir, pkg, output string }{
		{".", "./cmd/coredns", b.binaries.coreDNS},
		{"../..", "./cmd/dnsconfigurer", b.binaries.dnsconfigurer},
		{".", "./cmd/echo", b.binaries.echo},
	} {
		if cmd.output == b.program {
			continue
		}
		if err := peer.Build(ctx, cmd.dir, cmd.pkg, cmd.output); err != nil {
			return err
		}
	}
	return nil
}

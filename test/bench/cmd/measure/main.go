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
	"syscall"

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
	flag.IntVar(&o.lookups, "lookups", 1000, "a second, of pods, each of up to 12 queries")
	flag.IntVar(&o.seconds, "seconds", 5, "of load, for each server in each run")
	flag.IntVar(&o.runs, "runs", 3, "of each measurement; the median is printed")
	flag.IntVar(&o.services, "services", 10000, "of the cluster")
	flag.IntVar(&o.endpoints, "endpoints", 100000, "of the cluster, and as many pods")
	flag.IntVar(&o.changes, "changes", 200, "of an endpoint, until the answer has changed")
	flag.StringVar(&o.only, "only", "", "`MEASUREMENT`: cluster, features, external, misses, lease, lookups or sizes; empty: all")
	flag.StringVar(&o.program, "ours", "", "a dnsconfigurer to measure instead of building one")
	flag.StringVar(&o.docs, "docs", "", "`DIRECTORY` of benchmarks.md, to replace its tables and charts if all is measured; empty: print")
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
	seconds, lookups            int
	runs, changes               int
	services, endpoints         int
	only, program, before, docs string
}

// bench is the state that measurements share.
type bench struct {
	options
	dir      string // for files
	binaries binaries
	world    *world.World
	api      *kubeapi.Server
	cluster  peer.Cluster
	changed  int // the number of the last change
}

// binaries are the paths of the servers that are built.
type binaries struct{ coreDNS, dnsconfigurer, echo string }

func run(ctx context.Context, o options) error {
	dir, inside := os.LookupEnv(directory)
	if !inside {
		return enterNamespace(ctx, o)
	}
	resolver, err := dnstest.New(dnstest.Reply(upstream.Reply))
	if err != nil {
		return err
	}
	defer resolver.Close()
	base := &bench{options: o, dir: dir, binaries: binariesIn(dir, o.program),
		cluster: peer.Cluster{Upstream: resolver.Addr.String(), PodMode: "insecure"}}
	b, err := base.ofSize(o.services, o.endpoints, o.endpoints)
	if err != nil {
		return err
	}
	defer b.api.Stop()

	r := new(report)
	known := false
	var failed []error // the other measurements still run
	for _, m := range []struct {
		name string
		run  func(context.Context, *report) error
	}{
		{"cluster", b.clusterQueries}, {"features", b.featureQueries}, {"external", b.externalQueries}, {"misses", b.missQueries},
		{"lease", b.leasedQueries}, {"lookups", b.podLookups}, {"sizes", b.sizes},
	} {
		if o.only == "" || o.only == m.name {
			known = true
			failed = append(failed, m.run(ctx, r))
		}
	}
	switch {
	case !known:
		return fmt.Errorf("there is no measurement %q", o.only)
	case o.docs == "" || o.only != "":
		fmt.Print(r)
	default:
		failed = append(failed, r.write(o.docs))
	}
	return errors.Join(failed...)
}

// ofSize returns b with an API server of a cluster, which the caller stops.
func (b *bench) ofSize(services, endpoints, pods int) (*bench, error) {
	s := *b
	s.services, s.endpoints, s.world, s.api = services, endpoints, world.Large(services, endpoints, pods), kubeapi.New()
	for _, objects := range [][]kubeapi.Object{s.world.Objects(), s.changing(), {clientPod()}} {
		s.api.Apply(objects...)
	}
	var err error
	s.cluster.API, err = s.api.Start()
	return &s, err
}

// install installs the missing programs of the peers. Debian has Knot and dnsmasq in packages of other names.
func install() error {
	var missing []string
	for program, pkg := range map[string]string{
		"dnsperf": "dnsperf", "nsd": "nsd", "knotd": "knot", "unbound": "unbound", "dnsmasq": "dnsmasq-base", "nft": "nftables",
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

// directory is the environment variable with the directory of the measurements.
const directory = "DNSCONFIGURER_MEASURE"

// enterNamespace installs and builds the servers, and runs the measurements in a network namespace of their own.
func enterNamespace(ctx context.Context, o options) error {
	if err := install(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := binariesIn(dir, o.program).build(ctx, o.program); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `ip link set lo up && exec "$0" "$@"`, self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), directory+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	return cmd.Run()
}

// binariesIn returns the paths below a directory; program, unless empty, is the path of dnsconfigurer.
func binariesIn(dir, program string) binaries {
	return binaries{filepath.Join(dir, "coredns"), cmp.Or(program, filepath.Join(dir, "dnsconfigurer")), filepath.Join(dir, "echo")}
}

// build compiles the servers, except the program.
func (b binaries) build(ctx context.Context, program string) error {
	for _, cmd := range []struct{ dir, pkg, output string }{
		{".", "./cmd/coredns", b.coreDNS},
		{"../..", "./cmd/dnsconfigurer", b.dnsconfigurer},
		{".", "./cmd/echo", b.echo},
	} {
		if cmd.output == program {
			continue
		}
		if err := peer.Build(ctx, cmd.dir, cmd.pkg, cmd.output); err != nil {
			return err
		}
	}
	return nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"flag"
	"net/netip"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/deviation"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const (
	services    = 400 // in a world, approximately
	changes     = 60  // of objects between two rounds
	maxFailures = 10  // printed for each round and server
)

var (
	seed        = flag.Uint64("seed", 0, "the seed of the worlds and the questions")
	programFlag = flag.String("ours", "", "a dnsconfigurer to run instead of building one")
)

// TestDifferential sends generated questions to CoreDNS and to dnsconfigurer, which have
// the same cluster, and compares the replies with package spec: all of dnsconfigurer, and
// those of CoreDNS outside the classes of package deviation. Between rounds the cluster
// changes.
func TestDifferential(t *testing.T) {
	coreDNS, program := build(t)
	total := newTally()
	for i, run := range []struct {
		podMode           string
		rounds, questions int
	}{
		{"insecure", 4, 11000},
		{"verified", 2, 4000},
		{"disabled", 2, 2000},
	} {
		t.Run("pods="+run.podMode, func(t *testing.T) {
			self := must.Get(peer.OwnAddress())(t)
			g := world.New(*seed+uint64(i), services, self)
			c := newCluster(t, g, run.podMode)
			servers := []server{
				{"CoreDNS", start(t, coreDNS, peer.CoreDNS, c.Cluster), true},
				{"dnsconfigurer", start(t, program, peer.Ours, c.Cluster), false},
			}
			for n := range run.rounds {
				zone := c.next(t, g, n, self, servers)
				questions := g.Questions(run.questions)
				cases := deviation.Cases(&g.World, zone, questions)
				total.count(cases)
				for _, s := range servers {
					compare(t, s, cases, questions, total)
				}
			}
		})
	}
	total.check(t)
}

// build returns the paths of both servers.
func build(t *testing.T) (coreDNS, program string) {
	t.Helper()
	if program = *programFlag; program == "" {
		program = process.Build(t)
	}
	return apiserver.CoreDNS(t), program
}

func start(t *testing.T, binary string, run func(context.Context, string,
	peer.Cluster) (*peer.Process, error), c peer.Cluster) *peer.Process {
	t.Helper()
	p := must.Get(run(t.Context(), binary, c))(t)
	t.Cleanup(p.Kill)
	return p
}

// server is a compared server. One that deviates does so only in the known classes.
type server struct {
	name string
	*peer.Process
	deviates bool
}

// cluster is the cluster of all servers in a run.
type cluster struct {
	peer.Cluster
	api *kubeapi.Server
}

func newCluster(t *testing.T, g *world.Generator, podMode string) cluster {
	t.Helper()
	api := kubeapi.New()
	api.Apply(g.World.Objects()...)
	url := must.Get(api.Start())(t)
	t.Cleanup(api.Stop)
	resolver := dnstest.Start(t, dnstest.Reply(upstream.Reply))
	return cluster{peer.Cluster{Dir: t.TempDir(), API: url, Upstream: resolver.Addr.String(), PodMode: podMode}, api}
}

// next changes the cluster, except in the first round, waits until all servers have
// processed the changes, and returns the zone for the next questions.
func (c cluster) next(t *testing.T, g *world.Generator, n int, self []netip.Addr, servers []server) *spec.Zone {
	t.Helper()
	if n > 0 {
		applied, deleted := g.Change(changes)
		c.api.Delete(deleted...)
		c.api.Apply(applied...)
	}
	marks, questions := g.Mark(n)
	c.api.Apply(marks...)
	zone := spec.New(&g.World, self, c.PodMode)
	for _, s := range servers {
		for _, q := range questions {
			want := ask.Normal(q, zone.Answer(q))
			err := s.Wait(t.Context(), func() bool {
				m, err := ask.One(s.Address, q)
				return err == nil && ask.Normal(q, m).Equal(want)
			})
			if err != nil {
				t.Fatalf("round %d, %v: %v", n, q, err)
			}
		}
	}
	return zone
}

// compare sends all questions to s.
func compare(t *testing.T, s server, cases []*deviation.Case, questions []ask.Question, total *tally) {
	t.Helper()
	begin := time.Now()
	replies, cut, err := ask.All(t.Context(), s.Address, questions)
	if err != nil {
		t.Fatalf("%s: %v\n%s", s.name, err, s.Log())
	}
	t.Logf("%s: %d questions in %v, %d asked again over TCP", s.name, len(questions), time.Since(begin).Round(time.Millisecond), cut)
	failures := 0
	for i, c := range cases {
		q, agree, class := questions[i], ask.Agree(questions[i], c.Want, replies[i]), ""
		if s.deviates {
			class = deviation.Of(c)
			total.deviate(class, !agree)
		}
		if class != "" || agree {
			continue
		}
		if failures++; failures <= maxFailures {
			t.Errorf("%s, question %d: %v\n%s  want %v\n  got %v", s.name, i, q, c, ask.Normal(q, c.Want), ask.Normal(q, replies[i]))
		}
	}
	if failures > maxFailures {
		t.Errorf("%s: %d more differences", s.name, failures-maxFailures)
	}
}

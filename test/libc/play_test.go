// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	player "github.com/dnsconfigurer/dnsconfigurer/pkg/libc"
)

// ask is how a name is looked up, as the first argument of ask.c.
type ask uint16

const (
	askBoth ask = 0
	askIPv4 ask = 4
	askIPv6 ask = 6
)

// lookupCase is one lookup in one world.
type lookupCase struct {
	library player.Library
	conf    string
	how     ask
	name    string
	world   world
}

// outcome is what was sent, and what came of it.
type outcome struct {
	Queries []string // "name type server udp|tcp"
	Result  []string // sorted addresses, the number of answers, or the error

	took time.Duration
}

// TestPlay looks names up with the libraries and with their players, at servers
// that answer by one script, and compares what was sent and what came of it.
func TestPlay(t *testing.T) {
	programs := map[player.Library]string{
		player.Glibc: build(t, "gcc", "ask.c", "-lresolv"),
		player.Musl:  build(t, "musl-gcc", "ask.c", "-static"),
	}
	cases := lookupCases(t)
	played := make([]outcome, len(cases))
	for i, c := range cases {
		synctest.Test(t, func(t *testing.T) { played[i] = c.play(t.Context(), 0) })
	}
	real := make([]outcome, len(cases))
	work := make(chan int)
	var wait sync.WaitGroup
	for range 12 { // most of their time they wait for servers that say nothing
		etc := t.TempDir()
		wait.Go(func() {
			runtime.LockOSThread() // and never unlock
			if err := enter(etc); err != nil {
				t.Error(err)
				for range work { //nolint:revive // let the others end
				}
				return
			}
			s := listen(t)
			defer s.close()
			for i := range work {
				real[i] = s.run(t, programs[cases[i].library], etc, cases[i])
			}
		})
	}
	// The slow ones first.
	order := make([]int, len(cases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(played[b].took - played[a].took) })
	for _, i := range order {
		work <- i
	}
	close(work)
	wait.Wait()

	failed := 0
	for i, c := range cases {
		if diff := c.compare(t, played[i], real[i]); diff != "" {
			t.Errorf("case %d: %s looks up %d %q with\n%s%v%v(-played +real):\n%s", i, c.library, c.how, c.name, c.conf, c.world.manners, c.world.moods, diff)
			if failed++; failed == 10 {
				t.Fatal("and maybe more")
			}
		}
	}
}

// play lets the player look the name up, beginning with server first if the file
// says rotate.
func (c lookupCase) play(ctx context.Context, first int) outcome {
	p := player.Player{
		Library: c.library, Resolver: c.library.Read(c.conf), Hostname: hostname, First: first,
		Network: player.Network{UDP: c.world.udp, TCP: c.world.tcp},
	}
	ctx, cancel := context.WithTimeout(ctx, 2*slowest) // glibc waits for TCP without end
	defer cancel()
	start := time.Now()
	var r player.Result
	var err error
	switch c.how {
	case askBoth:
		r, err = p.Lookup(ctx, c.name, player.Both)
	case askIPv4:
		r, err = p.Lookup(ctx, c.name, player.IPv4)
	case askIPv6:
		r, err = p.Lookup(ctx, c.name, player.IPv6)
	default:
		r, err = p.Search(ctx, c.name, uint16(c.how))
	}
	o := outcome{took: time.Since(start)}
	if err != nil {
		o.Result = []string{err.Error()}
		return o
	}
	for _, q := range r.Queries {
		if !slices.Contains(listening, q.Server.String()) {
			continue // nobody is there to note it
		}
		o.Queries = append(o.Queries, noted(q.Name, q.Type, q.Server.String(), q.TCP))
	}
	for _, a := range r.Addresses {
		o.Result = append(o.Result, a.String())
	}
	slices.Sort(o.Result)
	if c.how != askBoth && c.how != askIPv4 && c.how != askIPv6 {
		o.Result = []string{strconv.Itoa(len(r.Answers))}
	}
	if r.Error != "" {
		o.Result = []string{"error " + string(r.Error) + ": " + c.library.Text(r.Error)}
	}
	return o
}

// compare returns how played and real differ.
func (c lookupCase) compare(t *testing.T, played, real outcome) string {
	r := c.library.Read(c.conf)
	real.Queries = inOrder(real.Queries)
	if c.library == player.Glibc && r.Rotate {
		// A process begins with any of its servers.
		diffs := ""
		for first := range r.Nameservers {
			synctest.Test(t, func(t *testing.T) { played = c.play(t.Context(), first) })
			diff := cmp.Diff(played, real, unexported)
			if diff == "" {
				return ""
			}
			diffs += diff
		}
		return diffs
	}
	if c.library == player.Musl {
		// All are asked at once; of those that fail, any is asked again.
		played.Queries, real.Queries = c.unordered(played.Queries), c.unordered(real.Queries)
	}
	return cmp.Diff(played, real, unexported)
}

var unexported = cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "took" }, cmp.Ignore())

// inOrder puts the UDP queries for a name before those over TCP. The first reply
// that is truncated sends glibc there, while the second query may wait to be noted.
func inOrder(queries []string) []string {
	list := slices.Clone(queries)
	for i := range list {
		for ; i > 0 && overtakes(list[i], list[i-1]); i-- {
			list[i], list[i-1] = list[i-1], list[i]
		}
	}
	return list
}

func overtakes(udp, tcp string) bool {
	u, t := strings.Fields(udp), strings.Fields(tcp)
	return u[2] == "udp" && t[2] == "tcp" && u[0] == t[0] && u[3] == t[3]
}

// unordered sorts the queries by server, those of each in their order: nobody can
// tell which server was asked first. Where they fail, any is asked again for any
// type, and the names are all that is certain.
func (c lookupCase) unordered(queries []string) []string {
	list := slices.Clone(queries)
	if !c.world.fails() {
		slices.SortStableFunc(list, func(a, b string) int {
			return strings.Compare(a[strings.LastIndex(a, " "):], b[strings.LastIndex(b, " "):])
		})
		return list
	}
	for i, q := range list {
		list[i], _, _ = strings.Cut(q, " ")
	}
	slices.Sort(list)
	return list
}

func noted(name string, qtype uint16, server string, tcp bool) string {
	if strings.HasSuffix(name, "..") {
		return malformed + " udp " + server
	}
	var wire [300]byte // as the name is on its way, so is it noted
	if _, err := dns.PackDomainName(name, wire[:], 0, nil, false); err == nil {
		name, _, _ = dns.UnpackDomainName(wire[:], 0)
	}
	network := "udp"
	if tcp {
		network = "tcp"
	}
	return fmt.Sprintf("%s %s %s %s", name, dns.Type(qtype), network, server)
}

// malformed is the note for a packet that is no query.
const malformed = "malformed ?"

// run lets the library look the name up.
func (s *servers) run(t *testing.T, program, etc string, c lookupCase) outcome {
	for name, text := range map[string]string{"resolv.conf": c.conf, "nsswitch.conf": "hosts: dns\n"} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	s.begin(c.world)
	start := time.Now()
	out, err := run(program, strconv.Itoa(int(c.how)), c.name)
	o := outcome{took: time.Since(start)}
	if err != nil {
		out += "error killed"
	}
	if out = strings.TrimSpace(out); out != "" {
		o.Result = strings.Split(out, "\n")
		slices.Sort(o.Result)
	}
	o.Queries = s.end(t)
	return o
}

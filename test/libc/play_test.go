// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
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

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	player "github.com/dnsconfigurer/dnsconfigurer/internal/libc"
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
	Queries []string // "name type udp|tcp server"
	Header  []string // the flags and OPT records of all queries, each once
	Result  []string // sorted addresses, the number of answers, or the error

	took time.Duration
}

// disturbed is how many lookups a busy machine may disturb. Where more differ, it is
// not the machine.
const disturbed = 24

// TestPlay looks names up with the libraries and with their players, at servers
// that answer by one script, and compares what was sent and what came of it. On a
// busy machine a reply may come later than a library waits for it; so what differs
// is looked up again alone.
func TestPlay(t *testing.T) {
	programs := map[player.Library]string{
		player.Glibc: build(t, "gcc", "ask.c", "-lresolv"),
		player.Musl:  build(t, "musl-gcc", "ask.c", "-static"),
	}
	cases := lookupCases(t)
	played := make([]outcome, len(cases))
	todo := make([]int, len(cases))
	for i, c := range cases {
		todo[i] = i
		synctest.Test(t, func(t *testing.T) { played[i] = c.play(t.Context(), 0) })
	}
	slices.SortStableFunc(todo, func(a, b int) int { return cmp.Compare(played[b].took, played[a].took) })
	checkReach(t, cases, played)

	diffs := make([]string, len(cases))
	for _, workers := range []int{12, 1, 1} { // most of their time they wait for servers that say nothing
		todo = slices.DeleteFunc(todo, func(i int) bool {
			return workers == 1 && diffs[i] == ""
		})
		if workers == 1 && len(todo) > disturbed {
			break
		}
		actual := lookUp(t, workers, programs, cases, todo)
		for _, i := range todo {
			diffs[i] = cases[i].compare(t, played[i], actual[i])
		}
	}
	for _, i := range todo {
		if c := cases[i]; diffs[i] != "" {
			t.Errorf("case %d: %s looks up %d %q with\n%s%v %v\n(-played +library):\n%s", i, c.library, c.how, c.name, c.conf, c.world.manners, c.world.moods, diffs[i])
		}
	}
}

// lookUp runs the cases at todo with the libraries, each worker in namespaces of
// its own.
func lookUp(t *testing.T, workers int, programs map[player.Library]string, cases []lookupCase, todo []int) map[int]outcome {
	var mu sync.Mutex
	actual := map[int]outcome{}
	work := make(chan int, len(todo))
	for _, i := range todo {
		work <- i
	}
	close(work)
	var wait sync.WaitGroup
	for range workers {
		etc := t.TempDir()
		wait.Go(func() {
			runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
			if err := enter(etc); err != nil {
				t.Error(err)
				return
			}
			s := listen(t)
			defer s.close()
			for i := range work {
				o := s.run(t, programs[cases[i].library], etc, cases[i])
				mu.Lock()
				actual[i] = o
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return actual
}

// checkReach proves that the cases reach what they are made for.
func checkReach(t *testing.T, cases []lookupCase, played []outcome) {
	seen := map[string]bool{}
	for i, c := range cases {
		result := "found"
		if len(played[i].Result) > 0 {
			if rest, failed := strings.CutPrefix(played[i].Result[0], "error "); failed {
				result, _, _ = strings.Cut(rest, ":")
			}
		}
		seen[string(c.library)+" "+result] = true
	}
	for library, results := range map[player.Library][]string{
		player.Glibc: {"found", "EAI_NONAME", "EAI_NODATA", "EAI_AGAIN", "EAI_ADDRFAMILY", "HOST_NOT_FOUND", "TRY_AGAIN", "NO_RECOVERY", "NO_DATA"},
		player.Musl:  {"found", "EAI_NONAME", "EAI_AGAIN", "HOST_NOT_FOUND", "TRY_AGAIN", "NO_DATA", "NETDB_SUCCESS"},
	} {
		for _, result := range results {
			if !seen[string(library)+" "+result] {
				t.Errorf("no case in which %s gives %s", library, result)
			}
		}
	}
}

// play lets the player look the name up, beginning with server first if the file
// says rotate.
func (c lookupCase) play(ctx context.Context, first int) outcome {
	var headers headers
	exchange := func(tcp bool) player.Exchange {
		return func(ctx context.Context, server netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			if slices.Contains(listening, server.String()) {
				headers.note(q)
			}
			return c.world.exchange(ctx, server, q, tcp)
		}
	}
	p := player.Simulator{
		Library: c.library, Resolver: c.library.Read(c.conf), Hostname: hostname, First: first,
		Network: player.Network{UDP: exchange(false), TCP: exchange(true)},
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
	o := outcome{took: time.Since(start), Header: headers.list()}
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

// compare returns how played and actual differ.
func (c lookupCase) compare(t *testing.T, played, actual outcome) string {
	r := c.library.Read(c.conf)
	actual.Queries = inOrder(actual.Queries)
	if c.library == player.Glibc && r.Rotate {
		// A process begins with any of its servers.
		diffs := ""
		for first := range r.Nameservers {
			synctest.Test(t, func(t *testing.T) { played = c.play(t.Context(), first) })
			diff := gocmp.Diff(played, actual, unexported)
			if diff == "" {
				return ""
			}
			diffs += diff
		}
		return diffs
	}
	if c.library == player.Musl {
		// All are asked at once; of those that fail, any is asked again.
		played.Queries, actual.Queries = c.unordered(played.Queries), c.unordered(actual.Queries)
	}
	return gocmp.Diff(played, actual, unexported)
}

var unexported = gocmp.FilterPath(func(p gocmp.Path) bool { return p.String() == "took" }, gocmp.Ignore())

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
	o.Queries, o.Header = s.end(t)
	return o
}

// TestGetent runs what people type: getent asks for both families, if the host has
// both.
func TestGetent(t *testing.T) {
	file := isolate(t)
	s := listen(t)
	defer s.close()
	write(t, filepath.Join(filepath.Dir(file), "nsswitch.conf"), "hosts: dns\n")
	for _, name := range []string{"a", "web.shop", "www.corp.example", "www.corp.example."} {
		c := lookupCase{
			library: player.Glibc, name: name,
			conf:  "nameserver 127.0.0.2\nsearch shop.svc.cluster.local svc.cluster.local\noptions ndots:2\n",
			world: world{seed: 7, manners: []manner{both, alias, nxdomain, nodata, v4}},
		}
		var played outcome
		synctest.Test(t, func(t *testing.T) { played = c.play(t.Context(), 0) })
		write(t, file, c.conf)
		s.begin(c.world)
		out, _ := run("getent", "ahosts", name) // it fails when there is no address
		queries, _ := s.end(t)
		if diff := gocmp.Diff(played.Queries, queries); diff != "" {
			t.Errorf("%s (-played +getent):\n%s", name, diff)
		}
		for _, address := range played.Result {
			if !strings.HasPrefix(address, "error") && !strings.Contains(out, address+" ") {
				t.Errorf("%s: getent does not say %s:\n%s", name, address, out)
			}
		}
	}
}

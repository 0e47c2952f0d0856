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

	sim "github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// ask is the first argument of ask.c: a family or a query type.
type ask uint16

const (
	askBoth ask = 0
	askIPv4 ask = 4
	askIPv6 ask = 6
)

// lookupCase is one lookup in one world.
type lookupCase struct {
	release release
	library sim.Library // its simulator
	conf    string
	how     ask
	name    string
	hosts   map[string][]netip.Addr // of /etc/hosts
	world   world
}

// outcome is the queries and the result of a lookup.
type outcome struct {
	Queries []string // "name type udp|tcp server"
	Header  []string // the flags and OPT records of all queries, each once
	Result  []string // sorted addresses, the number of answers, or the error

	took time.Duration
}

// disturbed limits the lookups that a busy machine may affect. With more differences, the
// machine is not the cause.
const disturbed = 24

// TestSimulator looks up names with the libraries and with their simulators, at servers
// with the same script, and compares queries and results. On a busy machine a reply may
// be later than the timeout of a library, so a lookup that differs is repeated, at last alone.
func TestSimulator(t *testing.T) {
	programs := map[release]string{}
	for r := range simulators {
		programs[r] = compile(t, r, "ask")
	}
	cases := lookupCases(t)
	simulated := make([]outcome, len(cases))
	todo := make([]int, len(cases))
	for i, c := range cases {
		todo[i] = i
		synctest.Test(t, func(t *testing.T) { simulated[i] = c.simulate(t.Context(), 0) })
	}
	slices.SortStableFunc(todo, func(a, b int) int { return cmp.Compare(simulated[b].took, simulated[a].took) })
	checkReach(t, cases, simulated)

	diffs := make([]string, len(cases))
	for pass, workers := range []int{12, 4, 1, 1, 1} { // they mostly wait for servers that do not reply
		todo = slices.DeleteFunc(todo, func(i int) bool {
			return pass > 0 && diffs[i] == ""
		})
		if workers == 1 && len(todo) > disturbed {
			break
		}
		actual := lookUp(t, workers, programs, cases, todo)
		for _, i := range todo {
			diffs[i] = cases[i].compare(t, simulated[i], actual[i])
		}
	}
	for _, i := range todo {
		if c := cases[i]; diffs[i] != "" {
			t.Errorf("case %d: %s looks up %d %q with\n%s%v %v\n(-simulator +library):\n%s", i,
				c.release, c.how, c.name, c.conf, c.world.manners, c.world.moods, diffs[i])
		}
	}
}

// lookUp runs the cases at the indexes in todo with the libraries. Each worker has its
// own namespaces.
func lookUp(t *testing.T, workers int, programs map[release]string, cases []lookupCase, todo []int) map[int]outcome {
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
				o := s.run(t, programs[cases[i].release], etc, cases[i])
				mu.Lock()
				actual[i] = o
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return actual
}

// checkReach checks that the cases cover all results.
func checkReach(t *testing.T, cases []lookupCase, simulated []outcome) {
	seen := map[release]map[string]bool{}
	for i, c := range cases {
		result := "found"
		if len(simulated[i].Result) > 0 {
			if rest, failed := strings.CutPrefix(simulated[i].Result[0], "error "); failed {
				result, _, _ = strings.Cut(rest, ":")
			}
		}
		if seen[c.release] == nil {
			seen[c.release] = map[string]bool{}
		}
		seen[c.release][result] = true
	}
	for r, library := range simulators {
		for _, result := range map[sim.Library][]string{
			sim.Glibc: {"found", "EAI_NONAME", "EAI_NODATA", "EAI_AGAIN", "EAI_ADDRFAMILY",
				"HOST_NOT_FOUND", "TRY_AGAIN", "NO_RECOVERY", "NO_DATA"},
			sim.Musl:    {"found", "EAI_NONAME", "EAI_NODATA", "EAI_AGAIN", "HOST_NOT_FOUND", "TRY_AGAIN", "NO_DATA", "NETDB_SUCCESS"},
			sim.Musl123: {"found", "EAI_NONAME", "EAI_AGAIN", "HOST_NOT_FOUND", "TRY_AGAIN", "NO_DATA", "NETDB_SUCCESS"},
			sim.Go: {"found", "errNoSuchHost", "errTimeout", "errServerTemporarilyMisbehaving", "errServerMisbehaving", "errLameReferral",
				"ECONNREFUSED", "errCannotMarshalDNSMessage", "errNoSuitableAddress"},
		}[library] {
			if !seen[r][result] {
				t.Errorf("no case in which %s gives %s", r, result)
			}
		}
	}
}

// simulate looks up the name with the simulator, starting with the server first if the
// file has the option rotate.
func (c lookupCase) simulate(ctx context.Context, first int) outcome {
	var headers headers
	exchange := func(tcp bool) sim.Exchange {
		return func(ctx context.Context, server netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			if slices.Contains(listening, server.String()) {
				headers.record(q)
			}
			return c.world.exchange(ctx, server, q, tcp)
		}
	}
	p := sim.Simulator{
		Library: c.library, Resolver: c.library.Read(c.conf), Hostname: hostname, Hosts: c.hosts, First: first,
		Network: sim.Network{UDP: exchange(false), TCP: exchange(true)},
	}
	ctx, cancel := context.WithTimeout(ctx, 2*slowest) // glibc waits for TCP without a limit
	defer cancel()
	start := time.Now()
	var r sim.Result
	var err error
	switch c.how {
	case askBoth:
		r, err = p.Lookup(ctx, c.name, sim.Both)
	case askIPv4:
		r, err = p.Lookup(ctx, c.name, sim.IPv4)
	case askIPv6:
		r, err = p.Lookup(ctx, c.name, sim.IPv6)
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
			continue // no server records it
		}
		o.Queries = append(o.Queries, recorded(q.Name, q.Type, q.Server.String(), q.TCP))
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

// compare returns the difference of simulated and actual.
func (c lookupCase) compare(t *testing.T, simulated, actual outcome) string {
	r := c.library.Read(c.conf)
	if c.library == sim.Go {
		simulated.Queries, actual.Queries = byType(simulated.Queries), byType(actual.Queries)
		return gocmp.Diff(simulated, actual, unexported)
	}
	simulated.Queries, actual.Queries = inOrder(simulated.Queries), inOrder(actual.Queries)
	if c.library == sim.Glibc && r.Rotate {
		// A process starts with any of its servers.
		diffs := ""
		for first := range r.Nameservers {
			synctest.Test(t, func(t *testing.T) { simulated = c.simulate(t.Context(), first) })
			simulated.Queries = inOrder(simulated.Queries)
			diff := gocmp.Diff(simulated, actual, unexported)
			if diff == "" {
				return ""
			}
			diffs += diff
		}
		return diffs
	}
	if c.library.QueriesAllServers() {
		// musl sends to all servers at once, and repeats a query to any that failed.
		simulated.Queries, actual.Queries = c.unordered(simulated.Queries), c.unordered(actual.Queries)
	}
	return gocmp.Diff(simulated, actual, unexported)
}

var unexported = gocmp.FilterPath(func(p gocmp.Path) bool { return p.String() == "took" }, gocmp.Ignore())

// inOrder moves the UDP queries for a name before those over TCP. The first truncated
// reply makes glibc use TCP while the server has not recorded the second query.
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

// byType sorts the queries by type and keeps the order of each: Go sends each type from its
// own socket.
func byType(queries []string) []string {
	qtype := func(query string) string { return strings.Fields(query)[1] }
	list := slices.Clone(queries)
	slices.SortStableFunc(list, func(a, b string) int { return strings.Compare(qtype(a), qtype(b)) })
	return list
}

// unordered sorts the queries by server and keeps the order of each: the order among
// servers is not defined. After a failure any server gets a query of any type again, and
// only the names are certain. A query over TCP goes to any server whose reply is truncated.
func (c lookupCase) unordered(queries []string) []string {
	list := slices.Clone(queries)
	for i, q := range list {
		if query, _, tcp := strings.Cut(q, " tcp "); tcp {
			list[i] = query + anyTCP
		}
	}
	if !c.world.fails() {
		slices.SortStableFunc(list, func(a, b string) int {
			return cmp.Or(strings.Compare(server(a), server(b)), strings.Compare(overAnyTCP(a), overAnyTCP(b)))
		})
		return list
	}
	for i, q := range list {
		list[i], _, _ = strings.Cut(q, " ")
	}
	slices.Sort(list)
	if slices.Contains(c.world.manners, cutFail) { // the first failure over TCP ends all queries
		list = slices.Compact(list)
	}
	return list
}

const anyTCP = " tcp any"

// overAnyTCP returns a query over TCP to any server, "" for other queries.
func overAnyTCP(query string) string {
	if strings.HasSuffix(query, anyTCP) {
		return query
	}
	return ""
}

func server(query string) string { return query[strings.LastIndex(query, " "):] }

func recorded(name string, qtype uint16, server string, tcp bool) string {
	if strings.HasSuffix(name, "..") {
		return malformed + " udp " + server
	}
	var wire [300]byte // names are recorded as they are in the packet
	if _, err := dns.PackDomainName(name, wire[:], 0, nil, false); err == nil {
		name, _, _ = dns.UnpackDomainName(wire[:], 0)
	}
	network := "udp"
	if tcp {
		network = "tcp"
	}
	return fmt.Sprintf("%s %s %s %s", name, dns.Type(qtype), network, server)
}

// malformed is the record of a packet that is not a query.
const malformed = "malformed ?"

// run looks up the name with the library.
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
		out += "error crashed"
	}
	if out = strings.TrimSpace(out); out != "" {
		o.Result = strings.Split(out, "\n")
		slices.Sort(o.Result)
	}
	o.Queries, o.Header = s.end(t)
	return o
}

// TestHosts looks up names that are in /etc/hosts, also for the family that they lack.
func TestHosts(t *testing.T) {
	programs := map[release]string{}
	for r := range simulators {
		programs[r] = compile(t, r, "ask")
	}
	etc := filepath.Dir(isolate(t))
	s := listen(t)
	defer s.close()
	write(t, filepath.Join(etc, "hosts"), "192.0.2.6 four\n192.0.2.7 a.four\n")
	write(t, filepath.Join(etc, "nsswitch.conf"), "hosts: files dns\n")
	write(t, filepath.Join(etc, "resolv.conf"), "nameserver 127.0.0.2\n")
	for r, program := range programs {
		for _, name := range []string{"four", "FOUR", "a.four", "a.four."} {
			for _, family := range []ask{askIPv4, askIPv6} {
				c := lookupCase{
					release: r, library: simulators[r], name: name, how: family,
					conf: "nameserver 127.0.0.2\n",
					hosts: map[string][]netip.Addr{"four": {netip.MustParseAddr("192.0.2.6")},
						"a.four": {netip.MustParseAddr("192.0.2.7")}},
					world: world{manners: []manner{nxdomain}},
				}
				var simulated outcome
				synctest.Test(t, func(t *testing.T) { simulated = c.simulate(t.Context(), 0) })
				s.begin(c.world)
				out, err := run(program, strconv.Itoa(int(family)), name)
				actual := outcome{Result: strings.Split(strings.TrimSpace(out), "\n")}
				actual.Queries, actual.Header = s.end(t)
				if diff := c.compare(t, simulated, actual); diff != "" || err != nil {
					t.Errorf("%s looks up %d %s: %v (-simulator +library):\n%s", r, family, name, err, diff)
				}
			}
		}
	}
}

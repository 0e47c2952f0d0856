// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// query is a query that a server received.
type query struct{ Server, Name string }

// serverAddresses are the addresses of the servers.
var serverAddresses = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "::1"}

// lookup runs the program to look up name. It returns the queries in the order in which
// the servers received them, and the error of the program. The servers reply with
// NXDOMAIN, or not at all if silent is set.
func lookup(t *testing.T, program, name string, silent bool) ([]query, error) {
	t.Helper()
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		got  []query
	)
	var conns []net.PacketConn
	for _, address := range serverAddresses {
		conn, err := net.ListenPacket("udp", net.JoinHostPort(address, "53"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
		wait.Go(func() {
			serve(conn, silent, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, query{address, name})
			})
		})
	}
	_, failed := run(program, name)
	// The loopback interface delivers a packet when it is sent, so that the packet that
	// stops a server is the last one.
	for _, conn := range conns {
		if _, err := conn.WriteTo([]byte{0}, conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	wait.Wait()
	return got, failed
}

// serve records the name of each query until a packet arrives that is not a query.
func serve(conn net.PacketConn, silent bool, note func(name string)) {
	buf := make([]byte, 512)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil || n < 12 {
			return
		}
		var labels []string
		for i := 12; i < n && buf[i] != 0 && i+1+int(buf[i]) <= n; i += 1 + int(buf[i]) {
			labels = append(labels, string(buf[i+1:i+1+int(buf[i])]))
		}
		note(strings.Join(labels, "."))
		if !silent {
			buf[2], buf[3] = buf[2]|0x80, 3 // a response, NXDOMAIN
			_, _ = conn.WriteTo(buf[:n], from)
		}
	}
}

// TestLookup looks up names and compares the queries with the Resolver. It proves that
// the programs of the other tests print what their libraries do.
func TestLookup(t *testing.T) {
	glibc, musl := build(t, "gcc", "glibc.c"), build(t, "musl-gcc", "musl.c", "-static")
	file := isolate(t)
	random := rand.New(rand.NewPCG(53, 53))
	for range 1000 {
		text, name := lookupText(random), pick(random, []string{"a", "a.b", "a.b.c", "a.b.c.d.e.f"})
		write(t, file, text)
		inTime(t, func() string {
			got, err := lookup(t, glibc, name, false)
			if diff := cmp.Diff(glibcQueries(resolvconf.Glibc(text), name), got); diff != "" || err != nil {
				return fmt.Sprintf("glibc: look up %q with %q: %v\n%s", name, text, err, diff)
			}
			return ""
		})
		inTime(t, func() string {
			got, err := lookup(t, musl, name, false)
			if diff := cmp.Diff(byServer(muslQueries(resolvconf.Musl(text), name)), byServer(got)); diff != "" || err != nil {
				return fmt.Sprintf("musl: look up %q with %q: %v\n%s", name, text, err, diff)
			}
			return ""
		})
	}
}

// inTime repeats a failing comparison. The timers of a library run on while a busy
// machine delays the library or its server, and the library then sends other queries. A
// library that differs from its model fails every time.
func inTime(t *testing.T, compare func() (problem string)) {
	t.Helper()
	var problem string
	for range 10 {
		if problem = compare(); problem == "" {
			return
		}
		t.Logf("repeated: %s", problem)
	}
	t.Fatal(problem)
}

// lookupText returns a text whose servers all exist and which crashes neither library.
func lookupText(r *rand.Rand) string {
	lines := []string{
		"nameserver 127.0.0.1", "nameserver 127.0.0.2", "nameserver 127.3", "nameserver 127.0.0.0x4",
		"nameserver ::1", "nameserver nowhere", "nameserver 127.0.0.2 x", " nameserver 127.0.0.3",
		"search one two.example three", "search one", "search", "domain d.example",
		"search 1.x 2.x 3.x 4.x 5.x 6.x 7.x 8.x", "search a." + strings.Repeat("b.", 90) + "c d." + strings.Repeat("e.", 30) + "f",
		"options ndots:2", "options ndots:0", "options ndots:5 timeout:2", "options attempts:3 edns0",
		"options ndots:15", "# nothing", "x\x00",
	}
	n := r.IntN(7)
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return strings.Join(lines[:n], "\n") + "\n"
}

// glibcQueries returns the queries of a lookup in which the first server replies with
// NXDOMAIN.
func glibcQueries(r resolvconf.Resolver, name string) []query {
	var names []string
	search := r.Search
	if len(search) == 0 {
		search = []string{hostDomain}
	}
	asItIs := strings.Count(name, ".") >= r.Ndots
	if asItIs {
		names = append(names, name)
	}
	for _, domain := range search {
		names = append(names, name+"."+domain)
	}
	if !asItIs {
		names = append(names, name)
	}
	var list []query
	for _, n := range names {
		list = append(list, query{r.Nameservers[0].String(), n})
	}
	return list
}

// muslQueries returns the queries of a lookup in which all servers reply with NXDOMAIN:
// musl sends each query to all servers at once, and tries a name with enough dots only as
// it is.
func muslQueries(r resolvconf.Resolver, name string) []query {
	names := []string{name}
	if strings.Count(name, ".") < r.Ndots {
		names = nil
		for _, domain := range r.Search {
			names = append(names, name+"."+domain)
		}
		names = append(names, name)
	}
	var list []query
	for _, n := range names {
		for _, server := range r.Nameservers {
			list = append(list, query{server.String(), n})
		}
	}
	return list
}

// byServer sorts the queries by server and keeps the order of each: of several servers
// that receive a query at once, any may record it first.
func byServer(list []query) []query {
	slices.SortStableFunc(list, func(a, b query) int { return strings.Compare(a.Server, b.Server) })
	return list
}

// TestSilence looks up a name at servers that do not reply: attempts, timeout and the
// number of servers as seen on the network.
func TestSilence(t *testing.T) {
	glibc, musl := compile(t, glibc236, "glibc"), compile(t, musl123, "musl")
	newer, golang := compile(t, musl125, "musl"), compile(t, goNet, "")
	const two = "nameserver 127.0.0.1\nnameserver 127.0.0.2\n"
	const four = two + "nameserver 127.0.0.3\nnameserver 127.0.0.4\n"
	for _, c := range []struct {
		program, text string
		servers       string // the last byte of the server of each query, in order
		seconds       int    // of the lookup
	}{
		{glibc, "options timeout:1 attempts:1\n", "1", 1},
		{glibc, four + "options timeout:1 attempts:1\n", "123", 3},
		{glibc, two + "options timeout:1 attempts:2\n", "1212", 4},
		{glibc, "options timeout:1 attempts:5\n", "11111", 5},
		{glibc, "options timeout:1 attempts:6\n", "11111", 5},
		{glibc, "options timeout:0 attempts:1\n", "1", 1},
		{glibc, two + "options timeout:-9 attempts:1\n", "12", 2},
		{glibc, "options timeout:1 attempts:0\n", "", 0},
		{glibc, "options timeout:1 attempts:-1\n", "", 0},
		{glibc, "options timeout:3 attempts:1\n", "1", 3},
		{musl, "options timeout:1 attempts:1\n", "1", 1},
		{musl, four + "options timeout:1 attempts:1\n", "123", 1},
		{musl, two + "options timeout:2 attempts:2\n", "1212", 2},
		{musl, "options timeout:3 attempts:10\n", "1111111111", 3},
		{musl, "options timeout:3 attempts:11\n", "1111111111", 3},
		{musl, "options timeout:0\n", "", 0},
		{musl, "", "11", 5},
		{musl, "options attempts:0\n", "", 0},
		{musl, "options timeout:0 attempts:0\n", "", 0},
		{newer, two + "options timeout:2 attempts:2\n", "1212", 2},
		{newer, "options timeout:3 attempts:11\n", "1111111111", 3},
		{newer, "options attempts:0\n", "", 0},
		{golang, "options timeout:1\n", "1111", 4}, // 127.0.0.1 and ::1
		{golang, four + "options timeout:1 attempts:1\n", "123", 3},
		{golang, two + "options timeout:1\n", "1212", 4},
		{golang, "nameserver 127.0.0.2\noptions timeout:0 attempts:6\n", "222222", 6},
		{golang, "nameserver 127.0.0.2\noptions timeout:1 attempts:0\n", "2", 1},
	} {
		library, read := "glibc", resolvconf.Glibc
		switch c.program {
		case musl, newer:
			library, read = "musl", resolvconf.Musl
		case golang:
			library, read = "go", resolvconf.Go
		}
		t.Run(fmt.Sprintf("%s %q", library, c.text), func(t *testing.T) {
			t.Parallel()
			write(t, isolate(t), c.text)
			inTime(t, func() string {
				start := time.Now()
				queries, err := lookup(t, c.program, "probe.", true)
				took := time.Since(start)
				if crashes := read(c.text).Crashes; crashes != (err != nil) || crashes != crashed(err) {
					return fmt.Sprintf("got %v, but Crashes is %t", err, crashes)
				}
				got := ""
				for _, q := range queries {
					got += q.Server[len(q.Server)-1:]
				}
				if library == "musl" {
					got = inRounds(got, len(read(c.text).Nameservers))
				}
				if got != c.servers {
					return fmt.Sprintf("queries to the servers %q, want %q", got, c.servers)
				}
				if want := time.Duration(c.seconds) * time.Second; took < want-100*time.Millisecond || took > want+2*time.Second {
					return fmt.Sprintf("took %v, want %v", took, want)
				}
				return ""
			})
		})
	}
}

// inRounds sorts the servers of each round: musl sends to all at once.
func inRounds(servers string, n int) string {
	b := []byte(servers)
	for round := range slices.Chunk(b, n) {
		slices.Sort(round)
	}
	return string(b)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

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
			s := listen(t)
			defer s.close()
			inTime(t, func() string {
				s.begin(world{manners: []manner{silent}})
				start := time.Now()
				_, err := run(c.program, "probe.")
				took := time.Since(start)
				queries, _ := s.end(t)
				got := ""
				for _, q := range queries {
					got += q[len(q)-1:]
				}
				if crashes := read(c.text).Crashes; crashes != (err != nil) || crashes != crashed(err) {
					return fmt.Sprintf("got %v, but Crashes is %t", err, crashes)
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

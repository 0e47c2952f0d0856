// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// lookupsOfProcess is the number of lookups of a process, ten in a second: more than it needs.
const lookupsOfProcess = 6000

// TestRefresh rewrites the file of a process that looks names up all the time, as the agent does.
// The process must query the new server without a restart.
func TestRefresh(t *testing.T) {
	for _, r := range []release{glibc236, glibc241, musl123, musl125, goNet} {
		program := compile(t, r, "ask")
		t.Run(string(r), func(t *testing.T) {
			file := isolate(t)
			write(t, file, "nameserver 127.0.0.1\n")
			s := listen(t)
			defer s.close()
			s.begin(world{manners: []manner{both}})
			process := exec.Command(program, append([]string{"each", "100"}, slices.Repeat([]string{"web."}, lookupsOfProcess)...)...)
			must.Succeed(t, process.Start())
			defer func() {
				_ = process.Process.Kill()
				_ = process.Wait()
			}()
			s.await(t, "127.0.0.1")
			rewrite(t, file, "nameserver 127.0.0.2\n")
			began := time.Now()
			s.await(t, "127.0.0.2")
			t.Logf("%s: a query to the new server %v after the write", r, time.Since(began).Round(time.Millisecond))
		})
	}
}

// rewrite replaces the text of a file as the agent does.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	sandbox := filepath.Dir(path)
	f := must.Get(podfile.Open([]string{filepath.Dir(sandbox)}, filepath.Base(sandbox), path))(t)
	defer f.Close()
	old := must.Get(f.Read())(t)
	must.Succeed(t, f.Replace(old, text, old))
	time.Sleep(5 * time.Millisecond) // as the agent: see podfile.File.Touch
	must.Succeed(t, f.Touch())
}

// await returns when a server has received a query.
func (s *servers) await(t *testing.T, server string) {
	t.Helper()
	received := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.queries, func(q string) bool { return strings.HasSuffix(q, " "+server) })
	}
	for deadline := time.Now().Add(2 * time.Minute); !received(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no query to %s in two minutes", server)
		}
	}
}

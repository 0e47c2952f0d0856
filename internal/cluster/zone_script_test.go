// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Update is the flag of the tests of both packages in this directory.
var Update = flag.Bool("update", false, "rewrite the results in testdata: read the diff before committing it")

// RunScripts calls run in fake time for each script in a directory, with streaming lists and without.
func RunScripts(t *testing.T, dir string, run func(t *testing.T, archive *txtar.Archive, streaming bool)) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, path := range paths {
		archive := must.Get(txtar.ParseFile(path))(t)
		for _, streaming := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming lists %t", filepath.Base(path), streaming), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { run(t, archive, streaming) })
			})
		}
		if *Update {
			must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
		}
	}
}

// PlayScript does the steps of a script, whose names are those of its files, and compares their results.
func PlayScript(t *testing.T, archive *txtar.Archive, step func(text string) string) {
	for i := range archive.Files {
		f := &archive.Files[i]
		synctest.Wait()
		got := step(f.Name)
		if !*Update && got != string(f.Data) {
			t.Errorf("%s\n got: %swant: %s", f.Name, got, f.Data)
		}
		f.Data = []byte(got)
	}
}

// zoneScript is an API server with the objects of cluster and a Syncer, in fake time, with the steps of a script:
//
//	start [pods], stop           a Syncer, whose snapshot is in a file
//	apply KIND NS/NAME [WORD...] as newNamespace, newService, newSlice and newPod have them
//	delete KIND NS/NAME
//	hold RESOURCE, release RESOURCE
//	unreachable, reachable, cut watches, forget versions, another cluster
//	sleep DURATION
//	lookup NAME...               results: addresses, or one word
//	state                        results: the state of each resource and of the zone, the snapshot, new messages
type zoneScript struct {
	*testing.T
	server *apiServer
	held   map[string]func()
	file   string
	syncer *running
}

// TestSyncer_Scripts runs the scripts of testdata/syncer, with streaming lists and without.
func TestSyncer_Scripts(t *testing.T) {
	RunScripts(t, "testdata/syncer", func(t *testing.T, archive *txtar.Archive, streaming bool) {
		s := &zoneScript{T: t, server: newAPIServer(t, cluster()...), held: map[string]func(){},
			file: filepath.Join(t.TempDir(), "zone")}
		if !streaming {
			s.server.DisableStreamingLists()
		}
		PlayScript(t, archive, s.step)
	})
}

// step does a step and returns its result.
func (s *zoneScript) step(text string) string {
	words := strings.Fields(text)
	switch words[0] {
	case "start":
		s.syncer = start(s.T, s.server, SyncerConfig{Snapshot: s.file, Pods: slices.Contains(words, "pods")})
	case "stop":
		s.syncer.stop()
	case "apply":
		s.server.Apply(s.object(words[1:]))
	case "delete":
		s.server.Delete(s.object(words[1:]))
	case "hold":
		s.held[words[1]] = s.server.Hold(words[1])
	case "release":
		s.held[words[1]]()
	case "unreachable", "reachable":
		s.server.unreachable.Store(words[0] == "unreachable")
	case "cut":
		s.server.CutWatches()
	case "forget":
		s.server.Forget()
	case "another":
		s.server = newAPIServer(s.T, newNamespace("kube-system", "uid-2"), newService("shop", "new", "10.96.0.9"))
	case "sleep":
		d := must.Get(time.ParseDuration(words[1]))(s)
		time.Sleep(d)
	case "lookup":
		var b strings.Builder
		for _, name := range words[1:] {
			fmt.Fprintf(&b, "%s: %s\n", name, lookup(s, s.syncer.zone.Snapshot(), name))
		}
		return b.String()
	case "state":
		return s.state()
	default:
		s.Fatalf("unknown step: %s", text)
	}
	return ""
}

// object returns the object of "KIND NS/NAME WORD...".
func (s *zoneScript) object(words []string) kubeapi.Object {
	ns, name, _ := strings.Cut(words[1], "/")
	rest := words[2:]
	switch words[0] {
	case "namespace":
		return newNamespace(ns, strings.Join(rest, ""))
	case "service":
		return newService(ns, name, rest...)
	case "slice":
		return newSlice(ns, name, strings.Join(rest[:min(1, len(rest))], ""), rest[min(1, len(rest)):]...)
	case "pod":
		return newPod(ns, name, strings.Join(rest, ""))
	}
	s.Fatalf("unknown kind: %s", words[0])
	return nil
}

var randomTimeout = regexp.MustCompile(`timeoutSeconds=\d+`)

// state returns the state of the resources, the zone and the snapshot, and the messages since the last one.
func (s *zoneScript) state() string {
	var b strings.Builder
	for _, st := range s.syncer.syncer.Status() {
		if st.Err != nil {
			fmt.Fprintf(&b, "%s\n", st)
		} else { // the time of the last reply depends on when watches end
			fmt.Fprintf(&b, "%s: listed %t\n", st.Resource, st.Listed)
		}
	}
	if stale := s.syncer.zone.Snapshot().StaleSince(); !stale.IsZero() {
		fmt.Fprintf(&b, "stale for %v\n", time.Since(stale).Truncate(time.Second))
	}
	if file, err := ReadSnapshot(s.file); err == nil {
		fmt.Fprintf(&b, "snapshot of %s, %v old, with %d services and %d pods\n", file.Cluster,
			time.Since(file.Time).Round(time.Minute), len(file.Services), len(file.Pods))
	}
	lines := strings.SplitAfter(s.syncer.log.String(), "\n")
	for i, line := range lines {
		_, message, _ := strings.Cut(line, " ")
		lines[i] = strings.ReplaceAll(message, s.file, "FILE")
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
	s.syncer.log.Reset()
	return randomTimeout.ReplaceAllString(b.String(), "timeoutSeconds=N")
}

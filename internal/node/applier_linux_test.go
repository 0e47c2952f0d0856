// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	kubeletText = "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
	ownText     = "nameserver 203.0.113.66\n"
)

// applierTest is an agent whose pod "web" has the policy autopath.
type applierTest struct {
	*testing.T
	*Applier
	ctx       context.Context
	cancel    context.CancelFunc // of ctx
	directory string
	settings  Settings
	reports   chan cri.Report
	refreshes chan Refresh
	sandbox   podfile.Sandbox
}

func newApplierTest(t *testing.T) *applierTest {
	a := &applierTest{
		T: t, Applier: newApplier(newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)),
		directory: t.TempDir(), reports: make(chan cri.Report, 100), refreshes: make(chan Refresh, 1000),
		sandbox: podfile.Sandbox{ID: "5e1f", Namespace: "shop", Name: "web", UID: "u"},
	}
	a.settings = Settings{Directories: []string{a.directory},
		Report: func(r Refresh) { a.refreshes <- r }, Hook: &cri.Hook{
			Engine: newEngine(t, "10.96.0.10", "cluster.local"), Mode: cri.Generate,
			HostFiles: func() cri.HostFiles { return cri.HostFiles{} },
			Lookup: fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u", Policy: policy.ClusterFirst,
				Override: policy.ClusterFirstWithAutopath}),
			Report: func(r cri.Report) { a.reports <- r },
		}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	t.Cleanup(func() {
		a.cancel()
		a.Wait()
	})
	return a
}

// newEngine returns the engine of a node with this cluster DNS server and domain.
func newEngine(t *testing.T, server, domain string) *policy.Engine {
	t.Helper()
	engine, err := policy.New(policy.Node{
		ClusterDNS: []netip.Addr{netip.MustParseAddr(server)}, ClusterDomain: domain, ResolvConf: "/etc/resolv.conf",
		AllowedOverrides: []policy.Policy{policy.Default}, Autopath: policy.Autopath{NodeCache: netip.MustParseAddr("169.254.20.10")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// apply applies a copy of the settings.
func (a *applierTest) apply() {
	s := a.settings
	a.SetSettings(&s)
}

// reconfigure changes the settings, with another hook, and applies them.
func (a *applierTest) reconfigure(change func(*Settings)) {
	h := a.settings.Hook
	a.settings.Hook = &cri.Hook{Engine: h.Engine, Mode: h.Mode, HostFiles: h.HostFiles, Lookup: h.Lookup, Report: h.Report}
	change(&a.settings)
	a.apply()
}

func (a *applierTest) path() string { return filepath.Join(a.directory, a.sandbox.ID, "resolv.conf") }

// write writes the text of the sandbox's file as a runtime or a pod does.
func (a *applierTest) write(text string) {
	a.Helper()
	_, err := os.Lstat(a.path())
	created := errors.Is(err, fs.ErrNotExist)
	for range 100 {
		if err := errors.Join(os.MkdirAll(filepath.Dir(a.path()), 0o755), os.WriteFile(a.path(), []byte(text), 0o644)); err != nil {
			a.Fatal(err)
		}
		if !created || a.isAsCreated() {
			return
		}
		if err := os.Remove(a.path()); err != nil {
			a.Fatal(err)
		}
	}
	a.Fatal("a pause before each of 100 texts")
}

// isAsCreated reports whether the file is one that a runtime creates, without a pause before its text.
func (a *applierTest) isAsCreated() bool {
	a.Helper()
	f, err := podfile.Open([]string{a.directory}, a.sandbox.ID, a.path())
	if err != nil {
		return true // not the file of a runtime
	}
	defer f.Close()
	return f.IsAsCreated()
}

// start handles the start of the sandbox, and returns when its pod was looked up.
func (a *applierTest) start() {
	a.apply()
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Started, Sandbox: a.sandbox})
	a.Wait()
}

func (a *applierTest) create(first bool) {
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Creating, Sandbox: a.sandbox, Path: a.path(), First: first})
}

func (a *applierTest) running() {
	a.apply()
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Running, Sandbox: a.sandbox, Path: a.path()})
}

// want checks the next report, and that the file is written only with the outcomes Edited and
// Late.
func (a *applierTest) want(outcome cri.Outcome) cri.Report {
	a.Helper()
	r := <-a.reports
	if r.Outcome != outcome || r.Sandbox.Name != "web" {
		a.Errorf("report %+v, want %s", r, outcome)
	}
	text, err := os.ReadFile(a.path())
	if err != nil {
		a.Fatal(err)
	}
	written := outcome == cri.Edited || outcome == cri.Late
	if got := resolvconf.Parse(string(text)).Config(); written != (podfile.OriginOf(text) == podfile.Written) ||
		written && !got.Equal(r.DNS) {
		a.Errorf("%s, and the file has\n%s", outcome, text)
	}
	return r
}

func fixedLookup(pod policy.Pod) func(context.Context, cri.Sandbox) (policy.Pod, error) {
	return func(context.Context, cri.Sandbox) (policy.Pod, error) { return pod, nil }
}

// TestApplier_Synced: an agent that starts looks the pods that run up when it has the list of all of
// them, or when that does not come. A pod that starts does not wait.
func TestApplier_Synced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplierTest(t)
		var mu sync.Mutex
		var lookups []string
		a.settings.Hook.Lookup = func(_ context.Context, s cri.Sandbox) (policy.Pod, error) {
			mu.Lock()
			defer mu.Unlock()
			lookups = append(lookups, s.Name)
			return policy.Pod{}, cri.ErrUnknownPod
		}
		synced := make(chan struct{})
		a.settings.Synced = synced
		a.apply()
		handle := func(kind podfile.Kind, name string) {
			a.Handle(a.ctx, podfile.Event{Kind: kind, Path: a.path(), Sandbox: podfile.Sandbox{ID: name, Name: name, UID: name}})
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(lookups, want) {
				t.Errorf("looked up %v, want %v", lookups, want)
			}
		}
		handle(podfile.Running, "first")
		expect()
		handle(podfile.Started, "starts")
		expect("starts")
		time.Sleep(syncWait)
		synctest.Wait()
		expect("starts", "first")
		handle(podfile.Running, "second")
		close(synced)
		synctest.Wait()
		expect("starts", "first", "second")
		handle(podfile.Running, "third")
		expect("starts", "first", "second", "third")
	})
}

// TestApplier_Limit: a sandbox beyond the limit is ignored, and the others are not affected.
func TestApplier_Limit(t *testing.T) {
	a := newApplierTest(t)
	a.apply()
	for i := range maxSandboxes + 1 {
		s := a.sandbox
		s.ID = fmt.Sprint(i)
		a.Handle(a.ctx, podfile.Event{Kind: podfile.Started, Sandbox: s})
	}
	if n := len(a.list()); n != maxSandboxes {
		t.Errorf("%d sandboxes, want %d", n, maxSandboxes)
	}
	a.write(kubeletText)
	a.create(true) // the sandbox is one more
	if text, err := os.ReadFile(a.path()); err != nil || string(text) != kubeletText {
		t.Errorf("%v, the file of an ignored sandbox:\n%s", err, text)
	}
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Removed, Sandbox: podfile.Sandbox{ID: "0"}})
	a.running()
	a.want(cri.Late)
}

// TestApplier_LargePods creates the containers of two pods with many options. Their events return
// before the pods are decided, so that those of other pods are handled. The pods are decided one
// after the other.
func TestApplier_LargePods(t *testing.T) {
	a := newApplierTest(t)
	a.settings.Hook.Mode = cri.Force
	options := slices.Repeat([]policy.Option{{Name: "ndots", Value: "3"}}, 10_000)
	a.settings.Hook.Lookup = func(_ context.Context, s cri.Sandbox) (policy.Pod, error) {
		return policy.Pod{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Policy: policy.ClusterFirst,
			Config: &policy.DNSConfig{Options: options}}, nil
	}
	var deciding, overlaps atomic.Int32
	proceed := make(chan struct{})
	a.settings.Hook.HostFiles = func() cri.HostFiles {
		defer deciding.Add(-1)
		if deciding.Add(1) > 1 {
			overlaps.Add(1)
			return cri.HostFiles{}
		}
		<-proceed
		return cri.HostFiles{}
	}
	first, second := a.sandbox, a.sandbox
	second.ID, second.Name, second.UID = "5e20", "api", "u2"
	paths := map[string]string{}
	for _, s := range []podfile.Sandbox{first, second} {
		a.sandbox = s
		a.write(kubeletText)
		a.start()
		paths[s.ID] = a.path()
	}
	create := func(s podfile.Sandbox) {
		a.Handle(a.ctx, podfile.Event{Kind: podfile.Creating, Sandbox: s, Path: paths[s.ID], First: true})
	}
	handled := make(chan struct{})
	go func() {
		create(first)
		create(second)
		create(first) // another container
		close(handled)
	}()
	select {
	case <-handled:
	case <-time.After(time.Minute):
		t.Error("an event waits until the pod is decided")
	}
	close(proceed)
	<-handled
	a.Wait()
	if n := overlaps.Load(); n > 0 {
		t.Errorf("%d decisions began during another one", n)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err != nil || podfile.OriginOf(text) != podfile.Written {
			t.Errorf("%v, the file was not written:\n%s", err, text)
		}
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// TestRefresh_Obstructed replaces a file by something else, or keeps it from being opened.
// The refresh fails at once, the pod has the reason, and no other file changes. The file follows when
// the obstacle is gone.
func TestRefresh_Obstructed(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	var leased *os.File
	for name, obstruct := range map[string]func(path string) error{
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		"a link":      func(path string) error { return errors.Join(os.Remove(path), os.Symlink(other, path)) },
		"a second name": func(path string) error {
			return errors.Join(os.Remove(path), os.Link(other, path))
		},
		"a FIFO":      func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o644)) },
		"a huge file": func(path string) error { return os.Truncate(path, 1<<30) },
		"a lease": func(path string) (err error) { // open(2) would wait for 45 seconds
			if leased, err = os.Open(path); err != nil {
				return err
			}
			_, err = unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(other, []byte(hostText), 0o644); err != nil {
				t.Fatal(err)
			}
			a := newRefreshTest(t, policy.Default, hostText, nil)
			if err := obstruct(a.path()); err != nil {
				t.Fatal(err)
			}
			a.host = resolvconf.Parse(otherHost)
			if got := a.refreshNow(causeHost); got != Failed {
				t.Errorf("got %s, want %s", got, Failed)
			}
			if p := a.Pods()[0]; p.Drift != string(Unreadable) || p.Error == "" {
				t.Errorf("%+v", p)
			}
			if text, err := os.ReadFile(other); err != nil || string(text) != hostText {
				t.Errorf("%v, the other file has %q", err, text)
			}
			if leased != nil {
				leased.Close()
				leased = nil
			}
			if err := os.RemoveAll(a.path()); err != nil {
				t.Fatal(err)
			}
			if got := a.refreshNow(causeVerify); got != Refreshed {
				t.Errorf("without the obstacle: %s, want %s", got, Refreshed)
			}
			if p := a.Pods()[0]; p.Drift != "" || !resolvconf.Parse(p.Actual).Config().Equal(a.host.Config()) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestRefresh_Blocked: while the refresh of a file waits, as on a frozen file system, the metrics and
// the command status do not.
func TestRefresh_Blocked(t *testing.T) {
	a := newRefreshTest(t, policy.Default, hostText, nil)
	registry := prometheus.NewRegistry()
	a.RegisterDrift(registry)
	proceed, refreshed := a.blockRefresh()
	reported := make(chan error)
	go func() {
		_, err := registry.Gather()
		a.Status()
		reported <- err
	}()
	select {
	case err := <-reported:
		if err != nil {
			t.Error(err)
		}
		close(proceed)
	case <-time.After(time.Minute):
		t.Error("metrics and status wait for a file")
		close(proceed)
		<-reported
	}
	if got := <-refreshed; got != UpToDate {
		t.Errorf("got %s, want %s", got, UpToDate)
	}
}

// TestReset_Busy: while the file of a pod is written, as on a file system that hangs, a relay that
// connects again does not wait for it. The pod stays, and is written.
func TestReset_Busy(t *testing.T) {
	a := newRefreshTest(t, policy.Default, hostText, nil)
	a.host = resolvconf.Parse(otherHost)
	a.facts.confirm(nodeFacts)
	proceed, refreshed := a.blockRefresh()
	handled := make(chan bool)
	go func() {
		a.Handle(a.ctx, podfile.Event{Kind: podfile.Reset})
		close(handled)
	}()
	select {
	case <-handled:
	case <-time.After(time.Minute):
		t.Error("the relay waits for a file")
	}
	close(proceed)
	if got := <-refreshed; got != Refreshed {
		t.Errorf("got %s", got)
	}
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Running, Sandbox: a.applierTest.sandbox, Path: a.path()})
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Synchronized})
	a.Wait()
	if n := len(a.list()); n != 1 || len(a.reports) != 0 {
		t.Errorf("%d sandboxes, %d more reports", n, len(a.reports))
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxdns

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/internal/sandboxevent"
	"github.com/dnsconfigurer/dnsconfigurer/internal/sandboxfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// oldPod returns an agent with a pod that is older than the last change of the host's file: the pod
// has not followed it. change changes the settings with which the pod was decided.
func oldPod(t *testing.T, change func(*applierTest)) *refreshTest {
	a := newRefreshTest(t, policy.Default, hostText, func(a *applierTest) {
		a.RecordsFile = filepath.Join(t.TempDir(), "agent.sock.sandboxes")
		a.settings.Refresh = ScopeOff
		if change != nil {
			change(a)
		}
	})
	a.host = resolvconf.Parse(otherHost)
	return a
}

// follow lets files follow changes from now on.
func (a *refreshTest) follow() {
	next := a.settings
	next.Refresh = ScopeAll
	a.settings = next
	a.SetSettings(&next)
}

// stop ends the agent as a process does: it writes its records.
func (a *refreshTest) stop() {
	a.Helper()
	ctx, cancel := context.WithCancel(a.ctx)
	cancel()
	if err := a.KeepRecords(ctx); err != nil {
		a.Fatal(err)
	}
}

// restart returns the next agent of the node, with refresh for all pods. Its relay has announced
// nothing yet.
func (a *refreshTest) restart() *refreshTest {
	a.Helper()
	a.stop()
	return a.startNext()
}

// startNext is restart for an agent that has ended.
func (a *refreshTest) startNext() *refreshTest {
	next := prepareRefreshTest(a.T, policy.Default, func(next *applierTest) {
		next.directory, next.RecordsFile = a.directory, a.RecordsFile
		next.settings.Directories = a.settings.Directories
	})
	next.host = a.host
	next.LoadRecords()
	next.SetSettings(&next.settings)
	return next
}

// nextReport returns the report about the pod, which was decided.
func (a *refreshTest) nextReport() cri.Report {
	a.Helper()
	select {
	case r := <-a.reports:
		return r
	default:
		a.Fatal("the pod was not decided, or its outcome is that of before")
		return cri.Report{}
	}
}

// savedRecords returns the content of the file of records.
func (a *refreshTest) savedRecords() map[string]record {
	a.Helper()
	records, err := readRecords(a.RecordsFile)
	if err != nil {
		a.Fatal(err)
	}
	return records
}

// newRecordsTest returns an agent without sandboxes that keeps records.
func newRecordsTest(t *testing.T) *refreshTest {
	a := &refreshTest{applierTest: newApplierTest(t)}
	a.RecordsFile = filepath.Join(t.TempDir(), "agent.sock.sandboxes")
	return a
}

// logTo lets the agent write a log that the test reads.
func (a *refreshTest) logTo() *logbuffer.Buffer {
	log := new(logbuffer.Buffer)
	a.Log = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// wantIgnored checks that the file of records is ignored, and that the log names it.
func (a *refreshTest) wantIgnored() {
	a.Helper()
	log := a.logTo()
	a.LoadRecords()
	s := log.String()
	if len(a.recalled) != 0 || !strings.Contains(s, "records of sandboxes ignored") || !strings.Contains(s, a.RecordsFile) {
		a.Errorf("records %v, log\n%s", a.recalled, s)
	}
}

// announce announces the pod as a relay does that connects.
func (a *refreshTest) announce() {
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Reset})
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Running, Sandbox: a.applierTest.sandbox, Path: a.path()})
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Synchronized})
	a.Wait()
}

// wantFollows checks that the file of the pod follows the host's file.
func (a *refreshTest) wantFollows() {
	a.Helper()
	if got := a.refreshNow(causeHost); got != events.Refreshed {
		a.Errorf("the file does not follow: %q, outcome %q", got, a.sandboxes[a.applierTest.sandbox.ID].reported)
	}
	if got := resolvconf.Parse(string(a.read())).Config(); !got.Equal(a.host.Config()) {
		a.Errorf("the file has\n%s", a.read())
	}
}

// TestRecords_Reset: a pod that is older than the last change of the host's file follows later changes
// after the relay has connected again, and is neither decided nor reported a second time.
func TestRecords_Reset(t *testing.T) {
	a := oldPod(t, nil)
	for range 2 {
		a.announce()
	}
	decisions := testutil.ToFloat64(a.Metrics.outcomes.WithLabelValues(string(cri.Unchanged)))
	if n := len(a.reports); n != 0 || decisions != 1 {
		t.Errorf("%d more reports, %v decisions are counted", n, decisions)
	}
	a.follow()
	a.wantFollows()
}

// TestRecords_ResetPending: a change that the file waits for is not lost when the relay connects again.
func TestRecords_ResetPending(t *testing.T) {
	a := oldPod(t, nil)
	a.follow()
	a.HostChanged()
	a.announce()
	id, c, ok := a.queue.pop()
	if !ok || id != a.applierTest.sandbox.ID {
		t.Fatalf("the file waits for nothing: %q", id)
	}
	if got := a.refreshNow(c); got != events.Refreshed {
		t.Errorf("the file does not follow: %q", got)
	}
}

// TestRecords_ResetGone: sandboxes that the runtime does not announce any more are forgotten when it
// has announced all, and not before.
func TestRecords_ResetGone(t *testing.T) {
	a := oldPod(t, nil)
	reset := func(kinds ...sandboxevent.Kind) {
		for _, k := range append([]sandboxevent.Kind{sandboxevent.Reset}, kinds...) {
			a.Handle(a.ctx, sandboxevent.Event{Kind: k})
		}
	}
	reset() // the relay has no connection to the runtime
	reset()
	if n := len(a.Pods()); n != 1 {
		t.Errorf("%d pods before the runtime has announced its sandboxes", n)
	}
	reset(sandboxevent.Synchronized)
	if n := len(a.Pods()); n != 0 || len(a.records()) != 0 {
		t.Errorf("%d pods, records %v", n, a.records())
	}
}

// TestRecords_ResetBusy: while the file of a pod is written, as on a file system that hangs, a relay that
// connects again and the records of other pods do not wait for it. The pod stays, and is written.
func TestRecords_ResetBusy(t *testing.T) {
	a := oldPod(t, nil)
	a.follow()
	a.facts.confirm(nodeFacts)
	proceed, refreshed := a.blockRefresh()
	handled := make(chan int)
	go func() {
		a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Reset})
		handled <- len(a.records())
	}()
	records := 0
	select {
	case records = <-handled:
		close(proceed)
	case <-time.After(time.Minute):
		t.Error("the relay and the records wait for a file")
		close(proceed)
		records = <-handled
	}
	if got := <-refreshed; got != events.Refreshed || records != 1 {
		t.Errorf("got %s, %d records", got, records)
	}
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Running, Sandbox: a.applierTest.sandbox, Path: a.path()})
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Synchronized})
	a.Wait()
	if n := len(a.list()); n != 1 || len(a.reports) != 0 {
		t.Errorf("%d sandboxes, %d more reports", n, len(a.reports))
	}
}

// TestRecords_ResetLimit: sandboxes that are not announced again make room for others, also with a relay
// that does not say when it has announced all.
func TestRecords_ResetLimit(t *testing.T) {
	a := oldPod(t, nil)
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Reset})
	for i := range maxSandboxes {
		other := sandboxevent.Sandbox{ID: fmt.Sprint(i), UID: fmt.Sprint(i)}
		a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Started, Sandbox: other})
	}
	if n := len(a.list()); n != maxSandboxes || a.sandboxes[a.applierTest.sandbox.ID] != nil {
		t.Errorf("%d sandboxes", n)
	}
}

// TestRecords_ResetUndecided: a pod whose file does not follow changes is decided again when the relay
// connects again, and its outcome is reported only if it differs.
func TestRecords_ResetUndecided(t *testing.T) {
	a := oldPod(t, func(a *applierTest) { a.settings.Hook.Lookup = failedLookup(cri.ErrUnknownPod) })
	a.announce()
	if n := len(a.reports); n != 0 {
		t.Errorf("the same outcome was reported %d times", n+1)
	}
	a.host = resolvconf.Parse(hostText)
	a.settings.Hook.Lookup = fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u", Policy: policy.Default})
	a.announce()
	if r := a.nextReport(); r.Outcome != cri.Unchanged {
		t.Errorf("%+v", r)
	}
}

// TestRecords_Reused: a sandbox ID that another pod has now is another sandbox.
func TestRecords_Reused(t *testing.T) {
	for name, restart := range map[string]func(*refreshTest) *refreshTest{
		"reset":   func(a *refreshTest) *refreshTest { return a },
		"restart": (*refreshTest).restart,
	} {
		t.Run(name, func(t *testing.T) {
			a := restart(oldPod(t, nil))
			a.applierTest.sandbox.UID = "v"
			a.announce()
			if r := a.nextReport(); r.Outcome != cri.Unverified || r.Sandbox.UID != "v" {
				t.Errorf("%+v", r)
			}
			a.follow()
			if got := a.refreshNow(causeHost); got != "" || string(a.read()) != hostText {
				t.Errorf("%q, and the file has\n%s", got, a.read())
			}
		})
	}
}

// TestRecords_Restart: a pod that is older than the last change of the host's file follows changes
// after a restart of the agent, if its file still has the text that the earlier agent has seen. Like
// all files it waits until a pod has confirmed the node facts.
func TestRecords_Restart(t *testing.T) {
	for name, c := range map[string]struct {
		down func(*refreshTest) // what happens while no agent runs
		want cri.Outcome
	}{
		"unchanged":           {func(*refreshTest) {}, cri.Unchanged},
		"another host change": {func(a *refreshTest) { a.host = resolvconf.Parse("nameserver 192.0.2.77\n") }, cri.Unchanged},
		"changed by the pod":  {func(a *refreshTest) { a.write(ownText) }, cri.Unverified},
		"one more byte":       {func(a *refreshTest) { a.write(hostText + "\n") }, cri.Unverified},
		"emptied by the pod":  {func(a *refreshTest) { a.write("") }, cri.Unverified},
		"another's link": {func(a *refreshTest) {
			if err := errors.Join(os.Rename(a.path(), a.path()+".old"), os.Symlink(a.path()+".old", a.path())); err != nil {
				a.Fatal(err)
			}
		}, cri.WriteFailed},
		"no records": {func(a *refreshTest) {
			if err := os.Remove(a.RecordsFile); err != nil {
				a.Fatal(err)
			}
		}, cri.Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			a := oldPod(t, nil)
			a.stop()
			c.down(a)
			before := a.read()
			next := a.startNext()
			next.announce()
			if r := next.nextReport(); r.Outcome != c.want {
				t.Errorf("%+v", r)
			}
			want := events.RefreshResult("")
			if c.want == cri.Unchanged {
				want = events.Unconfirmed
			}
			if got := next.refreshNow(causeHost); got != want || string(a.read()) != string(before) {
				t.Errorf("got %q, want %q, and the file has\n%s", got, want, a.read())
			}
			next.facts.confirm(nodeFacts)
			if c.want == cri.Unchanged {
				next.wantFollows()
				if original, ok := sandboxfile.Original(next.read()); !ok || string(original) != hostText {
					t.Errorf("the original is %q", original)
				}
			} else if got := next.refreshNow(causeCommand); got != "" || string(a.read()) != string(before) {
				t.Errorf("a command: %q, and the file has\n%s", got, a.read())
			}
		})
	}
}

// TestRecords_Restarts: what is known about a file is kept over several restarts.
func TestRecords_Restarts(t *testing.T) {
	a := oldPod(t, nil)
	for range 3 {
		a = a.restart()
		a.announce()
	}
	a.facts.confirm(nodeFacts)
	a.wantFollows()
	a.stop()
	if r := a.savedRecords()[a.applierTest.sandbox.ID]; r.state != textReplaced || !r.seen {
		t.Errorf("a file that was replaced has the record %+v", r)
	}
}

// TestRecords_NotAnnounced: records of sandboxes that were not announced yet are kept, and dropped
// when the runtime has announced all.
func TestRecords_NotAnnounced(t *testing.T) {
	a := oldPod(t, nil).restart().restart()
	if n := len(a.savedRecords()); n != 1 {
		t.Errorf("%d records are kept by an agent without a relay", n)
	}
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Reset})
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Synchronized})
	if a.stop(); len(a.savedRecords()) != 0 {
		t.Errorf("records of sandboxes that are gone: %v", a.savedRecords())
	}
}

// TestRecords_Removed: the record of a sandbox is dropped with it.
func TestRecords_Removed(t *testing.T) {
	a := oldPod(t, nil)
	if a.stop(); len(a.savedRecords()) != 1 {
		t.Errorf("records %v", a.savedRecords())
	}
	a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Removed, Sandbox: sandboxevent.Sandbox{ID: a.applierTest.sandbox.ID}})
	if a.stop(); len(a.savedRecords()) != 0 {
		t.Errorf("records %v", a.savedRecords())
	}
}

// TestRecords_Unfinished: a pod that was not found before the restart keeps what is known about its
// file. In mode Force the file that the agent saw before the first container is replaced.
func TestRecords_Unfinished(t *testing.T) {
	for name, c := range map[string]struct {
		text string // when the pod is found
		want cri.Outcome
	}{
		"unchanged": {ownText, cri.Late},
		"changed":   {"nameserver 203.0.113.67\n", cri.Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			a := prepareRefreshTest(t, policy.Default, func(a *applierTest) {
				a.RecordsFile = filepath.Join(t.TempDir(), "agent.sock.sandboxes")
				a.settings.Hook.Lookup = func(ctx context.Context, _ cri.Sandbox) (policy.Pod, error) {
					<-ctx.Done()
					return policy.Pod{}, ctx.Err()
				}
			})
			a.write(ownText)
			a.SetSettings(&a.settings)
			a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Started, Sandbox: a.applierTest.sandbox})
			a.create(true)
			a.write(c.text)
			next := a.restart()
			next.settings.Hook.Mode = cri.Force
			observed := 0
			next.settings.Observed = func(policy.Pod, resolvconf.Config) { observed++ }
			next.announce()
			if r := next.nextReport(); r.Outcome != c.want {
				t.Errorf("%+v", r)
			}
			if observed > 0 {
				t.Error("the file of an old pod shows node facts")
			}
		})
	}
}

// TestRecords_Due: a decision that was not written in mode Observe is written when the agent writes
// files, although the host's file has changed since, and with refresh Off, too. After a restart a pod
// must have confirmed the node facts.
func TestRecords_Due(t *testing.T) {
	overridden := func(a *applierTest) {
		a.RecordsFile = filepath.Join(t.TempDir(), "agent.sock.sandboxes")
		a.settings.Hook.Mode, a.settings.Refresh = cri.Observe, ScopeOff
		a.settings.Hook.Lookup = fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u",
			Policy: policy.ClusterFirst, Override: policy.Default})
	}
	generate := func(a *refreshTest, lookup func(context.Context, cri.Sandbox) (policy.Pod, error)) {
		next := a.settings
		next.Refresh = ScopeOff
		next.Hook = &cri.Hook{Engine: a.settings.Hook.Engine, Mode: cri.Generate, HostFiles: a.settings.Hook.HostFiles,
			Lookup: lookup, Report: a.settings.Hook.Report}
		a.SetSettings(&next)
	}
	wantLate := func(a *refreshTest) {
		t.Helper()
		if r := a.nextReport(); r.Outcome != cri.Late || !resolvconf.Parse(string(a.read())).Config().Equal(a.host.Config()) {
			t.Errorf("%+v, and the file has\n%s", r, a.read())
		}
	}
	t.Run("reload", func(t *testing.T) {
		a := newRefreshTest(t, policy.ClusterFirst, clusterText, overridden)
		a.host = resolvconf.Parse(otherHost)
		if a.refreshNow(causeHost); len(a.reports) != 0 {
			t.Errorf("the change is reported: %+v", <-a.reports)
		}
		generate(a, a.settings.Hook.Lookup)
		a.refreshNow(causeSettings)
		wantLate(a)
	})
	t.Run("restart", func(t *testing.T) {
		a := newRefreshTest(t, policy.ClusterFirst, clusterText, overridden)
		a.host = resolvconf.Parse(otherHost)
		next := a.restart()
		generate(next, a.settings.Hook.Lookup)
		next.announce()
		if r := next.nextReport(); r.Outcome != cri.Observed || r.Detail != unconfirmed || string(a.read()) != clusterText {
			t.Errorf("%+v, and the file has\n%s", r, a.read())
		}
		if !next.facts.confirm(nodeFacts) {
			t.Error("the file does not wait for a confirmation")
		}
		next.refreshNow(causeHost)
		wantLate(next)
	})
	t.Run("loopback", func(t *testing.T) {
		a := newRefreshTest(t, policy.ClusterFirst, clusterText, overridden)
		a.host = resolvconf.Parse("nameserver 127.0.0.53\n")
		next := a.restart()
		next.facts.confirm(nodeFacts)
		generate(next, a.settings.Hook.Lookup)
		next.announce()
		if r := next.nextReport(); r.Outcome != cri.Observed || r.Detail != unreachable || string(a.read()) != clusterText {
			t.Errorf("%+v, and the file has\n%s", r, a.read())
		}
	})
}

// TestRecords_FailedForce: a text that only mode Force replaces, in which a write has failed, is not replaced
// in mode Generate: it was not compared with what the kubelet computes.
func TestRecords_FailedForce(t *testing.T) {
	a := prepareRefreshTest(t, policy.Default, func(a *applierTest) { a.settings.Hook.Mode = cri.Force })
	a.write(ownText)
	host := a.settings.Hook.HostFiles
	a.settings.Hook.HostFiles = func() cri.HostFiles { // between the read and the write of the file
		a.write(ownText + "# changed\n")
		return host()
	}
	a.start()
	a.create(true)
	if r := a.nextReport(); r.Outcome != cri.PodChanged {
		t.Fatalf("%+v", r)
	}
	a.write(ownText)
	a.facts.confirm(nodeFacts)
	next := a.settings
	next.Hook = &cri.Hook{Engine: a.settings.Hook.Engine, Mode: cri.Generate, HostFiles: host,
		Lookup: a.settings.Hook.Lookup, Report: a.settings.Hook.Report}
	a.SetSettings(&next)
	a.refreshNow(causeSettings)
	if r := a.nextReport(); r.Outcome != cri.FactsMismatch || string(a.read()) != ownText {
		t.Errorf("%+v, and the file has\n%s", r, a.read())
	}
}

// TestRecords_Restored: a file that was never written is not written after the command restore, whatever
// happens, until the command refresh.
func TestRecords_Restored(t *testing.T) {
	overridden := fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u", Policy: policy.ClusterFirst, Override: policy.Default})
	a := prepareRefreshTest(t, policy.ClusterFirst, func(a *applierTest) {
		a.RecordsFile = filepath.Join(t.TempDir(), "agent.sock.sandboxes")
		a.settings.Hook.Lookup = overridden
	})
	a.host = resolvconf.Parse(otherHost)
	a.write(clusterText)
	a.start()
	a.create(true)
	if r := a.nextReport(); r.Outcome != cri.FactsMismatch {
		t.Fatalf("%+v", r)
	}
	if results, err := a.RestorePods(t.Context(), "shop", "web"); err != nil || len(results) != 1 || results[0].Result != "restored" {
		t.Fatalf("%+v, %v", results, err)
	}
	a.host = resolvconf.Parse(hostText) // the node facts are those of the kubelet now
	wantKept := func(a *refreshTest) {
		t.Helper()
		for c := causeVerify; c <= causeAll; c++ {
			a.refreshNow(c)
		}
		if r := a.nextReport(); r.Outcome != cri.Restored || string(a.read()) != clusterText || !a.Pods()[0].Restored {
			t.Errorf("%+v, and the file has\n%s", r, a.read())
		}
	}
	wantKept(a)
	a.announce()
	next := a.restart()
	next.settings.Hook.Lookup = overridden
	next.announce()
	wantKept(next)
	next.refreshNow(causeCommand)
	if r := next.nextReport(); r.Outcome != cri.Late || next.Pods()[0].Restored {
		t.Errorf("%+v", r)
	}
}

// TestRecords_OfShim: a file with an earlier decision, which a shim has sent to the runtime, follows
// changes, too. The kubelet's text is not known.
func TestRecords_OfShim(t *testing.T) {
	lookup := fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u", Policy: policy.ClusterFirst, Override: policy.Default})
	a := oldPod(t, func(a *applierTest) { a.settings.Hook.Lookup = lookup })
	next := a.restart()
	next.settings.Hook.Lookup = lookup
	next.announce()
	if r := next.nextReport(); r.Outcome != cri.Unchanged {
		t.Fatalf("%+v", r)
	}
	next.facts.confirm(nodeFacts)
	next.wantFollows()
	if original, ok := sandboxfile.Original(next.read()); !ok || string(original) == hostText {
		t.Errorf("the original is %q", original)
	}
}

// TestRecords_Invalid: a file of records that is damaged, of another program or of a later version has
// no records. The log names it, and the next records replace it.
func TestRecords_Invalid(t *testing.T) {
	valid := string(formatRecords(map[string]record{"5e1f": {uid: "u", state: textComputed}}))
	head, line, _ := strings.Cut(valid, "\n")
	replaced := func(old, text string) string { return strings.Replace(valid, old, text, 1) }
	for name, text := range map[string]string{
		"empty":            "",
		"binary":           "\x00\xff\x00",
		"cut":              valid[:len(valid)-10],
		"without a header": line,
		"another kind":     replaced(recordsKind, "AgentConfiguration"),
		"later version":    replaced(`"version":1`, `"version":2`),
		"unknown state":    replaced(string(textComputed), "verified"),
		"short digest":     replaced("0000", ""),
		"no digest":        replaced("0000", "zzzz"),
		"without an ID":    replaced("5e1f", ""),
		"long ID":          replaced("5e1f", strings.Repeat("x", maxRecordName+1)),
		"long line":        valid + strings.Repeat(" ", maxRecordLine) + line,
		"long file":        valid + strings.Repeat("\n", maxRecordsFile),
		"another type":     valid + "[]\n",
		"nested":           valid + strings.Repeat("[", maxRecordLine/2) + "\n",
		"too many":         head + "\n" + manyLines(line, maxSandboxes+1),
	} {
		t.Run(name, func(t *testing.T) {
			a := newRecordsTest(t)
			if err := os.WriteFile(a.RecordsFile, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			a.wantIgnored()
			if a.stop(); len(a.savedRecords()) != 0 {
				t.Errorf("the next records are %v", a.savedRecords())
			}
			if info, err := os.Stat(a.RecordsFile); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

// manyLines returns n copies of line with different IDs.
func manyLines(line string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Replace(line, "5e1f", fmt.Sprint(i), 1))
	}
	return b.String()
}

// TestRecords_Link: a file of records that is a link is neither read nor written through.
func TestRecords_Link(t *testing.T) {
	a := newRecordsTest(t)
	valid := formatRecords(map[string]record{"5e1f": {uid: "u", state: textComputed}})
	target := a.RecordsFile + ".target"
	if err := errors.Join(os.WriteFile(target, valid, 0o600), os.Symlink(target, a.RecordsFile)); err != nil {
		t.Fatal(err)
	}
	a.wantIgnored()
	a.stop()
	if text, err := os.ReadFile(target); err != nil || string(text) != string(valid) {
		t.Errorf("%v, the target:\n%s", err, text)
	}
	if info, err := os.Lstat(a.RecordsFile); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
}

// TestRecords_Bounded: the file of as many records as there may be can be read again. Records with
// names that no sandbox has are left out.
func TestRecords_Bounded(t *testing.T) {
	records := map[string]record{}
	add := func(n, length int) {
		for i := range n {
			name := fmt.Sprintf("%0*d", length, i)
			records[name] = record{uid: name, state: textComputed}
		}
	}
	add(maxSandboxes, 64)
	read, err := parseRecords(strings.NewReader(string(formatRecords(records))))
	if err != nil || !maps.Equal(read, records) {
		t.Errorf("%d records, %v", len(read), err)
	}
	add(maxSandboxes, maxRecordName)
	records[strings.Repeat("x", maxRecordName+1)] = record{state: textComputed}
	records["long"] = record{state: textComputed, uid: strings.Repeat("x", maxRecordName+1)}
	records["nothing is known"] = record{uid: "u"}
	text := formatRecords(records)
	if read, err = parseRecords(strings.NewReader(string(text))); err != nil || len(read) == 0 || len(text) > maxRecordsFile {
		t.Errorf("%d bytes, %d records, %v", len(text), len(read), err)
	}
}

// keepRecords runs KeepRecords with a record until stop is called. directory, in which it writes, does
// not exist.
func (a *refreshTest) keepRecords() (directory string, stop func()) {
	a.Helper()
	a.recall("5e1f", record{uid: "u", state: textDue})
	directory = filepath.Dir(a.RecordsFile)
	if err := os.Remove(directory); err != nil {
		a.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.KeepRecords(ctx) }()
	return directory, func() {
		cancel()
		if err := <-ended; err != nil {
			a.Error(err)
		}
	}
}

// TestRecords_Retry: a write that fails is tried again without another change, and logged once.
func TestRecords_Retry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRecordsTest(t)
		log := a.logTo()
		directory, stop := a.keepRecords()
		a.recordsChanged()
		time.Sleep(4 * recordsRetry)
		synctest.Wait()
		if n := strings.Count(log.String(), "records of sandboxes not written"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log)
		}
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(recordsRetry + recordsInterval)
		synctest.Wait()
		if _, err := os.Stat(a.RecordsFile); err != nil {
			t.Errorf("not written again: %v", err)
		}
		stop()
	})
}

// TestRecords_Leftover: the temporary file of an agent that was killed during a write is removed.
func TestRecords_Leftover(t *testing.T) {
	a := newRecordsTest(t)
	directory, name := filepath.Split(a.RecordsFile)
	if err := os.WriteFile(filepath.Join(directory, "."+name+".1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.LoadRecords()
	if entries, err := os.ReadDir(directory); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestRecords_Write: many changes are few writes, and a write that fails is tried again at the next
// change, and logged once.
func TestRecords_Write(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRecordsTest(t)
		log := a.logTo()
		directory, stop := a.keepRecords()
		change := func() {
			a.recordsChanged()
			synctest.Wait()
		}
		change()
		time.Sleep(recordsInterval)
		change()
		if n := strings.Count(log.String(), "records of sandboxes not written"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log)
		}
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		change() // within the interval
		if _, err := os.Stat(a.RecordsFile); err == nil {
			t.Error("written at once")
		}
		time.Sleep(recordsInterval)
		synctest.Wait()
		if n := len(a.savedRecords()); n != 1 {
			t.Errorf("%d records", n)
		}
		a.mu.Lock()
		a.recalled = nil
		a.mu.Unlock()
		if stop(); len(a.savedRecords()) != 0 {
			t.Errorf("records after the end: %v", a.savedRecords())
		}
	})
}

func FuzzParseRecords(f *testing.F) {
	f.Add(string(formatRecords(map[string]record{"5e1f": {uid: "u", state: textComputed}, "a": {state: textAtStart}})))
	f.Add(`{"kind":"SandboxRecords","version":1}` + "\n{}\n")
	f.Fuzz(func(t *testing.T, text string) {
		records, err := parseRecords(strings.NewReader(text))
		if err != nil && len(records) > 0 || len(records) > maxSandboxes {
			t.Fatalf("%d records, %v", len(records), err)
		}
		if err != nil {
			return
		}
		again, err := parseRecords(strings.NewReader(string(formatRecords(records))))
		if err != nil || !maps.Equal(again, records) {
			t.Errorf("%v, %v: %v, %v", records, again, err, text)
		}
	})
}

// TestRecords_Confirm: after a restart, the text of the runtime that a pod's file records confirms the node
// facts only if an agent saw it before the pod's first container. The pod can write such comments itself,
// with a digest that is right, and a text that agrees with wrong facts.
func TestRecords_Confirm(t *testing.T) {
	wrong := func(text string) string { return strings.ReplaceAll(text, "10.96.0.10", "203.0.113.9") }
	for name, c := range map[string]struct {
		change func(*refreshTest) // of the file, before the next agent starts
		want   bool
	}{
		"as it was written":    {func(*refreshTest) {}, true},
		"as a runtime made it": {func(a *refreshTest) { a.writeAsRuntime(clusterText) }, true},
		"forged comments": {func(a *refreshTest) {
			forged := &refreshTest{applierTest: newApplierTest(t)}
			forged.write(wrong(clusterText))
			f, err := sandboxfile.Open([]string{forged.directory}, forged.applierTest.sandbox.ID, forged.path())
			if err == nil {
				err = f.Replace([]byte(wrong(clusterText)), "nameserver 203.0.113.9\n", []byte(wrong(clusterText)))
			}
			if err != nil {
				t.Fatal(err)
			}
			a.write(string(forged.read()))
		}, false},
		"the text that wrong facts give": {func(a *refreshTest) { a.write(wrong(clusterText)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newRefreshTest(t, policy.ClusterFirst, clusterText, func(a *applierTest) {
				a.RecordsFile = filepath.Join(t.TempDir(), "agent.sock.sandboxes")
				a.settings.Hook.Mode = cri.Generate
				a.settings.Hook.Lookup = overridden
			})
			if sandboxfile.OriginOf(a.read()) != sandboxfile.Written {
				t.Fatalf("not written:\n%s", a.read())
			}
			a.stop()
			time.Sleep(30 * time.Millisecond) // a later write is not the runtime's
			c.change(a)
			server := "203.0.113.9"
			if c.want {
				server = "10.96.0.10"
			}
			engine, err := policy.New(policy.Node{ClusterDNS: []netip.Addr{netip.MustParseAddr(server)}, ClusterDomain: "cluster.local",
				ResolvConf: "/etc/resolv.conf", AllowedOverrides: []policy.Policy{policy.Default}})
			if err != nil {
				t.Fatal(err)
			}
			next := a.startNext()
			next.settings.Hook.Lookup, next.settings.Hook.Engine = overridden, engine
			next.announce()
			if got := next.facts.covers(1 << policy.FromClusterDNS); got != c.want {
				t.Errorf("the facts are confirmed: %t, want %t", got, c.want)
			}
		})
	}
}

// writeAsRuntime replaces the sandbox's file as a runtime creates it, without a pause before the text.
func (a *refreshTest) writeAsRuntime(text string) {
	a.Helper()
	for range 100 {
		if err := os.Remove(a.path()); err != nil {
			a.Fatal(err)
		}
		a.write(text)
		f, err := sandboxfile.Open([]string{a.directory}, a.applierTest.sandbox.ID, a.path())
		if err != nil {
			a.Fatal(err)
		}
		defer f.Close()
		if f.IsAsCreated() {
			return
		}
	}
	a.Fatal("a pause before each of 100 texts")
}

// overridden returns a pod of the cluster's DNS that an annotation gives the host's.
func overridden(_ context.Context, s cri.Sandbox) (policy.Pod, error) {
	return policy.Pod{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Policy: policy.ClusterFirst, Override: policy.Default}, nil
}

// TestRecords_ChangedByPods: pods that replace their whole file raise no alert about the node facts when the
// agent restarts. A new pod whose file differs does.
func TestRecords_ChangedByPods(t *testing.T) {
	a := newRecordsTest(t)
	a.SetSettings(&a.settings)
	for i := range 10 {
		a.sandbox = sandboxevent.Sandbox{ID: fmt.Sprint("pod", i), Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u", i)}
		a.write(kubeletText)
		a.Handle(a.ctx, sandboxevent.Event{Kind: sandboxevent.Started, Sandbox: a.sandbox})
		a.create(true)
		<-a.reports
		a.write("nameserver 203.0.113.9\n")
	}
	a.stop()
	next := a.startNext()
	for i := range 10 {
		next.applierTest.sandbox = sandboxevent.Sandbox{ID: fmt.Sprint("pod", i), Namespace: "shop", Name: fmt.Sprint("web-", i),
			UID: fmt.Sprint("u", i)}
		next.running()
		if r := <-next.reports; r.Outcome != cri.Unverified {
			t.Errorf("%+v", r)
		}
	}
	next.applierTest.sandbox = sandboxevent.Sandbox{ID: "new", Namespace: "shop", Name: "new", UID: "n"}
	next.write(ownText)
	next.Handle(next.ctx, sandboxevent.Event{Kind: sandboxevent.Started, Sandbox: next.applierTest.sandbox})
	next.Wait()
	next.create(true)
	if r := <-next.reports; r.Outcome != cri.FactsMismatch {
		t.Errorf("%+v", r)
	}
}

// TestApplier_Repairs: a file whose write was not finished, and one in the layout of an earlier release, are
// rewritten at the start of the agent, whatever is refreshed.
func TestApplier_Repairs(t *testing.T) {
	for name, text := range map[string]string{
		"unfinished": "#ameserver 10.96.0.10\noptions ndots:5\n# dnsconfigurer: changing\n",
		"earlier layout": withDigest("nameserver 10.96.0.10" + strings.Repeat(" ", 42) + "\noptions ndots:2\n" +
			"# before: nameserver 10.96.0.10\n"),
	} {
		t.Run(name, func(t *testing.T) {
			a := prepareRefreshTest(t, policy.ClusterFirst, func(a *applierTest) { a.settings.Refresh = ScopeOff })
			a.write(text)
			a.running()
			if r := <-a.reports; r.Outcome != cri.Unchanged {
				t.Errorf("%+v", r)
			}
			got := a.read()
			dns := resolvconf.Parse(string(got)).Config()
			if sandboxfile.OriginOf(got) != sandboxfile.Written || sandboxfile.HasBlanks(got) || len(dns.Nameservers) != 1 ||
				dns.Nameservers[0] != "10.96.0.10" {
				t.Errorf("the file has\n%s", got)
			}
		})
	}
}

// withDigest appends the line that shows that text was written by the agent.
func withDigest(text string) string {
	return fmt.Sprintf("%s# dnsconfigurer: sha256 %x\n", text, sha256.Sum256([]byte(text)))
}

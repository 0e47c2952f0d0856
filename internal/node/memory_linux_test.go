// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// oldPod returns an agent with a pod that is older than the last change of the host's file: the pod
// has not followed it. change changes the settings with which the pod was decided.
func oldPod(t *testing.T, change func(*applierTest)) *refreshTest {
	a := newRefreshTest(t, policy.Default, hostText, func(a *applierTest) {
		a.settings.Refresh = ScopeOff
		if change != nil {
			change(a)
		}
	})
	a.host = resolvconf.Parse(otherHost)
	return a
}

// follow lets files follow changes from now on.
func (a *refreshTest) follow() { a.reconfigure(func(s *Settings) { s.Refresh = ScopeAll }) }

// restart returns the next agent of the node, with refresh for all pods. Its relay has announced
// nothing yet.
func (a *refreshTest) restart() *refreshTest {
	a.Helper()
	next := prepareRefreshTest(a.T, policy.Default, func(next *applierTest) {
		next.directory = a.directory
		next.settings.Directories = a.settings.Directories
	})
	next.host = a.host
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

// announce announces the pod as a relay does that connects.
func (a *refreshTest) announce() {
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Reset})
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Running, Sandbox: a.applierTest.sandbox, Path: a.path()})
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Synchronized})
	a.Wait()
}

// wantFollows checks that the file of the pod follows the host's file.
func (a *refreshTest) wantFollows() {
	a.Helper()
	if got := a.refreshNow(causeHost); got != Refreshed {
		a.Errorf("the file does not follow: %q, outcome %q", got, a.sandboxes[a.applierTest.sandbox.ID].reported)
	}
	if got := resolvconf.Parse(string(a.read())).Config(); !got.Equal(a.host.Config()) {
		a.Errorf("the file has\n%s", a.read())
	}
}

// TestMemory_Reset: a pod that is older than the last change of the host's file follows later changes
// after the relay has connected again, and is neither decided nor reported a second time. A change that the
// file waits for meanwhile is not lost.
func TestMemory_Reset(t *testing.T) {
	a := oldPod(t, nil)
	for range 2 {
		a.announce()
	}
	decisions := testutil.ToFloat64(a.Metrics.outcomes.WithLabelValues(string(cri.Unchanged)))
	if n := len(a.reports); n != 0 || decisions != 1 {
		t.Errorf("%d more reports, %v decisions are counted", n, decisions)
	}
	a.follow()
	a.HostChanged()
	a.announce()
	if id, _, _, ok := a.queue.pop(); !ok || id != a.applierTest.sandbox.ID {
		t.Errorf("the file waits for nothing: %q", id)
	}
	a.wantFollows()
}

// TestMemory_ResetGone: sandboxes that the runtime does not announce any more are forgotten when it
// has announced all, and not before.
func TestMemory_ResetGone(t *testing.T) {
	a := oldPod(t, nil)
	reset := func(kinds ...podfile.Kind) {
		for _, k := range append([]podfile.Kind{podfile.Reset}, kinds...) {
			a.Handle(a.ctx, podfile.Event{Kind: k})
		}
	}
	reset() // the relay has no connection to the runtime
	reset()
	if n := len(a.Pods()); n != 1 {
		t.Errorf("%d pods before the runtime has announced its sandboxes", n)
	}
	reset(podfile.Synchronized)
	if n := len(a.Pods()); n != 0 {
		t.Errorf("%d pods", n)
	}
}

// TestMemory_ResetBusy: while the file of a pod is written, as on a file system that hangs, a relay that
// connects again does not wait for it. The pod stays, and is written.
func TestMemory_ResetBusy(t *testing.T) {
	a := oldPod(t, nil)
	a.follow()
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

// TestMemory_ResetUndecided: a pod whose file does not follow changes is decided again when the relay
// connects again, and its outcome is reported only if it differs.
func TestMemory_ResetUndecided(t *testing.T) {
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

// TestMemory_Reused: a sandbox ID that another pod has now is another sandbox.
func TestMemory_Reused(t *testing.T) {
	a := oldPod(t, nil)
	a.applierTest.sandbox.UID = "v"
	a.announce()
	if r := a.nextReport(); r.Sandbox.UID != "v" {
		t.Errorf("%+v", r)
	}
}

// TestMemory_Restart: a pod that is older than the last change of the host's file follows changes
// after a restart of the agent, if no container has written its file. Like all files it waits until a pod
// has confirmed the node facts.
func TestMemory_Restart(t *testing.T) {
	for name, c := range map[string]struct {
		down func(*refreshTest) // what happens while no agent runs
		want cri.Outcome
	}{
		"unchanged": {func(*refreshTest) {}, cri.Unchanged},
		"restarted before": {func(a *refreshTest) {
			for range 2 {
				a = a.restart()
				a.announce()
			}
		}, cri.Unchanged},
		"another host change": {func(a *refreshTest) { a.host = resolvconf.Parse("nameserver 192.0.2.77\n") }, cri.Unchanged},
		"changed by the pod":  {func(a *refreshTest) { a.write(ownText) }, cri.Unverified},
		"one more byte":       {func(a *refreshTest) { a.write(hostText + "\n") }, cri.Unverified},
		"emptied by the pod":  {func(a *refreshTest) { a.write("") }, cri.Unverified},
		"another's link": {func(a *refreshTest) {
			if err := errors.Join(os.Rename(a.path(), a.path()+".old"), os.Symlink(a.path()+".old", a.path())); err != nil {
				a.Fatal(err)
			}
		}, cri.WriteFailed},
	} {
		t.Run(name, func(t *testing.T) {
			a := oldPod(t, nil)
			time.Sleep(30 * time.Millisecond) // a later write is not the runtime's
			c.down(a)
			before := a.read()
			next := a.restart()
			next.announce()
			if r := next.nextReport(); r.Outcome != c.want {
				t.Errorf("%+v", r)
			}
			want := RefreshResult("")
			if c.want == cri.Unchanged {
				want = Unconfirmed
			}
			if got := next.refreshNow(causeHost); got != want || string(a.read()) != string(before) {
				t.Errorf("got %q, want %q, and the file has\n%s", got, want, a.read())
			}
			next.facts.confirm(nodeFacts)
			if c.want == cri.Unchanged {
				next.wantFollows()
				if original, ok := podfile.Original(next.read()); !ok || string(original) != hostText {
					t.Errorf("the original is %q", original)
				}
			} else if got := next.refreshNow(causeCommand); got != "" || string(a.read()) != string(before) {
				t.Errorf("a command: %q, and the file has\n%s", got, a.read())
			}
		})
	}
}

// TestMemory_Unfinished: a pod that was not found before the restart keeps what is known about its
// file. In mode Force the file that the agent saw before the first container is replaced.
func TestMemory_Unfinished(t *testing.T) {
	for name, c := range map[string]struct {
		text string // when the pod is found
		want cri.Outcome
	}{
		"unchanged": {ownText, cri.Late},
		"changed":   {"nameserver 203.0.113.67\n", cri.Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			a := prepareRefreshTest(t, policy.Default, func(a *applierTest) {
				a.settings.Hook.Lookup = func(ctx context.Context, _ cri.Sandbox) (policy.Pod, error) {
					<-ctx.Done()
					return policy.Pod{}, ctx.Err()
				}
			})
			a.write(ownText)
			a.apply()
			a.Handle(a.ctx, podfile.Event{Kind: podfile.Started, Sandbox: a.applierTest.sandbox})
			a.create(true)
			if c.text != ownText {
				time.Sleep(30 * time.Millisecond) // a later write is not the runtime's
				a.write(c.text)
			}
			next := a.restart()
			next.settings.Hook.Mode = cri.Force
			next.announce()
			if r := next.nextReport(); r.Outcome != c.want {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestMemory_Due: a decision that was not written in mode Observe is written when the agent writes
// files, although the host's file has changed since, and with refresh Off, too. After a restart a pod
// must have confirmed the node facts.
func TestMemory_Due(t *testing.T) {
	overridden := func(a *applierTest) {
		a.settings.Hook.Mode, a.settings.Refresh = cri.Observe, ScopeOff
		a.settings.Hook.Lookup = fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u",
			Policy: policy.ClusterFirst, Override: policy.Default})
	}
	generate := func(a *refreshTest, lookup func(context.Context, cri.Sandbox) (policy.Pod, error)) {
		a.reconfigure(func(s *Settings) { s.Refresh, s.Hook.Mode, s.Hook.Lookup = ScopeOff, cri.Generate, lookup })
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

// TestMemory_FailedForce: a text that only mode Force replaces, in which a write has failed, is not replaced
// in mode Generate: it was not compared with what the kubelet computes.
func TestMemory_FailedForce(t *testing.T) {
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
	a.reconfigure(func(s *Settings) { s.Hook.Mode, s.Hook.HostFiles = cri.Generate, host })
	a.refreshNow(causeSettings)
	if r := a.nextReport(); r.Outcome != cri.FactsMismatch || string(a.read()) != ownText {
		t.Errorf("%+v, and the file has\n%s", r, a.read())
	}
}

// TestMemory_Restored: a file that was never written is not written after the command restore, whatever
// happens, until the command refresh.
func TestMemory_Restored(t *testing.T) {
	overridden := fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u", Policy: policy.ClusterFirst, Override: policy.Default})
	a := prepareRefreshTest(t, policy.ClusterFirst, func(a *applierTest) {
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
	a.refreshNow(causeCommand)
	if r := a.nextReport(); r.Outcome != cri.Late || a.Pods()[0].Restored {
		t.Errorf("%+v", r)
	}
}

// TestMemory_OfShim: a file with an earlier decision, which a shim has sent to the runtime, gets the decision
// of now, like a file with the kubelet's text.
func TestMemory_OfShim(t *testing.T) {
	lookup := fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u", Policy: policy.ClusterFirst, Override: policy.Default})
	a := oldPod(t, func(a *applierTest) { a.settings.Hook.Lookup = lookup })
	next := a.restart()
	next.settings.Hook.Lookup = lookup
	next.announce()
	if r := next.nextReport(); r.Outcome != cri.Observed || r.Detail != unconfirmed {
		t.Fatalf("%+v", r)
	}
	next.facts.confirm(nodeFacts)
	next.refreshNow(causeHost)
	if r := next.nextReport(); r.Outcome != cri.Late || !resolvconf.Parse(string(next.read())).Config().Equal(next.host.Config()) {
		t.Errorf("%+v, and the file has\n%s", r, next.read())
	}
}

// TestMemory_Confirm: after a restart, a file confirms the node facts only if no container has written it. A
// pod can write the comments of this program itself, with a digest that is right, and a text that agrees with
// wrong facts.
func TestMemory_Confirm(t *testing.T) {
	wrong := func(text string) string { return strings.ReplaceAll(text, "10.96.0.10", "203.0.113.9") }
	for name, c := range map[string]struct {
		change func(*refreshTest) // of the file, before the next agent starts
		want   bool
	}{
		"as it was written":    {func(*refreshTest) {}, false},
		"as a runtime made it": {func(a *refreshTest) { a.writeAsRuntime(clusterText) }, true},
		"forged comments": {func(a *refreshTest) {
			forged := &refreshTest{applierTest: newApplierTest(t)}
			forged.write(wrong(clusterText))
			f, err := podfile.Open([]string{forged.directory}, forged.applierTest.sandbox.ID, forged.path())
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
				a.settings.Hook.Mode = cri.Generate
				a.settings.Hook.Lookup = overridden
			})
			if podfile.OriginOf(a.read()) != podfile.Written {
				t.Fatalf("not written:\n%s", a.read())
			}
			time.Sleep(30 * time.Millisecond) // a later write is not the runtime's
			c.change(a)
			server := "203.0.113.9"
			if c.want {
				server = "10.96.0.10"
			}
			next := a.restart()
			next.settings.Hook.Lookup, next.settings.Hook.Engine = overridden, newEngine(t, server, "cluster.local")
			next.announce()
			if got := next.facts.covers(1 << policy.FromClusterDNS); got != c.want {
				t.Errorf("the facts are confirmed: %t, want %t", got, c.want)
			}
		})
	}
}

// writeAsRuntime replaces the sandbox's file as a runtime creates it.
func (a *refreshTest) writeAsRuntime(text string) {
	a.Helper()
	if err := os.Remove(a.path()); err != nil {
		a.Fatal(err)
	}
	a.write(text)
}

// overridden returns a pod of the cluster's DNS that an annotation gives the host's.
func overridden(_ context.Context, s cri.Sandbox) (policy.Pod, error) {
	return policy.Pod{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Policy: policy.ClusterFirst, Override: policy.Default}, nil
}

// TestMemory_ChangedByPods: pods that replace their whole file raise no alert about the node facts when the
// agent restarts. A new pod whose file differs does.
func TestMemory_ChangedByPods(t *testing.T) {
	a := &refreshTest{applierTest: newApplierTest(t)}
	a.apply()
	for i := range 10 {
		a.sandbox = podfile.Sandbox{ID: fmt.Sprint("pod", i), Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u", i)}
		a.write(kubeletText)
		a.Handle(a.ctx, podfile.Event{Kind: podfile.Started, Sandbox: a.sandbox})
		a.create(true)
		<-a.reports
	}
	time.Sleep(30 * time.Millisecond) // a later write is not the runtime's
	for i := range 10 {
		a.sandbox.ID = fmt.Sprint("pod", i)
		a.write("nameserver 203.0.113.9\n")
	}
	next := a.restart()
	for i := range 10 {
		next.applierTest.sandbox = podfile.Sandbox{ID: fmt.Sprint("pod", i), Namespace: "shop", Name: fmt.Sprint("web-", i),
			UID: fmt.Sprint("u", i)}
		next.running()
		if r := <-next.reports; r.Outcome != cri.Unverified {
			t.Errorf("%+v", r)
		}
	}
	next.applierTest.sandbox = podfile.Sandbox{ID: "new", Namespace: "shop", Name: "new", UID: "n"}
	next.write(ownText)
	next.Handle(next.ctx, podfile.Event{Kind: podfile.Started, Sandbox: next.applierTest.sandbox})
	next.Wait()
	next.create(true)
	if r := <-next.reports; r.Outcome != cri.FactsMismatch {
		t.Errorf("%+v", r)
	}
}

// TestApplier_Repairs: a file whose write was not finished is rewritten at the start of the agent, whatever is
// refreshed.
func TestApplier_Repairs(t *testing.T) {
	a := prepareRefreshTest(t, policy.ClusterFirst, func(a *applierTest) { a.settings.Refresh = ScopeOff })
	a.write("#ameserver 10.96.0.10\noptions ndots:5\n# dnsconfigurer: changing\n")
	a.running()
	if r := <-a.reports; r.Outcome != cri.Unchanged {
		t.Errorf("%+v", r)
	}
	got := a.read()
	dns := resolvconf.Parse(string(got)).Config()
	if podfile.OriginOf(got) != podfile.Written || len(dns.Nameservers) != 1 || dns.Nameservers[0] != "10.96.0.10" {
		t.Errorf("the file has\n%s", got)
	}
}

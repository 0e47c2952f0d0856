// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

const (
	hostText  = "nameserver 192.0.2.53\nsearch corp.example\noptions timeout:1\n"
	otherHost = "nameserver 192.0.2.54\nnameserver 192.0.2.55\nsearch corp.example lab.example\n"
)

// refreshTest is an agent with a pod whose DNS comes from the host.
type refreshTest struct {
	*applierTest
	host resolvconf.File
}

// newRefreshTest returns an agent that has decided the pod, whose file has text.
func newRefreshTest(t *testing.T, p policy.Policy, text string, change func(*applierTest)) *refreshTest {
	a := prepareRefreshTest(t, p, change)
	a.write(text)
	a.start()
	a.create(true)
	<-a.reports
	return a
}

// prepareRefreshTest returns an agent without sandboxes.
func prepareRefreshTest(t *testing.T, p policy.Policy, change func(*applierTest)) *refreshTest {
	a := &refreshTest{applierTest: newApplierTest(t), host: resolvconf.Parse(hostText)}
	a.settings.Refresh = ScopeAll
	a.settings.Hook.HostFiles = func() cri.HostFiles { return cri.HostFiles{Pods: a.host, Kubelet: a.host} }
	a.settings.Hook.Lookup = func(_ context.Context, s cri.Sandbox) (policy.Pod, error) {
		return policy.Pod{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Policy: p}, nil
	}
	if change != nil {
		change(a.applierTest)
	}
	return a
}

// refreshNow refreshes the file of the pod.
func (a *refreshTest) refreshNow(c cause) RefreshResult {
	result, _ := a.refresh(a.sandboxes[a.applierTest.sandbox.ID], c)
	return result
}

// blockRefresh begins a refresh that waits until proceed is closed, as on a file system that hangs.
// refreshed gets its result.
func (a *refreshTest) blockRefresh() (proceed chan<- struct{}, refreshed <-chan RefreshResult) {
	waits, proceeds, results := make(chan struct{}), make(chan struct{}), make(chan RefreshResult)
	a.settings.Hook.HostFiles = func() cri.HostFiles {
		close(waits)
		<-proceeds
		return cri.HostFiles{Pods: a.host, Kubelet: a.host}
	}
	go func() { results <- a.refreshNow(causeHost) }()
	<-waits
	return proceeds, results
}

func (a *refreshTest) read() []byte {
	text, err := os.ReadFile(a.path())
	if err != nil {
		a.Fatal(err)
	}
	return text
}

const clusterText = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\noptions ndots:5\n"

// TestRefresh_DeletedDirectory: a directory of sandboxes that was removed while it is mounted, as with
// rm -rf /var/lib/containerd, is logged once with what to do. The directory of a process stays for it, as
// a mount does.
func TestRefresh_DeletedDirectory(t *testing.T) {
	a := prepareRefreshTest(t, policy.Default, nil)
	log := new(logbuffer.Buffer)
	a.Log = slog.New(slog.NewTextHandler(log, nil))
	t.Chdir(a.directory)
	announce := func() (logged int) {
		for i := range 3 {
			a.Handle(a.ctx, podfile.Event{Kind: podfile.Running, Path: fmt.Sprintf("./%d/resolv.conf", i),
				Sandbox: podfile.Sandbox{ID: fmt.Sprint(i), Namespace: "shop", Name: "web", UID: "u"}})
		}
		return strings.Count(log.String(), "restart the pod of the agent")
	}
	a.apply()
	if n := announce(); n != 0 {
		t.Errorf("sandboxes that were removed are logged %d times:\n%s", n, log)
	}
	if err := os.Remove(a.directory); err != nil {
		t.Fatal(err)
	}
	if n := announce(); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log)
	}
}

// TestRefresh_Mode applies another mode and another configuration to a pod that was decided.
func TestRefresh_Mode(t *testing.T) {
	a := newApplierTest(t)
	a.settings.Hook.Mode = cri.Observe
	a.agentRun()
	a.write(kubeletText)
	a.start()
	a.create(true)
	a.want(cri.Observed)
	a.reconfigure(func(s *Settings) { s.Hook.Mode, s.Refresh = cri.Generate, ScopeAll })
	a.want(cri.Late)
	a.reconfigure(func(s *Settings) { s.Hook.Engine = newEngine(t, "10.96.0.99", "new.example") })
	if r := <-a.refreshes; r.Result != Refreshed || !slices.Contains(r.DNS.Searches, "search.shop.new.example.ap.k8s.io") {
		t.Errorf("%+v", r)
	}
}

// agentRun runs the agent until the test ends.
func (a *applierTest) agentRun() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	a.apply()
	go func() {
		defer close(done)
		_ = a.Applier.Run(ctx)
	}()
	a.Cleanup(func() {
		cancel()
		<-done
	})
}

// TestRun_Rate rewrites the files of 110 pods at the rate of the settings, and verifies them on
// the timer. The time is that of the bubble.
func TestRun_Rate(t *testing.T) {
	const pods = 110
	directory := t.TempDir()
	var host atomic.Pointer[resolvconf.File]
	host.Store(new(resolvconf.Parse(hostText)))
	synctest.Test(t, func(t *testing.T) {
		a := newRefreshTest(t, policy.Default, hostText, func(a *applierTest) {
			a.directory, a.settings.Directories = directory, []string{directory}
			a.settings.Refresh = ScopeDefault
		})
		a.settings.Hook.Report = func(cri.Report) {}
		a.settings.Hook.HostFiles = func() cri.HostFiles {
			return cri.HostFiles{Pods: *host.Load(), Kubelet: *host.Load()}
		}
		for i := 1; i < pods; i++ {
			path := filepath.Join(directory, fmt.Sprint(i), "resolv.conf")
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(hostText), 0o644)); err != nil {
				t.Fatal(err)
			}
			a.Handle(a.ctx, podfile.Event{Kind: podfile.Running, Path: path,
				Sandbox: podfile.Sandbox{ID: fmt.Sprint(i), Namespace: "shop", Name: fmt.Sprint(i), UID: fmt.Sprint(i)}})
		}
		a.Wait()
		a.agentRun()
		host.Store(new(resolvconf.Parse(otherHost)))
		began := time.Now()
		a.HostChanged()
		for range pods {
			if r := <-a.refreshes; r.Result != Refreshed {
				t.Fatalf("%+v", r)
			}
		}
		took := time.Since(began)
		t.Logf("%d pods in %v of the bubble's time", pods, took)
		if took < (pods-1)*refreshPause/2 || took > pods*(refreshPause*3/2+touchDelay) {
			t.Errorf("took %v", took)
		}
		if err := os.WriteFile(a.path(), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if r := <-a.refreshes; r.Drift != Empty || r.Result != Refreshed || time.Since(began) > verifyInterval {
			t.Errorf("verified after %v: %+v", time.Since(began), r)
		}
		synctest.Wait() // a refresh is counted after its report
		if n := testutil.ToFloat64(a.Metrics.refreshes.WithLabelValues(string(Refreshed))); n != pods+1 {
			t.Errorf("%v refreshes are counted", n)
		}
	})
}

// TestRefresh_Annotations changes the annotations of a running pod.
func TestRefresh_Annotations(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := newApplierTest(t)
		a.directory = directory
		var now atomic.Pointer[map[string]string]
		now.Store(&map[string]string{})
		a.settings.Directories, a.settings.Refresh = []string{directory}, ScopeAll
		a.settings.Annotations = func(string) (map[string]string, bool) { return *now.Load(), true }
		a.settings.Hook.Lookup = fixedLookup(policy.Pod{Namespace: "shop", Name: "web", UID: "u", Policy: policy.ClusterFirst})
		a.agentRun()
		a.write(kubeletText)
		a.start()
		a.create(true)
		if r := <-a.reports; r.Outcome != cri.Unchanged {
			t.Fatalf("%+v", r)
		}
		change := func(values map[string]string) {
			now.Store(&values)
			a.PodChanged("u")
		}
		change(map[string]string{policy.OverrideAnnotation: string(policy.ClusterFirstWithAutopath)})
		if r := <-a.refreshes; r.Result != Refreshed || !strings.HasPrefix(r.DNS.Searches[0], "search.shop.") {
			t.Errorf("%+v", r)
		}
		began := time.Now()
		change(map[string]string{RefreshAnnotation: "always"})
		change(map[string]string{})
		if r := <-a.refreshes; r.Result != Refreshed || r.DNS.Searches[0] != "shop.svc.cluster.local" {
			t.Errorf("%+v", r)
		}
		if wait := time.Since(began); wait < podInterval-time.Second {
			t.Errorf("a second rewrite for the pod after %v, want %v", wait, podInterval)
		}
		change(map[string]string{RefreshAnnotation: "never", policy.OverrideAnnotation: string(policy.ClusterFirstWithAutopath)})
		time.Sleep(2 * podInterval)
		if n := len(a.refreshes); n != 1 || (<-a.refreshes).Result != NotPermitted {
			t.Errorf("%d rewrites of a pod that does not permit them", n)
		}
	})
}

// TestRun_Touch: a file that was rewritten while containers run gets another time after the write, also when
// the agent ends meanwhile: glibc may have read a mixture of two texts.
func TestRun_Touch(t *testing.T) {
	a := newRefreshTest(t, policy.Default, hostText, nil)
	a.host = resolvconf.Parse(otherHost)
	if got := a.refreshNow(causeHost); got != Refreshed {
		t.Fatal(got)
	}
	before := time.Unix(1, 0)
	if err := os.Chtimes(a.path(), before, before); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := a.Applier.Run(ended); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(a.path()); err != nil || time.Since(info.ModTime()) > time.Minute {
		t.Errorf("the time is that of before: %v, %v", info.ModTime(), err)
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

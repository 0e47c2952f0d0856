// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

func annotate(value string) func(*applierTest) {
	return func(a *applierTest) { a.sandbox.Annotations = map[string]string{RefreshAnnotation: value} }
}

const clusterText = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\noptions ndots:5\n"

// TestRefresh_Host changes the host's file, for pods of several policies, settings and
// annotations.
func TestRefresh_Host(t *testing.T) {
	scope := func(s Scope) func(*applierTest) { return func(a *applierTest) { a.settings.Refresh = s } }
	for name, c := range map[string]struct {
		policy policy.Policy
		change func(*applierTest)
		want   RefreshResult
	}{
		"all":                        {policy.Default, nil, Refreshed},
		"default only":               {policy.Default, scope(ScopeDefault), Refreshed},
		"default only, ClusterFirst": {policy.ClusterFirst, scope(ScopeDefault), NotPermitted},
		"all, ClusterFirst":          {policy.ClusterFirst, nil, Refreshed}, // search domains of the host
		"off":                        {policy.Default, scope(ScopeOff), NotPermitted},
		"off, always": {policy.Default, func(a *applierTest) {
			a.settings.Refresh = ScopeOff
			annotate("always")(a)
		}, Refreshed},
		"never":            {policy.Default, annotate("never"), NotPermitted},
		"other annotation": {policy.Default, annotate("sometimes"), Refreshed},
		"dry run":          {policy.Default, scope(ScopeDryRun), DryRun},
		"dry run, always": {policy.Default, func(a *applierTest) {
			a.settings.Refresh = ScopeDryRun
			annotate("always")(a)
		}, DryRun},
		"observe": {policy.Default, func(a *applierTest) { a.settings.Hook.Mode = cri.Observe }, NotPermitted},
		"skip": {policy.Default, func(a *applierTest) {
			a.sandbox.Annotations = map[string]string{cri.SkipAnnotation: "true"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := hostText
			if c.policy == policy.ClusterFirst {
				before = clusterText
			}
			a := newRefreshTest(t, c.policy, before, c.change)
			a.host = resolvconf.Parse(otherHost)
			if got := a.refreshNow(causeHost); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			text := a.read()
			written := podfile.OriginOf(text) == podfile.Written
			if written != (c.want == Refreshed) || !written && string(text) != before {
				t.Errorf("%s, and the file has\n%s", c.want, text)
			}
			if original, ok := podfile.Original(text); written && (!ok || string(original) != before) {
				t.Errorf("original %q, want %q", original, before)
			}
			if reported := len(a.refreshes) > 0; reported != (c.want != "") {
				t.Errorf("%d reports", len(a.refreshes))
			}
			if c.want == Refreshed && a.refreshNow(causeHost) != UpToDate {
				t.Error("a second refresh does something")
			}
		})
	}
}

// TestRefresh_Sequence changes the host's file again and again, restarts the agent, and restores
// the kubelet's text.
func TestRefresh_Sequence(t *testing.T) {
	a := newRefreshTest(t, policy.Default, hostText, nil)
	for i := range 5 {
		a.host = resolvconf.Parse(fmt.Sprintf("nameserver 192.0.2.%d\n", i+1))
		if got := a.refreshNow(causeHost); got != Refreshed {
			t.Fatalf("change %d: %s", i, got)
		}
	}
	a.host = resolvconf.Parse(otherHost)
	other := a.restart()
	other.running()
	if r := <-other.reports; r.Outcome != cri.Unchanged {
		t.Errorf("after a restart: %+v", r)
	}
	id, c, _, ok := other.queue.pop()
	if !ok || c != causeVerify || id != other.applierTest.sandbox.ID {
		t.Fatalf("the file of the previous agent is not verified: %q, %v, %t", id, c, ok)
	}
	if got := other.refreshNow(c); got != Unconfirmed {
		t.Errorf("after a restart, with facts that no pod has confirmed: %s", got)
	}
	other.facts.confirm(nodeFacts)
	if got := other.refreshNow(c); got != Refreshed {
		t.Errorf("after a restart: %s", got)
	}
	results, err := other.RestorePods(t.Context(), "shop", "web")
	if err != nil || len(results) != 1 || results[0].Result != "restored" {
		t.Fatalf("%+v, %v", results, err)
	}
	if text := other.read(); !bytes.Contains(text, []byte("\n"+hostText)) || podfile.OriginOf(text) != podfile.Restored {
		t.Errorf("restored:\n%s", text)
	}
	for _, c := range []cause{causeVerify, causeHost, causeSettings, causeAll} {
		if got := other.refreshNow(c); got != "" {
			t.Errorf("a restored file: cause %d: %s", c, got)
		}
	}
	third := other.restart()
	third.announce()
	if r := third.nextReport(); r.Outcome != cri.Restored {
		t.Errorf("a restored file after a restart: %+v", r)
	}
	if p := third.Pods(); third.refreshNow(causeAll) != "" || len(p) != 1 || !p[0].Restored || p[0].Drift != "" {
		t.Errorf("a restored file after a restart: %+v", p)
	}
	if got := other.refreshNow(causeCommand); got != Refreshed {
		t.Errorf("a restored file: command: %s", got)
	}
}

// TestRefresh_PodChanged: a file that the pod has changed is replaced only if the pod or a
// command wants that.
func TestRefresh_PodChanged(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		annotate func(*applierTest)
		cause    cause
		want     RefreshResult
		drift    Drift
	}{
		"verify":       {ownText, nil, causeVerify, Modified, Different},
		"host":         {ownText, nil, causeHost, Modified, Different},
		"always":       {ownText, annotate("always"), causeVerify, Refreshed, ""},
		"command":      {ownText, annotate("never"), causeCommand, Refreshed, ""},
		"all":          {ownText, nil, causeAll, Modified, Different},
		"empty":        {"", nil, causeVerify, Refreshed, ""},
		"empty, never": {"", annotate("never"), causeVerify, NotPermitted, Empty},
		"missing":      {"-", nil, causeVerify, Refreshed, ""},
		"large":        {strings.Repeat("#\n", podfile.MaxSize), annotate("always"), causeVerify, Failed, Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			a := newRefreshTest(t, policy.Default, hostText, c.annotate)
			a.host = resolvconf.Parse(otherHost)
			if err := os.WriteFile(a.path(), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.text == "-" {
				if err := os.Remove(a.path()); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // a second time changes and reports nothing
				if got := a.refreshNow(c.cause); got != c.want && got != UpToDate {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
			if n := len(a.refreshes); n != 1 {
				t.Errorf("%d reports, want 1", n)
			}
			text := a.read()
			repaired := resolvconf.Parse(string(text)).Config().Equal(a.host.Config())
			if repaired != (c.want == Refreshed) || !repaired && string(text) != c.text {
				t.Errorf("the file:\n%s", text)
			}
			if p := a.Pods()[0]; p.Drift != string(c.drift) {
				t.Errorf("drift %q, want %q", p.Drift, c.drift)
			}
		})
	}
}

// TestRefresh_Mismatch: no command replaces a file that was never the kubelet's.
func TestRefresh_Mismatch(t *testing.T) {
	a := newRefreshTest(t, policy.Default, ownText, annotate("always"))
	for c := causeVerify; c <= causeCommand; c++ {
		if got := a.refreshNow(c); got != "" {
			t.Errorf("cause %d: %s", c, got)
		}
	}
	if text := a.read(); string(text) != ownText {
		t.Errorf("the file:\n%s", text)
	}
	if _, err := a.RefreshPods(t.Context(), "shop", "other"); !errors.Is(err, ErrUnknownPod) {
		t.Errorf("another pod: %v", err)
	}
}

// TestRefresh_Gone: a sandbox whose directory was removed is forgotten and not reported, whether its
// file follows changes or not. It is not looked up when the relay still announces it.
func TestRefresh_Gone(t *testing.T) {
	for _, text := range []string{hostText, ownText} {
		a := newRefreshTest(t, policy.Default, text, nil)
		if err := os.RemoveAll(filepath.Dir(a.path())); err != nil {
			t.Fatal(err)
		}
		if got := a.refreshNow(causeVerify); got != "" || len(a.refreshes) > 0 || len(a.Pods()) > 0 {
			t.Errorf("got %q, %d reports, %d pods", got, len(a.refreshes), len(a.Pods()))
		}
		a.running()
		a.Wait()
		if len(a.reports) > 0 || len(a.Pods()) > 0 {
			t.Errorf("announced: %d reports, %d pods", len(a.reports), len(a.Pods()))
		}
	}
}

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

// TestRefresh_NotMounted: files in a directory that the agent does not have are not those of sandboxes
// that were removed.
func TestRefresh_NotMounted(t *testing.T) {
	a := prepareRefreshTest(t, policy.Default, nil)
	a.directory = filepath.Join(a.directory, "absent")
	a.running()
	a.Wait()
	if r := <-a.reports; r.Outcome != cri.ForeignFile || len(a.Pods()) != 1 {
		t.Errorf("%+v, %d pods", r, len(a.Pods()))
	}
}

// TestRefresh_LoopbackHost: a host file that gives no DNS configuration changes nothing. A running pod does
// not get nameservers that it cannot reach, unless a command for this pod requests it. On the host's
// network it reaches them.
func TestRefresh_LoopbackHost(t *testing.T) {
	const stub = "nameserver 127.0.0.53\nnameserver ::1\n"
	hostNetwork := func(a *applierTest) {
		lookup := a.settings.Hook.Lookup
		a.settings.Hook.Lookup = func(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
			pod, err := lookup(ctx, s)
			pod.HostNetwork = true
			return pod, err
		}
	}
	dryRun := func(a *applierTest) { a.settings.Refresh = ScopeDryRun }
	for name, c := range map[string]struct {
		host   string
		change func(*applierTest)
		cause  cause
		want   RefreshResult
	}{
		"missing":             {"", nil, causeHost, Refused},
		"empty":               {"# nothing\n", nil, causeHost, Refused},
		"loopback only":       {stub, nil, causeHost, Refused},
		"unspecified":         {"nameserver 0.0.0.0\n", nil, causeHost, Refused},
		"always":              {stub, annotate("always"), causeHost, Refused},
		"a command for all":   {stub, nil, causeAll, Refused},
		"a command for one":   {stub, nil, causeCommand, Refreshed},
		"dry run":             {stub, dryRun, causeHost, Refused},
		"another server":      {stub + "nameserver 192.0.2.54\n", nil, causeHost, Refreshed},
		"on the host network": {stub, hostNetwork, causeHost, Refreshed},
	} {
		t.Run(name, func(t *testing.T) {
			a := newRefreshTest(t, policy.Default, hostText, c.change)
			a.host = resolvconf.Parse(c.host)
			if c.host == "" {
				a.host = resolvconf.File{Err: fs.ErrNotExist}
			}
			if got := a.refreshNow(c.cause); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if text := a.read(); (string(text) == hostText) != (c.want == Refused) {
				t.Errorf("%s, and the file has\n%s", c.want, text)
			}
			a.host = resolvconf.Parse(otherHost)
			if got := a.refreshNow(causeHost); c.want == Refused && got == Refused {
				t.Errorf("a reachable server: %s", got)
			}
		})
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

// TestRefresh_Facts applies other node facts. They reach running pods when the kubelet's DNS for a
// new pod agrees with them, and never if it does not.
func TestRefresh_Facts(t *testing.T) {
	for name, c := range map[string]struct {
		policy policy.Policy
		text   string // of the kubelet, for a new pod
		want   RefreshResult
	}{
		"confirmed": {policy.ClusterFirst,
			"search shop.svc.new.example svc.new.example new.example corp.example\n" +
				"nameserver 10.96.0.99\noptions ndots:5\n", Refreshed},
		"wrong":                {policy.ClusterFirst, clusterText, Unconfirmed},
		"of other entries":     {policy.Default, hostText, Unconfirmed},
		"other pod, no change": {policy.None, "nameserver 192.0.2.99\n", Unconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			a := newRefreshTest(t, policy.ClusterFirst, clusterText, nil)
			a.reconfigure(func(s *Settings) { s.Facts, s.Hook.Engine = "other", newEngine(t, "10.96.0.99", "new.example") })
			if got := a.refreshNow(causeSettings); got != Unconfirmed {
				t.Fatalf("before another pod: %s", got)
			}
			before := a.read()

			pod := policy.Pod{Namespace: "shop", Name: "new", UID: "v", Policy: c.policy}
			if c.policy == policy.None {
				pod.Config = &policy.DNSConfig{Nameservers: []string{"192.0.2.99"}}
			}
			a.settings.Hook.Lookup = fixedLookup(pod)
			running := a.applierTest.sandbox
			a.applierTest.sandbox = podfile.Sandbox{ID: "new", Namespace: "shop", Name: "new", UID: "v"}
			a.write(c.text)
			a.Handle(a.ctx, podfile.Event{Kind: podfile.Started, Sandbox: a.applierTest.sandbox})
			a.Wait()
			a.create(true)
			<-a.reports
			a.applierTest.sandbox = running
			if got := a.refreshNow(causeHost); got != c.want {
				t.Errorf("after another pod: %s, want %s", got, c.want)
			}
			if changed := !bytes.Equal(a.read(), before); changed != (c.want == Refreshed) {
				t.Errorf("%s, and the file has\n%s", c.want, a.read())
			}
		})
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

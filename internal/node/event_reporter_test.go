// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestReportRefresh checks which results are events on the pod.
func TestReportRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		report Refresh
		reason string // of the event; "": none
		warns  bool
	}{
		"refreshed":     {Refresh{Result: Refreshed, Drift: Outdated}, ReasonRefreshed, false},
		"restored":      {Refresh{Result: WrittenBack}, ReasonRestored, false},
		"dry run":       {Refresh{Result: DryRun, Drift: Outdated}, "", false},
		"outdated":      {Refresh{Result: NotPermitted, Drift: Outdated}, "", false},
		"not permitted": {Refresh{Result: NotPermitted, Drift: Empty}, ReasonDrift, true},
		"pod changed":   {Refresh{Result: Modified, Drift: Different}, ReasonDrift, true},
		"failed":        {Refresh{Result: Failed, Drift: Outdated, Detail: "disk full"}, ReasonDrift, true},
	} {
		t.Run(name, func(t *testing.T) {
			api := &eventAPI{}
			withReporter(t, api, func(r *Reporter, log *bytes.Buffer) {
				c.report.Sandbox = cri.Sandbox{Namespace: "shop", Name: "web", UID: "u"}
				c.report.DNS = resolvconf.Config{Nameservers: []string{"192.0.2.1"}}
				r.ReportRefresh(c.report)
				synctest.Wait()
				if warns := strings.Contains(log.String(), "level=WARN"); warns != c.warns {
					t.Errorf("the log:\n%s", log)
				}
			})
			want := 1
			if c.reason == "" {
				want = 0
			}
			if len(api.bodies) != want || api.count(c.reason) != want {
				t.Errorf("events %q, want %q", api.bodies, c.reason)
			}
		})
	}
}

func TestSendNode(t *testing.T) {
	api := &eventAPI{}
	c := newReporter(t, api, io.Discard).events.client
	must.Succeed(t, SendNode(t.Context(), c, "node1", corev1.EventTypeWarning, ReasonBypassBegan, strings.Repeat("x", 5000)))
	if want := []string{"POST /api/v1/namespaces/default/events"}; !slices.Equal(api.requests, want) {
		t.Errorf("%q, want %q", api.requests, want)
	}
	for _, part := range []string{"Node", "node1", "ShimBypassed", "Warning"} {
		if !strings.Contains(api.bodies[0], part) {
			t.Errorf("the event lacks %s: %q", part, api.bodies[0])
		}
	}
	if n := len(api.bodies[0]); n > 2048 {
		t.Errorf("%d bytes", n)
	}
	api.answer = func(string) (int, error) { return http.StatusForbidden, nil }
	if err := SendNode(t.Context(), c, "node1", corev1.EventTypeNormal, ReasonBypassEnded, ""); err == nil {
		t.Error("no error when the API server rejects the event")
	}
}

// TestReporter_Unsafe has one event for all unsafe values of a pod.
func TestReporter_Unsafe(t *testing.T) {
	finding := func(text string, more int) policy.Finding {
		return policy.Finding{Code: policy.CodeUnsafeValue, Message: text, More: more}
	}
	for _, tt := range []struct {
		findings []policy.Finding
		want     string
	}{
		{nil, ""},
		{[]policy.Finding{finding("a", 0), {Code: policy.CodeSearchLimit, Message: "other"}}, "a"},
		{[]policy.Finding{finding("a", 0), finding("b", 0), finding("c", 0)}, "a; b; c"},
		{[]policy.Finding{finding("a", 0), finding("b", 0), finding("c", 0), finding("d", 199_996)},
			"200000 unsafe values, the first of them: a; b; c"},
	} {
		if got := unsafeValues(tt.findings); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestReporter_NoEvent: a pod whose options have another order only gets no event, and so do one that may have changed
// its file itself, and one in mode Observe, whose decision is in the log.
func TestReporter_NoEvent(t *testing.T) {
	api := &eventAPI{}
	withReporter(t, api, func(r *Reporter, log *bytes.Buffer) {
		r.log = slog.New(slog.NewTextHandler(log, nil))
		p := edited("web")
		p.Outcome = cri.Observed
		r.Report(p)
		want := fmt.Sprintf(`msg="sandbox would be edited" pod=shop/web podUID=%s outcome=observed nameservers=[%s]`,
			p.Sandbox.UID, p.DNS.Nameservers[0])
		if !strings.Contains(log.String(), want) {
			t.Errorf("want %s, got\n%s", want, log)
		}
		p.DNS.Options = []string{"ndots:5", "edns0"}
		p.Sandbox.HasDNS, p.Sandbox.DNS = true, p.DNS
		p.Sandbox.DNS.Options = []string{"edns0", "ndots:5"}
		for _, p.Outcome = range []cri.Outcome{cri.Edited, cri.Unverified} {
			r.Report(p)
		}
		synctest.Wait()
		if len(api.requests) > 0 {
			t.Errorf("sent %q", api.bodies)
		}
	})
}

// TestReporter_LargePods reports 2,000 pods with 0.78 MB of options each: neither the queue
// nor the sent events keep their text, and events and log lines are short.
func TestReporter_LargePods(t *testing.T) {
	const pods, maxGrowth, maxLine, maxBody = 2000, 4 << 20, 4 << 10, 2048 // a message of 1,024 bytes, and the names
	api := &eventAPI{}
	withReporter(t, api, func(r *Reporter, _ *bytes.Buffer) {
		lines := &lineLengths{}
		r.log = slog.New(slog.NewTextHandler(lines, nil))
		values := func() []string {
			return append(slices.Repeat([]string{strings.Repeat("\x00a\"", 1000)}, 200), strings.Repeat("o", 100_000))
		}
		messages := 0
		before := heap()
		for i := range pods {
			p := edited(fmt.Sprintf("web-%04d-%s", i, strings.Repeat("n", 230)))
			p.DNS = resolvconf.Config{Nameservers: values(), Searches: values(), Options: values()}
			p.Findings = []policy.Finding{{Code: policy.CodeUnsafeValue, Message: values()[0], More: 1}}
			if i%2 == 0 {
				p.Outcome, p.Detail = cri.FactsMismatch, strings.Repeat("d", 1024)
			}
			r.Report(p)
			synctest.Wait()
			for _, body := range api.bodies {
				if len(body) > maxBody {
					t.Errorf("event of %d bytes, want at most %d", len(body), maxBody)
				}
				messages++
			}
			api.requests, api.bodies = nil, nil
		}
		if growth := heap() - before; growth > maxGrowth {
			t.Errorf("the heap has grown by %d bytes", growth)
		}
		if lines.longest > maxLine || messages < pods {
			t.Errorf("a line has %d bytes, want at most %d; %d events", lines.longest, maxLine, messages)
		}
	})
}

// TestFollowHost: an unusable file of the host has an event on the node, which is updated every
// half hour while that lasts, and another one when it is usable again.
func TestFollowHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		api := &eventAPI{}
		w := hostresolv.New(hostresolv.Config{Path: path})
		reporter := newReporter(t, api, io.Discard)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- daemon.RunAll(ctx, reporter.Run, FollowHost(w, reporter, func() {})) }()
		expect := func(after time.Duration, wants ...string) { // of one request, or none
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			api.mu.Lock()
			defer api.mu.Unlock()
			sent := strings.Join(append(api.requests, api.bodies...), "\n")
			isMissing := func(s string) bool { return !strings.Contains(sent, s) }
			if len(api.requests) != min(len(wants), 1) || slices.ContainsFunc(wants, isMissing) {
				t.Errorf("sent %q, want %q", sent, wants)
			}
			api.requests, api.bodies = nil, nil
		}
		missing := "the host's resolv.conf is unusable: open " + path + ": no such file or directory"
		expect(time.Minute, "POST ", "worker", "Warning", "HostResolvConfUnusable", missing)
		expect(29*time.Minute+time.Second, "PATCH ", `"count":2`, missing)
		expect(30*time.Minute, "PATCH ", `"count":3`, missing)
		write("nameserver 192.0.2.53\n")
		w.Reread()
		expect(time.Minute, "POST ", "worker", "Normal", "HostResolvConfUsable", "the host's resolv.conf is usable again")
		expect(24 * time.Hour)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

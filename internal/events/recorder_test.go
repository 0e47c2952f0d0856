// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// eventAPI is an API server without a socket that records its requests.
type eventAPI struct {
	requests []string
	bodies   []string
	answer   func(method string) (int, error) // nil: 200
}

func (a *eventAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	a.bodies = append(a.bodies, string(body))
	code := http.StatusOK
	if a.answer != nil {
		if code, err = a.answer(r.Method); err != nil {
			return nil, err
		}
	}
	text := "{}"
	if code != http.StatusOK {
		reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusConflict: "AlreadyExists", http.StatusForbidden: "Forbidden"}[code]
		text = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// withReporter runs test in a bubble with a reporter that sends to api.
func withReporter(t *testing.T, api *eventAPI, test func(r *Reporter, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(&rest.Config{Host: "http://api.invalid", QPS: -1, Transport: api}, corev1.SchemeGroupVersion, &corev1.Event{})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		r := NewReporter(c, "worker", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		test(r, &log)
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func edited(pod string) cri.Report {
	return cri.Report{Sandbox: cri.Sandbox{Namespace: "shop", Name: pod, UID: "uid-of-" + pod}, Outcome: cri.Edited, DNS: resolvconf.Config{Nameservers: []string{"10.96.0.10"}}}
}

// namesOf cuts the time off the names of events in requests.
func namesOf(requests []string) []string {
	var short []string
	for _, a := range requests {
		before, _, _ := strings.Cut(a, ".")
		short = append(short, before)
	}
	return short
}

// TestRecorder_RepeatedEvent counts an event that happens again.
func TestRecorder_RepeatedEvent(t *testing.T) {
	api := &eventAPI{}
	withReporter(t, api, func(r *Reporter, _ *bytes.Buffer) {
		expect := func(what string, want ...string) {
			t.Helper()
			r.Report(edited("web"))
			synctest.Wait()
			if diff := cmp.Diff(want, namesOf(api.requests)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			api.requests = nil
		}
		post, patch := "POST /api/v1/namespaces/shop/events", "PATCH /api/v1/namespaces/shop/events/web"
		expect("the first event", post)
		for _, part := range []string{ReasonConfigured, "nameserver 10.96.0.10", "uid-of-web", "worker"} {
			if !strings.Contains(api.bodies[0], part) {
				t.Errorf("the event lacks %q: %q", part, api.bodies[0])
			}
		}
		expect("a repetition at once")
		time.Sleep(sendInterval - time.Nanosecond)
		expect("a repetition within sendInterval")
		time.Sleep(time.Nanosecond)
		expect("a repetition after sendInterval", patch)
		if last := api.bodies[len(api.bodies)-1]; !strings.Contains(last, `"count":4`) {
			t.Errorf("the event is updated by %s, want a count of 4", last)
		}
		api.answer = func(method string) (int, error) {
			if method == http.MethodPatch {
				return http.StatusNotFound, nil
			}
			return http.StatusOK, nil
		}
		time.Sleep(sendInterval)
		expect("a repetition after the event expired", patch, post)
	})
}

// TestRecorder_APIUnreachable retries while the API server is unreachable. It stops when the
// event exists, which a call without a reply has created.
func TestRecorder_APIUnreachable(t *testing.T) {
	tries := 0
	api := &eventAPI{answer: func(string) (int, error) {
		if tries++; tries < maxTries {
			return 0, syscall.ECONNREFUSED
		}
		return http.StatusConflict, nil // created by an earlier call
	}}
	withReporter(t, api, func(r *Reporter, log *bytes.Buffer) {
		r.Report(edited("web"))
		time.Sleep((maxTries - 1) * retryPause)
		synctest.Wait()
		if tries != maxTries || log.Len() > 0 {
			t.Errorf("%d tries, want %d; the log:\n%s", tries, maxTries, log)
		}
	})
}

// TestRecorder_NotSent logs an event that the API server does not accept.
func TestRecorder_NotSent(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(string) (int, error)
		tries  int
	}{
		"away":      {func(string) (int, error) { return 0, syscall.ECONNREFUSED }, maxTries},
		"forbidden": {func(string) (int, error) { return http.StatusForbidden, nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := &eventAPI{answer: c.answer}
			withReporter(t, api, func(r *Reporter, log *bytes.Buffer) {
				r.Report(edited("web"))
				time.Sleep(maxTries * retryPause)
				synctest.Wait()
				if len(api.requests) != c.tries || strings.Count(log.String(), "event not sent") != 1 {
					t.Errorf("%d tries, want %d; the log:\n%s", len(api.requests), c.tries, log)
				}
			})
		})
	}
}

// TestRecorder_Bounds sends more events than the queue and the table of sent events hold.
func TestRecorder_Bounds(t *testing.T) {
	api := &eventAPI{answer: func(string) (int, error) { return 0, syscall.ECONNREFUSED }}
	withReporter(t, api, func(r *Reporter, log *bytes.Buffer) {
		r.Report(edited("first"))
		synctest.Wait() // being sent
		for i := range queueSize {
			r.Report(edited(fmt.Sprint("web-", i)))
		}
		if log.Len() > 0 {
			t.Errorf("dropped too early:\n%s", log)
		}
		r.Report(edited("last"))
		if n := strings.Count(log.String(), "event dropped"); n != 1 {
			t.Errorf("%d dropped, want 1:\n%s", n, log)
		}
	})
	api = &eventAPI{}
	withReporter(t, api, func(r *Reporter, _ *bytes.Buffer) {
		for i := range maxSent + 1 {
			r.Report(edited(fmt.Sprint("web-", i)))
			synctest.Wait()
		}
		r.Report(edited("web-0")) // is forgotten
		synctest.Wait()
		if n := len(api.requests); n != maxSent+2 {
			t.Errorf("%d requests, want %d", n, maxSent+2)
		}
	})
}

func TestEventName(t *testing.T) {
	const time = 1_800_000_000_123_456_789
	for pod, want := range map[string]string{
		"web":                    "web.18fae2769b0fcd15",
		strings.Repeat("a", 236): strings.Repeat("a", 236) + ".18fae2769b0fcd15",
		strings.Repeat("a", 237): strings.Repeat("a", 236) + ".18fae2769b0fcd15",
		strings.Repeat("a", 234) + "-.b" + strings.Repeat("c", 16): strings.Repeat("a", 234) + ".18fae2769b0fcd15",
	} {
		got := eventName(pod, time)
		if got != want {
			t.Errorf("%s: got %s", pod, got)
		}
		if problems := validation.NameIsDNSSubdomain(got, false); problems != nil {
			t.Errorf("%s: %q", got, problems)
		}
	}
}

// TestRecorder_NoClient: a shim without a kubeconfig does not queue events.
func TestRecorder_NoClient(t *testing.T) {
	r := NewReporter(nil, "worker", slog.New(slog.DiscardHandler))
	for range queueSize + 1 {
		r.Report(edited("web"))
	}
	if n := len(r.events.queue); n != 0 {
		t.Errorf("%d events are queued", n)
	}
}

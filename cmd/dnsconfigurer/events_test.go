// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

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

// eventAPI is an API server without a socket that remembers what it is asked for.
type eventAPI struct {
	asked  []string
	bodies []string
	answer func(method string) (int, error) // nil: takes everything
}

func (a *eventAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
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

// withEvents runs test with a clock of its own and a reporter that sends to api.
func withEvents(t *testing.T, api *eventAPI, test func(r *reporter, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(&rest.Config{Host: "http://api.invalid", QPS: -1, Transport: api}, corev1.SchemeGroupVersion, &corev1.Event{})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		r := newReporter(c, "worker", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.run(ctx) }()
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

// namesOf leaves out of what was asked for the part of the events' names that is time.
func namesOf(asked []string) []string {
	var short []string
	for _, a := range asked {
		before, _, _ := strings.Cut(a, ".")
		short = append(short, before)
	}
	return short
}

// TestEvents follows an event that happens again and again.
func TestEvents(t *testing.T) {
	api := &eventAPI{}
	withEvents(t, api, func(r *reporter, _ *bytes.Buffer) {
		expect := func(what string, want ...string) {
			t.Helper()
			r.report(edited("web"))
			synctest.Wait()
			if diff := cmp.Diff(want, namesOf(api.asked)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			api.asked = nil
		}
		post, patch := "POST /api/v1/namespaces/shop/events", "PATCH /api/v1/namespaces/shop/events/web"
		expect("the first time", post)
		for _, part := range []string{eventConfigured, "nameserver 10.96.0.10", "uid-of-web", "worker"} {
			if !strings.Contains(api.bodies[0], part) {
				t.Errorf("the event lacks %q: %q", part, api.bodies[0])
			}
		}
		expect("at once again")
		time.Sleep(eventEvery - time.Nanosecond)
		expect("within the minute")
		time.Sleep(time.Nanosecond)
		expect("after it", patch)
		if last := api.bodies[len(api.bodies)-1]; !strings.Contains(last, `"count":4`) {
			t.Errorf("the event is raised by %s, want a count of 4", last)
		}
		api.answer = func(method string) (int, error) {
			if method == http.MethodPatch {
				return http.StatusNotFound, nil
			}
			return http.StatusOK, nil
		}
		time.Sleep(eventEvery)
		expect("when the API has forgotten it", patch, post)
	})
}

// TestEventsAreNotLost has an API that is away, and one that answers too late.
func TestEventsAreNotLost(t *testing.T) {
	tries := 0
	api := &eventAPI{answer: func(string) (int, error) {
		if tries++; tries < eventTries {
			return 0, syscall.ECONNREFUSED
		}
		return http.StatusConflict, nil // an earlier try came through
	}}
	withEvents(t, api, func(r *reporter, log *bytes.Buffer) {
		r.report(edited("web"))
		time.Sleep((eventTries - 1) * eventPause)
		synctest.Wait()
		if tries != eventTries || log.Len() > 0 {
			t.Errorf("%d tries, want %d; the log:\n%s", tries, eventTries, log)
		}
	})
}

// TestEventsGiveUp has an API that takes none. The log tells then.
func TestEventsGiveUp(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(string) (int, error)
		tries  int
	}{
		"away":      {func(string) (int, error) { return 0, syscall.ECONNREFUSED }, eventTries},
		"forbidden": {func(string) (int, error) { return http.StatusForbidden, nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := &eventAPI{answer: c.answer}
			withEvents(t, api, func(r *reporter, log *bytes.Buffer) {
				r.report(edited("web"))
				time.Sleep(eventTries * eventPause)
				synctest.Wait()
				if len(api.asked) != c.tries || strings.Count(log.String(), "the API did not take an event") != 1 {
					t.Errorf("%d tries, want %d; the log:\n%s", len(api.asked), c.tries, log)
				}
			})
		})
	}
}

// TestEventsAreBounded has more events than there is room for.
func TestEventsAreBounded(t *testing.T) {
	api := &eventAPI{answer: func(string) (int, error) { return 0, syscall.ECONNREFUSED }}
	withEvents(t, api, func(r *reporter, log *bytes.Buffer) {
		r.report(edited("first"))
		synctest.Wait() // it is being sent
		for i := range eventQueue {
			r.report(edited(fmt.Sprint("web-", i)))
		}
		if log.Len() > 0 {
			t.Errorf("dropped too early:\n%s", log)
		}
		r.report(edited("last"))
		if n := strings.Count(log.String(), "an event is dropped"); n != 1 {
			t.Errorf("%d dropped, want 1:\n%s", n, log)
		}
	})
	api = &eventAPI{}
	withEvents(t, api, func(r *reporter, _ *bytes.Buffer) {
		for i := range eventMemory + 1 {
			r.report(edited(fmt.Sprint("web-", i)))
			synctest.Wait()
		}
		r.report(edited("web-0")) // is not remembered
		synctest.Wait()
		if n := len(api.asked); n != eventMemory+2 {
			t.Errorf("asked %d times, want %d", n, eventMemory+2)
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

// TestEventsWithoutAPI is the shim without a kubeconfig.
func TestEventsWithoutAPI(t *testing.T) {
	r := newReporter(nil, "worker", slog.New(slog.DiscardHandler))
	for range eventQueue + 1 {
		r.report(edited("web"))
	}
	if n := len(r.events.queue); n != 0 {
		t.Errorf("%d events wait for nobody", n)
	}
}

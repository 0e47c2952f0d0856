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
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// eventAPI is an API server without a socket that records its requests.
type eventAPI struct {
	mu       sync.Mutex
	requests []string
	bodies   []string
	answer   func(method string) (int, error) // nil: 200
}

// count returns the number of bodies that contain a text.
func (a *eventAPI) count(text string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, body := range a.bodies {
		if strings.Contains(body, text) {
			n++
		}
	}
	return n
}

func (a *eventAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	a.bodies = append(a.bodies, string(body))
	a.mu.Unlock()
	code := http.StatusOK
	if a.answer != nil {
		if code, err = a.answer(r.Method); err != nil {
			return nil, err
		}
	}
	text := "{}"
	if code != http.StatusOK {
		reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusConflict: "AlreadyExists",
			http.StatusForbidden: "Forbidden"}[code]
		text = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// newReporter returns a reporter that sends to api and logs warnings.
func newReporter(t *testing.T, api *eventAPI, log io.Writer) *Reporter {
	t.Helper()
	c := must.Get(cluster.NewClient(&rest.Config{Host: "http://api.invalid", QPS: -1, Transport: api},
		corev1.SchemeGroupVersion, &corev1.Event{}))(t)
	return NewReporter(c, "worker", NewDrops(prometheus.NewRegistry()),
		slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// withReporter runs test in a bubble with a reporter that sends to api.
func withReporter(t *testing.T, api *eventAPI, test func(r *Reporter, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newReporter(t, api, &log)
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
	return cri.Report{Sandbox: cri.Sandbox{Namespace: "shop", Name: pod, UID: "uid-of-" + pod},
		Outcome: cri.Edited, DNS: resolvconf.Config{Nameservers: []string{"10.96.0.10"}}}
}

// dropped returns how many events were dropped for a reason.
func dropped(r *Reporter, reason dropReason) float64 {
	return testutil.ToFloat64(r.events.drops.dropped.WithLabelValues(string(reason)))
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
				if len(api.requests) != c.tries || strings.Count(log.String(), "events not sent") != 1 {
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
		r.Report(edited("second"))
		synctest.Wait() // both wait in the queue after a call without a reply
		for i := range queueSize - 2 {
			r.Report(edited(fmt.Sprint("web-", i)))
		}
		if log.Len() > 0 {
			t.Errorf("dropped too early:\n%s", log)
		}
		r.Report(edited("last"))
		if n := strings.Count(log.String(), "events not sent"); n != 1 || dropped(r, dropQueueFull) != 1 {
			t.Errorf("%v dropped, %d lines, want 1:\n%s", dropped(r, dropQueueFull), n, log)
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
	r := NewReporter(nil, "worker", NewDrops(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	for range queueSize + 1 {
		r.Report(edited("web"))
	}
	if n := len(r.events.queue); n != 0 {
		t.Errorf("%d events are queued", n)
	}
}

// TestRecorder_OneWithoutReply: an event to which the API server never replies does not
// delay the others, before and after its repetitions.
func TestRecorder_OneWithoutReply(t *testing.T) {
	api := &eventAPI{}
	api.answer = func(string) (int, error) {
		if strings.Contains(api.bodies[len(api.bodies)-1], "uid-of-bad") {
			return 0, syscall.ETIMEDOUT
		}
		return http.StatusOK, nil
	}
	withReporter(t, api, func(r *Reporter, _ *bytes.Buffer) {
		r.Report(edited("bad"))
		for tries := 1; tries <= maxTries; tries++ {
			synctest.Wait()
			for i := range 20 {
				r.Report(edited(fmt.Sprintf("web%d-%d", tries, i)))
			}
			synctest.Wait()
			if web, bad := api.count(fmt.Sprintf("uid-of-web%d-", tries)), api.count("uid-of-bad"); web != 20 || bad != tries {
				t.Errorf("after %d tries: %d events sent at once, want 20; %d calls for the other one", tries, web, bad)
			}
			time.Sleep(retryPause)
		}
	})
}

// TestRecorder_End ends while events wait, and the API server is well or away. Events that
// are not sent are counted and logged.
func TestRecorder_End(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(string) (int, error)
		dropped float64
		reason  dropReason
		took    time.Duration
	}{
		"well": {nil, 0, dropNoReply, 0},
		"away": {func(string) (int, error) { return 0, syscall.ECONNREFUSED }, 5, dropNoReply, 0},
		"slow": {func(string) (int, error) {
			time.Sleep(2 * endTimeout) // the transport of a test does not obey the context
			return 0, context.DeadlineExceeded
		}, 4, dropStopped, 2 * endTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &eventAPI{answer: c.answer}
				var log bytes.Buffer
				r := newReporter(t, api, &log)
				for i := range 5 {
					r.Report(edited(fmt.Sprint("web-", i)))
				}
				ctx, stop := context.WithCancel(t.Context())
				stop()
				began := time.Now()
				if err := r.Run(ctx); err != nil || time.Since(began) != c.took {
					t.Errorf("ended after %v, %v", time.Since(began), err)
				}
				if n := dropped(r, c.reason); n != c.dropped || (n > 0) != strings.Contains(log.String(), "events not sent") {
					t.Errorf("%v dropped, want %v:\n%s", n, c.dropped, &log)
				}
			})
		})
	}
}

// TestDrops_OncePerMinute drops an event every second: the log has their number once a
// minute.
func TestDrops_OncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		d := NewDrops(prometheus.NewRegistry())
		for range 150 {
			d.add(logger, dropQueueFull, 1, nil)
			time.Sleep(time.Second)
		}
		d.flush(logger)
		d.flush(logger)
		if n := strings.Count(log.String(), "\n"); n != 4 || strings.Count(log.String(), "count=60") != 2 ||
			!strings.Contains(log.String(), "count=29") {
			t.Errorf("%d lines, want 4:\n%s", n, &log)
		}
	})
}

// lineLengths is a log that keeps the length of the longest line only.
type lineLengths struct{ longest int }

func (l *lineLengths) Write(line []byte) (int, error) {
	l.longest = max(l.longest, len(line))
	return len(line), nil
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

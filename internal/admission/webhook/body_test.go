// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// slowPost starts a request whose body has a length and does not arrive before release is called.
func slowPost(h http.Handler, length int64) (code <-chan int, release func()) {
	body, send := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, webhook.PathValidate, body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = length
	done := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		done <- w.Code
	}()
	return done, func() { _ = send.Close() }
}

// TestHandler_InFlight: reviews wait for the memory of others for one second, and are refused
// then. Small reviews do not wait for large ones.
func TestHandler_InFlight(t *testing.T) {
	const mib = 1 << 20
	for name, first := range map[string][]int64{
		"8 MiB":          {4 * mib, 4 * mib},
		"the largest":    {webhook.MaxBody},
		"unknown length": {-1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				metrics := prometheus.NewRegistry()
				h := newHandler(t, metrics)
				var releases []func()
				var codes []<-chan int
				for _, n := range first {
					code, release := slowPost(h, n)
					releases, codes = append(releases, release), append(codes, code)
				}
				synctest.Wait()
				start := time.Now()
				code, release := slowPost(h, 65<<10) // the smallest of the large
				if w := post(h, webhook.PathValidate, []byte("{}")); w.Code != http.StatusBadRequest || time.Since(start) != 0 {
					t.Errorf("a small review: %d after %v", w.Code, time.Since(start))
				}
				if got := <-code; got != http.StatusServiceUnavailable || time.Since(start) != time.Second {
					t.Errorf("a large review: %d after %v", got, time.Since(start))
				}
				release()
				const want = `dnsconfigurer_admission_requests_total{code="503",endpoint="validate",operation="none",verdict="none"} 1`
				if got := gathered(t, metrics); !strings.Contains(got, want) {
					t.Errorf("not counted: %s", got)
				}
				code, release = slowPost(h, 65<<10)
				synctest.Wait()
				for i := range releases {
					releases[i]()
					<-codes[i]
				}
				synctest.Wait()
				release()
				if got := <-code; got != http.StatusBadRequest { // read, and not a review
					t.Errorf("after the others have ended: %d", got)
				}
			})
		})
	}
}

// gathered returns the metrics in text form, without their comments.
func gathered(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families := must.Get(g.Gather())(t)
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			fmt.Fprintf(&b, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue())
		}
	}
	return b.String()
}

// TestHandler_BodyLength: a body that is longer than its limit is refused before it is read, and
// one that ends early is an error.
func TestHandler_BodyLength(t *testing.T) {
	h := newHandler(t, nil)
	code, release := slowPost(h, webhook.MaxBody+1)
	if got := <-code; got != http.StatusRequestEntityTooLarge {
		t.Errorf("too long: %d", got)
	}
	release()
	code, release = slowPost(h, 100)
	release()
	if got := <-code; got != http.StatusBadRequest {
		t.Errorf("cut short: %d", got)
	}
}

// lastRead calls ended when the text has been read.
type lastRead struct {
	io.Reader
	ended func()
}

func (r lastRead) Read(p []byte) (n int, err error) {
	n, err = r.Reader.Read(p)
	if n > 0 {
		r.ended()
	}
	return n, err
}

// TestHandler_Canceled: the rules end when the client has gone, here while its review is read.
func TestHandler_Canceled(t *testing.T) {
	metrics := prometheus.NewRegistry()
	h := newHandler(t, metrics)
	body := largeReview(t, 100, map[string]string{"name": "a"})
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, webhook.PathValidate, lastRead{bytes.NewReader(body), cancel})
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(body))
	h.ServeHTTP(httptest.NewRecorder(), r)
	const want = `dnsconfigurer_admission_requests_total{code="200",endpoint="validate",operation="CREATE",verdict="unread"} 1`
	if got := gathered(t, metrics); !strings.Contains(got, want) {
		t.Errorf("want %s:\n%s", want, got)
	}
}

// largeReview is the review of a pod with n options of one text, and an FQDN that is too long.
func largeReview(t testing.TB, n int, option map[string]string) []byte {
	t.Helper()
	options := make([]map[string]string, n)
	for i := range options {
		options[i] = option
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]string{"name": "checkout-worker-0", "namespace": "payments-production"},
		"spec": map[string]any{"subdomain": "checkout-workers", "setHostnameAsFQDN": true, "dnsConfig": map[string]any{"options": options}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newReview(t, "CREATE", object)
}

// TestHandler_Large: replies and lines of the log are bounded, also those with texts that have more
// bytes in JSON. The verdict is that of a pod with one option.
func TestHandler_Large(t *testing.T) {
	for name, body := range map[string][]byte{
		"newlines":     largeReview(t, 40_000, map[string]string{"name": "a\nb"}),
		"unknown":      largeReview(t, 150_000, map[string]string{"name": "a"}),
		"bad values":   largeReview(t, 60_000, map[string]string{"name": "ndots", "value": "x"}),
		"quotes":       largeReview(t, 1_000, map[string]string{"name": "ndots", "value": strings.Repeat(`"`, 100)}),
		"backslashes":  largeReview(t, 1_000, map[string]string{"name": "edns0", "value": strings.Repeat(`\`, 100)}),
		"brackets":     largeReview(t, 1_000, map[string]string{"name": strings.Repeat("<", 100)}),
		"in brackets":  largeReview(t, 1_000, map[string]string{"name": strings.Repeat("<", 100) + "\n"}),
		"wide":         largeReview(t, 1_000, map[string]string{"name": strings.Repeat("\U0001F600", 100)}),
		"separators":   largeReview(t, 1_000, map[string]string{"name": strings.Repeat("\u2028", 100) + "\n"}),
		"a long value": largeReview(t, 1, map[string]string{"name": strings.Repeat("\n", 1<<20) + strings.Repeat("é", 400_000)}),
	} {
		for _, denyOn := range []admission.DenyOn{admission.DenyOnError, admission.DenyOnWarning} {
			var log bytes.Buffer
			h := webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t), Report: admission.Report{DenyOn: denyOn},
				Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			w := post(h, webhook.PathValidate, body)
			size := w.Body.Len()
			r := parseResponse(t, w)
			if r.Allowed || !strings.Contains(r.Result.Message,
				"FQDN checkout-worker-0.checkout-workers.payments-production.svc.cluster.local would be 72 characters") {
				t.Errorf("%s, %s: %+v", name, denyOn, r)
			}
			if len(r.Result.Message) > 4<<10 || size > 8<<10 || log.Len() > 1<<10 || log.Len() == 0 {
				t.Errorf("%s, %s: a message of %d bytes in a reply of %d, a log line of %d",
					name, denyOn, len(r.Result.Message), size, log.Len())
			}
		}
	}
}

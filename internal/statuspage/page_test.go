// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package statuspage_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/statuspage"
)

// testRegistry has a metric of each type.
func testRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "dnsconfigurer_build_info", ConstLabels: prometheus.Labels{"version": "v1.2.3"}})
	queries := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dnsconfigurer_dns_queries_total", Help: "Queries."},
		[]string{"rcode"})
	queries.WithLabelValues("NOERROR").Add(41)
	queries.WithLabelValues("REFUSED").Add(0)
	queries.WithLabelValues("<b>").Inc()
	cache := prometheus.NewGauge(prometheus.GaugeOpts{Name: "dnsconfigurer_dns_cache_bytes", Help: "Memory."})
	cache.Set(1536)
	duration := prometheus.NewHistogram(
		prometheus.HistogramOpts{Name: "dnsconfigurer_dns_query_duration_seconds", Help: "Time.", Buckets: []float64{0.001, 0.01}})
	for range 98 {
		duration.Observe(0.0005)
	}
	duration.Observe(0.005)
	duration.Observe(0.005)
	r.MustRegister(info, queries, cache, duration)
	return r
}

// render returns the page as a client on the same machine gets it.
func render(t *testing.T, p *statuspage.Page) string {
	t.Helper()
	return renderFor(t, p, "127.0.0.1:1234")
}

func renderFor(t *testing.T, p *statuspage.Page, client string) string {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = client
	p.ServeHTTP(w, r)
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("Content-Security-Policy is %q", policy)
	}
	return w.Body.String()
}

func ready() ([]string, error) { return nil, nil }

// TestPage_Metrics: values are shown in the units of a reader, in the section of their subject.
func TestPage_Metrics(t *testing.T) {
	page := render(t, &statuspage.Page{Metrics: testRegistry(), Ready: ready})
	for _, want := range []string{
		"<title>dnsconfigurer v1.2.3</title>",
		"<p class=\"good\">ready</p>",
		"<tr><td>rcode=NOERROR</td><td>41</td></tr>\n<tr><td>rcode=&lt;b&gt;</td><td>1</td></tr>\n" +
			"<tr class=\"zero\"><td>1 other series</td><td>0</td></tr>",
		"<h2>Cache</h2>\n<table class=\"metrics\">\n" +
			"<tr class=\"name\"><th>Memory. <code>dnsconfigurer_dns_cache_bytes</code></th><td>1.5 KiB</td></tr>",
		"100, mean 590µs, median at most 1ms, 99 % at most 10ms",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

// TestPage_NotReady: the reason and the details are on the page.
func TestPage_NotReady(t *testing.T) {
	p := &statuspage.Page{Metrics: prometheus.NewRegistry(), Ready: func() ([]string, error) {
		return []string{"namespaces: <not> synced"}, errors.New("no sync & no snapshot")
	}}
	page := render(t, p)
	for _, want := range []string{"<p class=\"bad\">not ready: no sync &amp; no snapshot</p>", "<li>namespaces: &lt;not&gt; synced</li>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

// TestPage_Self: the page loads nothing and runs nothing, whatever a pod's author has written
// into the log, and its elements are closed.
func TestPage_Self(t *testing.T) {
	log := slog.New(statuspage.Record(slog.DiscardHandler))
	for _, text := range []string{"<script>alert(1)</script>", `"><img src=x onerror=y>`, "</td></table>", "\x00\x1b[2J", "&lt;"} {
		log.Warn("pod refused", "name", text)
	}
	page := render(t, &statuspage.Page{Metrics: testRegistry(), Ready: ready, Problems: statuspage.ProblemsOf(log)})
	for _, forbidden := range []string{"<script", "<img", "src=", "url(", "http://", "https://", "@import"} {
		if strings.Contains(strings.ReplaceAll(page, "src=x", ""), forbidden) {
			t.Errorf("the page contains %s:\n%s", forbidden, page)
		}
	}
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta"}, xml.HTMLEntity
	depth := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	if depth != 0 {
		t.Errorf("%d elements are not closed", depth)
	}
}

// TestPage_Remote: clients of other machines, such as pods, see the number of problems only.
func TestPage_Remote(t *testing.T) {
	log := slog.New(statuspage.Record(slog.DiscardHandler))
	log.Error("lookup failed", "pod", "bank/vault-0")
	page := &statuspage.Page{Metrics: testRegistry(), Ready: ready, Problems: statuspage.ProblemsOf(log)}
	for client, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"10.0.0.9:1": false, "[2001:db8::1]:1": false, "": false,
	} {
		text := renderFor(t, page, client)
		if got := strings.Contains(text, "bank/vault-0"); got != want {
			t.Errorf("client %q: problems are shown: %v, want %v", client, got, want)
		}
		if !want && !strings.Contains(text, "1 different warnings and errors") {
			t.Errorf("client %q does not see the number of problems", client)
		}
	}
}

// TestProblems_Bounded: a repeated problem is counted, and the oldest ones are dropped.
func TestProblems_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(statuspage.Record(slog.DiscardHandler))
		problems := statuspage.ProblemsOf(log)
		log.Info("not a problem")
		log.Error("first")
		for i := range 100 {
			log.With("node", "a").WithGroup("pod").Warn("refused", "number", i, "text", strings.Repeat("x", 1<<16))
			time.Sleep(time.Second)
		}
		log.Warn("twice")
		log.Info("between")
		log.Warn("twice")
		list := problems.List()
		if len(list) != 32 {
			t.Fatalf("%d problems, want 32", len(list))
		}
		if last := list[0]; last.Text != "twice" || last.Count != 2 || last.Level != slog.LevelWarn || !last.Time.Equal(time.Now()) {
			t.Errorf("last problem %+v", last)
		}
		if !strings.HasPrefix(list[1].Text, "refused node=a pod.number=99 pod.text=xxx") || len(list[1].Text) > 512 {
			t.Errorf("problem before has %d bytes: %q", len(list[1].Text), list[1].Text)
		}
	})
}

// TestRecord_Passes: the log is as it would be without Record.
func TestRecord_Passes(t *testing.T) {
	var got, want strings.Builder
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	for _, log := range []*slog.Logger{
		slog.New(statuspage.Record(slog.NewTextHandler(&got, options))), slog.New(slog.NewTextHandler(&want, options)),
	} {
		log.With("a", 1).WithGroup("g").With("b", 2).Error("failed", "error", fmt.Errorf("x"))
		log.Debug("hidden")
	}
	if got.String() != want.String() || want.Len() == 0 {
		t.Errorf("log is %q, want %q", got.String(), want.String())
	}
}

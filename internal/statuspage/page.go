// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package statuspage

import (
	"bytes"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

//go:embed page.html
var files embed.FS

// contentSecurityPolicy lets a browser load and run nothing, should a text ever get out of its
// place.
const contentSecurityPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Page is the status page of a server. It is an http.Handler.
type Page struct {
	Metrics prometheus.Gatherer

	// Ready returns an error if the server is not ready, and details.
	Ready func() (details []string, err error)

	Problems *Problems // nil: not known
	Started  time.Time
}

// view is the data of page.html.
type view struct {
	Version           string
	NotReady          string // why; "": ready
	Started, Age, Now string
	Details           []string
	Incomplete        string // why metrics are missing; "": none is
	HasProblems       bool   // problems are known
	Problems          []problemView
	Hidden            int // problems that the client must not read
	LastProblem       string
	Sections          []sectionView
}

type problemView struct {
	Age, Level, Text string
	Count            int
	IsError          bool
}

// ServeHTTP writes the page. The texts of problems may have names of pods and servers, so only
// clients on this machine see them, and those of `kubectl port-forward`.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, _ := netip.ParseAddrPort(r.RemoteAddr) // not a loopback address if it fails
	var b bytes.Buffer
	t, err := template.ParseFS(files, "page.html")
	if err == nil {
		err = t.Execute(&b, p.view(client.Addr().Unmap().IsLoopback()))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // the client is gone if it fails
}

// view returns the state of now. local reports whether the client may read the problems.
func (p *Page) view(local bool) view {
	now := time.Now()
	families, err := p.Metrics.Gather()
	v := view{
		Version: versionIn(families), Sections: arrange(families),
		Started: p.Started.UTC().Format(time.RFC3339), Age: age(now, p.Started), Now: now.UTC().Format(time.RFC3339),
		HasProblems: p.Problems != nil,
	}
	if err != nil {
		v.Incomplete = err.Error()
	}
	details, err := p.Ready()
	if err != nil {
		v.NotReady = printable(err.Error())
	}
	for _, d := range details {
		v.Details = append(v.Details, printable(d))
	}
	if p.Problems != nil {
		v.setProblems(p.Problems.List(), now, local)
	}
	return v
}

func (v *view) setProblems(problems []Problem, now time.Time, local bool) {
	if len(problems) > 0 && !local {
		v.Hidden, v.LastProblem = len(problems), age(now, problems[0].Time)
		return
	}
	for _, q := range problems {
		v.Problems = append(v.Problems, problemView{
			Age: age(now, q.Time), Level: q.Level.String(), Text: printable(q.Text), Count: q.Count, IsError: q.Level >= slog.LevelError,
		})
	}
}

func age(now, t time.Time) string { return seconds(now.Sub(t).Seconds()) }

// versionIn returns the version of the server.
func versionIn(families []*dto.MetricFamily) string {
	for _, f := range families {
		if f.GetName() != namespace+"build_info" {
			continue
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			if l.GetName() == "version" {
				return l.GetValue()
			}
		}
	}
	return ""
}

// printable returns s with each character replaced that is not visible: some change the order
// in which a browser shows text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

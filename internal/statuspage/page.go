// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package statuspage

import (
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Page is the status page of a server. It is an http.Handler.
type Page struct {
	Metrics prometheus.Gatherer

	// Ready returns an error if the server is not ready, and details.
	Ready func() (details []string, err error)

	Problems *Problems // nil: not known
	Started  time.Time
}

// style has no colors of text and background: the browser's are right for light and dark.
const style = `
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 60rem; padding: 0 1rem; }
h1 small { font-weight: normal; }
h2 { margin: 1.6rem 0 .4rem; font-size: 1.15rem; }
table { border-collapse: collapse; width: 100%; }
td, th { padding: .15rem .6rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
tr { border-bottom: 1px solid #8884; }
table.metrics td:last-child { width: 45%; }
tr.name > * { padding-top: .7rem; }
tr.name th { font-weight: 600; }
tr.name code { font-weight: normal; opacity: .7; }
tr.zero { opacity: .6; }
td:last-child { font-variant-numeric: tabular-nums; }
.good, .bad { border-left: .4rem solid; padding: .2rem .6rem; }
.good { border-color: #2a8a3e; }
.bad { border-color: #c0392b; }
`

// ServeHTTP writes the page. The texts of problems may have names of pods and servers, so only
// clients on this machine see them, and those of `kubectl port-forward`.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cache-Control", "no-store")
	families, err := p.Metrics.Gather()
	var b strings.Builder
	client, _ := netip.ParseAddrPort(r.RemoteAddr) // not a loopback address if it fails
	p.write(&b, families, err, client.Addr().Unmap().IsLoopback())
	_, _ = io.WriteString(w, b.String()) // the client is gone if it fails
}

func (p *Page) write(b *strings.Builder, families []*dto.MetricFamily, gathering error, local bool) {
	now := time.Now()
	version := versionIn(families)
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"+
		"<title>dnsconfigurer %s</title>\n<style>%s</style>\n</head>\n<body>\n", html.EscapeString(version), style)
	fmt.Fprintf(b, "<h1>dnsconfigurer <small>%s</small></h1>\n", html.EscapeString(version))
	p.writeState(b, now)
	if gathering != nil {
		fmt.Fprintf(b, "<p class=\"bad\">Some metrics are missing: %s</p>\n", html.EscapeString(gathering.Error()))
	}
	if p.Problems != nil {
		b.WriteString("<h2>Recent problems</h2>\n")
		writeProblems(b, p.Problems.List(), now, local)
	}
	for i, metrics := range arrange(families) {
		if len(metrics) > 0 {
			writeSection(b, sections[i].title, metrics)
		}
	}
	b.WriteString("<p>All values are since the start of the server. The same as text for monitoring: <a href=\"/metrics\">/metrics</a>.</p>\n</body>\n</html>\n")
}

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

// writeState writes whether the server is ready, since when it runs, and details.
func (p *Page) writeState(b *strings.Builder, now time.Time) {
	details, err := p.Ready()
	if err == nil {
		b.WriteString("<p class=\"good\">ready</p>\n")
	} else {
		fmt.Fprintf(b, "<p class=\"bad\">not ready: %s</p>\n", html.EscapeString(err.Error()))
	}
	fmt.Fprintf(b, "<p>Started %s, %s ago. This page: %s.</p>\n", p.Started.UTC().Format(time.RFC3339), seconds(now.Sub(p.Started).Seconds()), now.UTC().Format(time.RFC3339))
	if len(details) == 0 {
		return
	}
	b.WriteString("<ul>\n")
	for _, d := range details {
		fmt.Fprintf(b, "<li>%s</li>\n", html.EscapeString(printable(d)))
	}
	b.WriteString("</ul>\n")
}

// printable returns s with each character that HTML does not allow replaced.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// writeProblems writes the problems, or only their number if local is false.
func writeProblems(b *strings.Builder, problems []Problem, now time.Time, local bool) {
	switch {
	case len(problems) == 0:
		b.WriteString("<p>The log has no warning and no error.</p>\n")
		return
	case !local:
		fmt.Fprintf(b, "<p>%d different warnings and errors in the log; the last %s ago. To read them here, open this page on the machine of the server or through <code>kubectl port-forward</code>.</p>\n",
			len(problems), seconds(now.Sub(problems[0].Time).Seconds()))
		return
	}
	b.WriteString("<table>\n<tr><th>last</th><th>level</th><th>count</th><th>message</th></tr>\n")
	for _, q := range problems {
		class := ""
		if q.Level >= slog.LevelError {
			class = " class=\"bad\""
		}
		fmt.Fprintf(b, "<tr%s><td>%s ago</td><td>%s</td><td>%d</td><td>%s</td></tr>\n", class, seconds(now.Sub(q.Time).Seconds()), q.Level, q.Count, html.EscapeString(printable(q.Text)))
	}
	b.WriteString("</table>\n")
}

// writeSection writes a table of metrics. Series that are zero are counted only.
func writeSection(b *strings.Builder, title string, metrics []metric) {
	fmt.Fprintf(b, "<h2>%s</h2>\n<table class=\"metrics\">\n", html.EscapeString(title))
	for _, m := range metrics {
		title := fmt.Sprintf("%s <code>%s</code>", html.EscapeString(m.help), html.EscapeString(m.name))
		if len(m.rows) == 1 && m.rows[0].labels == "" {
			fmt.Fprintf(b, "<tr class=\"name\"><th>%s</th><td>%s</td></tr>\n", title, html.EscapeString(m.rows[0].value))
			continue
		}
		fmt.Fprintf(b, "<tr class=\"name\"><th colspan=\"2\">%s</th></tr>\n", title)
		zeros := 0
		for _, r := range m.rows {
			if r.zero {
				zeros++
				continue
			}
			fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td></tr>\n", html.EscapeString(r.labels), html.EscapeString(r.value))
		}
		switch zeros {
		case 0:
		case len(m.rows):
			fmt.Fprintf(b, "<tr class=\"zero\"><td>all %d series</td><td>0</td></tr>\n", zeros)
		default:
			fmt.Fprintf(b, "<tr class=\"zero\"><td>%d other series</td><td>0</td></tr>\n", zeros)
		}
	}
	b.WriteString("</table>\n")
}

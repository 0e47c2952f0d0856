// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const formatHTML = "html"

// WriteDoctor writes what is wrong with the DNS of a cluster, as text, json or html. head are the first lines of a page:
// the cluster, the time and the program.
func WriteDoctor(w io.Writer, format string, r v1alpha1.DoctorResult, head ...string) error {
	switch format {
	case formatJSON:
		return WriteJSON(w, r)
	case formatHTML:
		return writeDoctorPage(w, r, head)
	}
	var b strings.Builder
	for _, f := range r.Findings {
		writeDoctorFinding(&b, f)
	}
	if r.Pod != nil {
		writeDoctorPod(&b, *r.Pod)
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(&b, "not checked: %s\n", visible(strings.Join(n.Checks, ", ")))
		fmt.Fprintf(&b, "  why:      %s\n", visible(n.Why))
	}
	b.WriteString(doctorSummary(r) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func writeDoctorFinding(b *strings.Builder, f v1alpha1.DoctorFinding) {
	fmt.Fprintf(b, "%s: %s: %s (%s)\n", f.Severity, visible(f.Object), visible(f.Message), f.Code)
	label := "evidence:"
	for _, e := range f.Evidence {
		fmt.Fprintf(b, "  %-9s %s\n", label, visible(e))
		label = ""
	}
	fmt.Fprintf(b, "  cause:    %s\n", visible(f.Cause))
	fmt.Fprintf(b, "  next:     %s\n", visible(f.Next))
	if f.More > 0 {
		fmt.Fprintf(b, "  and %d more with the code %s\n", f.More, f.Code)
	}
	b.WriteByte('\n')
}

func writeDoctorPod(b *strings.Builder, p v1alpha1.DoctorPod) {
	fmt.Fprintf(b, "Pod %s, dnsPolicy %s", visible(p.Namespace+"/"+p.Name), visible(p.Policy))
	if p.Hostname != "" {
		fmt.Fprintf(b, ", host name %s", visible(p.Hostname))
	}
	if p.FQDN != "" {
		fmt.Fprintf(b, ", FQDN %s", visible(p.FQDN))
	}
	b.WriteByte('\n')
	for line := range strings.Lines(p.ResolvConf) {
		fmt.Fprintf(b, "  %s\n", visible(strings.TrimSuffix(line, "\n")))
	}
	for _, note := range p.Notes {
		fmt.Fprintf(b, "  note: %s\n", visible(note))
	}
	b.WriteByte('\n')
}

// doctorSummary is the last line: how many checks did what.
func doctorSummary(r v1alpha1.DoctorResult) string {
	bySeverity, notChecked, replies := map[string]int{}, 0, 0
	for _, f := range r.Findings {
		bySeverity[f.Severity] += 1 + f.More
	}
	for _, n := range r.NotChecked {
		notChecked += len(n.Checks)
	}
	for _, p := range r.Probes {
		if p.RCode != "" {
			replies++
		}
	}
	return fmt.Sprintf("errors: %d, warnings: %d, notes: %d; checks passed: %d, not checked: %d; queries with a reply: %d of %d",
		bySeverity["error"], bySeverity["warning"], bySeverity["info"], r.Passed, notChecked, replies, len(r.Probes))
}

//go:embed doctor.html
var doctorPage embed.FS

const (
	chartWidth = 240 // pixels of the timeline

	// maxBars bounds the page: with 16 servers there are about 100 probes.
	maxBars = 500
)

// bar is a probe in the timeline.
type bar struct {
	v1alpha1.DoctorProbe
	X, Width int // pixels
	Label    string
	Millis   string
}

// page is the data of doctor.html.
type page struct {
	v1alpha1.DoctorResult
	Head       []string
	Summary    string
	Bars       []bar
	MoreProbes int // without a bar
	Width      int
}

// writeDoctorPage writes a page without scripts and other files, so that it can be attached to
// an incident. html/template escapes the texts, which authors of objects control; invisible characters
// are escaped because some change the order in which a browser shows text.
func writeDoctorPage(w io.Writer, r v1alpha1.DoctorResult, head []string) error {
	t, err := template.ParseFS(doctorPage, "doctor.html")
	if err != nil {
		return fmt.Errorf("the page of doctor: %w", err)
	}
	p := page{DoctorResult: r, Head: head, Summary: doctorSummary(r), Bars: bars(r.Probes), Width: chartWidth}
	p.MoreProbes = len(r.Probes) - len(p.Bars)
	var b strings.Builder
	if err := t.Execute(&b, p); err != nil {
		return err
	}
	_, err = io.WriteString(w, visibleLines(b.String()))
	return err
}

func bars(probes []v1alpha1.DoctorProbe) (list []bar) {
	probes = probes[:min(len(probes), maxBars)]
	end := int64(1)
	for _, p := range probes {
		end = max(end, p.StartMicros+p.Micros)
	}
	for _, p := range probes {
		b := bar{DoctorProbe: p, X: int(p.StartMicros * chartWidth / end), Millis: fmt.Sprintf("%.1f ms", float64(p.Micros)/1000)}
		b.Width = max(2, int(p.Micros*chartWidth/end))
		b.Label = p.RCode
		if p.RCode == "" {
			b.Label = "no reply: " + p.Error
		}
		list = append(list, b)
	}
	return list
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

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
	Summary    string
	Bars       []bar
	MoreProbes int // without a bar
	Width      int
}

// writeDoctorPage writes a page without scripts and other files, so that it can be attached to
// an incident. html/template escapes the texts, which authors of objects control.
func writeDoctorPage(w io.Writer, r v1alpha1.DoctorResult) error {
	t, err := template.ParseFS(doctorPage, "doctor.html")
	if err != nil {
		return fmt.Errorf("the page of doctor: %w", err)
	}
	p := page{DoctorResult: visibleResult(r), Summary: doctorSummary(r), Width: chartWidth}
	p.Bars = bars(p.Probes)
	p.MoreProbes = len(r.Probes) - len(p.Bars)
	return t.Execute(w, p)
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

// visibleResult returns r with invisible characters escaped: some change the order in which a
// browser shows text.
func visibleResult(r v1alpha1.DoctorResult) v1alpha1.DoctorResult {
	findings := make([]v1alpha1.DoctorFinding, len(r.Findings))
	for i, f := range r.Findings {
		f.Object, f.Message, f.Evidence = visible(f.Object), visible(f.Message), visibleAll(f.Evidence)
		f.Cause, f.Next = visible(f.Cause), visible(f.Next)
		findings[i] = f
	}
	notChecked := make([]v1alpha1.DoctorNotChecked, len(r.NotChecked))
	for i, n := range r.NotChecked {
		notChecked[i] = v1alpha1.DoctorNotChecked{Checks: n.Checks, Why: visible(n.Why)}
	}
	probes := make([]v1alpha1.DoctorProbe, len(r.Probes))
	for i, p := range r.Probes {
		p.Name, p.Error, p.Answers = visible(p.Name), visible(p.Error), visibleAll(p.Answers)
		probes[i] = p
	}
	r.Findings, r.NotChecked, r.Probes = findings, notChecked, probes
	if r.Pod != nil {
		pod := *r.Pod
		pod.Name, pod.Policy, pod.Notes = visible(pod.Name), visible(pod.Policy), visibleAll(pod.Notes)
		pod.Hostname, pod.FQDN = visible(pod.Hostname), visible(pod.FQDN)
		lines := visibleAll(strings.Split(pod.ResolvConf, "\n"))
		pod.ResolvConf = strings.Join(lines, "\n")
		r.Pod = &pod
	}
	return r
}

func visibleAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = visible(s)
	}
	return out
}

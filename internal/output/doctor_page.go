// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"embed"
	"fmt"
	"html/template"
	"io"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

//go:embed doctor.html
var doctorPage embed.FS

const (
	chartWidth = 700 // pixels of the timeline
	rowHeight  = 18

	// maxBars bounds the page: with 16 servers there are about 100 probes.
	maxBars = 500
)

// bar is a probe in the timeline.
type bar struct {
	v1alpha1.DoctorProbe
	X, Y, Width int // pixels
	Label       string
	Millis      string
}

// page is the data of doctor.html.
type page struct {
	v1alpha1.DoctorResult
	Summary       string
	Bars          []bar
	Width, Height int
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
	p.Height = len(p.Bars) * rowHeight
	return t.Execute(w, p)
}

func bars(probes []v1alpha1.DoctorProbe) (list []bar) {
	probes = probes[:min(len(probes), maxBars)]
	end := int64(1)
	for _, p := range probes {
		end = max(end, p.StartMicros+p.Micros)
	}
	for i, p := range probes {
		b := bar{DoctorProbe: p, X: int(p.StartMicros * chartWidth / end), Y: i * rowHeight, Millis: fmt.Sprintf("%.1f ms", float64(p.Micros)/1000)}
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
	out := r
	out.Findings = make([]v1alpha1.DoctorFinding, len(r.Findings))
	for i, f := range r.Findings {
		f.Object, f.Message, f.Cause, f.Next = visible(f.Object), visible(f.Message), visible(f.Cause), visible(f.Next)
		f.Evidence = visibleAll(f.Evidence)
		out.Findings[i] = f
	}
	return out
}

func visibleAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = visible(s)
	}
	return out
}

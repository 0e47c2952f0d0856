// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const formatHTML = "html"

// DoctorFormats are the formats of WriteDoctor.
var DoctorFormats = []string{formatText, formatJSON, formatHTML}

// WriteDoctor writes what is wrong with the DNS of a cluster, in one of DoctorFormats.
func WriteDoctor(w io.Writer, format string, r v1alpha1.DoctorResult) error {
	switch format {
	case formatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case formatHTML:
		return writeDoctorPage(w, r)
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
	for i, e := range f.Evidence {
		label := "evidence:"
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(b, "  %-9s %s\n", label, visible(e))
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// validate judges the object by the rules.
func (h *Handler) validate(ctx context.Context, q request) (answer, error) {
	if q.isScale() {
		return h.scale(ctx, q)
	}
	w, known, err := kube.ParseAdmissionObject(q.apiVersion(), q.Kind.Kind, q.Object)
	if !known || err != nil {
		return answer{verdict: verdictPassed}, err
	}
	o := objectOf(w, q)
	return verdictOn(o, h.rules.Load().Check(o)), nil
}

// objectOf returns w as the rules see it.
func objectOf(w kube.Workload, q request) admission.Object {
	o := admission.Object{Kind: w.Kind, Name: w.Name, Operation: q.Operation, Pod: kube.FromPod(w.Pod), Ordinal: w.Ordinals.Base != ""}
	o.Pod.Path = w.Path
	if o.Pod.Namespace == "" {
		o.Pod.Namespace = q.Namespace
	}
	return o
}

// verdictOn is what is answered when this was found in o.
func verdictOn(o admission.Object, found []policy.Finding) answer {
	v := admission.NewVerdict(o, found)
	a := answer{verdict: verdictAllowed, denied: printable(v.Denied), warnings: warnings(v.Warnings)}
	for _, f := range found {
		a.findings = append(a.findings, f.Code)
	}
	switch {
	case a.denied != "":
		a.verdict = verdictDenied
	case a.warnings != nil:
		a.verdict = verdictWarned
	}
	return a
}

// Limits of warnings, in characters. An API server cuts warnings at 256 characters when
// all together have more than 4096, and passes over the rest
// (apiserver/pkg/endpoints/filters/warning.go); AdmissionResponse.warnings asks for 120.
const (
	maxWarning  = 120
	maxWarnings = 4096
)

// warnings makes lines of sentences. A sentence of more than maxWarning characters goes
// on in the next line: what would be cut from it is mostly the number that matters.
// Sentences that have no room together are counted.
func warnings(sentences []string) []string {
	var lines []string
	total := 0
	fitting, told := 0, 0 // how many lines leave room for leftOut, and of how many sentences
	for i, s := range sentences {
		for _, line := range fold(printable(s)) {
			lines = append(lines, line)
			total += utf8.RuneCountInString(line)
		}
		if total+utf8.RuneCountInString(leftOut(len(sentences))) <= maxWarnings {
			fitting, told = len(lines), i+1
		}
	}
	if total <= maxWarnings {
		return lines
	}
	return append(lines[:fitting], leftOut(len(sentences)-told))
}

func leftOut(n int) string {
	return fmt.Sprintf("warnings left out: %d; dnsconfigurer validate has them all", n)
}

// continued begins a line that goes on with a sentence.
const continued = "... "

// fold parts a sentence into lines of maxWarning characters at most. A word that has no
// room in a line is cut.
func fold(s string) []string {
	var lines []string
	rest := []rune(s)
	for len(rest) > maxWarning {
		at := maxWarning
		for i := maxWarning; i > len(continued); i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(rest[:at]))
		rest = []rune(continued + strings.TrimPrefix(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}

// printable leaves nothing in s for which the API server would drop a warning
// (net.NewWarningHeader).
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

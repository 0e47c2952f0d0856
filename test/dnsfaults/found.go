// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsfaults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// Found checks what the command doctor, which ended with an exit code, found in a cluster with the
// fault: findings with the codes, and no others. It returns the fault as a row of found.md.
func (f Fault) Found(r v1alpha1.DoctorResult, exit int, codes []string) (row string, err error) {
	if got, want := Codes(r), slices.Compact(slices.Sorted(slices.Values(codes))); !slices.Equal(got, want) {
		return "", fmt.Errorf("%s: the findings have the codes %q, want %q: %+v", f.Name, got, want, r.Findings)
	}
	hasError := slices.ContainsFunc(r.Findings, func(d v1alpha1.DoctorFinding) bool { return d.Severity == "error" })
	if hasError != (exit == 1) || exit > 1 {
		return "", fmt.Errorf("%s: exit code %d: %+v", f.Name, exit, r.Findings)
	}
	for _, d := range r.Findings {
		if d.Code != codes[0] || f.Object != "" && f.Object != d.Object {
			continue
		}
		for _, line := range d.Evidence {
			if strings.Contains(line, f.Evidence) {
				return fmt.Sprintf("| %s | %s | %s |", f.Name, d.Code, changing.ReplaceAllString(line, "${1}${2}${3}${5}N${4}")), nil
			}
		}
	}
	return "", fmt.Errorf("%s: no finding %s of %q has the evidence %q: %+v", f.Name, codes[0], f.Object, f.Evidence, r.Findings)
}

// changing matches what differs between runs, behind a group that does not: times, names that are not
// cached, restarts, what controllers add to the names of pods, and addresses that are chosen.
var changing = regexp.MustCompile(`(after |^n|back-off )\d+(?:\.\d ms|s)?|(\b10\.244\.0\.|\bfd00:10:96::)[0-9a-f]+|` +
	`(, )\d+( restarts)|(-)(?:[` + safe + `]{6,10}-)?[` + safe + `]{5}\b`)

// safe are the characters of the names that controllers generate, for a set in a regular expression.
const safe = "bcdfghjklmnpqrstvwxz2456789"

// Codes returns the codes of the findings in a result, sorted, each once.
func Codes(r v1alpha1.DoctorResult) (codes []string) {
	for _, d := range r.Findings {
		codes = append(codes, d.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

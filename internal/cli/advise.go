// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// AdviseFormats are the formats of WriteAdvice.
var AdviseFormats = []string{formatText, formatJSON}

// ReadAdvice reads the output of an earlier `advise -o json`.
func ReadAdvice(path string) (r v1alpha1.AdviseResult, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: not the output of advise -o json: %w", path, err)
	}
	return r, nil
}

// maxAdvised is the number of workloads that the text describes. JSON has all.
const maxAdvised = 20

// WriteAdvice writes what workloads ask and could save, in one of AdviseFormats. The text has the queries of the
// workloads in before, too.
func WriteAdvice(w io.Writer, format string, r, before v1alpha1.AdviseResult) error {
	if format == formatJSON {
		return WriteJSON(w, r)
	}
	type key struct{ namespace, kind, name string }
	earlier := map[key]v1alpha1.WorkloadAdvice{}
	for _, a := range before.Workloads {
		earlier[key{a.Namespace, a.Kind, a.Name}] = a
	}
	var b strings.Builder
	fmt.Fprintf(&b, "servers: %d, hours: %.1f, queries of pods: %s a day, of other clients: %s\n",
		r.Servers, r.Hours, thousands(r.QueriesPerDay), thousands(r.OthersPerDay))
	described := 0
	for _, a := range r.Workloads {
		old, known := earlier[key{a.Namespace, a.Kind, a.Name}]
		if len(a.Cures) == 0 && !known || described >= maxAdvised {
			continue
		}
		described++
		fmt.Fprintf(&b, "\n%s: %s queries a day", visible(a.Kind+" "+a.Namespace+"/"+a.Name), thousands(a.QueriesPerDay))
		if known {
			fmt.Fprintf(&b, ", %s before", thousands(old.QueriesPerDay))
		}
		fmt.Fprintf(&b, "; wasted by search domains: %s\n", thousands(a.WastedPerDay))
		for _, c := range a.Cures {
			fmt.Fprintf(&b, "  saves %s: %s (%s)\n", thousands(c.SavesPerDay), visible(c.Message), c.Code)
			if c.Patch != "" {
				fmt.Fprintf(&b, "    %s\n", visible(c.Patch))
			}
		}
	}
	fmt.Fprintf(&b, "\nworkloads: %d, described: %d\n", len(r.Workloads), described)
	for _, why := range r.NotRead {
		fmt.Fprintf(&b, "not read: %s\n", visible(why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// thousands returns n with a comma before each three digits.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

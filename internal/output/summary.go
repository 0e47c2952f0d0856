// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Summary counts the results of a validation.
type Summary struct {
	Checked    int           // objects
	Others     []kube.Object // objects that are not checked
	Notes      int           // files and documents that were passed over
	Found      map[policy.Severity]int
	Ignored    int // findings that the command line or an annotation ignores
	Unreadable int // errors in documents that could not be read
}

// Write writes the summary on one line.
func (s Summary) Write(w io.Writer) {
	counts := []string{count(s.Checked, "object") + " checked"}
	if len(s.Others) > 0 {
		counts = append(counts, fmt.Sprintf("%d not checked (%s)", len(s.Others), kinds(s.Others)))
	}
	if s.Notes > 0 {
		counts = append(counts, fmt.Sprintf("%d passed over", s.Notes))
	}
	for _, severity := range []policy.Severity{policy.SeverityError, policy.SeverityWarning, policy.SeverityInfo} {
		if n := s.Found[severity]; n > 0 || severity != policy.SeverityInfo {
			counts = append(counts, count(n, string(severity)))
		}
	}
	if s.Ignored > 0 {
		counts = append(counts, fmt.Sprintf("%d ignored", s.Ignored))
	}
	if s.Unreadable > 0 {
		counts = append(counts, fmt.Sprintf("%s in unreadable documents", count(s.Unreadable, "error")))
	}
	fmt.Fprintf(w, "dnsconfigurer: %s\n", visible(strings.Join(counts, ", ")))
}

// maxKinds is the number of kinds that kinds names.
const maxKinds = 5

// kinds returns the kinds of objects, in alphabetical order.
func kinds(objects []kube.Object) string {
	var list []string
	for _, o := range objects {
		list = append(list, o.Kind)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if n := len(list); n > maxKinds {
		list = append(list[:maxKinds], fmt.Sprintf("%d more kinds", n-maxKinds))
	}
	return strings.Join(list, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

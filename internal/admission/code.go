// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// CodeDoc explains a code: what is required of an object or a node.
type CodeDoc struct {
	Code       policy.Code // of the findings about violations
	Severity   string      // of these findings; two, such as "error, warning", if it depends on the object
	EnforcedBy string      // what refuses the object or the pod, or changes its lists; "none": nothing does
	Text       string      // the limit and the rule
}

//go:embed rules.md
var rulesPage embed.FS

func readRules() string {
	page, err := rulesPage.ReadFile("rules.md")
	if err != nil {
		panic(err) // it is in the binary
	}
	return string(page)
}

// CodeDocs returns all codes, in the order of docs/checks.md, whose tables rules.md repeats.
func CodeDocs() (docs []CodeDoc) {
	link := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	for line := range strings.Lines(readRules()) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		docs = append(docs, CodeDoc{policy.Code(strings.Trim(cells[0], "`")), cells[1], cells[2], link.ReplaceAllString(cells[3], "$1")})
	}
	return docs
}

// CheckCodes returns an error about the first code that no finding has. It names the code that may be meant.
func CheckCodes(codes ...string) error {
	if len(codes) == 0 { // most objects have no annotation with codes
		return nil
	}
	page := readRules()
	for _, code := range codes {
		if strings.Contains(page, "\n| `"+code+"` |") {
			continue
		}
		var known []string
		for _, d := range CodeDocs() {
			known = append(known, string(d.Code))
		}
		return fmt.Errorf("unknown code %s%s", excerpt.Quote(code),
			cmp.Or(excerpt.DidYouMean(code, "", known), ": see dnsconfigurer rules"))
	}
	return nil
}

// IgnoreAnnotation lists the codes of findings that the author of an object knows about,
// separated by commas.
const IgnoreAnnotation = "dnsconfigurer.dev/ignore"

// WithoutIgnored returns the findings in an object without those that one of its annotations,
// or one of its template's, ignores. An annotation cannot ignore errors: otherwise the author of a
// pod could switch off a rule of the cluster. The time is linear in the size of the annotations.
func WithoutIgnored(findings []policy.Finding, annotations ...map[string]string) []policy.Finding {
	ignored := map[string]bool{} // of the codes of findings
	for _, f := range findings {
		if !f.IsError() {
			ignored[string(f.Code)] = false
		}
	}
	for _, a := range annotations {
		for code := range strings.SplitSeq(a[IgnoreAnnotation], ",") {
			code = strings.TrimSpace(code)
			if _, found := ignored[code]; found {
				ignored[code] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(findings), func(f policy.Finding) bool {
		return !f.IsError() && ignored[string(f.Code)]
	})
}

// The codes of the findings about annotations, except those of the policy engine.
const (
	CodeAnnotationPlace policy.Code = "annotation-not-in-template"
	CodeAnnotationValue policy.Code = "annotation-value"
)

// The annotations of pods whose values a node reads, except [policy.OverrideAnnotation].
const (
	SkipAnnotation    = "dnsconfigurer.dev/skip"
	RefreshAnnotation = "dnsconfigurer.dev/refresh"
)

// CheckAnnotations returns the findings in the annotations of an object, and of its pods, which are
// the same for a Pod. Kubelets pass those of the pod to the node; those of an object that creates
// pods stay there.
func CheckAnnotations(o Object, object, pod map[string]string) []policy.Finding {
	c := newCheck(&o)
	for _, name := range []string{policy.OverrideAnnotation, RefreshAnnotation, SkipAnnotation} {
		_, inObject := object[name]
		if _, inPod := pod[name]; inObject && !inPod {
			c.warn(CodeAnnotationPlace, policy.EnforcedByDNSConfigurer, o.of(annotationField(name)),
				fmt.Sprintf("annotation %s of a %s has no effect on its pods", name, o.Kind),
				"move it to "+o.ofPod("metadata.annotations"))
		}
	}
	for _, a := range []struct{ name, yes, no string }{{SkipAnnotation, "true", "false"}, {RefreshAnnotation, "always", "never"}} {
		if value, ok := pod[a.name]; ok && value != a.yes && value != a.no {
			c.warn(CodeAnnotationValue, policy.EnforcedByDNSConfigurer, o.ofPod(annotationField(a.name)),
				fmt.Sprintf("annotation %s: %s has no effect", a.name, excerpt.Quote(value)), fmt.Sprintf("want %q or %q", a.yes, a.no))
		}
	}
	field, ignored := o.ofPod(annotationField(IgnoreAnnotation)), pod[IgnoreAnnotation]
	if ignored == "" {
		field, ignored = o.of(annotationField(IgnoreAnnotation)), object[IgnoreAnnotation]
	}
	codes := strings.FieldsFunc(ignored, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if err := CheckCodes(codes...); err != nil {
		c.warn(CodeAnnotationValue, policy.EnforcedByDNSConfigurer, field,
			fmt.Sprintf("annotation %s: %s", IgnoreAnnotation, err), "dnsconfigurer rules prints the codes")
	}
	return c.findings
}

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }

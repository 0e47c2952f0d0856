// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Verdict is the response of an admission server. The zero value allows the object.
type Verdict struct {
	Denied   string   // the reason; "": it is allowed
	Warnings []string // for the client
}

// NewVerdict returns the verdict that follows from the findings in o. A pod with an error is
// denied: it would not start, or not as specified. An object that creates pods is not denied
// but warned of: it may be in use, and the client may not be able to change its namespace.
// Findings for which the API server refuses the object are left to the API server. Those about the
// node are left out, because the author of the object cannot do anything about them.
func NewVerdict(o Object, findings []policy.Finding) Verdict {
	var v Verdict
	var first, repeated []string // the sentences of errors: one of each code, and the others
	known, left := map[policy.Code]bool{}, 0
	for _, f := range findings {
		switch {
		case f.Severity == policy.SeverityInfo, aboutNode(f):
		case f.EnforcedBy == policy.EnforcedByAPIServer && f.Code != CodeStatefulSetName &&
			!(f.Code == CodeGeneratedHostname && acceptedFirst(&o)):
		case o.Kind == KindPod && f.IsError():
			if left += f.More; known[f.Code] {
				repeated = append(repeated, sentence(f))
			} else {
				first = append(first, sentence(f))
			}
			known[f.Code] = true
		default:
			s := sentence(f)
			if f.More > 0 {
				s += fmt.Sprintf("; %d more like this", f.More)
			}
			v.Warnings = append(v.Warnings, s)
		}
	}
	v.Denied = denial(append(first, repeated...), left)
	return v
}

// Limits of Verdict.Denied, which the API server copies to its reply and its audit log.
const (
	maxReasons = 10
	maxDenied  = 4 << 10 // bytes; a sentence has about 200
)

// denial returns the first sentences, and the number of those left out, which more are already. The first is always in it: a
// message has at most maxMessage bytes.
func denial(sentences []string, more int) string {
	const room = len(". And 200000 more findings")
	size, n := 0, 0
	for ; n < min(len(sentences), maxReasons); n++ {
		if size += len(sentences[n]) + len(". "); n > 0 && size > maxDenied-room {
			break
		}
	}
	s := strings.Join(sentences[:n], ". ")
	if rest := len(sentences) - n + more; rest > 0 {
		s += fmt.Sprintf(". And %d more findings", rest)
	}
	return s
}

func sentence(f policy.Finding) string { return f.Field + ": " + f.Message + "; " + f.Hint }

// Report says which findings are reported, and which of them deny a pod. The zero value reports
// all findings, and denies a pod for an error.
type Report struct {
	Ignore []policy.Code // of findings that are not reported
	DenyOn DenyOn
}

// DenyOn is the lowest severity of a finding for which a pod is denied. "" is DenyOnError.
type DenyOn string

// The values of DenyOn.
const (
	DenyOnError   DenyOn = "error"
	DenyOnWarning DenyOn = "warning"
	DenyNever     DenyOn = "never" // errors are warnings
)

// Filter returns the findings about an object that are reported, with the severities that
// follow from DenyOn. Its annotations cannot ignore what denies it.
func (r *Report) Filter(findings []policy.Finding, annotations ...map[string]string) []policy.Finding {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f policy.Finding) bool {
		return slices.Contains(r.Ignore, f.Code)
	})
	for i := range findings {
		switch f := &findings[i]; {
		case r.DenyOn == DenyNever && f.Severity == policy.SeverityError:
			f.Severity = policy.SeverityWarning
		case r.DenyOn == DenyOnWarning && f.Severity == policy.SeverityWarning:
			f.Severity = policy.SeverityError
		}
	}
	return WithoutIgnored(findings, annotations...)
}

// AddRefusals adds the errors in o for which the API server refuses it, or the pods that it
// creates, to the findings of a decision about its pod. The engine accepts such a pod if the
// kubelet would; in a cluster it does not exist. Findings about a field that is refused are
// left out, except the kubelet's events.
func (r *Rules) AddRefusals(ctx context.Context, o Object, decided []policy.Finding) ([]policy.Finding, error) {
	all, err := r.Check(ctx, o)
	if err != nil {
		return nil, err
	}
	refusals := slices.DeleteFunc(all, func(f policy.Finding) bool {
		return f.EnforcedBy != policy.EnforcedByAPIServer || !f.IsError()
	})
	findings := slices.Clone(refusals)
	for _, f := range decided {
		replaced := slices.ContainsFunc(refusals, func(r policy.Finding) bool {
			return r.Field == f.Field || r.Code == CodeNoNameservers && f.Code == policy.CodeEmptyConfig
		})
		if !hasRefusal(f.Code) && (!replaced || f.Reason != "") {
			findings = append(findings, f)
		}
	}
	return findings, nil
}

// ManifestError returns the error with which the kubelet refuses the manifest of the static pod
// o, or "". findings are those of AddRefusals. Other pods have none: the API server refuses
// them before a kubelet has them. The fields are the kubelet's (pkg/kubelet/config,
// tryDecodeSinglePod), the reasons those of the findings.
func ManifestError(o Object, findings []policy.Finding) string {
	if o.Node == "" {
		return ""
	}
	var reasons []string
	more := 0
	for _, f := range findings {
		switch {
		case f.EnforcedBy != policy.EnforcedByAPIServer || !f.IsError():
		case len(reasons) == maxReasons:
			more += 1 + f.More
		default:
			reasons = append(reasons, f.Field+": "+f.Message)
			more += f.More
		}
	}
	switch {
	case reasons == nil:
		return ""
	case more > 0:
		reasons = append(reasons, fmt.Sprintf("and %d more", more))
	}
	return "invalid pod: " + strings.Join(reasons, ", ")
}

// hasRefusal reports whether Check has its own error for every value about which the engine has a
// finding with this code. That error names the field of the object that the value is from.
func hasRefusal(code policy.Code) bool {
	switch code {
	case policy.CodeInvalidName, policy.CodeInvalidHostname, policy.CodeInvalidSubdomain,
		policy.CodeInvalidOverride, policy.CodeUnknownPolicy:
		return true
	}
	return false
}

const (
	// MaxFindings is the number of findings in an object after which only the first of each
	// other code is added. The API server limits neither the number of options in a pod nor
	// that of search domains before it has checked them: an object of 3 MB can have 200,000.
	// With a few findings of each of 35 codes no correct object comes close.
	MaxFindings = 100

	// maxMessage is the size in bytes of the longest message. Every value in it is cut; an
	// FQDN with the longest parts that the API server accepts has about 450.
	maxMessage = 1 << 10
)

// check collects the findings in one object.
type check struct {
	*Rules
	o        *Object
	findings []policy.Finding
	last     map[policy.Code]int // the index of the last finding with a code
	refused  map[string]bool     // the fields that the API server refuses
}

func newCheck(o *Object) *check {
	return &check{o: o, last: map[policy.Code]int{}, refused: map[string]bool{}}
}

// add adds f, unless the API server refuses its field for another reason: only that is
// reported until it is corrected. Beyond MaxFindings it counts f at the last finding with
// its code.
func (c *check) add(f policy.Finding) {
	byAPIServer := f.EnforcedBy == policy.EnforcedByAPIServer
	switch {
	case !byAPIServer && c.refused[f.Field]:
		return
	case byAPIServer && f.IsError():
		c.refused[f.Field] = true
	}
	if c.omitFinding(f.Code) {
		c.findings[c.last[f.Code]].More += f.More
		return
	}
	f.Message = cut(f.Message, maxMessage-len("..."))
	c.last[f.Code] = len(c.findings)
	c.findings = append(c.findings, f)
}

// omitFinding reports whether a finding with this code is left out, and counts it. A loop calls it
// before it formats a message: formatting takes most of the time.
func (c *check) omitFinding(code policy.Code) bool {
	last, found := c.last[code]
	if !found || len(c.findings) < MaxFindings {
		return false
	}
	c.findings[last].More++
	return true
}

// refuse adds an error for which the API server refuses the object.
func (c *check) refuse(code policy.Code, field, message, hint string) {
	c.add(policy.Finding{Code: code, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByAPIServer,
		Message: message, Field: field, Hint: hint})
}

// refuseValue refuses a value that has a problem; "": it has none.
func (c *check) refuseValue(code policy.Code, field, what, value, problem, hint string) {
	if problem != "" && !c.omitFinding(code) {
		c.refuse(code, field, fmt.Sprintf("%s %q %s", what, clip(value), problem), hint)
	}
}

func (c *check) warn(code policy.Code, by policy.Enforcer, field, message, hint string) {
	c.add(policy.Finding{Code: code, Severity: policy.SeverityWarning, EnforcedBy: by, Message: message, Field: field, Hint: hint})
}

// untilDone yields the items of a list of the pod until ctx is done.
func untilDone[T any](ctx context.Context, list []T) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i, item := range list {
			if ctx.Err() != nil || !yield(i, item) {
				return
			}
		}
	}
}

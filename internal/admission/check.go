// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

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

// warn adds a warning.
func (c *check) warn(code policy.Code, by policy.Enforcer, field, message, hint string) {
	c.add(policy.Finding{Code: code, Severity: policy.SeverityWarning, EnforcedBy: by, Message: message, Field: field, Hint: hint})
}

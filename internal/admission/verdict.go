// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
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
	var reasons reasons
	for _, f := range findings {
		switch {
		case f.Severity == policy.SeverityInfo, aboutNode(f):
		case f.EnforcedBy == policy.EnforcedByAPIServer && f.Code != CodeStatefulSetName &&
			!(f.Code == CodeGeneratedHostname && acceptedFirst(&o)):
		case o.Kind == KindPod && f.IsError():
			reasons.add(f)
		default:
			s := sentence(f)
			if f.More > 0 {
				s += fmt.Sprintf("; %d more like this", f.More)
			}
			v.Warnings = append(v.Warnings, s)
		}
	}
	v.Denied = reasons.text()
	return v
}

// Limits of Verdict.Denied, which the API server copies to its reply and its audit log.
const (
	maxReasons = 10
	maxDenied  = 4 << 10 // bytes; a sentence has about 200
)

// reasons collects the sentences of Verdict.Denied.
type reasons struct {
	codes     map[policy.Code]bool
	sentences []string
	repeated  []string // those whose code has a sentence already
	more      int
}

func (r *reasons) add(f policy.Finding) {
	r.more += f.More
	switch {
	case r.codes[f.Code]:
		r.repeated = append(r.repeated, sentence(f))
	case r.codes == nil:
		r.codes = map[policy.Code]bool{}
		fallthrough
	default:
		r.codes[f.Code] = true
		r.sentences = append(r.sentences, sentence(f))
	}
}

// text returns one sentence of each code, then the others, and the number of those left out.
// The first is always in it: a message has at most maxMessage bytes.
func (r *reasons) text() string {
	const room = len(". And 200000 more findings")
	all := append(r.sentences, r.repeated...)
	size, n := 0, 0
	for ; n < min(len(all), maxReasons); n++ {
		if size += len(all[n]) + len(". "); n > 0 && size > maxDenied-room {
			break
		}
	}
	s := strings.Join(all[:n], ". ")
	if rest := len(all) - n + r.more; rest > 0 {
		s += fmt.Sprintf(". And %d more findings", rest)
	}
	return s
}

func sentence(f policy.Finding) string { return f.Field + ": " + f.Message + "; " + f.Hint }

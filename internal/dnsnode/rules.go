// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// rules are the rules of a DNSConfiguration. The zero value has none.
type rules struct {
	rewrites []v1alpha1.Rewrite
	answers  []v1alpha1.Answer
}

// compile returns the rules for the server. It calls report for each item, with its error or nil; a nil report is for
// rules that are known to be valid.
func (r rules) compile(report func(path string, err error)) *dnsserver.Rules {
	if report == nil {
		report = func(string, error) {}
	}
	compiled := &dnsserver.Rules{}
	for i, w := range r.rewrites {
		report(fmt.Sprintf("rewrite[%d]", i), compiled.AddRewrite(dnsserver.Rewrite(w)))
	}
	for i, a := range r.answers {
		report(fmt.Sprintf("answers[%d]", i), compiled.AddAnswer(dnsserver.Answer(a)))
	}
	return compiled
}

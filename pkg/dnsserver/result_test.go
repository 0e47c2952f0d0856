// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"testing"

	"github.com/miekg/dns"
)

// TestWithTarget_Shared: the fresh and the stale answer for the target of the same aliases share no
// memory.
func TestWithTarget_Shared(t *testing.T) {
	a := answer{answers: make([]dns.RR, 3, 4)}
	target := func(last byte) dns.RR { return &dns.A{Hdr: header("a.", dns.TypeA, 5), A: []byte{192, 0, 2, last}} }
	stale := a.withTarget(answer{answers: []dns.RR{target(1)}})
	a.withTarget(answer{answers: []dns.RR{target(2)}})
	if got := stale.answers[3].(*dns.A).A.String(); got != "192.0.2.1" {
		t.Errorf("the stale answer has %s", got)
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
)

// TestCheck: the check of all other tests finds wrong replies.
func TestCheck(t *testing.T) {
	absent, silent := ask.Reply{Rcode: dns.RcodeNameError, Authoritative: true, SOA: "cluster.local."}, ask.Reply{Silent: true}
	for _, c := range []struct {
		name   string
		shown  []int // states of the replies, of three
		other  *ask.Reply
		floor  int
		want   string // in the error; "": the reply is right
		behind bool
	}{
		{"in order", []int{0, 1, 2}, nil, 0, "", false},
		{"a state that is left out", []int{0, 2}, nil, 0, "", false},
		{"not at the end", []int{0, 1}, nil, 0, "", true},
		{"back", []int{2, 0}, nil, 2, "went back to state 0 after 2", true},
		{"denied", nil, &absent, 0, "not in states 0 to 2", true},
		{"no reply", nil, &silent, 1, "not in states 1 to 2", true},
		{"no data", nil, &ask.Reply{Rcode: dns.RcodeServerFailure}, 0, "not in states", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newHeadless(nil, "db", 3)
			r.questions = r.questions[:1]
			for range 3 {
				r.next()
			}
			for n, state := range c.shown {
				floor := 0
				if n == len(c.shown)-1 {
					floor = c.floor
				}
				r.check(0, r.states[state][0], floor)
			}
			if c.other != nil {
				r.check(0, *c.other, c.floor)
			}
			got := strings.Join(r.wrong, "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if (r.behind() != nil) != c.behind {
				t.Errorf("behind: %v", r.behind())
			}
		})
	}
}

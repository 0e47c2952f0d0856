// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"strings"
	"testing"
)

func TestRules_AddAnswer_Invalid(t *testing.T) {
	for _, tt := range []struct {
		want string
		Answer
	}{
		{"would answer all questions", Answer{}},
		{"would answer all questions", Answer{Zone: ".", Rcode: "NXDOMAIN"}},
		{`the zone "a..b" has an empty label`, Answer{Zone: "a..b"}},
		{`"aaaa" is not a type`, Answer{Type: "aaaa"}},
		{`"OPT" is not a type`, Answer{Type: "OPT"}},
		{`"ANY" is not a type`, Answer{Type: "ANY"}},
		{"missing closing )", Answer{Regex: "("}},
		{"invalid or unsupported Perl syntax", Answer{Regex: "(?!a)b"}},
		{"has 1001 octets", Answer{Regex: strings.Repeat("a", 1001)}},
		{"has 1005 octets", Answer{Type: "TXT", Records: []string{"1 IN TXT " + strings.Repeat("a", 996)}}},
		{`"NOTIMP": want NOERROR`, Answer{Type: "A", Rcode: "NOTIMP"}},
		{"none with an rcode", Answer{Type: "A", Rcode: "NXDOMAIN", Records: []string{"1 IN A 192.0.2.1"}}},
		{"no group 1", Answer{Type: "A", Records: []string{"1 IN A 192.0.2.{1}"}}},
		{"no group 2", Answer{Type: "A", Regex: "(a)", Records: []string{"1 IN A 192.0.2.{2}"}}},
		{"bad A A", Answer{Type: "A", Records: []string{"1 IN A 192.0.2"}}},
		{"several lines", Answer{Type: "TXT", Records: []string{"1 IN TXT (\n a )"}}},
		{"not a record of class IN", Answer{Type: "TXT", Records: []string{"1 CH TXT a"}}},
		{"not a record of type A or CNAME", Answer{Type: "A", Records: []string{"1 IN AAAA ::1"}}},
		{"has no other records", Answer{Type: "A", Records: []string{"1 IN A 192.0.2.1", "1 IN CNAME a."}}},
		{"at most 16 records", Answer{Type: "A", Records: make([]string, 17)}},
	} {
		if err := new(Rules).AddAnswer(tt.Answer); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.Answer, err, tt.want)
		}
	}
	r := &Rules{}
	for i := range maxAnswers + 1 {
		if err := r.AddAnswer(Answer{Type: "A"}); (err == nil) != (i < maxAnswers) {
			t.Errorf("answer %d: %v", i, err)
		}
	}
}

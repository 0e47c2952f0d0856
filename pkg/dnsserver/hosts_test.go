// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"strings"
	"testing"
)

func TestHosts_Add(t *testing.T) {
	var h Hosts
	err := h.Add("192.0.2.7 DB.example old-db.example # the database\n\n# a comment\n2001:db8::7%eth0 db.example\n192.0.2.7 db.example\n" +
		"192.0.2.300 a\n192.0.2.8\n192.0.2.7 a..b DB.example\n192.0.2.9 .\nfallthru\n" + strings.Repeat("192.0.2.9 a..b\n", 1000))
	for _, want := range []string{`line 6: "192.0.2.300" is not an IP address`,
		"line 7: 192.0.2.8 has no name", `line 8: "a..b" is not a name`, `line 9: "." is not a name`, "line 10: "} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") >= maxHostErrors {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if r := h.names["\x02db\x07example\x00"]; len(h.names) != 4 || len(r.v4) != 1 || len(r.v6) != 1 {
		t.Errorf("%+v", h.names)
	}
}

// FuzzHosts: no text panics, and each line without an error can be added again.
func FuzzHosts(f *testing.F) {
	f.Add("192.0.2.7 db.example\n::1%lo a\\046b #c\n")
	f.Fuzz(func(t *testing.T, text string) {
		var h Hosts
		err := h.Add(text)
		for line := range strings.Lines(text) {
			if again := h.AddLine(line); again != nil && err == nil {
				t.Error(again)
			}
		}
	})
}

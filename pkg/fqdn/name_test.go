// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn

import (
	"strings"
	"testing"
)

func TestParseName_Errors(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name253 := strings.Repeat(label63+".", 3) + strings.Repeat("a", 61)
	tests := []struct {
		text string
		want Name
		err  string
	}{
		{".", Root, ""},
		{"Web.Default.", "\x03web\x07default\x00", ""},
		{"web.default", "\x03web\x07default\x00", ""},
		{`a\.b.c.`, "\x03a.b\x01c\x00", ""},
		{`\065\b.`, "\x02ab\x00", ""},
		{`\000.`, "\x01\x00\x00", ""},
		{label63 + ".", Name("\x3f" + label63 + "\x00"), ""},
		{"", "", "is empty"},
		{"a..b", "", "has an empty label"},
		{".a", "", "has an empty label"},
		{"a" + label63, "", "has a label of 64 bytes, a label has at most 63"},
		{name253 + "a", "", "is 256 bytes long on the wire, a domain name has at most 255"},
		{`a\`, "", "has a broken escape"},
		{`a\25`, "", "has a broken escape"},
		{`a\256`, "", "has a broken escape"},
	}
	for _, tt := range tests {
		got, err := ParseName(tt.text)
		if got != tt.want || err == nil != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("ParseName(%q) = %q, %v; want %q, %q", tt.text, got, err, tt.want, tt.err)
		}
	}
	if n, err := ParseName(name253); err != nil || len(n) != MaxWire {
		t.Errorf("longest name: %d bytes, %v", len(n), err)
	}
}

func TestName_Within(t *testing.T) {
	tests := []struct {
		name, zone, below string
		ok                bool
	}{
		{"web.default.svc.cluster.local", "cluster.local", "\x03web\x07default\x03svc", true},
		{"cluster.local", "cluster.local", "", true},
		{"local", "cluster.local", "", false},
		{"xcluster.local", "cluster.local", "", false},
		{"cluster.local", ".", "\x07cluster\x05local", true},
		// The last bytes of a label equal the first bytes of the zone: \x0aa\x07cluster is one
		// label.
		{`aa\007cluster.local`, "cluster.local", "", false},
		{`foo\.cluster.local`, "cluster.local", "", false},
	}
	for _, tt := range tests {
		below, ok := mustName(t, tt.name).Within(mustName(t, tt.zone))
		if ok != tt.ok || ok && string(below) != tt.below {
			t.Errorf("%s within %s = %q, %t; want %q, %t", tt.name, tt.zone, below, ok, tt.below, tt.ok)
		}
	}
}

func TestJoin_LowerCase(t *testing.T) {
	if got, want := Join(mustName(t, "svc.cluster.local"), "Web", "default"), mustName(t, "web.default.svc.cluster.local"); got != want {
		t.Errorf("Join = %s, want %s", got, want)
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{".", "a.b.", `a\.b`, `\000\255.x`, "A.B", "a..", `\`, `"();@$.`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseName(text)
		if err != nil {
			return
		}
		again, err := ParseName(n.String())
		if err != nil || again != n {
			t.Fatalf("%q is %q, whose text %q is %q, %v", text, n, n.String(), again, err)
		}
		for rest := n; rest != Root; {
			label, parent := rest.Cut()
			if label == "" || parent == "" {
				t.Fatalf("%q cuts into %q and %q", rest, label, parent)
			}
			if below, ok := n.Within(parent); !ok || string(below)+string(parent) != string(n) {
				t.Fatalf("%q within %q = %q, %t", n, parent, below, ok)
			}
			rest = parent
		}
	})
}

func mustName(t *testing.T, text string) Name {
	t.Helper()
	n, err := ParseName(text)
	if err != nil {
		t.Fatalf("%q %v", text, err)
	}
	return n
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

import (
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func name(t testing.TB, text string) fqdn.Name {
	t.Helper()
	n, err := fqdn.ParseName(text)
	if err != nil {
		t.Fatalf("name %q %v", text, err)
	}
	return n
}

func names(t testing.TB, texts ...string) []fqdn.Name {
	t.Helper()
	var list []fqdn.Name
	for _, text := range texts {
		list = append(list, name(t, text))
	}
	return list
}

// domains returns a search list of n domains whose texts have the given length
// together, without the commas.
func domains(n, length int) []string {
	list := slices.Repeat([]string{"a"}, n)
	for i := range list {
		rest := length - (n - i)
		for rest > 0 && len(list[i]) < fqdn.MaxName { // labels of 49, and what remains
			step := min(rest, 50, fqdn.MaxName-len(list[i]))
			if step < 2 {
				break
			}
			list[i] += "." + strings.Repeat("b", step-1)
			rest -= step
		}
		length -= len(list[i])
	}
	return list
}

// Search lists and their option values, in both directions.
func TestEncode_RoundTrip(t *testing.T) {
	tests := []struct {
		text  string
		paths []fqdn.Name
	}{
		{"shop.svc.cluster.local,svc.cluster.local,cluster.local,corp.example",
			names(t, "shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example")},
		{"a", names(t, "a")},
		{".", []fqdn.Name{fqdn.Root}},
		{`with\044comma.example,with\032blank.example,with\.dot.example`, []fqdn.Name{
			fqdn.Join(fqdn.Root, "with,comma", "example"), fqdn.Join(fqdn.Root, "with blank", "example"),
			fqdn.Join(fqdn.Root, "with.dot", "example")}},
	}
	for _, tt := range tests {
		if got, err := Encode(tt.paths); err != nil || string(got) != tt.text {
			t.Errorf("%q is written as %q, %v", tt.text, got, err)
		}
		if got, err := Decode([]byte(tt.text)); err != nil || !slices.Equal(got, tt.paths) {
			t.Errorf("%q is read as %q, %v", tt.text, got, err)
		}
	}
	// What others may write.
	if got, err := Decode([]byte("Cluster.LOCAL.,a.")); err != nil || !slices.Equal(got, names(t, "cluster.local", "a")) {
		t.Errorf("capitals and last dots: %q, %v", got, err)
	}
}

// Both sides of each limit, for Encode and Decode.
func TestDecode_Limits(t *testing.T) {
	many := func(n int) string { return strings.Join(domains(n, n), ",") }
	long := func(n int) string { return strings.Join(domains(MaxPaths, n-(MaxPaths-1)), ",") }
	tests := []struct {
		what, text, err string
	}{
		{"as many domains as there may be", many(MaxPaths), ""},
		{"one more", many(MaxPaths + 1), "33 domains"},
		{"as long as it may be", long(MaxText), ""},
		{"one octet more", long(MaxText + 1), "2049 octets"},
		{"the longest domain", strings.Repeat("a.", 126) + "a", ""},
		{"one octet more", strings.Repeat("a.", 126) + "ab", "domain 1 is 256 bytes"},
		{"the longest label", "a," + strings.Repeat("a", fqdn.MaxLabel), ""},
		{"one octet more", "a," + strings.Repeat("a", fqdn.MaxLabel+1), "domain 2 has a label of 64 bytes"},
		{"nothing", "", "no domain"},
		{"nothing between two commas", "a,,b", "domain 2 is empty"},
		{"nothing behind a comma", "a,", "domain 2 is empty"},
		{"an empty label", "a..b", "domain 1 has an empty label"},
		{"a blank", "a, b", "octet 3 is not printable ASCII"},
		{"a NUL at the end", "a\x00", "octet 2"},
		{"not ASCII", "bücher.example", "octet 2"},
		{"dnsmasq's MAC address", "\x02\x42\xac\x11\x00\x02", "octet 1"},
	}
	for _, tt := range tests {
		paths, err := Decode([]byte(tt.text))
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d domains, error %v, want %q", tt.what, len(paths), err, tt.err)
		}
	}

	encode := []struct {
		what  string
		paths []fqdn.Name
		err   string
	}{
		{"as many domains as there may be", names(t, domains(MaxPaths, MaxPaths)...), ""},
		{"one more", names(t, domains(MaxPaths+1, MaxPaths+1)...), "33 domains: want 1 to 32"},
		{"as long as it may be", names(t, domains(MaxPaths, MaxText-31)...), ""},
		{"one octet more", names(t, domains(MaxPaths, MaxText-30)...), "2049 octets"},
		{"none", nil, "0 domains"},
		{"no name", []fqdn.Name{""}, "domain 1 of the search list is empty"},
	}
	for _, tt := range encode {
		if _, err := Encode(tt.paths); (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("writing %s: %v, want %q", tt.what, err, tt.err)
		}
	}
}

// FuzzDecode checks that Encode is the inverse of Decode.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"shop.svc.cluster.local,svc.cluster.local", ".", `a\044b,c\.d`, `\000,\255`, "a,,b", "a b"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) { checkDecode(t, value) })
}

// checkDecode checks that one value is refused or survives Encode and Decode.
func checkDecode(t *testing.T, value []byte) {
	paths, err := Decode(value)
	if err != nil {
		if paths != nil {
			t.Fatalf("%q has an error and %q", value, paths)
		}
		return
	}
	if len(paths) == 0 || len(paths) > MaxPaths {
		t.Fatalf("%q has %d domains", value, len(paths))
	}
	again, err := Encode(paths)
	if err != nil {
		// Encode may need more escapes than the value had.
		if !strings.Contains(err.Error(), "octets") {
			t.Fatalf("%q: %v", value, err)
		}
		return
	}
	if back, err := Decode(again); err != nil || !slices.Equal(back, paths) {
		t.Fatalf("%q is encoded as %q, which decodes as %q, %v", value, again, back, err)
	}
}

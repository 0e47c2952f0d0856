// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// specs returns the texts and results of a section of testdata/servers.txtar.
func specs(t testing.TB, section string) map[string]string {
	t.Helper()
	archive := must.Get(txtar.ParseFile("testdata/servers.txtar"))(t)
	list := map[string]string{}
	for _, f := range archive.Files {
		for line := range strings.Lines(string(f.Data)) {
			quoted, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " => ")
			spec, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if f.Name == section {
				list[spec] = want
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("no section %s", section)
	}
	return list
}

// check compares a result, or the error with the part of one that is wanted.
func check(t *testing.T, spec, got string, err error, want string) {
	t.Helper()
	if problem, ok := strings.CutPrefix(want, "error: "); ok {
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q = %s, %v; want an error with %q", spec, got, err, problem)
		}
	} else if err != nil || got != want {
		t.Errorf("%q = %s, %v; want %s", spec, got, err, want)
	}
}

func TestParseServer(t *testing.T) {
	for spec, want := range specs(t, "servers") {
		got, err := upstream.ParseServer(spec)
		check(t, spec, got.String(), err, want)
	}
}

// String is the inverse of ParseServer.
func FuzzParseServer(f *testing.F) {
	for spec := range specs(f, "servers") {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := upstream.ParseServer(spec)
		if err != nil {
			return
		}
		if again, err := upstream.ParseServer(s.String()); err != nil || again != s {
			t.Errorf("%q is %+v, %q is %+v, %v", spec, s, s.String(), again, err)
		}
	})
}

// parseStubDomain parses ZONE=SERVER,SERVER...
func parseStubDomain(spec string) (upstream.StubDomain, error) {
	zone, list, _ := strings.Cut(spec, "=")
	var servers []string
	if list != "" {
		servers = strings.Split(list, ",")
	}
	return upstream.ParseStubDomain(zone, servers)
}

func TestParseStubDomain(t *testing.T) {
	for spec, want := range specs(t, "stub domains") {
		d, err := parseStubDomain(spec)
		got := d.Zone
		for _, s := range d.Servers {
			got += " " + s.String()
		}
		check(t, spec, got, err, want)
	}
}

func FuzzParseStubDomain(f *testing.F) {
	for spec := range specs(f, "stub domains") {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		d, err := parseStubDomain(spec)
		if err == nil && (!strings.HasSuffix(d.Zone, ".") || d.Zone != strings.ToLower(d.Zone)) {
			t.Errorf("%q is %+v", spec, d)
		}
	})
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolveLinks_Paths(t *testing.T) {
	d := newTree(t)
	d.write("run/resolve/resolv.conf", server(1))
	d.link("../run/resolve/resolv.conf", "etc/relative")
	d.link(d.path("etc/relative"), "etc/absolute")
	d.write("mount/..2026/resolv.conf", server(2))
	d.link("..2026", "mount/..data")
	d.link("..data/resolv.conf", "mount/resolv.conf")
	d.link("run/resolve", "deep")
	d.link("loop2", "loop1")
	d.link("loop1", "loop2")
	d.link("nowhere/at/all", "dangling")

	for _, test := range []struct {
		name, path string
		names      string // below the directory of the test
		end        string
	}{
		{"file", "run/resolve/resolv.conf", "run run/resolve run/resolve/resolv.conf", "run/resolve/resolv.conf"},
		{"relative link", "etc/relative", "etc etc/relative run run/resolve run/resolve/resolv.conf", "run/resolve/resolv.conf"},
		{"absolute link to a link", "etc/absolute",
			"etc etc/absolute etc etc/relative run run/resolve run/resolve/resolv.conf", "run/resolve/resolv.conf"},
		{"mounted ConfigMap", "mount/resolv.conf",
			"mount mount/resolv.conf mount/..data mount/..2026 mount/..2026/resolv.conf", "mount/..2026/resolv.conf"},
		{"dots after a link", "deep/.././/resolve/resolv.conf",
			"deep run run/resolve run/resolve run/resolve/resolv.conf", "run/resolve/resolv.conf"},
		{"missing file", "etc/resolv.conf", "etc etc/resolv.conf", "etc/resolv.conf"},
		{"missing directories", "dangling", "dangling nowhere", "nowhere/at/all"},
		{"file for a directory", "run/resolve/resolv.conf/x",
			"run run/resolve run/resolve/resolv.conf run/resolve/resolv.conf/x", "run/resolve/resolv.conf/x"},
		{"directory", "run", "run", "run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			names, end := resolveLinks(d.dir + "/" + test.path)
			if diff := cmp.Diff(strings.Fields(test.names), d.below(names)); diff != "" || end != d.path(test.end) {
				t.Errorf("end %s, want %s; names (-want +got)\n%s", end, test.end, diff)
			}
			if real, err := filepath.EvalSymlinks(d.dir + "/" + test.path); err == nil && real != end {
				t.Errorf("filepath.EvalSymlinks returns %s", real)
			}
			t.Chdir(d.dir)
			if relative, _ := resolveLinks(test.path); !slices.Equal(names, relative) {
				t.Errorf("from the directory: %q", relative)
			}
		})
	}
	names, _ := resolveLinks(d.path("loop1"))
	if got := d.below(names); len(got) != maxLinks+1 || got[0] != "loop1" || got[1] != "loop2" {
		t.Errorf("loop: got %d names, %q", len(got), got)
	}
}

// below returns the names in d, relative to d.
func (d tree) below(names []string) []string {
	var below []string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, d.dir+"/"); ok {
			below = append(below, rest)
		}
	}
	return below
}

// TestResolveLinks_Limit compares the limit of links with the kernel's.
func TestResolveLinks_Limit(t *testing.T) {
	d := newTree(t)
	d.write("l0", server(1))
	for i := range maxLinks + 1 {
		d.link("l"+strings.Repeat("i", i), "l"+strings.Repeat("i", i+1))
	}
	d.link("l0", "l")
	for _, links := range []int{maxLinks, maxLinks + 1} {
		path := d.path("l" + strings.Repeat("i", links-1)) // "l" is a link itself
		_, err := os.Stat(path)
		if _, end := resolveLinks(path); end == d.path("l0") != (err == nil) {
			t.Errorf("%d links: resolved to %s, stat returns %v", links, end, err)
		}
	}
}

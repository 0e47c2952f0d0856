// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	stubText = "nameserver 127.0.0.53\n"
	noLine   = "Encountered error while parsing resolv conf file. Error: nameserver list is empty "
)

// TestReread_Steps checks the snapshot, second by second, for changes of the files. The first file
// is read by the kubelet, the others are the uplink files; "" is a missing file.
func TestReread_Steps(t *testing.T) {
	type step struct{ path, uplink, want string }
	for _, test := range []struct {
		name, uplink string
		steps        []step
	}{
		{"good file", "uplink", []step{
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1 since 0"},
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1 since 0"},
			{server(2), "", "path: 10.0.0.2, kubelet 10.0.0.2 since 2"},
		}},
		{"bad file after a good one", "uplink", []step{
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1 since 0"},
			{"", "", "path: 10.0.0.1, kubelet 10.0.0.1 since 0; no such file or directory since 1"},
			{"# empty\n", "", "path: 10.0.0.1, kubelet since 0; the file has no nameserver since 1"},
			{"nameserver\n", "", "path: 10.0.0.1, kubelet since 0; " + noLine + " since 1"},
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1 since 0"},
			{server(2) + "nameserver\n", "", "path: 10.0.0.1, kubelet 10.0.0.1 since 0; " + noLine + " since 5"},
		}},
		{"no good file yet", "uplink", []step{
			{"", "", "path: refused, kubelet refused since 0; no such file or directory since 0"},
			{"search a\n", "", "path: a, kubelet a since 1; the file has no nameserver since 0"},
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1 since 2"},
		}},
		{"stub of systemd-resolved", "uplink", []step{
			{stubText, "", "path: 127.0.0.53, kubelet 127.0.0.53 since 0 stub; " +
				"uplink file of systemd-resolved: no such file or directory since 0"},
			{stubText, server(1), "uplink: 10.0.0.1, kubelet 127.0.0.53 since 1 stub"},
			{stubText + "search a\n", server(2), "uplink: 10.0.0.2, kubelet 127.0.0.53 a since 2 stub"},
			{stubText, "# No DNS servers known.\n", "uplink: 10.0.0.2, kubelet 127.0.0.53 since 2 stub; " +
				"uplink file of systemd-resolved: the file has no nameserver since 3"},
			{"", server(2), "uplink: 10.0.0.2, kubelet 127.0.0.53 since 2 stub; no such file or directory since 3"},
			{"nameserver\n", server(2), "uplink: 10.0.0.2, kubelet 127.0.0.53 since 2 stub; " + noLine + " since 3"},
			{server(3), server(2), "path: 10.0.0.3, kubelet 10.0.0.3 since 6"},
			{stubText, "", "path: 127.0.0.53, kubelet 127.0.0.53 since 7 stub; " +
				"uplink file of systemd-resolved: no such file or directory since 7"},
		}},
		{"stub of NetworkManager", "nostub", []step{
			{"nameserver 127.0.0.1\nnameserver ::1\n", "", "path: 127.0.0.1 ::1, kubelet 127.0.0.1 ::1 since 0 stub; " +
				"uplink file of NetworkManager: no such file or directory since 0"},
			{"nameserver 127.0.0.1\nnameserver ::1\n", server(1), "nostub: 10.0.0.1, kubelet 127.0.0.1 ::1 since 1 stub"},
			{"nameserver 127.0.0.1\n" + server(2), server(1), "path: 127.0.0.1 10.0.0.2, kubelet 127.0.0.1 10.0.0.2 since 2"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newTree(t)
			put := func(name, text string) {
				if text == "" {
					d.remove(name)
				} else {
					d.write(name, text)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var w *Watcher
				for i, step := range test.steps {
					put("path", step.path)
					put(test.uplink, step.uplink)
					if i == 0 {
						var err error
						w, err = New(Config{Path: d.path("path"), Uplink: UplinkAuto,
							UplinkPath: d.path("uplink"), NoStubPath: d.path("nostub")})
						d.check(err)
					}
					before, newer := w.Current()
					got := d.describe(w.Reread(), start)
					if diff := cmp.Diff(step.want, got); diff != "" {
						t.Errorf("step %d (-want +got)\n%s", i, diff)
					}
					w.readFiles()
					if now, _ := w.Current(); d.describe(now, start) != got {
						t.Errorf("step %d: published %s", i, d.describe(now, start))
					}
					select {
					case <-newer:
					default:
						if got != d.describe(before, start) {
							t.Errorf("step %d: readers are not notified", i)
						}
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

func (d tree) describe(s Snapshot, start time.Time) string {
	seconds := func(at time.Time) int { return int(at.Sub(start) / time.Second) }
	text := fmt.Sprintf("%s: %s, kubelet %s since %d", strings.Join(d.below([]string{s.Source}), ""),
		valuesOf(s.File), valuesOf(s.Kubelet), seconds(s.Since))
	text = strings.ReplaceAll(text, "  ", " ")
	if s.Stub {
		text += " stub"
	}
	if s.Uplink == strings.HasPrefix(text, "path") || s.Path != d.path("path") || s.Kubelet.Path != s.Path || s.File.Path != s.Source {
		text += fmt.Sprintf(" with wrong paths %+v", s)
	}
	if err := s.Problem.Err; err != nil {
		reason := err.Error()
		if missing, ok := errors.AsType[*os.PathError](err); ok {
			reason = strings.ReplaceAll(reason, missing.Error(), missing.Err.Error())
		}
		text += fmt.Sprintf("; %s since %d", reason, seconds(s.Problem.Since))
	}
	return text
}

// valuesOf returns the servers and domains of a file.
func valuesOf(f resolvconf.File) string {
	if f.Err != nil {
		return "refused"
	}
	c := f.Config()
	return strings.Join(append(c.Nameservers, c.Searches...), " ")
}

func TestNew_Stub(t *testing.T) {
	d := newTree(t)
	d.write("resolve/stub-resolv.conf", server(1)) // of any content
	d.write("resolve/resolv.conf", server(2))
	d.link("resolve/stub-resolv.conf", "link")
	d.link("resolve/resolv.conf", "uplink")
	for name, text := range map[string]string{
		"one": stubText, "both": "nameserver 127.0.0.53\nnameserver 127.0.0.54\n", "proxy": "nameserver 127.0.0.54\n",
		"beside": stubText + server(1), "other": "nameserver 127.0.0.1\n", "empty": "",
	} {
		d.write(name, text)
	}
	for name, want := range map[string]bool{
		"link": true, "one": true, "both": true, "proxy": true,
		"uplink": false, "beside": false, "other": false, "empty": false, "missing": false,
	} {
		w, err := New(Config{Path: d.path(name), UplinkPath: d.path("resolve/resolv.conf")})
		d.check(err)
		if s, _ := w.Current(); s.Stub != want || s.Uplink || len(s.File.Nameservers) > 0 &&
			s.Source == d.path("resolve/resolv.conf") != (name == "uplink") {
			t.Errorf("%s: want %v, got %+v", name, want, s)
		}
	}
}

// TestNew_File checks the nameservers on the loopback, and that appending to a list of a
// snapshot copies the list.
func TestNew_File(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", "nameserver 127.0.0.53\nfoo\nnameserver 10.0.0.1\nfoo\nnameserver ::1\nnameserver ::ffff:127.0.0.1\n"+
		"nameserver 0.0.0.0\nnameserver fe80::1%eth0\nfoo\nnameserver 128.0.0.1\nnameserver localhost\nsearch a b c\noptions a b c\n")
	w, err := New(Config{Path: d.path("resolv.conf")})
	d.check(err)
	s, _ := w.Current()
	if diff := cmp.Diff([]string{"127.0.0.53", "::1", "::ffff:127.0.0.1", "0.0.0.0"}, s.Loopback()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	f := s.File
	if len(f.Nameservers) != 8 || len(f.Searches) != 3 || len(f.Options) != 3 || len(f.Ignored) != 3 {
		t.Errorf("got %+v", f)
	}
	if cap(f.Nameservers)+cap(f.Searches)+cap(f.Options)+cap(f.Ignored) != 8+3+3+3 {
		t.Error("a list has capacity for more")
	}
}

func TestNew_Errors(t *testing.T) {
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "hostresolv: empty path of the host's resolv.conf"},
		{Config{Path: "x", Uplink: 2}, "hostresolv: unknown UplinkMode 2"},
		{Config{Path: "x", Debounce: -1}, "hostresolv: debounce -1ns and poll 0s must not be negative"},
		{Config{Path: "x", Poll: -1}, "hostresolv: debounce 0s and poll -1ns must not be negative"},
	} {
		if _, err := New(test.cfg); errorText(err) != test.want {
			t.Errorf("got %v, want %v", err, test.want)
		}
	}
}

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

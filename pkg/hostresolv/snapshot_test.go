// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// readingOf is what reading a file gives; "" is a missing one.
func readingOf(name, text string) reading {
	r := reading{way: way{end: name}}
	if text == "" {
		r.file.Err = errors.New("no " + name)
		return r
	}
	r.file = resolvconf.Parse(text)
	r.digest = sha256.Sum256([]byte(text))
	return r
}

// TestAfter tells stories: what is in the files, and what snapshot comes of it.
func TestAfter(t *testing.T) {
	const stub = "nameserver 127.0.0.53\n"
	follow := func(uplink string) func(o *observation) {
		return func(o *observation) {
			r := readingOf("uplink", uplink)
			o.stub, o.uplink = true, &r
		}
	}
	type step struct {
		path   string
		follow func(*observation)
		want   string
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"a good file replaces any other", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{server(2), nil, "path: 10.0.0.2"},
		}},
		{"a bad file does not replace a good one", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{"", nil, "path: 10.0.0.1; no path since 1"},
			{"# empty\n", nil, "path: 10.0.0.1; it names no nameserver since 1"},
			{"nameserver\n", nil, "path: 10.0.0.1; Encountered error while parsing resolv conf file. Error: nameserver list is empty  since 1"},
			{server(1), nil, "path: 10.0.0.1"},
			{"", nil, "path: 10.0.0.1; no path since 5"},
		}},
		{"a bad line beside a good one is the kubelet's error", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{server(2) + "nameserver\n", nil, "path: 10.0.0.1; Encountered error while parsing resolv conf file. Error: nameserver list is empty  since 1"},
		}},
		{"without a good file it is what was read", []step{
			{"", nil, "path: refused; no path since 0"},
			{"search a\n", nil, "path:; it names no nameserver since 0"},
			{server(1) + "nameserver\n", nil, "path: 10.0.0.1 refused; Encountered error while parsing resolv conf file. Error: nameserver list is empty  since 0"},
			{server(1), nil, "path: 10.0.0.1"},
		}},
		{"a stub is followed", []step{
			{stub, follow(server(1)), "uplink: 10.0.0.1 stub"},
			{stub, follow(server(2)), "uplink: 10.0.0.2 stub"},
			{server(3), nil, "path: 10.0.0.3"},
		}},
		{"a stub is better than nothing", []step{
			{stub, follow(""), "path: 127.0.0.53 stub; the uplink file of systemd-resolved: no uplink since 0"},
			{stub, follow(server(1)), "uplink: 10.0.0.1 stub"},
		}},
		{"a stub does not replace its uplink", []step{
			{stub, follow(server(1)), "uplink: 10.0.0.1 stub"},
			{stub, follow("# No DNS servers known.\n"), "uplink: 10.0.0.1 stub; the uplink file of systemd-resolved: it names no nameserver since 1"},
			{"", nil, "uplink: 10.0.0.1 stub; no path since 1"},
			{stub, follow(server(2)), "uplink: 10.0.0.2 stub"},
		}},
		{"a stub replaces what was there before it", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{stub, follow(""), "path: 127.0.0.53 stub; the uplink file of systemd-resolved: no uplink since 1"},
		}},
		{"an empty stub file is a stub", []step{
			{"# empty\n", follow(server(1)), "uplink: 10.0.0.1 stub"},
		}},
		{"two bad files: the first is to blame", []step{
			{"# empty\n", follow(""), "path: stub; it names no nameserver since 0"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s Snapshot
			for i, step := range test.steps {
				o := observation{asked: readingOf("path", step.path)}
				if step.follow != nil {
					step.follow(&o)
				}
				s = s.after(o, time.Unix(int64(i), 0))
				if diff := cmp.Diff(step.want, story(s)); diff != "" {
					t.Fatalf("step %d (-want +got)\n%s", i, diff)
				}
			}
		})
	}
}

func story(s Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", s.Source)
	for _, e := range s.File.Nameservers {
		b.WriteString(" " + e.Text)
	}
	if s.File.Err != nil {
		b.WriteString(" refused")
	}
	if s.Stub {
		b.WriteString(" stub")
	}
	if s.Uplink != (s.Source == "uplink") {
		b.WriteString(" with the wrong Uplink")
	}
	if s.Problem.Err != nil {
		fmt.Fprintf(&b, "; %v since %d", s.Problem.Err, s.Problem.Since.Unix())
	}
	return b.String()
}

// TestAfter_Kubelet tells of the two files side by side: what the kubelet hands to pods, and
// what pods are to get.
func TestAfter_Kubelet(t *testing.T) {
	const stub = "nameserver 127.0.0.53\n"
	const missing = "" // for readingOf
	var s Snapshot
	for i, step := range []struct {
		path, uplink string // uplink "-": path is no stub
		asked, file  string
	}{
		{missing, "-", "refused", "refused"},
		{stub, missing, "127.0.0.53", "127.0.0.53"},
		{stub, server(1), "127.0.0.53", "10.0.0.1"},
		{stub + "search a\n", server(2), "127.0.0.53 a", "10.0.0.2"},
		{"# empty\n", server(2), "", "10.0.0.2"},      // a kubelet reads it
		{"nameserver\n", server(2), "", "10.0.0.2"},   // but not this
		{stub, "# empty\n", "127.0.0.53", "10.0.0.2"}, // the last good uplink
		{missing, "-", "127.0.0.53", "10.0.0.2"},
		{server(3), "-", "10.0.0.3", "10.0.0.3"},
		{"# empty\n", "-", "", "10.0.0.3"}, // the last good file
	} {
		o := observation{asked: readingOf("path", step.path)}
		if step.uplink != "-" {
			r := readingOf("uplink", step.uplink)
			o.stub, o.uplink = true, &r
		}
		s = s.after(o, time.Unix(int64(i), 0))
		if got := words(s.Kubelet); got != step.asked {
			t.Errorf("step %d: the kubelet hands out %q, want %q", i, got, step.asked)
		}
		if got := words(s.File); got != step.file {
			t.Errorf("step %d: the file is %q, want %q", i, got, step.file)
		}
	}
}

// words are the servers and domains of a file.
func words(f resolvconf.File) string {
	if f.Err != nil {
		return "refused"
	}
	c := f.Config()
	return strings.Join(append(c.Nameservers, c.Searches...), " ")
}

// TestSince: a text counts as one file as long as it does not change.
func TestSince(t *testing.T) {
	var s Snapshot
	for i, step := range []struct {
		text string
		want int64
	}{{"", 0}, {"", 0}, {server(1), 2}, {server(1), 2}, {"", 2}, {server(1), 2}, {server(2), 6}} {
		s = s.after(observation{asked: readingOf("path", step.text)}, time.Unix(int64(i), 0))
		if s.Since.Unix() != step.want {
			t.Errorf("step %d: since %d, want %d", i, s.Since.Unix(), step.want)
		}
	}
}

func TestLoopback(t *testing.T) {
	s := Snapshot{File: resolvconf.Parse(`
nameserver 127.0.0.53
nameserver 10.0.0.1
nameserver ::1
nameserver ::ffff:127.0.0.1
nameserver 0.0.0.0
nameserver fe80::1%eth0
nameserver 128.0.0.1
nameserver localhost
`)}
	want := []string{"127.0.0.53", "::1", "::ffff:127.0.0.1", "0.0.0.0"}
	if diff := cmp.Diff(want, s.Loopback()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestShared: whoever appends to a list of a snapshot does not write into it.
func TestShared(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", strings.Repeat("nameserver 10.0.0.1\nfoo\n", 3)+"search a b c\noptions a b c\n")
	f := read(d.path("resolv.conf")).file
	for name, free := range map[string]int{
		"Nameservers": cap(f.Nameservers) - len(f.Nameservers),
		"Searches":    cap(f.Searches) - len(f.Searches),
		"Options":     cap(f.Options) - len(f.Options),
		"Ignored":     cap(f.Ignored) - len(f.Ignored),
	} {
		if free != 0 {
			t.Errorf("%s has room for %d more", name, free)
		}
	}
}

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

// readingOf returns the reading of a file with this text; "" is a missing file.
func readingOf(name, text string) reading {
	r := reading{path: linkPath{end: name}}
	if text == "" {
		r.file.Err = errors.New("no " + name)
		return r
	}
	r.file = resolvconf.Parse(text)
	r.digest = sha256.Sum256([]byte(text))
	return r
}

// TestSnapshotNext_File checks File, step by step, for changes of the files.
func TestSnapshotNext_File(t *testing.T) {
	const stub = "nameserver 127.0.0.53\n"
	withUplink := func(uplink string) func(o *observation) {
		return func(o *observation) {
			r := readingOf("uplink", uplink)
			o.stub, o.uplink = true, &r
		}
	}
	type step struct {
		path    string
		observe func(*observation)
		want    string
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"good file", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{server(2), nil, "path: 10.0.0.2"},
		}},
		{"bad file after a good one", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{"", nil, "path: 10.0.0.1; no path since 1"},
			{"# empty\n", nil, "path: 10.0.0.1; the file has no nameserver since 1"},
			{"nameserver\n", nil,
				"path: 10.0.0.1; Encountered error while parsing resolv conf file. Error: nameserver list is empty  since 1"},
			{server(1), nil, "path: 10.0.0.1"},
			{"", nil, "path: 10.0.0.1; no path since 5"},
		}},
		{"bad line and good line", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{server(2) + "nameserver\n", nil,
				"path: 10.0.0.1; Encountered error while parsing resolv conf file. Error: nameserver list is empty  since 1"},
		}},
		{"no good file yet", []step{
			{"", nil, "path: refused; no path since 0"},
			{"search a\n", nil, "path:; the file has no nameserver since 0"},
			{server(1) + "nameserver\n", nil,
				"path: 10.0.0.1 refused; Encountered error while parsing resolv conf file. Error: nameserver list is empty  since 0"},
			{server(1), nil, "path: 10.0.0.1"},
		}},
		{"stub with uplink", []step{
			{stub, withUplink(server(1)), "uplink: 10.0.0.1 stub"},
			{stub, withUplink(server(2)), "uplink: 10.0.0.2 stub"},
			{server(3), nil, "path: 10.0.0.3"},
		}},
		{"stub without uplink yet", []step{
			{stub, withUplink(""), "path: 127.0.0.53 stub; uplink file of systemd-resolved: no uplink since 0"},
			{stub, withUplink(server(1)), "uplink: 10.0.0.1 stub"},
		}},
		{"stub with bad uplink", []step{
			{stub, withUplink(server(1)), "uplink: 10.0.0.1 stub"},
			{stub, withUplink("# No DNS servers known.\n"),
				"uplink: 10.0.0.1 stub; uplink file of systemd-resolved: the file has no nameserver since 1"},
			{"", nil, "uplink: 10.0.0.1 stub; no path since 1"},
			{stub, withUplink(server(2)), "uplink: 10.0.0.2 stub"},
		}},
		{"stub after another file", []step{
			{server(1), nil, "path: 10.0.0.1"},
			{stub, withUplink(""), "path: 127.0.0.53 stub; uplink file of systemd-resolved: no uplink since 1"},
		}},
		{"empty stub file", []step{
			{"# empty\n", withUplink(server(1)), "uplink: 10.0.0.1 stub"},
		}},
		{"empty stub file and bad uplink", []step{
			{"# empty\n", withUplink(""), "path: stub; the file has no nameserver since 0"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s Snapshot
			for i, step := range test.steps {
				o := observation{kubelet: readingOf("path", step.path), writer: "systemd-resolved"}
				if step.observe != nil {
					step.observe(&o)
				}
				s = s.next(o, time.Unix(int64(i), 0))
				if diff := cmp.Diff(step.want, describe(s)); diff != "" {
					t.Fatalf("step %d (-want +got)\n%s", i, diff)
				}
			}
		})
	}
}

func describe(s Snapshot) string {
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

// TestSnapshotNext_Kubelet checks Kubelet and File, step by step, for changes of the files.
func TestSnapshotNext_Kubelet(t *testing.T) {
	const stub = "nameserver 127.0.0.53\n"
	const missing = "" // for readingOf
	var s Snapshot
	for i, step := range []struct {
		path, uplink  string // uplink "-": path is not a stub
		kubelet, file string
	}{
		{missing, "-", "refused", "refused"},
		{stub, missing, "127.0.0.53", "127.0.0.53"},
		{stub, server(1), "127.0.0.53", "10.0.0.1"},
		{stub + "search a\n", server(2), "127.0.0.53 a", "10.0.0.2"},
		{"# empty\n", server(2), "", "10.0.0.2"},      // the kubelet accepts it
		{"nameserver\n", server(2), "", "10.0.0.2"},   // the kubelet refuses it
		{stub, "# empty\n", "127.0.0.53", "10.0.0.2"}, // the last good uplink
		{missing, "-", "127.0.0.53", "10.0.0.2"},
		{server(3), "-", "10.0.0.3", "10.0.0.3"},
		{"# empty\n", "-", "", "10.0.0.3"}, // the last good file
	} {
		o := observation{kubelet: readingOf("path", step.path)}
		if step.uplink != "-" {
			r := readingOf("uplink", step.uplink)
			o.stub, o.uplink = true, &r
		}
		s = s.next(o, time.Unix(int64(i), 0))
		if got := valuesOf(s.Kubelet); got != step.kubelet {
			t.Errorf("step %d: the file of the kubelet is %q, want %q", i, got, step.kubelet)
		}
		if got := valuesOf(s.File); got != step.file {
			t.Errorf("step %d: the file is %q, want %q", i, got, step.file)
		}
	}
}

// valuesOf returns the servers and domains of a file.
func valuesOf(f resolvconf.File) string {
	if f.Err != nil {
		return "refused"
	}
	c := f.Config()
	return strings.Join(append(c.Nameservers, c.Searches...), " ")
}

// TestSnapshotNext_Since checks that Since changes with the text only.
func TestSnapshotNext_Since(t *testing.T) {
	var s Snapshot
	for i, step := range []struct {
		text string
		want int64
	}{{"", 0}, {"", 0}, {server(1), 2}, {server(1), 2}, {"", 2}, {server(1), 2}, {server(2), 6}} {
		s = s.next(observation{kubelet: readingOf("path", step.text)}, time.Unix(int64(i), 0))
		if s.Since.Unix() != step.want {
			t.Errorf("step %d: since %d, want %d", i, s.Since.Unix(), step.want)
		}
	}
}

func TestSnapshot_Loopback(t *testing.T) {
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

// TestReadFile_Clipped checks that appending to a list of a snapshot copies the list.
func TestReadFile_Clipped(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", strings.Repeat("nameserver 10.0.0.1\nfoo\n", 3)+"search a b c\noptions a b c\n")
	f := readFile(d.path("resolv.conf")).file
	for name, free := range map[string]int{
		"Nameservers": cap(f.Nameservers) - len(f.Nameservers),
		"Searches":    cap(f.Searches) - len(f.Searches),
		"Options":     cap(f.Options) - len(f.Options),
		"Ignored":     cap(f.Ignored) - len(f.Ignored),
	} {
		if free != 0 {
			t.Errorf("%s has capacity for %d more", name, free)
		}
	}
}

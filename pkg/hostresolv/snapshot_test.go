// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
					w.poll()
					w.poll()
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
	text := fmt.Sprintf("%s: %s, kubelet %s since %d", filepath.Base(s.File.Path),
		valuesOf(s.File), valuesOf(s.Kubelet), seconds(s.Since))
	text = strings.ReplaceAll(text, "  ", " ")
	if s.Stub {
		text += " stub"
	}
	if s.Uplink == strings.HasPrefix(text, "path") || s.Path != d.path("path") || s.Kubelet.Path != s.Path {
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
		if s, _ := w.Current(); s.Stub != want || s.Uplink {
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
		{Config{Path: "x", Poll: -1}, "hostresolv: poll -1ns must not be negative"},
	} {
		if _, err := New(test.cfg); errorText(err) != test.want {
			t.Errorf("got %v, want %v", err, test.want)
		}
	}
}

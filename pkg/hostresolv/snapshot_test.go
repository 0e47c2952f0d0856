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

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	stubText = "nameserver 127.0.0.53\n"
	noLine   = "Encountered error while parsing resolv conf file. Error: nameserver list is empty "
)

// TestReread_Steps checks the snapshot after changes of the files. The first file
// is read by the kubelet, the others are the uplink files; "" is a missing file.
func TestReread_Steps(t *testing.T) {
	type step struct{ path, uplink, want string }
	for _, test := range []struct {
		name, uplink string
		steps        []step
	}{
		{"good file", "uplink", []step{
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1"},
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1"},
			{server(2), "", "path: 10.0.0.2, kubelet 10.0.0.2"},
		}},
		{"bad file after a good one", "uplink", []step{
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1"},
			{"", "", "path: 10.0.0.1, kubelet 10.0.0.1; no such file or directory"},
			{"# empty\n", "", "path: 10.0.0.1, kubelet; the file has no nameserver"},
			{"nameserver\n", "", "path: 10.0.0.1, kubelet; " + noLine + ""},
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1"},
			{server(2) + "nameserver\n", "", "path: 10.0.0.1, kubelet 10.0.0.1; " + noLine + ""},
		}},
		{"no good file yet", "uplink", []step{
			{"", "", "path: refused, kubelet refused; no such file or directory"},
			{"search a\n", "", "path: a, kubelet a; the file has no nameserver"},
			{server(1), "", "path: 10.0.0.1, kubelet 10.0.0.1"},
		}},
		{"stub of systemd-resolved", "uplink", []step{
			{stubText, "", "path: 127.0.0.53, kubelet 127.0.0.53 stub; " +
				"uplink file of systemd-resolved: no such file or directory"},
			{stubText, server(1), "uplink: 10.0.0.1, kubelet 127.0.0.53 stub"},
			{stubText + "search a\n", server(2), "uplink: 10.0.0.2, kubelet 127.0.0.53 a stub"},
			{stubText, "# No DNS servers known.\n", "uplink: 10.0.0.2, kubelet 127.0.0.53 stub; " +
				"uplink file of systemd-resolved: the file has no nameserver"},
			{"", server(2), "uplink: 10.0.0.2, kubelet 127.0.0.53 stub; no such file or directory"},
			{"nameserver\n", server(2), "uplink: 10.0.0.2, kubelet 127.0.0.53 stub; " + noLine + ""},
			{server(3), server(2), "path: 10.0.0.3, kubelet 10.0.0.3"},
			{stubText, "", "path: 127.0.0.53, kubelet 127.0.0.53 stub; " +
				"uplink file of systemd-resolved: no such file or directory"},
		}},
		{"stub of NetworkManager", "nostub", []step{
			{"nameserver 127.0.0.1\nnameserver ::1\n", "", "path: 127.0.0.1 ::1, kubelet 127.0.0.1 ::1 stub; " +
				"uplink file of NetworkManager: no such file or directory"},
			{"nameserver 127.0.0.1\nnameserver ::1\n", server(1), "nostub: 10.0.0.1, kubelet 127.0.0.1 ::1 stub"},
			{"nameserver 127.0.0.1\n" + server(2), server(1), "path: 127.0.0.1 10.0.0.2, kubelet 127.0.0.1 10.0.0.2"},
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
			var w *Watcher
			for i, step := range test.steps {
				put("path", step.path)
				put(test.uplink, step.uplink)
				if i == 0 {
					w = New(Config{Path: d.path("path"), Uplink: true, UplinkPath: d.path("uplink"), NoStubPath: d.path("nostub")})
				}
				before, newer := w.Current()
				got := d.describe(w.Reread())
				if diff := cmp.Diff(step.want, got); diff != "" {
					t.Errorf("step %d (-want +got)\n%s", i, diff)
				}
				w.poll()
				w.poll()
				if now, _ := w.Current(); d.describe(now) != got {
					t.Errorf("step %d: published %s", i, d.describe(now))
				}
				select {
				case <-newer:
				default:
					if got != d.describe(before) {
						t.Errorf("step %d: readers are not notified", i)
					}
				}
			}
		})
	}
}

func (d tree) describe(s Snapshot) string {
	text := strings.TrimSpace(fmt.Sprintf("%s: %s, kubelet %s", filepath.Base(s.File.Path), valuesOf(s.File), valuesOf(s.Kubelet)))
	if s.Stub {
		text += " stub"
	}
	if s.Uplink == strings.HasPrefix(text, "path") || s.Path != d.path("path") || s.Kubelet.Path != s.Path {
		text += fmt.Sprintf(" with wrong paths %+v", s)
	}
	if err := s.Problem; err != nil {
		reason := err.Error()
		if missing, ok := errors.AsType[*os.PathError](err); ok {
			reason = strings.ReplaceAll(reason, missing.Error(), missing.Err.Error())
		}
		text += "; " + reason
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
		w := New(Config{Path: d.path(name), UplinkPath: d.path("resolve/resolv.conf")})
		if s, _ := w.Current(); s.Stub != want || s.Uplink {
			t.Errorf("%s: want %v, got %+v", name, want, s)
		}
	}
}

// TestNew_File checks that appending to a list of a snapshot copies the list.
func TestNew_File(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", strings.Repeat("nameserver 10.0.0.1\nfoo\n", 3)+"search a b c\noptions a b c\n")
	s, _ := New(Config{Path: d.path("resolv.conf")}).Current()
	f := s.File
	if len(f.Nameservers) != 3 || len(f.Searches) != 3 || len(f.Options) != 3 || len(f.Ignored) != 3 {
		t.Errorf("got %+v", f)
	}
	if cap(f.Nameservers)+cap(f.Searches)+cap(f.Options)+cap(f.Ignored) != 4*3 {
		t.Error("a list has capacity for more")
	}
}

// TestNew_NoFile: without a path there is no file, and no problem.
func TestNew_NoFile(t *testing.T) {
	w := New(Config{})
	w.poll()
	s, newer := w.Current()
	select {
	case <-newer:
		t.Error("there is another snapshot")
	default:
	}
	if diff := cmp.Diff(s, w.Reread()); diff != "" || s.Problem != nil || s.File.Path != "" {
		t.Errorf("%+v, read again:\n%s", s, diff)
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.53": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": true,
		"10.0.0.1": false, "fe80::1%eth0": false, "128.0.0.1": false, "localhost": false,
	} {
		if isLoopback(address) != want {
			t.Errorf("%s: want %t", address, want)
		}
	}
}

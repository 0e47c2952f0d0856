// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"strings"
	"testing"
	"time"
)

const stubText = "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.org\n"

func TestIsStub_Files(t *testing.T) {
	d := newTree(t)
	d.write("resolve/stub-resolv.conf", server(1)) // of any content
	d.write("resolve/resolv.conf", server(2))
	d.link("resolve/stub-resolv.conf", "link")
	d.link("resolve/resolv.conf", "uplink")
	for name, text := range map[string]string{
		"one":    stubText,
		"both":   "nameserver 127.0.0.53\nnameserver 127.0.0.54\n",
		"proxy":  "nameserver 127.0.0.54\n",
		"beside": stubText + server(1),
		"other":  "nameserver 127.0.0.1\n",
		"empty":  "",
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

// TestRun_UplinkAuto changes the files like a host with systemd-resolved.
func TestRun_UplinkAuto(t *testing.T) {
	d := newTree(t)
	d.write("etc/resolv.conf", stubText) // a copy, not a link
	uplink := d.path("run/resolve/resolv.conf")
	w := watch(t, Config{Path: d.path("etc/resolv.conf"), Uplink: UplinkAuto, UplinkPath: uplink})

	isUplink := func(n int) func(Snapshot) bool {
		return func(s Snapshot) bool { return serves(n)(s) && s.Stub && s.Uplink && s.Source == uplink }
	}
	s := w.until("no uplink file yet", func(s Snapshot) bool { return s.Problem.Err != nil })
	if got := s.Loopback(); !s.Stub || s.Uplink || len(got) != 1 || got[0] != "127.0.0.53" || s.File.Err != nil {
		t.Errorf("no uplink file yet: got %+v", s)
	}
	d.write("run/resolve/resolv.conf", server(1))
	w.until("systemd-resolved starts", isUplink(1))
	d.replace("run/resolve/resolv.conf", server(2))
	w.until("new servers by DHCP", isUplink(2))
	d.replace("run/resolve/resolv.conf", "# No DNS servers known.\n")
	w.until("link down", func(s Snapshot) bool { return keeps(2, "the file has no nameserver")(s) && s.Uplink })
	d.remove("run/resolve")
	w.until("systemd-resolved stops", func(s Snapshot) bool { return keeps(2, "no such file")(s) && s.Uplink })
	d.write("run/resolve/resolv.conf", server(3))
	w.until("and starts", isUplink(3))
	d.write("run/resolve/stub-resolv.conf", stubText)
	d.link("../run/resolve/stub-resolv.conf", "etc/resolv.conf")
	d.write("run/resolve/resolv.conf", server(4))
	w.until("a link to the stub file", isUplink(4))
	d.write("run/resolve/resolv.conf", "nameserver 127.0.0.1\n")
	w.until("an uplink on the node itself", func(s Snapshot) bool { return s.Uplink && len(s.Loopback()) == 1 })
	d.replace("etc/resolv.conf", server(5))
	w.until("systemd-resolved removed", func(s Snapshot) bool { return serves(5)(s) && !s.Stub && !s.Uplink })
}

// TestNew_UplinkNever checks that pods get the stub file.
func TestNew_UplinkNever(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", stubText)
	d.write("uplink", server(1))
	w, err := New(Config{Path: d.path("resolv.conf"), UplinkPath: d.path("uplink")})
	d.check(err)
	if s, _ := w.Current(); !s.Stub || s.Uplink || s.Source != d.path("resolv.conf") {
		t.Errorf("got %+v", s)
	}
}

// TestReread_UplinkAuto checks that Reread finds changes of both files.
func TestReread_UplinkAuto(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", stubText)
	d.write("uplink", server(1))
	w, err := New(Config{Path: d.path("resolv.conf"), Uplink: UplinkAuto, UplinkPath: d.path("uplink")})
	d.check(err)
	for n := 2; n < 5; n++ {
		d.write("uplink", server(n))
		if s := w.Reread(); !serves(n)(s) {
			t.Errorf("uplink: got %+v", s)
		}
	}
	_, newer := w.Current()
	d.write("resolv.conf", stubText+"search other.example\n")
	if s := w.Reread(); !serves(4)(s) || valuesOf(s.Kubelet) != "127.0.0.53 other.example" ||
		s.Kubelet.Path != d.path("resolv.conf") || s.File.Path != d.path("uplink") {
		t.Errorf("the stub alone: got %+v", s)
	}
	select {
	case <-newer:
	default:
		t.Error("readers are not notified of a change of the stub alone")
	}
	d.write("resolv.conf", strings.ReplaceAll(stubText, "127.0.0.53", "10.0.0.9"))
	if s := w.Reread(); s.Stub || s.Uplink || time.Since(s.Since) > time.Minute {
		t.Errorf("path: got %+v", s)
	}
}

// TestRun_NoStub changes the files like a host with NetworkManager and its dnsmasq.
func TestRun_NoStub(t *testing.T) {
	d := newTree(t)
	d.write("etc/resolv.conf", "nameserver 127.0.0.1\nnameserver ::1\n")
	noStub := d.path("run/no-stub-resolv.conf")
	w := watch(t, Config{Path: d.path("etc/resolv.conf"), Uplink: UplinkAuto,
		UplinkPath: d.path("run/resolve/resolv.conf"), NoStubPath: noStub})

	s := w.until("no file of NetworkManager yet", func(s Snapshot) bool { return s.Problem.Err != nil })
	if !s.Stub || s.Uplink || len(s.Loopback()) != 2 || !strings.HasPrefix(s.Problem.Err.Error(), "uplink file of NetworkManager: ") {
		t.Errorf("got %+v", s)
	}
	d.write("run/no-stub-resolv.conf", server(1))
	s = w.until("NetworkManager starts", func(s Snapshot) bool { return serves(1)(s) && s.Stub && s.Uplink && s.Source == noStub })
	if s.Kubelet.Path != d.path("etc/resolv.conf") || len(s.Kubelet.Nameservers) != 2 {
		t.Errorf("the kubelet's file: %+v", s.Kubelet)
	}
	d.replace("etc/resolv.conf", "nameserver 127.0.0.1\n"+server(2))
	w.until("a server beside the stub", func(s Snapshot) bool { return !s.Stub && !s.Uplink && len(s.Loopback()) == 1 })
}

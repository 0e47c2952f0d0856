// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package install_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
)

// systemctlLog is a systemctl that appends its arguments to a file, and the file.
func systemctlLog(t *testing.T) (install.Systemctl, string) {
	t.Helper()
	dir := t.TempDir()
	program, calls := filepath.Join(dir, "systemctl"), filepath.Join(dir, "calls")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$1\" >>"+calls+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return install.Systemctl{Program: program}, calls
}

// TestBypass_End checks that the bypass ends only if the shim serves.
func TestBypass_End(t *testing.T) {
	for name, test := range map[string]struct {
		check error
		calls string
	}{
		"shim serves":  {nil, "stop\nreset-failed\nstart\n"},
		"shim crashes": {errors.New("connection refused"), "stop\nreset-failed\nstart\nstop\n"},
	} {
		t.Run(name, func(t *testing.T) {
			systemctl, calls := systemctlLog(t)
			dir := t.TempDir()
			s := install.Installer{
				Bypass: &shim.Bypass{
					Socket: filepath.Join(dir, "shim.sock"), Runtime: filepath.Join(dir, "runtime.sock"), State: dir,
				},
				Systemctl: systemctl, Running: true,
				Check: func(context.Context) error { return test.check },
			}
			began, err := s.StartBypass(t.Context(), "test")
			if err != nil || !began {
				t.Fatalf("began %v, %v", began, err)
			}
			ended, err := s.EndBypass(t.Context())
			if !errors.Is(err, test.check) || ended != (test.check == nil) {
				t.Errorf("ended %v, %v", ended, err)
			}
			record, err := s.Bypass.Active()
			if err != nil || (record != nil) != (test.check != nil) {
				t.Errorf("record %v, %v", record, err)
			}
			if record != nil && record.Reason != "test" {
				t.Errorf("reason %q", record.Reason)
			}
			text, err := os.ReadFile(calls)
			if err != nil || string(text) != test.calls {
				t.Errorf("%v, calls:\n%s", err, text)
			}
		})
	}
}

// TestBypass_StartFails: the bypass has begun if its link exists, also if the units cannot be stopped. The
// caller reports both, once.
func TestBypass_StartFails(t *testing.T) {
	dir := t.TempDir()
	s := install.Installer{
		Bypass:    &shim.Bypass{Socket: filepath.Join(dir, "shim.sock"), Runtime: "/runtime.sock", State: dir},
		Systemctl: install.Systemctl{Program: "false"}, Running: true,
	}
	for i := range 2 {
		if began, err := s.StartBypass(t.Context(), "test"); err == nil || began != (i == 0) {
			t.Errorf("began %v, %v", began, err)
		}
	}
}

// TestNode_Links: an absolute link on a mounted image leads to a directory of the image, as it does when
// the image runs, and not to that of this machine.
func TestNode_Links(t *testing.T) {
	outside := t.TempDir()
	root := node{
		"/etc/dnsconfigurer":     "-> " + outside,
		outside + "/shim.yaml":   "listen: unix:///socket/shim.sock\n",
		"/socket":                "-> " + outside,
		"/var/lib/dnsconfigurer": "-> " + outside,
	}.write(t)
	n, err := install.Node{Root: root, Config: "/etc/dnsconfigurer/shim.yaml"}.Installer()
	if err != nil {
		t.Fatal(err)
	}
	if began, err := n.StartBypass(t.Context(), "maintenance"); err != nil || !began {
		t.Fatalf("began %v, %v", began, err)
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) > 0 {
		t.Errorf("files of this machine were written: %v, %v", files, err)
	}
	for _, name := range []string{"shim.sock", "bypass.json"} {
		if _, ok := read(t, root)[filepath.Join(outside, name)]; !ok {
			t.Errorf("%s is not on the image: %v", name, read(t, root))
		}
	}
	if ended, err := n.EndBypass(t.Context()); err != nil || !ended {
		t.Fatalf("ended %v, %v", ended, err)
	}
	for _, name := range []string{"shim.sock", "bypass.json"} {
		if _, ok := read(t, root)[filepath.Join(outside, name)]; ok {
			t.Errorf("%s is left on the image", name)
		}
	}
}

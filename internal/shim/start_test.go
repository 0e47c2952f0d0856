// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// origin wants this label of the gauge for the source of the settings.
func (r *reloadTest) origin(want string) {
	r.Helper()
	families := must.Get(r.metrics.Gather())(r)
	for _, f := range families {
		if f.GetName() != "dnsconfigurer_config_source" {
			continue
		}
		for _, m := range f.GetMetric() {
			if label := m.GetLabel()[0].GetValue(); (label == want) != (m.GetGauge().GetValue() == 1) {
				r.Errorf("source %q is %v, want only %q", label, m.GetGauge().GetValue(), want)
			}
		}
	}
}

// newReloadTest runs test in a bubble, in which no shim runs yet.
func newReloadTest(t *testing.T, test func(*reloadTest)) {
	synctest.Test(t, func(t *testing.T) {
		r := &reloadTest{T: t, dir: t.TempDir(), hangup: make(chan os.Signal)}
		r.write("shim.yaml", reloadedShim)
		r.write("kubelet.yaml", reloadedKubelet)
		test(r)
	})
}

// TestStart_Invalid starts without valid settings: there are at most two lines in 90 seconds,
// and valid files are applied without a signal.
func TestStart_Invalid(t *testing.T) {
	newReloadTest(t, func(r *reloadTest) {
		r.write("shim.yaml", reloadedShim+"mode: Guess\n")
		defer r.start()()
		r.logged("invalid configuration, passing all sandboxes unchanged", "shim.yaml:4:1: mode: ")
		r.success(0)
		r.origin(fromNothing)
		time.Sleep(90*time.Second - time.Millisecond)
		r.logged("level=ERROR")
		if lines := strings.Count(r.log.String(), "\n"); lines != 2 {
			t.Errorf("%d lines in 90 s:\n%s", lines, r.log.String())
		}
		r.write("shim.yaml", reloadedShim)
		time.Sleep(2 * pollPeriod)
		r.logged("configuration applied")
		r.success(1)
		r.origin(fromFiles)
	})
}

// TestStart_LastGood starts with files that became invalid: the settings and the kubelet's
// facts of the previous process are used.
func TestStart_LastGood(t *testing.T) {
	newReloadTest(t, func(r *reloadTest) {
		r.write("shim.yaml", reloadedShim+"mode: Observe\nautopath: {nodeCache: 169.254.20.10}\nlookupTimeout: 3s\n")
		r.start()()
		r.logged("configuration applied", "mode=Observe")
		for _, name := range []string{"shim.yaml", "kubelet.yaml"} {
			r.write(name, "node: [")
		}
		stop := r.start()
		r.logged("configuration applied", "mode=Observe", "clusterDNS=[10.96.0.10]", "clusterDomain=cluster.local",
			"invalid configuration, using the last good settings", "shim.yaml:1: ")
		r.success(0)
		r.origin(fromLastGood)
		stop()

		last, err := lastGood(filepath.Join(r.dir, "last-good-shim.yaml")).load()
		if err != nil || last.Node.Name != "worker" || last.Autopath.NodeCache != "169.254.20.10" ||
			config.Duration(last.LookupTimeout) != 3*time.Second {
			t.Errorf("%+v, %v", last, err)
		}
		if e := last.Endpoints(); e != (Endpoints{Listen: "unix:///run/dnsconfigurer/shim.sock",
			Runtime: "unix:///run/containerd/containerd.sock"}) {
			t.Errorf("%+v", e)
		}
	})
}

// TestLastGood_Unusable: neither a damaged file nor a directory that cannot be written stops
// the shim.
func TestLastGood_Unusable(t *testing.T) {
	newReloadTest(t, func(r *reloadTest) {
		r.write("last-good-shim.yaml", "half")
		r.write("shim.yaml", "")
		stop := r.start()
		r.logged("cannot read the last good settings", "passing all sandboxes unchanged")
		r.origin(fromNothing)
		time.Sleep(5 * pollPeriod)
		if text, err := os.ReadFile(filepath.Join(r.dir, "last-good-shim.yaml")); string(text) != "half" {
			t.Errorf("the damaged file was replaced without valid settings: %s, %v", text, err)
		}
		stop()
		path := filepath.Join(r.dir, "last-good-shim.yaml")
		must.Succeed(t, errors.Join(os.Remove(path), os.MkdirAll(path+"/x", 0o700)))
		r.write("shim.yaml", reloadedShim)
		defer r.start()()
		r.logged("configuration applied", "cannot keep the settings for the next start")
		r.origin(fromFiles)
	})
}

// TestLastGood_Save replaces the file atomically and only if the settings differ.
func TestLastGood_Save(t *testing.T) {
	newReloadTest(t, func(r *reloadTest) {
		c := must.Get(Kind().FromFile(filepath.Join(r.dir, "shim.yaml")).Load())(t)
		file := lastGood(filepath.Join(r.dir, "state", "last-good-shim.yaml"))
		if err := file.save(c); err == nil {
			t.Error("no error without the directory")
		}
		must.Succeed(t, os.Mkdir(filepath.Dir(string(file)), 0o700))
		var before os.FileInfo
		for i := range 3 {
			if i == 2 {
				c.ShimConfiguration.Mode = "Force"
			}
			must.Succeed(t, file.save(c))
			after, err := os.Stat(string(file))
			if err != nil || after.Mode() != 0o600 {
				t.Fatalf("%v, %v", after, err)
			}
			if before != nil && os.SameFile(before, after) != (i == 1) {
				t.Errorf("save %d: the file was replaced: %v", i, !os.SameFile(before, after))
			}
			before = after
		}
		if names, err := filepath.Glob(filepath.Dir(string(file)) + "/.*"); err != nil || fmt.Sprint(names) != "[]" {
			t.Errorf("left behind: %v, %v", names, err)
		}
	})
}

// TestStart_NoClient: while the client of the API server cannot be created, there is one line a
// minute, and the other settings are applied.
func TestStart_NoClient(t *testing.T) {
	newReloadTest(t, func(r *reloadTest) {
		path := filepath.Join(r.dir, "kubeconfig")
		cert := filepath.Join(r.dir, "ca.pem")
		r.write("kubeconfig",
			strings.Replace(kubeapi.Kubeconfig("https://api.invalid"), "cluster: {", "cluster: {certificate-authority: "+cert+", ", 1))
		r.write("shim.yaml", reloadedShim+"kubeconfig: "+path+"\n")
		defer r.start()()
		r.logged("configuration applied", "cannot create the API client, retrying", "ca.pem: no such file or directory")
		r.success(1)
		r.origin(fromFiles)
		time.Sleep(3*time.Minute - time.Second)
		r.logged("level=ERROR")
		if lines := strings.Count(r.log.String(), "\n"); lines != 4 {
			t.Errorf("%d lines in three minutes, want 4:\n%s", lines, r.log.String())
		}
	})
}

// TestSocketPath: the path of an inherited socket is read without closing or removing it.
func TestSocketPath(t *testing.T) {
	if got := socketPath(nil); got != "" {
		t.Errorf("no socket: %q", got)
	}
	path := filepath.Join(t.TempDir(), "s.sock")
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	defer l.Close()
	f := must.Get(l.File())(t)
	defer f.Close()
	for range 2 {
		if got := socketPath(f); got != path {
			t.Errorf("got %q, want %q", got, path)
		}
	}
	c := must.Get(net.Dial("unix", path))(t)
	c.Close()
}

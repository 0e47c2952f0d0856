// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// reloading is a reloader that runs in a bubble, on real files.
type reloading struct {
	*testing.T
	dir     string
	hangup  chan os.Signal
	metrics *prometheus.Registry
	log     lockedBuffer
	read    int // of the log
}

func (r *reloading) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// look lets the reloader look at the files once, and wants these words in the new lines
// of the log; none: no line at all.
func (r *reloading) look(words ...string) {
	r.Helper()
	time.Sleep(reloadPeriod)
	r.said(words...)
}

func (r *reloading) said(words ...string) {
	r.Helper()
	synctest.Wait()
	text := r.log.String()[r.read:]
	r.read += len(text)
	if len(words) == 0 && text != "" {
		r.Errorf("the log says:\n%s", text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			r.Errorf("the log does not say %q:\n%s", w, text)
		}
	}
}

// success wants the gauge to be 1, or 0.
func (r *reloading) success(want float64) {
	r.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.Fatal(err)
	}
	if got := families[0].GetMetric()[0].GetGauge().GetValue(); families[0].GetName() != "dnsconfigurer_config_last_reload_success" || got != want {
		r.Errorf("%s is %v, want %v", families[0].GetName(), got, want)
	}
}

const (
	reloadedShim = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
		"node: {kubeletConfig: kubelet.yaml, nodeName: worker}\n"
	reloadedKubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nresolvConf: \"\"\n"
)

// withReloader runs test beside a reloader of shim.yaml, which names kubelet.yaml.
func withReloader(t *testing.T, test func(*reloading)) {
	synctest.Test(t, func(t *testing.T) {
		r := &reloading{T: t, dir: t.TempDir(), hangup: make(chan os.Signal), metrics: prometheus.NewRegistry()}
		r.write("shim.yaml", reloadedShim)
		r.write("kubelet.yaml", reloadedKubelet)
		s, flags := shimFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		s.node.RegisterWithoutDefaults(flags)
		if err := flags.Parse([]string{"--config", filepath.Join(r.dir, "shim.yaml")}); err != nil {
			t.Fatal(err)
		}
		load := func() (settings, error) { return s.load(flags) }
		first, err := load()
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.NewTextHandler(&r.log, nil))
		force := &shimInForce{load: load, shim: &cri.Shim{}, log: log}
		if err := force.start(first); err != nil {
			t.Fatal(err)
		}
		reloader := &reloader{
			files: &s.node.Files, hangup: r.hangup, reload: force.reload, running: force.host,
			success: newReloadSuccess(r.metrics), log: log,
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- reloader.run(ctx) }()
		r.said("settings in force", "mode=Generate", "clusterDNS=[10.96.0.10]")
		r.success(1)
		test(r)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestReload(t *testing.T) {
	withReloader(t, func(r *reloading) {
		r.look()

		r.write("shim.yaml", reloadedShim+"mode: Observe\n")
		r.look() // it may not be complete
		r.look("settings in force", "mode=Observe")
		r.look()

		r.write("kubelet.yaml", strings.Replace(reloadedKubelet, "10.96.0.10", "10.96.0.99", 1))
		r.look()
		r.look("settings in force", "clusterDNS=[10.96.0.99]", "mode=Observe")

		r.write("other.yaml", reloadedKubelet)
		r.write("shim.yaml", strings.Replace(reloadedShim, "kubelet.yaml", "other.yaml", 1))
		r.look()
		r.look("settings in force", "clusterDNS=[10.96.0.10]", "mode=Generate")
		r.write("kubelet.yaml", "is not read any more")
		r.look()
		r.look()
		r.success(1)
	})
}

// TestReloadHalfWritten has a file that grows: no state of it counts that does not last.
func TestReloadHalfWritten(t *testing.T) {
	withReloader(t, func(r *reloading) {
		text := reloadedShim + "mode: Observe\n"
		for end := 10; end < len(text); end += 10 {
			r.write("shim.yaml", text[:end])
			r.look()
		}
		r.write("shim.yaml", text)
		r.look()
		r.look("settings in force", "mode=Observe")
		r.write("shim.yaml", "mode: Force")
		r.look()
		r.write("shim.yaml", text) // nothing came of it
		r.look()
		r.look()
	})
}

// TestReloadBadFile has files that no shim could start with: the settings stay, and the
// reason is told once.
func TestReloadBadFile(t *testing.T) {
	for _, bad := range []struct{ name, file, text, want string }{
		{"unknown field", "shim.yaml", reloadedShim + "mod: Observe\n", `shim.yaml: unknown field \"mod\"`},
		{"bad value", "shim.yaml", reloadedShim + "mode: Observe\ndrainTimeout: soon\n", `shim.yaml: drainTimeout \"soon\"`},
		{"bad address", "shim.yaml", reloadedShim + "autopath: {nodeCache: localhost}\n", `shim.yaml: autopath.nodeCache: \"localhost\" is not an IP address`},
		{"no YAML", "shim.yaml", "node: [", "shim.yaml: "},
		{"empty", "shim.yaml", "", "shim.yaml: apiVersion: is"},
		{"bad domain", "kubelet.yaml", strings.Replace(reloadedKubelet, "cluster.local", "a b", 1), `kubelet.yaml: clusterDomain: \"a b\" must be one word`},
		{"another kind", "kubelet.yaml", "apiVersion: v1\nkind: Pod\n", "kubelet.yaml: is "},
	} {
		t.Run(bad.name, func(t *testing.T) {
			withReloader(t, func(r *reloading) {
				r.write(bad.file, bad.text)
				r.look()
				r.look("level=ERROR", bad.want)
				r.success(0)
				r.look()
				r.write("shim.yaml", reloadedShim+"mode: Observe\n")
				r.write("kubelet.yaml", reloadedKubelet)
				r.look()
				r.look("settings in force", "mode=Observe")
				r.success(1)
			})
		})
	}
}

// TestReloadMissingFile has a file that goes, as in an update that is no rename.
func TestReloadMissingFile(t *testing.T) {
	withReloader(t, func(r *reloading) {
		path := filepath.Join(r.dir, "kubelet.yaml")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		r.look()
		r.look("level=ERROR", "no such file or directory")
		r.success(0)
		r.write("kubelet.yaml", reloadedKubelet)
		r.look()
		r.look("settings in force")
		r.success(1)
	})
}

func TestReloadHangup(t *testing.T) {
	withReloader(t, func(r *reloading) {
		r.write("shim.yaml", reloadedShim+"mode: Force\n")
		r.hangup <- os.Interrupt // any
		r.said("settings in force", "mode=Force")
		r.look()
		r.look()
	})
}

// TestReloadNeedsRestart has a change of which a part counts at once.
func TestReloadNeedsRestart(t *testing.T) {
	withReloader(t, func(r *reloading) {
		r.write("shim.yaml", strings.Replace(reloadedShim, "worker", "other", 1)+
			"mode: Observe\nlisten: unix:///elsewhere\nruntimeEndpoint: unix:///r\nkubeconfig: k\nmanifests: m\nhttp: h\ndrainTimeout: 1s\n")
		r.look()
		r.look("settings in force", "mode=Observe", "needs a restart",
			`fields="[listen runtimeEndpoint kubeconfig manifests http drainTimeout node.nodeName]"`)
		r.success(1)
		r.look()
	})
}

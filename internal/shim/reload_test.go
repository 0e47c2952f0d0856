// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// reloadTest is a shim without its sockets that runs in a bubble, on real files.
type reloadTest struct {
	*testing.T
	dir     string
	hangup  chan os.Signal
	metrics *prometheus.Registry
	log     logbuffer.Buffer
	read    int // length of the log that was compared
}

func (r *reloadTest) write(name, text string) {
	r.Helper()
	must.Succeed(r, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

// poll lets the shim poll the files once, and wants these words in the new lines of
// the log. Without words it wants no new line.
func (r *reloadTest) poll(words ...string) {
	r.Helper()
	time.Sleep(pollPeriod)
	r.logged(words...)
}

func (r *reloadTest) logged(words ...string) {
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

// success wants this value of the gauge.
func (r *reloadTest) success(want float64) {
	r.Helper()
	const name = "dnsconfigurer_config_last_reload_success"
	text := fmt.Sprintf("# HELP %s 1 if the configuration files were valid when they were last read, 0 if the server keeps "+
		"a previous configuration.\n# TYPE %[1]s gauge\n%[1]s %v\n", name, want)
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(text), name); err != nil {
		r.Error(err)
	}
}

const (
	reloadedShim = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
		"node: {kubeletConfig: kubelet.yaml, nodeName: worker}\n"
	reloadedKubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nresolvConf: \"\"\n"
)

// start applies shim.yaml, and keeps the settings up to date.
func (r *reloadTest) start() (stop func()) {
	r.metrics = prometheus.NewRegistry()
	p := daemon.Process{Log: slog.New(slog.NewTextHandler(&r.log, nil)), Metrics: r.metrics, Reload: r.hangup}
	shim := newServer(p, Kind().FromFile(filepath.Join(r.dir, "shim.yaml")), nil, lastGood(filepath.Join(r.dir, "last-good-shim.yaml")))
	files, last := shim.load(), settings{err: errNoState}
	if files.err != nil {
		last = newSettings(shim.lastGood.load())
	}
	shim.serving = files.Config
	shim.start(files, last)
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error)
	go func() { ended <- shim.keepSettings(ctx) }()
	synctest.Wait() // for the first poll
	return func() {
		cancel()
		if err := <-ended; err != nil {
			r.Error(err)
		}
	}
}

// withShim runs test with the settings of shim.yaml, which refers to kubelet.yaml.
func withShim(t *testing.T, test func(*reloadTest)) {
	newReloadTest(t, func(r *reloadTest) {
		stop := r.start()
		r.logged("configuration applied", "mode=Generate", "clusterDNS=[10.96.0.10]")
		r.success(1)
		test(r)
		stop()
	})
}

func TestReload(t *testing.T) {
	withShim(t, func(r *reloadTest) {
		r.poll()

		r.write("shim.yaml", reloadedShim+"mode: Observe\n")
		r.poll() // the file may be incomplete
		r.poll("configuration applied", "mode=Observe")
		r.poll()

		r.write("kubelet.yaml", strings.Replace(reloadedKubelet, "10.96.0.10", "10.96.0.99", 1))
		r.poll()
		r.poll("configuration applied", "clusterDNS=[10.96.0.99]", "mode=Observe")

		r.write("other.yaml", reloadedKubelet)
		r.write("shim.yaml", strings.Replace(reloadedShim, "kubelet.yaml", "other.yaml", 1))
		r.poll()
		r.poll("configuration applied", "clusterDNS=[10.96.0.10]", "mode=Generate")
		r.write("kubelet.yaml", "no longer read")
		r.poll()
		r.poll()
		r.success(1)
	})
}

// TestReload_InvalidFile keeps the previous configuration, and logs the reason once.
func TestReload_InvalidFile(t *testing.T) {
	for _, bad := range []struct{ name, file, text, want string }{
		{"bad value", "shim.yaml", reloadedShim + "mode: Observe\nlookupTimeout: soon\n", `shim.yaml:5:1: lookupTimeout: \"soon\"`},
		{"empty", "shim.yaml", "", "shim.yaml:1:1: apiVersion: is"},
		{"bad domain", "kubelet.yaml", strings.Replace(reloadedKubelet, "cluster.local", "a b", 1),
			`kubelet.yaml: clusterDomain: \"a b\": want one DNS name`},
		{"removed, as in an update without rename", "kubelet.yaml", "-", "no such file or directory"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			withShim(t, func(r *reloadTest) {
				r.write(bad.file, bad.text)
				if path := filepath.Join(r.dir, bad.file); bad.text == "-" {
					must.Succeed(t, os.Remove(path))
				}
				r.poll()
				r.poll("level=ERROR", bad.want)
				r.success(0)
				r.poll()
				r.write("shim.yaml", reloadedShim+"mode: Observe\n")
				r.write("kubelet.yaml", reloadedKubelet)
				r.poll()
				r.poll("configuration applied", "mode=Observe")
				r.success(1)
			})
		})
	}
}

func TestReload_Signal(t *testing.T) {
	withShim(t, func(r *reloadTest) {
		r.write("shim.yaml", reloadedShim+"mode: Force\n")
		r.hangup <- os.Interrupt // any
		r.logged("configuration applied", "mode=Force")
		r.poll()
		r.poll()
	})
}

// TestReload_NeedsRestart changes fields of both kinds.
func TestReload_NeedsRestart(t *testing.T) {
	withShim(t, func(r *reloadTest) {
		r.write("shim.yaml", strings.Replace(reloadedShim, "worker", "other", 1)+
			"mode: Observe\nlisten: unix:///elsewhere\nruntimeEndpoint: unix:///r\nkubeconfig: k\nhttp: h:1\nagent: /a\n")
		r.poll()
		r.poll("configuration applied", "mode=Observe", "take effect after a restart",
			`fields="[http listen runtimeEndpoint agent]"`, "level=ERROR", "kubeconfig k: ")
		r.success(1)
		r.poll()
	})
}

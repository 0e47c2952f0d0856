// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
)

// gathered compares metrics with lines of the text format, comments left out.
func gathered(t *testing.T, r *prometheus.Registry, metric, want string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				got.WriteString(l.GetValue() + " ")
			}
			if h := m.GetHistogram(); h != nil {
				got.WriteString(time.Duration(h.GetSampleSum()*float64(time.Second)).String() + "\n")
			} else {
				got.WriteString(time.Duration(m.GetGauge().GetValue()*float64(time.Second)).String() + "\n")
			}
		}
	}
	if got.String() != want {
		t.Errorf("%s:\n%swant\n%s", metric, got.String(), want)
	}
}

// TestProgramming measures events, not lists: those tell of changes of long ago.
func TestProgramming(t *testing.T) {
	for _, listsOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer(t, cluster()...)
			s.listsOnly = listsOnly
			metrics := prometheus.NewRegistry()
			r := start(t, s, Config{Register: metrics})
			defer r.stop()
			synctest.Wait()
			of := newSlice("shop", "web-1", "web", "10.0.0.3")
			of.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
			ofHeadless := newSlice("shop", "db-1", "db", "10.0.0.1")
			ofHeadless.Annotations = of.Annotations
			ofHeadless.Labels[corev1.IsHeadlessService] = ""
			time.Sleep(250 * time.Millisecond)
			s.put(of)
			synctest.Wait()
			time.Sleep(250 * time.Millisecond)
			s.put(ofHeadless)
			s.put(newSlice("shop", "db-2", "db")) // does not tell
			synctest.Wait()
			s.cutWatches(true)
			time.Sleep(time.Minute)
			gathered(t, metrics, "dnsconfigurer_dns_programming_duration_seconds", "cluster_ip 250ms\nheadless_with_selector 500ms\n")
		})
	}
}

// TestSilence: what an operator sees of an API server that goes away, of one that is not
// there at the start, and of the snapshot that is served then.
func TestSilence(t *testing.T) {
	const silence, age, objects = "dnsconfigurer_dns_api_silence_seconds", "dnsconfigurer_dns_snapshot_age_seconds", "dnsconfigurer_dns_objects"
	file := filepath.Join(t.TempDir(), "zone")
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, cluster()...)
		metrics := prometheus.NewRegistry()
		r := start(t, s, Config{Snapshot: file, Register: metrics})
		synctest.Wait()
		gathered(t, metrics, silence, "endpointslices 0s\nnamespaces 0s\nservices 0s\n")
		gathered(t, metrics, objects, "endpointslices 2s\nnamespaces 2s\nservices 2s\n")
		time.Sleep(30 * time.Second)
		s.bookmark(&corev1.Service{})
		s.set(func() { s.refuses = true })
		s.cutWatches(false)
		time.Sleep(time.Hour - 30*time.Second)
		gathered(t, metrics, silence, "endpointslices 1h0m0s\nnamespaces 1h0m0s\nservices 59m30s\n")
		gathered(t, metrics, age, "0s\n")
		for i, want := range []string{"namespaces: listed, last reply 1h0m0s ago: ", "services: listed, last reply 59m30s ago: "} {
			if got := r.api.Status()[i].String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "connection refused") {
				t.Errorf("%q, want %q and why", got, want)
			}
		}
		r.stop()

		metrics = prometheus.NewRegistry()
		r = start(t, s, Config{Snapshot: file, Register: metrics})
		time.Sleep(time.Minute)
		gathered(t, metrics, silence, "endpointslices 1m0s\nnamespaces 1m0s\nservices 1m0s\n")
		gathered(t, metrics, age, "1h1m0s\n")
		gathered(t, metrics, objects, "endpointslices 2s\nnamespaces 2s\nservices 2s\n")
		if got := r.api.Status()[0].String(); !strings.HasPrefix(got, "namespaces: not listed yet: ") {
			t.Error(got)
		}
		r.stop()
		if lint, err := testutil.GatherAndLint(metrics); err != nil || len(lint) > 0 {
			t.Errorf("%v %v", lint, err)
		}
	})
}

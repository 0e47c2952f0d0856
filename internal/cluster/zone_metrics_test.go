// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

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

// wantMetric compares the samples of a metric: label values and a duration.
func wantMetric(t *testing.T, r *prometheus.Registry, metric, want string) {
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

// TestMetrics_Programming: events are measured, and lists are not.
func TestMetrics_Programming(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer(t, cluster()...)
			if !streaming {
				s.DisableStreamingLists()
			}
			metrics := prometheus.NewRegistry()
			r := start(t, s, SyncerConfig{Register: metrics})
			defer r.stop()
			synctest.Wait()
			of := newSlice("shop", "web-1", "web", "10.0.0.3")
			of.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
			ofHeadless := newSlice("shop", "db-1", "db", "10.0.0.1")
			ofHeadless.Annotations = of.Annotations
			ofHeadless.Labels[corev1.IsHeadlessService] = ""
			time.Sleep(250 * time.Millisecond)
			s.Apply(of)
			synctest.Wait()
			time.Sleep(250 * time.Millisecond)
			s.Apply(ofHeadless)
			s.Apply(newSlice("shop", "db-2", "db")) // without the annotation
			synctest.Wait()
			s.Forget()
			time.Sleep(time.Minute)
			wantMetric(t, metrics, "dnsconfigurer_dns_programming_duration_seconds", "cluster_ip 250ms\nheadless_with_selector 500ms\n")
		})
	}
}

// TestMetrics_Unreachable covers an API server that becomes unreachable, and one that is
// unreachable at the start, with the snapshot that is served then.
func TestMetrics_Unreachable(t *testing.T) {
	const (
		silence = "dnsconfigurer_dns_api_silence_seconds"
		age     = "dnsconfigurer_dns_snapshot_age_seconds"
		objects = "dnsconfigurer_dns_objects"
	)
	file := filepath.Join(t.TempDir(), "zone")
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, cluster()...)
		metrics := prometheus.NewRegistry()
		r := start(t, s, SyncerConfig{Snapshot: file, Register: metrics})
		synctest.Wait()
		wantMetric(t, metrics, silence, "endpointslices 0s\nnamespaces 0s\nservices 0s\n")
		wantMetric(t, metrics, objects, "endpointslices 2s\nnamespaces 2s\nservices 2s\n")
		time.Sleep(30 * time.Second)
		s.Bookmark("services")
		s.unreachable.Store(true)
		s.CutWatches()
		time.Sleep(time.Hour - 30*time.Second)
		wantMetric(t, metrics, silence, "endpointslices 1h0m0s\nnamespaces 1h0m0s\nservices 59m30s\n")
		wantMetric(t, metrics, age, "0s\n")
		for i, want := range []string{"namespaces: listed, last reply 1h0m0s ago: ", "services: listed, last reply 59m30s ago: "} {
			if got := r.syncer.Status()[i].String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "connection refused") {
				t.Errorf("%q, want %q and why", got, want)
			}
		}
		r.stop()

		metrics = prometheus.NewRegistry()
		r = start(t, s, SyncerConfig{Snapshot: file, Register: metrics})
		time.Sleep(time.Minute)
		wantMetric(t, metrics, silence, "endpointslices 1m0s\nnamespaces 1m0s\nservices 1m0s\n")
		wantMetric(t, metrics, age, "1h1m0s\n")
		wantMetric(t, metrics, objects, "endpointslices 2s\nnamespaces 2s\nservices 2s\n")
		if got := r.syncer.Status()[0].String(); !strings.HasPrefix(got, "namespaces: not listed yet: ") {
			t.Error(got)
		}
		r.stop()
		if lint, err := testutil.GatherAndLint(metrics); err != nil || len(lint) > 0 {
			t.Errorf("%v %v", lint, err)
		}
	})
}

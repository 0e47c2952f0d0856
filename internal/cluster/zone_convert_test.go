// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var clusterLocal = fqdn.Join(fqdn.Root, "cluster", "local")

func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	var o T
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &o
}

// TestConvert compares the objects of testdata/convert.txtar with what a zone gets of them.
func TestConvert(t *testing.T) {
	const path = "testdata/convert.txtar"
	archive := must.Get(txtar.ParseFile(path))(t)
	z := must.Get(zone.New(zone.Config{Domain: clusterLocal, External: []fqdn.Name{fqdn.Join(fqdn.Root, "lb")}}))(t)
	c := converter{clusterLocal, z}
	for i := range archive.Files {
		f := &archive.Files[i]
		object, want, _ := strings.Cut(string(f.Data), "=>\n")
		kind, _, _ := strings.Cut(f.Name, ":")
		var got string
		switch kind {
		case "Service":
			s, err := c.service(parse[corev1.Service](t, object))
			got = convertedText(s, err)
		case "EndpointSlice":
			s, err := c.slice(parse[discoveryv1.EndpointSlice](t, object))
			got = convertedText(s, err)
		case "Pod":
			p, err := c.pod(parse[corev1.Pod](t, object))
			got = convertedText(p, err)
		default:
			t.Fatalf("unknown kind: %s", f.Name)
		}
		if !*Update && got != want {
			t.Errorf("%s\n got %swant %s", f.Name, got, want)
		}
		f.Data = []byte(object + "=>\n" + got)
	}
	if *Update {
		must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
}

// convertedText returns the result of a conversion, a field a line, and its error.
func convertedText[T any](o *T, err error) string {
	var b strings.Builder
	if o == nil {
		b.WriteString("nothing\n")
	} else {
		v := reflect.ValueOf(*o)
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				fmt.Fprintf(&b, "%s: %+v\n", v.Type().Field(i).Name, f)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

// TestEndpointSlice_Unmarshal: the parts of names are those of the whole object, and an error is one for both.
func TestEndpointSlice_Unmarshal(t *testing.T) {
	whole := parse[discoveryv1.EndpointSlice](t, `metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 8080}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: false}, hostname: web-0, nodeName: n, zone: z, targetRef: {kind: Pod, name: web-0}}
- {addresses: [10.0.0.2, 10.0.0.3], conditions: {ready: true, serving: true}, targetRef: {kind: Pod, name: web-1}}
- {}`)
	text := must.Get(whole.Marshal())(t)
	var part EndpointSlice
	if err := part.Unmarshal(text); err != nil || part.Endpoints[1].TargetRef != nil {
		t.Errorf("%v, %v", part, err)
	}
	for i := range whole.Endpoints {
		whole.Endpoints[i].NodeName, whole.Endpoints[i].Zone, whole.Endpoints[i].TargetRef = nil, nil, nil
	}
	if !reflect.DeepEqual(&part.EndpointSlice, whole) {
		t.Errorf("got %v, want %v", part, whole)
	}
	for n := range text {
		var part EndpointSlice
		if got, want := part.Unmarshal(text[:n]), new(discoveryv1.EndpointSlice).Unmarshal(text[:n]); (got == nil) != (want == nil) {
			t.Errorf("%d bytes: %v, want %v", n, got, want)
		}
	}
	if err := new(EndpointSlice).Unmarshal([]byte{2 << 3, 0}); err == nil {
		t.Error("a number was accepted for an endpoint")
	}
}

// TestConvert_Remarks covers what is known of an object beside its part in the zone.
func TestConvert_Remarks(t *testing.T) {
	slice := parse[discoveryv1.EndpointSlice](t,
		`metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web},
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "2026-01-02T03:04:05.5Z"}}`)
	got := triggerOf(&EndpointSlice{*slice})
	if got == nil || got.kind != clusterIP || got.time.UTC().String() != "2026-01-02 03:04:05.5 +0000 UTC" {
		t.Errorf("triggered by %v", got)
	}
	c := converter{clusterLocal, zone.Empty()}
	balanced := parse[corev1.Service](t, "metadata: {namespace: shop, name: web}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}")
	if s, err := c.service(balanced); err != nil || s.External != nil {
		t.Errorf("without external zones a Service keeps %v, %v", s.External, err)
	}
	if o, err := c.convert(slice); err != nil || o.value == nil || o.remarks != nil || o.name().String() != "shop/web-1" {
		t.Errorf("got %+v, %v", o, err)
	}
	o, err := c.convert(parse[corev1.Namespace](t, "metadata: {name: kube-system, uid: u1}"))
	if err != nil || o.cluster != "u1" || o.value == nil {
		t.Errorf("got %+v, %v", o, err)
	}
	o, err = c.convert(parse[corev1.Namespace](t, "metadata: {name: shop, uid: u2}"))
	if err != nil || o.cluster != "" || o.value == nil {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := c.convert(parse[corev1.Namespace](t, "metadata: {name: a.b}")); err != nil || o.value != nil || o.problem() == nil {
		t.Errorf("got %+v, %v", o, err)
	}
	if _, err := c.convert(&corev1.Node{}); err == nil {
		t.Error("a node was converted")
	}
}

// wantMetric compares the samples of a metric: label values and a duration.
func wantMetric(t *testing.T, r *prometheus.Registry, metric, want string) {
	t.Helper()
	families := must.Get(r.Gather())(t)
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

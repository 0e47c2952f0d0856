// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/utils/ptr"
)

// stream is the response to a streaming list, in protobuf. It is encoded before the
// measurement, which test/kubeapi would do meanwhile.
type stream struct {
	t testing.TB
	bytes.Buffer
}

func (s *stream) send(kind string, o kruntime.Object) {
	kinds := kruntime.NewScheme()
	kinds.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.Namespace{})
	kinds.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{})
	version := corev1.SchemeGroupVersion
	if _, ok := o.(*discoveryv1.EndpointSlice); ok {
		version = discoveryv1.SchemeGroupVersion
	}
	info, _ := kruntime.SerializerInfoForMediaType(serializer.NewCodecFactory(kinds).SupportedMediaTypes(), kruntime.ContentTypeProtobuf)
	raw, err := kruntime.Encode(serializer.NewCodecFactory(kinds).EncoderForVersion(info.Serializer, version), o)
	if err != nil {
		s.t.Fatal(err)
	}
	frame := protobuf.LengthDelimitedFramer.NewFrameWriter(&s.Buffer)
	if err := info.StreamSerializer.Encode(&metav1.WatchEvent{Type: kind, Object: kruntime.RawExtension{Raw: raw}}, frame); err != nil {
		s.t.Fatal(err)
	}
}

// newStreams returns the streams, by resource, of 10,000 Services with ten endpoints each,
// one in ten headless, with the fields that an API server adds.
func newStreams(t testing.TB) map[string]*stream {
	all := map[string]*stream{"namespaces": {t: t}, "services": {t: t}, "endpointslices": {t: t}}
	managed := []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: "Update",
		FieldsV1: metav1.NewFieldsV1(string(bytes.Repeat([]byte("f"), 600)))}}
	for i := range 100 {
		ns := newNamespace(fmt.Sprintf("ns-%d", i), "")
		ns.ManagedFields = managed
		all["namespaces"].send("ADDED", ns)
	}
	addr := netip.MustParseAddr("10.0.0.0")
	for i := range 10_000 {
		ns, name := fmt.Sprintf("ns-%d", i%100), fmt.Sprintf("service-%d", i)
		s := newService(ns, name, fmt.Sprintf("172.20.%d.%d", i/250, i%250+1))
		if i%10 == 0 {
			s = newService(ns, name)
		}
		s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
		s.ManagedFields = managed
		all["services"].send("ADDED", s)
		slice := newSlice(ns, name+"-abcde", name)
		slice.ManagedFields = managed
		for j := range 10 {
			addr = addr.Next()
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{addr.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)},
				NodeName: ptr.To("node-1"),
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: ns,
					Name: fmt.Sprintf("%s-%d", name, j), UID: "0f2c5e6a-8f5a-4c4e-9a53-3b0a7f9d2f11"},
			})
		}
		all["endpointslices"].send("ADDED", slice)
	}
	end := metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	all["namespaces"].send("BOOKMARK", &corev1.Namespace{ObjectMeta: end})
	all["services"].send("BOOKMARK", &corev1.Service{ObjectMeta: end})
	all["endpointslices"].send("BOOKMARK", &discoveryv1.EndpointSlice{ObjectMeta: end})
	return all
}

// BenchmarkLoad measures the start of a server in a large cluster, over a real socket, until
// the zone is loaded. B/retained is the growth of the heap.
func BenchmarkLoad(b *testing.B) {
	streams := newStreams(b)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kruntime.ContentTypeProtobuf+";stream=watch")
		_, _ = w.Write(streams[path.Base(r.URL.Path)].Bytes())
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var retained uint64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		z := newZone(b)
		core, discovery := clients(b, server.URL, nil)
		s := NewSyncer(SyncerConfig{Zone: z, Domain: clusterLocal, Core: core, Discovery: discovery})
		b.StartTimer()
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		for !z.Snapshot().Loaded() {
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		retained = heap() - before
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		if got := lookup(b, z.Snapshot(), "service-1.ns-1.svc"); got != "172.20.0.2" {
			b.Fatal(got)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(retained), "B/retained")
}

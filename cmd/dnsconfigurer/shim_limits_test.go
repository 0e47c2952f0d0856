// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// TestShim_ManyUnsafeOptions starts a pod with 200,000 options that would write lines of
// their own, and one with an option of three megabytes. The runtime gets none of the former;
// the log and the events stay short.
func TestShim_ManyUnsafeOptions(t *testing.T) {
	const options, maxLog = 200_000, 16 << 10
	many, long := podOf("many", "many"), podOf("long", "long")
	many.Annotations, long.Annotations = nil, nil
	many.Spec.DNSConfig, long.Spec.DNSConfig = new(corev1.PodDNSConfig), new(corev1.PodDNSConfig)
	flood, alone := plainRequest("many", "many", "api"), plainRequest("long", "long", "api")
	for i := range options {
		name := fmt.Sprintf("\n%d", i)
		many.Spec.DNSConfig.Options = append(many.Spec.DNSConfig.Options, corev1.PodDNSConfigOption{Name: name})
		flood.DnsConfig.Options = append(flood.DnsConfig.Options, name)
	}
	value := strings.Repeat("o", 3_000_000)
	long.Spec.DNSConfig.Options = []corev1.PodDNSConfigOption{{Name: "b"}, {Name: value}}
	alone.DnsConfig.Options = []string{value, "b", "ndots:5"} // another order, so that it is edited
	api := newClusterAPI(t, many, long, podOf("last", "last"))
	n := newShimNode(t, api.url, nil)

	n.expect("many options", plainRequest("many", "many", "api"), flood)
	ordered := plainRequest("long", "long", "api")
	ordered.DnsConfig.Options = []string{"ndots:5", "b", value}
	n.expect("a long option", ordered, alone)
	n.expect("last", withDNS(request("last", "last", "api"), autopathDNS()), request("last", "last", "api"))
	n.expectCounts(map[string]int{"edited": 3})

	n.eventually("the last event", func() bool {
		events := api.sent()
		return len(events) > 0 && events[len(events)-1].InvolvedObject.Name == "last"
	})
	count := map[string]int{}
	for _, e := range api.sent() {
		count[e.InvolvedObject.Name+" "+e.Reason]++
		if len(e.Message) > excerpt.MaxMessage {
			t.Errorf("%s: message of %d bytes", e.Reason, len(e.Message))
		}
		if e.Reason == "UnsafeDNSValue" &&
			!strings.HasPrefix(e.Message, `200000 unsafe values, the first of them: options "\n0" would break out`) {
			t.Errorf("message %q", e.Message)
		}
	}
	if want := "map[last DNSConfigured:1 many DNSConfigured:1 many UnsafeDNSValue:1]"; fmt.Sprint(count) != want {
		t.Errorf("events %v, want %s", count, want)
	}
	n.stop()
	if text := n.log.String(); len(text) > maxLog {
		t.Errorf("the log has %d bytes, want at most %d:\n%.2000s", len(text), maxLog, text)
	}
}

// TestShim_LookupTimeout has an API server that takes three seconds for a pod. The pod is found if
// lookupTimeout allows that; the field takes effect on reload.
func TestShim_LookupTimeout(t *testing.T) {
	api := newClusterAPI(t)
	web, err := runtime.Encode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), podOf("web", "u1"))
	if err != nil {
		t.Fatal(err)
	}
	api.SetFault(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/web") {
			kubeapi.Stall(w, r)
			return
		}
		time.Sleep(3 * time.Second) // far from the default of a second
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(web) // fails if the lookup has ended
	})
	n := newShimNode(t, api.url, map[string]string{"shim.yaml": quickShim})
	n.expect("with 1s", request("web", "u1", "api"), request("web", "u1", "api"))
	n.expectCounts(map[string]int{"lookup_timeout": 1})
	n.configure(nodeShim)
	n.hangup()
	n.expect("with 30s", withDNS(request("web", "u1", "api"), autopathDNS()), request("web", "u1", "api"))
	n.expectCounts(map[string]int{"lookup_timeout": 1, "edited": 1})
}

// TestShim_HungLogStop starts the command with a log in which no byte has room. It serves, and
// SIGTERM ends it, although a call of the runtime does not end and no line was written.
func TestShim_HungLogStop(t *testing.T) {
	n := newMachine(t, map[string]string{"manifests/web.yaml": autopathManifest})
	command := newCommand(t, []string{"shim", "--config", n.dir + "/shim.yaml"}, fullPipe(t))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = command.Process.Kill() })
	defer late.Stop()
	t.Cleanup(func() { _ = command.Process.Kill() })
	for i := range 10 {
		n.expect(fmt.Sprint("pod ", i), withDNS(request("web-worker", "0123456789abcdef", "file"), autopathDNS()),
			request("web-worker", "0123456789abcdef", "file"))
	}
	cancelled := make(chan error, 1)
	go func() {
		_, err := n.kubelet.Status(t.Context(), &runtimeapi.StatusRequest{})
		cancelled <- err
	}()
	<-n.runtime.hanging
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	if err := <-cancelled; err == nil {
		t.Error("the call that hung has no error")
	}
}

// fullPipe returns the end of a pipe to which nothing can be written. Nothing reads it.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	for _, size := range []int{4096, 1} {
		if err := w.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = w.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		err = nil
	}
	return w
}

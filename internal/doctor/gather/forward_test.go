// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// forwardServer is an API server that forwards port 5353 of pods to a DNS server. Pods with other names
// than "good" have a fault.
func forwardServer(t *testing.T) Config {
	t.Helper()
	server := dnstest.Start(t, dnstest.Reply(dnstest.Records(t, "kubernetes.default.svc.cluster.local. 5 IN A 10.96.0.1")))
	silent := dnstest.Start(t, func(string, *dns.Msg) []dnstest.Message { return nil })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/pods/forbidden/portforward", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,`+
			`"message":"pods \"forbidden\" is forbidden: User \"u\" cannot create resource \"pods/portforward\""}`)
	})
	mux.Handle("GET /api/v1/namespaces/kube-system/pods/{pod}/portforward", websocket.Server{
		Handshake: func(c *websocket.Config, r *http.Request) error {
			if got := r.URL.Query(); fmt.Sprint(got["ports"]) != "[5353]" || !slices.Equal(c.Protocol, []string{forwardProtocol}) {
				t.Errorf("%s %q", r.URL, c.Protocol)
			}
			return nil
		},
		Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			forwardTo(t, ws, map[string]string{"good": server.Addr.String(), "silent": silent.Addr.String()})
		},
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	return Config{API: &rest.Config{Host: api.URL, QPS: -1}}
}

// forwardTo forwards a port as kubelets do: a message is the number of a channel (0 is the data, 1 the
// error) and its data.
func forwardTo(t *testing.T, ws *websocket.Conn, servers map[string]string) {
	send := func(channel byte, data []byte) error {
		return websocket.Message.Send(ws, append([]byte{channel}, data...))
	}
	forever := func(channel byte, data []byte) { // until the client has enough
		for send(channel, data) == nil {
		}
	}
	port := binary.LittleEndian.AppendUint16(nil, 5353)
	for channel := range byte(2) {
		if err := send(channel, port); err != nil {
			t.Error(err)
		}
	}
	pod := strings.Split(ws.Request().URL.Path, "/")[6]
	switch pod {
	case "refused", "long", "closed": // a connection that is closed with unread data is reset
		var query []byte
		_ = websocket.Message.Receive(ws, &query)
	}
	switch pod {
	case "refused":
		_ = send(1, []byte("error forwarding to "+strings.Repeat("a", 400)+": dial tcp4 127.0.0.1:5353: connect: connection refused IPv6"))
		return
	case "long":
		_ = send(1, []byte("error forwarding port 5353 to pod "+strings.Repeat("a", 400)))
		return
	case "closed":
		return
	case "channel":
		forever(9, nil)
	case "empty":
		forever(0, nil)
	case "large":
		forever(0, make([]byte, 1024))
	}
	if servers[pod] == "" {
		return
	}
	backend, err := net.Dial("tcp", servers[pod])
	if err != nil {
		t.Error(err)
		return
	}
	defer backend.Close()
	go func() {
		for buf := make([]byte, 7); ; { // replies in pieces
			n, err := backend.Read(buf)
			if err != nil || send(0, buf[:n]) != nil {
				return
			}
		}
	}()
	for {
		var message []byte
		if err := websocket.Message.Receive(ws, &message); err != nil {
			return
		}
		if _, err := backend.Write(message[1:]); err != nil || message[0] != 0 {
			return
		}
	}
}

// clusterWith returns a cluster whose DNS has these pods, on port 5353.
func clusterWith(pods ...string) *doctor.Snapshot {
	s := &doctor.Snapshot{Unread: map[doctor.Kind]string{}}
	service := corev1.Service{}
	service.Namespace, service.Name = "kube-system", "kube-dns"
	service.Spec.ClusterIPs = []string{"10.96.0.10"}
	service.Spec.Ports = []corev1.ServicePort{{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53}}
	s.Services = []corev1.Service{service}
	slice := discoveryv1.EndpointSlice{}
	slice.Namespace, slice.Labels = "kube-system", map[string]string{discoveryv1.LabelServiceName: "kube-dns"}
	name, protocol, port := "dns-tcp", corev1.ProtocolTCP, int32(5353)
	slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}}
	for i, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.244.1.%d", i+1)}, TargetRef: &corev1.ObjectReference{Name: pod},
		})
	}
	s.Slices = []discoveryv1.EndpointSlice{slice}
	return s
}

// TestForwardProbes: the queries of each pod, or why it was not queried. A pod that was queried and did
// not reply is not such a reason.
func TestForwardProbes(t *testing.T) {
	c := forwardServer(t)
	tests := []struct {
		pods string
		want []string // "" for a query without a reply
		why  string
	}{
		{"good", []string{"NOERROR 10.96.0.1", "NOERROR "}, ""},
		{"good refused", []string{"NOERROR 10.96.0.1", "NOERROR ", "", "", "", ""}, ""},
		{"good forbidden", []string{"NOERROR 10.96.0.1", "NOERROR "},
			`1 of 2 pods not queried: pod kube-system/forbidden: port-forward: unable to upgrade streaming request: pods "forbidden" is ` +
				`forbidden: User "u" cannot create resource "pods/portforward"`},
		{"", nil, "the cluster DNS has no ready pod"},
	}
	for _, tt := range tests {
		t.Run(tt.pods, func(t *testing.T) {
			probes, why := forwardProbes(t.Context(), c, clusterWith(strings.Fields(tt.pods)...), time.Now())
			var got []string
			for _, p := range probes {
				if p.Means != doctor.MeansForward || p.Protocol != doctor.TCP || p.Role != doctor.RoleEndpoint {
					t.Errorf("%+v", p)
				}
				reply := strings.Join(append([]string{p.RCode}, p.Answers...), " ")
				if p.RCode == "NOERROR" && len(p.Answers) == 0 {
					reply += " "
				}
				got = append(got, reply)
			}
			if !slices.Equal(got, tt.want) || why != tt.why {
				t.Errorf("%q, why %q\nwant %q, %q", got, why, tt.want, tt.why)
			}
		})
	}
}

// TestForwardProbes_Partial: the replies of a pod are kept when a later connection to it fails.
func TestForwardProbes_Partial(t *testing.T) {
	c := forwardServer(t)
	server, err := url.Parse(c.API.Host)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(server)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	c.API = &rest.Config{Host: api.URL, QPS: -1}
	probes, why := forwardProbes(t.Context(), c, clusterWith("good"), time.Now())
	if len(probes) != 1 || !slices.Equal(probes[0].Answers, []string{"10.96.0.1"}) {
		t.Errorf("%+v", probes)
	}
	const want = "1 of 1 pods not completely queried: pod kube-system/good: port-forward: "
	if !strings.HasPrefix(why, want) || !strings.Contains(why, "502 Bad Gateway") {
		t.Errorf("why %q\nwant %q", why, want)
	}
}

// TestForwardProbes_Hostile: a node controls what it sends through a forwarded port.
func TestForwardProbes_Hostile(t *testing.T) {
	c := forwardServer(t)
	for pod, want := range map[string]string{
		"refused": "in the pod: connection refused", "long": " bytes left out)", "closed": "EOF",
		"channel": "a message of an unknown channel", "empty": "more than 1000 messages", "large": "more than 131072 bytes",
	} {
		t.Run(pod, func(t *testing.T) {
			t.Parallel()
			probes, why := forwardProbes(t.Context(), c, clusterWith(pod), time.Now())
			if len(probes) != 4 || why != "" {
				t.Fatalf("%+v, %s", probes, why)
			}
			if got := probes[0].Error; !strings.HasSuffix(got, want) || len(got) > excerpt.MaxValue {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestForwarder_Silent: a query through a forwarded port ends, too.
func TestForwarder_Silent(t *testing.T) {
	s := clusterWith("silent")
	f := forwarder{api: forwardServer(t).API, pod: doctor.Forwards(s)[0]}
	_, err := f.exchange(t.Context(), doctor.Query{}, new(dns.Msg).SetQuestion("a.", dns.TypeA))
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || f.failed != nil {
		t.Errorf("%v, failed: %v", err, f.failed)
	}
}

// TestForwarder_Failed: a port that cannot be forwarded is tried once, not once for each query.
func TestForwarder_Failed(t *testing.T) {
	var requests atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(api.Close)
	_, why := forwardProbes(t.Context(), Config{API: &rest.Config{Host: api.URL, QPS: -1}}, clusterWith("p"), time.Now())
	if n := requests.Load(); n != 1 || !strings.Contains(why, "502 Bad Gateway") {
		t.Errorf("%d requests, %s", n, why)
	}
}

// TestStream_Bounded: what is read of the messages ends at the limit.
func TestStream_Bounded(t *testing.T) {
	for size, want := range map[int]string{maxReceived: "<nil>", maxReceived + 1: "more than 131072 bytes"} {
		s := stream{next: func() (io.Reader, error) { return io.LimitReader(zeros{}, int64(size)), nil }}
		if _, _, err := s.receive(); fmt.Sprint(err) != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

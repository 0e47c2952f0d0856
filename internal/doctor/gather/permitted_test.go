// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

// permittedServer is an API server with the kubelets of the nodes a and b, and commands in pods.
func permittedServer(t *testing.T) Config {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{node}/proxy/configz", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("node") {
		case "a":
			fmt.Fprint(w, `{"kubeletconfig":{"enableServer":true,"clusterDNS":["10.96.0.10"],`+
				`"clusterDomain":"cluster.local","resolvConf":"/run/resolv.conf"}}`)
		case "b":
			fmt.Fprint(w, `{"kubeletconfig":{}}`)
		case "empty":
			fmt.Fprint(w, `{}`)
		case "huge": // until the client has enough
			fmt.Fprint(w, `{"kubeletconfig":{"clusterDomain":"`)
			for line := strings.Repeat("a", 1<<16); ; {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		default:
			http.Error(w, "error trying to reach service: dial tcp: i/o timeout", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /api/v1/namespaces/{namespace}/pods/{pod}/exec", websocket.Server{
		Handshake: func(c *websocket.Config, r *http.Request) error {
			if got := r.URL.Query(); fmt.Sprint(got["command"]) != "[cat /etc/resolv.conf]" ||
				got.Get("stdout") != "true" || got.Get("stdin") != "" {
				t.Errorf("%s", r.URL)
			}
			if !slices.Contains(c.Protocol, "v5.channel.k8s.io") {
				return websocket.ErrBadWebSocketProtocol
			}
			c.Protocol = []string{"v5.channel.k8s.io"}
			return nil
		},
		Handler: func(ws *websocket.Conn) { serveExec(t, ws) },
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: 100}
}

// serveExec runs cat in a container: a message is the number of a stream and its data (1 is
// stdout, 2 is stderr, 3 is the status).
func serveExec(t *testing.T, ws *websocket.Conn) {
	send := func(stream byte, text string) {
		if err := websocket.Message.Send(ws, append([]byte{stream}, text...)); err != nil {
			t.Error(err)
		}
	}
	const success, failure = `{"metadata":{},"status":"Success"}`,
		`{"metadata":{},"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"126"}]}}`
	forever := func(stream byte, text string) { // until the client has enough
		for websocket.Message.Send(ws, append([]byte{stream}, text...)) == nil {
		}
	}
	switch query := ws.Request().URL.Query().Get("container"); query {
	case "good":
		send(1, "nameserver 10.96")
		send(1, ".0.10\n")
		send(3, success)
	case "late": // the status overtakes the output
		send(3, success)
		send(1, "nameserver 10.96.0.10\n")
	case "large":
		forever(1, strings.Repeat("#", 1024))
		return
	case "empty":
		forever(1, "")
		return
	case "status":
		forever(3, strings.Repeat(" ", 1024))
		return
	case "stream":
		send(9, "")
	case "none":
		send(1, "nameserver 10.96.0.10\n")
	case "long":
		send(2, strings.Repeat("\x1b[2J", 10_000))
		send(3, failure)
	case "refused":
		send(3, `{"metadata":{},"status":"Failure","message":"no runtime","code":500}`)
	default:
		send(2, "exec: cat: not found\n")
		send(3, failure)
	}
	if err := ws.WriteClose(1000); err != nil { // a normal closure
		t.Error(err)
	}
}

func nodes(names ...string) (list []corev1.Node) {
	for _, name := range names {
		n := corev1.Node{}
		n.Name = name
		list = append(list, n)
	}
	return list
}

func TestKubelets(t *testing.T) {
	c := permittedServer(t)
	tests := map[string]struct{ want, unread string }{
		"a b":     {"a [10.96.0.10] b []", ""},
		"a empty": {"a [10.96.0.10]", "1 of 2 not read: node empty: configz: the reply has no kubeletconfig"},
		"down a":  {"a [10.96.0.10]", "1 of 2 not read: node down: configz: "},
		"huge a":  {"a [10.96.0.10]", "1 of 2 not read: node huge: configz: the reply has more than 1048576 bytes"},
		"":        {"", "the cluster has no nodes"},
	}
	for names, tt := range tests {
		s := &doctor.Snapshot{Unread: map[doctor.Kind]string{}, Nodes: nodes(strings.Fields(names)...)}
		Kubelets(t.Context(), c, s)
		var got []string
		for _, k := range s.Kubelets {
			got = append(got, fmt.Sprint(k.Node, " ", k.Config.ClusterDNS))
		}
		unread := s.Unread[doctor.Kubelets]
		if strings.Join(got, " ") != tt.want || !strings.HasPrefix(unread, tt.unread) || tt.unread == "" && unread != "" {
			t.Errorf("%q: %q, unread %q", names, got, unread)
		}
	}
	s := &doctor.Snapshot{Unread: map[doctor.Kind]string{}, Nodes: nodes("a")}
	Kubelets(t.Context(), c, s)
	if file := s.Kubelets[0].Config.ResolvConf; file == nil || *file != "/run/resolv.conf" {
		t.Errorf("%+v", s.Kubelets[0])
	}
}

// pod returns a pod whose only container runs.
func pod(name, container string) corev1.Pod {
	p := corev1.Pod{}
	p.Namespace, p.Name = "shop", name
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

func TestPodFiles(t *testing.T) {
	c := permittedServer(t)
	good := []corev1.Pod{pod("p", "good"), pod("l", "late")}
	s := &doctor.Snapshot{Unread: map[doctor.Kind]string{}, Pods: append(good, pod("d", "distroless"))}
	PodFiles(t.Context(), c, s)
	const text = "nameserver 10.96.0.10\n"
	if len(s.PodFiles) != 2 ||
		s.PodFiles[0] != (doctor.PodFile{Namespace: "shop", Pod: "p", Container: "good", Text: text}) || s.PodFiles[1].Text != text {
		t.Errorf("%.300v", s.PodFiles)
	}
	if want := "1 of 3 not read: pod shop/d: cat /etc/resolv.conf: exit code 126: exec: cat: not found"; s.Unread[doctor.PodFiles] != want {
		t.Errorf("unread: %q", s.Unread[doctor.PodFiles])
	}
	s = &doctor.Snapshot{Unread: map[doctor.Kind]string{}}
	if PodFiles(t.Context(), c, s); s.Unread[doctor.PodFiles] != "no pod runs" {
		t.Error(s.Unread)
	}
}

// TestPodFiles_Hostile: a container and its node control the output of a command, its status
// and how much there is of both.
func TestPodFiles_Hostile(t *testing.T) {
	c := permittedServer(t)
	for container, want := range map[string]string{
		"large": "no exit code: more than 131072 bytes", "empty": "no exit code: more than 1000 messages",
		"status": "the status of the command: unexpected end of JSON input",
		"stream": "a message of the unknown stream 9", "none": "no exit code: ", "refused": "no runtime",
		"long": `exit code 126: ` + "\x1b[2J\x1b[2J",
	} {
		s := &doctor.Snapshot{Unread: map[doctor.Kind]string{}, Pods: []corev1.Pod{pod("p", container)}}
		PodFiles(t.Context(), c, s)
		why := s.Unread[doctor.PodFiles]
		want = "1 of 1 not read: pod shop/p: cat /etc/resolv.conf: " + want
		if len(s.PodFiles) > 0 || !strings.HasPrefix(why, want) || len(why) > 2*maxReceived {
			t.Errorf("%s: %d bytes: %.200q", container, len(why), why)
		}
	}
}

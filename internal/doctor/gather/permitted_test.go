// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

// permittedServer is an API server with the kubelets of the nodes a and b.
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
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: 100}
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

// dnsPods is an API server with a pod of each name: a DNS server whose page is what the name says.
type dnsPods struct {
	t     *testing.T
	names []string
}

func (s dnsPods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/portforward") {
		s.forward(w, r, path.Base(path.Dir(r.URL.Path)))
		return
	}
	var items []string
	for i, name := range s.names {
		probe := `"readinessProbe":{"httpGet":{"port":"metrics"}}`
		if name == "no-probe" {
			probe = `"image":"x"`
		}
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"kube-system","name":%q},"status":{"podIP":"10.0.0.%d"},
			"spec":{"containers":[{"ports":[{"name":"dns","containerPort":53},{"name":"metrics","containerPort":9153}],%s}]}}`, name, i, probe))
	}
	if selector := r.URL.Query().Get("labelSelector"); selector == "" {
		items = []string{`{"metadata":{"namespace":"shop","name":"web"}}`}
	} else if !strings.Contains(selector, "app.kubernetes.io/component in (dns,node-cache)") {
		s.t.Errorf("the servers are selected by %q", selector)
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, strings.Join(items, ","))
}

// metrics are those of a server that has refused queries.
const metrics = `# HELP dnsconfigurer_dns_refusals_total Queries
dnsconfigurer_dns_refusals_total{budget="plain",reason="budget"} 1e+03
dnsconfigurer_dns_refusals_total{budget="cluster",reason="replaced"} 3
dnsconfigurer_dns_refusals_total{budget="plain",reason="loop"} 50
dnsconfigurer_dns_queries_total{reason="budget"} 7
`

// forward is the part of a kubelet.
func (s dnsPods) forward(w http.ResponseWriter, r *http.Request, name string) {
	if name == "forbidden" {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portForwardProtocol}); err != nil {
		s.t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
	if conn == nil {
		return // the reply says why
	}
	defer conn.Close()
	failures, data := <-streams, <-streams
	if port := data.Headers().Get(corev1.PortHeader); port != "9153" {
		s.t.Errorf("port %s of %s is forwarded, want 9153", port, name)
	}
	if name == "closed" {
		fmt.Fprint(failures, "connection refused")
		failures.Close()
		data.Close()
	} else if request, err := http.ReadRequest(bufio.NewReader(data)); err != nil || request.URL.Path != "/clients" {
		s.t.Errorf("%s: got %v, %v", name, request, err)
	}
	switch name {
	case "old":
		io.WriteString(data, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	case "cut":
		io.WriteString(data, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
	case "good":
		io.WriteString(data, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+`{"clients":[{"address":"10.244.1.7","queries":5}]}`)
		data.Close()
		_, data = <-streams, <-streams
		if request, err := http.ReadRequest(bufio.NewReader(data)); err != nil || request.URL.Path != "/metrics" {
			s.t.Errorf("%s: got %v, %v", name, request, err)
		}
		io.WriteString(data, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+metrics)
	}
	data.Close()
	<-conn.CloseChan()
}

// TestClients: a server that cannot be read does not keep the others from being read.
func TestClients(t *testing.T) {
	api := httptest.NewServer(dnsPods{t, []string{"good", "forbidden", "closed", "old", "cut", "no-probe"}})
	defer api.Close()
	sources, pods, notRead, err := Clients(t.Context(), Config{API: &rest.Config{Host: api.URL}, MaxObjects: MaxObjects})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) != 1 || sources[0].Address.String() != "10.0.0.0" || len(sources[0].Report.Clients) != 1 ||
		sources[0].Report.Clients[0].Queries != 5 || sources[0].Refused != 1003 {
		t.Errorf("got %+v", sources)
	}
	if len(pods) != 1 || pods[0].Name != "web" {
		t.Errorf("got the pods %+v", pods)
	}
	for i, want := range []string{
		"pod kube-system/forbidden: forward a port (pods/portforward): ",
		"pod kube-system/closed: port 9153: unexpected EOF connection refused",
		"pod kube-system/old: port 9153: 404 Not Found for /clients: upgrade this server",
		"pod kube-system/cut: unexpected EOF",
		"pod kube-system/no-probe: it has no address, or no readiness probe with the port of its pages",
	} {
		if i >= len(notRead) || !strings.HasPrefix(notRead[i], want) {
			t.Errorf("got %q, want %q", slices.Clone(notRead), want)
		}
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

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

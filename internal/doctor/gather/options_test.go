// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// servers returns n values of --dns-server.
func servers(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("10.96.0.%d", i))
	}
	return list
}

func TestOptions_Parse(t *testing.T) {
	valid := Options{
		Config: Config{Scope: doctor.Scope{Namespace: "shop"}, ExternalName: "example.com", Timeout: time.Minute, MaxObjects: 1},
		Pod:    "shop/web", DNSServers: []string{"10.96.0.10", "[fd00::10]", "[fd00::10]:5353", "10.96.0.10:53"}, // the last is the first
	}
	c, err := valid.Parse()
	if err != nil || c.Scope.PodName != "web" || c.ExternalName != "example.com." || len(c.Servers) != 3 ||
		c.Servers[0].UDP.String() != "10.96.0.10:53" || c.Servers[1].TCP.String() != "[fd00::10]:53" || c.Servers[2].UDP.Port() != 5353 {
		t.Errorf("%+v, %v", c, err)
	}
	most := valid
	most.DNSServers = servers(doctor.MaxServers)
	if c, err := most.Parse(); err != nil || len(c.Servers) != doctor.MaxServers {
		t.Errorf("%d servers, %v", len(c.Servers), err)
	}
	for want, change := range map[string]func(*Options){
		`--pod "web": want NAMESPACE/NAME`:                                  func(o *Options) { o.Pod = "web" },
		`--pod "/web": want NAMESPACE/NAME`:                                 func(o *Options) { o.Pod = "/web" },
		"--namespace: cannot be combined with a --pod of another namespace": func(o *Options) { o.Pod = "bank/web" },
		`--dns-server "dns": want IP[:PORT]`:                                func(o *Options) { o.DNSServers = []string{"dns"} },
		"--dns-server: 17 servers: want at most 16":                         func(o *Options) { o.DNSServers = servers(17) },
		`--external-name: "a..b" `:                                          func(o *Options) { o.ExternalName = "a..b" },
		`--cluster-domain: "a..b" `:                                         func(o *Options) { o.ClusterDomain = "a..b" },
		`--namespace "BAD ns": want a DNS label`:                            func(o *Options) { o.Pod, o.Scope.Namespace = "", "BAD ns" },
		`--pod "../web": want NAMESPACE/NAME`:                               func(o *Options) { o.Pod = "../web" },
		`--cluster-domain: "foo bar": want a domain such as`:                func(o *Options) { o.ClusterDomain = "foo bar" },
		"--ephemeral-container: needs --pod":                                func(o *Options) { o.Pod, o.Image = "", "dnsconfigurer:v1" },
		"--timeout and --max-objects: must be positive":                     func(o *Options) { o.Timeout = 0 },
	} {
		o := valid
		change(&o)
		_, err := o.Parse()
		if _, ok := errors.AsType[usage.Error](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCheckScope: the result about an object that does not exist would look like that about a healthy
// one.
func TestCheckScope(t *testing.T) {
	cluster := doctor.Snapshot{
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}},
		Nodes:      []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}},
		Pods:       []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}},
	}
	for _, tt := range []struct {
		scope  doctor.Scope
		unread doctor.Kind // "": everything was read
		want   string
	}{
		{doctor.Scope{}, "", "<nil>"},
		{doctor.Scope{Namespace: "shop", PodName: "web"}, "", "<nil>"},
		{doctor.Scope{Node: "worker-1"}, "", "<nil>"},
		{doctor.Scope{Namespace: "shpo"}, "", "--namespace shpo: namespace not found"},
		{doctor.Scope{Namespace: "shpo"}, doctor.Namespaces, "<nil>"},
		{doctor.Scope{Node: "worker"}, "", "--node worker: node not found"},
		{doctor.Scope{Node: "worker"}, doctor.Nodes, "<nil>"},
		{doctor.Scope{Namespace: "shop", PodName: "db"}, "", "--pod shop/db: pod not found"},
		{doctor.Scope{Namespace: "shop", PodName: "db"}, doctor.Pods, "<nil>"},
	} {
		s := cluster
		s.Scope, s.Unread = tt.scope, map[doctor.Kind]string{tt.unread: "no permission"}
		if err := checkScope(&s); fmt.Sprint(err) != tt.want {
			t.Errorf("%+v, unread %q: %v, want %s", tt.scope, tt.unread, err, tt.want)
		}
	}
}

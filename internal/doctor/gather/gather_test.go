// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// api is an API server with a number of pods. It accepts GET only.
type api struct {
	t      *testing.T
	pods   int
	status map[string]int // of resources that fail, and of ConfigMaps by name

	mu       sync.Mutex
	requests []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.URL.String())
	a.mu.Unlock()
	if r.Method != http.MethodGet {
		a.t.Errorf("%s %s", r.Method, r.URL)
	}
	resource := path.Base(r.URL.Path)
	if strings.Contains(r.URL.Path, "/configmaps/") {
		resource = "configmaps"
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if code := cmp.Or(a.status[resource], a.status[path.Base(r.URL.Path)]); code != 0 {
		w.WriteHeader(code)
		reason := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusNotFound: metav1.StatusReasonNotFound}[code]
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"test","code":%d}`, reason, code)
		return
	}
	var items []string
	next, query := "", r.URL.Query()
	switch resource {
	case "services":
		items = append(items, `{"metadata":{"namespace":"kube-system","name":"kube-dns"},`+
			`"spec":{"clusterIP":"10.96.0.10","selector":{"k8s-app":"kube-dns"}}}`)
	case "pods":
		limit, err := strconv.Atoi(query.Get("limit"))
		if err != nil {
			a.t.Errorf("%s: %v", r.URL, err)
		}
		first, _ := strconv.Atoi(query.Get("continue"))
		last := min(first+limit, a.pods)
		for i := first; i < last; i++ {
			items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"kube-system","name":"p%d","labels":{"k8s-app":"kube-dns"}},`+
				`"spec":{"volumes":[{"name":"c","configMap":{"name":"c%d"}}]}}`, i, i%30))
		}
		if last < a.pods {
			next = strconv.Itoa(last)
		}
	case "configmaps":
		fmt.Fprintf(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"kube-system"}}`, path.Base(r.URL.Path))
		return
	default:
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q}}`, strings.TrimSpace(resource+" "+query.Get("fieldSelector"))))
	}
	fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

func snapshot(t *testing.T, a *api, limit int) *doctor.Snapshot {
	t.Helper()
	a.t = t
	server := httptest.NewServer(a)
	defer server.Close()
	return must.Get(Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: limit}))(t)
}

// names returns the names of objects.
func names[T any, P interface {
	*T
	metav1.Object
}](list []T) (all []string) {
	for i := range list {
		all = append(all, P(&list[i]).GetName())
	}
	return all
}

// TestSnapshot_Kinds reads each kind into its list.
func TestSnapshot_Kinds(t *testing.T) {
	s := snapshot(t, &api{}, 10)
	got := slices.Concat(names(s.Nodes), names(s.Namespaces), names(s.Slices), names(s.Deployments), names(s.DaemonSets),
		names(s.Networks), names(s.Policies), names(s.Bindings), names(s.Validating), names(s.Mutating), names(s.Events))
	want := []string{"nodes", "namespaces", "endpointslices", "deployments", "daemonsets", "networkpolicies",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
		"mutatingwebhookconfigurations", "events reason=CheckLimitsForResolvConf", "events reason=DNSConfigForming",
		"events reason=FailedCreatePodSandBox", "events reason=Unhealthy"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSnapshot_Pages reads pods in pages of 500, and ten ConfigMaps at most. What was left out is not taken for
// absent.
func TestSnapshot_Pages(t *testing.T) {
	for _, tt := range []struct{ pods, limit, pages int }{{1200, 5000, 3}, {600, 600, 2}, {601, 600, 2}} {
		a := &api{pods: tt.pods}
		s := snapshot(t, a, tt.limit)
		pages := 0
		for _, r := range a.requests {
			if strings.HasPrefix(r, "/api/v1/pods") {
				pages++
			}
		}
		complete := tt.pods <= tt.limit
		if len(s.Pods) != min(tt.pods, tt.limit) || (s.Unread[doctor.Pods] == "") != complete || len(s.ConfigMaps) != maxConfigMaps {
			t.Errorf("of %d: %d pods, %d ConfigMaps, unread: %v", tt.pods, len(s.Pods), len(s.ConfigMaps), s.Unread)
		}
		if pages != tt.pages || len(a.requests) > 40 {
			t.Errorf("of %d: %d pages, requests: %q", tt.pods, pages, a.requests)
		}
	}
}

// TestSnapshot_Unread: kinds that were not read have a reason. A Role may permit some ConfigMaps: the others are
// named one by one, and so are those above the limit.
func TestSnapshot_Unread(t *testing.T) {
	s := snapshot(t, &api{pods: maxConfigMaps, status: map[string]int{
		"networkpolicies": http.StatusForbidden, "validatingadmissionpolicies": http.StatusNotFound,
		"nodes": http.StatusInternalServerError,
		"c0":    http.StatusForbidden, "c1": http.StatusNotFound, "c2": http.StatusInternalServerError,
	}}, 100)
	got := map[string]string{}
	for kind, why := range s.Unread {
		got[string(kind)] = why
	}
	for name, why := range s.UnreadConfigMaps {
		got[name.String()] = why
	}
	want := map[string]string{
		string(doctor.Networks): "no permission", string(doctor.Policies): "does not have", string(doctor.Nodes): "list nodes: ",
		"kube-system/c0": "no permission to get ConfigMap kube-system/c0: docs/debugging.md has a ClusterRole",
		"kube-system/c2": "get ConfigMap kube-system/c2: ",
		"kube-system/c9": "ConfigMap kube-system/c9: not read: the limit is 10 ConfigMaps",
	}
	for name, why := range got {
		if text, ok := want[name]; !ok || !strings.Contains(why, text) {
			t.Errorf("%s: %q, want %q", name, why, text)
		}
	}
	if len(got) != len(want) || len(s.Pods) != maxConfigMaps || len(s.ConfigMaps) != maxConfigMaps-3 {
		t.Errorf("%v, %d pods, %d ConfigMaps", got, len(s.Pods), len(s.ConfigMaps))
	}
}

// TestSnapshot_Late: a command with a time limit has the flag for it.
func TestSnapshot_Late(t *testing.T) {
	late := kubeapi.Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "pods" {
			<-r.Context().Done()
			return
		}
		(&api{t: t}).ServeHTTP(w, r)
	}))
	for limit, want := range map[time.Duration]string{
		time.Hour: "list pods: not finished in time: set --timeout", 0: "list pods: not finished in time",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			config := &rest.Config{Host: "http://api.invalid", Transport: late, QPS: -1}
			s, err := Snapshot(ctx, Config{API: config, MaxObjects: 1, Timeout: limit})
			if err != nil || s.Unread[doctor.Pods] != want {
				t.Errorf("%v: %q, %v", limit, s.Unread[doctor.Pods], err)
			}
		})
	}
}

// TestSnapshot_Unreachable: without any answer there is nothing to check.
func TestSnapshot_Unreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL}, MaxObjects: 1})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
}

// largeList serves a list of 100 objects with annotations of 4 KiB and labels of another 4 KiB,
// page by page.
func largeList(w http.ResponseWriter, r *http.Request, largest *atomic.Int64) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	last := min(first+limit, 100)
	var items []string
	for i := range last - first {
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"o%d","annotations":{"a":%q},"labels":{"l":%q}}}`,
			first+i, strings.Repeat("a", 4<<10), strings.Repeat("l", 4<<10)))
	}
	next := ""
	if last < 100 {
		next = strconv.Itoa(last)
	}
	largest.Store(max(largest.Load(), int64(len(items))))
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

// TestSnapshot_Sizes: a page that is too large is read in parts, and what is kept of a kind has a
// limit. Annotations, which no check needs, do not count.
func TestSnapshot_Sizes(t *testing.T) {
	var largest atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "networkpolicies" {
			largeList(w, r, &largest)
			return
		}
		(&api{t: t}).ServeHTTP(w, r)
	}))
	defer server.Close()
	const object = 4<<10 + 100 // what is kept of an object, at most
	for name, tt := range map[string]struct {
		limits
		all bool
	}{
		"all":         {limits{page: 4 << 20, kind: 100 * object}, true},
		"small pages": {limits{page: 80 << 10, kind: 100 * object}, true},
		"half":        {limits{page: 4 << 20, kind: 50 * object}, false},
		"none fits":   {limits{page: 5 << 10, kind: 100 * object}, false},
	} {
		largest.Store(0)
		s := must.Get(Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: 1000, limits: tt.limits}))(t)
		why, kept := s.Unread[doctor.Networks], 0
		for i := range s.Networks {
			kept += s.Networks[i].Size()
		}
		if (len(s.Networks) == 100) != tt.all || (why == "") != tt.all || kept > tt.kind || len(s.Unread) > 1 {
			t.Errorf("%s: %d objects with %d bytes, pages of up to %d, unread: %v", name, len(s.Networks), kept, largest.Load(), s.Unread)
		}
		want := map[string]string{"half": fmt.Sprintf("the networkpolicies have more than %d bytes: %d of them were read", tt.kind,
			len(s.Networks)), "none fits": "the reply is too large"}[name]
		if !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
		if len(s.Networks) > 0 && len(s.Networks[0].Annotations) > 0 {
			t.Errorf("%s: the annotations are kept", name)
		}
	}
}

// TestTrim keeps what the decision about a pod and the names of a Service need.
func TestTrim(t *testing.T) {
	p := &corev1.Pod{}
	p.Annotations = map[string]string{policy.OverrideAnnotation: "None", cluster.TolerateUnready: "true", "large": "a"}
	p.Spec.Containers = []corev1.Container{{Name: "a", Args: []string{"b"}, Ports: []corev1.ContainerPort{{Name: "dns"}}}}
	trim(p)
	c := p.Spec.Containers[0]
	if len(p.Annotations) != 2 || p.Annotations["large"] != "" || len(c.Args) > 0 || len(c.Ports) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestAll_Closed: the API server closes the connection in the middle of a list, even of the first
// one. The other kinds are read.
func TestAll_Closed(t *testing.T) {
	for _, kind := range []doctor.Kind{doctor.Services, doctor.Pods, doctor.Networks, doctor.Mutating} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if path.Base(r.URL.Path) == string(kind) {
				w.Header().Set("Content-Type", runtime.ContentTypeJSON)
				w.Header().Set("Content-Length", "1000")
				fmt.Fprint(w, `{"metadata":{},"items":[`)
				return // before the end, which closes the connection
			}
			(&api{t: t, pods: 1}).ServeHTTP(w, r)
		}))
		s, err := Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: 100})
		server.Close()
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if len(s.Unread) != 1 || !strings.Contains(s.Unread[kind], "unexpected EOF") ||
			(len(s.Pods) == 1) == (kind == doctor.Pods) || (len(s.Services) == 1) == (kind == doctor.Services) {
			t.Errorf("%s: %d pods, %d Services, unread: %v", kind, len(s.Pods), len(s.Services), s.Unread)
		}
		if r := doctor.Run(t.Context(), s); len(r.NotChecked) == 0 || r.Passed+len(r.Findings) == 0 {
			t.Errorf("%s: %+v", kind, r)
		}
	}
}

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
		"--timeout: must be positive":                                       func(o *Options) { o.Timeout = 0 },
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", `{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}],
  contexts: [{name: c, context: {cluster: c, user: u}}],
  users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: token, interactiveMode: Never}}}]}`)
	cfg, err := cluster.LoadConfig(good, "test")
	if err != nil || cfg.Host != "https://192.0.2.1:6443" || cfg.ExecProvider.Command != "token" || cfg.UserAgent != "test" {
		t.Errorf("got %v, %v", cfg, err)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := cluster.LoadConfig(missing, "test"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("without the file: %v", err)
	}
	bad := write("bad", "apiVersion: [")
	if _, err := cluster.LoadConfig(bad, "test"); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("with a bad file: %v", err)
	}
	for path, want := range map[string]string{
		write("large", strings.Repeat("#", 4<<20+1)): "larger than 4194304 bytes",
		"/dev/zero":        "is a device, not a file",
		write("empty", ""): "has no cluster",
		write("largest", strings.Repeat("#", 4<<20)): "has no cluster",
		write("pod", "{apiVersion: v1, kind: Pod}"):  "this is not a kubeconfig: want kind Config",
		write("text", "hello"):                       "this is not a kubeconfig: want kind Config",
	} {
		want = "kubeconfig " + path + ": " + want
		if _, err := cluster.LoadConfig(path, "test"); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := cluster.LoadUserConfig(path, "", "test"); fmt.Sprint(err) != want {
			t.Errorf("of a user: %v, want %s", err, want)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := cluster.LoadConfig("", "test"); !errors.Is(err, rest.ErrNotInCluster) {
		t.Errorf("outside a cluster: %v", err)
	}
}

// TestNew_ContentTypes lists objects of both API groups that the servers read, from a server
// with protobuf and from one without.
func TestNew_ContentTypes(t *testing.T) {
	web := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	pods := listing{
		"/api/v1/pods", corev1.SchemeGroupVersion, &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: web}}},
		[]runtime.Object{&corev1.Pod{}, &corev1.PodList{}},
	}
	slices := listing{
		"/apis/discovery.k8s.io/v1/endpointslices", discoveryv1.SchemeGroupVersion,
		&discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{{ObjectMeta: web}}},
		[]runtime.Object{&discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{}},
	}
	for _, l := range []listing{pods, slices} {
		for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
			t.Run(l.path+" "+contentType, func(t *testing.T) { l.test(t, contentType) })
		}
	}
}

// listing is a list of objects at a path of the API.
type listing struct {
	path    string
	version schema.GroupVersion
	list    runtime.Object
	types   []runtime.Object
}

func (l listing) test(t *testing.T, contentType string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != l.path || !strings.Contains(r.Header.Get("Accept"), contentType) {
			t.Errorf("%s with Accept %s", r.URL, r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(encode(t, contentType, l.version, l.list, l.types))
	}))
	defer server.Close()
	c, err := cluster.NewClient(&rest.Config{Host: server.URL}, l.version, l.types...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Get().AbsPath(l.path).Do(t.Context()).Get()
	if err != nil {
		t.Fatal(err)
	}
	if n := meta.LenList(got); n != 1 {
		t.Errorf("got %d objects, want 1", n)
	}
}

func encode(t *testing.T, contentType string, version schema.GroupVersion, object runtime.Object, types []runtime.Object) []byte {
	t.Helper()
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(version, types...)
	codecs := serializer.NewCodecFactory(kinds)
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), contentType)
	text, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, version), object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestNew_Errors: errors keep the types that callers check.
func TestNew_Errors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure",` +
			`"reason":"NotFound","message":"no such pod","code":404}`))
	}))
	defer server.Close()
	api, err := cluster.NewClient(&rest.Config{Host: server.URL}, corev1.SchemeGroupVersion, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	err = api.Get().Namespace("shop").Resource("pods").Name("web").Do(t.Context()).Into(&corev1.Pod{})
	if !apierrors.IsNotFound(err) || err.Error() != "no such pod" {
		t.Errorf("got %v", err)
	}
	if _, err := cluster.NewClient(&rest.Config{Host: "http://a:b:c"}, corev1.SchemeGroupVersion, &corev1.Pod{}); err == nil ||
		!strings.Contains(err.Error(), "client of v1") {
		t.Errorf("got %v", err)
	}
}

// TestListWatch_StreamingListFails: a reflector whose streaming list fails lists at once.
func TestListWatch_StreamingListFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubeapi.New()
		s.SetFault(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("sendInitialEvents") {
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			}
			kubeapi.Stall(w, r)
		}, "watch")
		r := newReflector(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.ListAndWatchWithContext(ctx) }()
		synctest.Wait()
		if n := s.Requests()["list pods"]; n != 1 {
			t.Errorf("%d lists, want 1: %v", n, s.Requests())
		}
		cancel()
		<-done
	})
}

// newReflector returns a reflector of the pods of s.
func newReflector(t *testing.T, s *kubeapi.Server) *cache.Reflector {
	t.Helper()
	c, err := cluster.NewClient(&rest.Config{Host: "http://api.invalid", QPS: -1, Transport: kubeapi.Transport(s)},
		corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{})
	if err != nil {
		t.Fatal(err)
	}
	lw := cluster.ListWatch(c, "pods", fields.Everything())
	return cache.NewReflectorWithOptions(lw, &corev1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{})
}

// TestListWatch_Overload: a server that answers everything with 429 gets two requests per
// attempt, and the attempts become rarer. The second request is needed: a server may refuse only
// streaming lists, which cost it more.
func TestListWatch_Overload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubeapi.New()
		s.SetFault(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		})
		r := newReflector(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			r.RunWithContext(ctx)
			close(done)
		}()
		time.Sleep(10 * time.Minute)
		if n := s.Requests()["list pods"] + s.Requests()["watch pods"]; n == 0 || n > 80 {
			t.Errorf("%d requests in ten minutes: %v", n, s.Requests())
		}
		cancel()
		<-done
	})
}

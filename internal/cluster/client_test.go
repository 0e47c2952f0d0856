// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
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
		"/dev/zero":        "not a regular file",
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

// TestNewClient_Accept: a client prefers protobuf, and decodes JSON of a server that does not have it.
func TestNewClient_Accept(t *testing.T) {
	server := kubeapi.New()
	server.Apply(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}})
	for accepted, change := range map[string]string{
		"application/vnd.kubernetes.protobuf": "",
		"application/json":                    "application/vnd.kubernetes.protobuf,",
	} {
		transport := kubeapi.Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			accept := r.Header.Get("Accept")
			if accept != "application/vnd.kubernetes.protobuf,application/json" {
				t.Errorf("%s with Accept %s", r.URL, accept)
			}
			r.Header.Set("Accept", strings.TrimPrefix(accept, change))
			server.ServeHTTP(w, r)
		}))
		c, err := cluster.NewClient(&rest.Config{Host: "http://api.invalid", Transport: transport}, discoveryv1.SchemeGroupVersion,
			&cluster.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
		if err != nil {
			t.Fatal(err)
		}
		var list discoveryv1.EndpointSliceList
		var contentType string
		err = c.Get().Resource("endpointslices").Do(t.Context()).ContentType(&contentType).Into(&list)
		if err != nil || len(list.Items) != 1 || contentType != accepted {
			t.Errorf("%s: %d objects as %s, %v", accepted, len(list.Items), contentType, err)
		}
		one, err := c.Get().Namespace("shop").Resource("endpointslices").Name("web").Do(t.Context()).Get()
		if slice, ok := one.(*cluster.EndpointSlice); !ok || len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != "10.0.0.1" {
			t.Errorf("%s: got %v, %v", accepted, one, err)
		}
		err = c.Get().Namespace("shop").Resource("endpointslices").Name("none").Do(t.Context()).Error()
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v, want the type that callers check", accepted, err)
		}
	}
	_, err := cluster.NewClient(&rest.Config{Host: "http://a:b:c"}, corev1.SchemeGroupVersion)
	if err == nil || !strings.Contains(err.Error(), "client of v1") {
		t.Errorf("an invalid host: %v", err)
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
	c := must.Get(cluster.NewClient(&rest.Config{Host: "http://api.invalid", QPS: -1, Transport: kubeapi.Transport(s)},
		corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}))(t)
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
)

func TestConfig(t *testing.T) {
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
	cfg, err := client.LoadConfig(good)
	if err != nil || cfg.Host != "https://192.0.2.1:6443" || cfg.ExecProvider.Command != "token" {
		t.Errorf("got %v, %v", cfg, err)
	}
	absent := filepath.Join(dir, "absent")
	if _, err := client.LoadConfig(absent); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), absent) {
		t.Errorf("without the file: %v", err)
	}
	bad := write("bad", "apiVersion: [")
	if _, err := client.LoadConfig(bad); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("with a bad file: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := client.LoadConfig(""); !errors.Is(err, rest.ErrNotInCluster) {
		t.Errorf("outside a cluster: %v", err)
	}
}

// TestGroups reads what the servers of a cluster need, from a server that speaks
// protobuf and from one that does not.
func TestGroups(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	for path, c := range map[string]struct {
		version schema.GroupVersion
		list    runtime.Object
		items   func(runtime.Object) int
		types   []runtime.Object
	}{
		"/api/v1/pods": {
			corev1.SchemeGroupVersion, &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: meta}}},
			func(o runtime.Object) int { return len(o.(*corev1.PodList).Items) },
			[]runtime.Object{&corev1.Pod{}, &corev1.PodList{}},
		},
		"/apis/discovery.k8s.io/v1/endpointslices": {
			discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{{ObjectMeta: meta}}},
			func(o runtime.Object) int { return len(o.(*discoveryv1.EndpointSliceList).Items) },
			[]runtime.Object{&discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{}},
		},
	} {
		for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
			t.Run(path+" "+contentType, func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != path || !strings.Contains(r.Header.Get("Accept"), contentType) {
						t.Errorf("%s with Accept %s", r.URL, r.Header.Get("Accept"))
					}
					w.Header().Set("Content-Type", contentType)
					_, _ = w.Write(encode(t, contentType, c.version, c.list, c.types))
				}))
				defer server.Close()
				api, err := client.New(&rest.Config{Host: server.URL}, c.version, c.types...)
				if err != nil {
					t.Fatal(err)
				}
				got, err := api.Get().AbsPath(path).Do(t.Context()).Get()
				if err != nil || c.items(got) != 1 {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
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

// TestErrors has the errors that callers tell apart by their types.
func TestErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"no such pod","code":404}`))
	}))
	defer server.Close()
	api, err := client.New(&rest.Config{Host: server.URL}, corev1.SchemeGroupVersion, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	err = api.Get().Namespace("shop").Resource("pods").Name("web").Do(t.Context()).Into(&corev1.Pod{})
	if !apierrors.IsNotFound(err) || err.Error() != "no such pod" {
		t.Errorf("got %v", err)
	}
	if _, err := client.New(&rest.Config{Host: "http://a:b:c"}, corev1.SchemeGroupVersion, &corev1.Pod{}); err == nil || !strings.Contains(err.Error(), "client of v1") {
		t.Errorf("got %v", err)
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package selfsigned

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
)

// secretServer serves one Secret in JSON, and no webhook configuration. It is not safe for
// concurrent use.
type secretServer struct {
	secret *corev1.Secret // nil: missing
	writes int
}

func (s *secretServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if r.Method == http.MethodPost || r.Method == http.MethodPut && s.secret != nil {
		s.writes++
		s.secret = &corev1.Secret{}
		if err := json.NewDecoder(r.Body).Decode(s.secret); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	} else if s.secret == nil || r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/ns/secrets/tls" {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(s.secret) // the client reports what is missing
}

func (s *secretServer) state() state {
	d := s.secret.Data
	return state{d[authoritiesKey], d[authorityKeyKey], d[corev1.TLSCertKey], d[corev1.TLSPrivateKeyKey]}
}

// TestAuthority_Secret: a replica restores a Secret that was deleted or damaged, and adopts the
// valid state of another one.
func TestAuthority_Secret(t *testing.T) {
	api := &secretServer{}
	server := httptest.NewServer(api)
	defer server.Close()
	cfg := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	core, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	replica := func() *Authority {
		return New(Config{Core: core, Registrations: core, Namespace: "ns", Secret: "tls",
			Service: "webhook", Configuration: "c", Logger: slog.New(slog.DiscardHandler)})
	}
	sync := func(a *Authority) {
		t.Helper()
		if err := a.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first, second := replica(), replica()
	sync(first)
	sync(second)
	created := api.state()
	if api.writes != 1 || !first.state.equal(created) || !second.state.equal(created) {
		t.Fatalf("%d writes", api.writes)
	}
	for name, harm := range map[string]func(){
		"deleted":      func() { api.secret = nil },
		"empty":        func() { api.secret.Data = nil },
		"without key":  func() { delete(api.secret.Data, authorityKeyKey) },
		"invalid text": func() { api.secret.Data[authoritiesKey] = []byte("x") },
	} {
		harm()
		writes := api.writes
		sync(first)
		sync(second)
		if !api.state().equal(created) || api.writes != writes+1 || !second.state.equal(created) {
			t.Errorf("%s: not restored, or written %d times", name, api.writes-writes)
		}
	}

	api.secret = nil
	third := replica()
	sync(third) // without a state in memory: a new one
	sync(first)
	if other := api.state(); other.equal(created) || !first.state.equal(other) {
		t.Error("the state of another replica is not adopted")
	}
}

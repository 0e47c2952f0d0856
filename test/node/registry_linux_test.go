// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// slowRegistry is a registry in the machine's network with one image, whose layer it sends in
// two halves.
type slowRegistry struct {
	image   string        // its name
	half    chan struct{} // gets a value when the first half was sent
	release chan struct{} // the second half is sent when it is closed
}

// newSlowRegistry serves until t ends.
func newSlowRegistry(t *testing.T, m *machine) *slowRegistry {
	t.Helper()
	layer, err := nodetools.Tarball(map[string][]byte{"file": make([]byte, 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	const manifests = "application/vnd.oci.image.manifest.v1+json"
	contents := map[string][]byte{}
	add := func(mediaType string, content []byte) map[string]any {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		contents[digest] = content
		return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(content)}
	}
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	slow := add("application/vnd.oci.image.layer.v1.tar", layer)
	config := add("application/vnd.oci.image.config.v1+json", encode(map[string]any{
		"architecture": runtime.GOARCH, "os": runtime.GOOS,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{slow["digest"]}},
	}))
	manifest := encode(map[string]any{"schemaVersion": 2, "mediaType": manifests, "config": config, "layers": []any{slow}})
	manifestDigest := add(manifests, manifest)["digest"].(string)

	r := &slowRegistry{half: make(chan struct{}, 10), release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v2/slow/manifests/{name}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", manifests)
		w.Header().Set("Docker-Content-Digest", manifestDigest)
		w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
		_, _ = w.Write(manifest)
	})
	mux.HandleFunc("GET /v2/slow/blobs/{digest}", func(w http.ResponseWriter, q *http.Request) {
		digest := q.PathValue("digest")
		content := contents[digest]
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if digest == slow["digest"] && q.Method == http.MethodGet {
			_, _ = w.Write(content[:len(content)/2])
			_ = http.NewResponseController(w).Flush()
			r.half <- struct{}{}
			select {
			case <-r.release:
			case <-q.Context().Done():
			}
			content = content[len(content)/2:]
		}
		_, _ = w.Write(content)
	})
	var l net.Listener
	if err := m.inside(func() (err error) { l, err = net.Listen("tcp", "127.0.0.1:0"); return err }); err != nil {
		t.Fatal(err)
	}
	r.image = l.Addr().String() + "/slow:1"
	server := &http.Server{Handler: mux}
	t.Cleanup(func() { server.Close() })
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	return r
}

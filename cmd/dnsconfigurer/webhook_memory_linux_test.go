// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// largestReview returns the review that takes the most memory: as many options as are decoded, and
// as much more as is read.
func largestReview() string {
	options := strings.Repeat(`,{"name":"a"}`, 3<<20/5)
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",
		"kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","object":{"metadata":{"name":"web","namespace":"shop"},
		"spec":{"dnsConfig":{"options":[` + options[1:] + `]},"rest":""}}}}`
	return strings.Replace(review, `"rest":"`, `"rest":"`+strings.Repeat("x", webhook.MaxBody-len(review)), 1)
}

// TestWebhook_Memory sends 100 of the largest reviews at once, each over its own connection, with
// GOMEMLIMIT of the chart. The process responds to each review or refuses it, and responds to small
// reviews meanwhile and to large ones afterwards. Its peak was 108 to 110 MiB in three runs, below the
// 192 MiB of the chart; with a host name of 12 MiB instead of the options it was 118 MiB. The test
// allows more: a garbage collector without processor time exceeds GOMEMLIMIT. All reviews at once
// would take 10 GB.
func TestWebhook_Memory(t *testing.T) {
	const limit = 256 << 10 // KiB
	t.Setenv("GOMEMLIMIT", "115MiB")
	dir := t.TempDir()
	certFile, keyFile := certs.NewAuthority(t).Write(t, dir, "webhook")
	addr := freeAddr(t)
	config := writeFile(t, "webhook.yaml", map[string]any{"apiVersion": v1alpha1.GroupVersion,
		"kind": v1alpha1.KindWebhook, "node": map[string]string{"clusterDomain": "cluster.local"}, "lameduck": "1ms",
		"tls": map[string]string{"certFile": certFile, "keyFile": keyFile}})
	p := &process.Process{Program: process.Build(t), LogFile: filepath.Join(dir, "log"),
		Args: []string{"webhook", "--listen", addr, "--http", freeAddr(t), "--config", config}}
	must.Succeed(t, p.Start())
	defer p.Kill()
	awaitReview := func(body string) {
		t.Helper()
		var last string
		for start := time.Now(); time.Since(start) < 2*time.Minute; time.Sleep(10 * time.Millisecond) {
			var code int
			if code, last = postReview(addr, body); code == http.StatusOK {
				return
			}
		}
		t.Fatalf("no response to a review of %d bytes: %s\n%s", len(body), last, p.Log())
	}
	const small = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`
	awaitReview(small)

	body := largestReview()
	var mu sync.Mutex
	codes := map[int]int{} // 0: the connection was closed while the review was written
	var reviews sync.WaitGroup
	for range 100 {
		reviews.Go(func() {
			code, _ := postReview(addr, body)
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	for range 20 {
		awaitReview(small)
	}
	reviews.Wait()
	awaitReview(body)
	peak := peakMemory(t, p)
	t.Logf("%d bytes, responses by code: %v; peak %d KiB", len(body), codes, peak)
	if peak >= limit {
		t.Errorf("peak of the memory: %d KiB, limit %d KiB", peak, limit)
	}
	for code := range codes {
		switch code {
		case 0, http.StatusOK, http.StatusServiceUnavailable, http.StatusBadRequest: // the last if it is read too slowly
		default:
			t.Errorf("responses with code %d", code)
		}
	}
}

// postReview sends a review over a new connection. The code is 0 if there is no response.
func postReview(addr, body string) (code int, text string) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	r, err := client.Post("https://"+addr+webhook.PathValidate, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	response, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(response)
}

// peakMemory returns the largest resident memory of p so far, in KiB, without pages of files: the
// kernel drops those of the program before a cgroup exceeds its limit.
func peakMemory(t *testing.T, p *process.Process) int {
	t.Helper()
	peak, err1 := p.Memory("VmHWM")
	files, err2 := p.Memory("RssFile")
	must.Succeed(t, errors.Join(err1, err2))
	return peak - files
}

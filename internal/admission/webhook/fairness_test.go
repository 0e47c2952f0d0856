// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestServer_UnreadBodies: the API server sends all reviews over one connection. The bodies of
// large reviews that wait for memory do not keep the body of a small one from arriving.
func TestServer_UnreadBodies(t *testing.T) {
	const large = 15 // and a small one, on a connection that admits 16
	attempt := func() error {
		arrived, release := make(chan struct{}, large), make(chan struct{})
		s := &webhook.Server{Drain: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1<<20 {
				arrived <- struct{}{}
				<-release
				return
			}
			n, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, n, err)
		})}
		l, client, stop, done := runServer(t, s)
		url := "https://" + l.Addr().String()
		post := func(size int) string {
			r, err := client.Post(url, "application/json", bytes.NewReader(make([]byte, size)))
			if err != nil {
				return err.Error()
			}
			defer r.Body.Close()
			text, _ := io.ReadAll(r.Body)
			return r.Proto + " " + string(text)
		}
		if got := post(1); got != "HTTP/2.0 1 <nil>" { // makes the connection
			t.Fatal(got)
		}
		var others sync.WaitGroup
		for range large {
			others.Go(func() { post(3 << 20) })
		}
		for range large {
			<-arrived
		}
		got := post(40 << 10)
		close(release)
		others.Wait()
		stop()
		<-done
		if want := fmt.Sprintf("HTTP/2.0 %d <nil>", 40<<10); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	}
	var err error
	for range 5 { // a slow machine may need the three seconds that the server waits for a body
		if err = attempt(); err == nil {
			return
		}
	}
	t.Error(err)
}

// TestHandler_Processors: reviews of more than 16 KiB leave a processor for the others. Those that
// find none free wait for one second, and are refused then.
func TestHandler_Processors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t),
			Logger: slog.New(blockingLog{slog.DiscardHandler, release})}) // a review that takes long
		const size = 16 << 10
		slow := append(newReview(t, "CREATE", []byte(`{"apiVersion":"v1","kind":"Pod","spec":1}`)), bytes.Repeat([]byte(" "), size)...)
		processors := max(1, runtime.GOMAXPROCS(0)-1)
		codes := make(chan int, processors+1)
		for range processors {
			go func() { codes <- post(h, webhook.PathValidate, slow).Code }()
		}
		synctest.Wait()
		start := time.Now()
		if w := post(h, webhook.PathValidate, []byte("{}")); w.Code != http.StatusBadRequest || time.Since(start) != 0 {
			t.Errorf("a small review: %d after %v", w.Code, time.Since(start))
		}
		w := post(h, webhook.PathValidate, slow)
		if w.Code != http.StatusServiceUnavailable || time.Since(start) != time.Second ||
			!strings.Contains(w.Body.String(), "waited 1s for a processor") {
			t.Errorf("a large review: %d after %v: %s", w.Code, time.Since(start), w.Body)
		}
		go func() { codes <- post(h, webhook.PathValidate, slow).Code }()
		synctest.Wait()
		close(release)
		for range processors + 1 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("after the others have ended: %d", code)
			}
		}
	})
}

// blockingLog blocks the review of an object that cannot be read until release is closed.
type blockingLog struct {
	slog.Handler
	release <-chan struct{}
}

func (l blockingLog) Enabled(context.Context, slog.Level) bool { return true }

func (l blockingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "cannot read the object, allowing it" {
		<-l.release
	}
	return nil
}

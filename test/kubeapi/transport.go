// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Transport returns a transport that passes requests to h in this process, without a
// socket: a goroutine that waits for a socket would stop the clock of a synctest bubble.
func Transport(h http.Handler) http.RoundTripper { return transport{h} }

type transport struct{ handler http.Handler }

// RoundTrip returns as soon as the handler has written its header. The handler ends when
// the request's context is canceled or the body of the response is closed.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = body.CloseWithError(ctx.Err()) })
	w := &pipeResponse{header: http.Header{}, out: out, started: make(chan int, 1)}
	go func() {
		t.handler.ServeHTTP(w, r.WithContext(ctx))
		w.WriteHeader(http.StatusOK)
		_ = out.Close()
	}()
	select {
	case code := <-w.started:
		return &http.Response{
			Status: http.StatusText(code), StatusCode: code, Header: w.header, Request: r,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Body: pipeBody{body, func() { stop(); cancel(); _ = body.Close() }},
		}, nil
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
}

// pipeBody is the body of a response. Closing it ends the handler.
type pipeBody struct {
	io.Reader
	close func()
}

func (b pipeBody) Close() error { b.close(); return nil }

// pipeResponse is the http.ResponseWriter of a handler whose response is read from a pipe.
type pipeResponse struct {
	header  http.Header
	out     *io.PipeWriter
	started chan int // receives the status code
	once    sync.Once
}

func (w *pipeResponse) Header() http.Header  { return w.header }
func (w *pipeResponse) WriteHeader(code int) { w.once.Do(func() { w.started <- code }) }
func (w *pipeResponse) Flush()               { w.WriteHeader(http.StatusOK) }
func (w *pipeResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

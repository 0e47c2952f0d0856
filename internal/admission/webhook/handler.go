// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
)

// MaxBody is the size in bytes of the largest review that is read. The API server takes
// objects of 3 MiB (MaxRequestBodyBytes), and an update shows two.
const MaxBody = 8 << 20

// Where the two endpoints are.
const (
	PathValidate = "/validate"
	PathMutate   = "/mutate"
)

// Config is what a Handler is made of.
type Config struct {
	Rules    *admission.Rules // required; SetRules replaces them
	Logger   *slog.Logger     // nil: nothing is logged
	Register prometheus.Registerer

	// OpenStatefulSet opens a StatefulSet of the API server, in JSON: a scale says nothing of
	// what is scaled. It is called by many goroutines, once for each scale, and gives up
	// when ctx ends. nil: scales are admitted unseen.
	OpenStatefulSet func(ctx context.Context, namespace, name string) (io.ReadCloser, error)
}

// Handler answers AdmissionReviews. It is for many goroutines.
type Handler struct {
	log     *slog.Logger
	metrics *metrics
	open    func(ctx context.Context, namespace, name string) (io.ReadCloser, error) // Config.OpenStatefulSet
	rules   atomic.Pointer[admission.Rules]
}

// New returns a Handler.
func New(c Config) *Handler {
	h := &Handler{log: c.Logger, metrics: newMetrics(c.Register), open: c.OpenStatefulSet}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.SetRules(c.Rules)
	return h
}

// SetRules replaces the rules. Reviews that arrive later are evaluated with them.
func (h *Handler) SetRules(rules *admission.Rules) { h.rules.Store(rules) }

// ServeHTTP answers a review, or says in an HTTP error why it is none.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	o := observation{endpoint: endpointOf(r.URL.Path), operation: "none", verdict: verdictNone, code: http.StatusOK}
	defer func() { h.metrics.observe(o, time.Since(begun)) }()

	reply, err := h.answer(r, &o)
	if err != nil {
		o.code = http.StatusBadRequest
		if e, ok := errors.AsType[*httpError](err); ok {
			o.code = e.code
		}
		h.log.Warn("this is no review", "path", r.URL.Path, "from", r.RemoteAddr, "error", err)
		http.Error(w, err.Error(), o.code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(reply) // whoever asked may have gone
}

// httpError is an error with a code of its own.
type httpError struct {
	code int
	text string
}

func (e *httpError) Error() string { return e.text }

func (h *Handler) answer(r *http.Request, o *observation) ([]byte, error) {
	judge, known := map[string]judge{PathValidate: h.validate, PathMutate: h.mutate}[r.URL.Path]
	if !known {
		return nil, &httpError{http.StatusNotFound, "there is " + PathValidate + " and " + PathMutate}
	}
	if r.Method != http.MethodPost {
		return nil, &httpError{http.StatusMethodNotAllowed, "want POST"}
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "want Content-Type application/json"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the review: %w", err)
	case len(body) > MaxBody:
		return nil, &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the review has more than %d bytes", MaxBody)}
	}
	q, err := readRequest(body)
	if err != nil {
		return nil, err
	}
	a := h.judged(r.Context(), judge, q)
	o.operation, o.verdict, o.findings = q.operation(), a.verdict, a.findings
	h.report(r.URL.Path, q, a)
	return a.encode(q)
}

// judge is one of the two endpoints.
type judge func(context.Context, request) (answer, error)

// judged is what j answers. Whatever goes wrong in it, the object is admitted.
func (h *Handler) judged(ctx context.Context, j judge, q request) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("panic, the object is admitted", "kind", q.Kind.Kind, "namespace", q.Namespace, "name", q.Name, "panic", p, "stack", string(debug.Stack()))
			a = answer{verdict: verdictPanicked}
		}
	}()
	if !q.hasPod() && !q.isScale() {
		return answer{verdict: verdictPassed}
	}
	a, err := j(ctx, q)
	if err != nil {
		h.log.Warn("the object cannot be read and is admitted", "kind", q.Kind.Kind, "namespace", q.Namespace, "name", q.Name, "error", err)
		return answer{verdict: verdictUnread}
	}
	return a
}

func (h *Handler) report(path string, q request, a answer) {
	if a.verdict == verdictDenied {
		h.log.Info("denied", "path", path, "kind", q.Kind.Kind, "namespace", q.Namespace, "name", q.Name, "dryRun", q.DryRun, "findings", a.findings)
	}
}

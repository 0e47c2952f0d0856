// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// The paths of the endpoints.
const (
	PathValidate = "/validate"
	PathMutate   = "/mutate"
)

// Config configures a [Handler].
type Config struct {
	Rules    *admission.Rules // required; SetRules replaces them
	Report   admission.Report // SetRules replaces it
	Logger   *slog.Logger     // nil: no log
	Register prometheus.Registerer

	// OpenStatefulSet opens a StatefulSet on the API server, in JSON: a scale does not
	// contain the object that is scaled. It must be safe for concurrent use, is called
	// once for each scale, and must return when ctx is done. nil: scales are allowed
	// unchecked.
	OpenStatefulSet func(ctx context.Context, namespace, name string) (io.ReadCloser, error)
}

// Handler responds to AdmissionReviews. It is safe for concurrent use.
type Handler struct {
	log     *slog.Logger
	metrics *metrics
	// the bytes of the reviews that are being read and checked
	large *semaphore.Weighted
	small *semaphore.Weighted // those of small reviews

	processors *semaphore.Weighted // of reviews that are not quick

	open  func(ctx context.Context, namespace, name string) (io.ReadCloser, error) // Config.OpenStatefulSet
	rules atomic.Pointer[rules]
}

// New returns a Handler.
func New(c Config) *Handler {
	h := &Handler{
		log: c.Logger, metrics: newMetrics(c.Register), open: c.OpenStatefulSet,
		large: semaphore.NewWeighted(maxLarge), small: semaphore.NewWeighted(maxSmall),
		processors: semaphore.NewWeighted(longProcessors()),
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.SetRules(c.Rules, c.Report)
	return h
}

// SetRules replaces the rules, and what is reported of their findings. Reviews that arrive
// later are evaluated with them.
func (h *Handler) SetRules(r *admission.Rules, report admission.Report) {
	h.rules.Store(&rules{r, report})
}

// rules are what SetRules sets.
type rules struct {
	*admission.Rules
	report admission.Report
}

// ServeHTTP responds to an AdmissionReview, or with an HTTP error.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	o := observation{endpoint: endpointOf(r.URL.Path), operation: operationNone, verdict: verdictNone, code: http.StatusOK}
	defer func() { h.metrics.observe(o, time.Since(start)) }()

	reply, err := h.reply(r, &o)
	if err != nil {
		o.code = http.StatusBadRequest
		if e, ok := errors.AsType[*httpError](err); ok {
			o.code = e.code
		}
		h.log.Warn("invalid admission review", "path", r.URL.Path, "from", r.RemoteAddr, "error", short(err.Error()))
		http.Error(w, err.Error(), o.code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(reply) // best effort: the client may be gone
}

// httpError is an error with an HTTP status code.
type httpError struct {
	code int
	text string
}

func (e *httpError) Error() string { return e.text }

// reply returns the encoded response to r, and completes o.
func (h *Handler) reply(r *http.Request, o *observation) ([]byte, error) {
	review, known := map[string]reviewFunc{PathValidate: h.validate, PathMutate: h.mutate}[r.URL.Path]
	if !known {
		return nil, &httpError{http.StatusNotFound, "unknown path: want " + PathValidate + " or " + PathMutate}
	}
	if r.Method != http.MethodPost {
		return nil, &httpError{http.StatusMethodNotAllowed, "want POST"}
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "want Content-Type application/json"}
	}
	release, err := h.reserve(r)
	if err != nil {
		return nil, err
	}
	defer release()
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	releaseProcessor, err := h.reserveProcessor(r.Context(), int64(len(body)))
	if err != nil {
		return nil, err
	}
	releaseProcessor = sync.OnceFunc(releaseProcessor)
	defer releaseProcessor()
	q, err := parseReview(body)
	if err != nil {
		return nil, err
	}
	if q.isScale() {
		releaseProcessor() // scale waits for the API server, and then for a processor again
	}
	a := h.review(r.Context(), review, q)
	o.operation, o.verdict, o.findings = q.operation(), a.verdict, a.findings
	if a.verdict == verdictDenied {
		h.log.Info("denied", "path", r.URL.Path, "kind", short(q.Kind.Kind),
			"namespace", short(q.Namespace), "name", short(q.Name), "dryRun", q.DryRun,
			"findings", countCodes(a.findings))
	}
	return a.encode(q)
}

// short returns the beginning of a value for the log: any client that reaches the port chooses
// it.
func short(s string) string { return excerpt.Text(s, excerpt.MaxValue) }

// reviewFunc is the function of an endpoint.
type reviewFunc func(context.Context, request) (answer, error)

// review returns the answer of f. It allows the object if f fails or panics.
func (h *Handler) review(ctx context.Context, f reviewFunc, q request) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("panic, allowing the object", "kind", short(q.Kind.Kind),
				"namespace", short(q.Namespace), "name", short(q.Name), "panic", p, "stack", string(debug.Stack()))
			a = answer{verdict: verdictPanicked}
		}
	}()
	if !q.hasPod() && !q.isScale() {
		return answer{verdict: verdictPassed}
	}
	a, err := f(ctx, q)
	if err != nil {
		h.log.Warn("cannot read the object, allowing it", "kind", short(q.Kind.Kind),
			"namespace", short(q.Namespace), "name", short(q.Name), "error", short(err.Error()))
		return answer{verdict: verdictUnread}
	}
	return a
}

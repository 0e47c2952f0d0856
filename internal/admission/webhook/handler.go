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
	"runtime"
	"runtime/debug"
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
}

// Handler responds to AdmissionReviews. It is safe for concurrent use.
type Handler struct {
	log     *slog.Logger
	metrics *metrics
	// the bytes of the reviews that are being read and checked
	large *semaphore.Weighted
	small *semaphore.Weighted // those of small reviews

	processors *semaphore.Weighted // of reviews that are not quick

	rules atomic.Pointer[rules]
}

// New returns a Handler.
func New(c Config) *Handler {
	h := &Handler{
		log: c.Logger, metrics: newMetrics(c.Register),
		large: semaphore.NewWeighted(maxLarge), small: semaphore.NewWeighted(maxSmall),
		processors: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)-1))), // quick reviews need not wait
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
	if len(body) > quickBody {
		release, err := acquire(r.Context(), h.processors, 1, "a processor")
		if err != nil {
			return nil, err
		}
		defer release()
	}
	q, err := parseReview(body)
	if err != nil {
		return nil, err
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
	// Subresources have no pod or pod template to check, or cannot change it.
	if q.SubResource != "" || q.operation() == operationOther || len(q.Object) == 0 || string(q.Object) == "null" {
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

// Limits of the memory for reviews.
const (
	// MaxBody is the size in bytes of the largest review that is read. etcd stores objects of
	// 1.5 MiB (--max-request-bytes). A review has them in JSON, in which each "<" and each
	// control character takes six bytes: 9 MiB. Fields with short values, such as booleans,
	// take up to seven times their size in etcd.
	MaxBody = 12 << 20

	// maxLarge and maxSmall limit the bytes of the large and of the small reviews that are
	// read and checked at once. Small reviews do not wait for large ones. A review of more
	// than maxLarge counts as maxLarge: it is then the only large one. Most reviews have a few
	// kilobytes. A pod with 230,000 options in 3 MB takes 40 MB while it is checked.
	maxLarge = 8 << 20
	maxSmall = 4 << 20

	// smallBody is the size in bytes of the largest small review.
	smallBody = 64 << 10

	// quickBody is the size in bytes of the largest review that does not wait for a
	// processor. It takes a millisecond. With 60 clients that send reviews of 64 KiB without a
	// pause, ordinary ones took 120 ms in the median while those of 64 KiB did not wait.
	quickBody = 16 << 10

	// waitTime is how long a review waits for others. It is well below the timeoutSeconds
	// of its registration, after which the API server admits the object, too.
	waitTime = time.Second
)

// reserve waits until the body of r fits among those in flight. Bodies of unknown length
// count as the largest. Reviews are served in the order of their arrival. The caller must
// call release when it no longer refers to the body.
func (h *Handler) reserve(r *http.Request) (release func(), err error) {
	size, bodies := r.ContentLength, h.large
	switch {
	case size > MaxBody:
		return nil, tooLarge()
	case size < 0 || size > maxLarge:
		size = maxLarge
	case size <= smallBody:
		bodies = h.small
	}
	return acquire(r.Context(), bodies, size, "memory")
}

func acquire(ctx context.Context, s *semaphore.Weighted, n int64, resource string) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	if s.Acquire(ctx, n) != nil {
		return nil, &httpError{http.StatusServiceUnavailable, fmt.Sprintf("too many reviews at once: waited %v for %s", waitTime, resource)}
	}
	return func() { s.Release(n) }, nil
}

func tooLarge() error {
	return &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the review has more than %d bytes", MaxBody)}
}

// readBody returns the body of r. A body of known length needs one buffer.
func readBody(r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n >= 0 {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, fmt.Errorf("reading the review: %w", err)
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the review: %w", err)
	case len(body) > MaxBody:
		return nil, tooLarge()
	}
	return body, nil
}

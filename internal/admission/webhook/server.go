// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Timeouts of a connection. idleTimeout is longer than that of the API server (90 s in
// client-go), so that the server never closes a connection on which a request is being
// written.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 3 * time.Second // the timeoutSeconds of the registration: a slow body keeps others waiting
	writeTimeout  = 20 * time.Second
	idleTimeout   = 3 * time.Minute
)

// maxStreams is the number of requests in progress on a connection. An API server opens one
// connection per webhook, and another one if all its requests are in progress; the default of Go
// is 250.
const maxStreams = 16

// streamBuffer and connectionBuffer are the bytes of bodies that a client may send before they
// are read, of one request and of all requests of a connection. Large reviews wait unread for
// memory: with the defaults of Go, 1 MiB each, one of them uses up the connection, and the small
// reviews behind it wait, too. Four pods of 3 MB at once kept a fifth of the ordinary ones
// waiting for the timeout of the API server. The connection has room for all its requests.
// A larger streamBuffer has fewer round trips for a large review, which matter on a busy machine.
const (
	streamBuffer     = 240 << 10
	connectionBuffer = (maxStreams + 1) * streamBuffer // less than 4 MiB, the limit of net/http
)

// Server serves a Handler over HTTPS. It shuts down without losing a request of a client that uses
// its connection in the lameduck time: it reports that it is not ready, serves for that time, closes
// connections with the response to their next request, and then completes the requests in progress.
//
// http.Server.Shutdown then closes connections without a request. A request that arrives on one of
// them at that moment is lost: the lameduck time must be long enough for clients to learn that the
// replica ends, and for the next request on most connections.
type Server struct {
	Handler http.Handler

	// Certificate returns the certificate to serve, or nil if there is none, and the
	// reason if the server is not ready. It is called at every handshake and must be safe
	// for concurrent use.
	Certificate func() (*tls.Certificate, error)

	Lameduck time.Duration // for which new connections are still accepted; 0: none
	Drain    time.Duration // for requests in progress after that; 0: none
	Logger   *slog.Logger  // required

	stopping atomic.Bool
}

// errStopping is the error of Ready during the shutdown.
var errStopping = errors.New("the server is shutting down")

// Ready returns an error if the server is not ready for requests.
func (s *Server) Ready() error {
	if s.stopping.Load() {
		return errStopping
	}
	_, err := s.Certificate()
	return err
}

// Run serves the connections of l until ctx is done, and closes l.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	// Once the server is shutting down, it closes the connection with the response: a GOAWAY in HTTP/2 (RFC 9113 section 6.8).
	// Shutdown closes idle connections without one, which is an error for a client that is writing a request.
	handle := func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		s.Handler.ServeHTTP(w, r)
	}
	certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c, err := s.Certificate()
		if c != nil {
			err = nil // an expired certificate is better than none: the API server then logs the reason
		}
		return c, err
	}
	server := &http.Server{
		Handler:   http.HandlerFunc(handle),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate},
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams,
			MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connectionBuffer},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug), // failed handshakes, such as those of port scanners
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving admission reviews: %w", err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	s.Logger.Info("shutting down", "lameduck", s.Lameduck)
	select {
	case err := <-ended:
		return fmt.Errorf("serving admission reviews: %w", err)
	case <-time.After(s.Lameduck):
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	err := server.Shutdown(draining)
	<-ended // http.ErrServerClosed
	if err != nil {
		_ = server.Close()
		return fmt.Errorf("requests in progress after %v: %w", s.Drain, err)
	}
	return nil
}

// KeyPair is a certificate and its key in two files. They are read at each call of Current, at
// handshakes and for readiness, because a watch can miss bind mounts, renamed files and replaced
// links. While the two do not match, such as between the writes of one and of the other, the
// previous pair is served.
type KeyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu        sync.Mutex
	served    *tls.Certificate
	cert, key []byte // of the last reading; nil: it failed
	err       error  // of the last reading
}

// NewKeyPair reads the two files. It returns an error if they are unreadable or do not match.
func NewKeyPair(certFile, keyFile string, log *slog.Logger) (*KeyPair, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &KeyPair{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := p.Current(); err != nil {
		return nil, err
	}
	return p, nil
}

// Current returns the certificate to serve. The error is set if the files have another one
// that cannot be used, or if the certificate is not valid now.
func (p *KeyPair) Current() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reloadLocked()
	if p.served == nil || p.err != nil {
		return p.served, p.err
	}
	switch now, leaf := time.Now(), p.served.Leaf; {
	case now.After(leaf.NotAfter):
		return p.served, fmt.Errorf("certificate %s expired on %v", p.certFile, leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		return p.served, fmt.Errorf("certificate %s is not valid before %v", p.certFile, leaf.NotBefore)
	}
	return p.served, nil
}

// reloadLocked parses the files if they have changed.
func (p *KeyPair) reloadLocked() {
	cert, key, err := p.read()
	if p.served != nil && bytes.Equal(cert, p.cert) && bytes.Equal(key, p.key) {
		return
	}
	var c tls.Certificate
	if err == nil {
		c, err = tls.X509KeyPair(cert, key)
	}
	p.cert, p.key, p.err = cert, key, err
	switch {
	case err != nil:
		p.err = fmt.Errorf("reading %s and %s: %w", p.certFile, p.keyFile, err)
		if p.served != nil {
			p.log.Warn("invalid certificate, keeping the previous one", "error", p.err)
		}
		return
	case p.served != nil:
		p.log.Info("certificate loaded", "names", c.Leaf.DNSNames, "until", c.Leaf.NotAfter)
	}
	p.served = &c
}

// maxPEM is the maximum size of a certificate with its intermediate certificates, and of a key, in bytes.
// A Secret of Kubernetes has 1 MiB at most.
const maxPEM = 1 << 20

// read returns the contents of the two files. A FIFO would block each handshake, and a device may have
// no end.
func (p *KeyPair) read() (cert, key []byte, err error) {
	path := p.certFile
	if cert, err = atomicfile.ReadRegular(path, maxPEM); err == nil {
		path = p.keyFile
		key, err = atomicfile.ReadRegular(path, maxPEM)
	}
	if err == nil {
		return cert, key, nil
	}
	if _, named := errors.AsType[*fs.PathError](err); !named {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return nil, nil, err
}

// verdict is the outcome of a request: a label value.
type verdict string

const (
	verdictNone     verdict = "none"    // not a review
	verdictPassed   verdict = "passed"  // nothing to check, or to change
	verdictAllowed  verdict = "allowed" // checked, without a finding
	verdictWarned   verdict = "warned"  // allowed, with warnings
	verdictDenied   verdict = "denied"
	verdictPatched  verdict = "patched"  // allowed, and changed
	verdictUnread   verdict = "unread"   // allowed because it could not be read
	verdictPanicked verdict = "panicked" // allowed because of a panic
)

const (
	operationNone  = "none"  // of what is not a review, or has not been read
	operationOther = "other" // neither creates nor updates an object
)

// metrics counts requests. The label values are closed sets: two endpoints and "other", two
// operations, "other" and "none", the verdicts, the HTTP codes of Handler, and the codes of
// findings, which are constants.
type metrics struct {
	requests *prometheus.CounterVec
	findings *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics returns metrics and registers them with r, unless r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	factory := promauto.With(r)
	m := &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_admission_requests_total",
			Help: "Requests, by endpoint, operation, verdict and HTTP code.",
		}, []string{"endpoint", "operation", "verdict", "code"}),
		findings: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_admission_findings_total",
			Help: "Findings in objects, by code (docs/checks.md).",
		}, []string{"code"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_admission_duration_seconds",
			Help:    "Time from the header of a request to its response.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8), // 100 us to 1.6 s
		}, []string{"endpoint"}),
	}
	for _, endpoint := range []string{endpointOf(PathValidate), endpointOf(PathMutate)} {
		m.duration.WithLabelValues(endpoint) // an alert needs the series to exist
		m.requests.WithLabelValues(endpoint, operationNone, string(verdictNone), strconv.Itoa(http.StatusServiceUnavailable))
		for _, operation := range []admission.Operation{admission.Create, admission.Update} {
			for _, v := range []verdict{verdictUnread, verdictPanicked} {
				m.requests.WithLabelValues(endpoint, string(operation), string(v), "200")
			}
		}
	}
	return m
}

func endpointOf(path string) string {
	switch path {
	case PathValidate, PathMutate:
		return path[1:]
	default:
		return "other"
	}
}

// observation holds the label values of a request.
type observation struct {
	endpoint  string
	operation string
	verdict   verdict
	code      int
	findings  []policy.Code
}

func (m *metrics) observe(o observation, duration time.Duration) {
	m.requests.WithLabelValues(o.endpoint, o.operation, string(o.verdict), strconv.Itoa(o.code)).Inc()
	m.duration.WithLabelValues(o.endpoint).Observe(duration.Seconds())
	for _, code := range o.findings {
		m.findings.WithLabelValues(string(code)).Inc()
	}
}

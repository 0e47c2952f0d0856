// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"
)

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
	// of `webhook manifests`, after which the API server admits the object, too.
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
	ctx, cancel := context.WithTimeout(r.Context(), waitTime)
	defer cancel()
	if bodies.Acquire(ctx, size) != nil {
		return nil, tooMany("memory")
	}
	return func() { bodies.Release(size) }, nil
}

// reserveProcessor waits until a processor is free for a review of size bytes. Quick reviews
// need not wait: the others leave a processor for them.
func (h *Handler) reserveProcessor(ctx context.Context, size int64) (release func(), err error) {
	if size <= quickBody {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	if h.processors.Acquire(ctx, 1) != nil {
		return nil, tooMany("a processor")
	}
	return func() { h.processors.Release(1) }, nil
}

// longProcessors returns the number of reviews above quickBody that are checked at once.
func longProcessors() int64 { return int64(max(1, runtime.GOMAXPROCS(0)-1)) }

func tooMany(resource string) error {
	return &httpError{http.StatusServiceUnavailable, fmt.Sprintf("too many reviews at once: waited %v for %s", waitTime, resource)}
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Limits of the memory for reviews.
const (
	// MaxBody is the size in bytes of the largest review that is read. The API server
	// accepts objects of 3 MiB (MaxRequestBodyBytes), and an update contains two.
	MaxBody = 8 << 20

	// maxLarge and maxSmall are the numbers of bytes of the reviews that are read and
	// checked at once: one of the largest, or two of the largest objects, and beside them
	// small reviews, which need not wait for large ones. Most reviews have a few kilobytes.
	// A pod with 230,000 options in 3 MB takes 40 MB while it is checked: 100 of them at once
	// need 103 to 124 MiB, of the 192 MiB in the manifests.
	maxLarge = MaxBody
	maxSmall = 4 << 20

	// smallBody is the size in bytes of the largest small review.
	smallBody = 64 << 10

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
	case size < 0:
		size = MaxBody
	case size <= smallBody:
		bodies = h.small
	}
	ctx, cancel := context.WithTimeout(r.Context(), waitTime)
	defer cancel()
	if bodies.Acquire(ctx, size) != nil {
		return nil, &httpError{http.StatusServiceUnavailable, fmt.Sprintf("too many reviews at once: waited %v for memory", waitTime)}
	}
	return func() { bodies.Release(size) }, nil
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

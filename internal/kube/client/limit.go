// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// ErrLargeReply is the error of a request whose reply exceeds the limit of [LimitReplies]. A list
// may be requested in smaller pages.
var ErrLargeReply = errors.New("the reply is too large")

// LimitReplies makes clients of cfg read at most limit bytes of each reply: tenants write
// objects of up to three megabytes, of which a page of 500 would be 1.5 gigabytes.
func LimitReplies(cfg *rest.Config, limit int64) {
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper { return limitedTransport{base, limit} })
}

type limitedTransport struct {
	http.RoundTripper
	limit int64
}

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &limitedBody{response.Body, t.limit}
	}
	return response, err
}

// limitedBody fails with ErrLargeReply after a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, ErrLargeReply
	}
	return n, err
}

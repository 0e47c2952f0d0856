// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	m := NewMetrics(r)
	m.request("/runtime.v1.RuntimeService/Version", nil)
	m.request("/runtime.v1.ImageService/PullImage", status.Error(codes.NotFound, "no"))
	m.request("/runtime.v1.RuntimeService/FromTheFuture", nil)
	m.request("/invented.Service/Version", errors.New("no status"))
	m.sandbox(Edited, time.Millisecond)
	const want = `
# HELP dnsconfigurer_cri_requests_total Calls that were passed to the container runtime, by method and gRPC code.
# TYPE dnsconfigurer_cri_requests_total counter
dnsconfigurer_cri_requests_total{code="NotFound",method="PullImage"} 1
dnsconfigurer_cri_requests_total{code="OK",method="Version"} 1
dnsconfigurer_cri_requests_total{code="OK",method="other"} 1
dnsconfigurer_cri_requests_total{code="Unknown",method="other"} 1
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "dnsconfigurer_cri_requests_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m.sandboxes); n != len(outcomes) {
		t.Errorf("%d outcomes have a series, want all %d from the start", n, len(outcomes))
	}
	if lint, err := testutil.GatherAndLint(r); err != nil || len(lint) > 0 {
		t.Errorf("%v %v", lint, err)
	}
	var none *Metrics
	none.request("/x", nil)
	none.sandbox(Edited, 0)
}

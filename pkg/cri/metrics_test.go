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

func TestMetrics_Series(t *testing.T) {
	r := prometheus.NewRegistry()
	m := NewMetrics(r)
	m.countCall("/runtime.v1.RuntimeService/Version", nil)
	m.countCall("/runtime.v1.ImageService/PullImage", status.Error(codes.NotFound, "no"))
	m.countCall("/runtime.v1.RuntimeService/FromTheFuture", nil)
	m.countCall("/invented.Service/Version", errors.New("no status"))
	m.countCall("/runtime.v1.RuntimeService/Status", status.Error(codes.Unauthenticated, "no"))
	m.countCall("/runtime.v1.RuntimeService/Status", status.Error(codes.Unauthenticated+1, "no"))
	m.countCall("/runtime.v1.RuntimeService/Status", status.Error(4711, "no"))
	m.observeSandbox(Edited, time.Millisecond)
	const want = `
# HELP dnsconfigurer_cri_requests_total Calls forwarded to the container runtime, by method and gRPC code.
# TYPE dnsconfigurer_cri_requests_total counter
dnsconfigurer_cri_requests_total{code="NotFound",method="PullImage"} 1
dnsconfigurer_cri_requests_total{code="OK",method="Version"} 1
dnsconfigurer_cri_requests_total{code="OK",method="other"} 1
dnsconfigurer_cri_requests_total{code="Unauthenticated",method="Status"} 1
dnsconfigurer_cri_requests_total{code="Unknown",method="other"} 1
dnsconfigurer_cri_requests_total{code="other",method="Status"} 2
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "dnsconfigurer_cri_requests_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m.sandboxes); n != len(outcomes) {
		t.Errorf("%d outcomes have a series at the start, want all %d", n, len(outcomes))
	}
	if lint, err := testutil.GatherAndLint(r); err != nil || len(lint) > 0 {
		t.Errorf("%v %v", lint, err)
	}
	var none *Metrics
	none.countCall("/x", nil)
	none.observeSandbox(Edited, 0)
	none.countReportPanic()
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

func TestNewRegistry(t *testing.T) {
	r := daemon.NewRegistry("v1.2.3")
	want := `
		# HELP dnsconfigurer_build_info 1, with the version of the program and of Go as labels.
		# TYPE dnsconfigurer_build_info gauge
		dnsconfigurer_build_info{goversion="` + runtime.Version() + `",version="v1.2.3"} 1
	`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "dnsconfigurer_build_info"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(r, "go_goroutines"); n != 1 || err != nil {
		t.Errorf("go_goroutines: %d series, %v", n, err)
	}
}

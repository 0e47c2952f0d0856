// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// TestReportRefresh checks which results are events on the pod.
func TestReportRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		report Refresh
		reason string // of the event; "": none
		warns  bool
	}{
		"refreshed":     {Refresh{Result: Refreshed, Drift: Outdated}, ReasonRefreshed, false},
		"restored":      {Refresh{Result: WrittenBack}, ReasonRestored, false},
		"dry run":       {Refresh{Result: DryRun, Drift: Outdated}, "", false},
		"outdated":      {Refresh{Result: NotPermitted, Drift: Outdated}, "", false},
		"not permitted": {Refresh{Result: NotPermitted, Drift: Empty}, ReasonDrift, true},
		"pod changed":   {Refresh{Result: Modified, Drift: Different}, ReasonDrift, true},
		"failed":        {Refresh{Result: Failed, Drift: Outdated, Detail: "disk full"}, ReasonDrift, true},
	} {
		t.Run(name, func(t *testing.T) {
			api := &eventAPI{}
			withReporter(t, api, func(r *Reporter, log *bytes.Buffer) {
				c.report.Sandbox = cri.Sandbox{Namespace: "shop", Name: "web", UID: "u"}
				c.report.DNS = resolvconf.Config{Nameservers: []string{"192.0.2.1"}}
				r.ReportRefresh(c.report)
				synctest.Wait()
				if warns := strings.Contains(log.String(), "level=WARN"); warns != c.warns {
					t.Errorf("the log:\n%s", log)
				}
			})
			want := 1
			if c.reason == "" {
				want = 0
			}
			if len(api.bodies) != want || api.count(c.reason) != want {
				t.Errorf("events %q, want %q", api.bodies, c.reason)
			}
		})
	}
}

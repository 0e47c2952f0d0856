// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/decision"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// maxUnitDrain is the longest drain that fits into TimeoutStopSec=15s of the unit in
// deploy/systemd, with a second for the rest of the shutdown.
const maxUnitDrain = 14 * time.Second

// codeDrainTimeout is the code of a drainTimeout that is longer.
const codeDrainTimeout policy.Code = "drain-timeout"

// Check builds what the server builds for a valid configuration, and returns the errors and
// warnings. A container runtime or an API server that does not run is neither.
func Check(c config.Shim) (warnings []policy.Finding, _ error) {
	var problems []error
	if err := cri.CheckEndpoints(config.SocketPath(c.Listen), config.SocketPath(c.RuntimeEndpoint)); err != nil {
		problems = append(problems, err)
	}
	// Another user than root does not own the directory of a shim that runs as root.
	if os.Geteuid() == 0 {
		problems = append(problems, cri.CheckListen(config.SocketPath(c.Listen)))
	}
	if _, err := decision.NewClient(c.Kubeconfig, ""); err != nil {
		problems = append(problems, err)
	}
	if c.Manifests != "" {
		if _, err := os.Stat(c.Manifests); err != nil {
			problems = append(problems, fmt.Errorf("manifests: %w", err))
		}
	}
	if c.Drain > maxUnitDrain {
		warnings = append(warnings, policy.Finding{
			Code: codeDrainTimeout, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByNode, Field: "drainTimeout",
			Message: fmt.Sprintf("the drain takes up to %v: systemd kills the shim after 15s, the TimeoutStopSec= of its unit", c.Drain),
			Hint:    "set a drainTimeout of at most 14s, or raise TimeoutStopSec= with systemctl edit",
		})
	}
	return warnings, errors.Join(problems...)
}

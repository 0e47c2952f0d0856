// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/decision"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// Check builds what the server builds for a valid configuration, and returns the errors. A container
// runtime or an API server that does not run is not an error.
func Check(c config.Shim) error {
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
	return errors.Join(problems...)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/decision"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

// ReportBypass sends an event about the bypass of the shim on its node. The credentials are those
// of the configuration file, or of the last good settings in the directory state.
func ReportBypass(ctx context.Context, file, state, version, reason, message string) error {
	c, err := config.ShimKind().FromFile(file).Load()
	if err != nil {
		var lastErr error
		if c, lastErr = lastGood(filepath.Join(state, stateFile)).load(); lastErr != nil {
			return multierr.Prefix("sending an event about the node", errors.Join(err, lastErr))
		}
	}
	if c.Kubeconfig == "" {
		return nil
	}
	api, err := decision.NewClient(c.Kubeconfig, "dnsconfigurer-shim/"+version)
	if err != nil {
		return fmt.Errorf("sending an event about the node: %w", err)
	}
	kind := corev1.EventTypeWarning
	if reason == events.ReasonBypassEnded {
		kind = corev1.EventTypeNormal
	}
	return events.SendNode(ctx, api, c.Node.Name, kind, reason, message)
}

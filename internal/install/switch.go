// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/bypass"
)

// A Switch turns the bypass of a node on and off, together with the units of the shim.
type Switch struct {
	Bypass    *bypass.Bypass
	Systemctl Systemctl
	Systemd   bool                        // the node is this machine and runs systemd
	Check     func(context.Context) error // returns an error unless the shim forwards calls
}

// On begins the bypass and stops the shim. began is false if the bypass was on before.
func (s *Switch) On(ctx context.Context, reason string) (began bool, err error) {
	active, _ := s.Bypass.Active() // Begin reports the error
	if err := s.Bypass.Begin(reason); err != nil {
		return false, err
	}
	if s.Systemd {
		if err := s.Systemctl.runUnits(ctx, runningUnits, "stop"); err != nil {
			return false, err
		}
	}
	return active == nil, nil
}

// Off starts the shim and ends the bypass. If the shim does not serve, the bypass stays.
func (s *Switch) Off(ctx context.Context) error {
	record, err := s.Bypass.Active()
	if err != nil {
		return err
	}
	if err := s.Bypass.End(); err != nil || !s.Systemd || record == nil {
		return err
	}
	err = s.start(ctx)
	if err == nil {
		return nil
	}
	if again := s.Bypass.Begin(record.Reason); again != nil {
		return fmt.Errorf("%w; the bypass cannot be restored: %w", err, again)
	}
	_ = s.Systemctl.runUnits(context.WithoutCancel(ctx), runningUnits, "stop") // the link matters, not the unit
	return fmt.Errorf("the shim does not serve, the bypass stays: %w", err)
}

// start starts the units of the shim, and checks that it serves.
func (s *Switch) start(ctx context.Context) error {
	_ = s.Systemctl.runUnits(ctx, allUnits, "reset-failed") // fails for a unit that is not loaded
	if err := s.Systemctl.runUnits(ctx, runningUnits, "start"); err != nil {
		return err
	}
	return s.Check(ctx)
}

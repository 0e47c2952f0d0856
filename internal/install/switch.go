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

// On begins the bypass and stops the shim. began is false if the bypass was on before. If the units
// cannot be stopped, it has begun nevertheless.
func (s *Switch) On(ctx context.Context, reason string) (began bool, err error) {
	active, _ := s.Bypass.Active() // Begin reports the error
	if err := s.Bypass.Begin(reason); err != nil {
		return false, err
	}
	if s.Systemd {
		err = s.Systemctl.runUnits(ctx, runningUnits, "stop")
	}
	return active == nil, err
}

// Off starts the shim and ends the bypass. If the shim does not serve, the bypass stays. ended is false
// if the bypass was off before.
func (s *Switch) Off(ctx context.Context) (ended bool, err error) {
	record, err := s.Bypass.Active()
	if err != nil {
		return false, err
	}
	if err := s.Bypass.End(); err != nil || !s.Systemd || record == nil {
		return err == nil && record != nil, err
	}
	err = s.start(ctx)
	if err == nil {
		return true, nil
	}
	if again := s.Bypass.Begin(record.Reason); again != nil {
		return false, fmt.Errorf("%w; the bypass cannot be restored: %w", err, again)
	}
	_ = s.Systemctl.runUnits(context.WithoutCancel(ctx), runningUnits, "stop") // the link matters, not the unit
	return false, fmt.Errorf("the shim does not serve, the bypass stays: %w", err)
}

// start starts the units of the shim, and checks that it serves.
func (s *Switch) start(ctx context.Context) error {
	_ = s.Systemctl.runUnits(ctx, allUnits, "reset-failed") // fails for a unit that is not loaded
	if err := s.Systemctl.runUnits(ctx, runningUnits, "start"); err != nil {
		return err
	}
	return s.Check(ctx)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// allUnits are the units of the shim.
var allUnits = []string{"dnsconfigurer-shim.socket", "dnsconfigurer-shim.service", "dnsconfigurer-bypass.service"}

// runningUnits are the units that run while the shim serves. systemd starts the other one, the
// bypass, when the service fails.
var runningUnits = []string{"dnsconfigurer-shim.socket", "dnsconfigurer-shim.service"}

// Systemctl is the program that controls systemd.
type Systemctl struct{ Program string }

// Run runs systemctl with arguments.
func (s Systemctl) Run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, s.Program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// runUnits runs systemctl with arguments, followed by units.
func (s Systemctl) runUnits(ctx context.Context, units []string, args ...string) error {
	return s.Run(ctx, append(args, units...)...)
}

// invocation returns the ID that systemd gives to each run of a unit (systemd.exec(5)), "" if the unit
// does not run.
func (s Systemctl) invocation(ctx context.Context, unit string) (string, error) {
	out, err := exec.CommandContext(ctx, s.Program, "show", "--property=ActiveState,InvocationID", unit).Output()
	if failure, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failure.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("systemctl show %s: %w", unit, err)
	}
	id := ""
	for line := range strings.Lines(string(out)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); {
		case name == "InvocationID":
			id = value
		case name == "ActiveState" && (value == "inactive" || value == "failed"):
			return "", nil
		}
	}
	if id == "" {
		return "", fmt.Errorf("systemctl show %s: no InvocationID: systemd 232 or later is required", unit)
	}
	return id, nil
}

// settleTime is how long a kubelet must stay active after a restart: one that rejects its
// configuration ends within a second.
const settleTime = 3 * time.Second

// Restart restarts a unit and returns an error unless it stays active.
func (s Systemctl) Restart(ctx context.Context, unit string) error {
	if err := s.Run(ctx, "restart", unit); err != nil {
		return err
	}
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); {
		if err := s.Run(ctx, "is-active", "--quiet", unit); err != nil {
			return fmt.Errorf("%s does not stay active, see journalctl -u %s: %w", unit, unit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleTime / 10):
		}
	}
	return nil
}

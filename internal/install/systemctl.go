// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// isStartedWithShim reports whether a unit runs in a process that was started with the drop-in of
// Install: the process has its variable.
func (s Systemctl) isStartedWithShim(ctx context.Context, unit string) (with, running bool, err error) {
	out, err := exec.CommandContext(ctx, s.Program, "show", "--property=MainPID", "--value", unit).Output()
	if err != nil {
		return false, false, fmt.Errorf("systemctl show %s: %w", unit, err)
	}
	pid := strings.TrimSpace(string(out))
	if pid == "" || pid == "0" {
		return false, false, nil
	}
	environment, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	if err != nil {
		return false, false, fmt.Errorf("reading the environment of %s: %w", unit, err)
	}
	return bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+startedWith+"=")), true, nil
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

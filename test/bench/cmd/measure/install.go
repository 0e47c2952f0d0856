// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// tools are the programs of the peers and their Debian packages.
var tools = []struct{ program, pkg string }{
	{"dnsperf", "dnsperf"}, {"nsd", "nsd"}, {"knotd", "knot"}, {"unbound", "unbound"}, {"dnsmasq", "dnsmasq-base"},
}

// policy is a file that prevents the start of services at their installation
// (invoke-rc.d(8)).
const policy = "/usr/sbin/policy-rc.d"

// install installs the missing tools.
func install(ctx context.Context) error {
	var missing []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.program); err != nil {
			missing = append(missing, tool.pkg)
		}
	}
	if missing == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "installing", missing)
	if _, err := os.Stat(policy); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
			return err
		}
		defer os.Remove(policy)
	}
	args := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	if aptGet(ctx, args...).Run() == nil {
		return nil
	}
	_ = aptGet(ctx, "update").Run() // install reports the error
	if out, err := aptGet(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %q: %w\n%s", args, err, out)
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return cmd
}

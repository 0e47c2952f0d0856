// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
)

func installCommand() *cobra.Command {
	f, dryRun := nodeFlags{}, false
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put the shim between the kubelet and the container runtime of this node",
		Long: `Enable and start the units of the shim, check that the shim forwards calls to the
container runtime of the kubelet, and configure the kubelet with the socket of the shim.

The command reads the kubelet's unit as systemd does, and changes the one setting that decides
the endpoint: KUBELET_EXTRA_ARGS where the unit uses it, in the file in /etc that sets it or in
a drop-in; otherwise a file in the directory of --config-dir, or the file of --config. If the
endpoint is a flag that they cannot override, the error names its place.

If a step fails, the steps before are undone. A second call changes nothing. The kubelet reads
its configuration when it starts: restart it, or set --restart-kubelet.`,
		Example: `  dnsconfigurer install --dry-run
  dnsconfigurer install --restart-kubelet`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := f.endpoints()
			if err != nil {
				return err
			}
			if record, err := f.bypass(e).Active(); err != nil || record != nil {
				return cmp.Or(err, errors.New("the bypass is on: end it with dnsconfigurer bypass off"))
			}
			i := f.installer(e)
			edits, err := i.Plan()
			if err != nil {
				return err
			}
			printEdits(cmd, edits)
			if dryRun {
				return nil
			}
			if err := i.Install(cmd.Context()); err != nil {
				return err
			}
			switch {
			case len(edits) == 0:
				printf(cmd, "the kubelet is configured with %s already", e.Listen)
			case !f.restartKubelet:
				printf(cmd, "installed; the kubelet uses the shim after: systemctl restart %s", f.kubeletUnit)
			}
			return nil
		},
	}
	f.register(cmd)
	f.registerKubelet(cmd)
	f.registerRestart(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the changes of files, and change nothing")
	return cmd
}

func uninstallCommand() *cobra.Command {
	f, dryRun := nodeFlags{}, false
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Restore the kubelet's configuration as it was before install, and stop the shim",
		Long: `Restore the kubelet's configuration as it was before dnsconfigurer install. Lines that
others changed since stay.

The shim serves until the kubelet is restarted. With --restart-kubelet the command restarts the
kubelet, and then disables and stops the units of the shim. Without it, restart the kubelet and
run the command again, which stops the shim. If a step fails, the steps before are undone.`,
		Example: `  dnsconfigurer uninstall --dry-run
  dnsconfigurer uninstall --restart-kubelet`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := f.endpoints()
			if err != nil {
				return err
			}
			i := f.installer(e)
			edits, err := i.PlanUninstall()
			if err != nil {
				return err
			}
			printEdits(cmd, edits)
			if dryRun {
				return nil
			}
			stopped, err := i.Uninstall(cmd.Context())
			switch {
			case err != nil:
				return err
			case !stopped:
				printf(cmd, "the kubelet uses the shim until: systemctl restart %s; then run this command again to stop the shim",
					f.kubeletUnit)
				return nil
			}
			return f.bypass(e).End()
		},
	}
	f.register(cmd)
	f.registerKubelet(cmd)
	f.registerRestart(cmd)
	f.registerMetrics(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the changes of files, and change nothing")
	return cmd
}

func printEdits(cmd *cobra.Command, edits []install.Edit) {
	for _, e := range edits {
		fmt.Fprint(cmd.OutOrStdout(), e)
	}
}

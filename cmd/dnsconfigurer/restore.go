// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
)

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore NAMESPACE/NAME | --all",
		Short: "Restore the kubelet's resolv.conf in running pods of this node",
		Long: `Write the text that the kubelet computed into the resolv.conf of a pod of this node, or of
all pods. A restored file is not rewritten, not even after a restart of the agent or the shim,
until "dnsconfigurer refresh" is run for the pod. A new sandbox of the pod gets a new decision.

Exit code 1 if a file cannot be restored, for example because the pod has changed it. Run it
as root on the node, while dnsconfigurer agent runs, or a shim with a statusSocket.`,
		Example: "  dnsconfigurer restore shop/web-0\n  dnsconfigurer restore --all",
	}
	runForPods(cmd, nodestatus.Client.Restore)
	return cmd
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

const doctorHelp = `Read the objects of a live cluster, query its DNS servers, and print what is wrong: the
object, the evidence, the cause and the next command. Without --ephemeral-container it changes
nothing in the cluster.

The DNS servers are the addresses of the DNS Service and its endpoints, or those of
--dns-server. From outside the cluster they are often unreachable: run doctor in a pod or on
a node, or use --ephemeral-container.

docs/debugging.md lists the checks and the permissions.

Exit code 1: there is a finding of severity error, or the command failed, for example because
the API server cannot be reached or the pod of --pod is not found.`

func doctorCommand() *cobra.Command {
	o, format := gather.Options{}, ""
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the DNS of a cluster, with evidence",
		Long:  doctorHelp,
		Example: `  dnsconfigurer doctor
  dnsconfigurer doctor --context staging -o html > dns.html
  dnsconfigurer doctor --pod shop/web-0 --ephemeral-container registry.example/dnsconfigurer:v0.1.0
  dnsconfigurer doctor --dns-server 10.96.0.10`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.Parse()
			if err != nil {
				return err
			}
			if c.API, err = cluster.LoadUserConfig(o.Kubeconfig, o.Context, "dnsconfigurer-doctor/"+version()); err != nil {
				return err
			}
			// No limit: doctor lists one kind after the other, and waits for at most 16 kubelets at a time.
			c.API.QPS = -1
			klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the result reports these errors as not checked
			ctx, cancel := context.WithTimeout(cmd.Context(), c.Timeout)
			defer cancel()
			s, err := gather.All(ctx, c)
			if err != nil {
				return err
			}
			result := doctor.Run(ctx, s)
			err = cli.WriteDoctor(cmd.OutOrStdout(), format, result)
			return exitError(!doctor.HasErrors(result), err)
		},
	}
	o.Register(cmd.Flags())
	usage.ChoiceFlag(cmd.Flags(), &format, "output", "o", "`FORMAT`: text, json or html", cli.DoctorFormats...)
	cmd.AddCommand(doctorQueryCommand())
	return interruptible(cmd)
}

// doctorQueryCommand returns the command that runs in the container of --ephemeral-container.
func doctorQueryCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "query PROTOCOL,SERVER,TYPE,NAME...",
		Short:  "Print /etc/resolv.conf and the replies to DNS queries as lines of JSON",
		Hidden: true, // --ephemeral-container calls it; users run lookup
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > doctor.MaxContainerQueries {
				return usage.Errorf("want 1 to %d queries, got %d", doctor.MaxContainerQueries, len(args))
			}
			plan := make([]doctor.Query, len(args))
			for i, text := range args {
				var err error
				if plan[i], err = doctor.ParseQuery(text); err != nil {
					return usage.Errorf("%w", err)
				}
			}
			lines := json.NewEncoder(cmd.OutOrStdout())
			if err := lines.Encode(gather.ReadFile("/etc/resolv.conf")); err != nil {
				return err
			}
			for _, p := range gather.Run(cmd.Context(), plan) {
				if err := lines.Encode(p); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

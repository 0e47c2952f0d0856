// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/probe"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

const doctorHelp = `Read the objects of a live cluster, query its DNS servers, and print what is wrong: the
object, the evidence, the cause and the next command. Without --ephemeral-container it changes
nothing in the cluster. It works with CoreDNS, kube-dns and the servers of dnsconfigurer.

The DNS servers are the addresses of the DNS Service and its endpoints, or those of
--dns-server. From outside the cluster they are often unreachable: run doctor in a pod or on
a node, or use --port-forward or --ephemeral-container. A check that could not run is printed
as not checked.

With --kubelets it reads the configuration with which each kubelet runs, and with --exec the
resolv.conf of running pods. Each needs a further permission: nodes/proxy and pods/exec.

With --port-forward it also queries the pods of the cluster DNS through the API server. This
shows what the servers reply over TCP, and not whether pods reach them. With
--ephemeral-container the pod of --pod queries them, which shows what it reaches over UDP and
TCP: the container runs some seconds and cannot be removed, it stays in the pod until the pod
ends.

docs/doctor.md lists the checks and the permissions.

Exit code 1: there is a finding of severity error, or the API server cannot be reached.`

func doctorCommand() *cobra.Command {
	o, format, kubeconfig, kubeContext := gather.Options{}, "", "", ""
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the DNS of a cluster, with evidence",
		Long:  doctorHelp,
		Example: `  dnsconfigurer doctor
  dnsconfigurer doctor --context staging -o html > dns.html
  dnsconfigurer doctor --pod shop/web-0 --exec
  dnsconfigurer doctor --port-forward
  dnsconfigurer doctor --pod shop/web-0 --ephemeral-container registry.example/dnsconfigurer:v0.1.0
  dnsconfigurer doctor --dns-server 10.96.0.10`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckFormat(format, output.DoctorFormats...); err != nil {
				return err
			}
			c, err := o.Parse()
			if err != nil {
				return err
			}
			if c.API, err = client.LoadUserConfig(kubeconfig, kubeContext, "dnsconfigurer-doctor/"+version()); err != nil {
				return err
			}
			c.API.QPS = -1                                    // no limit: about twenty requests, and by flag at most 16 at a time
			klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the result reports these errors as not checked
			ctx, cancel := context.WithTimeout(cmd.Context(), c.Timeout)
			defer cancel()
			s, err := gather.All(ctx, c)
			if err != nil {
				return err
			}
			result := doctor.Run(ctx, s)
			if err := output.WriteDoctor(cmd.OutOrStdout(), format, result); err != nil {
				return fmt.Errorf("writing the result: %w", err)
			}
			return reported(!doctor.HasErrors(result), nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`; empty: as kubectl, $KUBECONFIG, ~/.kube/config or the pod's service account")
	f.StringVar(&kubeContext, "context", "", "`CONTEXT` of the kubeconfig; empty: the current one")
	f.StringVarP(&o.Scope.Namespace, "namespace", "n", "", "check pods and Services of this `NAMESPACE`; empty: all")
	f.StringVar(&o.Pod, "pod", "", "check the pod `NAMESPACE/NAME`, and print the resolv.conf that it should have")
	f.StringVar(&o.Scope.Node, "node", "", "check pods of the node `NAME`; empty: all")
	f.StringVarP(&format, "output", "o", "text", "`FORMAT`: text, json or html")
	f.StringArrayVar(&o.DNSServers, "dns-server", nil,
		"`IP[:PORT]` of a DNS server to query instead of those of the cluster; repeatable, at most 16")
	f.StringVar(&o.ExternalName, "external-name", "example.com", "`NAME` outside the cluster to query; empty: none")
	f.StringVar(&o.ClusterDomain, "cluster-domain", "",
		"`DOMAIN` of the cluster; empty: as in the ConfigMap kubelet-config, or the Corefile, or cluster.local")
	f.BoolVar(&o.Kubelets, "kubelets", false,
		"read the configuration of each kubelet through the API server; needs the permission nodes/proxy")
	f.BoolVar(&o.Exec, "exec", false, "run cat in pods, to compare their /etc/resolv.conf; needs the permission pods/exec")
	f.BoolVar(&o.PortForward, "port-forward", false,
		"query the pods of the cluster DNS through the API server, too, over TCP; needs the permission pods/portforward")
	f.StringVar(&o.Image, "ephemeral-container", "",
		"add a container with `IMAGE`, that of dnsconfigurer, to the pod of --pod, and query the servers from there, too; "+
			"it cannot be removed: it stays in the pod until the pod ends; needs the permission pods/ephemeralcontainers")
	f.DurationVar(&o.Timeout, "timeout", time.Minute,
		"time limit, a `DURATION`: a check without its data by then is printed as not checked")
	f.IntVar(&o.MaxObjects, "max-objects", 50_000, "`NUMBER` of objects of each kind that are read")
	usage.Complete(cmd, "output", output.DoctorFormats...)
	cmd.AddCommand(doctorQueryCommand())
	return cmd
}

// maxQueries is the limit of the arguments of doctor query: doctor plans two for each server.
const maxQueries = 2 * doctor.MaxServers

// doctorQueryCommand returns the command that runs in the container of --ephemeral-container.
func doctorQueryCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "query PROTOCOL,SERVER,TYPE,NAME...",
		Short:  "Send DNS queries and print each reply as a line of JSON",
		Hidden: true, // --ephemeral-container calls it; users run lookup
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > maxQueries {
				return usage.Errorf("want 1 to %d queries, got %d", maxQueries, len(args))
			}
			plan := make([]doctor.Query, len(args))
			for i, text := range args {
				var err error
				if plan[i], err = doctor.ParseQuery(text); err != nil {
					return usage.Errorf("%w", err)
				}
			}
			lines := json.NewEncoder(cmd.OutOrStdout())
			for _, p := range probe.Run(cmd.Context(), plan) {
				if err := lines.Encode(p); err != nil {
					return fmt.Errorf("writing the replies: %w", err)
				}
			}
			return nil
		},
	}
}

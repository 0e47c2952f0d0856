// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/probe"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func doctorCommand() *cobra.Command {
	d := doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the DNS of a cluster, with evidence",
		Long: `Read the objects of a live cluster, query its DNS servers, and print what is wrong: the
object, the evidence, the cause and the next command. It only gets and lists objects, and
works with CoreDNS, kube-dns and the servers of dnsconfigurer.

The DNS servers are the addresses of the DNS Service and its endpoints, or those of
--dns-server. From outside the cluster they are often unreachable: run doctor in a pod or on
a node. A check that could not run is printed as not checked.

With --kubelets it reads the configuration with which each kubelet runs, and with --exec the
resolv.conf of running pods. Both need permissions that reading does not need.

docs/doctor.md lists the checks and the permissions.

Exit code 1: there is a finding of severity error.`,
		Example: `  dnsconfigurer doctor
  dnsconfigurer doctor --context staging -o html > dns.html
  dnsconfigurer doctor --pod shop/web-0 --exec
  dnsconfigurer doctor --dns-server 10.96.0.10`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(
		&d.kubeconfig,
		"kubeconfig",
		"",
		"kubeconfig `FILE`; empty: as kubectl, $KUBECONFIG, ~/.kube/config or the pod's service account",
	)
	f.StringVar(&d.context, "context", "", "`CONTEXT` of the kubeconfig; empty: the current one")
	f.StringVarP(&d.scope.Namespace, "namespace", "n", "", "check pods and Services of this `NAMESPACE`; empty: all")
	f.StringVar(&d.pod, "pod", "", "check the pod `NAMESPACE/NAME`, and print what it should have")
	f.StringVar(&d.scope.Node, "node", "", "check pods of the node `NAME`; empty: all")
	f.StringVarP(&d.output, "output", "o", "text", "`FORMAT`: text, json or html")
	f.StringArrayVar(&d.servers, "dns-server", nil, "`IP[:PORT]` of a DNS server to query instead of those of the cluster; repeatable")
	f.StringVar(&d.external, "external-name", "example.com", "`NAME` outside the cluster to query; empty: none")
	f.StringVar(
		&d.domain,
		"cluster-domain",
		"",
		"`DOMAIN` of the cluster; empty: as in the ConfigMap kubelet-config, or the Corefile, or cluster.local",
	)
	f.BoolVar(&d.kubelets, "kubelets", false,
		"read the configuration of each kubelet through the API server; needs the permission nodes/proxy")
	f.BoolVar(&d.exec, "exec", false, "run cat in pods, to compare their /etc/resolv.conf; needs the permission pods/exec")
	f.DurationVar(&d.timeout, "timeout", time.Minute, "`DURATION` after which what was not read or queried is not checked")
	f.IntVar(&d.maxObjects, "max-objects", 50_000, "`NUMBER` of objects of each kind that are read")
	completeFlag(cmd, "output", output.DoctorFormats...)
	return cmd
}

type doctorFlags struct {
	kubeconfig, context string
	scope               doctor.Scope
	pod                 string
	output              string
	servers             []string
	external            string
	domain              string
	timeout             time.Duration
	maxObjects          int
	kubelets, exec      bool
}

func (d *doctorFlags) run(cmd *cobra.Command) error {
	servers, err := d.parse()
	if err != nil {
		return usageError{err}
	}
	cfg, err := client.LoadUserConfig(d.kubeconfig, d.context, "dnsconfigurer-doctor/"+version())
	if err != nil {
		return fmt.Errorf("%w: set --kubeconfig", err)
	}
	cfg.QPS = -1 // some twenty requests
	ctx, cancel := context.WithTimeout(cmd.Context(), d.timeout)
	defer cancel()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // what client-go logs, the result has as not checked
	config := gather.Config{API: cfg, Scope: d.scope, MaxObjects: d.maxObjects}
	s, err := gather.Snapshot(ctx, config)
	if err != nil {
		return err
	}
	s.ClusterDomain = d.domain
	if d.pod != "" && s.Unread[doctor.Pods] == "" && !slices.ContainsFunc(s.Pods, d.scope.Has) {
		return fmt.Errorf("--pod %s: pod not found", d.pod)
	}
	if d.kubelets {
		gather.Kubelets(ctx, config, s)
	}
	if d.exec {
		gather.PodFiles(ctx, config, s)
	}
	d.probe(ctx, s, servers)
	result := doctor.Run(s)
	if err := output.WriteDoctor(cmd.OutOrStdout(), d.output, result); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if doctor.HasErrors(result) {
		return errReported
	}
	return nil
}

// probe queries servers, or those of the cluster if there are none. If the time is over before
// the end, a missing reply is not a finding.
func (d *doctorFlags) probe(ctx context.Context, s *doctor.Snapshot, servers []doctor.Server) {
	if len(servers) == 0 {
		servers = doctor.Servers(s)
	}
	plan := doctor.Plan(s, servers, d.external, time.Now())
	s.Probes = probe.Run(ctx, plan)
	switch {
	case len(plan) == 0:
		s.Unread[doctor.Probes] = "no address of a DNS server is known: set --dns-server"
	case ctx.Err() != nil:
		s.Unread[doctor.Probes] = "not all DNS servers were queried in " + d.timeout.String() + ": set --timeout"
	}
}

// parse validates the flags, and returns the servers of --dns-server.
func (d *doctorFlags) parse() (servers []doctor.Server, err error) {
	if err := checkOutput(d.output, output.DoctorFormats...); err != nil {
		return nil, err
	}
	if err := d.parsePod(); err != nil {
		return nil, err
	}
	for _, text := range d.servers {
		at, err := parseDNSServer(text)
		if err != nil {
			return nil, err
		}
		servers = append(servers, doctor.Server{UDP: at, TCP: at, Role: doctor.RoleFlag})
	}
	for flag, name := range map[string]string{"--external-name": d.external, "--cluster-domain": d.domain} {
		if _, err := fqdn.ParseName(name); name != "" && err != nil {
			return nil, fmt.Errorf("%s: %q %w", flag, name, err)
		}
	}
	if d.external != "" {
		d.external = dns.Fqdn(d.external)
	}
	if d.timeout <= 0 || d.maxObjects <= 0 {
		return nil, errors.New("--timeout and --max-objects: must be positive")
	}
	return servers, nil
}

// parsePod sets the scope to the pod of --pod.
func (d *doctorFlags) parsePod() error {
	if d.pod == "" {
		return nil
	}
	namespace, name, ok := strings.Cut(d.pod, "/")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("--pod %q: want NAMESPACE/NAME", d.pod)
	}
	if d.scope.Namespace != "" && d.scope.Namespace != namespace {
		return errors.New("--namespace: cannot be combined with a --pod of another namespace")
	}
	d.scope.Namespace, d.scope.PodName = namespace, name
	return nil
}

// parseDNSServer parses an address with or without a port.
func parseDNSServer(text string) (netip.AddrPort, error) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at, nil
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("--dns-server %q: want IP[:PORT], such as 10.96.0.10 or [fd00::10]:53", text)
	}
	return netip.AddrPortFrom(addr, 53), nil
}

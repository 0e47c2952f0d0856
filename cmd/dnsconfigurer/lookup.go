// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

func lookupCommand() *cobra.Command {
	l := lookupFlags{}
	cmd := &cobra.Command{
		Use:   "lookup -f FILE|DIR|- --pod NAMESPACE/NAME NAME [TYPE]",
		Short: "Simulate the DNS lookup of a program in a pod, with every query",
		Long: `Simulate the DNS lookup of a program in a pod: compute the pod's resolv.conf, send the
queries of its C library or of Go, and print each query with its reply, the program's result and
the number of queries.

Without a TYPE the program calls getaddrinfo for both address families. With A or AAAA it
calls getaddrinfo for one family. With another TYPE it calls res_search. With --libc go it
calls the functions of package net. The pod is a Pod
or a workload of the manifests.

The cluster DNS is simulated with the Services, EndpointSlices and Namespaces of the
manifests. Addresses that the cluster would assign are generated in 198.18.0.0/15 and
2001:2::/48. A name whose namespace, or whose kind of object, is not in the manifests is
unknown, unless --complete is set. No query leaves this machine unless --upstream or
--server is set; the output lists the names that were not queried.

With --compare the lookup is run with ClusterFirst and with ClusterFirstWithAutopath, and
the queries are counted on each hop.

Exit code 1: the program finds nothing, its result is unknown, or with --compare the two
results differ. docs/lookup.md describes the libraries and the limits of the simulation.`,
		Example: `  dnsconfigurer lookup -f examples/ --pod shop/web payments
  dnsconfigurer lookup -f examples/ --pod shop/web --libc musl db-0.db A -o json
  dnsconfigurer lookup -f examples/ --pod shop/web --compare payments.shop
  kubectl get pods,services,endpointslices -A -o yaml | dnsconfigurer lookup -f - --pod shop/web-0 _http._tcp.payments SRV`,
		Args: lookupArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd, args) },
	}
	flags := cmd.Flags()
	l.manifests.register(flags)
	flags.StringVar(&l.pod, "pod", "", "`NAMESPACE/NAME` of the pod or workload")
	flags.StringVar(&l.library, "libc", string(libc.Glibc),
		"resolver `LIBRARY` of the program: glibc (2.36 to 2.41), musl (1.2.5), musl-1.2.3, or go (Go 1.26 without cgo)")
	flags.BoolVar(&l.compare, "compare", false, "compare ClusterFirst with ClusterFirstWithAutopath, and count the queries on each hop")
	flags.StringVar(&l.server, "server", "",
		"`ADDR[:PORT]` of a DNS server that replaces all nameservers of the pod; empty: the cluster DNS is simulated from the manifests")
	flags.BoolVar(&l.complete, "complete", false, "the manifests are the whole cluster: names that they lack do not exist")
	flags.StringSliceVar(&l.upstream, "upstream", nil,
		"`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME of an upstream server of the simulated cluster "+
			"DNS; repeatable; empty: names outside the cluster are not queried")
	formatFlag(cmd, &l.output, "`FORMAT`: text or json (JSON Lines, one for each lookup)", "text", "json")
	l.node.Register(flags)
	completeFlag(cmd, "libc", libraries()...)
	return cmd
}

// libraries returns the values of --libc.
func libraries() (list []string) {
	for _, l := range libc.Libraries() {
		list = append(list, string(l))
	}
	return list
}

// completeFlag sets the values that shells complete for a flag.
func completeFlag(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
	}
}

func lookupArguments(_ *cobra.Command, args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return usageError{fmt.Errorf("want NAME [TYPE], got %d arguments", len(args))}
	}
	return nil
}

type lookupFlags struct {
	manifests manifestFlags
	pod       string
	library   string
	compare   bool
	complete  bool
	server    string
	upstream  []string
	output    string
	node      config.NodeFlags
}

func (l *lookupFlags) run(cmd *cobra.Command, args []string) error {
	c := lookup.Config{Namespace: l.manifests.namespace, Complete: l.complete}
	if err := cmp.Or(l.parse(&c, args), l.parseServers(&c)); err != nil {
		return err
	}
	node, err := l.node.Load()
	if err != nil {
		return err
	}
	if c.Engine, err = node.Engine(); err != nil {
		return err
	}
	host, findings := node.Host()
	c.Node, c.Host = node.Node, host
	output.WriteFindings(cmd.ErrOrStderr(), append(node.Findings, findings...))

	var readErr error
	c.Manifest, readErr = l.manifests.ReadPods(cmd.InOrStdin())
	output.WriteNotes(cmd.ErrOrStderr(), c.Manifest)
	if len(c.Manifest.Workloads) == 0 {
		return readErr
	}
	if c.Pod, err = lookup.FindPod(c.Manifest.Workloads, l.pod, l.manifests.namespace, node.Name); err != nil {
		return errors.Join(readErr, err)
	}
	if kube.IsWindows(&c.Pod.Pod.Spec) {
		return errors.Join(readErr,
			fmt.Errorf("pod %s is for Windows, which has no C library to simulate: see what it gets with render", l.pod))
	}
	simulation, err := lookup.New(c)
	if err != nil {
		return err
	}
	found, err := l.write(cmd, simulation)
	if err != nil {
		return err
	}
	if err := errors.Join(readErr, simulation.Skipped); err != nil || found {
		return err
	}
	return errReported
}

// write runs the lookup and writes the result. found reports whether the exit code is 0.
func (l *lookupFlags) write(cmd *cobra.Command, simulation *lookup.Lookup) (found bool, err error) {
	var result interface {
		Found() bool
		Ignored() []string
		WriteText(io.Writer) error
		WriteJSON(io.Writer) error
	}
	if l.compare {
		result, err = simulation.Compare(cmd.Context())
	} else {
		result, err = simulation.Run(cmd.Context())
	}
	if err != nil {
		return false, err
	}
	for _, line := range result.Ignored() {
		fmt.Fprintln(cmd.ErrOrStderr(), "dnsconfigurer:", line)
	}
	write := result.WriteText
	if l.output == "json" {
		write = result.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return false, fmt.Errorf("writing the result: %w", err)
	}
	return result.Found(), nil
}

// parse sets the question of c.
func (l *lookupFlags) parse(c *lookup.Config, args []string) error {
	if err := checkOutput(l.output, "text", "json"); err != nil {
		return err
	}
	c.Question = lookup.Question{Library: libc.Library(l.library), Name: args[0]}
	switch {
	case len(l.manifests.Paths) == 0:
		return usageError{errors.New("no manifests: set -f")}
	case l.pod == "":
		return usageError{errors.New("no pod: set --pod")}
	case !slices.Contains(libc.Libraries(), c.Question.Library):
		return usageError{fmt.Errorf("--libc %q: want one of %s", l.library, strings.Join(libraries(), ", "))}
	}
	if len(args) == 2 {
		qtype, ok := dns.StringToType[strings.ToUpper(args[1])]
		if !ok || qtype == dns.TypeNone {
			return usageError{fmt.Errorf("unknown record type %q", args[1])}
		}
		c.Question.Type = qtype
	}
	return nil
}

// parseServers sets the servers of c.
func (l *lookupFlags) parseServers(c *lookup.Config) (err error) {
	if l.server != "" {
		if l.complete {
			return usageError{errors.New("--complete has no effect with --server: set one of them")}
		}
		if c.Server, err = parseServer(l.server); err != nil {
			return usageError{err}
		}
		if len(l.upstream) > 0 {
			return usageError{errors.New("--upstream has no effect with --server: set one of them")}
		}
	}
	for _, text := range l.upstream {
		s, err := upstream.ParseServer(text)
		if err != nil {
			return usageError{fmt.Errorf("--upstream: %w", err)}
		}
		c.Upstream = append(c.Upstream, s)
	}
	return nil
}

// parseServer parses the value of --server. The default of its port is that of --upstream.
func parseServer(text string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(addr, 53), nil
	}
	server, err := netip.ParseAddrPort(text)
	if err != nil {
		return server, fmt.Errorf("--server: %q: want ADDRESS, IPV4:PORT or [IPV6]:PORT, such as 10.96.0.10 or [fd00::10]:53", text)
	}
	return server, nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write and check configuration files",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configDefaultsCommand(), configCheckCommand())
	return cmd
}

func configDefaultsCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "defaults KIND",
		Short:     "Print a configuration file with every field at its default",
		Long:      "Print a configuration file that names and explains every field and changes nothing.\nKIND is " + strings.Join(v1alpha1.Kinds(), " or ") + ".",
		Example:   "  dnsconfigurer config defaults " + v1alpha1.KindShim + " > shim.yaml",
		ValidArgs: v1alpha1.Kinds(),
		Args:      oneArgument("KIND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := v1alpha1.Defaults(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

func configCheckCommand() *cobra.Command {
	c := checker{}
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a file of one of our kinds, or a KubeletConfiguration",
		Long: `Check a ShimConfiguration or a KubeletConfiguration, and the host's resolv.conf
that it names: every address, the domain, the limits that the kubelet checks when
it starts, and what the kubelet passes over in the resolv.conf. Of a
DNSConfiguration, a NodeCacheConfiguration and a WebhookConfiguration every value is
checked, and that nothing is missing without which the server does not start; a flag
may give that, too. Exit code 1 when the file or the resolv.conf has errors.`,
		Example: `  dnsconfigurer config check /etc/dnsconfigurer/shim.yaml
  dnsconfigurer config check /etc/dnsconfigurer/dns.yaml
  dnsconfigurer config check /var/lib/kubelet/config.yaml -o json`,
		Args: oneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	cmd.Flags().StringVarP(&c.output, "output", "o", "text", "`FORMAT`: text or json (one finding a line)")
	return cmd
}

type checker struct{ output string }

func (c *checker) run(cmd *cobra.Command, path string) error {
	if err := outputFlag(c.output, "text", "json"); err != nil {
		return err
	}
	kind, err := config.ReadKind(path)
	if err != nil {
		return err
	}
	switch kind {
	case v1alpha1.KindDNS:
		_, err := readDNS(new(config.Files), path)
		return err
	case v1alpha1.KindNodeCache:
		n := nodeCacheFlags{config: path}
		_, err := n.load(pflag.NewFlagSet("", pflag.ContinueOnError))
		return err
	case v1alpha1.KindWebhook:
		return checkWebhook(path)
	}
	node, err := config.ReadNode(path, kind)
	if err != nil {
		return err
	}
	found, err := checkNode(node)
	if err != nil {
		return err
	}
	bad := false
	for _, f := range output.Findings(found) {
		bad = bad || f.Severity == string(policy.SeverityError)
		if c.output == "json" {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(f)
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s:%s: %s: %s\nhint: %s\n", path, f.Field, f.Severity, f.Message, f.Hint)
		}
		if err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	if bad {
		return errReported
	}
	return nil
}

// checkWebhook checks what the file at path says, and that there can be rules for it.
func checkWebhook(path string) error {
	w := webhookFlags{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	w.register(flags)
	w.node.Config = path
	_, err := w.load(flags)
	return err
}

// checkNode lists what is wrong with n and with the host's resolv.conf.
func checkNode(n config.Node) ([]policy.Finding, error) {
	engine, err := n.Engine()
	if err != nil {
		return nil, err
	}
	host, fallback := n.Host()
	found := append(n.Findings, fallback...)
	if len(n.ClusterDNS) == 0 {
		found = append(found, policy.Finding{
			Code: policy.CodeNodeMissingDNS, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByNode,
			Message: "the node has no cluster DNS: pods with a cluster policy get the host's DNS",
			Field:   policy.FieldClusterDNS, Hint: "give the address of the cluster's DNS Service",
		})
	}
	found = append(found, engine.CheckHost(host)...)
	for _, i := range host.Ignored {
		found = append(found, policy.Finding{
			Code: policy.CodeIgnoredHostLine, Severity: policy.SeverityInfo, EnforcedBy: policy.EnforcedByNode,
			Message: fmt.Sprintf("%s:%d: %q has no effect on pods: %s", cmp.Or(host.Path, n.ResolvConf), i.Line, i.Text, i.Reason),
			Field:   policy.FieldResolvConf, Hint: "nothing to do if that is intended",
		})
	}
	return found, nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Webhook is a validated WebhookConfiguration.
type Webhook struct {
	v1alpha1.WebhookConfiguration

	LameduckTime time.Duration
	Node         Node
	Rules        *admission.Rules
	Report       admission.Report
}

// WebhookKind describes the file of the command webhook.
func WebhookKind() *Kind[Webhook] {
	return &Kind[Webhook]{
		Name: v1alpha1.KindWebhook,
		parse: func(data []byte) (Webhook, error) {
			c, err := v1alpha1.ParseWebhook(data)
			return Webhook{WebhookConfiguration: c}, err
		},
		resolve: func(c *Webhook, file string) { resolveNodePaths(&c.WebhookConfiguration.Node, file) },
		finish:  finishWebhook,
		Fields:  slices.Concat(webhookFields, webhookNodeFields()),
	}
}

// WebhookFlags adds --config and the flags of the command webhook to set.
func WebhookFlags(set *pflag.FlagSet) *Source[Webhook] {
	kind, facts := WebhookKind(), clusterFacts()
	defaults := kind.Defaults()
	facts.setIn(&defaults.WebhookConfiguration.Node)
	s := kind.fromFlags(set, defaults)
	set.Lookup("resolv-conf").Usage = withoutHostUsage
	return s
}

func finishWebhook(c *Webhook, s *Source[Webhook]) (err error) {
	node := c.WebhookConfiguration.Node
	if c.Node, err = newNode(node, v1alpha1.AutopathConfiguration{}, clusterFacts(), &s.files, s.origin); err != nil {
		return err
	}
	if _, err := c.Node.Engine(); err != nil { // names the flag or the field
		return err
	}
	if err := c.loadRules(s, node.ResolvConf != nil); err != nil {
		return err
	}
	if node.KubeletConfig == "" {
		c.Rules = c.Rules.WithUnknown(admission.Unknown{ClusterDomain: node.ClusterDomain == nil, ClusterDNS: node.ClusterDNS == nil})
	}
	return checkCertificate(c, s)
}

// loadRules makes the rules for the nodes. Their resolv.conf is watched like the
// configuration.
func (c *Webhook) loadRules(s *Source[Webhook], hostKnown bool) (err error) {
	if !hostKnown {
		c.Rules, err = admission.New(c.Node.Node, nil)
		return err
	}
	if c.Node.ResolvConf != "" {
		if _, err := s.files.read(c.Node.ResolvConf); err != nil {
			return fmt.Errorf("reading the nodes' resolv.conf: %w", err)
		}
		if c.Node.uplinkMode != hostresolv.UplinkNever {
			// Read for its changes. A file that is missing is a finding of Host.
			_, _ = s.files.read(cmp.Or(c.Node.uplink, hostresolv.DefaultUplinkPath))
		}
	}
	host, findings := c.Node.Host()
	c.Node.Findings = append(c.Node.Findings, findings...)
	c.Rules, err = admission.New(c.Node.Node, &host)
	return err
}

// checkCertificate checks that a certificate is configured.
func checkCertificate(c *Webhook, s *Source[Webhook]) error {
	noCert, noKey := c.TLS.CertFile == "", c.TLS.KeyFile == ""
	switch {
	case !noCert && !noKey:
		return nil
	case s.path == "":
		return usage.Errorf("no certificate configured: set --tls-cert and --tls-key, or the fields of the configuration")
	}
	var problems []error
	if noCert {
		problems = append(problems, s.missing("tls.certFile", ""))
	}
	if noKey {
		problems = append(problems, s.missing("tls.keyFile", ""))
	}
	return errors.Join(problems...)
}

var webhookFields = []Field[Webhook]{
	{
		Path: "listen", Flag: "listen", Restart: true, At: func(c *Webhook) any { return &c.Listen },
		Usage: "`ADDR:PORT` for admission reviews, over HTTPS",
		Check: func(c *Webhook) error {
			c.Listen = cmp.Or(c.Listen, v1alpha1.DefaultWebhookListen)
			return daemon.CheckAddress(c.Listen)
		},
	},
	httpField(func(c *Webhook) *string { return &c.HTTP }),
	{
		Path: "tls.certFile", Flag: "tls-cert", Restart: true, At: func(c *Webhook) any { return &c.TLS.CertFile },
		Usage: "`FILE` with the certificate, PEM; watched",
	},
	{
		Path: "tls.keyFile", Flag: "tls-key", Restart: true, At: func(c *Webhook) any { return &c.TLS.KeyFile },
		Usage: "`FILE` with the private key, PEM; watched",
	},
	{
		Path: "kubeconfig", Flag: "kubeconfig", Restart: true, At: func(c *Webhook) any { return &c.Kubeconfig },
		Usage: "kubeconfig `FILE` of the API server, for the scale of StatefulSets; empty: in-cluster configuration",
	},
	{
		Path: "ignore", Flag: "ignore", At: func(c *Webhook) any { return &c.Ignore },
		Usage: "`CODE` of findings that are not reported, such as old-glibc-search; repeatable",
		Check: func(c *Webhook) error {
			c.Report.Ignore = nil
			for _, code := range c.Ignore {
				if err := admission.CheckCode(code); err != nil {
					return err
				}
				c.Report.Ignore = append(c.Report.Ignore, policy.Code(code))
			}
			return nil
		},
	},
	{
		Path: "denyOn", Flag: "deny-on", At: func(c *Webhook) any { return &c.DenyOn },
		Usage:  "lowest `SEVERITY` of a finding for which a pod is denied: error, warning or never",
		Values: []string{string(admission.DenyOnError), string(admission.DenyOnWarning), string(admission.DenyNever)},
		Check: func(c *Webhook) error {
			c.Report.DenyOn = admission.DenyOn(cmp.Or(c.DenyOn, v1alpha1.DefaultDenyOn))
			return setDefault(&c.DenyOn, v1alpha1.DefaultDenyOn)
		},
	},
	{
		Path: "lameduck", Flag: "lameduck", Restart: true, At: func(c *Webhook) any { return &c.Lameduck },
		Usage: "`TIME` for which connections are accepted after SIGTERM",
		Check: func(c *Webhook) (err error) {
			c.LameduckTime, err = parseDuration(&c.Lameduck, v1alpha1.DefaultWebhookLameduck)
			return err
		},
	},
	logFormatField(func(c *Webhook) *string { return &c.LogFormat }),
}

// webhookNodeFields are the fields of the nodes. A webhook is for many nodes: their name has
// no flag.
func webhookNodeFields() []Field[Webhook] {
	fields := nodeFields(func(c *Webhook) *v1alpha1.NodeConfiguration { return &c.WebhookConfiguration.Node })
	for i := range fields {
		if fields[i].Path == "node.nodeName" {
			fields[i].Flag = ""
		}
	}
	return fields
}

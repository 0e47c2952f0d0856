// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// DaemonConfig is a validated WebhookConfiguration.
type DaemonConfig struct {
	v1alpha1.WebhookConfiguration

	Node   nodefacts.Node
	Rules  *admission.Rules
	Report admission.Report
}

// Kind describes the file of the command webhook.
func Kind() *config.Kind[DaemonConfig] {
	return &config.Kind[DaemonConfig]{Check: checkConfig, Finish: finishConfig}
}

func checkConfig(c *DaemonConfig, p *config.Problems) {
	c.Report = admission.Report{DenyOn: admission.DenyOn(c.DenyOn)}
	for i, code := range c.Ignore {
		p.Add(fmt.Sprintf("ignore[%d]", i), admission.CheckCode(code))
		c.Report.Ignore = append(c.Report.Ignore, policy.Code(code))
	}
	nodefacts.CheckRules(&c.WebhookConfiguration.Node, p)
}

func finishConfig(c *DaemonConfig, s *config.Source[DaemonConfig]) (err error) {
	node := c.WebhookConfiguration.Node
	if c.Node, err = nodefacts.NewClusterNode(node, s); err != nil {
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
func (c *DaemonConfig) loadRules(s *config.Source[DaemonConfig], hostKnown bool) (err error) {
	if !hostKnown {
		c.Rules, err = admission.New(c.Node.Node, nil)
		return err
	}
	for i, path := range c.Node.HostPaths() {
		// A missing file of systemd-resolved is a finding of Host.
		if _, err := s.Read(path); err != nil && i == 0 {
			return fmt.Errorf("reading the nodes' resolv.conf: %w", err)
		}
	}
	host, findings := c.Node.Host()
	c.Node.Findings = append(c.Node.Findings, findings...)
	c.Rules, err = admission.New(c.Node.Node, &host)
	return err
}

// checkCertificate checks that a certificate is configured.
func checkCertificate(c *DaemonConfig, s *config.Source[DaemonConfig]) error {
	noCert, noKey := c.TLS.CertFile == "", c.TLS.KeyFile == ""
	switch {
	case !noCert && !noKey:
		return nil
	case s.Path() == "":
		return usage.Errorf("no certificate configured: set tls.certFile and tls.keyFile in the file of --config")
	}
	var problems []error
	if noCert {
		problems = append(problems, s.Missing("tls.certFile", ""))
	}
	if noKey {
		problems = append(problems, s.Missing("tls.keyFile", ""))
	}
	return errors.Join(problems...)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Drain is the time that reviews get to finish when the server stops: longer than an API
// server waits for one.
const Drain = 15 * time.Second

// Run runs the server of the command webhook with configuration c until ctx ends or a task of the server fails.
func Run(ctx context.Context, p daemon.Process, source *config.Source[DaemonConfig], c DaemonConfig) error {
	pair, err := NewKeyPair(c.TLS.CertFile, c.TLS.KeyFile, p.Log)
	if err != nil {
		return err
	}
	p.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dnsconfigurer_webhook_certificate_expiry_timestamp_seconds",
		Help: "When the served certificate expires, in seconds since 1970; 0: there is none yet.",
	}, func() float64 {
		if c, _ := pair.Current(); c != nil {
			return float64(c.Leaf.NotAfter.Unix())
		}
		return 0
	}))
	handler := New(Config{Rules: c.Rules, Report: c.Report, Logger: p.Log, Register: p.Metrics})
	reloader := &daemon.Reloader[DaemonConfig]{
		Process: p, Source: source,
		Apply: func(next DaemonConfig) (daemon.Task, error) {
			handler.SetRules(next.Rules, next.Report)
			p.Log.Info("configuration applied", "clusterDNS", next.Node.ClusterDNS,
				"clusterDomain", next.Node.ClusterDomain, "resolvConf", next.Node.ResolvConf)
			for _, found := range next.Node.Findings {
				p.Log.Warn(found.Message, "hint", found.Hint)
			}
			return nil, nil
		},
	}
	if err := reloader.Start(c); err != nil {
		return err
	}
	server := &Server{Handler: handler, Certificate: pair.Current, Lameduck: config.Duration(c.Lameduck), Drain: Drain, Logger: p.Log}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return daemon.SocketHint(err, "listen")
	}
	group := daemon.Group{Tasks: []daemon.Task{
		reloader.Run,
		func(ctx context.Context) error { return server.Run(ctx, l) },
	}}
	if c.HTTP != "" {
		health, err := daemon.ListenHTTP(ctx, c.HTTP)
		if err != nil {
			l.Close()
			return err
		}
		http := daemon.HTTP{Process: p, Ready: func() ([]string, error) { return nil, server.Ready() }}
		// Readiness is served until the last review.
		group.Last = []daemon.Task{func(ctx context.Context) error { return http.Serve(ctx, health) }}
	}
	p.Log.Info("serving", "listen", l.Addr())
	return group.Run(ctx)
}

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
		p.Add(fmt.Sprintf("ignore[%d]", i), admission.CheckCodes(code))
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

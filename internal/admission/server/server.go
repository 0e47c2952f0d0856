// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// Drain is the time that reviews get to finish when the server stops: longer than an API
// server waits for one.
const Drain = 15 * time.Second

// Server is an admission webhook.
type Server struct {
	Source  *config.Source[config.Webhook]
	Reload  <-chan os.Signal // see daemon.Reloader.Signal
	Version string           // of this binary
	Log     *slog.Logger
}

// Run serves with configuration c until ctx ends or a task of the server fails.
func (s *Server) Run(ctx context.Context, c config.Webhook) error {
	certificate, err := s.newCertificate(c)
	if err != nil {
		return err
	}
	statefulSets, err := s.newStatefulSetReader(c)
	if err != nil {
		return err
	}
	registry := daemon.NewRegistry(s.Version)
	registry.MustRegister(newExpiry(certificate.current))
	handler := webhook.New(webhook.Config{Rules: c.Rules, Report: c.Report, Logger: s.Log,
		Register: registry, OpenStatefulSet: statefulSets})
	reloader := &daemon.Reloader[config.Webhook]{
		Source: s.Source, Signal: s.Reload, Log: s.Log,
		Apply: func(next config.Webhook) (daemon.Task, error) {
			s.apply(handler, next)
			return nil, nil
		},
	}
	if err := reloader.Start(c, registry); err != nil {
		return err
	}
	server := &webhook.Server{Handler: handler, Certificate: certificate.current, Lameduck: c.LameduckTime, Drain: Drain, Logger: s.Log}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return daemon.SocketHint(err, "listen")
	}
	group := daemon.Group{Tasks: []daemon.Task{
		reloader.Run, certificate.run,
		func(ctx context.Context) error { return server.Run(ctx, l) },
	}}
	if c.HTTP != "" {
		health, err := daemon.ListenHTTP(ctx, c.HTTP)
		if err != nil {
			l.Close()
			return err
		}
		http := daemon.HTTP{Metrics: registry, Log: s.Log, Ready: func() ([]string, error) { return nil, server.Ready() }}
		// Readiness is served until the last review.
		group.Last = []daemon.Task{func(ctx context.Context) error { return http.Serve(ctx, health) }}
	}
	s.Log.Info("serving", "listen", l.Addr())
	return group.Run(ctx)
}

// apply applies the rules of c.
func (s *Server) apply(handler *webhook.Handler, c config.Webhook) {
	handler.SetRules(c.Rules, c.Report)
	s.Log.Info("configuration applied", "clusterDNS", c.Node.ClusterDNS,
		"clusterDomain", c.Node.ClusterDomain, "resolvConf", c.Node.ResolvConf)
	for _, found := range c.Node.Findings {
		s.Log.Warn(found.Message, "hint", found.Hint)
	}
}

// userAgent returns the User-Agent at the API server.
func (s *Server) userAgent() string { return "dnsconfigurer-webhook/" + s.Version }

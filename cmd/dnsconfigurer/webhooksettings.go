// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook/selfsigned"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

var errNoCertificate = errors.New("there is no certificate: give --tls-cert and --tls-key, or --self-signed, or the fields of the configuration")

// webhookSettings are what the files and the flags of a webhook say together, checked.
type webhookSettings struct {
	v1alpha1.WebhookConfiguration

	lameduck time.Duration
	node     config.Node
	rules    *admission.Rules
}

// newWebhookSettings fills in the defaults and checks everything but the node, which
// judge adds; the error joins all problems.
func newWebhookSettings(c v1alpha1.WebhookConfiguration, names fieldNames) (webhookSettings, error) {
	c.Listen = cmp.Or(c.Listen, v1alpha1.DefaultWebhookListen)
	c.Namespace = cmp.Or(c.Namespace, v1alpha1.DefaultWebhookNamespace)
	c.Lameduck = cmp.Or(c.Lameduck, v1alpha1.DefaultWebhookLameduck)
	c.LogFormat = cmp.Or(c.LogFormat, v1alpha1.DefaultLogFormat)
	s := webhookSettings{WebhookConfiguration: c}
	var problems []error
	for _, a := range []struct{ path, addr string }{{"listen", c.Listen}, {"http", c.HTTP}} {
		if a.addr == "" {
			continue
		}
		if err := checkAddress(a.addr); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", names.of(a.path), err))
		}
	}
	if fqdn.LabelProblems(c.Namespace) != nil {
		problems = append(problems, fmt.Errorf("%s: %q is not a DNS label", names.of("namespace"), c.Namespace))
	}
	if c.SelfSigned && c.TLS != (v1alpha1.TLSConfiguration{}) {
		problems = append(problems, fmt.Errorf("%s: does not go with %s and %s", names.of("selfSigned"), names.of("tls.certFile"), names.of("tls.keyFile")))
	}
	var err error
	if s.lameduck, err = time.ParseDuration(c.Lameduck); err != nil || s.lameduck < 0 {
		problems = append(problems, fmt.Errorf("%s: %q: want a time, as 10s", names.of("lameduck"), c.Lameduck))
	}
	if !slices.Contains([]string{"text", "json"}, c.LogFormat) {
		problems = append(problems, fmt.Errorf("%s: %q: want text or json", names.of("logFormat"), c.LogFormat))
	}
	return s, errors.Join(problems...)
}

// judge makes the rules for nodes like n. Their resolv.conf counts if it is known, and is
// then read as one of our files: it is given to be judged by, and may change.
func (s *webhookSettings) judge(n config.Node, files *config.Files, known bool) error {
	s.node = n
	if _, err := n.Engine(); err != nil { // in the words of the flags
		return err
	}
	var err error
	if !known {
		s.rules, err = admission.New(n.Node, nil)
		return err
	}
	if n.ResolvConf != "" {
		if _, err := files.Read(n.ResolvConf); err != nil {
			return fmt.Errorf("reading the nodes' resolv.conf: %w", err)
		}
	}
	host, _ := n.Host()
	s.rules, err = admission.New(n.Node, &host)
	return err
}

// checkCertificate checks that the files of a certificate are named; file is the
// configuration, "" without one.
func (s webhookSettings) checkCertificate(file string) error {
	noCert, noKey := s.TLS.CertFile == "", s.TLS.KeyFile == ""
	switch {
	case s.SelfSigned || !noCert && !noKey:
		return nil
	case file == "":
		return errNoCertificate
	}
	var problems []error
	if noCert {
		problems = append(problems, fmt.Errorf("%w; unless selfSigned is true", missing(file, "tls.certFile", "tls-cert")))
	}
	if noKey {
		problems = append(problems, fmt.Errorf("%w; unless selfSigned is true", missing(file, "tls.keyFile", "tls-key")))
	}
	return errors.Join(problems...)
}

// api returns how to reach the API server.
func (s webhookSettings) api() (*rest.Config, error) {
	c, err := client.LoadConfig(s.Kubeconfig)
	if err != nil {
		return nil, err
	}
	c.UserAgent = "dnsconfigurer-webhook/" + version()
	return c, nil
}

// certificate is what a webhook serves, and what keeps it up to date.
type certificate struct {
	current func() (*tls.Certificate, error)
	run     func(context.Context) error
}

// The names that `webhook manifests` gives.
const (
	webhookSecret        = "dnsconfigurer-webhook-tls"
	webhookService       = "dnsconfigurer-webhook"
	webhookConfiguration = "dnsconfigurer"
)

func (s webhookSettings) certificate(log *slog.Logger) (certificate, error) {
	if !s.SelfSigned {
		pair, err := webhook.NewKeyPair(s.TLS.CertFile, s.TLS.KeyFile, log)
		if err != nil {
			return certificate{}, err
		}
		return certificate{pair.Current, func(ctx context.Context) error { <-ctx.Done(); return nil }}, nil
	}
	c, err := s.api()
	if err != nil {
		return certificate{}, fmt.Errorf("%w; outside a cluster give --kubeconfig", err)
	}
	core, err := client.New(c, corev1.SchemeGroupVersion, &corev1.Secret{})
	if err != nil {
		return certificate{}, err
	}
	registrations, err := client.New(c, admissionregistrationv1.SchemeGroupVersion,
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{})
	if err != nil {
		return certificate{}, err
	}
	a := selfsigned.New(selfsigned.Config{
		Core: core, Registrations: registrations, Namespace: s.Namespace,
		Secret: webhookSecret, Service: webhookService, Configuration: webhookConfiguration, Logger: log,
	})
	return certificate{a.Current, a.Run}, nil
}

// needRestart names the fields that count only when a server starts, and of which next
// says something else than s.
func (s webhookSettings) needRestart(next webhookSettings) []string {
	return changed([]setting{
		{"listen", s.Listen, next.Listen},
		{"http", s.HTTP, next.HTTP},
		{"tls.certFile", s.TLS.CertFile, next.TLS.CertFile},
		{"tls.keyFile", s.TLS.KeyFile, next.TLS.KeyFile},
		{"selfSigned", s.SelfSigned, next.SelfSigned},
		{"kubeconfig", s.Kubeconfig, next.Kubeconfig},
		{"namespace", s.Namespace, next.Namespace},
		{"lameduck", s.Lameduck, next.Lameduck},
		{"logFormat", s.LogFormat, next.LogFormat},
	})
}

// webhookInForce puts settings in force in a webhook.
type webhookInForce struct {
	load    func() (webhookSettings, error) // reads the files
	handler *webhook.Handler
	log     *slog.Logger

	first webhookSettings // what the server was started with
}

// reload is a reloader's.
func (f *webhookInForce) reload() (companion, []string, error) {
	next, err := f.load()
	if err != nil {
		return nothing{}, nil, err
	}
	f.handler.SetRules(next.rules)
	f.say(next)
	return nothing{}, f.first.needRestart(next), nil
}

func (f *webhookInForce) say(s webhookSettings) {
	f.log.Info("settings in force", "clusterDNS", s.node.ClusterDNS, "clusterDomain", s.node.ClusterDomain, "resolvConf", s.node.ResolvConf)
	for _, found := range s.node.Findings {
		f.log.Warn(found.Message, "hint", found.Hint)
	}
}

// nothing is the companion of a server that has none.
type nothing struct{}

func (nothing) start(context.Context) (stop func()) { return func() {} }

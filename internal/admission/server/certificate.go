// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook/selfsigned"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
)

// The names of the objects that `webhook manifests` writes.
const (
	secretName        = "dnsconfigurer-webhook-tls"
	serviceName       = "dnsconfigurer-webhook"
	configurationName = "dnsconfigurer"
)

// certificate is the certificate of the server, and the task that keeps it up to date.
type certificate struct {
	current func() (*tls.Certificate, error)
	run     func(context.Context) error
}

func (s *Server) newCertificate(c config.Webhook) (certificate, error) {
	if !c.SelfSigned {
		pair, err := webhook.NewKeyPair(c.TLS.CertFile, c.TLS.KeyFile, s.Log)
		if err != nil {
			return certificate{}, err
		}
		return certificate{pair.Current, daemon.NoTask}, nil
	}
	cfg, err := client.LoadConfig(c.Kubeconfig, s.userAgent())
	if err != nil {
		return certificate{}, fmt.Errorf("%w: outside a cluster set --kubeconfig", err)
	}
	core, err := client.New(cfg, corev1.SchemeGroupVersion, &corev1.Secret{})
	if err != nil {
		return certificate{}, err
	}
	registrations, err := client.New(cfg, admissionregistrationv1.SchemeGroupVersion,
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{})
	if err != nil {
		return certificate{}, err
	}
	a := selfsigned.New(selfsigned.Config{
		Core: core, Registrations: registrations, Namespace: c.Namespace,
		Secret: secretName, Service: serviceName, Configuration: configurationName, Logger: s.Log,
	})
	return certificate{a.Current, a.Run}, nil
}

// newExpiry returns the gauge of when the certificate expires.
func newExpiry(current func() (*tls.Certificate, error)) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dnsconfigurer_webhook_certificate_expiry_timestamp_seconds",
		Help: "When the served certificate expires, in seconds since 1970; 0: there is none yet.",
	}, func() float64 {
		c, _ := current()
		if c == nil {
			return 0
		}
		return float64(c.Leaf.NotAfter.Unix())
	})
}

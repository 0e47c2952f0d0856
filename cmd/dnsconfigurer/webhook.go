// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// webhookDrain is how long reviews may take that are under way when the server ends:
// longer than an API server waits for one.
const webhookDrain = 15 * time.Second

func webhookCommand() *cobra.Command {
	w := webhookFlags{}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Judge pods when they are applied, as an admission webhook",
		Long: `Judge pods when they are applied, as an admission webhook: a pod that would not start
is denied, and of what the node would cut its author is warned. At ` + webhook.PathMutate + `, dnsPolicy
ClusterFirstWithAutopath becomes one that the API server knows, for clusters before 1.36.

The rules are those of "dnsconfigurer validate". "dnsconfigurer webhook manifests"
writes what a cluster needs to ask this server.

When a StatefulSet is scaled it is read from the API server; where there is no way to
one, scales are admitted unseen.

The certificate is read again when its files change; or, with --self-signed, the
replicas make it, and tell the API server to trust it. A flag wins over the file of
--config. A changed file is read again, at once on SIGHUP. One with an error changes
nothing.`,
		Example: `  dnsconfigurer webhook --tls-cert /tls/tls.crt --tls-key /tls/tls.key --http :9153
  dnsconfigurer webhook --config /etc/dnsconfigurer/webhook.yaml
  dnsconfigurer webhook manifests --cert-manager-issuer selfsigned | kubectl apply -f -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return w.run(cmd) },
	}
	w.register(cmd.Flags())
	cmd.AddCommand(webhookManifestsCommand())
	return cmd
}

// webhookFlags are what a command line says about a webhook.
type webhookFlags struct {
	given v1alpha1.WebhookConfiguration
	node  config.NodeFlags
}

func (w *webhookFlags) register(f *pflag.FlagSet) {
	w.node.RegisterWithoutHost(f)
	f.Lookup("config").Usage = "`FILE` with a WebhookConfiguration"
	f.StringVar(&w.given.Listen, "listen", v1alpha1.DefaultWebhookListen, "`ADDR:PORT` to take reviews on, over HTTPS")
	f.StringVar(&w.given.TLS.CertFile, "tls-cert", "", "`FILE` with the certificate, PEM; followed as it changes")
	f.StringVar(&w.given.TLS.KeyFile, "tls-key", "", "`FILE` with the certificate's key, PEM")
	f.BoolVar(&w.given.SelfSigned, "self-signed", false, "make the certificate, with an authority that the replicas share in a Secret")
	f.StringVar(&w.given.Kubeconfig, "kubeconfig", "", "`FILE` that leads to the API server, for --self-signed and the scale of StatefulSets; empty: that of the cluster we run in")
	f.StringVar(&w.given.Namespace, "namespace", v1alpha1.DefaultWebhookNamespace, "`NAMESPACE` of the Secret and the Service, for --self-signed")
	f.StringVar(&w.given.Lameduck, "lameduck", v1alpha1.DefaultWebhookLameduck, "`TIME` for which connections are still taken after the signal to end")
	f.StringVar(&w.given.HTTP, "http", "", "`ADDR` of /metrics, /livez and /readyz; empty: none")
	f.StringVar(&w.given.LogFormat, "log-format", v1alpha1.DefaultLogFormat, "`FORMAT` of the log: text or json")
}

// webhookFlagNames are the flags of fields.
var webhookFlagNames = fieldNames{
	"listen": "listen", "http": "http", "tls.certFile": "tls-cert", "tls.keyFile": "tls-key",
	"selfSigned": "self-signed", "kubeconfig": "kubeconfig", "namespace": "namespace", "lameduck": "lameduck", "logFormat": "log-format",
}

// over puts the flags that were given over c.
func (w *webhookFlags) over(c v1alpha1.WebhookConfiguration, flags *pflag.FlagSet) v1alpha1.WebhookConfiguration {
	for _, f := range []struct {
		name      string
		from, set *string
	}{
		{"listen", &w.given.Listen, &c.Listen},
		{"tls-cert", &w.given.TLS.CertFile, &c.TLS.CertFile},
		{"tls-key", &w.given.TLS.KeyFile, &c.TLS.KeyFile},
		{"kubeconfig", &w.given.Kubeconfig, &c.Kubeconfig},
		{"namespace", &w.given.Namespace, &c.Namespace},
		{"lameduck", &w.given.Lameduck, &c.Lameduck},
		{"http", &w.given.HTTP, &c.HTTP},
		{"log-format", &w.given.LogFormat, &c.LogFormat},
	} {
		if flags.Changed(f.name) || *f.set == "" {
			*f.set = *f.from
		}
	}
	if flags.Changed("self-signed") {
		c.SelfSigned = w.given.SelfSigned
	}
	return c
}

// load reads the files and puts the flags that were given over what they say.
func (w *webhookFlags) load(flags *pflag.FlagSet) (webhookSettings, error) {
	if _, err := newWebhookSettings(w.given, webhookFlagNames); err != nil {
		return webhookSettings{}, usageError{err}
	}
	w.node.Files.Reset()
	c, err := readWebhook(&w.node.Files, w.node.Config)
	if err != nil {
		return webhookSettings{}, err
	}
	c = w.over(c, flags)
	s, err := newWebhookSettings(c, nil)
	if err != nil {
		return s, err
	}
	n, err := w.node.Merge(flags, v1alpha1.ShimConfiguration{Node: c.Node})
	if err != nil {
		return s, err
	}
	if err := s.judge(n, &w.node.Files, c.Node.ResolvConf != nil || flags.Changed("resolv-conf")); err != nil {
		return s, err
	}
	return s, s.checkCertificate(w.node.Config)
}

func (w *webhookFlags) run(cmd *cobra.Command) error {
	load := func() (webhookSettings, error) { return w.load(cmd.Flags()) }
	s, err := load()
	if err != nil {
		return err
	}
	log, err := newLogger(cmd.ErrOrStderr(), s.LogFormat)
	if err != nil {
		return err
	}
	hangup, stop := hangups()
	defer stop()
	force := &webhookInForce{load: load, log: log, first: s}
	return serveWebhook(cmd.Context(), s, force, &reloader{files: &w.node.Files, hangup: hangup, reload: force.reload, running: nothing{}, log: log}, log)
}

// serveWebhook runs the server and what it needs until ctx ends or one of them fails.
func serveWebhook(ctx context.Context, s webhookSettings, force *webhookInForce, r *reloader, log *slog.Logger) error {
	certificate, err := s.certificate(log)
	if err != nil {
		return err
	}
	statefulSets, err := s.statefulSets(log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCertificateExpiry(certificate.current))
	r.success = newReloadSuccess(registry)
	force.handler = webhook.New(webhook.Config{Rules: s.rules, Logger: log, Register: registry, OpenStatefulSet: statefulSets})
	force.say(s)
	server := &webhook.Server{Handler: force.handler, Certificate: certificate.current, Lameduck: s.lameduck, Drain: webhookDrain, Logger: log}
	l, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return socketHint(err, "listen")
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx)) // metrics and health, until the last review
	defer end()
	tasks := []func(context.Context) error{
		r.run, certificate.run,
		func(ctx context.Context) error { defer end(); return server.Run(ctx, l) },
	}
	if s.HTTP != "" {
		tasks = append(tasks, func(context.Context) error {
			return serveHTTP(serving, listenAt(s.HTTP), registry, func() ([]string, error) { return nil, server.Ready() })
		})
	}
	log.Info("serving", "listen", l.Addr())
	return daemon.RunAll(ctx, tasks...)
}

// newCertificateExpiry returns the gauge of when the certificate ends that is served.
func newCertificateExpiry(current func() (*tls.Certificate, error)) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dnsconfigurer_webhook_certificate_expiry_timestamp_seconds",
		Help: "When the certificate expires that is served, in seconds since 1970; 0: there is none yet.",
	}, func() float64 {
		c, _ := current()
		if c == nil {
			return 0
		}
		return float64(c.Leaf.NotAfter.Unix())
	})
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/watch"
	"github.com/dnsconfigurer/dnsconfigurer/internal/systemd"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func shimCommand() *cobra.Command {
	s := shimFlags{}
	cmd := &cobra.Command{
		Use:   "shim",
		Short: "Stand between the kubelet and the container runtime and give pods their DNS",
		Long: `Stand between the kubelet and the container runtime. Every call passes as it is,
save RunPodSandbox: a pod that is known gets the DNS configuration that the policy
engine decides. Whatever is in doubt passes as the kubelet sent it.

What the node's kubelet knows must be given, best by its own configuration file; the
shim does not guess. Where the kubelet's answer is not what these facts give, the
kubelet's answer passes.

Changed configuration files are read again, at once on SIGHUP. One with an error
changes nothing.`,
		Example: `  dnsconfigurer shim --config /etc/dnsconfigurer/shim.yaml
  dnsconfigurer shim --kubelet-config /var/lib/kubelet/config.yaml --node-name worker-1 \
    --kubeconfig /etc/kubernetes/kubelet.conf --manifests /etc/kubernetes/manifests`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&s.given.Listen, "listen", v1alpha1.DefaultListen, "`SOCKET` for the kubelet")
	f.StringVar(&s.given.RuntimeEndpoint, "runtime-endpoint", v1alpha1.DefaultRuntimeEndpoint, "`SOCKET` of the container runtime")
	f.StringVar(&s.given.Kubeconfig, "kubeconfig", "", "`FILE` with which pods are looked up; empty: no API server is asked")
	f.StringVar(&s.given.Manifests, "manifests", "", "`DIR` of the kubelet's static pods; empty: none")
	f.StringVar(&s.given.HTTP, "http", "", "`ADDR` of /metrics, /livez and /readyz; empty: none")
	f.StringVar(&s.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	s.node.RegisterWithoutDefaults(f)
	return cmd
}

type shimFlags struct {
	given     v1alpha1.ShimConfiguration // Listen to HTTP
	logFormat string
	node      config.NodeFlags
}

// load reads the files and puts what they say under the flags that were given.
func (s *shimFlags) load(flags *pflag.FlagSet) (settings, error) {
	s.node.Files.Reset()
	c, err := config.ReadShim(&s.node.Files, s.node.Config)
	if err != nil {
		return settings{}, err
	}
	n, err := s.node.Merge(flags, c)
	if err != nil {
		return settings{}, err
	}
	for _, f := range []struct {
		name      string
		from, set *string
	}{
		{"listen", &s.given.Listen, &c.Listen},
		{"runtime-endpoint", &s.given.RuntimeEndpoint, &c.RuntimeEndpoint},
		{"kubeconfig", &s.given.Kubeconfig, &c.Kubeconfig},
		{"manifests", &s.given.Manifests, &c.Manifests},
		{"http", &s.given.HTTP, &c.HTTP},
	} {
		if flags.Changed(f.name) || *f.set == "" {
			*f.set = *f.from
		}
	}
	return newSettings(c, n)
}

func (s *shimFlags) run(cmd *cobra.Command) error {
	defer frugal()()
	log, err := newLogger(cmd.ErrOrStderr(), s.logFormat)
	if err != nil {
		return err
	}
	load := func() (settings, error) { return s.load(cmd.Flags()) }
	first, err := load()
	if err != nil {
		return err
	}
	hangup, stop := hangups()
	defer stop()
	force := &shimInForce{load: load, log: log}
	return serveShim(cmd.Context(), first, force, &reloader{files: &s.node.Files, hangup: hangup, reload: force.reload, log: log}, log)
}

// hangups returns where SIGHUP arrives, until stop is called.
func hangups() (c <-chan os.Signal, stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	return hangup, func() { signal.Stop(hangup) }
}

// serveShim runs the shim and what it needs until ctx ends or one of them fails.
func serveShim(ctx context.Context, s settings, force *shimInForce, r *reloader, log *slog.Logger) error {
	api, err := newClient(s.Kubeconfig)
	if err != nil {
		return err
	}
	pods, err := watch.New(watch.Config{Client: api, NodeName: s.node.Name, Manifests: s.Manifests, Logger: log})
	if err != nil {
		return fmt.Errorf("%w; give --node-name, or node.nodeName in the configuration", err)
	}
	registry := prometheus.NewRegistry()
	metrics := cri.NewMetrics(registry)
	reporter := newReporter(api, s.node.Name, log)
	shim := &cri.Shim{Runtime: s.RuntimeEndpoint, DrainTimeout: s.drain, Metrics: metrics}
	force.shim, force.hook = shim, cri.Hook{Lookup: lookup(pods), Report: reporter.report, Metrics: metrics}
	if err := force.start(s); err != nil {
		return err
	}
	r.running, r.success = force.host, newReloadSuccess(registry)
	notifier, err := systemd.NewNotifier()
	if err != nil {
		return err
	}
	if shim.Listener, err = listen(s.Listen); err != nil {
		return err
	}
	tasks := []func(context.Context) error{pods.Run, reporter.run, r.run, shim.Run,
		func(ctx context.Context) error { return notifier.Run(ctx, shim.Alive, log) }}
	if s.HTTP != "" {
		ready := func() ([]string, error) { return nil, shim.Ready() }
		tasks = append(tasks, func(ctx context.Context) error { return keepServingHTTP(ctx, listenAt(s.HTTP), registry, ready, log) })
	}
	log.Info("serving", "listen", s.Listen, "runtime", s.RuntimeEndpoint, "node", s.node.Name)
	return daemon.RunAll(ctx, tasks...)
}

// listen takes over the socket of the service manager, or opens its own where there is
// none.
func listen(endpoint string) (net.Listener, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	socket, err := systemd.Socket()
	switch {
	case err != nil:
		return nil, err
	case socket != nil:
		return cri.Inherit(path, socket)
	}
	return cri.Listen(path)
}

// lookup asks pods for the pod of a sandbox.
func lookup(pods *watch.Pods) func(context.Context, cri.Sandbox) (policy.Pod, error) {
	return func(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
		pod, _, err := pods.Lookup(ctx, watch.Ref{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Annotations: s.Annotations})
		if errors.Is(err, watch.ErrNotFound) {
			err = fmt.Errorf("%w: %w", cri.ErrUnknownPod, err)
		}
		return pod, err
	}
}

// newClient returns a client for the pods and events of a kubeconfig's API server,
// nil without one.
func newClient(kubeconfig string) (rest.Interface, error) {
	if kubeconfig == "" {
		return nil, nil
	}
	c, err := client.LoadConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c.UserAgent = "dnsconfigurer-shim/" + version()
	c.QPS = -1 // a pod costs one call at most, and watch has a breaker of its own
	return client.New(c, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &corev1.Event{})
}

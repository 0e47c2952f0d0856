// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Options are the values of the command's flags.
type Options struct {
	Config
	Pod        string   // NAMESPACE/NAME; "": all in Scope
	DNSServers []string // IP[:PORT]

	Kubeconfig, Context string // of the API; "": as kubectl
}

// Register adds the flags.
func (o *Options) Register(flags *pflag.FlagSet) {
	usage.ClusterFlags(flags, &o.Kubeconfig, &o.Context)
	flags.StringVarP(&o.Scope.Namespace, "namespace", "n", "", "check pods and Services of this `NAMESPACE`; empty: all")
	flags.StringVar(&o.Pod, "pod", "", "check the pod `NAMESPACE/NAME`, and print the resolv.conf that it should have")
	flags.StringVar(&o.Scope.Node, "node", "", "check pods of the node `NAME`; empty: all")
	flags.StringArrayVar(&o.DNSServers, "dns-server", nil,
		"`IP[:PORT]` of a DNS server to query instead of those of the cluster; repeatable, at most 16")
	flags.StringVar(&o.ExternalName, "external-name", "example.com", "`NAME` outside the cluster to query; empty: none")
	flags.StringVar(&o.ClusterDomain, "cluster-domain", "",
		"`DOMAIN` of the cluster; empty: as in the ConfigMap kubelet-config, or the Corefile, or cluster.local")
	flags.BoolVar(&o.Kubelets, "kubelets", false,
		"read the configuration of each kubelet through the API server; needs the permission nodes/proxy")
	usage.ChoiceFlag(flags, &o.ClientCounts, "clients", "",
		"print the pods with most queries to servers of dnsconfigurer, `WHAT`: off, counts, or names: with the names; "+
			"needs the permission pods/portforward", ClientsOff, ClientsCounts, ClientsNames)
	flags.StringVar(&o.Image, "ephemeral-container", "",
		"`IMAGE` of dnsconfigurer for an ephemeral container in the pod of --pod, which queries the servers, too; it cannot be "+
			"removed, and stays until the pod ends; needs the permission pods/ephemeralcontainers")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute,
		"time limit, a `DURATION`: a check without its data by then is printed as not checked")
}

// MaxObjects is the largest number of objects of each kind to read.
const MaxObjects = 50_000

// Parse validates the options, and returns the Config without its API.
func (o *Options) Parse() (Config, error) {
	c := o.Config
	var err error
	if c.Scope, err = o.scope(); err != nil {
		return c, err
	}
	if c.Servers, err = parseServers(o.DNSServers); err != nil {
		return c, err
	}
	for flag, name := range map[string]string{"--external-name": c.ExternalName, "--cluster-domain": c.ClusterDomain} {
		if _, err := fqdn.ParseName(name); name != "" && err != nil {
			return c, usage.Errorf("%s: %q %w", flag, name, err)
		}
		if strings.Contains(name, " ") {
			return c, usage.Errorf("%s: %q: want a domain such as cluster.local", flag, name)
		}
	}
	if c.ExternalName != "" {
		c.ExternalName = dns.Fqdn(c.ExternalName)
	}
	if c.Image != "" && o.Pod == "" {
		return c, usage.Errorf("--ephemeral-container: needs --pod, the pod to which it is added")
	}
	if c.Timeout <= 0 {
		return c, usage.Errorf("--timeout: must be positive")
	}
	c.MaxObjects = MaxObjects
	return c, nil
}

// scope returns the scope, which is that of the pod if there is one.
func (o *Options) scope() (doctor.Scope, error) {
	s := o.Scope
	if s.Namespace != "" && fqdn.LabelProblems(s.Namespace) != nil { // it becomes part of a path of the API
		return s, usage.Errorf("--namespace %q: want a DNS label such as shop", s.Namespace)
	}
	if o.Pod == "" {
		return s, nil
	}
	namespace, name, ok := strings.Cut(o.Pod, "/")
	if !ok || fqdn.LabelProblems(namespace) != nil || name == "" {
		return s, usage.Errorf("--pod %q: want NAMESPACE/NAME", o.Pod)
	}
	if s.Namespace != "" && s.Namespace != namespace {
		return s, usage.Errorf("--namespace: cannot be combined with a --pod of another namespace")
	}
	s.Namespace, s.PodName = namespace, name
	return s, nil
}

// parseServers returns the servers of the addresses, each once.
func parseServers(texts []string) (servers []doctor.Server, err error) {
	for _, text := range texts {
		at, err := ParseServer("--dns-server", text)
		if err != nil {
			return nil, err
		}
		if s := (doctor.Server{UDP: at, TCP: at, Role: doctor.RoleFlag}); !slices.Contains(servers, s) {
			servers = append(servers, s)
		}
	}
	if len(servers) > doctor.MaxServers { // their queries are sent at the same time
		return nil, usage.Errorf("--dns-server: %d servers: want at most %d", len(servers), doctor.MaxServers)
	}
	return servers, nil
}

// ParseServer parses the value of a flag, an address with or without a port.
func ParseServer(flag, text string) (netip.AddrPort, error) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at, nil
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.AddrPort{}, usage.Errorf("%s %q: want IP[:PORT], such as 10.96.0.10 or [fd00::10]:53", flag, text)
	}
	return netip.AddrPortFrom(addr, 53), nil
}

// All reads the cluster, what else c allows, and the replies of the DNS servers. It takes three
// quarters of the time of c at most, and leaves the rest for the checks. The error is
// that of Snapshot, or that the namespace, node or pod of the scope does not exist.
func All(ctx context.Context, c Config) (*doctor.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout/4*3)
	defer cancel()
	s, err := Snapshot(ctx, c)
	if err != nil {
		return nil, err
	}
	s.ClusterDomain = c.ClusterDomain
	own, _ := os.ReadFile(kube.DefaultResolvConf) // a process outside of a pod needs none
	s.OwnFile = string(own)
	if err := checkScope(s); err != nil {
		return nil, err
	}
	if c.Kubelets {
		Kubelets(ctx, c, s)
	}
	if c.ClientCounts == ClientsCounts || c.ClientCounts == ClientsNames {
		addClients(ctx, c, s)
	}
	sendProbes(ctx, c, s)
	return s, nil
}

// checkScope returns an error if the cluster lacks the object that a flag names: the result about no
// object has no finding, as that about healthy ones.
func checkScope(s *doctor.Snapshot) error {
	switch {
	case s.Scope.Namespace != "" && s.Unread[doctor.Namespaces] == "" &&
		!slices.ContainsFunc(s.Namespaces, func(n corev1.Namespace) bool { return n.Name == s.Scope.Namespace }):
		return fmt.Errorf("--namespace %s: namespace not found", s.Scope.Namespace)
	case s.Scope.Node != "" && s.Unread[doctor.Nodes] == "" &&
		!slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == s.Scope.Node }):
		return fmt.Errorf("--node %s: node not found", s.Scope.Node)
	case s.Scope.PodName != "" && s.Unread[doctor.Pods] == "" &&
		!slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return s.Scope.Has(&p) }):
		return fmt.Errorf("--pod %s/%s: pod not found", s.Scope.Namespace, s.Scope.PodName)
	}
	return nil
}

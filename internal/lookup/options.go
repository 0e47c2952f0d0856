// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Options are the values of the command's flags.
type Options struct {
	Input    kube.Input
	Pod      string // NAMESPACE/NAME; "", without manifests and cluster: a program on this machine
	Library  string // one of Libraries
	Format   string // text or json
	Compare  bool   // run Lookup.Compare instead of Lookup.Run
	Complete bool
	Server   string   // ADDR[:PORT]; "": Config.Server is not set
	Upstream []string // as of upstream.ParseServer

	// Kubeconfig and Context are those of a live cluster, whose objects are used instead of Input; "": as kubectl, if there
	// is no Input.
	Kubeconfig, Context string
}

// Register adds the flags.
func (o *Options) Register(flags *pflag.FlagSet) {
	var libraries []string
	for _, l := range libc.Libraries() {
		libraries = append(libraries, string(l))
	}
	o.Input.Register(flags)
	usage.ClusterFlags(flags, &o.Kubeconfig, &o.Context)
	flags.StringVar(&o.Pod, "pod", "",
		"`NAMESPACE/NAME` of the pod or workload, or KIND/NAME in the namespace of -n, such as statefulset/db")
	usage.ChoiceFlag(flags, &o.Library, "libc", "",
		"resolver `LIBRARY` of the program: glibc (2.36 to 2.41), musl (1.2.5), musl-1.2.3, or go (Go 1.26 without cgo)", libraries...)
	flags.BoolVar(&o.Compare, "compare", false, "compare ClusterFirst with ClusterFirstWithAutopath, and count the queries on each hop")
	flags.StringVar(&o.Server, "server", "",
		"`ADDR[:PORT]` of a DNS server that replaces all nameservers of the pod; empty: the cluster DNS is simulated from the manifests")
	flags.BoolVar(&o.Complete, "complete", false, "the manifests are the whole cluster: names that they lack do not exist")
	flags.StringSliceVar(&o.Upstream, "upstream", nil,
		"`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME of an upstream server of the simulated cluster "+
			"DNS; repeatable; empty: names outside the cluster are not queried")
	usage.FormatFlag(flags, &o.Format, "`FORMAT`: text or json (JSON Lines, one for each lookup)", "text", "json")
}

// Live reports whether the objects come from a live cluster.
func (o *Options) Live() bool {
	return o.Kubeconfig != "" || o.Context != "" || len(o.Input.Paths) == 0 && o.Pod != ""
}

// Parse returns the question and the servers of a lookup. args are NAME [TYPE].
func (o *Options) Parse(args []string) (Config, error) {
	c := Config{Namespace: o.Input.Namespace, Complete: o.Complete}
	if err := o.Input.CheckNamespace(); err != nil {
		return c, err
	}
	c.Question = Question{Library: libc.Library(o.Library), Name: args[0]}
	switch {
	case o.onMachine():
	case len(o.Input.Paths) > 0 && o.Live():
		return c, usage.Errorf("--kubeconfig and -f: set one of them")
	case o.Pod == "":
		return c, usage.Errorf("no pod: set --pod")
	case o.Live() && fqdn.LabelProblems(o.PodNamespace()) != nil: // it becomes part of a path of the API
		return c, usage.Errorf("namespace %q of the pod: want a DNS label such as shop", o.PodNamespace())
	}
	return c, o.parseLookup(&c, args)
}

// onMachine reports whether the lookup is that of a program on this machine.
func (o *Options) onMachine() bool {
	return len(o.Input.Paths) == 0 && !o.Live() && !o.Compare
}

// parseLookup sets the type of the question, and the servers of c.
func (o *Options) parseLookup(c *Config, args []string) (err error) {
	if len(args) == 2 {
		qtype, ok := dns.StringToType[strings.ToUpper(args[1])]
		if !ok || qtype == dns.TypeNone {
			return usage.Errorf("unknown record type %q: want one such as A, AAAA, SRV or PTR", args[1])
		}
		c.Question.Type = qtype
	}
	if o.Server != "" {
		if o.Complete {
			return usage.Errorf("--complete has no effect with --server: set one of them")
		}
		if c.Server, err = gather.ParseServer("--server", o.Server); err != nil {
			return err
		}
		if len(o.Upstream) > 0 {
			return usage.Errorf("--upstream has no effect with --server: set one of them")
		}
	}
	for _, text := range o.Upstream {
		s, err := upstream.ParseServer(text)
		if err != nil {
			return usage.Errorf("--upstream: %w", err)
		}
		c.Upstream = append(c.Upstream, s)
	}
	return nil
}

// PodNamespace returns the namespace of the pod.
func (o *Options) PodNamespace() string {
	if namespace, _, ok := strings.Cut(o.Pod, "/"); ok && kindOf(namespace) == "" {
		return namespace
	}
	return o.Input.Namespace
}

// Run runs the lookup c of Parse for a pod of a node, and writes the result. Of a live cluster,
// c.Manifest has its objects. found is false if
// the program finds nothing, or its result is unknown.
func (o *Options) Run(ctx context.Context, c Config, n nodefacts.Node,
	stdin io.Reader, stdout, stderr io.Writer) (found bool, err error) {
	if o.onMachine() {
		n.ClusterDNS = nil // nothing is simulated
	}
	if c.Engine, err = n.Engine(); err != nil {
		return false, err
	}
	var findings []policy.Finding
	c.Node = n.Node
	c.Host, findings = n.Host()
	cli.WriteFindings(stderr, append(n.Findings, findings...))
	var readErr error
	if !o.Live() && !o.onMachine() {
		c.Manifest, readErr = o.Input.ReadPods(stdin)
		cli.WriteNotes(stderr, c.Manifest)
	}
	if len(c.Manifest.Workloads) == 0 && readErr != nil {
		return false, readErr
	}
	if o.onMachine() {
		// The programs of this machine have the servers and domains of its resolv.conf.
		pod := &corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault, HostNetwork: true}}
		pod.Namespace, pod.Name = "default", "machine"
		c.Pod = kube.Workload{Name: machineName, Pod: pod}
	} else if err := c.setPod(o.Pod, n.Name); err != nil {
		return false, errors.Join(readErr, err)
	}
	l, err := New(c)
	if err != nil {
		return false, err
	}
	var r report
	if o.Compare {
		r, err = l.Compare(ctx)
	} else {
		r, err = l.Run(ctx)
	}
	if err != nil {
		return false, err
	}
	for _, line := range r.Ignored() {
		fmt.Fprintln(stderr, "dnsconfigurer:", line)
	}
	write := r.WriteText
	if o.Format == "json" {
		write = r.WriteJSON
	}
	if err := write(stdout); err != nil {
		return false, err
	}
	return r.Found(), errors.Join(readErr, l.Skipped)
}

// setPod sets the pod to the pod of the manifest with a name. node is as in [FindPod].
func (c *Config) setPod(name, node string) (err error) {
	if c.Pod, err = FindPod(c.Manifest.Workloads, name, c.Namespace, node); err == nil && kube.IsWindows(&c.Pod.Pod.Spec) {
		err = fmt.Errorf("pod %s is for Windows, which has no C library to simulate: see what it gets with render", name)
	}
	return err
}

// report is a Result or a Comparison.
type report interface {
	Found() bool
	Ignored() []string
	WriteText(io.Writer) error
	WriteJSON(io.Writer) error
}

// clusterTimeout limits reading a live cluster.
const clusterTimeout = 2 * time.Minute

// Node reads the cluster of o into c: all Namespaces, Services and EndpointSlices, and the pods of one namespace. It
// returns the node of the pod: the flags, with the facts of the cluster where the flags and their files have none.
func Node(ctx context.Context, o *Options, flags *nodefacts.Flags, userAgent string, c *Config) (nodefacts.Node, error) {
	api, err := cluster.LoadUserConfig(o.Kubeconfig, o.Context, userAgent)
	if err != nil && o.Kubeconfig == "" && o.Context == "" {
		return nodefacts.Node{}, fmt.Errorf("no manifests, and no cluster: %w, or -f", err)
	} else if err != nil {
		return nodefacts.Node{}, err
	}
	api.QPS = -1 // the requests follow each other, and client-go's five a second take longer than the timeout
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	s, err := gather.Names(ctx, gather.Config{API: api, Scope: doctor.Scope{Namespace: o.PodNamespace()}, MaxObjects: gather.MaxObjects})
	if err != nil {
		return nodefacts.Node{}, err
	}
	if c.Manifest, err = manifestOf(s); err != nil {
		return nodefacts.Node{}, err
	}
	c.Complete = true
	return flags.LoadFor(gather.KubeletFacts(s))
}

func manifestOf(s *doctor.Snapshot) (all kube.Manifest, err error) {
	core, discovery := corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion
	return all, errors.Join(
		addObjects(&all, core.WithKind("Namespace"), s.Namespaces), addObjects(&all, core.WithKind("Service"), s.Services),
		addObjects(&all, discovery.WithKind("EndpointSlice"), s.Slices), addObjects(&all, core.WithKind("Pod"), s.Pods))
}

// addObjects adds objects of a kind to a manifest. An object of the API is smaller than a manifest may be.
func addObjects[T any, P interface {
	*T
	runtime.Object
}](all *kube.Manifest, kind schema.GroupVersionKind, list []T) error {
	for i := range list {
		o := P(&list[i])
		o.GetObjectKind().SetGroupVersionKind(kind)
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		m, err := kube.ParseManifest(kind.Kind+" of the cluster", text)
		if err != nil {
			return err
		}
		all.Workloads, all.Others = append(all.Workloads, m.Workloads...), append(all.Others, m.Others...)
	}
	return nil
}

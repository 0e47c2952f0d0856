// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

func lookupCommand() *cobra.Command {
	l := player{}
	cmd := &cobra.Command{
		Use:   "lookup -f FILE|DIR|- --pod NAMESPACE/NAME NAME [TYPE]",
		Short: "Look a name up as the C library in a pod does, and show every query",
		Long: `Take the resolv.conf that a pod gets, send the very queries that its C library
would send for a name, and show each with its answer, the result, and the count.

Without a TYPE it is what most programs ask for, the addresses of both families;
A and AAAA ask for one of them (getaddrinfo), every other type for its records
(res_search). The pod is a Pod or a workload of the manifests, named as such or as
render names its pods.

The manifests are the cluster too: their Services, EndpointSlices and Namespaces are
the names that the cluster DNS has. What has no address yet gets a synthetic one, in
198.18.0.0/15 or 2001:2::/48, and is marked. Nothing leaves this machine: other names
are not asked for, which is marked too, unless --upstream says whom.

With --compare the pod is played twice, with the policy ClusterFirst and with
ClusterFirstWithAutopath, whichever it has; the queries are counted on each hop.

With --server the queries go to that server instead, which stands for every nameserver
of the pod; the output names the one that the pod would ask.

Exit code 1 when the library finds nothing, or it is not known what it would find; with
--compare also when the two find different things.
docs/lookup.md says what the libraries do and what is not played.`,
		Example: `  dnsconfigurer lookup -f examples/ --pod shop/web payments
  helm template chart/ | dnsconfigurer lookup -f - -n shop --pod web --libc musl www.example.com
  dnsconfigurer lookup -f examples/ --pod shop/web --compare www.example.com
  dnsconfigurer lookup -f pod.yaml --pod web --server 10.96.0.10:53 payments.shop
  kubectl get pods,services,endpointslices -A -o yaml | dnsconfigurer lookup -f - --pod shop/web-0 _http._tcp.payments SRV -o json`,
		Args: lookupArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&l.files, "filename", "f", nil, "`FILE|DIR|-` with the pod, and with the Services of its cluster; repeatable")
	flags.StringVarP(&l.namespace, "namespace", "n", "default", "`NAMESPACE` of objects that name none, and of --pod without one")
	flags.StringVar(&l.pod, "pod", "", "`NAMESPACE/NAME` of the pod or workload")
	flags.StringVar(&l.library, "libc", string(libc.Glibc), "C `LIBRARY` of the container: glibc (2.36) or musl (1.2.3)")
	flags.BoolVar(&l.compare, "compare", false, "play ClusterFirst and ClusterFirstWithAutopath, and count the queries on each hop")
	flags.StringVar(&l.server, "server", "", "`ADDR:PORT` of the DNS server that is asked in the place of the pod's; empty: the manifests answer for the cluster's")
	flags.StringSliceVar(&l.upstream, "upstream", nil, "`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME to ask for names that are not the cluster's; repeatable; empty: they are not asked for")
	flags.StringVarP(&l.output, "output", "o", "text", "`FORMAT`: text or json")
	l.node.Register(flags)
	complete(cmd, "libc", string(libc.Glibc), string(libc.Musl))
	complete(cmd, "output", "text", "json")
	return cmd
}

// complete lets shells complete the values of a flag of cmd.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

func lookupArguments(_ *cobra.Command, args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return usageError{fmt.Errorf("want a NAME and perhaps a TYPE, got %d arguments", len(args))}
	}
	return nil
}

type player struct {
	files     []string
	namespace string
	pod       string
	library   string
	compare   bool
	server    string
	upstream  []string
	output    string
	node      config.NodeFlags
}

func (l *player) run(cmd *cobra.Command, args []string) error {
	q, err := l.question(args)
	if err != nil {
		return err
	}
	server, others, err := l.servers()
	if err != nil {
		return err
	}
	node, err := l.node.Load()
	if err != nil {
		return err
	}
	engine, err := node.Engine()
	if err != nil {
		return err
	}
	host, found := node.Host()
	reportFindings(cmd.ErrOrStderr(), append(node.Findings, found...))
	m, unread := manifest.ReadPods(l.files, cmd.InOrStdin())
	if len(m.Workloads) == 0 {
		return unread
	}
	w, err := l.find(m.Workloads, node.Name)
	if err != nil {
		return errors.Join(unread, err)
	}
	look := podLookup{question: q, engine: engine, host: host, workload: w, server: server, upstream: others}
	if !server.IsValid() {
		if look.cluster, err = newStandIn(node, host, others); err != nil {
			return err
		}
		unread = errors.Join(unread, look.cluster.fill(m, l.namespace))
	}
	out, err := l.play(cmd, look, node.Node)
	if err != nil {
		return err
	}
	write := out.text
	if l.output == "json" {
		write = out.json
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if unread == nil && !out.complete() {
		return errReported
	}
	return unread
}

// shown is what is printed: a lookup, or two that are compared.
type shown interface {
	text(io.Writer) error
	json(io.Writer) error
	complete() bool // the library finds something, and both times the same
}

// play plays the lookup, twice if two policies are compared, and says what the library
// does not read.
func (l *player) play(cmd *cobra.Command, look podLookup, node policy.Node) (shown, error) {
	policies := []policy.Policy{""} // the pod's own
	if l.compare {
		policies = look.policies()
	}
	var played []lookupPrinter
	var ignored []string // of the pod's resolv.conf
	for _, p := range policies {
		out, remarks, err := look.play(cmd.Context(), p)
		if err != nil {
			return nil, err
		}
		played = append(played, out)
		for _, r := range remarks {
			ignored = appendNew(ignored, r)
		}
	}
	for _, r := range ignored {
		fmt.Fprintln(cmd.ErrOrStderr(), "dnsconfigurer:", r)
	}
	if l.compare {
		return comparison{played[0], played[1], node}, nil
	}
	return played[0], nil
}

// podLookup is a question, a pod that asks it, and who answers.
type podLookup struct {
	question lookupQuestion
	engine   *policy.Engine
	host     resolvconf.File
	workload kube.Workload

	server   netip.AddrPort // answers in the place of all; not valid: cluster does
	cluster  *standIn
	upstream []upstream.Server
}

// play has the pod look the name up with a policy in the place of its own, if one is
// given. The remarks are what the library does not read of the pod's resolv.conf.
func (l *podLookup) play(ctx context.Context, instead policy.Policy) (out lookupPrinter, remarks []string, err error) {
	q, w := l.question, l.workload
	pod := policyPod(w)
	if instead != "" {
		pod.Override = instead
	}
	d := l.engine.Decide(pod, l.host)
	if !d.Starts() {
		return out, nil, fmt.Errorf("%s: the pod would not start: %s", w.Location, d.Error)
	}
	for _, f := range d.Findings {
		if instead != "" && f.Code == policy.CodeAutopathUnavailable {
			return out, nil, fmt.Errorf("%s: nothing to compare: %s\nhint: %s", w.Location, f.Message, f.Hint)
		}
	}
	file := d.Config().String()
	p := libc.Simulator{
		Library: q.library, Resolver: q.library.Read(file),
		Hostname: d.Hostname, Hosts: hostsOf(w.Pod, &d),
	}
	for _, r := range p.Resolver.Remarks {
		remarks = append(remarks, fmt.Sprintf("%s: line %d of the pod's resolv.conf: %q: %s", q.library, r.Line, r.Text, r.Cause))
	}
	out = lookupPrinter{question: q, pod: w.Namespace + "/" + w.Name, policy: instead, file: file, upstream: l.upstream}
	if l.server.IsValid() {
		p.Network, out.server = oneServer(l.server), l.server.String()
		out.result.Result, err = q.ask(ctx, p)
	} else {
		out.cluster = l.cluster.addrs
		out.result, err = l.cluster.play(ctx, q, p)
	}
	if err != nil {
		err = fmt.Errorf("looking up %q: %w", q.name, err)
	}
	return out, remarks, err
}

// lookupQuestion is what is looked up, and by whom.
type lookupQuestion struct {
	library libc.Library
	name    string
	qtype   uint16 // 0: both families
}

// question checks the command line.
func (l *player) question(args []string) (q lookupQuestion, err error) {
	if err := outputFlag(l.output, "text", "json"); err != nil {
		return q, err
	}
	if len(l.files) == 0 {
		return q, usageError{errors.New("-f is missing")}
	}
	if l.pod == "" {
		return q, usageError{errors.New("--pod is missing")}
	}
	q = lookupQuestion{library: libc.Library(l.library), name: args[0]}
	if !slices.Contains(libc.Libraries(), q.library) {
		return q, usageError{fmt.Errorf("--libc %q: want glibc, musl", l.library)}
	}
	if len(args) == 2 {
		known := false
		if q.qtype, known = dns.StringToType[strings.ToUpper(args[1])]; !known || q.qtype == dns.TypeNone {
			return q, usageError{fmt.Errorf("there is no record type %q", args[1])}
		}
	}
	return q, nil
}

// ask plays the lookup.
func (q lookupQuestion) ask(ctx context.Context, p libc.Simulator) (libc.Result, error) {
	switch q.qtype {
	case dns.TypeNone:
		return p.Lookup(ctx, q.name, libc.Both)
	case dns.TypeA:
		return p.Lookup(ctx, q.name, libc.IPv4)
	case dns.TypeAAAA:
		return p.Lookup(ctx, q.name, libc.IPv6)
	default:
		return p.Search(ctx, q.name, q.qtype)
	}
}

// servers are those of --server and --upstream.
func (l *player) servers() (server netip.AddrPort, others []upstream.Server, err error) {
	if l.server != "" {
		if server, err = netip.ParseAddrPort(l.server); err != nil {
			return server, nil, usageError{fmt.Errorf("--server %q: want ADDR:PORT, as 10.96.0.10:53 or [fd00::10]:53", l.server)}
		}
		if len(l.upstream) > 0 {
			return server, nil, usageError{errors.New("--upstream is for names that --server would be asked for: give one of them")}
		}
	}
	for _, text := range l.upstream {
		s, err := upstream.ParseServer(text)
		if err != nil {
			return server, nil, usageError{fmt.Errorf("--upstream: %w", err)}
		}
		others = append(others, s)
	}
	return server, others, nil
}

// find returns the pod of --pod.
func (l *player) find(workloads []kube.Workload, node string) (kube.Workload, error) {
	namespace, name, found := strings.Cut(l.pod, "/")
	if !found {
		namespace, name = l.namespace, l.pod
	}
	var fit []kube.Workload
	var others []string
	for _, w := range workloads {
		w.Namespace = cmp.Or(w.Namespace, l.namespace)
		w.Pod.Namespace = w.Namespace
		if w.Kind == "Pod" && node != "" {
			w.Pod = kube.StaticPod(w.Pod, node)
		}
		switch {
		case w.Namespace == namespace && (w.Name == name || w.Pod.Name == name):
			fit = append(fit, w)
		default:
			others = append(others, w.Namespace+"/"+w.Name)
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return kube.Workload{}, fmt.Errorf("there is no pod and no workload %s/%s in %s, only %s", namespace, name, strings.Join(l.files, ", "), strings.Join(others, ", "))
	}
	places := make([]string, len(fit))
	for i, w := range fit {
		places[i] = w.Kind + " in " + w.Location.String()
	}
	return kube.Workload{}, fmt.Errorf("%s/%s is more than one: %s", namespace, name, strings.Join(places, ", "))
}

// hostsOf are the names that the kubelet writes into the /etc/hosts of a pod. Its
// own name is among them if the manifest is of a pod that runs, with its address.
func hostsOf(pod *corev1.Pod, d *policy.Decision) map[string][]netip.Addr {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	hosts := map[string][]netip.Addr{
		"localhost":     {v4, v6},
		"ip6-localhost": {v6},
		"ip6-loopback":  {v6},
	}
	add := func(ip string, names ...string) {
		a, ok := config.ParseAddr(ip)
		for _, name := range names {
			if ok && name != "" {
				hosts[strings.ToLower(name)] = append(hosts[strings.ToLower(name)], a)
			}
		}
	}
	if !pod.Spec.HostNetwork {
		for _, ip := range pod.Status.PodIPs {
			add(ip.IP, d.Hostname)
			if d.FQDN != d.Hostname {
				add(ip.IP, d.FQDN)
			}
		}
	}
	for _, alias := range pod.Spec.HostAliases {
		add(alias.IP, alias.Hostnames...)
	}
	return hosts
}

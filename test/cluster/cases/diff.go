// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Diff compares the result of pkg/policy for c with want, the kubelet's answer. It
// returns one line for each field that differs.
func Diff(c Case, want Answer) []string {
	engine, err := policy.New(c.node())
	if err != nil {
		return []string{"the engine refuses the node: " + err.Error()}
	}
	host, pod := c.hostFile(), c.kubeletPod()
	d := engine.Decide(kube.FromPod(pod), host)
	got := d.Config()

	var diffs differences
	if c.Manifest {
		diffs.text("pod name", pod.Name, want.PodName)
	}
	diffs.list("servers", got.Nameservers, want.Servers)
	diffs.list("searches", got.Searches, want.Searches)
	diffs.list("options", slices.Sorted(slices.Values(got.Options)), slices.Sorted(slices.Values(want.Options)))
	diffs.text("hostname", d.Hostname, want.Hostname)
	diffs.text("error", d.Error, want.Error)
	if want.Error == "" && !pod.Spec.HostNetwork {
		diffs.text("FQDN", d.FQDN, want.fqdn(pod.Spec.SetHostnameAsFQDN))
	}
	diffs.list("events", podEvents(d.Findings), eventTexts(want.Events))
	diffs.list("node events", checkEvents(engine.CheckHost(host)), eventTexts(want.NodeEvents))
	diffs.text("container error", containerErrors(d.Findings), want.ContainerError)
	diffs.checkDeclared(&c, d.Findings)
	return diffs
}

// DiffKubelet compares the kubelet's configuration that pkg/policy computes for c with that
// of answer, the kubelet's. There are no divergences.
func DiffKubelet(c Case, answer Answer) []string {
	if answer.ErrorStage == DNSStage {
		return nil
	}
	engine, err := policy.New(c.node())
	if err != nil {
		return []string{"the engine refuses the node: " + err.Error()}
	}
	got := engine.KubeletConfig(kube.FromPod(c.kubeletPod()), c.hostFile())
	if want := (resolvconf.Config{Nameservers: answer.Servers, Searches: answer.Searches, Options: answer.Options}); !got.Equal(want) {
		return []string{fmt.Sprintf("KubeletConfig: kubelet %q, engine %q", want, got)}
	}
	return nil
}

// kubeletPod returns the pod as the kubelet has it.
func (c *Case) kubeletPod() *corev1.Pod {
	if c.Manifest {
		return kube.StaticPod(c.Pod, c.Node())
	}
	return c.Pod
}

// checkDeclared checks that the engine reports a divergence from the kubelet, and only
// then.
func (d *differences) checkDeclared(c *Case, findings []policy.Finding) {
	names, _ := Diverge(*c)
	for _, v := range Divergences {
		said := slices.ContainsFunc(findings, func(f policy.Finding) bool { return f.Code == v.code })
		if applies := slices.Contains(names, v.Name); v.code != "" && applies != said {
			*d = append(*d, fmt.Sprintf("divergence %s: applies %t, finding %t", v.Name, applies, said))
		}
	}
}

// node returns the node facts of c as the commands pass them on.
func (c *Case) node() policy.Node {
	n := policy.Node{ClusterDomain: c.ClusterDomain}
	if c.ResolvConfMode != DisabledMode {
		n.ResolvConf = HostPath
	}
	for _, s := range c.ClusterDNS {
		if a, ok := ParseAddr(s); ok {
			n.ClusterDNS = append(n.ClusterDNS, a)
		}
	}
	for _, s := range c.NodeIPs {
		n.IPs = append(n.IPs, netip.MustParseAddr(s))
	}
	return n
}

// ParseAddr parses an entry of clusterDNS; the kubelet skips an invalid one.
func ParseAddr(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}

func (c *Case) hostFile() resolvconf.File {
	switch c.ResolvConfMode {
	case MissingMode:
		return resolvconf.File{Err: errors.New("open " + HostPath + ": no such file or directory")}
	case DisabledMode:
		return resolvconf.File{}
	}
	return resolvconf.Read(strings.NewReader(c.HostText()))
}

// fqdn returns the FQDN of the answer's pod.
func (a *Answer) fqdn(asHostname *bool) string {
	switch {
	case a.Domain == "":
		return ""
	case asHostname != nil && *asHostname:
		return a.Hostname
	}
	return a.Hostname + "." + a.Domain
}

// podEvents returns the findings that a kubelet sends as events for a sandbox, in the
// form of eventTexts.
func podEvents(findings []policy.Finding) []string {
	var events []string
	for _, f := range findings {
		switch {
		case f.Reason != "DNSConfigForming" && f.Reason != "MissingClusterDNS":
		case f.Code == policy.CodeNodeMissingDNS:
			events = append(events, eventText("Node", f.Reason, f.Message))
		default:
			events = append(events, eventText("Pod", f.Reason, f.Message))
		}
	}
	return events
}

func checkEvents(findings []policy.Finding) []string {
	var events []string
	for _, f := range findings {
		if f.Reason != "" {
			events = append(events, eventText("Node", f.Reason, f.Message))
		}
	}
	return events
}

// containerErrors returns the errors after the creation of the sandbox, which are not
// events.
func containerErrors(findings []policy.Finding) string {
	var texts []string
	for _, f := range findings {
		if f.Severity == policy.SeverityError && f.EnforcedBy == policy.EnforcedByNode && f.Reason == "" {
			texts = append(texts, f.Message)
		}
	}
	return strings.Join(texts, "; ")
}

func eventTexts(events []Event) []string {
	var texts []string
	for _, e := range events {
		kind, _, _ := strings.Cut(e.Object, " ")
		texts = append(texts, eventText(kind, e.Reason, e.Message))
	}
	return texts
}

func eventText(kind, reason, message string) string {
	return kind + " " + reason + ": " + message
}

// differences collects the lines of Diff.
type differences []string

func (d *differences) text(what, engine, kubelet string) {
	if engine != kubelet {
		*d = append(*d, fmt.Sprintf("%s: kubelet %q, engine %q", what, kubelet, engine))
	}
}

func (d *differences) list(what string, engine, kubelet []string) {
	if !slices.Equal(engine, kubelet) {
		*d = append(*d, fmt.Sprintf("%s: kubelet %q, engine %q", what, kubelet, engine))
	}
}

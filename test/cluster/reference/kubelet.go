// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/network/dns"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	netutils "k8s.io/utils/net"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

// Kubelet is the part of a kubelet on one node that names pods and configures their DNS.
type Kubelet struct {
	*dns.Configurer
	kubelet *kubelet.Kubelet
	events  *recorder
}

// New returns a Kubelet on the node of c that uses the host file at path; "" means no
// file. The arguments are built as NewMainKubelet builds them.
func New(c *cases.Case, path string) *Kubelet {
	var clusterDNS, nodeIPs []net.IP
	for _, entry := range c.ClusterDNS {
		if ip := netutils.ParseIPSloppy(entry); ip != nil {
			clusterDNS = append(clusterDNS, ip)
		}
	}
	for _, ip := range c.NodeIPs {
		nodeIPs = append(nodeIPs, net.ParseIP(ip))
	}
	nodeRef := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: c.Node()}
	events := new(recorder)
	configurer := dns.NewConfigurer(events, nodeRef, nodeIPs, clusterDNS, c.ClusterDomain, path)
	return &Kubelet{configurer, withConfigurer(configurer), events}
}

// withConfigurer returns a kubelet with configurer only, which is all that
// GeneratePodHostNameAndDomain reads. The field is not exported, and NewMainKubelet,
// which sets it, requires a complete node: this is the only access to the kubelet's
// internals.
func withConfigurer(configurer *dns.Configurer) *kubelet.Kubelet {
	k := new(kubelet.Kubelet)
	field := reflect.ValueOf(k).Elem().FieldByName("dnsConfigurer")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(configurer))
	return k
}

// Answers returns a real kubelet's answers to list. It writes host files and manifests
// below dir, which should be in memory.
func Answers(ctx context.Context, dir string, list []cases.Case) ([]cases.Answer, error) {
	static, err := readManifests(ctx, dir, list)
	if err != nil {
		return nil, err
	}
	ctx = klog.NewContext(ctx, logr.Discard())
	answers := make([]cases.Answer, len(list))
	for i := range list {
		c := &list[i]
		pod := c.Pod
		if c.Manifest {
			if pod = static[i].pod; pod == nil {
				answers[i] = cases.Answer{Error: static[i].refused, ErrorStage: cases.DecodeStage}
				continue
			}
		}
		if answers[i], err = answer(ctx, dir, c, pod); err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
	}
	return answers, nil
}

// answer returns the answer for one pod, which may come from the manifest of c.
func answer(ctx context.Context, dir string, c *cases.Case, pod *corev1.Pod) (cases.Answer, error) {
	path := ""
	if c.ResolvConfMode != cases.DisabledMode {
		path = filepath.Join(dir, c.ID+".conf")
	}
	if c.ResolvConfMode == cases.FileMode {
		if err := os.WriteFile(path, []byte(c.HostText()), 0o600); err != nil {
			return cases.Answer{}, err
		}
		defer os.Remove(path)
	}
	k := New(c, path)
	a := k.sandbox(ctx, pod)
	a.Events = k.events.take()
	if path != "" {
		k.CheckLimitsForResolvConf(logr.Discard())
		a.NodeEvents = k.events.take()
	}
	if c.Manifest {
		a.PodName = pod.Name
	}

	// Two texts differ between runs: the host file's path and, for a manifest, a UID that
	// is a hash of the manifest's path.
	texts := []string{string(pod.UID), string(c.Pod.UID)}
	if path != "" {
		texts = append(texts, path, cases.HostPath)
	}
	normal := strings.NewReplacer(texts...)
	a.Error = normal.Replace(a.Error)
	for _, events := range [][]cases.Event{a.Events, a.NodeEvents} {
		for i := range events {
			events[i].Message = normal.Replace(events[i].Message)
		}
	}
	return a, nil
}

// sandbox follows generatePodSandboxConfig of kuberuntime, which builds the message to
// the runtime: DNS and, unless the pod is on the host network, its hostname. It stops at
// the first error.
func (k *Kubelet) sandbox(ctx context.Context, pod *corev1.Pod) cases.Answer {
	config, err := k.GetPodDNS(ctx, pod)
	if err != nil {
		return cases.Answer{Error: err.Error(), ErrorStage: cases.DNSStage}
	}
	a := cases.Answer{Servers: config.Servers, Searches: config.Searches, Options: slices.Sorted(slices.Values(config.Options))}
	host, domain, err := k.kubelet.GeneratePodHostNameAndDomain(klog.FromContext(ctx), pod)
	a.Domain = domain
	if pod.Spec.HostNetwork {
		if err != nil { // GenerateRunContainerOptions
			a.ContainerError = err.Error()
		}
		return a
	}
	if err == nil {
		a.Hostname, err = kubeletutil.GetNodenameForKernel(host, domain, pod.Spec.SetHostnameAsFQDN)
	}
	if err != nil {
		a.Error, a.ErrorStage = err.Error(), cases.HostnameStage
	}
	return a
}

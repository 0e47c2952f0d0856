// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Divergence is a reason for a result of the engine that differs from the kubelet's. It
// depends on the input only. The engine's result is the kubelet's answer to another case,
// the twin: so it is checked in full too. Only the events of the kubelet's start are
// the answers to the case itself.
type Divergence struct {
	Name    string
	applies func(*Case) bool
	twin    func(*Case)
	code    policy.Code // of the finding that reports it; "": requested by the pod
}

// Divergences holds all divergences in the order in which they are undone;
// docs/compatibility.md has the reasons: D5 and D6, D3, D1 and D2.
var Divergences = []Divergence{
	{"autopath", isAutopath, withoutAutopath, ""},
	{"unsafe-value", isUnsafe, withoutUnsafe, policy.CodeUnsafeValue},
	{"host-file-not-needed", isHostFileNotNeeded, withHostFile, policy.CodeHostFileNotNeeded},
}

// Diverge returns the names of the divergences that apply to c, and its twin. The
// twin of a case without divergences is the case.
func Diverge(c Case) (names []string, twin Case) {
	twin = c
	for _, d := range Divergences {
		if !d.applies(&twin) {
			continue
		}
		names = append(names, d.Name)
		twin.Pod = twin.Pod.DeepCopy()
		d.twin(&twin)
	}
	return names, twin
}

// Refused reports whether c is a manifest that a kubelet refuses as the API server does,
// before any DNS rule: its node name or a nameserver is invalid. There is nothing to
// compare then; the command validate finds these errors.
func Refused(c *Case) bool {
	if !c.Manifest {
		return false
	}
	if len(validation.IsDNS1123Subdomain(c.Node())) > 0 {
		return true
	}
	config := c.Pod.Spec.DNSConfig
	return config != nil && slices.ContainsFunc(config.Nameservers, func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err != nil || a.Zone() != "" || a.Is4In6()
	})
}

// isAutopath: only the engine knows ClusterFirstWithAutopath and the annotation that
// replaces a pod's policy. A kubelet treats the policy as unknown and ignores the
// annotation.
func isAutopath(c *Case) bool { return effective(c) != c.effectivePolicy(c.Pod.Spec.DNSPolicy) }

// withoutAutopath replaces the policy: None with one cluster DNS server, the one search
// domain that the server expands, and ndots:5 before the pod's options.
func withoutAutopath(c *Case) {
	spec := &c.Pod.Spec
	p := effective(c)
	delete(c.Pod.Annotations, policy.OverrideAnnotation)
	if p != autopath { // it cannot work
		spec.DNSPolicy = p
		return
	}
	config := spec.DNSConfig
	if config == nil {
		config = new(corev1.PodDNSConfig)
	}
	five := "5"
	spec.DNSPolicy = corev1.DNSNone
	spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: append(c.clusterServers()[:1:1], config.Nameservers...),
		Searches:    append([]string{autopathDomain(c)}, config.Searches...),
		Options:     append([]corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}}, config.Options...),
	}
}

const autopath corev1.DNSPolicy = "ClusterFirstWithAutopath"

// effective returns the policy that the engine applies: autopath if the annotation has it,
// or else the pod's. Autopath applies only where it can work, which excludes Windows.
func effective(c *Case) corev1.DNSPolicy {
	p := c.Pod.Spec.DNSPolicy
	if os := c.Pod.Spec.OS; os != nil && os.Name == corev1.Windows {
		return c.effectivePolicy(p)
	}
	if o := corev1.DNSPolicy(c.Pod.Annotations[policy.OverrideAnnotation]); isAutopathName(o) {
		p = o
	}
	domain := autopathDomain(c)
	if isAutopathName(p) && len(c.clusterServers()) > 0 && c.ClusterDomain != "" && len(domain) <= 253 && !strings.Contains(domain, "..") {
		return autopath
	}
	return c.effectivePolicy(p)
}

func isAutopathName(p corev1.DNSPolicy) bool { return strings.EqualFold(string(p), string(autopath)) }

func autopathDomain(c *Case) string {
	return "search." + c.Pod.Namespace + "." + c.ClusterDomain + ".ap.k8s.io"
}

// isUnsafe: a kubelet writes a newline of dnsConfig, and a NUL or text that is not UTF-8 of
// the host file, to the pod's resolv.conf. A blank inside a search domain splits it. The engine omits such
// values.
func isUnsafe(c *Case) bool {
	base := c.Base()
	if base == HostBase && c.hostRefused() {
		return false // the pod does not start
	}
	if config := c.Pod.Spec.DNSConfig; config != nil {
		if slices.ContainsFunc(config.Nameservers, isUnsafeValue) || slices.ContainsFunc(config.Searches, isUnsafeDomain) ||
			slices.ContainsFunc(config.Options, isUnsafeOption) {
			return true
		}
	}
	return base != NoBase && c.hostIsUnsafe(base)
}

// hostIsUnsafe reports whether an unsafe value gets from the host file to pods of base. An
// option's value matters only in the last option of the key.
func (c *Case) hostIsUnsafe(base Base) bool {
	var servers, searches, options bool
	for _, fields := range c.HostLines() {
		switch fields[0] {
		case "nameserver":
			servers = servers || len(fields) > 1 && isUnsafeValue(fields[1])
		case "search":
			searches = slices.ContainsFunc(fields, isUnsafeValue)
		case "options":
			options = options || slices.ContainsFunc(fields, isUnsafeValue)
		}
	}
	return searches || base == HostBase && (servers || options)
}

func withoutUnsafe(c *Case) {
	if config := c.Pod.Spec.DNSConfig; config != nil {
		config.Nameservers = slices.DeleteFunc(config.Nameservers, isUnsafeValue)
		config.Searches = slices.DeleteFunc(config.Searches, isUnsafeDomain)
		config.Options = slices.DeleteFunc(config.Options, isUnsafeOption)
	}
	c.editHost(func(fields []string) []string {
		if fields[0] == "nameserver" && len(fields) > 1 && isUnsafeValue(fields[1]) {
			return nil
		}
		return slices.DeleteFunc(fields, isUnsafeValue)
	})
}

func isUnsafeValue(s string) bool { return strings.ContainsAny(s, "\n\x00") || !utf8.ValidString(s) }

func isUnsafeDomain(s string) bool {
	return isUnsafeValue(s) || strings.ContainsFunc(s, unicode.IsSpace)
}

func isUnsafeOption(o corev1.PodDNSConfigOption) bool {
	return isUnsafeValue(o.Name) || o.Value != nil && isUnsafeValue(*o.Value)
}

// isHostFileNotNeeded: a kubelet reads the host file before it checks the policy, and
// starts no pod without it. The engine serves pods that do not need it.
func isHostFileNotNeeded(c *Case) bool { return c.Base() != HostBase && c.hostRefused() }

// withHostFile repairs the file of c: unreadable parts are removed.
func withHostFile(c *Case) {
	if c.ResolvConfMode == MissingMode || len(c.HostText()) >= resolvconf.MaxFile {
		c.ResolvConfMode, c.HostResolvConf, c.HostSize = FileMode, "", 0
		return
	}
	c.editHost(func(fields []string) []string {
		if len(fields) == 1 && fields[0] == "nameserver" {
			return nil
		}
		return fields
	})
}

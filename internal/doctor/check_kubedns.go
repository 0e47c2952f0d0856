// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/spelling"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// The keys of the ConfigMap of kube-dns. The last one has had no effect since Kubernetes 1.21.
const (
	keyStubDomains = "stubDomains"
	keyUpstreams   = "upstreamNameservers"
	keyFederations = "federations"
)

// maxUpstreams is the number of upstreamNameservers above which kube-dns refuses them (Validate
// in k8s.io/dns/pkg/dns/config).
const maxUpstreams = 3

// kubeDNSConfig is the ConfigMap of kube-dns, and its values as far as they can be read.
type kubeDNSConfig struct {
	config      *corev1.ConfigMap
	stubDomains map[string][]string
	upstreams   []string
	problems    []string
}

// kubeDNSChecks are about the ConfigMap of kube-dns, the cluster DNS before CoreDNS.
func kubeDNSChecks() []Check {
	needs := []need{needDNS, needKubeDNS}
	return []Check{
		{
			Code: "kube-dns-config", Severity: policy.SeverityError,
			What:  "the ConfigMap of kube-dns has a value that kube-dns refuses, or that has no effect",
			cause: "kube-dns ignores such a ConfigMap: it keeps its previous settings, and after a restart it has none",
			next:  nextEdit, needs: needs, find: findKubeDNSProblems,
		},
		{
			Code: "kube-dns-loop", Severity: policy.SeverityError, What: "kube-dns forwards to itself",
			cause: "each query that it forwards there returns to it until it fails",
			next:  nextEdit, needs: needs, find: findKubeDNSLoop,
		},
	}
}

// needKubeDNS is a ConfigMap that kube-dns mounts. Without one it has its defaults; other servers
// have none.
func needKubeDNS(v *view) (string, bool) {
	if v.Unread[Pods] == "" && v.dns != nil && !slices.ContainsFunc(v.dnsPods, isKubeDNS) {
		return "", false
	}
	return cmp.Or(v.Unread[Services], v.Unread[Pods], v.unreadMount()), v.kubeDNS != nil
}

// kubeDNSContainer returns the container of kube-dns in a pod, nil if there is none. The pod has
// two more: dnsmasq, which serves port 53, and a sidecar.
func kubeDNSContainer(p *corev1.Pod) *corev1.Container {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if c.Name == "kubedns" || strings.Contains(c.Image, "k8s-dns-kube-dns") {
			return c
		}
	}
	return nil
}

func isKubeDNS(p *corev1.Pod) bool { return kubeDNSContainer(p) != nil }

// readKubeDNS parses the ConfigMap that kube-dns mounts.
func (v *view) readKubeDNS() {
	for _, p := range v.dnsPods {
		c := kubeDNSContainer(p)
		if c == nil {
			continue
		}
		for _, volume := range p.Spec.Volumes {
			mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume.Name })
			if volume.ConfigMap == nil || !mounted {
				continue
			}
			if config := v.configMap(p.Namespace, volume.ConfigMap.Name); config != nil {
				v.kubeDNS = parseKubeDNS(config)
				return
			}
		}
	}
}

func parseKubeDNS(config *corev1.ConfigMap) *kubeDNSConfig {
	k := &kubeDNSConfig{config: config}
	known := []string{keyStubDomains, keyUpstreams, keyFederations}
	for _, key := range slices.Sorted(maps.Keys(config.Data)) {
		if closest, ok := spelling.Closest(key, known); ok && !slices.Contains(known, key) {
			k.problem(key, "unknown key: did you mean %s?", closest)
		}
	}
	k.decode(keyStubDomains, &k.stubDomains, `a JSON object of lists, such as {"corp.example": ["192.0.2.53"]}`)
	k.decode(keyUpstreams, &k.upstreams, `a JSON list, such as ["192.0.2.53"]`)
	for _, domain := range slices.Sorted(maps.Keys(k.stubDomains)) {
		k.checkStubDomain(domain, k.stubDomains[domain])
	}
	if n := len(k.upstreams); n > maxUpstreams {
		k.problem(keyUpstreams, "%d servers, the limit is %d", n, maxUpstreams)
	}
	for _, server := range k.upstreams {
		if _, ok := serverAddress(server); !ok {
			k.problem(keyUpstreams, "%s is not an IP address, with or without a port", excerpt.Quote(server))
		}
	}
	return k
}

func (k *kubeDNSConfig) problem(key, format string, args ...any) {
	k.problems = append(k.problems, "data."+key+": "+fmt.Sprintf(format, args...))
}

// decode parses a value, if there is one.
func (k *kubeDNSConfig) decode(key string, into any, want string) {
	text, ok := k.config.Data[key]
	if !ok {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		k.problem(key, "%v: want %s, got %s", err, want, excerpt.Quote(strings.TrimSpace(text)))
	}
}

func (k *kubeDNSConfig) checkStubDomain(domain string, servers []string) {
	if len(validation.IsDNS1123Subdomain(domain)) > 0 {
		k.problem(keyStubDomains, "%s is not a domain in lower case, without final dot", excerpt.Quote(domain))
	}
	if len(servers) == 0 {
		k.problem(keyStubDomains, "%s has no servers", excerpt.Quote(domain))
	}
	for _, server := range servers {
		if _, ok := serverAddress(server); !ok && len(validation.IsDNS1123Subdomain(server)) > 0 {
			k.problem(keyStubDomains, "%s: %s is not an IP address, with or without a port, and not a name",
				excerpt.Quote(domain), excerpt.Quote(server))
		}
	}
}

// serverAddress parses the address of a server with or without a port.
func serverAddress(text string) (addr netip.Addr, ok bool) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap(), withPort.Port() > 0
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err == nil
}

func findKubeDNSProblems(v *view) []hit {
	if len(v.kubeDNS.problems) == 0 {
		return nil
	}
	return []hit{{object: v.kubeDNS.object(), message: v.kubeDNS.problems[0], evidence: v.kubeDNS.problems}}
}

func (k *kubeDNSConfig) object() object {
	return object{"ConfigMap", k.config.Namespace, k.config.Name}
}

// findKubeDNSLoop returns the servers that are kube-dns itself.
func findKubeDNSLoop(v *view) []hit {
	var evidence []string
	cause := "" // that of the check
	check := func(what string, servers []string) {
		for _, server := range servers {
			if addr, ok := serverAddress(server); ok && (addr.IsLoopback() || slices.Contains(v.ownAddresses(), addr)) {
				evidence = append(evidence, fmt.Sprintf("data.%s: %s", what, server))
				if addr.IsLoopback() {
					cause = causeLoopback
				}
			}
		}
	}
	for _, domain := range slices.Sorted(maps.Keys(v.kubeDNS.stubDomains)) {
		check(keyStubDomains+": "+domain, v.kubeDNS.stubDomains[domain])
	}
	check(keyUpstreams, v.kubeDNS.upstreams)
	if len(evidence) == 0 {
		return nil
	}
	evidence = append(evidence, "spec.clusterIPs: "+strings.Join(v.dns.Spec.ClusterIPs, ", "))
	return []hit{{object: v.kubeDNS.object(), message: "it forwards to the cluster DNS itself", evidence: evidence, cause: cause}}
}

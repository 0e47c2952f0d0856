// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
)

func needNodeCache(v *view) (string, bool) { return "", len(v.nodeCaches) > 0 }

// needNodeCacheFiles are the ConfigMaps that the pods of node caches mount.
func needNodeCacheFiles(v *view) (string, bool) {
	for _, p := range NodeCachePods(v.Snapshot) {
		for _, name := range MountedConfigMaps(p) {
			if why := v.unreadConfigMap(p.Namespace, name); why != "" {
				return why, false
			}
		}
	}
	return "", true
}

// isNodeCacheAddress reports whether a is an argument of a node cache.
func (v *view) isNodeCacheAddress(a netip.Addr) bool {
	return slices.ContainsFunc(v.nodeCaches, func(d appsv1.DaemonSet) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
			return strings.Contains(strings.Join(slices.Concat(c.Command, c.Args), " "), a.String())
		})
	})
}

// installerPlaceholders are the placeholders in the manifest of NodeLocal DNSCache that the installer replaces. The cache
// itself replaces __PILLAR__CLUSTER__DNS__ and __PILLAR__UPSTREAM__SERVERS__.
var installerPlaceholders = []string{"__PILLAR__LOCAL__DNS__", "__PILLAR__DNS__SERVER__", "__PILLAR__DNS__DOMAIN__"}

// findNodeCacheSettings returns what prevents node caches from starting, or from reaching the cluster DNS: in the
// Corefile, the arguments, and the Service that they name.
func findNodeCacheSettings(v *view) (hits []hit) {
	for i, p := range NodeCachePods(v.Snapshot) {
		o := object{"DaemonSet", p.Namespace, v.nodeCaches[i].Name}
		for _, c := range p.Spec.Containers {
			args := strings.Join(slices.Concat(c.Command, c.Args), " ")
			if line := placeholderLine(args); line != "" {
				hits = append(hits, found(o, "its installer left a placeholder", "container "+c.Name+": "+line))
			}
			_, after, _ := strings.Cut(strings.ReplaceAll(args, "=", " "), "-upstreamsvc ")
			if name, _, _ := strings.Cut(after, " "); name != "" && v.services[p.Namespace+"/"+name] == nil {
				hits = append(hits, found(o, "there is no Service "+p.Namespace+"/"+name, "container "+c.Name+": -upstreamsvc "+name))
			}
		}
		for _, name := range MountedConfigMaps(p) {
			if c := v.configMap(p.Namespace, name); c != nil {
				hits = append(hits, nodeCorefile(c)...)
			}
		}
	}
	return hits
}

// placeholderLine returns the first line of a text with a placeholder that the installer replaces; "": none.
func placeholderLine(text string) string {
	for line := range strings.Lines(text) {
		for _, p := range installerPlaceholders {
			if strings.Contains(line, p) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// nodeCorefile returns what CoreDNS refuses in the Corefile of a node cache. The build of the cache has other plugins.
func nodeCorefile(c *corev1.ConfigMap) []hit {
	text := c.Data["Corefile"]
	o := object{"ConfigMap", c.Namespace, c.Name}
	if line := placeholderLine(text); line != "" {
		return []hit{found(o, "its installer left a placeholder", "Corefile: "+line)}
	}
	blocks, problems := corefile.Parse(text)
	problems = append(problems, corefile.Refused(blocks, func(hasSimilar bool) bool { return hasSimilar })...)
	if len(problems) == 0 {
		return nil
	}
	var evidence []string
	for _, p := range problems {
		evidence = append(evidence, evidenceLine(p.File, p.Line, p.Message))
	}
	return []hit{found(o, "CoreDNS refuses the Corefile of the node cache", evidence...)}
}

// findDeadAddress returns the pods and the lines of the Corefile with a nameserver in the network of the Services that
// no Service has. The API does not always have the size of that network; it is at least the 256 addresses around a
// Service.
func findDeadAddress(v *view) (hits []hit) {
	taken, networks := v.serviceAddresses()
	isDead := func(text string) bool { // an address that kubelets give to pods has a check of its own
		a, ok := addressOf(text)
		return ok && networks[around(a)] && !taken[a] && !slices.Contains(v.clusterDNS, a) && !v.isNodeCacheAddress(a)
	}
	for _, p := range v.inScope() {
		if v.isLate() {
			return nil
		}
		if c := p.Spec.DNSConfig; c != nil && slices.ContainsFunc(c.Nameservers, isDead) {
			hits = append(hits, found(podObject(p), "a nameserver is in the network of the Services, and no Service has it",
				"spec.dnsConfig.nameservers: "+strings.Join(c.Nameservers, ", ")))
		}
	}
	if v.corefile == nil {
		return hits
	}
	for _, f := range v.corefile.find("forward") {
		if slices.ContainsFunc(f.Args[min(1, len(f.Args)):], isDead) {
			hits = append(hits, v.corefileHit("it forwards to the network of the Services, and no Service has the address", f.evidence()))
		}
	}
	return hits
}

// serviceAddresses returns the addresses of Services, and the 256 addresses around each.
func (v *view) serviceAddresses() (taken map[netip.Addr]bool, networks map[netip.Prefix]bool) {
	taken, networks = map[netip.Addr]bool{}, map[netip.Prefix]bool{}
	for i := range v.Services {
		for _, text := range v.Services[i].Spec.ClusterIPs {
			if a, err := netip.ParseAddr(text); err == nil {
				taken[a], networks[around(a)] = true, true
			}
		}
	}
	return taken, networks
}

// around returns the 256 addresses around a.
func around(a netip.Addr) netip.Prefix {
	p, _ := a.Prefix(a.BitLen() - 8)
	return p
}

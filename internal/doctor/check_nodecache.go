// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// needNodeCacheFiles are the ConfigMaps that the pods of node caches mount.
func needNodeCacheFiles(v *view) (why string, ok bool) {
	for _, d := range v.nodeCaches {
		why = cmp.Or(why, v.unreadConfigMap(MountedConfigMaps(d.Namespace, &d.Spec.Template.Spec)...))
	}
	return why, why == ""
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
// Corefile, the arguments, and the Service that they name; and what the cluster DNS lacks to answer in their place.
func findNodeCacheSettings(v *view) (hits []hit) {
	for _, d := range v.nodeCaches {
		o := object{"DaemonSet", d.Namespace, d.Name}
		for _, c := range d.Spec.Template.Spec.Containers {
			args := strings.Join(slices.Concat(c.Command, c.Args), " ")
			if line := placeholderLine(args); line != "" {
				hits = append(hits, found(o, "its installer left a placeholder", "container "+c.Name+": "+line))
			}
			_, after, _ := strings.Cut(strings.ReplaceAll(args, "=", " "), "-upstreamsvc ")
			if name, _, _ := strings.Cut(after, " "); name != "" && v.services[d.Namespace+"/"+name] == nil {
				hits = append(hits, found(o, "there is no Service "+d.Namespace+"/"+name, "container "+c.Name+": -upstreamsvc "+name))
			}
		}
		for _, name := range MountedConfigMaps(d.Namespace, &d.Spec.Template.Spec) {
			if c := v.configMap(name); c != nil {
				hits = append(hits, nodeCorefile(c)...)
			}
		}
	}
	return append(hits, findHostSuffixes(v)...)
}

// findHostSuffixes returns the configuration of a cluster DNS that does not append the search domains of the nodes, as a node
// cache does for pods with autopath.
func findHostSuffixes(v *view) []hit {
	config, suffixes := v.dnsConfiguration()
	pod := v.autopathPod()
	domains, _ := v.nodeSearches()
	missing := slices.DeleteFunc(slices.Clone(domains), func(domain string) bool { return slices.Contains(suffixes, domain) })
	if config == nil || pod == nil || len(missing) == 0 {
		return nil
	}
	h := found(object{"ConfigMap", config.Namespace, config.Name}, "hostSuffixes lacks search domains of the nodes",
		"hostSuffixes: ["+strings.Join(suffixes, ", ")+"]", "search domains of a node: "+strings.Join(domains, ", "),
		"Pod "+pod.Namespace+"/"+pod.Name+" has the policy "+string(policy.ClusterFirstWithAutopath))
	h.severity = policy.SeverityWarning
	h.cause = "while no node cache answers, pods with autopath query the cluster DNS, which denies the names in these domains"
	h.next = "kubectl -n $NS edit configmap $NAME; set hostSuffixes to the nodes' search domains, and restart the pods"
	return []hit{h}
}

// needNodeSearches are the search domains of nodes, if the cluster DNS has none for its pods with autopath.
func needNodeSearches(v *view) (string, bool) {
	config, suffixes := v.dnsConfiguration()
	if _, isKnown := v.nodeSearches(); isKnown || config == nil || len(suffixes) > 0 || v.autopathPod() == nil {
		return "", true
	}
	return "the search domains of nodes are not known, which pods with autopath need in hostSuffixes: run doctor in a pod", false
}

// dnsConfiguration returns the ConfigMap with the configuration of the project's cluster DNS, and its hostSuffixes in lower
// case; nil: it is another server, or was not read.
func (v *view) dnsConfiguration() (config *corev1.ConfigMap, hostSuffixes []string) {
	for _, p := range v.dnsPods {
		for _, name := range MountedConfigMaps(p.Namespace, &p.Spec) {
			config = v.configMap(name)
			if config == nil {
				continue
			}
			for _, text := range config.Data {
				var c v1alpha1.DNSConfiguration
				js, err := document.LenientJSON([]byte(text))
				if err == nil && document.Decode(js, &c) == nil && c.Kind == v1alpha1.KindDNS {
					return config, normalized(c.HostSuffixes)
				}
			}
		}
	}
	return nil, nil
}

// normalized returns names in lower case, without final dot.
func normalized(names []string) (list []string) {
	for _, name := range names {
		list = append(list, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return list
}

// autopathPod returns a pod in the scope with autopath, nil if there is none.
func (v *view) autopathPod() *corev1.Pod {
	for _, p := range v.inScope() {
		if d := kube.FromPod(p); cmp.Or(d.Override, d.Policy).IsAutopath() {
			return p
		}
	}
	return nil
}

// nodeSearches returns search domains of nodes: in the search list of a pod they follow the domain of the cluster. Lists are in
// the file of this process, if it runs in a pod, and in the kubelets' events about pods without domains of their own.
func (v *view) nodeSearches() (domains []string, isKnown bool) {
	lists := [][]string{resolvconf.Parse(v.OwnFile).Config().Searches}
	for p, e := range v.eventsOf(reasonDNS) {
		_, list, _ := strings.Cut(e.Message, " search line is: ")
		if p.Spec.DNSConfig == nil {
			lists = append(lists, strings.Fields(list))
		}
	}
	for _, list := range lists {
		list = normalized(list)
		if i := slices.Index(list, v.domain); i > 0 && list[i-1] == "svc."+v.domain {
			domains, isKnown = append(domains, list[i+1:]...), true
		}
	}
	slices.Sort(domains)
	return slices.Compact(domains), isKnown
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

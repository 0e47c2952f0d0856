// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/forward"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/zonesync"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// clusterTTL is the TTL of the cluster's records in seconds, that of the command dns.
const clusterTTL = 5

// cluster is the cluster DNS with the names of manifests. It is not changed by a lookup.
type cluster struct {
	zone         *zone.Zone
	search       autopath.Zone
	hostSuffixes []fqdn.Name
	addrs        []netip.Addr      // at which pods query it
	upstream     []upstream.Server // none: names outside the cluster are not asked for
	catalog      *catalog          // set by load
}

// newCluster returns the cluster DNS of a node without names. Below the autopath suffix
// it searches the domains of host. In a cluster these are configured at the cluster DNS,
// which does not have the node's file.
func newCluster(n policy.Node, host resolvconf.File, servers []upstream.Server) (*cluster, error) {
	suffixes := forward.HostSuffixes(hostresolv.Snapshot{File: host}, slog.New(slog.DiscardHandler))
	c := &cluster{
		addrs: slices.Clone(n.ClusterDNS), upstream: servers,
		hostSuffixes: suffixes[:min(len(suffixes), dnsserver.MaxHostSuffixes)],
	}
	if a := n.Autopath.NodeCache; a.IsValid() { // it queries the cluster DNS
		c.addrs = appendNew(c.addrs, a)
	}
	domain, err := fqdn.ParseName(n.ClusterDomain)
	if err != nil || domain == fqdn.Root {
		return nil, errors.New("no cluster domain configured: set --cluster-domain or --server")
	}
	suffix, err := fqdn.ParseName(autopathSuffix(n))
	if err != nil {
		return nil, fmt.Errorf("autopath suffix %q %w", n.Autopath.Suffix, err)
	}
	if c.search, err = autopath.NewZone(suffix, domain); err != nil {
		return nil, fmt.Errorf("autopath: %w", err)
	}
	if c.zone, err = zone.New(zone.Config{Domain: domain, Pods: zone.PodsInsecure, Local: c.addrs}); err != nil {
		return nil, err
	}
	return c, nil
}

func autopathSuffix(n policy.Node) string {
	return cmp.Or(n.Autopath.Suffix, policy.DefaultAutopathSuffix)
}

// load adds the names of m. namespace is that of objects without one; complete is
// Config.Complete. The error joins those of the objects that were skipped.
func (c *cluster) load(m kube.Manifest, namespace string, complete bool) error {
	objects, err := zonesync.DecodeManifest(m, namespace)
	c.catalog = newCatalog(c.search.Domain.String(), objects, complete)
	manifests := []zonesync.Manifest{objects}
	if !complete {
		api, invalid := c.apiService()
		err = errors.Join(err, invalid)
		manifests = []zonesync.Manifest{api, objects} // of two Services with one name the last wins
	}
	return errors.Join(err, zonesync.Load(c.zone, c.search.Domain, manifests...))
}

// apiService returns the Service that the API server creates for itself in each cluster. Its
// address is not known, and therefore synthetic; it has the family of the cluster DNS.
func (c *cluster) apiService() (zonesync.Manifest, error) {
	family := corev1.IPv4Protocol
	if len(c.addrs) > 0 && c.addrs[0].Is6() {
		family = corev1.IPv6Protocol
	}
	return zonesync.ParseManifest("each cluster", fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Service",
		"metadata": {"name": "kubernetes", "namespace": "default"},
		"spec": {"ipFamilies": [%q], "ports": [{"name": "https", "port": 443}]}}`, family))
}

// serves reports whether a nameserver is the cluster DNS.
func (c *cluster) serves(server netip.Addr) bool { return slices.Contains(c.addrs, server) }

// candidates returns the names that the cluster DNS tries for a query, in order: the name
// itself and, below the autopath suffix, those of its search list.
func (c *cluster) candidates(name string) []string {
	list := []string{dns.CanonicalName(name)}
	n, err := fqdn.ParseName(name)
	if err != nil {
		return list
	}
	if place, r := c.search.Parse(n); place == autopath.Search {
		list = append(list, texts(c.search.Candidates(r.Name, c.search.SearchPaths(r.Namespace, c.hostSuffixes)))...)
	}
	return list
}

// hasSearchList reports whether a name is below the autopath suffix.
func (c *cluster) hasSearchList(name string) bool { return len(c.candidates(name)) > 1 }

// sortForwarded sorts the questions that the cluster DNS forwards for a query by
// candidate, because an expansion sends them at once. If one of them is for the target of
// an alias, only the questions for that target are returned: the server does not look
// further before it has resolved the alias.
func (c *cluster) sortForwarded(name string, questions []dns.Question) (list []dns.Question, alias bool) {
	candidates := c.candidates(name)
	rank := func(q dns.Question) int { return slices.Index(candidates, q.Name) }
	if i := slices.IndexFunc(questions, func(q dns.Question) bool { return rank(q) < 0 }); i >= 0 {
		target := questions[i].Name
		return slices.DeleteFunc(questions, func(q dns.Question) bool { return q.Name != target }), true
	}
	slices.SortFunc(questions, func(a, b dns.Question) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Qtype, b.Qtype))
	})
	return questions, false
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

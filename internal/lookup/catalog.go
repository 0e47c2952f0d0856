// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// catalog has the objects of manifests by name. It gives the reason why a name of the cluster
// does not exist, and whether the manifests decide that at all: they often describe one
// application.
type catalog struct {
	suffix     string // such as ".svc.cluster.local."
	complete   bool   // the manifests are the whole cluster
	namespaces map[string]bool
	services   map[string]map[string]cluster.Service // by namespace and name
	pods       []kube.Workload
}

func newCatalog(domain string, m cluster.Manifest, complete bool) *catalog {
	c := &catalog{
		suffix: ".svc." + dns.CanonicalName(domain), complete: complete,
		namespaces: map[string]bool{}, services: map[string]map[string]cluster.Service{}, pods: m.Pods(),
	}
	for _, n := range m.Namespaces() {
		c.namespaces[n] = true
	}
	for _, s := range m.Services() {
		if c.services[s.Namespace] == nil {
			c.services[s.Namespace] = map[string]cluster.Service{}
		}
		c.services[s.Namespace][s.Name] = s
	}
	return c
}

// absence is the reason why a name does not exist.
type absence struct {
	name, reason string
	unknown      bool // the name may exist: the manifests lack the objects that decide it
}

// explain returns why a name that the manifests do not have does not exist. The reason is ""
// if no object could have the name.
func (c *catalog) explain(name string) absence {
	name = dns.CanonicalName(name)
	a := absence{name: name}
	service, ok := strings.CutSuffix(name, c.suffix)
	labels := strings.Split(service, ".")
	n := len(labels)
	isPort := n == 4 && labels[0][:min(1, len(labels[0]))] == "_" && labels[1][:min(1, len(labels[1]))] == "_"
	if !ok || n != 2 && n != 3 && !isPort {
		return a
	}
	a.reason, a.unknown = c.explainService(labels[:n-2], labels[n-2], labels[n-1])
	a.unknown = a.unknown && !c.complete
	if n == 3 {
		a.reason += c.otherService(labels[0], labels[1], labels[2])
	}
	return a
}

// otherService returns the Service that has the name of a pod, if it is another one; "": this one, or there is no such
// pod.
func (c *catalog) otherService(pod, service, namespace string) string {
	for _, w := range c.pods {
		w, ok := named(w, namespace+"/"+pod)
		if name := w.Pod.Spec.Subdomain; ok && name != "" && name != service {
			field := "subdomain"
			if w.Kind == "StatefulSet" {
				field = "serviceName"
			}
			return fmt.Sprintf("; %s %s has the %s %s", w.Kind, w.Name, field, name)
		}
	}
	return ""
}

// inEveryCluster are Services that manifests of applications never contain. The names of the
// first are loaded, see load, but not the names of its endpoints.
var inEveryCluster = []string{"default/kubernetes", "kube-system/kube-dns"}

// explainService is explain for the labels before the name of a Service.
func (c *catalog) explainService(labels []string, name, namespace string) (reason string, unknown bool) {
	services := c.services[namespace]
	s, exists := services[name]
	switch full := namespace + "/" + name; {
	case exists:
		return c.explainEndpoint(s, labels)
	case c.complete && services == nil && !c.namespaces[namespace]:
		return fmt.Sprintf("namespace %s does not exist", namespace), false
	case c.complete:
		return fmt.Sprintf("no Service %s in namespace %s", name, namespace), false
	case slices.Contains(inEveryCluster, full):
		return fmt.Sprintf("Service %s of the cluster is not in the manifests", full), true
	case services != nil:
		return fmt.Sprintf("no Service %s in namespace %s", name, namespace), false
	case c.namespaces[namespace]:
		return fmt.Sprintf("no Service of namespace %s is in the manifests", namespace), true
	}
	return fmt.Sprintf("namespace %s is not in the manifests", namespace), true
}

// explainEndpoint is explain for the labels before the name of a Service of the manifests:
// none, the host name of a pod, or a port and its protocol.
func (c *catalog) explainEndpoint(s cluster.Service, labels []string) (reason string, unknown bool) {
	full := "Service " + s.Namespace + "/" + s.Name
	headless := s.IsHeadless()
	isNear := func(w kube.Workload) bool { return w.Namespace == s.Namespace }
	switch isEmpty := headless && !s.HasSlices && !slices.ContainsFunc(c.pods, s.Selects); {
	case headless && !s.HasSlices && len(s.Spec.Selector) == 0:
		return full + " is headless, and has neither a selector nor an EndpointSlice", false
	case isEmpty && c.complete:
		return full + " is headless, and selects no pod", false
	case isEmpty && !slices.ContainsFunc(c.pods, isNear):
		return fmt.Sprintf("%s is headless, and no pod of namespace %s is in the manifests", full, s.Namespace), true
	case isEmpty:
		return full + " is headless, and selects no pod of the manifests", false
	case len(labels) == 2:
		return fmt.Sprintf("%s has no port %s over %s", full, labels[0][1:], labels[1][1:]), false
	case len(labels) == 1 && !headless:
		return full + " is not headless: it has no names of pods", false
	case len(labels) == 1:
		return fmt.Sprintf("%s selects no pod with hostname %s and subdomain %s", full, labels[0], s.Name), false
	}
	if headless {
		return full + " has no ready endpoint", false
	}
	return "", false // it has an address or an alias
}

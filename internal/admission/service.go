// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// The codes of the findings about Services, and about pods that need one.
const (
	CodeServiceMissing      policy.Code = "service-missing"
	CodeServiceNotHeadless  policy.Code = "service-not-headless"
	CodeSelectorNoMatch     policy.Code = "selector-matches-nothing"
	CodeInvalidServiceName  policy.Code = "invalid-service-name"
	CodeInvalidExternalName policy.Code = "invalid-external-name"
	CodeExternalNameAddress policy.Code = "external-name-address"
)

// Service is a Service of manifests.
type Service struct {
	Namespace, Name string
	File            string // in which it is; "": not known
	Path            string // of the Service in the document, such as "items[2]."
	Headless        bool
	SelectsNothing  bool // it has a selector, but selects none of the pods of its namespace

	IsExternalName bool
	ExternalName   string
}

// CheckService returns the findings in s: what the API server refuses (validation.go,
// ValidateService), and what leaves the name without addresses.
func CheckService(s Service) []policy.Finding {
	c := newCheck(&Object{})
	// Newer API servers accept a digit at the start (RelaxedServiceNameValidation).
	c.refuseLabel(CodeInvalidServiceName, s.Path+"metadata.name", "the name of the Service", s.Name)
	if s.IsExternalName {
		c.checkExternalName(s.Path+"spec.externalName", strings.TrimSuffix(s.ExternalName, "."))
	}
	if s.Headless && s.SelectsNothing {
		c.warn(CodeSelectorNoMatch, policy.EnforcedByDNSConfigurer, s.Path+"spec.selector",
			"the headless Service selects no pod of the input: its name does not resolve",
			"compare the selector with the labels of the pods")
	}
	return c.findings
}

func (c *check) checkExternalName(field, name string) {
	_, notAddress := netip.ParseAddr(name)
	switch {
	case name == "":
		c.refuse(CodeInvalidExternalName, field, "a Service of type ExternalName without externalName", "set it to the name of a host")
	case fqdn.SubdomainProblems(name) != nil:
		c.refuse(CodeInvalidExternalName, field, fmt.Sprintf("externalName %q is not a DNS subdomain", clip(name)),
			"give the name of a host, without scheme, port and path")
	case notAddress == nil:
		c.warn(CodeExternalNameAddress, policy.EnforcedByDNSConfigurer, field,
			fmt.Sprintf("externalName %s is an address: the Service is an alias of a name that does not exist", name),
			"use a headless Service with an EndpointSlice")
	}
}

// CheckServices returns, for each object, the findings that follow from the Services: the DNS
// has names of pods only for a headless Service with the name of their subdomain. Namespaces
// without a Service are not checked, as their Services are probably in another input. Of several Services with
// one name, such as those of overlays, the nearest in the tree of files counts.
func CheckServices(objects []Object, services []Service) [][]policy.Finding {
	byName := map[string]map[string][]Service{}
	for _, s := range services {
		if byName[s.Namespace] == nil {
			byName[s.Namespace] = map[string][]Service{}
		}
		byName[s.Namespace][s.Name] = append(byName[s.Namespace][s.Name], s)
	}
	findings := make([][]policy.Finding, len(objects))
	for i, o := range objects {
		c, known := newCheck(&o), byName[o.Pod.Namespace]
		switch problem, _ := labelProblem(o.Pod.Subdomain); {
		case o.Pod.Subdomain == "" && o.Kind == kindStatefulSet:
			c.warn(CodeServiceMissing, policy.EnforcedByDNSConfigurer, c.o.subdomainField(),
				"no serviceName: the pods have no names in the DNS", "set it to the name of a headless Service")
		case known != nil && o.Pod.Subdomain != "" && problem == "":
			c.checkSubdomain(known[o.Pod.Subdomain])
		}
		findings[i] = c.findings
	}
	return findings
}

// distance returns the number of directories between two files.
func distance(a, b string) int {
	from, to := strings.Split(a, "/"), strings.Split(b, "/")
	common := 0
	for common < min(len(from), len(to))-1 && from[common] == to[common] {
		common++
	}
	return len(from) + len(to) - 2*common
}

// checkSubdomain warns of the nearest of the Services with the name of the pods' subdomain. Of two that are as near,
// the headless one counts: the other is probably of another overlay.
func (c *check) checkSubdomain(services []Service) {
	name, field := c.o.Pod.Namespace+"/"+c.o.Pod.Subdomain, c.o.subdomainField()
	nearest, note := Service{}, ""
	for i, s := range services {
		was, is := distance(c.o.File, nearest.File), distance(c.o.File, s.File)
		if i == 0 || is < was || is == was && s.Headless {
			nearest = s
		}
	}
	if len(services) > 1 {
		note = fmt.Sprintf("; of %d such Services that in %s is the nearest", len(services), clip(nearest.File))
	}
	switch {
	case nearest.Headless:
	case len(services) > 0:
		c.warn(CodeServiceNotHeadless, policy.EnforcedByDNSConfigurer, field,
			fmt.Sprintf("Service %s is not headless: the names of the pods do not resolve%s", name, note),
			"set clusterIP: None in the Service")
	default:
		c.warn(CodeServiceMissing, policy.EnforcedByDNSConfigurer, field,
			fmt.Sprintf("no Service %s in the input: the names of the pods do not resolve", name),
			"add a headless Service, or correct the name")
	}
}

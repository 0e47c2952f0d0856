// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// marker is the label between the name and the namespace.
const marker = "search"

// Zone is the set of names that request an expansion:
//
//	NAME.search.NAMESPACE.DOMAIN.SUFFIX
//
// The zero Zone contains no name. A Zone is immutable.
type Zone struct {
	Suffix fqdn.Name // autopath domain, such as ap.k8s.io
	Domain fqdn.Name // cluster domain

	base fqdn.Name // Domain below Suffix
}

// NewZone returns the zone of a cluster. It returns an error if the zone would contain the
// names of the cluster, or leave no room for a name.
func NewZone(suffix, domain fqdn.Name) (Zone, error) {
	for _, n := range []fqdn.Name{suffix, domain} {
		if n == "" || n == fqdn.Root {
			return Zone{}, errors.New("suffix and cluster domain must not be empty or the root")
		}
	}
	if _, within := domain.Within(suffix); within {
		return Zone{}, fmt.Errorf("cluster domain %v is below the suffix %v: its names could not be resolved", domain, suffix)
	}
	base, ok := join(domain, suffix)
	shortest := len("\x01x") + 1 + len(marker) + len("\x01x")
	if !ok || len(base)+shortest > fqdn.MaxWire {
		return Zone{}, fmt.Errorf("cluster domain %v and suffix %v leave no room for a name", domain, suffix)
	}
	return Zone{Suffix: suffix, Domain: domain, base: base}, nil
}

// Kind is the kind of a name in a Zone.
type Kind uint8

// The kinds. They do not depend on the query type (RFC 8020). The form of a name is that of
// Zone.
const (
	NotInZone        Kind = iota
	Malformed             // it has another form: NXDOMAIN, and so are all names below it
	EmptyNonTerminal      // names of the form are below it
	Search                // it has the form: the expansion determines whether it exists
)

// Request is the expansion that a name requests.
type Request struct {
	Name      fqdn.Name // to expand
	Namespace string    // a label in lower case; the namespace need not exist
}

// Parse returns the kind of a name, and the request of a [Search].
func (z Zone) Parse(name fqdn.Name) (Kind, Request) {
	if _, ok := name.Within(z.Suffix); !ok {
		return NotInZone, Request{}
	}
	below, ok := name.Within(z.base)
	if !ok {
		if _, above := z.base.Within(name); above {
			return EmptyNonTerminal, Request{}
		}
		return Malformed, Request{}
	}
	var last, before string // labels
	n := 0
	for rest := below; rest != ""; n++ {
		before = last
		last, rest = rest.Cut()
	}
	switch {
	case n < 2:
		return EmptyNonTerminal, Request{}
	case before != marker:
		return Malformed, Request{}
	case n == 2:
		return EmptyNonTerminal, Request{}
	}
	requested := below[:len(below)-(1+len(before))-(1+len(last))] + fqdn.Root
	return Search, Request{Name: requested, Namespace: last}
}

// SearchPaths returns the search list of a pod with the policy ClusterFirst: namespace,
// Services, cluster, and the host's domains. The namespace must come from [Zone.Parse], so
// that all names are short enough.
func (z Zone) SearchPaths(namespace string, host []fqdn.Name) []fqdn.Name {
	services := fqdn.Join(z.Domain, "svc")
	return append([]fqdn.Name{fqdn.Join(services, namespace), services, z.Domain}, host...)
}

// Candidates returns the names to try, in order and without duplicates: name below each path,
// then name itself. Names that are too long or in the zone are left out: an expansion must
// not lead to another one. The root has no candidates.
func (z Zone) Candidates(name fqdn.Name, paths []fqdn.Name) []fqdn.Name {
	if name == fqdn.Root || name == "" {
		return nil
	}
	list := make([]fqdn.Name, 0, len(paths)+1)
	add := func(candidate fqdn.Name) {
		if _, inZone := candidate.Within(z.Suffix); !inZone && !slices.Contains(list, candidate) {
			list = append(list, candidate)
		}
	}
	for _, p := range paths {
		if p == fqdn.Root {
			continue // as a search domain it means the name itself
		}
		if candidate, ok := join(name, p); ok {
			add(candidate)
		}
	}
	add(name)
	return list
}

// join returns name below parent. It reports false if the result is too long.
func join(name, parent fqdn.Name) (fqdn.Name, bool) {
	joined := name[:len(name)-len(fqdn.Root)] + parent
	return joined, len(joined) <= fqdn.MaxWire
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// marker is the label between the name that is looked for and the namespace.
const marker = "search"

// Zone is the names by which pods ask for an expansion:
//
//	NAME.search.NAMESPACE.DOMAIN.SUFFIX
//
// The zero Zone has no name. It is safe for any number of goroutines.
type Zone struct {
	Suffix fqdn.Name // ap.k8s.io, for one
	Domain fqdn.Name // the cluster's

	base fqdn.Name // Domain and Suffix in one
}

// NewZone returns the zone of a cluster. It is an error if the names of the cluster
// would lie in it, or no name have room.
func NewZone(suffix, domain fqdn.Name) (Zone, error) {
	for _, n := range []fqdn.Name{suffix, domain} {
		if n == "" || n == fqdn.Root {
			return Zone{}, errors.New("a suffix and the cluster's domain must be there, and not be the root")
		}
	}
	if _, within := domain.Within(suffix); within {
		return Zone{}, fmt.Errorf("the cluster's domain %v is in %v: its names could not be asked for", domain, suffix)
	}
	base, ok := join(domain, suffix)
	shortest := len("\x01x") + 1 + len(marker) + len("\x01x")
	if !ok || len(base)+shortest > fqdn.MaxWire {
		return Zone{}, fmt.Errorf("%v and %v together leave no room for a name", domain, suffix)
	}
	return Zone{Suffix: suffix, Domain: domain, base: base}, nil
}

// Kind is what a name is in a Zone.
type Kind uint8

// The kinds. Each name has one, whatever is asked of it (RFC 8020).
const (
	NotInZone        Kind = iota // not in the zone
	Malformed                    // in the zone, and no such name: nothing below it either
	EmptyNonTerminal             // a name, only because others are below it, or the zone's own
	Search                       // a name to expand; whether it exists is known after the walk
)

// Request is what a name asks for.
type Request struct {
	Name      fqdn.Name // to look for
	Namespace string    // a label, in lower case, that may be no namespace's
}

// Parse finds the kind of a name, and what it asks for if that is [Search].
func (z Zone) Parse(name fqdn.Name) (Kind, Request) {
	if _, ours := name.Within(z.Suffix); !ours {
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
	asked := below[:len(below)-(1+len(before))-(1+len(last))] + fqdn.Root
	return Search, Request{Name: asked, Namespace: last}
}

// SearchPaths are the domains in which a pod of a namespace looks for names, as with the
// policy ClusterFirst: the namespace, the Services, the cluster, and then the host's.
// The namespace is one that [Zone.Parse] found, so that all fit into a name.
func (z Zone) SearchPaths(namespace string, host []fqdn.Name) []fqdn.Name {
	services := fqdn.Join(z.Domain, "svc")
	return append([]fqdn.Name{fqdn.Join(services, namespace), services, z.Domain}, host...)
}

// Candidates are the names to try, the first one first: name below each path, and then
// name itself. Each comes once. Left out is what would be too long for a name, and
// what is in the zone: an expansion does not lead to another. The root has none, for
// nobody looks for it.
func (z Zone) Candidates(name fqdn.Name, paths []fqdn.Name) []fqdn.Name {
	if name == fqdn.Root || name == "" {
		return nil
	}
	list := make([]fqdn.Name, 0, len(paths)+1)
	add := func(candidate fqdn.Name) {
		if _, ours := candidate.Within(z.Suffix); !ours && !slices.Contains(list, candidate) {
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

// join returns name below parent, if that is not too long.
func join(name, parent fqdn.Name) (fqdn.Name, bool) {
	joined := name[:len(name)-len(fqdn.Root)] + parent
	return joined, len(joined) <= fqdn.MaxWire
}

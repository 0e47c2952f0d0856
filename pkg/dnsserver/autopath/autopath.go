// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Suffix is the autopath domain, ap.k8s.io (KEP-2009).
const Suffix fqdn.Name = "\x02ap\x03k8s\x02io\x00"

// marker is the label between the name and the namespace.
const marker = "search"

// Zone is the set of names that request an expansion:
//
//	NAME.search.NAMESPACE.DOMAIN.ap.k8s.io
//
// A Zone is immutable.
type Zone struct {
	Domain fqdn.Name // of the cluster

	base fqdn.Name // Domain below Suffix
}

// NewZone returns the zone of a cluster. It returns an error if the zone would contain the
// names of the cluster, or leave no room for a name.
func NewZone(domain fqdn.Name) (Zone, error) {
	if domain == "" || domain == fqdn.Root {
		return Zone{}, errors.New("cluster domain must not be empty or the root")
	}
	if _, within := domain.Within(Suffix); within {
		return Zone{}, fmt.Errorf("cluster domain %v is below the suffix %v: its names could not be resolved", domain, Suffix)
	}
	base, ok := join(domain, Suffix)
	shortest := len("\x01x") + 1 + len(marker) + len("\x01x")
	if !ok || len(base)+shortest > fqdn.MaxWire {
		return Zone{}, fmt.Errorf("cluster domain %v and suffix %v leave no room for a name", domain, Suffix)
	}
	return Zone{Domain: domain, base: base}, nil
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
	if _, ok := name.Within(Suffix); !ok {
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
		if _, inZone := candidate.Within(Suffix); !inZone && !slices.Contains(list, candidate) {
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

// Option is the code of the EDNS0 option SearchPaths. The option has no assigned code. It uses one of the codes
// for local use (RFC 6891 section 9).
const Option = 65313

// Limits of the option. They are those of resolv.conf in Kubernetes, so that the search list
// of every pod fits.
const (
	MaxPaths = 32   // domains
	MaxText  = 2048 // octets, commas included
)

// Encode returns the value of the option: the domains as text without the final dot,
// separated by commas. It returns an error if there are none or too many.
func Encode(paths []fqdn.Name) ([]byte, error) {
	if len(paths) == 0 || len(paths) > MaxPaths {
		return nil, fmt.Errorf("search list has %d domains: want 1 to %d", len(paths), MaxPaths)
	}
	var value []byte
	for i, p := range paths {
		if p == "" {
			return nil, fmt.Errorf("domain %d of the search list is empty", i+1)
		}
		text := p.String()
		if p != fqdn.Root {
			text = strings.TrimSuffix(text, ".")
		}
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, strings.ReplaceAll(text, ",", `\044`)...) // a comma in a label
	}
	if len(value) > MaxText {
		return nil, fmt.Errorf("search list has %d octets: the limit is %d", len(value), MaxText)
	}
	return value, nil
}

// Decode parses the value of the option. Names may be in any case and with a final dot; they
// are returned in lower case. A server ignores an option that is invalid.
func Decode(value []byte) ([]fqdn.Name, error) {
	switch {
	case len(value) == 0:
		return nil, errors.New("no domain")
	case len(value) > MaxText:
		return nil, fmt.Errorf("%d octets: the limit is %d", len(value), MaxText)
	}
	if i := bytes.IndexFunc(value, func(r rune) bool { return r < '!' || r > '~' }); i >= 0 {
		return nil, fmt.Errorf("octet %d is not printable ASCII", i+1)
	}
	n := bytes.Count(value, []byte(",")) + 1
	if n > MaxPaths {
		return nil, fmt.Errorf("%d domains: the limit is %d", n, MaxPaths)
	}
	paths := make([]fqdn.Name, 0, n)
	for text := range strings.SplitSeq(string(value), ",") {
		name, err := fqdn.ParseName(text)
		if err != nil {
			return nil, fmt.Errorf("domain %d %w", len(paths)+1, err)
		}
		paths = append(paths, name)
	}
	return paths, nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// limitFields returns the rows of limits. at returns the section, and where its parsed values are
// stored.
func limitFields[C any](at func(*C) (*v1alpha1.Limits, *dnsserver.Limits)) []Field[C] {
	return []Field[C]{
		{
			Path: "limits.maxQueries", Restart: true,
			At: func(c *C) any { section, _ := at(c); return &section.MaxQueries },
			Check: func(c *C) error {
				section, parsed := at(c)
				n := cmp.Or(section.MaxQueries, dnsserver.DefaultMaxQueries)
				section.MaxQueries, parsed.MaxQueries = n, n
				if n < dnsserver.MinQueries || n > dnsserver.MaxQueries {
					return fmt.Errorf("%d: want %d to %d", n, dnsserver.MinQueries, dnsserver.MaxQueries)
				}
				return nil
			},
		},
		{
			Path: "limits.maxMemory", Restart: true,
			At: func(c *C) any { section, _ := at(c); return &section.MaxMemory },
			Check: func(c *C) error {
				section, parsed := at(c)
				section.MaxMemory = cmp.Or(section.MaxMemory, octets(dnsserver.DefaultMaxMemory))
				q, err := resource.ParseQuantity(section.MaxMemory)
				if err != nil {
					return fmt.Errorf("%q is not an amount of memory such as %s", section.MaxMemory, octets(dnsserver.DefaultMaxMemory))
				}
				if n := q.Value(); n < dnsserver.MinMemory || n > dnsserver.MaxMemory {
					return fmt.Errorf("%q: want %s to %s", section.MaxMemory, octets(dnsserver.MinMemory), octets(dnsserver.MaxMemory))
				}
				parsed.MaxMemory = int(q.Value())
				return nil
			},
		},
	}
}

// octets returns an amount of memory in the form of the file.
func octets(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

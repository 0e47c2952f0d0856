// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The rows of settings that several servers have. at returns the setting as it is in the file,
// and where its parsed value is stored.

func httpField[C any](at func(*C) *string) Field[C] {
	return Field[C]{
		Path: "http", Flag: "http", Restart: true, At: func(c *C) any { return at(c) },
		Usage: "`ADDR` of the status page, /metrics, /livez and /readyz; empty: none",
		Check: func(c *C) error { return CheckAddress(*at(c)) },
	}
}

func logFormatField[C any](at func(*C) *string) Field[C] {
	return Field[C]{
		Path: "logFormat", Flag: "log-format", Restart: true, At: func(c *C) any { return at(c) },
		Usage: "`FORMAT` of the log: text or json", Values: []string{"text", "json"},
		Check: func(c *C) error { return setDefault(at(c), v1alpha1.DefaultLogFormat) },
	}
}

func clusterDomainField[C any](at func(*C) (*string, *fqdn.Name)) Field[C] {
	return Field[C]{
		Path: "clusterDomain", Flag: "cluster-domain", RequireFlagValue: true, Restart: true,
		At:    func(c *C) any { text, _ := at(c); return text },
		Usage: "`DOMAIN` of the cluster",
		Check: func(c *C) (err error) {
			text, domain := at(c)
			*domain, err = parseClusterDomain(text)
			return err
		},
	}
}

func upstreamPolicyField[C any](at func(*C) (*string, *upstream.Policy)) Field[C] {
	return Field[C]{
		Path: "upstreamPolicy", Flag: "upstream-policy", At: func(c *C) any { text, _ := at(c); return text },
		Usage:  "`ORDER` in which upstream servers are tried: sequential, random or roundRobin",
		Values: upstream.Policies(),
		Check: func(c *C) error {
			text, policy := at(c)
			*text = cmp.Or(*text, string(upstream.Sequential))
			*policy = upstream.Policy(*text)
			return nil
		},
	}
}

// stubDomainsField has the zones of the cluster from zones.
func stubDomainsField[C any](at func(*C) (*[]v1alpha1.StubDomain, *[]upstream.StubDomain), zones func(*C) clusterZones) Field[C] {
	return Field[C]{
		Path: "stubDomains", Flag: "stub-domain", At: func(c *C) any { stubs, _ := at(c); return stubs },
		Usage: "`ZONE=ADDR,..`: a domain with servers of its own; repeatable",
		Check: func(c *C) (err error) {
			stubs, parsed := at(c)
			*parsed, err = parseStubDomains(*stubs, zones(c))
			return err
		},
	}
}

// specialUseField is true by default.
func specialUseField[C any](at func(*C) (**bool, *bool)) Field[C] {
	return Field[C]{
		Path: "localNames.specialUse", Restart: true, At: func(c *C) any { value, _ := at(c); return value },
		Check: func(c *C) error {
			value, parsed := at(c)
			if *value == nil {
				*value = new(true)
			}
			*parsed = **value
			return nil
		},
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// maxConnections is the most TCP connections that a server may have open. Each takes 10 kB and
// a file descriptor.
const maxConnections = 65535

// mebibyte is the unit of the limits of memory.
const mebibyte = 1 << 20

// maxRate is the highest limit of queries per second: more than a server answers.
const maxRate = 1_000_000

// The smallest and the largest cache. An eviction may visit all entries.
const (
	minCacheEntries = 100
	maxCacheEntries = 1_000_000
	maxCacheMiB     = 1024
)

// A limit describes a number in the section "limits".
type limit struct {
	name         string
	defaultValue int
	least, most  int
}

var (
	limitConcurrent  = limit{"maxConcurrent", dnsserver.DefaultMaxConcurrent, dnsserver.MinConcurrent, dnsserver.MaxConcurrent}
	limitNode        = limit{"maxConcurrent", dnsserver.DefaultNodeMaxConcurrent, dnsserver.MinConcurrent, dnsserver.MaxConcurrent}
	limitCluster     = limit{"clusterShare", dnsserver.DefaultClusterShare, 1, dnsserver.MaxShares}
	limitReverse     = limit{"reverseShare", dnsserver.DefaultReverseShare, 1, dnsserver.MaxShares}
	limitSearch      = limit{"searchShare", dnsserver.DefaultSearchShare, 1, dnsserver.MaxShares}
	limitSearchRate  = limit{"searchRate", dnsserver.DefaultSearchRate, 1, maxRate}
	limitSearchBurst = limit{"searchBurst", dnsserver.DefaultSearchBurst, dnsserver.MinSearchBurst, maxRate}
	limitConnections = limit{"maxConnections", dnsserver.DefaultMaxConnections, 1, maxConnections}
	limitClient      = limit{"maxClientConnections", dnsserver.DefaultMaxClientConnections, 1, maxConnections}
	limitTCP         = limit{"maxTCPQueries", dnsserver.DefaultMaxTCPQueries, dnsserver.MinConcurrent, dnsserver.MaxConcurrent}
	limitStream      = limit{"maxConnectionQueries", dnsserver.DefaultMaxConnectionQueries, 1, dnsserver.MaxConcurrent}
	limitReplies     = limit{"maxReplyMiB", dnsserver.DefaultMaxReplyOctets / mebibyte, 1, dnsserver.MaxReplyOctets / mebibyte}
	limitUnread      = limit{"maxClientReplyMiB", dnsserver.DefaultMaxClientReplyOctets / mebibyte, 1, dnsserver.MaxReplyOctets / mebibyte}
	limitEntries     = limit{"maxCacheEntries", cache.DefaultMaxEntries, minCacheEntries, maxCacheEntries}
	limitCache       = limit{"maxCacheMiB", cache.DefaultMaxBytes / mebibyte, 1, maxCacheMiB}
)

// serverLimitFields returns the rows of the ServerLimits that at returns. check checks the sum of
// the shares.
func serverLimitFields[C any](at func(*C) *v1alpha1.ServerLimits, check func(*C) error) []Field[C] {
	return []Field[C]{
		limitField(limitReverse, func(c *C) *int { return &at(c).ReverseShare }, nil),
		limitField(limitSearch, func(c *C) *int { return &at(c).SearchShare }, check),
		limitField(limitSearchRate, func(c *C) *int { return &at(c).SearchRate }, nil),
		limitField(limitSearchBurst, func(c *C) *int { return &at(c).SearchBurst }, nil),
		limitField(limitConnections, func(c *C) *int { return &at(c).MaxConnections }, nil),
		limitField(limitClient, func(c *C) *int { return &at(c).MaxClientConnections }, nil),
		limitField(limitTCP, func(c *C) *int { return &at(c).MaxTCPQueries }, nil),
		limitField(limitStream, func(c *C) *int { return &at(c).MaxConnectionQueries }, nil),
		limitField(limitReplies, func(c *C) *int { return &at(c).MaxReplyMiB }, nil),
		limitField(limitUnread, func(c *C) *int { return &at(c).MaxClientReplyMiB }, nil),
		limitField(limitEntries, func(c *C) *int { return &at(c).MaxCacheEntries }, nil),
		limitField(limitCache, func(c *C) *int { return &at(c).MaxCacheMiB }, nil),
	}
}

// limitField returns the row of a limit. check checks it with other fields; nil: it needs no
// other one.
func limitField[C any](l limit, at func(*C) *int, check func(*C) error) Field[C] {
	return Field[C]{
		Path: "limits." + l.name, Restart: true, At: func(c *C) any { return at(c) },
		Check: func(c *C) error {
			value := at(c)
			*value = cmp.Or(*value, l.defaultValue)
			if *value < l.least || *value > l.most {
				return fmt.Errorf("%d: want %d to %d", *value, l.least, l.most)
			}
			if check == nil {
				return nil
			}
			return check(c)
		},
	}
}

// checkShares checks the sum of the shares of all kinds of work.
func checkShares(shares ...int) error {
	sum := 0
	for _, s := range shares {
		sum += s
	}
	if sum > dnsserver.MaxShares {
		return fmt.Errorf("the shares are %d %% together: want at most %d %%", sum, dnsserver.MaxShares)
	}
	return nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

const (
	// clusterInterval is the time between two queries that check the cluster DNS: 500
	// queries a second in a cluster of 5,000 nodes.
	clusterInterval = 10 * time.Second

	// clusterRetry is the time to the next query after a failed one. The first reply ends the
	// backoff of the server, and stale answers are then renewed.
	clusterRetry = time.Second
)

// A clusterCheck queries the cluster DNS for the SOA record of the cluster domain. Only this
// query decides about readiness: queries of pods may fail for other reasons, such as reverse
// names whose servers do not answer.
type clusterCheck struct {
	exchange dnsserver.Exchange // of the cluster DNS
	domain   fqdn.Name

	mu      sync.Mutex
	checked bool
	err     error // of the last query
}

// run sends a query every clusterInterval, and sooner after a failure, until ctx ends.
func (c *clusterCheck) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.query(ctx)
		if ctx.Err() != nil {
			break
		}
		c.mu.Lock()
		c.checked, c.err = true, err
		c.mu.Unlock()
		if err != nil {
			pause(ctx, clusterRetry)
		} else {
			pause(ctx, clusterInterval)
		}
	}
	return nil
}

// ready returns the error of the last query, or an error before the first one is complete.
func (c *clusterCheck) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.checked:
		return errors.New("no reply of the cluster DNS yet")
	case c.err != nil:
		return fmt.Errorf("no cluster DNS server answers: %w", c.err)
	}
	return nil
}

// query queries the SOA record of the cluster domain. It returns an error unless the rcode of the
// reply is NOERROR.
func (c *clusterCheck) query(ctx context.Context) error {
	reply, err := c.exchange(ctx, new(dns.Msg).SetQuestion(c.domain.String(), dns.TypeSOA))
	if err == nil && reply.Rcode != dns.RcodeSuccess {
		err = fmt.Errorf("%s for %s", dns.RcodeToString[reply.Rcode], c.domain)
	}
	return err
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
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
	last     atomic.Pointer[error] // of the last query; nil: no query is complete
}

// run sends a query every clusterInterval, and sooner after a failure, until ctx ends.
func (c *clusterCheck) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.query(ctx)
		if ctx.Err() != nil {
			break
		}
		c.last.Store(&err)
		if err != nil {
			daemon.Sleep(ctx, clusterRetry)
		} else {
			daemon.Sleep(ctx, clusterInterval)
		}
	}
	return nil
}

// ready returns the error of the last query, or an error before the first one is complete.
func (c *clusterCheck) ready() error {
	switch last := c.last.Load(); {
	case last == nil:
		return errors.New("no reply of the cluster DNS yet")
	case *last != nil:
		return fmt.Errorf("no cluster DNS server answers: %w", *last)
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

// clusterStatus returns the state of each server of the cluster DNS, from its replies to all
// queries.
func clusterStatus(c *upstream.Client) (details []string) {
	for _, server := range c.Status() {
		state := "ok"
		switch {
		case server.Looping:
			state = "forwarding loop: it sends the queries back"
		case server.Down:
			state = "does not answer"
		}
		details = append(details, fmt.Sprintf("cluster DNS %v: %s", server.Server, state))
	}
	return details
}

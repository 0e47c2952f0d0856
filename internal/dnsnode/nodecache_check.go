// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
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

// probeZone contains the names of probes. No other server has them (RFC 6761 section 6.4).
const probeZone = ".node-cache.dnsconfigurer.invalid."

// probeServer identifies a node cache in the reply to a probe. It is the same in every version.
const probeServer = "dnsconfigurer nodecache"

const (
	// probeTimeout bounds a probe. A busy machine may take seconds to start a process.
	probeTimeout = 5 * time.Second
	// probeRetry is the wait for a reply over UDP: the packet may be lost while the receive
	// buffer is full.
	probeRetry = time.Second

	// probePause is the pause after a try that fails at once, such as a refused connection.
	probePause = 100 * time.Millisecond
)

// errOtherServer is the error if a probe reaches a server that is not a node cache.
var errOtherServer = errors.New("another server answers: kube-proxy or another proxy translates the " +
	"address, or another process has the port: remove it, or listen on an address that no Service has, such as 169.254.20.10")

// answerProbe answers a probe, see dnsserver.Config.AnswerProbe.
func answerProbe(name string) dns.RR {
	if !strings.HasSuffix(strings.ToLower(name), probeZone) {
		return nil
	}
	return &dns.HINFO{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeHINFO, Class: dns.ClassINET}, Cpu: "", Os: probeServer}
}

// probe returns an error if queries to addr over network, "udp" or "tcp", do not reach this
// instance, or its successor on the same address. dialer opens the socket.
func probe(ctx context.Context, dialer *net.Dialer, network string, addr netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client := dns.Client{Net: network, Dialer: dialer, Timeout: probeTimeout}
	if network == "udp" {
		client.Timeout = probeRetry
	}
	for {
		query := new(dns.Msg).SetQuestion(strings.ToLower(rand.Text())+probeZone, dns.TypeHINFO)
		query.RecursionDesired = false // another server must not forward it
		reply, _, err := client.ExchangeContext(ctx, query, addr.String())
		switch {
		case err == nil && isProbeReply(reply):
			return nil
		case err == nil:
			return fmt.Errorf("queries to %s do not reach this process over %s: %w", addr, network, errOtherServer)
		}
		if daemon.Sleep(ctx, probePause); ctx.Err() != nil {
			return fmt.Errorf("queries to %s do not reach this process over %s: no reply in %v: %w", addr, network, probeTimeout, err)
		}
	}
}

func isProbeReply(reply *dns.Msg) bool {
	return slices.ContainsFunc(reply.Answer, func(rr dns.RR) bool {
		hinfo, ok := rr.(*dns.HINFO)
		return ok && hinfo.Os == probeServer
	})
}

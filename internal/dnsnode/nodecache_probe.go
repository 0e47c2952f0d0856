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
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

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

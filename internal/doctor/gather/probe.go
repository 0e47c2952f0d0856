// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

const (
	// replyTime is how long a probe waits. The servers of CoreDNS wait two seconds for theirs.
	replyTime = 3 * time.Second

	// Attempts is the number of queries for a question without a reply: one lost packet is
	// not a finding.
	Attempts = 2
)

const noServers = "no address of a DNS server is known: set --dns-server"

// sendProbes queries the servers of c, or those of the cluster if it has none, from this machine, and at the same time
// from a container if c has its image.
func sendProbes(ctx context.Context, c Config, s *doctor.Snapshot) {
	now := time.Now()
	planFor := func(means string) []doctor.Query {
		servers := c.Servers
		if len(servers) == 0 {
			servers = doctor.Servers(s, means)
		}
		return doctor.Plan(s, means, servers, c.ExternalName, now)
	}
	plan := planFor(doctor.MeansNetwork)
	if len(plan) == 0 {
		s.Unread[doctor.Probes] = noServers
		if c.Image != "" {
			s.Unread[doctor.Ephemeral] = noServers
		}
		return
	}
	var group sync.WaitGroup
	var report containerReport
	var failure string
	if c.Image != "" {
		group.Go(func() { report, failure = runContainer(ctx, c, s, planFor(doctor.MeansContainer)) })
	}
	probes := Run(ctx, plan)
	late := ctx.Err() != nil
	group.Wait()
	s.Probes, s.PodFile = append(probes, report.probes...), report.file
	if late { // a missing reply is not a finding
		s.Unread[doctor.Probes] = "not all DNS servers were queried in time: set --timeout"
	}
	if failure != "" {
		s.Unread[doctor.Ephemeral] = failure
	}
}

// Run sends the queries of a plan to their servers, all at the same time, and returns them in the order of the plan:
// one after the other, those to a server that drops them would take most of a minute. When ctx ends, the remaining
// ones have its error.
func Run(ctx context.Context, plan []doctor.Query) []v1alpha1.DoctorProbe {
	start := time.Now()
	results := make([][]v1alpha1.DoctorProbe, len(plan))
	var queries sync.WaitGroup
	for i, q := range plan {
		queries.Go(func() { results[i] = ask(ctx, q, start) })
	}
	queries.Wait()
	return slices.Concat(results...)
}

// ask sends a query, and again if there is no reply and the query has no delay.
func ask(ctx context.Context, q doctor.Query, start time.Time) (list []v1alpha1.DoctorProbe) {
	attempts := Attempts
	if q.Delay > 0 {
		attempts = 1
		select {
		case <-ctx.Done():
		case <-time.After(q.Delay):
		}
	}
	for range attempts {
		p := send(ctx, q, start)
		list = append(list, p)
		deadline, ok := ctx.Deadline() // which a socket notices before ctx ends
		if p.RCode != "" || ctx.Err() != nil || ok && !time.Now().Before(deadline) {
			break
		}
	}
	return list
}

func send(ctx context.Context, q doctor.Query, start time.Time) v1alpha1.DoctorProbe {
	query := new(dns.Msg).SetQuestion(q.Name, dns.StringToType[q.Type])
	sent := time.Now()
	replying, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	reply, err := Exchange(replying, q.Protocol, q.Server, query)
	p := v1alpha1.DoctorProbe{
		Server: q.Server.String(), Role: q.Role, Means: q.Means, Protocol: q.Protocol, Name: q.Name, Type: q.Type, Answers: []string{},
		StartMicros: sent.Sub(start).Microseconds(), Micros: time.Since(sent).Microseconds(),
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case reply == nil && (ctx.Err() != nil || ok && timeout.Timeout()):
		p.Error = "timeout"
	case err != nil:
		p.Error = reason(err)
	default:
		p.RCode = rcodeText(reply.Rcode)
		p.Answers = addresses(reply)
	}
	return p
}

// Exchange sends query to server over network, udp or tcp, and waits for the reply until ctx ends. Invalid messages
// and replies to other queries are ignored, as the C libraries do.
//
// dns.Client is not used: it returns the first message that it cannot parse as an error,
// and its reads end at its timeouts only, not when ctx is cancelled.
func Exchange(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	conn := dns.Conn{Conn: c, UDPSize: dns.MaxMsgSize}
	if err := conn.WriteMsg(query); err != nil {
		return nil, err
	}
	for {
		reply, err := conn.ReadMsg()
		if reply == nil && !errors.Is(err, dns.ErrShortRead) {
			return nil, err
		}
		if err == nil && reply.Id == query.Id && len(reply.Question) == 1 && reply.Question[0].Qtype == query.Question[0].Qtype {
			return reply, nil
		}
	}
}

// maxRCode is the largest rcode of a reply: 12 bits (RFC 6891 section 6.1.3).
const maxRCode = 1<<12 - 1

// rcodeText returns the name of an rcode, or its number if it has none, as 12 to 15.
func rcodeText(code int) string { return cmp.Or(dns.RcodeToString[code], strconv.Itoa(code)) }

// IsRCode reports whether text is the rcode of a probe with a reply.
func IsRCode(text string) bool {
	if _, ok := dns.StringToRcode[text]; ok {
		return true
	}
	code, err := strconv.Atoi(text)
	return err == nil && code >= 0 && code <= maxRCode && rcodeText(code) == text
}

// reason returns why there is no reply, without the addresses of the sockets.
func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return err.Error()
}

// MaxAnswers bounds the addresses of a reply that are kept.
const MaxAnswers = 20

// addresses returns the addresses of a reply. A record without data, which package dns accepts, has
// none.
func addresses(reply *dns.Msg) []string {
	list := []string{}
	for _, rr := range reply.Answer[:min(len(reply.Answer), MaxAnswers)] {
		var ip net.IP
		switch rr := rr.(type) {
		case *dns.A:
			ip = rr.A
		case *dns.AAAA:
			ip = rr.AAAA
		}
		if len(ip) > 0 {
			list = append(list, ip.String())
		}
	}
	return list
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
)

const (
	// ReplyTime is how long a probe waits. The servers of CoreDNS wait two seconds for theirs.
	ReplyTime = 3 * time.Second

	// Attempts is the number of queries for a question without a reply: one lost packet is
	// not a finding.
	Attempts = 2
)

const noServers = "no address of a DNS server is known: set --dns-server"

// transport queries the DNS servers by one means. why is empty if each server was queried.
type transport func(context.Context) (probes []v1alpha1.DoctorProbe, why string)

// sendProbes queries the servers of c, or those of the cluster if it has none, by each means that c allows
// at the same time.
func sendProbes(ctx context.Context, c Config, s *doctor.Snapshot) {
	servers, start := c.Servers, time.Now()
	if len(servers) == 0 {
		servers = doctor.Servers(s)
	}
	kinds := []doctor.Kind{doctor.Probes}
	transports := []transport{func(ctx context.Context) ([]v1alpha1.DoctorProbe, string) {
		return networkProbes(ctx, doctor.Plan(s, doctor.MeansNetwork, servers, c.ExternalName, start), start)
	}}
	if c.PortForward {
		kinds = append(kinds, doctor.PortForward)
		transports = append(transports, func(ctx context.Context) ([]v1alpha1.DoctorProbe, string) {
			return forwardProbes(ctx, c, s, start)
		})
	}
	if c.Image != "" {
		kinds = append(kinds, doctor.Ephemeral)
		transports = append(transports, func(ctx context.Context) ([]v1alpha1.DoctorProbe, string) {
			return containerProbes(ctx, c, s, servers)
		})
	}
	probes, whys := make([][]v1alpha1.DoctorProbe, len(transports)), make([]string, len(transports))
	var group sync.WaitGroup
	for i, t := range transports {
		group.Go(func() { probes[i], whys[i] = t(ctx) })
	}
	group.Wait()
	s.Probes = slices.Concat(probes...)
	for i, why := range whys {
		if why != "" {
			s.Unread[kinds[i]] = why
		}
	}
}

// networkProbes sends the queries of a plan from this machine. If the time is over before the end, a missing reply
// is not a finding.
func networkProbes(ctx context.Context, plan []doctor.Query, start time.Time) (probes []v1alpha1.DoctorProbe, why string) {
	if len(plan) == 0 {
		return nil, noServers
	}
	probes = RunThrough(ctx, plan, start, Network)
	if ctx.Err() != nil {
		why = "not all DNS servers were queried in time: set --timeout"
	}
	return probes, why
}

// Exchange sends a query by its means and returns the reply. It may be called by several goroutines.
type Exchange func(context.Context, doctor.Query, *dns.Msg) (*dns.Msg, error)

// Run sends the queries of a plan to their servers.
func Run(ctx context.Context, plan []doctor.Query) []v1alpha1.DoctorProbe {
	return RunThrough(ctx, plan, time.Now(), Network)
}

// Network sends a query through the network.
func Network(ctx context.Context, q doctor.Query, query *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, ReplyTime)
	defer cancel()
	return lookup.Exchange(ctx, q.Protocol, q.Server, query)
}

// RunThrough sends the queries, all at the same time, and returns them in the order of the plan: one
// after the other, those to a server that drops them would take most of a minute. When ctx ends, the
// remaining ones have its error. Their times count from start.
func RunThrough(ctx context.Context, plan []doctor.Query, start time.Time, exchange Exchange) []v1alpha1.DoctorProbe {
	results := make([][]v1alpha1.DoctorProbe, len(plan))
	var queries sync.WaitGroup
	for i, q := range plan {
		queries.Go(func() { results[i] = ask(ctx, q, start, exchange) })
	}
	queries.Wait()
	return slices.Concat(results...)
}

// ask sends a query, and again if there is no reply and the query has no delay.
func ask(ctx context.Context, q doctor.Query, start time.Time, exchange Exchange) (list []v1alpha1.DoctorProbe) {
	attempts := Attempts
	if q.Delay > 0 {
		attempts = 1
		select {
		case <-ctx.Done():
		case <-time.After(q.Delay):
		}
	}
	for range attempts {
		p := send(ctx, q, start, exchange)
		list = append(list, p)
		if p.RCode != "" || probesEnded(ctx) {
			break
		}
	}
	return list
}

// hasEnded reports whether ctx has ended, or its deadline has passed, which a socket notices earlier.
func probesEnded(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

func send(ctx context.Context, q doctor.Query, start time.Time, exchange Exchange) v1alpha1.DoctorProbe {
	query := new(dns.Msg).SetQuestion(q.Name, dns.StringToType[q.Type])
	sent := time.Now()
	reply, err := exchange(ctx, q, query)
	p := v1alpha1.DoctorProbe{
		Server: q.Server.String(), Role: q.Role, Means: q.Means, Protocol: q.Protocol, Name: q.Name, Type: q.Type, Answers: []string{},
		StartMicros: sent.Sub(start).Microseconds(), Micros: time.Since(sent).Microseconds(),
	}
	switch {
	case reply == nil && (ctx.Err() != nil || isTimeout(err)):
		p.Error = "timeout"
	case err != nil:
		p.Error = reason(err)
	default:
		p.RCode = rcodeText(reply.Rcode)
		p.Answers = addresses(reply)
	}
	return p
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

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
)

const (
	// replyTime is how long a probe waits. The servers of CoreDNS wait two seconds for theirs.
	replyTime = 3 * time.Second

	// attempts is the number of queries for a question without a reply: one lost packet is
	// not a finding.
	attempts = 2
)

// Run sends the queries, those of different servers at the same time, and returns them in the
// order of the plan. When ctx ends, the remaining ones have its error.
func Run(ctx context.Context, plan []doctor.Query) []v1alpha1.DoctorProbe {
	start := time.Now()
	results := make([][]v1alpha1.DoctorProbe, len(plan))
	var servers sync.WaitGroup
	for _, indexes := range byServer(plan) {
		servers.Go(func() {
			for _, i := range indexes {
				results[i] = ask(ctx, plan[i], start)
			}
		})
	}
	servers.Wait()
	var all []v1alpha1.DoctorProbe
	for _, r := range results {
		all = append(all, r...)
	}
	return all
}

// byServer returns the indexes of the queries of each server.
func byServer(plan []doctor.Query) map[string][]int {
	indexes := map[string][]int{}
	for i, q := range plan {
		indexes[q.Server.String()] = append(indexes[q.Server.String()], i)
	}
	return indexes
}

// ask sends a query, and again if there is no reply.
func ask(ctx context.Context, q doctor.Query, start time.Time) (list []v1alpha1.DoctorProbe) {
	for range attempts {
		p := send(ctx, q, start)
		list = append(list, p)
		if p.RCode != "" || ctx.Err() != nil {
			break
		}
	}
	return list
}

func send(ctx context.Context, q doctor.Query, start time.Time) v1alpha1.DoctorProbe {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	query := new(dns.Msg).SetQuestion(q.Name, dns.StringToType[q.Type])
	sent := time.Now()
	reply, err := lookup.Exchange(ctx, q.Protocol, q.Server, query)
	p := v1alpha1.DoctorProbe{
		Server: q.Server.String(), Role: q.Role, Protocol: q.Protocol, Name: q.Name, Type: q.Type, Answers: []string{},
		StartMicros: sent.Sub(start).Microseconds(), Micros: time.Since(sent).Microseconds(),
	}
	switch {
	case ctx.Err() != nil && reply == nil:
		p.Error = "timeout"
	case err != nil:
		p.Error = reason(err)
	default:
		p.RCode = cmp.Or(dns.RcodeToString[reply.Rcode], strconv.Itoa(reply.Rcode))
		p.Answers = addresses(reply)
	}
	return p
}

// reason returns why there is no reply, without the addresses of the sockets.
func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return err.Error()
}

// maxAnswers bounds the addresses of a reply that are kept.
const maxAnswers = 20

func addresses(reply *dns.Msg) []string {
	list := []string{}
	for _, rr := range reply.Answer[:min(len(reply.Answer), maxAnswers)] {
		switch rr := rr.(type) {
		case *dns.A:
			list = append(list, rr.A.String())
		case *dns.AAAA:
			list = append(list, rr.AAAA.String())
		}
	}
	return list
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

func TestRun(t *testing.T) {
	records := dnstest.Reply(dnstest.Records(t, "a.example. 5 IN A 192.0.2.1\na.example. 5 IN AAAA 2001:db8::1"))
	good := dnstest.Start(t, records)
	lost := 0
	lossy := dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
		if lost++; lost == 1 {
			return nil
		}
		return records(network, q)
	})
	query := func(s *dnstest.Server, protocol, name, qtype string) doctor.Query {
		return doctor.Query{Server: s.Addr, Role: doctor.RoleFlag, Protocol: protocol, Name: name, Type: qtype}
	}
	got := Run(t.Context(), []doctor.Query{
		query(good, doctor.UDP, "a.example.", "A"), query(lossy, doctor.UDP, "a.example.", "A"),
		query(good, doctor.TCP, "a.example.", "AAAA"), query(good, doctor.UDP, "b.example.", "A"),
	})
	want := []struct {
		rcode   string
		answers []string
	}{
		{"NOERROR", []string{"192.0.2.1"}},
		{"", nil},
		{"NOERROR", []string{"192.0.2.1"}},
		{"NOERROR", []string{"2001:db8::1"}},
		{"NXDOMAIN", nil},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		p := got[i]
		if p.RCode != w.rcode || !slices.Equal(p.Answers, w.answers) ||
			(p.RCode == "") != (p.Error == "timeout") || p.Role != doctor.RoleFlag || p.Micros <= 0 {
			t.Errorf("%d: %+v, want %+v", i, p, w)
		}
	}
}

// TestRun_Cancelled: the end of the context ends the probes.
func TestRun_Cancelled(t *testing.T) {
	silent := dnstest.Start(t, func(string, *dns.Msg) []dnstest.Message { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	plan := slices.Repeat([]doctor.Query{{Server: silent.Addr, Protocol: doctor.UDP, Name: "a.", Type: "A"}}, 100)
	got := Run(ctx, plan)
	if len(got) != len(plan) || got[99].RCode != "" || got[99].Error == "" {
		t.Errorf("%d probes, the last: %+v", len(got), got[len(got)-1])
	}
}

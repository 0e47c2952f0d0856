// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// load is a load of dnsperf: queries per second, and a duration. Without a rate, 100
// queries are in flight all the time.
type load struct {
	Rate    int
	Seconds int
}

// String returns the name of the load in a table.
func (l load) String() string {
	if l.Rate == 0 {
		return "unbounded"
	}
	return fmt.Sprintf("%d/s", l.Rate)
}

// result is the work of a server under a load.
type result struct {
	Answered int
	Lost     int
	Failed   int           // of those answered: SERVFAIL and REFUSED
	CPU      time.Duration // of the server
	Client   time.Duration // the processor time of dnsperf
}

// PerQuery returns the part of a processor time for one answered query, in microseconds.
func (r result) PerQuery(d time.Duration) float64 {
	return d.Seconds() * 1e6 / float64(max(1, r.Answered))
}

// Run sends the queries of a file, repeatedly, to a server.
func (l load) Run(ctx context.Context, s *subject, file string) (result, error) {
	before, err := cpuTime(s.PID())
	if err != nil {
		return result{}, err
	}
	args := []string{"-l", strconv.Itoa(l.Seconds)}
	if l.Rate > 0 {
		args = append(args, "-Q", strconv.Itoa(l.Rate))
	}
	r, err := dnsperf(ctx, s, file, args...)
	if err != nil {
		return result{}, err
	}
	after, err := cpuTime(s.PID())
	r.CPU = after - before
	switch {
	case err != nil:
		return r, err
	case r.Lost*100 > r.Answered:
		return r, fmt.Errorf("%s: %d of %d queries were lost: lower the rate", s.name, r.Lost, r.Answered+r.Lost)
	case r.Failed > 0:
		return r, fmt.Errorf("%s: %d of %d queries failed", s.name, r.Failed, r.Answered)
	}
	return r, nil
}

// times returns how long each reply took, in milliseconds. dnsperf reports each, which takes its time: for low rates.
func (l load) times(ctx context.Context, s *subject, file string) (took []float64, err error) {
	out, _, err := runDnsperf(ctx, s, file, "-v", "-l", strconv.Itoa(l.Seconds), "-Q", strconv.Itoa(l.Rate))
	for _, m := range reply.FindAllSubmatch(out, -1) {
		seconds, _ := strconv.ParseFloat(string(m[1]), 64)
		took = append(took, seconds*1e3)
	}
	return took, err
}

// warm sends each query of a file once.
func warm(ctx context.Context, s *subject, file string) error {
	_, err := dnsperf(ctx, s, file, "-n", "1", "-q", "20")
	return err
}

var (
	completed = regexp.MustCompile(`(?m)^ *Queries completed: +(\d+)`)
	lost      = regexp.MustCompile(`(?m)^ *Queries lost: +(\d+)`)
	servfail  = regexp.MustCompile(`(?m)^ *Response codes: .*SERVFAIL (\d+)`)
	reply     = regexp.MustCompile(`(?m)^> NOERROR .* ([0-9.]+)$`)
	refused   = regexp.MustCompile(`(?m)^ *Response codes: .*REFUSED (\d+)`)
)

func dnsperf(ctx context.Context, s *subject, file string, args ...string) (result, error) {
	out, cpu, err := runDnsperf(ctx, s, file, args...)
	if err != nil {
		return result{}, err
	}
	number := func(e *regexp.Regexp) int {
		if m := e.FindSubmatch(out); m != nil {
			n, _ := strconv.Atoi(string(m[1]))
			return n
		}
		return 0
	}
	r := result{Answered: number(completed), Lost: number(lost), Failed: number(servfail) + number(refused),
		Client: cpu}
	if r.Answered == 0 {
		return r, fmt.Errorf("%s: dnsperf: nothing was answered\n%s", s.name, out)
	}
	return r, nil
}

// runDnsperf returns the output of dnsperf, and its processor time.
func runDnsperf(ctx context.Context, s *subject, file string, args ...string) (out []byte, cpu time.Duration, err error) {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, 0, err
	}
	args = slices.Concat(s.from, []string{"dnsperf", "-s", host, "-p", port, "-d", file, "-c", "8", "-T", "1", "-t", "2"}, args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if out, err = cmd.CombinedOutput(); err != nil {
		return nil, 0, fmt.Errorf("%s: dnsperf: %w\n%s", s.name, err, out)
	}
	return out, cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime(), nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
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
		return "as many as it answers"
	}
	return fmt.Sprintf("%d/s", l.Rate)
}

// result is the work of a server under a load.
type result struct {
	Answered int
	Lost     int
	Failed   int // of those answered: SERVFAIL and REFUSED
	CPU      time.Duration
}

// PerQuery returns the processor time for one answered query.
func (r result) PerQuery() time.Duration { return r.CPU / time.Duration(max(1, r.Answered)) }

// Run sends the queries of a file, repeatedly, to the server at address, which is the
// process pid.
func (l load) Run(ctx context.Context, address string, pid int, file string) (result, error) {
	before, err := cpuTime(pid)
	if err != nil {
		return result{}, err
	}
	args := []string{"-l", strconv.Itoa(l.Seconds)}
	if l.Rate > 0 {
		args = append(args, "-Q", strconv.Itoa(l.Rate))
	}
	r, err := dnsperf(ctx, address, file, args...)
	if err != nil {
		return result{}, err
	}
	after, err := cpuTime(pid)
	r.CPU = after - before
	return r, err
}

// warm sends each query of a file once.
func warm(ctx context.Context, address, file string) error {
	_, err := dnsperf(ctx, address, file, "-n", "1", "-q", "20")
	return err
}

var (
	completed = regexp.MustCompile(`(?m)^ *Queries completed: +(\d+)`)
	lost      = regexp.MustCompile(`(?m)^ *Queries lost: +(\d+)`)
	servfail  = regexp.MustCompile(`(?m)^ *Response codes: .*SERVFAIL (\d+)`)
	refused   = regexp.MustCompile(`(?m)^ *Response codes: .*REFUSED (\d+)`)
)

func dnsperf(ctx context.Context, address, file string, args ...string) (result, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return result{}, err
	}
	args = append([]string{"-s", host, "-p", port, "-d", file, "-c", "8", "-T", "1", "-t", "2"}, args...)
	out, err := exec.CommandContext(ctx, "dnsperf", args...).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("dnsperf: %w\n%s", err, out)
	}
	number := func(e *regexp.Regexp) int {
		if m := e.FindSubmatch(out); m != nil {
			n, _ := strconv.Atoi(string(m[1]))
			return n
		}
		return 0
	}
	r := result{Answered: number(completed), Lost: number(lost), Failed: number(servfail) + number(refused)}
	if r.Answered == 0 {
		return r, fmt.Errorf("dnsperf: nothing was answered\n%s", out)
	}
	return r, nil
}

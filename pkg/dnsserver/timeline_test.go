// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestTimeline runs the scripts of testdata/time: each is a server, or a node cache ("node"), in fake time. Its
// steps are those of a goldenFile, and:
//
//	sleep DURATION
//	fails NAME[/TYPE] HOW   other servers fail for the name and those below it, until "works"
//	cluster DNS is down     until "cluster DNS is up"
//
// A question may end with "norecurse". After the reply are its extended errors, how long the client waited, the
// refusals and panics that are counted, the warnings in the log, and the questions that the reply, and what it began, sent to other
// servers. A node cache has a cluster DNS that supports the option, and one that does not; a different reply with
// the second follows "without the option".
func TestTimeline(t *testing.T) {
	for _, file := range readGoldenFiles(t, "testdata/time") {
		t.Run(file.name, func(t *testing.T) {
			var replies, others []string
			synctest.Test(t, func(t *testing.T) { replies = newTimeline(t, file, false).run(t, file) })
			if file.node {
				synctest.Test(t, func(t *testing.T) { others = newTimeline(t, file, true).run(t, file) })
			}
			i := -1
			file.check(t, func(string) string {
				i++
				if file.node && replies[i] != others[i] {
					return replies[i] + "without the option\n" + others[i]
				}
				return replies[i]
			})
		})
	}
}

// timeline is the server of a script, with the other servers.
type timeline struct {
	server  *testServer
	cluster *clusterDNS // of a node cache
	log     logbuffer.Buffer

	mu      sync.Mutex
	records recordSet
	faults  []string // NAME[/TYPE] HOW
	sent    []string // questions since the last step
}

func newTimeline(t *testing.T, file goldenFile, ignoresOption bool) *timeline {
	l := &timeline{records: file.upstream}
	var forwarding Forwarding
	config := Config{DNS64Prefix: file.dns64, Logger: slog.New(slog.NewTextHandler(&l.log, nil))}
	if file.node {
		l.cluster = &clusterDNS{Server: newServer(t, file.cluster, Config{Upstream: l.exchange}), ignoresOption: ignoresOption,
			before: func(q *dns.Msg) { l.add("cluster DNS ", q) }}
		forwarding = l.cluster.forwarding(t, l.exchange)
		config.Autopath.Allowed = []netip.Prefix{}
		l.server = newCachingServer(t, config)
	} else {
		if file.upstream != nil {
			forwarding.Upstream = l.exchange
		}
		config.Autopath.HostSuffixes = file.hosts
		l.server = newTestServer(t, file.cluster, config)
	}
	forwarding.HostSuffixes, forwarding.LastKnownGood = file.hosts, file.lastGood
	for _, stub := range file.stubs {
		stub.Exchange = l.exchange
		forwarding.Stubs = append(forwarding.Stubs, stub)
	}
	l.server.SetForwarding(forwarding)
	l.server.SetHosts(file.fixed)
	l.server.SetRules(file.rules)
	return l
}

// run runs the steps and returns the replies to the questions.
func (l *timeline) run(t *testing.T, file goldenFile) (replies []string) {
	for _, step := range file.steps {
		word, rest, _ := strings.Cut(step.Name, " ")
		switch word {
		case "upstream":
			l.records = parseRecords(t, string(step.Data))
		case "hosts":
			l.server.SetHostSuffixes(parseNames(t, step.Data))
		case "addresses":
			l.server.SetHosts(parseHosts(t, step))
		case "answers", "rewrites": // instead of all rules
			rules := &Rules{}
			if word == "answers" {
				addRules(t, step.Data, rules.AddAnswer)
			} else {
				addRules(t, step.Data, rules.AddRewrite)
			}
			l.server.SetRules(rules)
		case "sleep":
			d := must.Get(time.ParseDuration(rest))(t)
			time.Sleep(d)
		case "fails":
			l.faults = append(l.faults, rest)
		case "works":
			l.faults = nil
		case "cluster":
			l.cluster.down.Store(rest == "DNS is down")
		default:
			replies = append(replies, l.ask(t, step.Name))
		}
	}
	l.server.running.Wait()
	if l.cluster != nil {
		l.cluster.running.Wait()
	}
	l.server.expectFree(t)
	return replies
}

// ask sends a question, and returns the reply and what it caused.
func (l *timeline) ask(t *testing.T, question string) string {
	question, iterative := strings.CutSuffix(question, " norecurse")
	words := strings.Fields(question)
	q := newQuery(words[0], dns.StringToType[words[1]], words[2:]...)
	q.RecursionDesired = !iterative
	begin, refused, logged, lastGood := time.Now(), l.refusals(t), len(l.log.String()), l.lastGood(t)
	sentLists := l.counts(t, sentMetric, "result", sentResults...)
	panics := l.server.counterSum(t, "dnsconfigurer_dns_panics_total")
	text, m := "no reply\n", new(dns.Msg)
	if wire := handlePacket(t.Context(), l.server.Server, mustPack(t, q), overUDP, podAddr); wire != nil {
		must.Succeed(t, m.Unpack(wire))
		text = replyText(m)
	}
	if list := extendedErrors(m); list != "" {
		text += "error: " + list + "\n"
	}
	if waited := time.Since(begin); waited > 0 {
		text += fmt.Sprintf("after: %v\n", waited)
	}
	synctest.Wait()
	if now := l.refusals(t); now != refused {
		text += "refusals: " + now + "\n"
	}
	if n := l.server.counterSum(t, "dnsconfigurer_dns_panics_total"); n != panics {
		text += fmt.Sprintf("panics: %d\n", n)
	}
	if l.counts(t, sentMetric, "result", sentResults...) != sentLists {
		text += "search lists sent until now: " + l.counts(t, sentMetric, "result", sentResults...) + "\n"
	}
	if l.lastGood(t) != lastGood {
		text += "counted as last known good\n"
	}
	for line := range strings.Lines(l.log.String()[logged:]) {
		if _, warning, ok := strings.Cut(line, "level=WARN msg="); ok {
			text += "warning: " + warning
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Sort(l.sent); len(l.sent) > 0 {
		text += "sent: " + strings.Join(l.sent, ", ") + "\n"
	}
	l.sent = nil
	return text
}

// lastGood returns how many replies are counted as last known good answers.
func (l *timeline) lastGood(t *testing.T) int {
	return l.server.counterSum(t, "dnsconfigurer_dns_queries_total", "source=last_known_good")
}

// refusals returns how many refusals are counted, by reason.
func (l *timeline) refusals(t *testing.T) string {
	var reasons []string
	for reason := range numRefusals {
		reasons = append(reasons, reason.String())
	}
	return l.counts(t, "dnsconfigurer_dns_refusals_total", "reason", reasons...)
}

const sentMetric = "dnsconfigurer_dns_autopath_sent_total"

var sentResults = []string{sentExpanded, sentIgnored, sentRefused, sentFailed}

// counts returns the counters of a metric that are not zero, by the value of a label.
func (l *timeline) counts(t *testing.T, metric, label string, values ...string) string {
	var list []string
	for _, value := range values {
		if n := l.server.counterSum(t, metric, label+"="+value); n > 0 {
			list = append(list, fmt.Sprint(n, " ", value))
		}
	}
	return strings.Join(list, ", ")
}

// add records a question to another server, and returns how that fails.
func (l *timeline) add(server string, q *dns.Msg) (how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, qtype := q.Question[0].Name, dns.TypeToString[q.Question[0].Qtype]
	l.sent = append(l.sent, server+name+" "+qtype)
	for _, f := range l.faults {
		of, is, _ := strings.Cut(f, " ")
		of, only, _ := strings.Cut(of, "/")
		if dns.IsSubDomain(of, name) && (only == "" || only == qtype) {
			how = is
		}
	}
	return how
}

// exchange is the Exchange of the other servers.
func (l *timeline) exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	how, after, _ := strings.Cut(l.add("", q), " ")
	l.mu.Lock()
	records := l.records
	l.mu.Unlock()
	switch how {
	case "":
		return records.exchange(ctx, q)
	case "slow":
		d, err := time.ParseDuration(after)
		if err != nil {
			return nil, err
		}
		time.Sleep(d)
		return records.exchange(ctx, q)
	case "silent":
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
		return nil, errUnreachable
	case "error":
		return nil, errUnreachable
	case "malformed":
		return nil, fmt.Errorf("192.0.2.53:53: %w", upstream.ErrMalformed)
	case "unknown":
		return nil, upstream.ErrNoServers
	case "loop":
		return nil, fmt.Errorf("cluster DNS: %w", upstream.ErrLoop)
	case "panic":
		panic("fault")
	}
	rcode, ok := dns.StringToRcode[how] // without records
	if !ok {
		return nil, fmt.Errorf("unknown fault: %q", how)
	}
	return new(dns.Msg).SetRcode(q, rcode).SetEdns0(maxUDP, false), nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// A client is a resolver library that sends a query again after resend, attempts times in all, and
// then gives up. A busy machine loses datagrams. With a single server, glibc waits for 10 s in all, too.
const (
	resend   = time.Second
	attempts = 10
	ticks    = 200 // a second: a client sends the queries that are due
)

// load is what a client sends.
type load struct {
	from    netip.Addr
	rate    float64 // lookups a second
	tcpRate float64 // the same over TCP, of Services
	next    func() *lookup
}

// wellBehaved is the client beside the attacks.
var wellBehaved = load{from: netip.MustParseAddr("127.66.0.1"), rate: 1000, tcpRate: 20, next: newLookup}

// kind is a kind of names of the well-behaved client.
type kind uint8

const (
	ofCluster kind = iota // 40 %: the Services
	ofCache               // 30 %: names whose answers are cached
	ofOthers              // 30 %: new names
	overTCP               // the Services, in addition, each over a new connection
	numKinds
)

func (k kind) String() string { return [...]string{"cluster", "cached", "other", "TCP"}[k] }

// warmNames is the number of names with cached answers.
const warmNames = 20

// lookup is a query of a client, or the queries for the candidates of a search list.
type lookup struct {
	kind    kind
	name    string                // of the query
	qtype   uint16                // 0: A
	search  []string              // the next candidates, after NXDOMAIN
	payload uint16                // of EDNS; 0: none
	aliases int                   // records before the address
	want    string                // address
	check   func(*dns.Msg) string // nil: one address; else it returns what is wrong with a reply, or ""

	packet []byte
	first  time.Time
	last   time.Time
	sent   int // times, for name
}

// result is what the client got.
type result struct {
	sent, right [numKinds]int
	again       int             // queries that were sent again
	wrong       []string        // the first few
	times       []time.Duration // of right replies, until their arrival at the socket
}

// merge adds the result of another run.
func (r *result) merge(other *result) {
	for k := range numKinds {
		r.sent[k] += other.sent[k]
		r.right[k] += other.right[k]
	}
	r.times = append(r.times, other.times...)
	r.again += other.again
	r.wrong = append(r.wrong, other.wrong...)
}

// rate returns the share of right replies for a kind of names.
func (r *result) rate(k kind) float64 { return float64(r.right[k]) / float64(max(1, r.sent[k])) }

// quantile returns the time that the share q of right replies took at most.
func (r *result) quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	slices.Sort(r.times)
	return r.times[int(q*float64(len(r.times)-1))]
}

// client is a running client.
type client struct {
	load
	to   netip.AddrPort
	conn *net.UDPConn

	mu      sync.Mutex
	id      uint16 // of the last query
	pending map[uint16]*lookup
	result  result
}

// run sends the load to a server for the duration, at pace times its rate, and returns the result.
func (l load) run(to netip.AddrPort, duration time.Duration, pace float64) (*result, error) {
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.from, 0)), net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetReadBuffer(4 << 20)
	if err := stampArrivals(conn); err != nil {
		return nil, err
	}
	c := &client{load: l, to: to, conn: conn, id: uint16(rand.Uint32()), pending: map[uint16]*lookup{}}
	received := make(chan struct{})
	go func() {
		defer close(received)
		c.receive()
	}()
	var streams sync.WaitGroup
	for i := range int(duration.Seconds() * l.tcpRate * pace) {
		streams.Go(func() {
			time.Sleep(time.Duration(float64(i) / (l.tcpRate * pace) * float64(time.Second)))
			c.lookupOverTCP()
		})
	}
	c.sendAll(duration, l.rate*pace)
	streams.Wait()
	_ = conn.SetReadDeadline(time.Now())
	<-received
	return &c.result, nil
}

// sendAll sends queries for the duration, and again until each has a reply or is given up. After a pause
// of the test process, it sends no more than are due in two ticks: many at once would exceed the
// client's share of slots.
func (c *client) sendAll(duration time.Duration, rate float64) {
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	burst := max(2, int(2*rate/ticks))
	for begin, due := time.Now(), 0; ; {
		now := <-tick.C
		sending, scheduled := now.Sub(begin) < duration, int(now.Sub(begin).Seconds()*rate)
		for due = max(due, scheduled-burst); sending && due < scheduled; due++ {
			c.send(c.next(), now)
		}
		if left := c.resend(now); left == 0 && !sending {
			return
		}
	}
}

// lookupOverTCP looks up a Service. It connects again after an error, as a resolver library does.
func (c *client) lookupOverTCP() {
	l := serviceLookup(rand.IntN(services))
	l.kind = overTCP
	exchange := dns.Client{Net: "tcp", Timeout: 5 * time.Second, Dialer: &net.Dialer{
		Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 0)),
	}}
	problem := ""
	for try := range attempts {
		if try > 0 {
			time.Sleep(resend)
		}
		m, _, err := exchange.Exchange(new(dns.Msg).SetQuestion(l.name, dns.TypeA), c.to.String())
		if err == nil {
			problem = l.problem(m)
			break
		}
		problem = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.sent[overTCP]++
	if problem == "" {
		c.result.right[overTCP]++
	} else {
		c.result.wrong = append(c.result.wrong, l.name+" over TCP: "+problem)
	}
}

// newLookup returns a lookup of a random kind.
func newLookup() *lookup {
	switch n := rand.IntN(10); {
	case n < 4:
		return serviceLookup(rand.IntN(services))
	case n < 7:
		l := lookupOf(fmt.Sprintf("cached-%d.example.", rand.IntN(warmNames)))
		l.kind = ofCache
		return l
	default:
		return lookupOf(randomLabel() + ".example.")
	}
}

// serviceLookup returns the lookup of Service i.
func serviceLookup(i int) *lookup {
	return &lookup{kind: ofCluster, name: fmt.Sprintf("web-%d.default.svc.%s", i, zone), want: serviceAddress(i)}
}

// lookupOf returns the lookup of a name outside the cluster.
func lookupOf(name string) *lookup { return &lookup{kind: ofOthers, name: name, want: addressOf(name)} }

func (c *client) send(l *lookup, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.sent[l.kind]++
	l.first = time.Now()
	c.queryLocked(l, now)
}

// queryLocked sends a query for the name of l.
func (c *client) queryLocked(l *lookup, now time.Time) {
	m := new(dns.Msg).SetQuestion(l.name, cmp.Or(l.qtype, dns.TypeA))
	for c.id++; c.pending[c.id] != nil; c.id++ {
	}
	m.Id = c.id
	if l.payload > 0 {
		m.SetEdns0(l.payload, false)
	}
	l.packet, l.sent = pack(m), 0
	c.pending[c.id] = l
	c.sendLocked(l, now)
}

func (c *client) sendLocked(l *lookup, now time.Time) {
	l.last = now
	l.sent++
	_, _ = c.conn.Write(l.packet) // an ICMP error, or no memory: it is sent again
}

// resend sends queries again, gives up others, and returns how many wait for a reply.
func (c *client) resend(now time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, l := range c.pending {
		switch {
		case now.Sub(l.last) < resend:
		case l.sent < attempts:
			c.result.again++
			c.sendLocked(l, now)
		default:
			c.endLocked(id, l, "no reply", now)
		}
	}
	return len(c.pending)
}

// endLocked ends a lookup at a time; problem is "" if the reply is right.
func (c *client) endLocked(id uint16, l *lookup, problem string, now time.Time) {
	delete(c.pending, id)
	if problem == "" {
		c.result.right[l.kind]++
		c.result.times = append(c.result.times, now.Sub(l.first))
	} else if len(c.result.wrong) < 5 {
		c.result.wrong = append(c.result.wrong, l.name+": "+problem)
	}
}

// receive reads replies until the read deadline.
func (c *client) receive() {
	buf, control := make([]byte, dns.MaxMsgSize), make([]byte, 128)
	for {
		n, controlLen, _, _, err := c.conn.ReadMsgUDPAddrPort(buf, control)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		m := new(dns.Msg)
		if err != nil || m.Unpack(buf[:n]) != nil {
			continue // an ICMP error; a query without a right reply is counted at its end
		}
		arrived := arrival(control[:controlLen], time.Now())
		c.mu.Lock()
		if l := c.pending[m.Id]; l != nil {
			c.replyLocked(l, m, arrived)
		}
		c.mu.Unlock()
	}
}

// replyLocked ends the lookup l with the reply m, or continues with the next candidate.
func (c *client) replyLocked(l *lookup, m *dns.Msg, arrived time.Time) {
	if m.Rcode != dns.RcodeNameError || len(l.search) == 0 {
		c.endLocked(m.Id, l, l.problem(m), arrived)
		return
	}
	delete(c.pending, m.Id)
	l.name, l.search = l.search[0], l.search[1:]
	c.queryLocked(l, time.Now())
}

// stampArrivals lets the kernel record when each datagram arrives. The client, the hostile one and
// the servers share the processors: the client may read a reply some milliseconds after it has arrived.
func stampArrivals(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var optErr error
	err = raw.Control(func(fd uintptr) { optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	return errors.Join(err, optErr)
}

// arrival returns when a datagram with the control messages arrived, or else the time at which it
// was read.
func arrival(control []byte, read time.Time) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return read
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS {
			t := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			return read.Add(-read.Round(0).Sub(time.Unix(t.Unix()))) // with the monotonic clock of read
		}
	}
	return read
}

// problem returns what is wrong with a reply, or "".
func (l *lookup) problem(m *dns.Msg) string {
	if l.check != nil {
		return l.check(m)
	}
	if m.Rcode == dns.RcodeSuccess && len(m.Answer) == 1+l.aliases && len(m.Question) == 1 && m.Question[0].Name == l.name {
		switch rr := m.Answer[l.aliases].(type) {
		case *dns.A:
			if rr.A.String() == l.want {
				return ""
			}
		case *dns.AAAA:
			if rr.AAAA.String() == l.want {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s, %d answers, %v", dns.RcodeToString[m.Rcode], len(m.Answer), m.Extra)
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// The well-behaved client: a resolver library that sends a query again after resend, attempts
// times in all, and then gives up. A busy machine loses datagrams. With a single server, glibc
// waits for 10 s in all, too.
const (
	clientRate = 1000 // queries a second
	resend     = time.Second
	attempts   = 10
	tcpRate    = 20 // queries a second over TCP

	// burst is the largest number of queries at once. After a pause of the test process, the
	// queries before them are not sent: many at once would exceed the client's share of slots.
	burst = 10
)

var clientAddr = netip.MustParseAddr("127.66.0.1")

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

// lookup is a query of the client.
type lookup struct {
	kind   kind
	name   string
	want   string // address
	packet []byte
	first  time.Time
	last   time.Time
	sent   int
}

// result is what the client got.
type result struct {
	sent, right [numKinds]int
	wrong       []string // the first few
	times       [numKinds][]time.Duration

	// delays are times in which the client has waited for a processor: between the arrival of
	// a reply at its socket and its reading it. They are not part of times.
	delays []time.Duration
}

// merge adds the result of another run.
func (r *result) merge(other *result) {
	for k := range numKinds {
		r.sent[k] += other.sent[k]
		r.right[k] += other.right[k]
		r.times[k] = append(r.times[k], other.times[k]...)
	}
	r.wrong = append(r.wrong, other.wrong...)
	r.delays = append(r.delays, other.delays...)
}

// rate returns the share of right replies for a kind of names.
func (r *result) rate(k kind) float64 { return float64(r.right[k]) / float64(max(1, r.sent[k])) }

// quantile returns the time that the share q of right replies took at most.
func (r *result) quantile(q float64) time.Duration { return quantile(slices.Concat(r.times[:]...), q) }

func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[int(q*float64(len(times)-1))]
}

// client is a running client.
type client struct {
	to   netip.AddrPort
	conn *net.UDPConn

	mu      sync.Mutex
	pending map[uint16]*lookup
	result  result
}

// run sends queries to a server for the duration, at pace times the client's rate, and returns the
// result.
func run(t *testing.T, to netip.AddrPort, duration time.Duration, pace float64) *result {
	t.Helper()
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(clientAddr, 0)), net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadBuffer(4 << 20)
	if err := stampArrivals(conn); err != nil {
		t.Fatal(err)
	}
	c := &client{to: to, conn: conn, pending: map[uint16]*lookup{}}
	received := make(chan struct{})
	go func() {
		defer close(received)
		c.receive()
	}()
	var streams sync.WaitGroup
	for i := range int(duration.Seconds() * tcpRate * pace) {
		streams.Go(func() {
			time.Sleep(time.Duration(float64(i) / (tcpRate * pace) * float64(time.Second)))
			c.lookupOverTCP()
		})
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	id, due := uint16(rand.Uint32()), 0
	for begin := time.Now(); ; {
		now := <-tick.C
		sending, scheduled := now.Sub(begin) < duration, int(now.Sub(begin).Seconds()*clientRate*pace)
		for due = max(due, scheduled-burst); sending && due < scheduled; due++ {
			id++
			c.send(id, newLookup(id), now)
		}
		if left := c.resend(now); left == 0 && !sending {
			break
		}
	}
	streams.Wait()
	_ = conn.SetReadDeadline(time.Now())
	<-received
	return &c.result
}

// lookupOverTCP looks up a Service. It connects again after an error, as a resolver library does.
func (c *client) lookupOverTCP() {
	i := rand.IntN(services)
	l := &lookup{kind: overTCP, name: fmt.Sprintf("web-%d.default.svc.%s", i, zone), want: serviceAddress(i)}
	exchange := dns.Client{Net: "tcp", Timeout: 5 * time.Second, Dialer: &net.Dialer{
		Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(clientAddr, 0)),
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

// newLookup returns a query of a random kind.
func newLookup(id uint16) *lookup {
	l := &lookup{}
	switch n := rand.IntN(10); {
	case n < 4:
		i := rand.IntN(services)
		l.kind, l.name, l.want = ofCluster, fmt.Sprintf("web-%d.default.svc.%s", i, zone), serviceAddress(i)
	case n < 7:
		l.kind, l.name = ofCache, fmt.Sprintf("cached-%d.example.", rand.IntN(warmNames))
		l.want = addressOf(l.name)
	default:
		l.kind, l.name = ofOthers, fmt.Sprintf("x%016x.example.", rand.Uint64())
		l.want = addressOf(l.name)
	}
	m := new(dns.Msg).SetQuestion(l.name, dns.TypeA)
	m.Id = id
	l.packet = pack(m)
	return l
}

func (c *client) send(id uint16, l *lookup, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[id] != nil { // 65 s of queries without a reply
		return
	}
	c.pending[id] = l
	c.result.sent[l.kind]++
	l.first = time.Now()
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
		c.result.times[l.kind] = append(c.result.times[l.kind], now.Sub(l.first))
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
		read := time.Now()
		arrived := arrival(control[:controlLen], read)
		c.mu.Lock()
		if l := c.pending[m.Id]; l != nil {
			c.endLocked(m.Id, l, l.problem(m), arrived)
			c.result.delays = append(c.result.delays, read.Sub(arrived))
		}
		c.mu.Unlock()
	}
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
	if m.Rcode == dns.RcodeSuccess && len(m.Answer) == 1 && len(m.Question) == 1 && m.Question[0].Name == l.name {
		if a, ok := m.Answer[0].(*dns.A); ok && a.A.String() == l.want {
			return ""
		}
	}
	return fmt.Sprintf("%s, %d answers, %v", dns.RcodeToString[m.Rcode], len(m.Answer), m.Extra)
}

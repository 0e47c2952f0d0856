// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// busyBatch is the number of packets in a batch from which on a reader wakes another one: half
	// of batchSize on Linux. On other systems a batch is one packet, and no reader is woken.
	busyBatch = 32

	// maxPacked is the number of packed replies after which a reader sends the replies that are ready, before the
	// rest of the batch. Packing a reply takes about ten times as long as copying one in wire form.
	maxPacked = 8

	// maxReaders is the largest number of goroutines that read one socket.
	maxReaders = 8

	// batchDelay is how long a busy reader pauses so that packets gather. It pauses only if a batch arrives within
	// batchWindow after the previous one. So there is no delay below 10,000 queries a second, unless two arrive
	// together, such as A and AAAA. A wake-up costs several times as much as an answer: at 20,000 queries a second
	// the delay halves the CPU time of a query (16 to 8.5 us).
	batchDelay  = 50 * time.Microsecond
	batchWindow = 2 * batchDelay

	// maxPacketErrors is the number of consecutive reads that may fail without a pause. A single error is about one
	// packet, such as an ICMP error for an earlier reply. After more, the socket itself is at fault: a reader then
	// pauses for readErrorPause after each error, and logs one in each readErrorInterval.
	maxPacketErrors   = 16
	readErrorPause    = 100 * time.Millisecond
	readErrorInterval = time.Minute
)

// serveUDP answers the queries that conn receives until its read deadline passes. Normally one
// goroutine reads, so that all packets that arrive while it is busy cost a single wake-up. With
// each batch of busyBatch packets or more it wakes another reader.
func (s *Server) serveUDP(ctx context.Context, conn *udpSocket) error {
	readers := make([]*reader, min(runtime.NumCPU(), runtime.GOMAXPROCS(0), maxReaders))
	for i := range readers {
		b, err := newBatch(conn, s.metrics.sendWaits)
		if err != nil {
			return err
		}
		readers[i] = &reader{server: s, conn: conn, batch: b, query: new(query), tally: s.tallies.add()}
	}
	wake, done := make(chan struct{}), make(chan struct{})
	var helpers sync.WaitGroup
	for _, r := range readers[1:] {
		helpers.Go(func() {
			for {
				select {
				case <-wake:
					_ = r.run(ctx, wake, busyBatch) // the first reader returns the same error
				case <-done:
					return
				}
			}
		})
	}
	err := readers[0].run(ctx, wake, 0)
	close(done)
	helpers.Wait()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// reader is the state of a goroutine that reads a socket.
type reader struct {
	server  *Server
	conn    *udpSocket
	batch   *batch
	query   *query
	replies []reply // of the batch, not yet counted
	tally   *tally
	log     *QueryLog
	lines   []byte // for log, of replies that are not sent yet

	errors   int       // consecutive reads that failed
	loggedAt time.Time // when readFailed last logged one
}

// run reads and answers batches until a batch has fewer than least packets. It returns an error when the read
// deadline has passed and no packet is queued, or when the socket is closed. During a flood the queue is never empty:
// therefore run also returns when ctx ends. It wakes another reader when a batch has at least busyBatch packets.
func (r *reader) run(ctx context.Context, wake chan<- struct{}, least int) error {
	var last time.Time // end of the previous batch
	for ctx.Err() == nil {
		n, err := r.batch.receive(least == 0)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			r.readFailed(err)
			continue
		case n >= busyBatch:
			select {
			case wake <- struct{}{}:
			default: // all readers are busy
			}
		}
		r.errors = 0
		start := time.Now()
		r.answer(ctx, n, start)
		if n < least {
			return nil
		}
		if n < busyBatch && start.Sub(last) < batchWindow {
			r.batch.pause(batchDelay)
		}
		last = time.Now()
	}
	return nil
}

// readFailed counts an error of a read. It pauses if the socket fails again and again, instead
// of reading it at full speed.
func (r *reader) readFailed(err error) {
	if r.errors++; r.errors <= maxPacketErrors {
		return
	}
	if now := time.Now(); now.Sub(r.loggedAt) >= readErrorInterval {
		r.loggedAt = now
		r.server.log.Warn("cannot read UDP socket, retrying", "listen", r.conn.LocalAddr(), "error", err)
	}
	time.Sleep(readErrorPause)
}

// answer answers a batch of n packets. Queries that wait for other servers continue in goroutines of their own.
func (r *reader) answer(ctx context.Context, n int, received time.Time) {
	packed, hostDomains := 0, r.server.hostDomains()
	r.log = r.server.queryLog.Load()
	for i := range n {
		q := r.query
		packet, buf, client := r.batch.packet(i)
		q.via, q.client, q.port, q.received = overUDP, client.Addr(), client.Port(), received
		reply, wait := r.server.handle(ctx, q, packet, buf)
		switch {
		case wait != nil:
			r.replyLater(ctx, i, wait)
		case reply.wire != nil:
			r.batch.reply(i, reply.wire)
			r.tally.count(q, &reply, hostDomains)
			r.replies = append(r.replies, reply)
			if r.log != nil {
				r.lines = r.log.append(r.lines, q, &reply)
			}
		}
		if reply.packed {
			if packed++; packed%maxPacked == 0 {
				r.send(received)
			}
		}
	}
	r.send(received)
}

// send counts the replies that are ready, sends them and logs them: a client that has received a
// reply finds it in the metrics.
func (r *reader) send(received time.Time) {
	took := time.Since(received)
	for _, reply := range r.replies {
		r.server.metrics.observe(overUDP, reply, took)
	}
	r.replies = r.replies[:0]
	r.batch.send()
	if len(r.lines) > 0 {
		r.log.Write(r.lines)
		r.lines = r.lines[:0]
	}
}

// replyLater waits for the reply to packet i in a goroutine that may outlive the batch, and counts and sends it.
func (r *reader) replyLater(ctx context.Context, i int, wait func(context.Context) reply) {
	q, send := r.query, r.batch.deferred(i)
	q.detach()
	r.query = new(query)
	r.server.running.Go(func() {
		reply := wait(ctx)
		r.server.observeReply(q, reply)
		if reply.wire != nil {
			send(reply.wire)
		}
	})
}

// receiveDrops counts the packets that the kernel drops for a socket, nearly always because its
// receive buffer is full. The zero value has no sockets.
type receiveDrops struct {
	mu      sync.Mutex
	sockets []*udpSocket
	last    uint64 // the last count: the sockets are closed before the last scrape
}

// setSockets sets the sockets to count for.
func (d *receiveDrops) setSockets(sockets []*udpSocket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sockets = sockets
}

// count returns the number of packets so far.
func (d *receiveDrops) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := uint64(0)
	for _, conn := range d.sockets {
		n, err := socketDrops(conn)
		if err != nil {
			return d.last
		}
		sum += uint64(n)
	}
	d.last = sum
	return sum
}

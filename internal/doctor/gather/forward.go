// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
)

// maxForwarded is the size of all messages of a connection of which more are not read: a query has one
// reply of at most 64 KiB, and others are ignored.
const maxForwarded = 1 << 20

// The protocol of a forwarded port, and its channels. Kubelets of all versions have it, and the API
// server passes it on; the protocol of kubectl, SPDY in a WebSocket, needs Kubernetes 1.31.
const (
	forwardProtocol = "v4.channel.k8s.io"

	channelData  = 0
	channelError = 1
)

// forwardProbes queries the ready pods of the cluster DNS through forwarded ports. why is empty if
// each of them was queried. Of a pod to which forwarding fails later, the replies until then are kept.
func forwardProbes(ctx context.Context, c Config, s *doctor.Snapshot, start time.Time) (probes []v1alpha1.DoctorProbe, why string) {
	pods := doctor.Forwards(s)
	if len(pods) == 0 {
		return nil, cmp.Or(s.Unread[doctor.Services], s.Unread[doctor.Slices], "the cluster DNS has no ready pod")
	}
	plan := doctor.PlanForward(s, pods, c.ExternalName, start)
	runs, _ := each(ctx, pods, func(ctx context.Context, pod doctor.Forward) (forwardRun, error) {
		own := slices.DeleteFunc(slices.Clone(plan), func(q doctor.Query) bool { return q.Server != pod.Server })
		f := forwarder{api: c.API, pod: pod}
		return f.run(ctx, own, start), nil
	})
	var errs []error
	extent := "" // of those that failed
	for _, r := range runs {
		probes = append(probes, r.probes...)
		if r.err != nil {
			errs = append(errs, r.err)
			if len(r.probes) > 0 {
				extent = "completely "
			}
		}
	}
	if len(errs) > 0 {
		why = fmt.Sprintf("%d of %d pods not %squeried: %v", len(errs), len(pods), extent, errs[0])
	}
	return probes, why
}

// forwardRun is the result of one pod.
type forwardRun struct {
	probes []v1alpha1.DoctorProbe
	err    error // why queries are missing
}

// forwarder queries one pod.
type forwarder struct {
	api    *rest.Config
	pod    doctor.Forward
	mu     sync.Mutex
	failed error // the first failure to forward the port: there was no query
}

// run sends the queries of a plan. If the port cannot be forwarded, some were not sent, and a missing
// reply shows nothing about the pod: only the replies are kept.
func (f *forwarder) run(ctx context.Context, plan []doctor.Query, start time.Time) (r forwardRun) {
	first := min(1, len(plan)) // where the port cannot be forwarded, it is tried once
	r.probes = RunThrough(ctx, plan[:first], start, f.exchange)
	if f.failure() == nil {
		r.probes = append(r.probes, RunThrough(ctx, plan[first:], start, f.exchange)...)
	}
	if err := cmp.Or(f.failure(), ctx.Err()); err != nil {
		r.err = fmt.Errorf("pod %s/%s: port-forward: %w", f.pod.Namespace, f.pod.Pod, err)
		r.probes = slices.DeleteFunc(r.probes, func(p v1alpha1.DoctorProbe) bool { return p.RCode == "" })
	}
	return r
}

func (f *forwarder) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *forwarder) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = cmp.Or(f.failed, err)
}

// exchange sends a query over a connection of its own, as a client does that has just started.
func (f *forwarder) exchange(ctx context.Context, q doctor.Query, query *dns.Msg) (*dns.Msg, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	conn, err := dialForward(ctx, f.api, f.pod)
	if err != nil {
		f.fail(err)
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, ReplyTime)
	defer cancel()
	return lookup.ExchangeOver(ctx, conn, query)
}

// dialForward returns a connection to a port of a pod. No port of this machine is opened.
func dialForward(ctx context.Context, cfg *rest.Config, pod doctor.Forward) (*forwardConn, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	api, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	at := api.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Pod).SubResource("portforward").
		Param("ports", strconv.Itoa(int(pod.Server.Port()))).URL()
	s, err := dialStream(ctx, cfg, at, forwardProtocol)
	if err != nil {
		return nil, err
	}
	return &forwardConn{stream: s}, nil
}

// forwardConn is a connection to a port of a pod. The first message of each channel is the number of
// the port. What is received is bounded: a node controls it.
type forwardConn struct {
	stream
	started  [channelError + 1]bool // channels whose port was received
	unread   []byte                 // of the last message
	messages int
	size     int // of all messages
}

func (c *forwardConn) Write(p []byte) (int, error) {
	if err := c.send(append([]byte{channelData}, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *forwardConn) Read(p []byte) (int, error) {
	for len(c.unread) == 0 {
		if c.messages++; c.messages > maxMessages {
			return 0, fmt.Errorf("more than %d messages", maxMessages)
		}
		message, err := c.next()
		if err != nil {
			return 0, err
		}
		if c.unread, err = c.receive(message); err != nil {
			return 0, err
		}
		if c.size += len(c.unread); c.size > maxForwarded {
			return 0, fmt.Errorf("more than %d bytes", maxForwarded)
		}
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// receive returns the data of a message. The message of the other channel is an error.
func (c *forwardConn) receive(message io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(message, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("a message of more than %d bytes", maxFile)
	case len(text) == 0 || text[0] > channelError:
		return nil, errors.New("a message of an unknown channel")
	}
	channel, data := text[0], text[1:]
	if !c.started[channel] {
		c.started[channel] = true
		return data[min(2, len(data)):], nil // the port
	}
	if channel == channelError && len(data) > 0 {
		return nil, forwardError(string(data))
	}
	return data, nil
}

// forwardError returns the error of a container runtime. That of containerd has 400 bytes of names
// before the reason.
func forwardError(text string) error {
	const refused = "connection refused"
	if strings.Contains(text, refused) {
		return errors.New("in the pod: " + refused)
	}
	return errors.New(excerpt.Text(text, excerpt.MaxValue))
}

// binaryMessage is the type of messages with any bytes (RFC 6455 section 11.8).
const binaryMessage = 2

// stream is a WebSocket connection to a container or a pod, through the API server. The first byte of
// a message is the number of a channel.
type stream struct {
	net.Conn // for its deadlines; Close closes the stream
	next     func() (io.Reader, error)
	send     func(message []byte) error
}

// dialStream opens a stream. The time of ctx is for opening alone.
func dialStream(ctx context.Context, cfg *rest.Config, at *url.URL, protocol string) (stream, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return stream{}, err
	}
	transport, holder, err := websocket.RoundTripperFor(cfg)
	if err != nil {
		return stream{}, err
	}
	conn, err := websocket.Negotiate(transport, holder, request, protocol)
	if err != nil {
		return stream{}, err
	}
	return stream{
		Conn: conn.NetConn(),
		next: func() (io.Reader, error) {
			_, message, err := conn.NextReader()
			return message, err
		},
		send: func(message []byte) error { return conn.WriteMessage(binaryMessage, message) },
	}, nil
}

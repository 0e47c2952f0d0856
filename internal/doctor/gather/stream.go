// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
)

const (
	// maxReceived is the size of all messages of a stream, beyond which nothing is read: twice the largest reply of
	// a DNS server, and 32 times the longest resolv.conf of a kubelet.
	maxReceived = 128 << 10

	// maxMessages is the number of messages of a stream, beyond which nothing is read. A message may be empty.
	maxMessages = 1000

	// binaryMessage is the type of messages with any bytes (RFC 6455 section 11.8).
	binaryMessage = 2
)

// stream is a WebSocket connection to a container or a pod, through the API server. The first byte of a message is
// the number of a channel. What is received is bounded: a node controls it.
type stream struct {
	net.Conn // for its deadlines; Close closes the stream
	next     func() (io.Reader, error)
	send     func(message []byte) error

	messages int
	size     int // of all messages
}

// dialStream opens a stream to a subresource of a pod. The time of ctx is for opening alone.
func dialStream(ctx context.Context, cfg *rest.Config, namespace, pod, subresource, protocol string, query url.Values) (*stream, error) {
	api, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	at := api.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource(subresource).URL()
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	transport, holder, err := websocket.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, request, protocol)
	if err != nil {
		return nil, err
	}
	return &stream{
		Conn: conn.NetConn(),
		next: func() (io.Reader, error) {
			_, message, err := conn.NextReader()
			return message, err
		},
		send: func(message []byte) error { return conn.WriteMessage(binaryMessage, message) },
	}, nil
}

// receive returns the next message.
func (s *stream) receive() (channel byte, data []byte, err error) {
	if s.messages++; s.messages > maxMessages {
		return 0, nil, fmt.Errorf("more than %d messages", maxMessages)
	}
	message, err := s.next()
	if err != nil {
		return 0, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(message, int64(maxReceived-s.size+1)))
	switch s.size += len(text); {
	case err != nil:
		return 0, nil, err
	case s.size > maxReceived:
		return 0, nil, fmt.Errorf("more than %d bytes", maxReceived)
	case len(text) == 0:
		return 0, nil, errors.New("a message without a channel")
	}
	return text[0], text[1:], nil
}

// The protocol of commands in containers, and its channels.
const (
	execProtocol = "v5.channel.k8s.io"

	streamStdout = 1
	streamStderr = 2
	streamStatus = 3
)

// readFile returns the /etc/resolv.conf of a container. Package remotecommand of client-go would read the status
// without a limit.
func readFile(ctx context.Context, cfg *rest.Config, c doctor.Container) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	conn, err := dialStream(ctx, cfg, c.Namespace, c.Pod, "exec", execProtocol, url.Values{
		"container": {c.Name}, "stdout": {"true"}, "stderr": {"true"}, "command": {"cat", "/etc/resolv.conf"},
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var out [streamStatus + 1]bytes.Buffer
	for {
		channel, data, err := conn.receive()
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil && out[streamStatus].Len() == 0:
			return "", fmt.Errorf("no exit code: %w", err)
		case err != nil:
			return out[streamStdout].String(), commandError(out[streamStatus].Bytes(), out[streamStderr].Bytes())
		case channel != streamStdout && channel != streamStderr && channel != streamStatus:
			return "", fmt.Errorf("a message of the unknown stream %d", channel)
		}
		out[channel].Write(data)
	}
}

// commandError returns the error of a command.
func commandError(text, stderr []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(text, &status); err != nil {
		return fmt.Errorf("the status of the command: %w", err)
	}
	if status.Status == metav1.StatusSuccess {
		return nil
	}
	reason := string(bytes.TrimSpace(stderr))
	if status.Details != nil {
		for _, c := range status.Details.Causes {
			if c.Type == "ExitCode" {
				return fmt.Errorf("exit code %s: %s", c.Message, reason)
			}
		}
	}
	return errors.New(cmp.Or(status.Message, reason, "it failed without a reason"))
}

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
	plan := doctor.Plan(s, doctor.MeansForward, pods, c.ExternalName, start)
	runs, _ := each(ctx, pods, func(ctx context.Context, pod doctor.Server) (forwardRun, error) {
		own := slices.DeleteFunc(slices.Clone(plan), func(q doctor.Query) bool { return q.Server != pod.TCP })
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
	pod    doctor.Server
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
	dialing, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	s, err := dialStream(dialing, f.api, f.pod.Namespace, f.pod.Pod, "portforward", forwardProtocol,
		url.Values{"ports": {strconv.Itoa(int(f.pod.TCP.Port()))}})
	if err != nil {
		f.fail(err)
		return nil, err
	}
	conn := &forwardConn{stream: s}
	defer conn.Close()
	ctx, cancel = context.WithTimeout(ctx, ReplyTime)
	defer cancel()
	return lookup.ExchangeOver(ctx, conn, query)
}

// forwardConn is a connection to a port of a pod. No port of this machine is opened. The first message of each
// channel is the number of the port.
type forwardConn struct {
	*stream
	started [channelError + 1]bool // channels whose port was received
	unread  []byte                 // of the last message
}

func (c *forwardConn) Write(p []byte) (int, error) {
	if err := c.send(append([]byte{channelData}, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *forwardConn) Read(p []byte) (int, error) {
	for len(c.unread) == 0 {
		channel, data, err := c.receive()
		switch {
		case err != nil:
			return 0, err
		case channel > channelError:
			return 0, errors.New("a message of an unknown channel")
		case !c.started[channel]:
			c.started[channel] = true
			data = data[min(2, len(data)):] // the port
		case channel == channelError && len(data) > 0:
			return 0, forwardError(string(data))
		}
		c.unread = data
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
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

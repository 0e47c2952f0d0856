// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/probe"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
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
// each of them was queried.
func forwardProbes(ctx context.Context, c Config, s *doctor.Snapshot, start time.Time) (probes []v1alpha1.DoctorProbe, why string) {
	pods := doctor.Forwards(s)
	if len(pods) == 0 {
		return nil, cmp.Or(s.Unread[doctor.Services], s.Unread[doctor.Slices], "the cluster DNS has no ready pod")
	}
	plan := doctor.PlanForward(s, pods, c.ExternalName, start)
	lists, errs := each(ctx, pods, func(ctx context.Context, pod doctor.Forward) ([]v1alpha1.DoctorProbe, error) {
		f := forwarder{api: c.API, pod: pod}
		own := slices.DeleteFunc(slices.Clone(plan), func(q doctor.Query) bool { return q.Server != pod.Server })
		first := min(1, len(own)) // where the port cannot be forwarded, it is tried once
		list := probe.RunThrough(ctx, own[:first], start, f.exchange)
		if f.failure() == nil {
			list = append(list, probe.RunThrough(ctx, own[first:], start, f.exchange)...)
		}
		if err := cmp.Or(f.failure(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("pod %s/%s: port-forward: %w", pod.Namespace, pod.Pod, err)
		}
		return list, nil
	})
	if len(errs) > 0 {
		why = fmt.Sprintf("%d of %d pods not queried: %v", len(errs), len(pods), errs[0])
	}
	return slices.Concat(lists...), why
}

// forwarder queries one pod.
type forwarder struct {
	api    *rest.Config
	pod    doctor.Forward
	mu     sync.Mutex
	failed error // the first failure to forward the port: there was no query
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
	ctx, cancel := context.WithTimeout(ctx, probe.ReplyTime)
	defer cancel()
	return lookup.ExchangeOver(ctx, conn, query)
}

// dialForward returns a connection to a port of a pod. No port of this machine is opened.
func dialForward(ctx context.Context, cfg *rest.Config, pod doctor.Forward) (*forwardConn, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	api, err := client.New(cfg, corev1.SchemeGroupVersion, &corev1.Pod{})
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

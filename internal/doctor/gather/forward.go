// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
)

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
	dialing, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	s, err := dialStream(dialing, f.api, f.pod.Namespace, f.pod.Pod, "portforward", forwardProtocol,
		url.Values{"ports": {strconv.Itoa(int(f.pod.Server.Port()))}})
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

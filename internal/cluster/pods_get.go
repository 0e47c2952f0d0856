// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const (
	// maxSmall is the size in bytes of the largest object that a small request receives. Most pods
	// have less than 20 KB.
	maxSmall = 128 << 10

	// maxLarge is the same of a large request. The API server accepts objects of 3 MiB.
	maxLarge = 16 << 20

	// decodedPods is the largest number of responses to small requests that are read and decoded at
	// the same time. The number of requests itself has no limit, because a slow API server must not
	// delay the last of many pods that start.
	decodedPods = 8

	// largeRequests is the largest number of large requests at the same time. A pod of 3 MB takes
	// tens of megabytes while it is decoded.
	largeRequests = 5
)

// errNoSlot is the error of a lookup that has ended before it got a slot.
var errNoSlot = errors.New("waiting for the requests of other pods")

// slots limits how many requests are processed at the same time.
type slots chan struct{}

// acquire returns when there is a free slot, which release gives back. It returns an error that wraps
// errNoSlot and that of ctx if ctx ends before.
func (s slots) acquire(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errNoSlot, ctx.Err())
	}
}

// errTooLarge is the error of a request for a pod that is larger than its limit.
var errTooLarge = errors.New("the pod is too large")

// get requests ref's pod from the API server: with a small request, and with a large one if the pod
// is larger. A large pod thus waits for other large pods only, and no small one waits for them.
func (p *Pods) get(ctx context.Context, ref Ref) (policy.Pod, error) {
	if !p.table.isLarge(ref.UID) || p.breaker.isOpen() {
		pod, err := p.getSmall(ctx, ref)
		if !errors.Is(err, errTooLarge) {
			return pod, err
		}
	}
	// The author of the pod decides how long this takes, so a failure does not open the circuit breaker.
	release, err := p.large.acquire(ctx)
	if err != nil {
		return policy.Pod{}, err
	}
	defer release()
	return p.getUpTo(ctx, ref, maxLarge)
}

// getSmall sends a small request for ref's pod. Its result opens or closes the circuit breaker.
func (p *Pods) getSmall(ctx context.Context, ref Ref) (policy.Pod, error) {
	if err := p.breaker.allow(); err != nil {
		return policy.Pod{}, err
	}
	pod, err := p.getUpTo(ctx, ref, maxSmall)
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, errTooLarge):
		p.breaker.succeeded()
	case !errors.Is(err, errNoSlot): // which is not a failure of the API server
		p.breaker.failed(err)
	}
	return pod, err
}

// getUpTo requests ref's pod if it has at most limit bytes. The response may come from the API server's
// cache (resource version 0), so that pod starts put no load on its storage. A cache that lags may have
// the previous pod of this name, or none: then the storage is read.
func (p *Pods) getUpTo(ctx context.Context, ref Ref, limit int64) (policy.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.GetTimeout)
	defer cancel()
	pod, err := p.request(ctx, ref, "0", limit)
	if errors.Is(err, ErrNotFound) && !isAnswer(err) {
		pod, err = p.request(ctx, ref, "", limit)
	}
	return pod, err
}

// request sends one request for ref's pod. An error that is an answer of the API server about
// this pod wraps ErrNotFound.
func (p *Pods) request(ctx context.Context, ref Ref, version string, limit int64) (policy.Pod, error) {
	r := p.cfg.Client.Get().Namespace(ref.Namespace).Resource(pods.name).Name(ref.Name).
		VersionedParams(&metav1.GetOptions{ResourceVersion: version}, metav1.ParameterCodec)
	pod, err := p.receive(ctx, r, limit)
	if isConnectionLost(err) { // for example of an API server that was restarted: another one may respond
		pod, err = p.receive(ctx, r, limit)
	}
	switch {
	case apierrors.IsNotFound(err):
		return policy.Pod{}, ErrNotFound
	case isAnswer(err):
		return policy.Pod{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	case err != nil:
		err = fmt.Errorf("getting the pod from the API server: %w", err)
		if late := ctx.Err(); late != nil && !errors.Is(err, late) {
			err = fmt.Errorf("%w: %w", err, late)
		}
		return policy.Pod{}, err
	}
	isMirror := ref.isStatic() && !ref.NoMirror && pod.Annotations[corev1.MirrorPodAnnotationKey] == ref.UID
	if string(pod.UID) != ref.UID && !isMirror {
		return policy.Pod{}, fmt.Errorf("the API server has UID %s for this name: %w", pod.UID, ErrNotFound)
	}
	if name := pod.Spec.NodeName; name != "" && name != p.cfg.NodeName {
		p.otherNode.Do(func() {
			p.cfg.Logger.Warn("the node name differs from the API server's, pods of this node are not watched: set node.nodeName",
				"nodeName", p.cfg.NodeName, "wanted", name)
		})
	}
	found := kube.FromPod(pod)
	found.UID = ref.UID
	return found, nil
}

// receive sends a request for a pod, and decodes the response if it has at most limit bytes. Of a larger one it
// reads no more.
func (p *Pods) receive(ctx context.Context, r *rest.Request, limit int64) (*corev1.Pod, error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if limit == maxSmall { // a large request has a slot already
		release, err := p.decoded.acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	pod := new(corev1.Pod)
	object, _, err := p.decoder.Decode(data, nil, pod)
	if err == nil && object != pod {
		err = fmt.Errorf("unexpected object %T, want a pod", object)
	}
	return pod, err
}

// isConnectionLost reports whether err is that of a connection that ended before the response was
// complete. Request.Do repeats such a request, after a second; Request.Stream does not.
func isConnectionLost(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// isAnswer reports whether err says that the API server responds, and does not give this pod to
// this client. With the identity of a kubelet a pod that does not exist is 403 Forbidden: the
// node authorizer only knows the pods of the node.
func isAnswer(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || apierrors.IsNotFound(err) {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// A breaker opens after breakerLimit consecutive failures, for breakerPause.
const (
	breakerLimit = 5
	breakerPause = 10 * time.Second
)

// breaker keeps lookups from waiting for an API server that does not respond. After the
// pause it allows one call at a time; a success closes it.
type breaker struct {
	log *slog.Logger

	mu       sync.Mutex
	failures int       // consecutive
	until    time.Time // once failures has reached breakerLimit: no call before
	last     error
}

// allow returns nil if the API may be called now. The caller reports the outcome to
// succeeded or failed.
func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakerLimit {
		return nil
	}
	if left := time.Until(b.until); left > 0 {
		return fmt.Errorf("not calling the API server for another %v after %d consecutive failures: %w",
			left.Round(time.Millisecond), b.failures, b.last)
	}
	b.until = time.Now().Add(breakerPause)
	return nil
}

// isOpen reports whether the last calls have failed.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= breakerLimit
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures >= breakerLimit {
		b.log.Info("API server responds again")
	}
	b.failures, b.last = 0, nil
}

func (b *breaker) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.last = err
	if b.failures < breakerLimit {
		return
	}
	b.until = time.Now().Add(breakerPause)
	if b.failures == breakerLimit {
		b.log.Warn("API server unreachable, cannot look up pods that the watch has not delivered",
			"failures", b.failures, "pause", breakerPause, "error", err)
	}
}

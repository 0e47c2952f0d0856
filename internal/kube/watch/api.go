// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// pods is the name of the resource.
const pods = "pods"

// maxLargeGets is the number of large pods, see maxConfig, that are requested at the same time. An
// object of 3 MB takes tens of megabytes while it is decoded.
const maxLargeGets = 4

// newReflector returns a reflector that keeps store up to date with the pods of node. The
// field selector is required: the node authorizer forbids a kubelet's identity to list or
// watch pods without it.
func newReflector(c rest.Interface, node string, store cache.ReflectorStore) *cache.Reflector {
	lw := client.ListWatch(c, pods, fields.OneTermEqualSelector("spec.nodeName", node))
	return cache.NewReflectorWithOptions(lw, &corev1.Pod{}, store, cache.ReflectorOptions{Name: "pods of node " + node})
}

// get requests ref's pod from the API server. The response may come from the API server's
// cache (resource version 0), so that pod starts put no load on its storage. A cache that lags
// may have the previous pod of this name, or none: then the storage is read.
func (p *Pods) get(ctx context.Context, ref Ref) (policy.Pod, error) {
	if p.table.isLarge(ref.UID) {
		select {
		case p.largeGets <- struct{}{}:
			defer func() { <-p.largeGets }()
		case <-ctx.Done(): // not a failure of the API server
			return policy.Pod{}, fmt.Errorf("waiting for the requests of other large pods: %w", ctx.Err())
		}
	}
	if err := p.breaker.allow(); err != nil {
		return policy.Pod{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.GetTimeout)
	defer cancel()
	pod, err := p.request(ctx, ref, "0")
	if errors.Is(err, ErrNotFound) && !isAnswer(err) {
		pod, err = p.request(ctx, ref, "")
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		p.breaker.failed(err)
	} else {
		p.breaker.succeeded()
	}
	return pod, err
}

// request sends one request for ref's pod. An error that is an answer of the API server about
// this pod wraps ErrNotFound.
func (p *Pods) request(ctx context.Context, ref Ref, version string) (policy.Pod, error) {
	pod := new(corev1.Pod)
	err := p.cfg.Client.Get().Namespace(ref.Namespace).Resource(pods).Name(ref.Name).
		VersionedParams(&metav1.GetOptions{ResourceVersion: version}, metav1.ParameterCodec).Do(ctx).Into(pod)
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
	isMirror := ref.static() && !ref.NoMirror && pod.Annotations[corev1.MirrorPodAnnotationKey] == ref.UID
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

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"

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

// newReflector returns a reflector that keeps store up to date with the pods of node. The
// field selector is required: the node authorizer forbids a kubelet's identity to list or
// watch pods without it.
func newReflector(c rest.Interface, node string, store cache.ReflectorStore) *cache.Reflector {
	lw := client.ListWatch(c, pods, fields.OneTermEqualSelector("spec.nodeName", node))
	return cache.NewReflectorWithOptions(lw, &corev1.Pod{}, store, cache.ReflectorOptions{Name: "pods of node " + node})
}

// get requests ref's pod from the API server. The response may come from the API server's
// cache (resource version 0), so that pod starts put no load on its storage.
func (p *Pods) get(ctx context.Context, ref Ref) (policy.Pod, error) {
	if err := p.breaker.allow(); err != nil {
		return policy.Pod{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.GetTimeout)
	defer cancel()
	pod := new(corev1.Pod)
	err := p.cfg.Client.Get().Namespace(ref.Namespace).Resource(pods).Name(ref.Name).
		VersionedParams(&metav1.GetOptions{ResourceVersion: "0"}, metav1.ParameterCodec).Do(ctx).Into(pod)
	if err != nil && !apierrors.IsNotFound(err) {
		err = fmt.Errorf("getting the pod from the API server: %w", err)
		if late := ctx.Err(); late != nil && !errors.Is(err, late) {
			err = fmt.Errorf("%w: %w", err, late)
		}
		p.breaker.failed(err)
		return policy.Pod{}, err
	}
	p.breaker.succeeded()
	if err != nil {
		return policy.Pod{}, ErrNotFound
	}
	isMirror := ref.static() && pod.Annotations[corev1.MirrorPodAnnotationKey] == ref.UID
	if string(pod.UID) != ref.UID && !isMirror {
		return policy.Pod{}, fmt.Errorf("the API server has UID %s for this name: %w", pod.UID, ErrNotFound)
	}
	found := kube.FromPod(pod)
	found.UID = ref.UID
	return found, nil
}

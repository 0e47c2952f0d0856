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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// pods is the name of the resource.
const pods = "pods"

// reflector returns what keeps store up to date with the pods of node. The field
// selector is more than thrift: the node authorizer refuses a kubelet's identity
// that lists or watches pods without it.
func reflector(client rest.Interface, node string, store cache.ReflectorStore) *cache.Reflector {
	lw := cache.NewListWatchFromClient(client, pods, metav1.NamespaceAll, fields.OneTermEqualSelector("spec.nodeName", node))
	open := lw.WatchFuncWithContext
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := open(ctx, o)
		if err != nil && o.SendInitialEvents != nil {
			// On some errors of a streaming list the reflector sleeps for up to a
			// minute and does not look at ctx (watchList in client-go 0.37). On one
			// that it does not recognize it goes on to a plain list.
			err = errors.New(err.Error())
		}
		return w, err
	}
	return cache.NewReflectorWithOptions(lw, &corev1.Pod{}, store, cache.ReflectorOptions{Name: "pods of node " + node})
}

// get calls the API for ref's pod. The answer may come from the API server's cache
// (resource version 0), so that pod starts cost its storage nothing.
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
		err = fmt.Errorf("asking the API: %w", err)
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
		return policy.Pod{}, fmt.Errorf("the API has another pod of this name, with UID %s: %w", pod.UID, ErrNotFound)
	}
	known := kube.FromPod(pod)
	known.UID = ref.UID
	return known, nil
}

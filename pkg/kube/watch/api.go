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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// reflector returns what keeps store up to date with the pods of node. The field
// selector is more than thrift: the node authorizer refuses a kubelet's identity
// that lists or watches pods without it.
func reflector(client kubernetes.Interface, node string, store cache.ReflectorStore) *cache.Reflector {
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			w, err := pods.Watch(ctx, o)
			if err != nil && o.SendInitialEvents != nil {
				// On some errors of a streaming list the reflector sleeps for up to a
				// minute and does not look at ctx (watchList in client-go 0.37). On one
				// that it does not recognize it goes on to a plain list.
				err = errors.New(err.Error())
			}
			return w, err
		},
	}
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), &corev1.Pod{}, store,
		cache.ReflectorOptions{Name: "pods of node " + node})
}

// get calls the API for ref's pod. The answer may come from the API server's cache
// (resource version 0), so that pod starts cost its storage nothing.
func (p *Pods) get(ctx context.Context, ref Ref) (policy.Pod, error) {
	if err := p.breaker.allow(); err != nil {
		return policy.Pod{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.GetTimeout)
	defer cancel()
	pod, err := p.cfg.Client.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{ResourceVersion: "0"})
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
		return policy.Pod{}, ErrUnknown
	}
	isMirror := ref.static() && pod.Annotations[corev1.MirrorPodAnnotationKey] == ref.UID
	if string(pod.UID) != ref.UID && !isMirror {
		return policy.Pod{}, fmt.Errorf("the API has another pod of this name, with UID %s: %w", pod.UID, ErrUnknown)
	}
	known := kube.FromPod(pod)
	known.UID = ref.UID
	return known, nil
}

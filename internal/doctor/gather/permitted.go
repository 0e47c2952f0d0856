// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const (
	// maxKubelets is the number of kubelets whose configuration is read.
	maxKubelets = 500

	// parallel is the number of requests at the same time. Each is passed on to a kubelet,
	// some of which may not reply.
	parallel = 16

	// kubeletTime is how long a kubelet may take for a reply.
	kubeletTime = 10 * time.Second

	// maxConfigz is the size of a kubelet's reply; longer replies are cut. The owner of a
	// node controls it; that of a kubelet has about four kibibytes.
	maxConfigz = 1 << 20
)

// Kubelets adds the configurations with which the kubelets of a snapshot's nodes run, through
// the API server's proxy.
func Kubelets(ctx context.Context, c Config, s *doctor.Snapshot) {
	nodes := s.Nodes[:min(len(s.Nodes), maxKubelets)]
	api, err := cluster.NewClient(c.API, corev1.SchemeGroupVersion, &corev1.Node{})
	if err != nil {
		s.Unread[doctor.Kubelets] = err.Error()
		return
	}
	var errs []error
	s.Kubelets, errs = forEach(nodes, func(n *corev1.Node) (doctor.Kubelet, error) {
		config, err := kubeletConfig(ctx, api, n.Name)
		if err != nil {
			err = fmt.Errorf("node %s: configz: %w", n.Name, err)
		}
		return doctor.Kubelet{Node: n.Name, Config: config}, err
	})
	if len(nodes) < len(s.Nodes) {
		errs = append(errs, fmt.Errorf("the cluster has more than %d nodes", maxKubelets))
	}
	switch {
	case len(errs) > 0:
		s.Unread[doctor.Kubelets] = fmt.Sprintf("%d of %d not read: %v", len(errs), len(s.Nodes), errs[0])
	case len(s.Nodes) == 0:
		s.Unread[doctor.Kubelets] = cmp.Or(s.Unread[doctor.Nodes], "the cluster has no nodes")
	}
}

// forEach calls f for each item, a number of them at the same time, and returns the results and the errors in their order.
func forEach[T, R any](items []T, f func(*T) (R, error)) (results []R, errs []error) {
	found, failed := make([]R, len(items)), make([]error, len(items))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range items {
		group.Go(func() error {
			found[i], failed[i] = f(&items[i])
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	for i, err := range failed {
		if err != nil {
			errs = append(errs, err)
		} else {
			results = append(results, found[i])
		}
	}
	return results, errs
}

// kubeletConfig returns the configuration with which a kubelet runs. The endpoint has the
// defaults filled in and no type.
func kubeletConfig(ctx context.Context, api rest.Interface, node string) (config kube.KubeletConfiguration, err error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	body, err := api.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("configz").Stream(ctx)
	if err != nil {
		return config, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxConfigz+1))
	if err != nil {
		return config, err
	}
	if len(text) > maxConfigz {
		return config, fmt.Errorf("the reply has more than %d bytes: is this a kubelet?", maxConfigz)
	}
	var reply struct {
		Config *kube.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return config, err
	}
	if reply.Config == nil {
		return config, errors.New("the reply has no kubeletconfig")
	}
	return *reply.Config, nil
}

// limits are the sizes, in bytes, beyond which nothing is read. Tenants write objects of up to
// three megabytes: 50,000 would be 150 gigabytes.
type limits struct {
	page int64 // of one reply

	// kind is for all objects of a kind, as they are encoded and without the fields that no
	// check needs. A pod has one to two kilobytes then.
	kind int
}

func defaultLimits() limits { return limits{page: 64 << 20, kind: 128 << 20} }

// trim removes what no check needs: managed fields, annotations, and of pods what their
// containers run.
func trim(item runtime.Object) {
	o, err := meta.Accessor(item)
	if err != nil {
		return
	}
	o.SetManagedFields(nil)
	all := o.GetAnnotations()
	maps.DeleteFunc(all, func(name, _ string) bool { return name != policy.OverrideAnnotation && name != cluster.TolerateUnready })
	o.SetAnnotations(all)
	if p, ok := item.(*corev1.Pod); ok {
		trimContainers(p.Spec.InitContainers)
		trimContainers(p.Spec.Containers)
		p.Spec.EphemeralContainers = nil
		p.Spec.Tolerations = nil
	}
}

func trimContainers(list []corev1.Container) {
	for i := range list {
		c := &list[i]
		c.Env, c.EnvFrom, c.Command, c.Args = nil, nil, nil, nil
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
	}
}

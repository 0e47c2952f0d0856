// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
)

// clusterTimeout limits reading a live cluster.
const clusterTimeout = 2 * time.Minute

// Node reads the cluster of o into c: all Namespaces, Services and EndpointSlices, and the pods of one namespace. It
// returns the node of the pod: the flags, with the facts of the cluster where the flags and their files have none.
func Node(ctx context.Context, o *Options, flags *nodefacts.Flags, userAgent string, c *Config) (nodefacts.Node, error) {
	api, err := cluster.LoadUserConfig(o.Kubeconfig, o.Context, userAgent)
	if err != nil && o.Kubeconfig == "" && o.Context == "" {
		return nodefacts.Node{}, fmt.Errorf("no manifests, and no cluster: %w, or -f", err)
	} else if err != nil {
		return nodefacts.Node{}, err
	}
	api.QPS = -1 // the requests follow each other, and client-go's five a second take longer than the timeout
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	s, err := gather.Names(ctx, gather.Config{API: api, Scope: doctor.Scope{Namespace: o.PodNamespace()}, MaxObjects: gather.MaxObjects})
	if err != nil {
		return nodefacts.Node{}, err
	}
	if c.Manifest, err = manifestOf(s); err != nil {
		return nodefacts.Node{}, err
	}
	c.Complete = true
	return flags.LoadFor(gather.KubeletFacts(s))
}

// manifestOf returns the objects of a snapshot as those of a manifest.
func manifestOf(s *doctor.Snapshot) (all kube.Manifest, err error) {
	core, discovery := corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion
	for _, err := range []error{
		addObjects(&all, core.WithKind("Namespace"), s.Namespaces), addObjects(&all, core.WithKind("Service"), s.Services),
		addObjects(&all, discovery.WithKind("EndpointSlice"), s.Slices), addObjects(&all, core.WithKind("Pod"), s.Pods),
	} {
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// addObjects adds objects of a kind to a manifest. An object of the API is smaller than a manifest may be.
func addObjects[T any, P interface {
	*T
	runtime.Object
}](all *kube.Manifest, kind schema.GroupVersionKind, list []T) error {
	for i := range list {
		o := P(&list[i])
		o.GetObjectKind().SetGroupVersionKind(kind)
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		m, err := kube.ParseManifest(kind.Kind+" of the cluster", text)
		if err != nil {
			return err
		}
		all.Workloads, all.Others = append(all.Workloads, m.Workloads...), append(all.Others, m.Others...)
	}
	return nil
}

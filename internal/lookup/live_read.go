// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
)

const (
	pageSize = 500 // objects of a request: as kubectl

	// pageShrink divides the number of objects of a request after a page that is too large.
	pageShrink = 4
)

// limits are the sizes beyond which nothing is read.
type limits struct {
	objects int   // of a kind
	reply   int64 // bytes of one reply
	total   int   // bytes of all replies
}

// defaultLimits returns the limits of the command: the number of objects is the same in doctor.
func defaultLimits() limits { return limits{50_000, kube.MaxManifest, 256 << 20} }

// Cluster is what a lookup needs of a cluster.
type Cluster struct {
	// Manifest has all Namespaces, Services and EndpointSlices, and the pods of one namespace.
	Manifest kube.Manifest

	ClusterDNS    []string // which pods query; none: not known
	ClusterDomain string   // "": not known
}

// Read reads the cluster at api, with the pods of a namespace. It lists objects and gets one
// ConfigMap, and changes nothing.
func Read(ctx context.Context, api *rest.Config, namespace string) (Cluster, error) {
	return read(ctx, api, namespace, defaultLimits())
}

func read(ctx context.Context, api *rest.Config, namespace string, most limits) (Cluster, error) {
	api = rest.CopyConfig(api)
	api.QPS = -1 // the requests follow each other, and client-go's five a second take longer than the timeout
	cluster.LimitReplies(api, most.reply)
	rc, err := cluster.NewClient(api, corev1.SchemeGroupVersion, &corev1.ConfigMap{})
	if err != nil {
		return Cluster{}, err
	}
	r := reader{api: rc, most: most}
	for _, resource := range []struct{ name, path string }{
		{"namespaces", "/api/v1/namespaces"},
		{"services", "/api/v1/services"},
		{"endpointslices", "/apis/discovery.k8s.io/v1/endpointslices"},
		{"pods", "/api/v1/namespaces/" + namespace + "/pods"},
	} {
		if err := r.list(ctx, resource.name, resource.path); err != nil {
			return Cluster{}, err
		}
	}
	r.readDNS(ctx)
	return r.cluster, nil
}

// clusterTimeout limits reading a live cluster.
const clusterTimeout = 2 * time.Minute

// Node reads the cluster of o into c, and returns the node of the pod: the flags, with the
// facts of the cluster where the flags and their files have none.
func Node(ctx context.Context, o *Options, flags *nodefacts.Flags, userAgent string, c *Config) (nodefacts.Node, error) {
	api, err := cluster.LoadUserConfig(o.Kubeconfig, o.Context, userAgent)
	if err != nil {
		return nodefacts.Node{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	cluster, err := Read(ctx, api, o.PodNamespace())
	if err != nil {
		return nodefacts.Node{}, err
	}
	c.Manifest, c.Complete = cluster.Manifest, true
	return flags.LoadFor(cluster.ClusterDNS, cluster.ClusterDomain)
}

// reader reads a cluster.
type reader struct {
	api      rest.Interface
	most     limits
	cluster  Cluster
	services []corev1.Service
	bytes    int
}

// list reads all objects of a resource, page by page.
func (r *reader) list(ctx context.Context, resource, path string) error {
	limit, read, token := pageSize, 0, ""
	for {
		data, err := r.api.Get().AbsPath(path).SetHeader("Accept", "application/json").
			Param("limit", strconv.Itoa(limit)).Param("continue", token).DoRaw(ctx)
		if errors.Is(err, cluster.ErrLargeReply) && limit > 1 {
			limit = max(1, limit/pageShrink)
			continue
		}
		if err != nil {
			return r.describe(resource, err)
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := document.Decode(data, &page); err != nil {
			return fmt.Errorf("list %s: invalid reply of the API server: %w", resource, err)
		}
		read += len(page.Items)
		if r.bytes += len(data); read > r.most.objects || r.bytes > r.most.total {
			return fmt.Errorf("list %s: more than %d objects or %d bytes: write the objects that matter to a file, and set -f",
				resource, r.most.objects, r.most.total)
		}
		if err := r.add(resource, data, page.Items); err != nil {
			return err
		}
		if token = page.Metadata.Continue; token == "" {
			return nil
		}
	}
}

// add adds the objects of a page.
func (r *reader) add(resource string, data []byte, items []json.RawMessage) error {
	m, err := kube.ParseManifest(resource+" of the cluster", data)
	if err != nil {
		return err
	}
	all := &r.cluster.Manifest
	all.Workloads = append(all.Workloads, m.Workloads...)
	all.Others = append(all.Others, m.Others...)
	all.Unknown = append(all.Unknown, m.Unknown...)
	if resource != "services" {
		return nil
	}
	for _, item := range items {
		var s corev1.Service
		if err := json.Unmarshal(item, &s); err == nil { // ParseManifest has accepted it
			r.services = append(r.services, s)
		}
	}
	return nil
}

// readDNS sets what pods get from the kubelets: as kubeadm keeps it in the ConfigMap
// kubelet-config, or the addresses of the DNS Service. Other installers have no such ConfigMap,
// and a user may lack the permission to read it.
func (r *reader) readDNS(ctx context.Context) {
	if s := doctor.FindDNSService(r.services); s != nil {
		r.cluster.ClusterDNS = s.Spec.ClusterIPs
	}
	var c corev1.ConfigMap
	err := r.api.Get().Namespace("kube-system").Resource("configmaps").Name(doctor.KubeletConfigMap).Do(ctx).Into(&c)
	if err != nil {
		return
	}
	k, err := kube.ParseKubeletConfiguration([]byte(c.Data["kubelet"]))
	if err != nil {
		return
	}
	r.cluster.ClusterDomain = k.ClusterDomain
	if len(k.ClusterDNS) > 0 {
		r.cluster.ClusterDNS = k.ClusterDNS
	}
}

// describe returns an error of the API server with what to do.
func (r *reader) describe(resource string, err error) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no permission to list %s: docs/debugging.md lists the permissions", resource)
	case errors.Is(err, cluster.ErrLargeReply):
		return fmt.Errorf("list %s: an object has more than %d bytes: write the objects that matter to a file, and set -f",
			resource, r.most.reply)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("list %s: not finished in time: save the objects with kubectl, and read them with -f", resource)
	case errors.As(err, &status):
		return fmt.Errorf("list %s: %w", resource, err)
	}
	return fmt.Errorf("the API server cannot be reached: %w", err)
}

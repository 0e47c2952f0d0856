// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/zonesync"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// source is where the objects of a zone come from: manifests, or the API server.
type source struct {
	run    func(context.Context) error // updates the zone until the context ends
	status func() []zonesync.Status    // of the watches of the API server; nil: manifests
}

// newSource returns the source of z. It calls identified with the UID of the cluster as soon as
// that is known, which it never is with manifests.
func (s *Server) newSource(c config.DNS, z *zone.Zone, register prometheus.Registerer, identified func(uid string)) (source, error) {
	if len(c.Manifests) > 0 {
		dirs, err := zonesync.NewDirectories(zonesync.DirectoriesConfig{Zone: z, Domain: c.Domain, Paths: c.Manifests, Logger: s.Log})
		if err != nil {
			return source{}, multierr.Prefix(c.ManifestsOrigin, err)
		}
		return source{run: dirs.Run}, nil
	}
	cfg, err := client.LoadConfig(c.Kubeconfig, "dnsconfigurer-dns/"+s.Version)
	if err != nil {
		return source{}, fmt.Errorf("%w: outside a cluster set --kubeconfig or --manifests", err)
	}
	core, err := client.New(cfg, corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{},
		&corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Pod{}, &corev1.PodList{})
	if err != nil {
		return source{}, err
	}
	discovery, err := client.New(cfg, discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	if err != nil {
		return source{}, err
	}
	api := zonesync.New(zonesync.Config{
		Zone: z, Domain: c.Domain, Core: core, Discovery: discovery, Pods: c.PodMode() == zone.PodsVerified,
		Snapshot: c.Snapshot.Path, SnapshotWait: c.SnapshotWait, SnapshotMaxAge: c.SnapshotMaxAge,
		Identified: identified, Logger: s.Log, Register: register,
	})
	return source{api.Run, api.Status}, nil
}

// ready returns an error if the cluster zone is not loaded, and details about its source. A server
// with stale names is ready: stale names are better than no names.
func (s source) ready(z *zone.Zone) (details []string, err error) {
	switch now := z.Snapshot(); {
	case !now.Loaded():
		err = errors.New("the cluster's names are not loaded yet")
	case now.StaleSince().IsZero():
		details = append(details, "names: loaded")
	default:
		details = append(details, fmt.Sprintf("names: from a snapshot, %v old", time.Since(now.StaleSince()).Round(time.Second)))
	}
	if s.status != nil {
		for _, st := range s.status() {
			details = append(details, st.String())
		}
	}
	return details, err
}

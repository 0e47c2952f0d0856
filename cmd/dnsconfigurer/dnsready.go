// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/zonesync"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// source is what fills the zone.
type source struct {
	run    func(context.Context) error
	status func() []zonesync.Status // nil: no API server is asked
}

// ready says why nothing is known of the cluster, and in detail where the names are
// from. A server with names that are old is ready: they are better than none.
func (s source) ready(z *zone.Zone) (detail []string, err error) {
	switch now := z.Snapshot(); {
	case !now.Loaded():
		err = errors.New("the cluster's names are not loaded yet")
	case now.StaleSince().IsZero():
		detail = append(detail, "names: loaded")
	default:
		detail = append(detail, fmt.Sprintf("names: from a snapshot, %v old", time.Since(now.StaleSince()).Round(time.Second)))
	}
	if s.status != nil {
		for _, st := range s.status() {
			detail = append(detail, st.String())
		}
	}
	return detail, err
}

// clusterAnswers says why a cache on a node cannot serve the cluster's names, and in detail
// how the cluster DNS servers do. One that is not asked counts as good.
func (f *dnsInForce) clusterAnswers() (detail []string, err error) {
	f.mu.Lock()
	cluster := f.forwarding.cluster
	f.mu.Unlock()
	err = errors.New("no cluster DNS server answers")
	for _, s := range cluster.Status() {
		switch {
		case s.Looping:
			detail = append(detail, fmt.Sprintf("cluster DNS %v: sends our queries back to us", s.Server))
		case s.Down:
			detail = append(detail, fmt.Sprintf("cluster DNS %v: does not answer", s.Server))
		default:
			detail, err = append(detail, fmt.Sprintf("cluster DNS %v: ok", s.Server)), nil
		}
	}
	return detail, err
}

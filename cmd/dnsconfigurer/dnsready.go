// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube/names"
)

// source is what fills the zone.
type source struct {
	run    func(context.Context) error
	status func() []names.Status // nil: no API server is asked
}

// ready says why nothing is known of the cluster, and in detail where the names are
// from. A server with names that are old is ready: they are better than none.
func (s source) ready(z *zone.Zone) (detail []string, err error) {
	switch now := z.Snapshot(); {
	case !now.Loaded():
		err = errors.New("the cluster's names are not loaded yet")
	case now.Stale().IsZero():
		detail = append(detail, "names: loaded")
	default:
		detail = append(detail, fmt.Sprintf("names: from a snapshot, %v old", time.Since(now.Stale()).Round(time.Second)))
	}
	if s.status != nil {
		for _, st := range s.status() {
			detail = append(detail, st.String())
		}
	}
	return detail, err
}

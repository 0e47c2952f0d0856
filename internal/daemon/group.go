// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// A Task runs until ctx ends or it fails.
type Task = func(ctx context.Context) error

// RunAll runs tasks until ctx ends or one of them fails, which ends the others. It returns
// the first error when all have returned.
func RunAll(ctx context.Context, tasks ...Task) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		group.Go(func() error { return task(ctx) })
	}
	return group.Wait()
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// A Task runs until ctx ends or it fails.
type Task = func(ctx context.Context) error

// NoTask waits until ctx ends.
func NoTask(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// RunAll runs tasks until ctx ends or one of them fails, which ends the others. It returns
// the first error when all have returned.
func RunAll(ctx context.Context, tasks ...Task) error { return Group{Tasks: tasks}.Run(ctx) }

// A Group is the tasks of a server.
type Group struct {
	Tasks []Task

	// Last are tasks that end after Tasks have returned, such as the task that updates the
	// data of a server that drains.
	Last []Task
}

// Run runs all tasks until ctx ends or one of them fails. Then it ends Tasks, and Last when
// Tasks have returned. It returns the first error when all have returned.
func (g Group) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	lastCtx, endLast := context.WithCancel(context.WithoutCancel(ctx))
	defer endLast()
	var running sync.WaitGroup
	running.Add(len(g.Tasks))
	for _, task := range g.Tasks {
		group.Go(func() error {
			defer running.Done()
			return task(ctx)
		})
	}
	for _, task := range g.Last {
		group.Go(func() error { return task(lastCtx) })
	}
	group.Go(func() error {
		defer endLast()
		running.Wait()
		return nil
	})
	return group.Wait()
}

// Start runs task in a goroutine. stop ends it, and waits until it has returned. A task
// that is nil does nothing. The task must not fail before ctx ends.
func Start(ctx context.Context, task Task) (stop func()) {
	if task == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = task(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

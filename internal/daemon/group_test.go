// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// recorder makes tasks that record in which order they end.
type recorder struct{ ended chan string }

// task returns one that drains for a while after ctx ends.
func (r recorder) task(name string, drain time.Duration, err error) daemon.Task {
	return func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(drain)
		r.ended <- name
		return err
	}
}

func (r recorder) order() (names []string) {
	close(r.ended)
	for name := range r.ended {
		names = append(names, name)
	}
	return names
}

func TestGroup_LastEndAfterTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder{make(chan string, 3)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := daemon.Group{
			Tasks: []daemon.Task{r.task("server", time.Second, nil), r.task("reload", 0, nil)},
			Last:  []daemon.Task{r.task("data", 0, nil)},
		}.Run(ctx)
		if got, want := r.order(), []string{"reload", "server", "data"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("tasks end in the order %v, want %v; %v", got, want, err)
		}
	})
}

func TestGroup_FailureEndsAll(t *testing.T) {
	failure := errors.New("failure")
	fail := func(context.Context) error { return failure }
	for name, group := range map[string]func(recorder) daemon.Group{
		"a task": func(r recorder) daemon.Group {
			return daemon.Group{Tasks: []daemon.Task{fail, r.task("server", time.Second, errors.New("later"))},
				Last: []daemon.Task{r.task("data", 0, nil)}}
		},
		"a last task": func(r recorder) daemon.Group {
			return daemon.Group{Tasks: []daemon.Task{r.task("server", time.Second, nil)}, Last: []daemon.Task{fail, r.task("data", 0, nil)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := recorder{make(chan string, 2)}
				err := group(r).Run(t.Context())
				if got, want := r.order(), []string{"server", "data"}; !errors.Is(err, failure) || !slices.Equal(got, want) {
					t.Errorf("tasks end in the order %v, want %v; %v", got, want, err)
				}
			})
		})
	}
}

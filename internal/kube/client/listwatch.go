// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// ListWatch returns the requests of a [cache.Reflector] for the objects of a resource, in
// all namespaces, that selector selects.
//
// On some errors of a streaming list a reflector sleeps for up to a minute without regard
// to its context (watchList in client-go 0.37). On an error that it does not recognize it
// falls back to a plain list at once. So ListWatch hides the type of these errors.
func ListWatch(c rest.Interface, resource string, selector fields.Selector) *cache.ListWatch {
	lw := cache.NewListWatchFromClient(c, resource, metav1.NamespaceAll, selector)
	open := lw.WatchFuncWithContext
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := open(ctx, o)
		if err != nil && o.SendInitialEvents != nil {
			err = errors.New(err.Error())
		}
		return w, err
	}
	return lw
}

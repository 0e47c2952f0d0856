// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package autopath implements the expansion of a pod's search list by a server (KEP-2009):
// the names that request it, the EDNS0 option that carries the list, and the walk along the
// candidates.
//
//	pod: web.search.shop.cluster.local.ap.k8s.io
//	       |
//	     Zone.Parse         web, in the namespace shop
//	     Zone.SearchPaths   shop.svc.cluster.local, svc.cluster.local, cluster.local, ...
//	       |                  ^ or from the option of the query: Decode
//	     Zone.Candidates    web.shop.svc.cluster.local ... web
//	       |
//	     Walk               the first that owns the records
//
// It exists because two servers need it: the cluster DNS, which walks, and the node cache,
// which sends the list ([Encode]) and walks if the cluster DNS does not. Each looks up the
// candidates in its own way, through a [LookupFunc].
//
// The search list comes from the name and the option alone. There is no table of pods to
// watch, and no client can get the list of another one.
package autopath

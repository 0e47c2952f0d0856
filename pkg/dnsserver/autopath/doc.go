// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package autopath is the search list of a pod, expanded by a server instead of the
// pod (KEP-2009): which names ask for it, how the list travels, and how it is walked.
//
//	pod: web.search.shop.cluster.local.ap.k8s.io
//	       |
//	     Zone.Parse        web, in the namespace shop
//	     Zone.SearchPaths        shop.svc.cluster.local, svc.cluster.local, cluster.local, ...
//	       |                 ^ or from the query's option: Decode
//	     Zone.Candidates   web.shop.svc.cluster.local ... web
//	       |
//	     Walk              the first that has what was asked for
//
// It exists because two servers need it: the cluster DNS, which walks, and a cache on
// the node, which sends the list along ([Encode]) and walks when the cluster DNS does
// not. What a name owns is their own matter; they hand in a [LookupFunc].
//
// A client learns the search list from nobody but the name and the option. So there is
// no table of pods to watch, and two clients cannot get each other's list.
package autopath

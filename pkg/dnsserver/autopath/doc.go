// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package autopath holds the names and the EDNS0 option with which a pod's search list is
// expanded by a server (KEP-2009). README.md defines them.
//
//	pod: web.search.shop.cluster.local.ap.k8s.io
//	       |
//	     Zone.Parse         web, in the namespace shop
//	     Zone.SearchPaths   shop.svc.cluster.local, svc.cluster.local, cluster.local, ...
//	       |                  ^ or from the option of the query: Decode
//	     Zone.Candidates    web.shop.svc.cluster.local ... web
//
// It exists because both ends use it: the node cache sends the list ([Encode]), and the
// cluster DNS tries the candidates. The node cache tries them itself if the cluster DNS does
// not.
//
// The search list comes from the name and the option alone. There is no table of pods to
// watch, and no client can get the list of another one.
package autopath

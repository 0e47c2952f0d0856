// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package zone is the name tree of the cluster: which names the Services and
// EndpointSlices of a cluster give rise to, and what each name owns, by Kubernetes
// DNS-Based Service Discovery 1.1.0.
//
// There is one writer and any number of readers. The writer applies objects in an
// [Edit]; the readers take a [Snapshot], which never changes, and never wait. An
// edit costs in proportion to the names that it changes, not to the cluster.
//
// A name is looked up once for all types, so that it has one rcode (RFC 8020): a
// [Node] for a name that exists, also for one that owns nothing and only has names
// below it. What the tree does not know yet is not called absent: before
// [Edit.SetLoaded] the answer is [Unknown].
//
// Names below a Service are not stored. They follow from its ports and endpoints,
// which keeps an endpoint at some 50 bytes and its address' reverse name at 150.
//
// # Beyond the specification
//
// As other cluster DNS servers do, and clients rely on: endpoints of a Service with
// a cluster IP have names and PTR records too, SRV at the Service's own name lists
// all its named ports, and names of pods by address exist below pod.<zone>.
package zone

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package zone holds the name tree of the cluster: the names that follow from its Services and EndpointSlices, and
// the records that they own, by Kubernetes DNS-Based Service Discovery 1.1.0.
//
// There is one writer and any number of readers. The writer applies objects in an
// [Edit]. The readers use a [Snapshot], which never changes, and never wait. The cost of
// an edit is proportional to the names that it changes, not to the size of the cluster.
//
// A name is looked up once for all types, so that it has one rcode (RFC 8020). There is
// a [Node] for every name that exists, including empty non-terminals. Before
// [Edit.SetLoaded] no name is [NXDomain]: the result is [Unknown].
//
// Names below a Service are not stored. They are computed from its ports and endpoints,
// which keeps an endpoint at about 50 bytes and its reverse name at 70.
//
// # Beyond the specification
//
// Clients rely on three extensions of other cluster DNS servers: endpoints of a Service
// with a cluster IP have names and PTR records, SRV at the name of a Service lists all
// its named ports, and pods have names by address below pod.<zone>.
package zone

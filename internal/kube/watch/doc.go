// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch knows the pods of one node by their UIDs.
//
// It exists because a request for a sandbox does not carry the pod's dnsPolicy and
// dnsConfig, and because a pod must not start later for our wish to know them. A
// pod that the API server has announced costs no call; for one that it has not, the
// price in time is fixed. Names are no substitute for UIDs: a StatefulSet's pod
// comes back under the same name with another specification.
//
// A [Pods] keeps a few hundred bytes for each pod of the node, filled by a list and
// watch as the kubelet's own, and beside them the static pods of the kubelet's
// manifest directory, which must start while there is no API.
//
// # Static pods
//
// The kubelet makes the UID of a static pod from a hash of its internal
// representation of the manifest, which nobody else can compute. So a manifest is
// matched by the namespace and the name that the kubelet gives the pod (the
// manifest's name, "-", the node's name in lower case), and only for a sandbox of
// which the kubelet itself says that its pod came from a file: it sets the
// annotation kubernetes.io/config.source on every pod, over whatever a user wrote.
// A mirror pod of the same name carries the UID and goes before the manifest, which
// may have changed since.
package watch

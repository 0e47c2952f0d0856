// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads a cluster from the API server and from the manifests that replace it: the pods
// of one node by UID ([Pods]), and the objects that the names of the cluster follow from ([Syncer],
// [Directories]). Both reduce an object to the fields that they need as soon as it is decoded.
//
// [NewClient] exists because client-go's clientset registers all types of every API group: 12 MB of
// the binary and 8 MB of memory. Here the caller names the group and the types.
//
// # Pods
//
// A request for a sandbox carries neither the pod's dnsPolicy nor its dnsConfig, and a lookup must not
// delay the start of a pod for more than a fixed time. A name does not identify a pod: a pod of a
// StatefulSet is created again under the same name with another specification.
//
// The kubelet computes the UID of a static pod as a hash of its internal representation of the
// manifest, which no other program can compute. So a manifest is matched by the namespace and the name
// that the kubelet gives the pod (the manifest's name, "-", the node's name in lower case), and only
// for a sandbox whose annotation kubernetes.io/config.source says that its pod came from a file: the
// kubelet overwrites what a user wrote there. The manifest takes precedence over a mirror pod of the
// same name: everyone who may create pods in the namespace can create the mirror pod, and webhooks
// change it.
//
// # Names
//
// The zone is the only store. One goroutine writes it, and applies all events that are waiting in one
// edit. The zone is loaded when a complete list of every resource has arrived, and not before: what is
// built from their parts until then is not published. It keeps its names while the API server is
// unreachable. A server that starts without the API server reads the [Snapshot] that an earlier process
// wrote, and marks the zone as stale; each resource is then replaced as a whole when its first list is
// complete, so that no name is missing in between. A snapshot is used as a whole or not at all: no answer
// is better than one of another cluster.
//
// Objects and parts of objects that cannot have a name, such as labels of more than 63 bytes, are left
// out and logged. The API server rejects all of them; manifests may contain them.
package cluster

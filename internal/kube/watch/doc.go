// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch finds the pods of one node by their UIDs.
//
// It exists because a request for a sandbox carries neither the pod's dnsPolicy nor its
// dnsConfig, and because a lookup must not delay the start of a pod for more than a fixed
// time. A pod that the API server has announced costs no call. A name does not identify a
// pod: a StatefulSet's pod is recreated under the same name with another specification.
//
// A [Pods] keeps the fields of each pod of the node that decide its DNS: a few hundred bytes, at most
// 16 KiB. They come from a list and watch like the kubelet's, and from the kubelet's directory of
// static pods, which must start while there is no API server.
//
// # Static pods
//
// The kubelet computes the UID of a static pod as a hash of its internal representation of
// the manifest, which no other program can compute. So a manifest is matched by the
// namespace and the name that the kubelet gives the pod (the manifest's name, "-", the
// node's name in lower case), and only for a sandbox of which the kubelet itself says that
// its pod came from a file: it sets the annotation kubernetes.io/config.source on every
// pod and overwrites what a user wrote there. The manifest takes precedence over a mirror pod
// of the same name, although the manifest may be newer than the kubelet's copy: everyone who
// may create pods in the namespace can create the mirror pod, and webhooks change it.
package watch

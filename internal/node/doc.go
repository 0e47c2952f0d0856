// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package node is the agent of a node: it receives the sandboxes of the container runtime from the NRI relay
// or the shim, and writes the decisions of the policy engine into their resolv.conf. Each
// sandbox has a [State], which only the table of transitions changes.
//
// Pods are decided again when the host's resolv.conf, the settings or their annotations change,
// and the files of those that follow changes are rewritten in place, at a limited rate. All files
// are verified on a timer. A file is rewritten only if it had the kubelet's text before, that of a
// decision, or that of a previous process, and not after a change by the pod.
//
// The events of a relay or a shim are processed by [Applier.Handle]. With a relay the pod of a sandbox is
// looked up when the sandbox starts, a few milliseconds before its first container is created. If it is
// found in time, the file is written before a container reads it. If not, the container starts with the
// kubelet's file, which is replaced when the pod is found: outcome late. The runtime never waits
// for a lookup. The shim has edited the request that created the sandbox, and its files only
// follow changes.
//
// There is no state file. The text that this program writes has the kubelet's text in its comments. A
// file that no container has written is known by its times: [podfile.File.IsAsCreated].
//
// A [Reporter] logs what the shim or the agent did with a sandbox, and sends an event on the pod if its DNS
// configuration was changed, or if the node facts forbid that.
//
// The kubelet has already computed DNS for the pod, so the unchanged file is always safe. It
// stays whenever something goes wrong, as in package cri.
package node

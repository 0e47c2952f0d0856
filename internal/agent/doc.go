// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the node agent: it receives the sandboxes of the container runtime from the
// NRI relay and writes the DNS configuration of the policy engine into their resolv.conf.
//
//	containerd, CRI-O --NRI--> relay --events--> Agent --> resolv.conf of the sandbox
//	                                               |
//	                                               +-- pods of the API server, host's resolv.conf
//
// The pod of a sandbox is looked up when the sandbox starts, a few milliseconds before its first
// container is created. If it is found in time, the file is written before a container reads
// it. If not, the container starts with the kubelet's file, which is replaced when the pod is
// found: outcome late. The runtime never waits for a lookup.
//
// The pods that are in its scope are decided again when the host's resolv.conf, the settings or
// their annotations change, and their files are rewritten in place, at a limited rate. All files
// are verified on a timer. A file is rewritten only if it had the kubelet's text before, or that
// of an agent, and not after a change by the pod.
//
// The kubelet has already computed DNS for the pod, so the unchanged file is always safe. It
// stays whenever something goes wrong, as in package cri.
package agent
